//! Filters as every dialect writes them: a field with one value, or with a list of which one must match.

use std::collections::{BTreeMap, BTreeSet};

use domain::{FilterField, Filters, Rejection};
use globset::GlobBuilder;
use serde_json::Value;

/// Reads the filters of a request.
pub(crate) fn decode(filters: BTreeMap<String, Value>) -> Result<Filters, Rejection> {
    let mut decoded = Filters::new();
    for (name, value) in filters {
        let field = filter_field(&name)?;
        let values = match value {
            Value::Null => continue,
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
            values.iter().try_for_each(|glob| check_glob(glob))?;
        }
        decoded.insert(field, values);
    }
    Ok(decoded)
}

fn filter_field(name: &str) -> Result<FilterField, Rejection> {
    Ok(match name {
        "repoUrl" => FilterField::RepoUrl,
        "filePath" => FilterField::FilePath,
        "language" => FilterField::Language,
        "collection" => FilterField::Collection,
        "title" => FilterField::Title,
        _ => match name.strip_prefix("metadata.").filter(|key| !key.is_empty()) {
            Some(key) => FilterField::Metadata(key.to_owned()),
            None => {
                return Err(Rejection::Invalid(format!(
                    "filters.{name} is not a filter; allowed: repoUrl, filePath, language, collection, title, metadata.KEY"
                )));
            }
        },
    })
}

fn filter_value(name: &str, value: Value) -> Result<String, Rejection> {
    match value {
        Value::String(value) => Ok(value),
        other => Err(Rejection::Invalid(format!(
            "filters.{name} is {other}; it must be a text or a list of texts"
        ))),
    }
}

fn check_glob(glob: &str) -> Result<(), Rejection> {
    let parsed = GlobBuilder::new(glob).literal_separator(true).build();
    parsed.map(drop).map_err(|error| Rejection::Invalid(format!("filters.filePath is not a glob: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(filters: &str) -> Result<Filters, Rejection> {
        decode(serde_json::from_str(filters).unwrap())
    }

    #[test]
    fn filters_are_fields_with_one_value_or_many() {
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
}
