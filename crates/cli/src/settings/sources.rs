//! Where settings come from. Each source overrules the ones before it: file, environment, flags.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directories;
use super::error::SettingsError;

/// The environment, as it was when the program started.
pub(crate) type Environment = BTreeMap<String, String>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct SettingsSources<'a> {
    pub(crate) file: Option<&'a SettingsFile>,
    pub(crate) environment: &'a Environment,
    pub(crate) flags: &'a Flags,
}

/// The flags that are settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    /// `--bind`: overrules `server.bind`.
    pub(crate) bind: Option<String>,
}

/// A settings file and its text.
#[derive(Clone, Debug)]
pub(crate) struct SettingsFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl SettingsFile {
    /// Reads the named file; without a name the one in the user's configuration directory, which need not exist.
    pub(crate) fn read(
        named: Option<&Path>,
        environment: &Environment,
    ) -> Result<Option<Self>, SettingsError> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => match directories::settings_file(environment).filter(|path| path.exists()) {
                Some(path) => path,
                None => return Ok(None),
            },
        };
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(Self { path, text })),
            Err(source) => Err(SettingsError::Unreadable { path, source }),
        }
    }
}

/// Where one setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingOrigin {
    /// No source sets it.
    Default,
    /// A line of the settings file, counted from 1.
    File(Arc<Path>, usize),
    /// An environment variable.
    Environment(String),
    /// A flag.
    Flag(&'static str),
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}, line {line}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_must_exist_and_the_default_one_need_not() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing.toml");
        let message = SettingsFile::read(Some(&missing), &Environment::new()).unwrap_err().to_string();
        assert!(message.contains("missing.toml"), "{message}");

        let home = directory.path().display().to_string();
        let environment = Environment::from([("XDG_CONFIG_HOME".to_owned(), home)]);
        assert!(SettingsFile::read(None, &environment).unwrap().is_none());

        let path = directory.path().join("wellspring/wellspring.toml");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "[server]\n").unwrap();
        let file = SettingsFile::read(None, &environment).unwrap().unwrap();
        assert_eq!((file.path, file.text), (path, "[server]\n".to_owned()));
    }
}
