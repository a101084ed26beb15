//! The schemas of everything that goes over the wire. What comes in and what goes out differ: what may be left out may
//! be null in a request, and never is in an answer.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value};

use super::call::Shape;

pub(super) struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let (requests, answers) = (settings.clone().for_deserialize(), settings.for_serialize());
        Self {
            requests: requests.with_transform(Plain).into_generator(),
            answers: answers.with_transform(NeverNull).with_transform(Plain).into_generator(),
        }
    }

    pub(super) fn request(&mut self, shape: Shape) -> Value {
        shape(&mut self.requests).to_value()
    }

    pub(super) fn answer(&mut self, shape: Shape) -> Value {
        shape(&mut self.answers).to_value()
    }

    /// The types that the others refer to, by name.
    pub(super) fn definitions(mut self) -> Map<String, Value> {
        let mut definitions = self.requests.take_definitions(true);
        definitions.extend(self.answers.take_definitions(true));
        definitions
    }
}

/// Without what says nothing to anybody but this language.
#[derive(Clone)]
struct Plain;

impl Transform for Plain {
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

/// A field of an answer that has no value is left out.
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
