(class_definition name: (_) @name body: (_) @body) @type
(function_definition name: (_) @name body: (_) @body) @function
(decorated_definition definition: (class_definition name: (_) @name body: (_) @body)) @type
(decorated_definition definition: (function_definition name: (_) @name body: (_) @body)) @function
(comment) @leading
