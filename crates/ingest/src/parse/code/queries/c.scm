(struct_specifier name: (_) @name body: (_) @body) @type
(union_specifier name: (_) @name body: (_) @body) @type
(enum_specifier name: (_) @name body: (_) @body) @type
(type_definition type: [(struct_specifier body: (_) @body) (union_specifier body: (_) @body) (enum_specifier body: (_) @body)] declarator: (type_identifier) @name) @type
(function_definition declarator: (function_declarator declarator: (_) @name) body: (_) @body) @function
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name)) body: (_) @body) @function
(function_definition declarator: (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name))) body: (_) @body) @function
(comment) @leading
