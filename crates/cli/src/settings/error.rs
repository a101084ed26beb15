//! What is wrong with the settings, in words that name the key, where it was set, and what is allowed.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::invalid_setting::InvalidSetting;
use super::sources::SettingOrigin;

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// The settings file cannot be read.
    #[error("the settings file {path} cannot be read: {source}", path = path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// At least one value is wrong.
    #[error("{}", all_of(.0))]
    Invalid(Vec<SettingProblem>),
}

/// One value that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettingProblem {
    /// The full path of the key; `None` if the file is not TOML.
    pub(super) key: Option<String>,
    pub(super) origin: SettingOrigin,
    pub(super) why: InvalidSetting,
}

impl fmt::Display for SettingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{key} ({}): {}", self.origin, self.why),
            None => write!(f, "{}: {}", self.origin, self.why),
        }
    }
}

fn all_of(problems: &[SettingProblem]) -> String {
    if let [problem] = problems {
        return problem.to_string();
    }
    let lines = problems.iter().map(|problem| format!("\n  {problem}"));
    format!("there are {} mistakes in the settings:{}", problems.len(), lines.collect::<String>())
}
