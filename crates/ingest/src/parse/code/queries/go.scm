(type_declaration (type_spec name: (_) @name)) @type
(function_declaration name: (_) @name body: (_)? @body) @function
(method_declaration name: (_) @name body: (_)? @body) @function
(comment) @leading
