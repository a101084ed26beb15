//! Filters of requests: each field has one value, or a list of which one must match.

use std::collections::{BTreeMap, BTreeSet};

use domain::{FilterField, Filters, Rejection};
use globset::{GlobBuilder, GlobSet};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Upper bound on the fields of a request's filters, and on the values of one list.
const MAX_ENTRIES: usize = 100;

/// Upper bound on the characters of a value: more than any path or address has.
const MAX_CHARS: usize = 2000;

/// A dialect's names of filter fields, beside `metadata.KEY`.
pub(crate) type Names = [(&'static str, FilterField)];

/// The names of document fields.
pub(crate) const DOCUMENT: [(&str, FilterField); 5] = [
    ("repoUrl", FilterField::RepoUrl),
    ("filePath", FilterField::FilePath),
    ("language", FilterField::Language),
    ("collection", FilterField::Collection),
    ("title", FilterField::Title),
];

/// The JSON Schema of filters over document fields.
pub(crate) fn document_schema(_: &mut SchemaGenerator) -> Schema {
    schema(&DOCUMENT)
}

/// The JSON Schema of what [`decode`] accepts.
pub(crate) fn schema(names: &Names) -> Schema {
    let text = json!({"type": "string", "minLength": 1, "maxLength": MAX_CHARS});
    let value = json!({
        "anyOf": [text, {"type": "array", "items": text, "minItems": 1, "maxItems": MAX_ENTRIES}, {"type": "null"}],
    });
    let properties: Map<_, _> = names.iter().map(|(name, _)| ((*name).to_owned(), value.clone())).collect();
    schemars::json_schema!({
        "type": ["object", "null"],
        "properties": properties,
        "patternProperties": {r"^metadata\..": value},
        "additionalProperties": false,
        "maxProperties": MAX_ENTRIES,
    })
}

/// Decodes the filters of a request.
pub(crate) fn decode(filters: BTreeMap<String, Value>, names: &Names) -> Result<Filters, Rejection> {
    if filters.len() > MAX_ENTRIES {
        let fields = filters.len();
        return Err(Rejection::Invalid(format!("filters has {fields} fields; it may have {MAX_ENTRIES}")));
    }
    let mut decoded = Filters::new();
    for (name, value) in filters {
        let field = filter_field(&name, names)?;
        let values = match value {
            Value::Null => continue,
            Value::Array(values) if values.len() > MAX_ENTRIES => {
                let count = values.len();
                return Err(Rejection::Invalid(format!(
                    "filters.{name} has {count} values; it may have {MAX_ENTRIES}"
                )));
            }
            Value::Array(values) => {
                values.into_iter().map(|value| filter_value(&name, value)).collect::<Result<_, _>>()?
            }
            other => BTreeSet::from([filter_value(&name, other)?]),
        };
        if values.is_empty() || values.contains("") {
            return Err(Rejection::Invalid(format!(
                "filters.{name} is empty: give a text, or leave the filter out"
            )));
        }
        if field == FilterField::FilePath {
            check_globs(&values)?;
        }
        decoded.insert(field, values);
    }
    Ok(decoded)
}

fn filter_field(given: &str, names: &Names) -> Result<FilterField, Rejection> {
    if let Some((_, field)) = names.iter().find(|(name, _)| *name == given) {
        return Ok(field.clone());
    }
    match given.strip_prefix("metadata.").filter(|key| !key.is_empty()) {
        Some(key) => Ok(FilterField::Metadata(key.to_owned())),
        None => {
            let allowed: String = names.iter().map(|(name, _)| format!("{name}, ")).collect();
            Err(Rejection::Invalid(format!(
                "filters.{given} is not a filter; allowed: {allowed}metadata.KEY"
            )))
        }
    }
}

fn filter_value(name: &str, value: Value) -> Result<String, Rejection> {
    match value {
        Value::String(value) if value.chars().nth(MAX_CHARS).is_some() => {
            Err(Rejection::Invalid(format!("filters.{name} has a text of more than {MAX_CHARS} characters")))
        }
        Value::String(value) => Ok(value),
        other => Err(Rejection::Invalid(format!(
            "filters.{name} is {other}; it must be a text or a list of texts"
        ))),
    }
}

/// Compiles the globs as a search does: a list may be too large even if each of its globs is valid.
fn check_globs(globs: &BTreeSet<String>) -> Result<(), Rejection> {
    let wrong = |error| Rejection::Invalid(format!("filters.filePath is not a glob: {error}"));
    let mut set = GlobSet::builder();
    for glob in globs {
        set.add(GlobBuilder::new(glob).literal_separator(true).build().map_err(wrong)?);
    }
    let too_large = |error| {
        Rejection::Invalid(format!(
            "filters.filePath is too much at once, give fewer or simpler globs: {error}"
        ))
    };
    set.build().map(drop).map_err(too_large)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(filters: &str) -> Result<Filters, Rejection> {
        decode(serde_json::from_str(filters).unwrap(), &DOCUMENT)
    }

    #[test]
    fn a_filter_has_one_value_or_a_list() {
        let filters =
            check(r#"{"repoUrl":"r","filePath":["src/**","*.md"],"metadata.team":"core","title":null}"#)
                .unwrap();
        assert_eq!(filters.len(), 3);
        assert_eq!(filters[&FilterField::FilePath].len(), 2);
        assert!(filters[&FilterField::Metadata("team".to_owned())].contains("core"));
    }

    #[test]
    fn a_bad_filter_is_named() {
        for (filters, named) in [
            (r#"{"repo":"x"}"#, "filters.repo is not a filter"),
            (r#"{"metadata.":"x"}"#, "filters.metadata. is not"),
            (r#"{"title":[]}"#, "filters.title is empty"),
            (r#"{"title":""}"#, "filters.title is empty"),
            (r#"{"title":5}"#, "filters.title is 5"),
            (r#"{"title":["a",5]}"#, "filters.title is 5"),
            (r#"{"filePath":"src/["}"#, "filters.filePath is not a glob"),
        ] {
            let Err(Rejection::Invalid(message)) = check(filters) else { panic!("{filters} is accepted") };
            assert!(message.contains(named), "{filters}: {message}");
        }
    }

    #[test]
    fn filters_are_bounded_and_a_field_over_its_bound_is_named() {
        let values = |count: usize| (0..count).map(|number| format!("{number}/**")).collect::<Vec<_>>();
        let nested = format!("{}a{}", "{".repeat(999), "}".repeat(999));
        let classes: Vec<_> = (0..100).map(|number| format!("{number}{}", "{**/x,?}".repeat(240))).collect();
        for (filters, named) in [
            (json!({"filePath": values(101)}), "filters.filePath has 101 values; it may have 100"),
            (json!({"title": values(5000)}), "filters.title has 5000 values"),
            (json!({"title": "é".repeat(2001)}), "filters.title has a text of more than 2000"),
            (json!({"filePath": nested}), "filters.filePath is too much at once"),
            (json!({"filePath": classes}), "filters.filePath is too much at once"),
            (
                Value::from_iter((0..101).map(|key| (format!("metadata.{key}"), "x"))),
                "filters has 101 fields",
            ),
        ] {
            let Err(Rejection::Invalid(message)) = check(&filters.to_string()) else { panic!("{named}") };
            assert!(message.contains(named), "{named}: {message:.200}");
        }
        assert!(check(&json!({"filePath": values(100), "title": "é".repeat(2000)}).to_string()).is_ok());
    }
}
