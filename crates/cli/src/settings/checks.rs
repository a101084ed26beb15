//! The second step: what was read must also make sense. A check gives the value; or it notes a problem and
//! gives some value that nobody will see, for with a problem there are no settings. So all problems are found.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serializer;
use url::{ParseError, Url};

use super::Environment;
use super::problem::Problem;
use super::secret::{Secret, SecretUrl, shown};
use super::tree::Tree;

/// A year: long enough for everybody and short enough to add to any clock.
const LONGEST_SECONDS: f64 = 31_536_000.0;

/// For durations of which zero would make no sense.
pub(super) const SOME_TIME: RangeInclusive<f64> = 0.001..=LONGEST_SECONDS;

/// For durations that may be zero.
pub(super) const ANY_TIME: RangeInclusive<f64> = 0.0..=LONGEST_SECONDS;

/// What all checks share.
pub(super) struct Checks<'a> {
    pub(super) environment: &'a Environment,
    tree: &'a Tree,
    problems: Vec<Problem>,
}

impl<'a> Checks<'a> {
    /// Checks that go on from the problems found while reading.
    pub(super) fn new(tree: &'a Tree, environment: &'a Environment, problems: Vec<Problem>) -> Self {
        Self { environment, tree, problems }
    }

    /// All problems found.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// Notes a problem. A key that could not be read has its default here, so nothing more is said of it.
    pub(super) fn refuse(&mut self, key: &str, message: impl Into<String>) {
        if self.problems.iter().any(|problem| problem.key.as_deref() == Some(key)) {
            return;
        }
        let source = self.tree.source(key);
        self.problems.push(Problem { key: Some(key.to_owned()), source, message: message.into() });
    }

    /// The value, or none and its problem noted.
    pub(super) fn keep<T>(&mut self, key: &str, checked: Result<T, String>) -> Option<T> {
        checked.map_err(|message| self.refuse(key, message)).ok()
    }

    /// A whole number in a range.
    pub(super) fn number<N: TryFrom<u64> + Default>(
        &mut self,
        key: &str,
        value: u64,
        allowed: RangeInclusive<u64>,
    ) -> N {
        let number = N::try_from(value).ok().filter(|_| allowed.contains(&value));
        self.keep(key, number.ok_or_else(|| out_of_range(value, &allowed))).unwrap_or_default()
    }

    /// A number in a range.
    pub(super) fn decimal(&mut self, key: &str, value: f64, allowed: RangeInclusive<f64>) -> f64 {
        let number = Some(value).filter(|value| allowed.contains(value));
        self.keep(key, number.ok_or_else(|| out_of_range(value, &allowed))).unwrap_or_default()
    }

    /// A duration in a range.
    pub(super) fn seconds(&mut self, key: &str, value: f64, allowed: RangeInclusive<f64>) -> Duration {
        Duration::from_secs_f64(self.decimal(key, value, allowed))
    }

    /// A name or the like: one line that is not empty.
    pub(super) fn line(&mut self, key: &str, text: Option<String>) -> Option<String> {
        let text = text?;
        if text.trim().is_empty() || text.contains(char::is_control) {
            self.refuse(key, format!("{text:?} is not one line of text; leave the key out if there is none"));
        }
        Some(text)
    }

    /// A folder, which need not exist.
    pub(super) fn folder(&mut self, key: &str, path: Option<String>, default: PathBuf) -> PathBuf {
        let Some(path) = self.line(key, path) else { return default };
        if path.starts_with('~') {
            let why = "starts with ~, which only a shell understands; allowed is a path";
            self.refuse(key, format!("{path:?} {why}"));
        }
        PathBuf::from(path)
    }

    /// A URL of one of these schemes. What is no URL is not repeated: a password may be in it.
    pub(super) fn url(&mut self, key: &str, text: Option<String>, schemes: &[&str]) -> Option<SecretUrl> {
        let text = text?;
        let allowed =
            schemes.iter().map(|scheme| format!("{scheme}://host")).collect::<Vec<_>>().join(" or ");
        let checked = match Url::parse(&text) {
            Ok(url) if schemes.contains(&url.scheme()) && url.has_host() => Ok(SecretUrl::new(url)),
            Ok(_) => Err(format!("{} is not a URL that fits; allowed is {allowed}", shown(&text))),
            Err(ParseError::RelativeUrlWithoutBase) => {
                Err(format!("there is no :// in it, so it is not a URL; allowed is {allowed}"))
            }
            Err(error) => Err(format!("this is not a URL ({error}); allowed is {allowed}")),
        };
        self.keep(key, checked)
    }

    /// The address of a server: http or https, without user, query and fragment, nor a slash at its end.
    pub(super) fn base_url(&mut self, key: &str, text: Option<String>) -> Option<String> {
        let url = self.url(key, text, &["http", "https"])?;
        let parsed = url.expose();
        if !parsed.username().is_empty() || parsed.password().is_some() {
            self.refuse(key, "there is a user name or password in it; keys are given by api_key_env");
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            let why = "has a query or fragment; allowed is http(s)://host[:port][/path]";
            self.refuse(key, format!("{url} {why}"));
        }
        Some(parsed.as_str().trim_end_matches('/').to_owned())
    }

    /// The name of an environment variable. What is no name is not repeated: it may be the key itself.
    pub(super) fn variable(&mut self, key: &str, name: Option<String>) -> Option<String> {
        let part_of_a_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let is_name = |name: &String| !name.is_empty() && name.chars().all(part_of_a_name);
        let checked = Some(name?).filter(is_name).ok_or_else(|| {
            "this is not the name of an environment variable; put the key into a variable and its name here, \
             such as OPENAI_API_KEY"
                .to_owned()
        });
        self.keep(key, checked)
    }

    /// The secret in an environment variable, to be sent in an HTTP header.
    pub(super) fn secret(&mut self, key: &str, variable: &str) -> Option<Secret> {
        let checked = match self.environment.get(variable).map(|secret| secret.trim()) {
            None | Some("") => {
                Err(format!("the environment variable {variable} is not set, or empty; set it to the key"))
            }
            Some(secret) if !secret.chars().all(|letter| letter.is_ascii_graphic()) => Err(format!(
                "the environment variable {variable} holds characters that a key cannot have; \
                 allowed are visible ASCII characters"
            )),
            Some(secret) => Ok(Secret::new(secret.to_owned())),
        };
        self.keep(key, checked)
    }

    /// A list in which nothing may stand twice.
    pub(super) fn distinct<'t>(&mut self, key: &str, items: impl IntoIterator<Item = &'t str>) {
        let mut seen = BTreeSet::new();
        if let Some(twice) = items.into_iter().find(|item| !seen.insert(*item)) {
            self.refuse(key, format!("{twice:?} is given twice; once is allowed"));
        }
    }
}

fn out_of_range<N: Display>(value: N, allowed: &RangeInclusive<N>) -> String {
    format!("{value} is out of range; allowed is {} to {}", allowed.start(), allowed.end())
}

/// Names in quotes, for messages.
pub(super) fn quoted<'t>(names: impl IntoIterator<Item = &'t str>) -> String {
    names.into_iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// Writes a duration as it is typed: in seconds, whole if it can be.
pub(super) fn in_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    match duration.subsec_nanos() {
        0 => serializer.serialize_u64(duration.as_secs()),
        _ => serializer.serialize_f64(duration.as_secs_f64()),
    }
}
