//! The schemas of all wire types. Requests and responses differ: an optional field may be null in a request
//! and is never null in a response.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value};

use super::operation::SchemaFn;

pub(super) struct Schemas {
    requests: SchemaGenerator,
    responses: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let (requests, responses) = (settings.clone().for_deserialize(), settings.for_serialize());
        Self {
            requests: requests.with_transform(WithoutRustDetails).into_generator(),
            responses: responses
                .with_transform(NeverNull)
                .with_transform(WithoutRustDetails)
                .into_generator(),
        }
    }

    pub(super) fn request(&mut self, schema: SchemaFn) -> Value {
        schema(&mut self.requests).to_value()
    }

    pub(super) fn response(&mut self, schema: SchemaFn) -> Value {
        schema(&mut self.responses).to_value()
    }

    /// The named types that the schemas refer to.
    pub(super) fn definitions(mut self) -> Map<String, Value> {
        let mut definitions = self.requests.take_definitions(true);
        definitions.extend(self.responses.take_definitions(true));
        definitions
    }
}

/// Removes null defaults and the integer formats of Rust.
#[derive(Clone)]
struct WithoutRustDetails;

impl Transform for WithoutRustDetails {
    fn transform(&mut self, schema: &mut Schema) {
        if schema.get("default").is_some_and(Value::is_null) {
            schema.remove("default");
        }
        if schema.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
            schema.remove("format");
        }
        transform_subschemas(self, schema);
    }
}

/// Removes null from the optional fields of a response, which are left out instead.
#[derive(Clone)]
struct NeverNull;

impl Transform for NeverNull {
    fn transform(&mut self, schema: &mut Schema) {
        let required = schema.get("required").cloned().unwrap_or_default();
        let is_required =
            |name: &str| required.as_array().is_some_and(|names| names.iter().any(|other| other == name));
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            for (_, property) in properties.iter_mut().filter(|(name, _)| !is_required(name)) {
                drop_null(property);
            }
        }
        transform_subschemas(self, schema);
    }
}

fn drop_null(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = &choices[..] {
            let only = only.clone();
            schema.remove("anyOf");
            schema.extend(only);
        }
    }
}
