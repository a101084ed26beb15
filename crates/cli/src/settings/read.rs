//! From what was typed to the structs of settings: a serde deserializer over the tree. The struct says
//! which type it wants, so that `50` in the environment is a number for one key and a name for another.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_path_to_error::{Path, Segment};

use super::mistake::Mistake;
use super::problem::Problem;
use super::tree::{Node, Tree, Value, items_of};

/// Reads all that can be read. What cannot is noted and passed over, so that all mistakes are found at once.
pub(super) fn read<T: DeserializeOwned>(tree: &Tree, problems: &mut Vec<Problem>) -> Option<T> {
    let mut rest = tree.clone();
    loop {
        let error = match serde_path_to_error::deserialize(rest.root.clone()) {
            Ok(settings) => return Some(settings),
            Err(error) => error,
        };
        let (key, path) = key_and_path(error.path());
        problems.push(Problem {
            source: tree.source(&key),
            key: Some(key),
            message: error.inner().to_string(),
        });
        if !rest.remove(&path) {
            return None;
        }
    }
}

/// The full name of a key, and the path to what must be passed over when it is wrong: the key itself, or
/// the whole list that it is in.
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
            // The value of a choice, not a key.
            Segment::Enum { .. } | Segment::Unknown => break,
        }
    }
    (name, path)
}

impl Node {
    fn parse<T: std::str::FromStr>(&self, allowed: &str) -> Result<T, Mistake> {
        match &self.value {
            Value::Bare(text) | Value::Untyped(text) => text.trim().parse().ok(),
            Value::Table(_) | Value::List(_) | Value::Text(_) => None,
        }
        .ok_or_else(|| Mistake::not(&self.value, allowed))
    }

    fn text(self) -> Result<String, Mistake> {
        match self.value {
            Value::Text(text) | Value::Untyped(text) => Ok(text),
            Value::Table(_) | Value::List(_) | Value::Bare(_) => Err(Mistake::not(&self.value, "a text")),
        }
    }
}

impl<'de> Deserializer<'de> for Node {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.value {
            Value::Table(_) => self.deserialize_map(visitor),
            Value::List(_) => self.deserialize_seq(visitor),
            Value::Text(text) | Value::Bare(text) | Value::Untyped(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_u64(self.parse("a whole number of 0 or more")?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_f64(self.parse("a number")?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_string(self.text()?)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        visitor.visit_enum(self.text()?.into_deserializer())
    }

    /// In the environment an empty text unsets what has no value by default.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.value {
            Value::Untyped(text) if text.is_empty() => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.value {
            Value::List(items) => visitor.visit_seq(SeqDeserializer::new(items.into_iter())),
            Value::Untyped(text) => {
                visitor.visit_seq(SeqDeserializer::new(items_of(&text, &self.source).into_iter()))
            }
            given => Err(Mistake::not(&given, "a list, such as [\"a\", \"b\"]")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.value {
            Value::Table(entries) => visitor.visit_map(MapDeserializer::new(entries.into_iter())),
            given => Err(Mistake::not(&given, "a table")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.deserialize_map(visitor)
    }

    // No setting has one of these types.
    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 char str bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct identifier ignored_any
    }
}

impl IntoDeserializer<'_, Mistake> for Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
