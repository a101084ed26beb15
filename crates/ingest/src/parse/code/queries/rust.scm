(mod_item name: (_) @name body: (_) @body) @namespace
(impl_item type: [
  (generic_type type: (_) @name)
  (array_type) @name
  (dynamic_type) @name
  (function_type) @name
  (pointer_type) @name
  (primitive_type) @name
  (reference_type) @name
  (scoped_type_identifier) @name
  (tuple_type) @name
  (type_identifier) @name
] body: (_) @body) @type
(trait_item name: (_) @name body: (_) @body) @type
(struct_item name: (_) @name body: (_)? @body) @type
(enum_item name: (_) @name body: (_) @body) @type
(union_item name: (_) @name body: (_) @body) @type
(function_item name: (_) @name body: (_) @body) @function
(function_signature_item name: (_) @name) @function
(macro_definition name: (_) @name) @function
[(line_comment) (block_comment) (attribute_item)] @leading
