//! Why a single value cannot be read, in words for the person who typed it.

use std::fmt;

use serde::de;

use super::checks::quoted;
use super::secret::shown;
use super::tree::Value;

/// How alike two names must be for one to be suggested for the other; 1 is the same.
const ALIKE: f64 = 0.8;

/// Why a value does not fit its key.
#[derive(Debug)]
pub(super) struct Mistake(String);

impl Mistake {
    /// The value given is not what is allowed.
    pub(super) fn not(given: &Value, allowed: &str) -> Self {
        Self(match given {
            Value::Table(_) => format!("a table is given; allowed is {allowed}"),
            Value::List(_) => format!("a list is given; allowed is {allowed}"),
            Value::Bare(text) => format!("{text} is not {allowed}"),
            Value::Text(text) | Value::Untyped(text) => format!("{} is not {allowed}", shown(text)),
        })
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistake {}

impl de::Error for Mistake {
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
        let (suggestion, are) = (suggestion(variant, allowed), if allowed.len() == 1 { "is" } else { "are" });
        Self(format!("{variant:?} is unknown{suggestion}; allowed {are} {}", quoted(allowed.iter().copied())))
    }
}

/// The allowed name that was probably meant, as a part of a sentence.
pub(crate) fn suggestion(given: &str, allowed: &[&str]) -> String {
    let alike = |name: &&str| strsim::jaro_winkler(given, name);
    let nearest = allowed.iter().map(|name| (alike(name), name)).max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((likeness, name)) if likeness >= ALIKE => format!(" (did you mean {name}?)"),
        _ => String::new(),
    }
}
