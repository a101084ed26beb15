(namespace_declaration name: (_) @name body: (_) @body) @namespace
(class_declaration name: (_) @name body: (_) @body) @type
(struct_declaration name: (_) @name body: (_) @body) @type
(interface_declaration name: (_) @name body: (_) @body) @type
(record_declaration name: (_) @name body: (_)? @body) @type
(enum_declaration name: (_) @name body: (_) @body) @type
(delegate_declaration name: (_) @name) @type
(method_declaration name: (_) @name body: (_)? @body) @function
(constructor_declaration name: (_) @name body: (_)? @body) @function
(destructor_declaration name: (_) @name body: (_)? @body) @function
(local_function_statement name: (_) @name body: (_)? @body) @function
(property_declaration name: (_) @name accessors: (_) @body) @function
(comment) @leading
