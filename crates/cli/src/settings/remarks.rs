//! What an operator should know of settings that have no mistake in them: what was set in vain.

use toml::{Table, Value};

use super::tree::Tree;
use super::{Environment, Settings};

/// Settings that are read and checked, and that nothing uses yet.
const UNUSED: &[&str] = &["index.url", "index.api_key_env", "index.collection", "storage.url", "live.url"];

/// A sentence for everything that was set in vain.
pub(crate) fn remarks(settings: &Settings, tree: &Tree, environment: &Environment) -> Vec<String> {
    let defaults = Settings::resolve(&Tree::default(), environment).expect("the defaults have no mistake");
    let (given, defaults) = (table(settings), table(&defaults));
    let unused = UNUSED.iter().filter(|key| value(&given, key) != value(&defaults, key));
    let unused = unused.map(|key| format!("{key} ({}): nothing uses this setting yet", tree.source(key)));
    let not_read = environment.keys().filter(|name| lacks_underscores(name, &defaults)).map(|name| {
        format!("{name} (environment variable): it is not read; settings are named WELLSPRING__SECTION__KEY")
    });
    unused.chain(not_read).collect()
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

/// Whether one underscore stands where two should. Other names that begin like ours are not for us: where
/// services have names, an orchestrator tells their addresses so.
fn lacks_underscores(name: &str, sections: &Table) -> bool {
    let name = name.to_ascii_lowercase();
    let Some(path) = name.strip_prefix("wellspring_") else { return false };
    sections.keys().any(|section| {
        path.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Flags, SettingsFile, Sources};
    use super::*;

    fn remarks_on(file: &str, variables: &[&str]) -> String {
        let file = SettingsFile { path: "test.toml".into(), text: file.to_owned() };
        let environment = variables.iter().map(|&name| (name.to_owned(), "1".to_owned())).collect();
        let flags = Flags::default();
        let sources = Sources { file: Some(&file), environment: &environment, flags: &flags };
        let (settings, tree) = Settings::load(&sources).unwrap_or_else(|problems| panic!("{problems}"));
        remarks(&settings, &tree, &environment).join("\n")
    }

    #[test]
    fn what_nothing_uses_yet_is_told_if_it_was_changed() {
        assert_eq!(remarks_on(include_str!("../../../../docs/wellspring.example.toml"), &[]), "");
        let remarks = remarks_on("[limits]\nreaders = 5\n[index]\ncollection = 'mine'\n", &[]);
        let expected = "index.collection (test.toml, line 4): nothing uses this setting yet";
        assert_eq!(remarks, expected);
    }

    #[test]
    fn a_variable_with_too_few_underscores_is_told() {
        let remarks = remarks_on("", &["WELLSPRING_LIMITS_READERS", "wellspring_data_dir"]);
        assert_eq!(remarks.lines().count(), 2, "{remarks}");
        assert!(
            remarks.starts_with("WELLSPRING_LIMITS_READERS (environment variable): it is not read"),
            "{remarks}"
        );
        assert_eq!(
            remarks_on("", &["WELLSPRING_SERVICE_HOST", "WELLSPRING_PORT", "WELLSPRING__LIMITS__READERS"]),
            ""
        );
    }

    #[test]
    fn everything_that_is_unused_is_a_setting() {
        let settings = Settings::resolve(&Tree::default(), &Environment::new()).unwrap();
        for key in UNUSED.iter().filter(|key| !key.ends_with("url") && !key.ends_with("_env")) {
            assert!(value(&table(&settings), key).is_some(), "{key}");
        }
    }
}
