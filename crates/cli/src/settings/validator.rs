//! The second step: what was read must also make sense. A check returns the value; or it records a problem and returns
//! some value that is never used, because settings with a problem are not returned. So all problems are found at once.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serializer;
use url::{ParseError, Url};

use super::Environment;
use super::error::SettingProblem;
use super::invalid_setting::InvalidSetting;
use super::raw::RawSettings;
use super::schema;
use super::secret::{Secret, SecretUrl, masked};

/// Validates values and collects the problems found.
pub(super) struct Validator<'a> {
    pub(super) environment: &'a Environment,
    raw: &'a RawSettings,
    problems: Vec<SettingProblem>,
}

impl<'a> Validator<'a> {
    /// A validator that starts with the problems found while reading.
    pub(super) fn new(
        raw: &'a RawSettings,
        environment: &'a Environment,
        problems: Vec<SettingProblem>,
    ) -> Self {
        Self { environment, raw, problems }
    }

    pub(super) fn into_problems(self) -> Vec<SettingProblem> {
        self.problems
    }

    /// Records a problem. A key that could not be read has its default by now, so its first problem is its only one.
    pub(super) fn reject(&mut self, key: &str, why: impl Into<InvalidSetting>) {
        if self.problems.iter().any(|problem| problem.key.as_deref() == Some(key)) {
            return;
        }
        let origin = self.raw.origin(key);
        self.problems.push(SettingProblem { key: Some(key.to_owned()), origin, why: why.into() });
    }

    /// The value; or `None`, and its problem is recorded.
    pub(super) fn valid<T>(&mut self, key: &str, checked: Result<T, InvalidSetting>) -> Option<T> {
        checked.map_err(|why| self.reject(key, why)).ok()
    }

    /// A whole number within the bounds that its table declares.
    pub(super) fn number<N: TryFrom<u64> + Default>(&mut self, key: &str, value: u64) -> N {
        let (least, most) = schema::whole_bounds(key);
        let number = N::try_from(value).ok().filter(|_| (least..=most).contains(&value));
        self.valid(key, number.ok_or_else(|| out_of_range(value, least, most))).unwrap_or_default()
    }

    /// A number within the bounds that its table declares.
    pub(super) fn decimal(&mut self, key: &str, value: f64) -> f64 {
        let (least, most) = schema::bounds(key);
        let number = Some(value).filter(|value| (least..=most).contains(value));
        self.valid(key, number.ok_or_else(|| out_of_range(value, least, most))).unwrap_or_default()
    }

    /// A duration, typed in seconds, within the bounds that its table declares.
    pub(super) fn seconds(&mut self, key: &str, value: f64) -> Duration {
        Duration::from_secs_f64(self.decimal(key, value))
    }

    /// One line of text that is not empty.
    pub(super) fn one_line(&mut self, key: &str, text: Option<String>) -> Option<String> {
        let text = text?;
        if text.trim().is_empty() || text.contains(char::is_control) {
            self.reject(key, format!("{text:?} is not one line of text; leave the key out if there is none"));
        }
        Some(text)
    }

    /// A folder, which need not exist.
    pub(super) fn folder(&mut self, key: &str, path: Option<String>, default: PathBuf) -> PathBuf {
        let Some(path) = self.one_line(key, path) else { return default };
        if path.starts_with('~') {
            let why = "starts with ~, which only a shell understands; allowed is a path";
            self.reject(key, format!("{path:?} {why}"));
        }
        PathBuf::from(path)
    }

    /// A URL of one of these schemes. A text that is not a URL is not repeated: it may contain a password.
    pub(super) fn url(&mut self, key: &str, text: Option<String>, schemes: &[&str]) -> Option<SecretUrl> {
        let text = text?;
        let allowed =
            schemes.iter().map(|scheme| format!("{scheme}://host")).collect::<Vec<_>>().join(" or ");
        let checked = match Url::parse(&text) {
            Ok(url) if schemes.contains(&url.scheme()) && url.has_host() => Ok(SecretUrl::new(url)),
            Ok(_) => Err(format!("{} is not a URL that fits; allowed is {allowed}", masked(&text))),
            Err(ParseError::RelativeUrlWithoutBase) => {
                Err(format!("there is no :// in it, so it is not a URL; allowed is {allowed}"))
            }
            Err(error) => Err(format!("this is not a URL ({error}); allowed is {allowed}")),
        };
        self.valid(key, checked.map_err(InvalidSetting::from))
    }

    /// The address of a server: http or https, without user, query and fragment, nor a slash at its end.
    pub(super) fn base_url(&mut self, key: &str, text: Option<String>) -> Option<String> {
        let url = self.url(key, text, &["http", "https"])?;
        let parsed = url.expose();
        if !parsed.username().is_empty() || parsed.password().is_some() {
            self.reject(key, "there is a user name or password in it; keys are given by api_key_env");
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            let why = "has a query or fragment; allowed is http(s)://host[:port][/path]";
            self.reject(key, format!("{url} {why}"));
        }
        Some(parsed.as_str().trim_end_matches('/').to_owned())
    }

    /// The name of an environment variable. Any other text is not repeated: it may be the key itself.
    pub(super) fn variable_name(&mut self, key: &str, name: Option<String>) -> Option<String> {
        let part_of_a_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let is_name = |name: &String| !name.is_empty() && name.chars().all(part_of_a_name);
        let checked = Some(name?).filter(is_name).ok_or_else(|| {
            "this is not the name of an environment variable; put the key into a variable and its name here, \
             such as OPENAI_API_KEY"
                .into()
        });
        self.valid(key, checked)
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
        self.valid(key, checked.map_err(InvalidSetting::from))
    }

    /// Rejects a list with the same item twice.
    pub(super) fn distinct<'t>(&mut self, key: &str, items: impl IntoIterator<Item = &'t str>) {
        let mut seen = BTreeSet::new();
        if let Some(twice) = items.into_iter().find(|item| !seen.insert(*item)) {
            self.reject(key, format!("{twice:?} is given twice; once is allowed"));
        }
    }
}

fn out_of_range<N: std::fmt::Display>(value: N, least: N, most: N) -> InvalidSetting {
    format!("{value} is out of range; allowed is {least} to {most}").into()
}

/// Names in quotes, for messages.
pub(super) fn quoted<'t>(names: impl IntoIterator<Item = &'t str>) -> String {
    names.into_iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// Serializes a duration as it is typed: in seconds, as a whole number where possible.
pub(super) fn in_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    match duration.subsec_nanos() {
        0 => serializer.serialize_u64(duration.as_secs()),
        _ => serializer.serialize_f64(duration.as_secs_f64()),
    }
}
