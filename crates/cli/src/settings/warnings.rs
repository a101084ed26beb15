//! Warnings about valid settings: those that have no effect, and those with a new key.

use toml::{Table, Value};

use super::raw::RawSettings;
use super::{Environment, Settings};

/// Settings of backends that are not built: they are validated and have no effect.
const UNUSED: &[&str] = &["index.url", "index.api_key_env", "index.collection", "storage.url", "live.url"];

/// One sentence for each setting that has no effect or a new key.
pub(crate) fn warnings(settings: &Settings, raw: &RawSettings, environment: &Environment) -> Vec<String> {
    let defaults = Settings::resolve(&RawSettings::default(), environment).expect("the defaults are valid");
    let (given, defaults) = (table(settings), table(&defaults));
    let unused = UNUSED.iter().filter(|key| value(&given, key) != value(&defaults, key));
    let unused = unused.map(|key| format!("{key} ({}): nothing uses this setting yet", raw.origin(key)));
    let not_read = environment.keys().filter(|name| lacks_underscores(name, &defaults)).map(|name| {
        format!("{name} (environment variable): it is not read; settings are named WELLSPRING__SECTION__KEY")
    });
    raw.renamed.iter().map(ToString::to_string).chain(unused).chain(not_read).collect()
}

fn table(settings: &Settings) -> Table {
    Table::try_from(settings).expect("settings are tables of plain values, which TOML can write")
}

fn value<'t>(table: &'t Table, key: &str) -> Option<&'t Value> {
    match key.split_once('.') {
        Some((section, key)) => table.get(section)?.get(key),
        None => table.get(key),
    }
}

/// Whether one underscore stands where two should. Other variables with our prefix are not settings: orchestrators name
/// the addresses of services so (`WELLSPRING_SERVICE_HOST`).
fn lacks_underscores(name: &str, sections: &Table) -> bool {
    let name = name.to_ascii_lowercase();
    let Some(path) = name.strip_prefix("wellspring_") else { return false };
    sections.keys().any(|section| {
        path.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Flags, SettingsFile, SettingsSources, schema};
    use super::*;

    fn warnings_on(file: &str, variables: &[&str]) -> String {
        let file = SettingsFile { path: "test.toml".into(), text: file.to_owned() };
        let environment = variables.iter().map(|&name| (name.to_owned(), "1".to_owned())).collect();
        let flags = Flags::default();
        let sources = SettingsSources { file: Some(&file), environment: &environment, flags: &flags };
        let (settings, raw) = Settings::load(&sources).unwrap_or_else(|problems| panic!("{problems}"));
        warnings(&settings, &raw, &environment).join("\n")
    }

    #[test]
    fn a_setting_without_effect_is_reported_if_it_was_changed() {
        assert_eq!(warnings_on("[index]\nkind = 'embedded'\ncollection = 'rag_embedding'\n", &[]), "");
        let warnings = warnings_on("[limits]\nreaders = 5\n[index]\ncollection = 'mine'\n", &[]);
        let expected = "index.collection (test.toml, line 4): nothing uses this setting yet";
        assert_eq!(warnings, expected);
    }

    #[test]
    fn a_variable_with_too_few_underscores_is_reported() {
        let warnings = warnings_on("", &["WELLSPRING_LIMITS_READERS", "wellspring_data_dir"]);
        assert_eq!(warnings.lines().count(), 2, "{warnings}");
        assert!(
            warnings.starts_with("WELLSPRING_LIMITS_READERS (environment variable): it is not read"),
            "{warnings}"
        );
        assert_eq!(
            warnings_on("", &["WELLSPRING_SERVICE_HOST", "WELLSPRING_PORT", "WELLSPRING__LIMITS__READERS"]),
            ""
        );
    }

    #[test]
    fn every_unused_key_is_a_setting() {
        for key in UNUSED {
            assert!(schema::property(key).is_some(), "{key}");
        }
    }
}
