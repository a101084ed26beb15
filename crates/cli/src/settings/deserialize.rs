//! A serde deserializer from the raw settings to the tables. The field says which type it has, so that `50` in the
//! environment is a number for one key and a name for another.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_path_to_error::{Path, Segment};

use super::error::SettingProblem;
use super::invalid_setting::InvalidSetting;
use super::raw::{RawNode, RawSettings, RawValue, items_of};

/// Reads every value that can be read. A value that cannot is recorded as a problem and skipped, so that all problems are
/// found at once.
pub(super) fn deserialize<T: DeserializeOwned>(
    raw: &RawSettings,
    problems: &mut Vec<SettingProblem>,
) -> Option<T> {
    let mut rest = raw.clone();
    loop {
        let error = match serde_path_to_error::deserialize(rest.root.clone()) {
            Ok(settings) => return Some(settings),
            Err(error) => error,
        };
        let (key, path) = key_and_path(error.path());
        problems.push(SettingProblem { origin: raw.origin(&key), key: Some(key), why: error.into_inner() });
        rest.remove(&path)?;
    }
}

/// The full name of a key, and the path to the value that is skipped when it is wrong: the key itself, or the whole list
/// that it is in.
fn key_and_path(place: &Path) -> (String, Vec<String>) {
    let (mut name, mut path, mut in_list) = (String::new(), Vec::new(), false);
    for segment in place {
        match segment {
            Segment::Map { key } => {
                name.push_str(if name.is_empty() { "" } else { "." });
                name.push_str(key);
                if !in_list {
                    path.push(key.clone());
                }
            }
            Segment::Seq { index } => {
                name.push_str(&format!("[{index}]"));
                in_list = true;
            }
            // The value of an enum, not a key.
            Segment::Enum { .. } | Segment::Unknown => break,
        }
    }
    (name, path)
}

impl RawNode {
    fn parse<T: std::str::FromStr>(&self, allowed: &str) -> Result<T, InvalidSetting> {
        match &self.value {
            RawValue::Bare(text) | RawValue::Untyped(text) => text.trim().parse().ok(),
            RawValue::Table(_) | RawValue::List(_) | RawValue::Text(_) => None,
        }
        .ok_or_else(|| InvalidSetting::wrong_type(&self.value, allowed))
    }

    fn text(self) -> Result<String, InvalidSetting> {
        match self.value {
            RawValue::Text(text) | RawValue::Untyped(text) => Ok(text),
            RawValue::Table(_) | RawValue::List(_) | RawValue::Bare(_) => {
                Err(InvalidSetting::wrong_type(&self.value, "a text"))
            }
        }
    }
}

impl<'de> Deserializer<'de> for RawNode {
    type Error = InvalidSetting;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InvalidSetting> {
        match self.value {
            RawValue::Table(_) => self.deserialize_map(visitor),
            RawValue::List(_) => self.deserialize_seq(visitor),
            RawValue::Text(text) | RawValue::Bare(text) | RawValue::Untyped(text) => {
                visitor.visit_string(text)
            }
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InvalidSetting> {
        visitor.visit_u64(self.parse("a whole number of 0 or more")?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InvalidSetting> {
        visitor.visit_f64(self.parse("a number")?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InvalidSetting> {
        visitor.visit_string(self.text()?)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, InvalidSetting> {
        visitor.visit_enum(self.text()?.into_deserializer())
    }

    /// In the environment an empty text unsets what has no value by default.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InvalidSetting> {
        match &self.value {
            RawValue::Untyped(text) if text.is_empty() => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InvalidSetting> {
        match self.value {
            RawValue::List(items) => visitor.visit_seq(SeqDeserializer::new(items.into_iter())),
            RawValue::Untyped(text) => {
                visitor.visit_seq(SeqDeserializer::new(items_of(&text, &self.origin).into_iter()))
            }
            given => Err(InvalidSetting::wrong_type(&given, "a list, such as [\"a\", \"b\"]")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, InvalidSetting> {
        match self.value {
            RawValue::Table(entries) => visitor.visit_map(MapDeserializer::new(entries.into_iter())),
            given => Err(InvalidSetting::wrong_type(&given, "a table")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, InvalidSetting> {
        self.deserialize_map(visitor)
    }

    // No setting has one of these types.
    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 char str bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct identifier ignored_any
    }
}

impl IntoDeserializer<'_, InvalidSetting> for RawNode {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
