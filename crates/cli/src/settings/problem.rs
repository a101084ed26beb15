//! What is wrong with the settings, told so that a person can mend it.

use std::error::Error;
use std::fmt;

use super::sources::Source;

/// One mistake: where it is and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The full path of the key; none if the file is not TOML.
    pub(super) key: Option<String>,
    /// Who set it.
    pub(super) source: Source,
    /// What was given and what is allowed.
    pub(super) message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{key} ({}): {}", self.source, self.message),
            None => write!(f, "{}: {}", self.source, self.message),
        }
    }
}

/// All mistakes; never none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problems(pub(super) Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(problems) = self;
        if let [problem] = problems.as_slice() {
            return problem.fmt(f);
        }
        write!(f, "there are {} mistakes in the settings:", problems.len())?;
        problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl Error for Problems {}
