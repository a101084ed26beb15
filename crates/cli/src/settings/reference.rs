//! The settings reference, `docs/settings.md`: generated from what the tables declare, so that it cannot go stale.
//! `make settings-reference` writes it.

use std::{env, fs};

use serde_json::Value;

use super::schema::schema;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");

const INTRODUCTION: &str = "\
# Settings

<!-- Generated from crates/cli/src/settings by `make settings-reference`. Do not edit. -->

Settings come from a TOML file (`--config FILE`, otherwise `wellspring/wellspring.toml` in the XDG config directory), then
from environment variables, then from flags; the later source wins. Every key has a default, so no file is needed. The
variable of `limits.readers` is `WELLSPRING__LIMITS__READERS`, with two underscores between the parts; a list in it is
`[\"a\", \"b\"]` or `a,b`. `wellspring config show` prints the settings in force, `wellspring config check` what is wrong
with them. All times are in seconds unless the key says otherwise.
";

#[test]
fn the_settings_reference_is_current() {
    let reference = reference();
    if env::var_os("WELLSPRING_WRITE_SETTINGS_REFERENCE").is_some() {
        fs::write(PATH, &reference).expect("the folder docs can be written to");
    }
    let committed = fs::read_to_string(PATH).expect("docs/settings.md is committed");
    assert!(committed == reference, "docs/settings.md is stale: run `make settings-reference`");
}

fn reference() -> String {
    let (tables, keys): (Vec<_>, Vec<_>) = sorted(schema()).into_iter().partition(|(_, it)| is_table(it));
    let mut text = INTRODUCTION.to_owned();
    text.push_str("\n## Top level\n\n");
    text.push_str(&rows(&keys));
    for (name, table) in tables {
        match table.get("additionalProperties").filter(|it| it.is_object()) {
            Some(named) => text.push_str(&section(&format!("[{name}.NAME]"), named)),
            None => text.push_str(&section(&format!("[{name}]"), table)),
        }
        for (key, property) in sorted(table) {
            if let Some(items) = property.get("items").filter(|items| items.get("properties").is_some()) {
                text.push_str(&section(&format!("[[{name}.{key}]]"), items));
            }
        }
    }
    text
}

fn section(title: &str, table: &Value) -> String {
    let about = description(table);
    let about = if about.is_empty() { about } else { format!("{about}\n\n") };
    format!("\n## `{title}`\n\n{about}{}", rows(&sorted(table)))
}

fn rows(keys: &[(&str, &Value)]) -> String {
    let row = |(key, property): &(&str, &Value)| {
        format!("| `{key}` | {} | {} | {} |\n", default(property), allowed(property), description(property))
    };
    let rows: String = keys.iter().map(row).collect();
    format!("| key | default | allowed | meaning |\n| --- | --- | --- | --- |\n{rows}")
}

/// The keys of a table, by their names: the order of declaration is not part of a schema.
fn sorted(table: &Value) -> Vec<(&str, &Value)> {
    let properties = table["properties"].as_object().into_iter().flatten();
    let mut sorted: Vec<_> = properties.map(|(key, property)| (key.as_str(), property)).collect();
    sorted.sort_by_key(|(key, _)| *key);
    sorted
}

fn is_table(property: &Value) -> bool {
    property.get("properties").is_some() || property["additionalProperties"].is_object()
}

fn description(property: &Value) -> String {
    property["description"].as_str().unwrap_or_default().replace('\n', " ")
}

/// The default as TOML; empty if there is none.
fn default(property: &Value) -> String {
    match &property["default"] {
        Value::Null => String::new(),
        // 60.0 seconds are typed as 60.
        Value::Number(number) => format!("`{}`", number.as_f64().unwrap_or_default()),
        other => format!("`{other}`"),
    }
}

fn allowed(property: &Value) -> String {
    let variants = variants(property);
    if !variants.is_empty() {
        let variant = |it: &&Value| match description(it) {
            about if about.is_empty() => format!("`{}`", it["const"]),
            about => format!("`{}`: {about}", it["const"]),
        };
        return variants.iter().map(variant).collect::<Vec<_>>().join("; ");
    }
    let kind = property["type"].as_str().or_else(|| property["type"][0].as_str()).unwrap_or_default();
    let bounds = match (&property["minimum"], &property["maximum"]) {
        (Value::Null, _) => String::new(),
        (least, Value::Null) => format!(", {least} or more"),
        (least, most) => format!(", {least} to {most}"),
    };
    let kind = match kind {
        "integer" => "whole number",
        "array" if property["items"].get("properties").is_some() => "list of tables",
        "array" => "list of texts",
        "string" => "text",
        other => other,
    };
    format!("{kind}{bounds}")
}

/// The variants of an enum, which an optional one has one level deeper.
fn variants(property: &Value) -> Vec<&Value> {
    let choices = property["oneOf"].as_array().or_else(|| property["anyOf"].as_array());
    let of = |choice| if choice_is_constant(choice) { vec![choice] } else { variants(choice) };
    choices.into_iter().flatten().flat_map(of).collect()
}

fn choice_is_constant(choice: &Value) -> bool {
    choice.get("const").is_some()
}
