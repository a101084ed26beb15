(class_declaration name: (_) @name body: (_) @body) @type
(interface_declaration name: (_) @name body: (_) @body) @type
(enum_declaration name: (_) @name body: (_) @body) @type
(record_declaration name: (_) @name body: (_) @body) @type
(annotation_type_declaration name: (_) @name body: (_) @body) @type
(method_declaration name: (_) @name body: (_)? @body) @function
(constructor_declaration name: (_) @name body: (_) @body) @function
(compact_constructor_declaration name: (_) @name body: (_) @body) @function
[(line_comment) (block_comment)] @leading
