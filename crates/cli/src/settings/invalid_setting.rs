//! Why a single value cannot be used, in words for the person who typed it.

use std::fmt;

use serde::de;

use super::raw::RawValue;
use super::secret::masked;
use super::validator::quoted;

/// The least Jaro-Winkler similarity of two names for one to be suggested for the other; 1 is the same name.
const LEAST_SIMILARITY: f64 = 0.8;

/// Planned kinds, which are refused like unknown ones, with a message that says so.
const NOT_BUILT: [&str; 5] = ["postgres", "qdrant", "redis", "keys", "oidc"];

/// Why a value does not fit its key: what was given, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidSetting(String);

impl InvalidSetting {
    /// The value given is of the wrong type.
    pub(super) fn wrong_type(given: &RawValue, allowed: &str) -> Self {
        Self(match given {
            RawValue::Table(_) => format!("a table is given; allowed is {allowed}"),
            RawValue::List(_) => format!("a list is given; allowed is {allowed}"),
            RawValue::Bare(text) => format!("{text} is not {allowed}"),
            RawValue::Text(text) | RawValue::Untyped(text) => format!("{} is not {allowed}", masked(text)),
        })
    }
}

impl From<String> for InvalidSetting {
    fn from(message: String) -> Self {
        Self(message)
    }
}

impl From<&str> for InvalidSetting {
    fn from(message: &str) -> Self {
        Self(message.to_owned())
    }
}

impl de::Error for InvalidSetting {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }

    fn unknown_field(field: &str, allowed: &'static [&'static str]) -> Self {
        Self(format!(
            "there is no such setting{}; allowed are {}",
            suggestion(field, allowed),
            allowed.join(", ")
        ))
    }

    fn unknown_variant(variant: &str, allowed: &'static [&'static str]) -> Self {
        let are = if allowed.len() == 1 { "is" } else { "are" };
        let what = if NOT_BUILT.contains(&variant) {
            "is not built yet".to_owned()
        } else {
            format!("is unknown{}", suggestion(variant, allowed))
        };
        Self(format!("{variant:?} {what}; allowed {are} {}", quoted(allowed.iter().copied())))
    }
}

/// The allowed name that was probably meant, as part of a sentence.
pub(crate) fn suggestion(given: &str, allowed: &[&str]) -> String {
    let scored = allowed.iter().map(|name| (strsim::jaro_winkler(given, name), name));
    match scored.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((similarity, name)) if similarity >= LEAST_SIMILARITY => format!(" (did you mean {name}?)"),
        _ => String::new(),
    }
}
