(internal_module name: (_) @name body: (_) @body) @namespace
(module name: (_) @name body: (_) @body) @namespace
(class_declaration name: (_) @name body: (_) @body) @type
(abstract_class_declaration name: (_) @name body: (_) @body) @type
(interface_declaration name: (_) @name body: (_) @body) @type
(enum_declaration name: (_) @name body: (_) @body) @type
(type_alias_declaration name: (_) @name) @type
(export_statement declaration: [
  (class_declaration name: (_) @name body: (_) @body)
  (abstract_class_declaration name: (_) @name body: (_) @body)
  (interface_declaration name: (_) @name body: (_) @body)
  (enum_declaration name: (_) @name body: (_) @body)
  (type_alias_declaration name: (_) @name)
]) @type
(function_declaration name: (_) @name body: (_) @body) @function
(generator_function_declaration name: (_) @name body: (_) @body) @function
(export_statement declaration: [
  (function_declaration name: (_) @name body: (_) @body)
  (generator_function_declaration name: (_) @name body: (_) @body)
]) @function
(method_definition name: (_) @name body: (_) @body) @function
(abstract_method_signature name: (_) @name) @function
(lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function
(export_statement declaration: (lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]))) @function
[(comment) (decorator)] @leading
