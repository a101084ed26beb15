//! Settings with a new key: the old one is accepted for one release, with a warning that names the new one.

use std::fmt;

use super::raw::RawSettings;
use super::sources::SettingOrigin;

/// Old and new keys.
const RENAMED: &[(&str, &str)] = &[
    ("models.kept_memory_bytes", "models.prefix_cache_memory_bytes"),
    ("models.kept_disk_bytes", "models.prefix_cache_disk_bytes"),
];

/// A value that was given under its old key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RenamedSetting {
    old: &'static str,
    new: &'static str,
    origin: SettingOrigin,
}

impl fmt::Display for RenamedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { old, new, origin } = self;
        write!(
            f,
            "{old} ({origin}): this setting is called {new} now; the next release no longer accepts the old name"
        )
    }
}

/// Moves values from old keys to new ones. A value under the new key wins.
pub(super) fn rename(raw: &mut RawSettings) {
    rename_all(raw, RENAMED);
}

fn rename_all(raw: &mut RawSettings, renamed: &[(&'static str, &'static str)]) {
    for &(old, new) in renamed {
        let (from, to): (Vec<_>, Vec<_>) = (old.split('.').collect(), new.split('.').collect());
        if let Some(node) = raw.remove(&from) {
            raw.renamed.push(RenamedSetting { old, new, origin: node.origin.clone() });
            raw.insert_if_absent(&to, node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Environment, Flags, Settings, SettingsFile, SettingsSources};
    use super::*;

    const OLD_AND_NEW: &[(&str, &str)] = &[("models.shelf", "models.dir")];

    fn renamed(file: &str) -> RawSettings {
        let file = SettingsFile { path: "test.toml".into(), text: file.to_owned() };
        let (environment, flags) = (Environment::new(), Flags::default());
        let sources = SettingsSources { file: Some(&file), environment: &environment, flags: &flags };
        let mut raw = RawSettings::merge(&sources).unwrap_or_else(|error| panic!("{error}"));
        rename_all(&mut raw, OLD_AND_NEW);
        raw
    }

    #[test]
    fn a_value_under_an_old_key_is_moved_with_its_origin_and_a_warning() {
        let raw = renamed("[models]\nshelf = '/a'\n");
        assert_eq!(raw.origin("models.dir").to_string(), "test.toml, line 2");
        assert_eq!(raw.origin("models.shelf"), SettingOrigin::Default);
        assert_eq!(
            raw.renamed[0].to_string(),
            "models.shelf (test.toml, line 2): this setting is called models.dir now; the next release no longer \
             accepts the old name"
        );
    }

    #[test]
    fn a_value_under_the_new_key_wins() {
        let raw = renamed("[models]\nshelf = '/a'\ndir = '/b'\n");
        assert_eq!(raw.origin("models.dir").to_string(), "test.toml, line 3");
        assert_eq!(raw.renamed.len(), 1);
        assert_eq!(renamed("[models]\ndir = '/b'\n").renamed, []);
    }

    #[test]
    fn the_new_keys_are_settings() {
        let environment = [
            ("WELLSPRING__MODELS__KEPT_MEMORY_BYTES".to_owned(), "5".to_owned()),
            ("WELLSPRING__MODELS__KEPT_DISK_BYTES".to_owned(), "7".to_owned()),
        ];
        let (environment, flags) = (Environment::from(environment), Flags::default());
        let sources = SettingsSources { file: None, environment: &environment, flags: &flags };
        let (settings, raw) = Settings::load(&sources).unwrap_or_else(|error| panic!("{error}"));
        let models = settings.models;
        assert_eq!((models.prefix_cache_memory_bytes, models.prefix_cache_disk_bytes), (5, 7));
        assert_eq!(raw.renamed.len(), RENAMED.len());
    }
}
