//! JSON schemas in words.

use serde_json::Value;

use super::html::{Html, escape, prose, text};

/// The type of a value, in a few words.
pub(super) fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
        let name = escape(name);
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    if let Some(content) = schema["properties"]["data"].get("contentSchema") {
        return format!("events of {}", kind(content));
    }
    if let Some(choices) = choices(schema) {
        let choices: Vec<_> = choices.iter().map(kind).filter(|choice| choice != "null").collect();
        return choices.join(" or ");
    }
    if let Some(constant) = schema.get("const") {
        return format!("<code>{}</code>", escape(&constant.to_string()));
    }
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().filter(|value| !value.is_null());
        let values: Vec<_> =
            values.map(|value| format!("<code>{}</code>", escape(&value.to_string()))).collect();
        return values.join(" | ");
    }
    let name = match name_of_type(&schema["type"]) {
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" => match &schema["additionalProperties"] {
            values @ Value::Object(_) => format!("object of {}", kind(values)),
            _ => "object".to_owned(),
        },
        "string" => {
            text(schema.get("format").unwrap_or(&schema["type"])).replace("null", "").trim().to_owned()
        }
        other => other.to_owned(),
    };
    let name = if name.is_empty() { "string".to_owned() } else { name };
    format!("{name}{}", bounds(schema))
}

/// Appends a table of the fields of an object, or one for each of its variants.
pub(super) fn fields(page: &mut Html, schema: &Value) {
    let is_required = |name: &str| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
    };
    match schema["properties"].as_object() {
        Some(properties) => {
            page.raw("<table>");
            for (name, property) in properties {
                let mark = if is_required(name) { "" } else { " <small>optional</small>" };
                let name = format!("<code>{}</code>{mark}", escape(name));
                page.row(&[name, kind(property), prose(&property["description"])]);
            }
            page.raw("</table>");
        }
        None if choices(schema)
            .is_none_or(|choices| choices.iter().all(|choice| choice["properties"].is_null())) =>
        {
            page.element("p", &kind(schema));
        }
        None => {}
    }
    for choice in choices(schema).into_iter().flatten().filter(|choice| choice["properties"].is_object()) {
        page.element("p", &prose(&choice["description"]));
        fields(page, choice);
    }
}

/// The first example of a schema.
pub(super) fn example<'a>(document: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#'))?,
        None => schema,
    };
    schema["examples"].get(0)
}

fn choices(schema: &Value) -> Option<&Vec<Value>> {
    schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array())
}

/// The name of a type; of a list of types, the first that is not null.
fn name_of_type(kind: &Value) -> &str {
    match kind {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        other => other.as_str(),
    }
    .unwrap_or("anything")
}

fn bounds(schema: &Value) -> String {
    let bounds = [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "characters at least"),
        ("maxLength", "characters at most"),
        ("minItems", "entries at least"),
        ("maxItems", "entries at most"),
        ("default", "default"),
        ("pattern", "pattern"),
    ];
    let found = bounds.into_iter().filter_map(|(keyword, words)| {
        let bound = schema.get(keyword)?;
        Some(format!("<br><small>{words} <code>{}</code></small>", escape(&bound.to_string())))
    });
    found.collect()
}
