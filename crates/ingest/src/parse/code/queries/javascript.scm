(class_declaration name: (_) @name body: (_) @body) @type
(export_statement declaration: (class_declaration name: (_) @name body: (_) @body)) @type
(function_declaration name: (_) @name body: (_) @body) @function
(generator_function_declaration name: (_) @name body: (_) @body) @function
(export_statement declaration: (function_declaration name: (_) @name body: (_) @body)) @function
(export_statement declaration: (generator_function_declaration name: (_) @name body: (_) @body)) @function
(method_definition name: (_) @name body: (_) @body) @function
(lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function
(variable_declaration (variable_declarator name: (identifier) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function
(export_statement declaration: (lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]))) @function
(expression_statement (assignment_expression left: (member_expression) @name right: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function
(comment) @leading
