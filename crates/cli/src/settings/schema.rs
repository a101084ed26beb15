//! What the tables declare about each key, as a JSON Schema: the bounds that the validator enforces are the ones that the
//! reference documents.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::SettingsTables;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<SettingsTables>().to_value()
});

/// The schema of all tables, without references.
pub(super) fn schema() -> &'static Value {
    &SCHEMA
}

/// The bounds of a number, both inclusive.
pub(super) fn bounds(key: &str) -> (f64, f64) {
    let declared = |bound: &str| property(key)?.get(bound)?.as_f64();
    (declared("minimum").unwrap_or(0.0), declared("maximum").unwrap_or(f64::MAX))
}

/// The bounds of a whole number, both inclusive.
pub(super) fn whole_bounds(key: &str) -> (u64, u64) {
    let declared = |bound: &str| property(key)?.get(bound)?.as_u64();
    (declared("minimum").unwrap_or(0), declared("maximum").unwrap_or(u64::MAX))
}

/// The declaration of a key such as `limits.readers` or `providers.local.context_window`.
pub(super) fn property(key: &str) -> Option<&'static Value> {
    // A provider's name may have dots; it is refused later, with its values checked.
    let parts = match key.strip_prefix("providers.").and_then(|rest| rest.rsplit_once('.')) {
        Some((name, part)) => vec!["providers", name, part],
        None => key.split('.').collect(),
    };
    parts.into_iter().try_fold(schema(), |table, part| {
        let named = table.get("properties").and_then(|properties| properties.get(part));
        named.or_else(|| table.get("additionalProperties"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_declares_its_bounds() {
        fn check(table: &Value, path: &str) {
            let tables = table["properties"].as_object().into_iter().flatten();
            for (key, property) in tables {
                let key = format!("{path}{key}");
                let kind = property["type"].to_string();
                if kind.contains("integer") || kind.contains("number") {
                    let is_seed = key.ends_with(".seed");
                    assert!(is_seed || property["maximum"].is_number(), "{key} has no maximum: {property}");
                    assert!(property["minimum"].is_number(), "{key} has no minimum: {property}");
                }
                check(property, &format!("{key}."));
                check(&property["additionalProperties"], &format!("{key}.NAME."));
            }
        }
        check(schema(), "");
        assert_eq!(whole_bounds("providers.any-name.context_window"), (256, 100_000_000));
        assert_eq!(bounds("server.head_seconds"), (0.001, 31_536_000.0));
        assert_eq!(bounds("providers.a.b.connect_seconds"), bounds("providers.a.connect_seconds"));
        assert!(bounds("providers.a.b.connect_seconds").1 < f64::MAX);
    }
}
