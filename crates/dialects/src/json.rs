//! JSON of requests and replies. Errors in a request name the path of the wrong field.

use std::fmt;

use domain::Rejection;
use serde::Serialize;
use serde::de::{DeserializeOwned, Deserializer, Error, Unexpected, Visitor};

/// Encodes a reply.
pub(crate) fn reply(reply: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(reply).expect("a reply is JSON")
}

/// Decodes a request body, or rejects it with the path of the wrong field.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Rejection> {
    // Serde would also accept a list of the fields' values.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(Rejection::Invalid("the body is not a JSON object".to_owned()));
    }
    // Checks the whole body, including ignored fields.
    let body = str::from_utf8(body)
        .map_err(|error| Rejection::Invalid(format!("the body is not JSON: it is not UTF-8: {error}")))?;
    let mut deserializer = serde_json::Deserializer::from_str(body);
    let request = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let at = error.path().to_string();
        let reason = error.into_inner();
        if reason.is_syntax() || reason.is_eof() {
            return Rejection::Invalid(format!("the body is not JSON: {reason}"));
        }
        match at.as_str() {
            "." => Rejection::Invalid(reason.to_string()),
            at => Rejection::Invalid(format!("{at}: {reason}")),
        }
    })?;
    deserializer
        .end()
        .map_err(|error| Rejection::Invalid(format!("the body goes on after its JSON: {error}")))?;
    Ok(request)
}

/// Deserializes an optional integer. `5.0` is one, `"5"` is not, `null` is none.
pub(crate) fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    deserializer.deserialize_any(Integer)
}

struct Integer;

impl Visitor<'_> for Integer {
    type Value = Option<i64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        if value.fract() != 0.0 {
            return Err(E::invalid_value(Unexpected::Float(value), &self));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a float beyond i64 saturates, and is out of every range"
        )]
        Ok(Some(value as i64))
    }
}
