//! Joins characters that a server cut between two frames: UTF-8 cut between bytes, and surrogate pairs escaped one half
//! a frame.

use std::borrow::Cow;
use std::fmt;
use std::mem;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// The beginning of a character whose remaining bytes have not arrived. Each channel of an answer has its own.
#[derive(Default)]
pub(crate) struct Utf8Joiner {
    cut: Vec<u8>,
}

impl Utf8Joiner {
    /// Appends the complete characters to `into` and keeps an incomplete last one. Bytes that can never become a
    /// character turn into U+FFFD.
    pub(crate) fn push(&mut self, bytes: &[u8], into: &mut String) {
        if self.cut.is_empty()
            && let Ok(text) = str::from_utf8(bytes)
        {
            into.push_str(text);
            return;
        }
        let mut joined = mem::take(&mut self.cut);
        joined.extend_from_slice(bytes);
        let mut rest = joined.as_slice();
        while let Some(chunk) = rest.utf8_chunks().next() {
            into.push_str(chunk.valid());
            rest = &rest[chunk.valid().len()..];
            match Flaw::at_start_of(rest, chunk.invalid().len()) {
                Flaw::None => {}
                Flaw::Cut => {
                    self.cut = rest.to_vec();
                    return;
                }
                Flaw::Pair(character) => {
                    into.push(character);
                    rest = &rest[2 * SURROGATE_LENGTH..];
                }
                Flaw::Wrong(length) => {
                    into.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[length..];
                }
            }
        }
    }
}

/// Bytes of a lone surrogate encoded as if it were a character.
const SURROGATE_LENGTH: usize = 3;

/// Why bytes are not UTF-8.
enum Flaw {
    None,
    Cut,
    Pair(char),
    Wrong(usize),
}

impl Flaw {
    /// `invalid` is the length of one invalid sequence as the standard library finds it. It does not know surrogates,
    /// so these are matched first.
    fn at_start_of(bytes: &[u8], invalid: usize) -> Self {
        let Some(first) = surrogate(bytes) else {
            return match bytes {
                [] => Self::None,
                [0xed, 0xa0..=0xbf] => Self::Cut,
                _ if invalid == bytes.len() && may_be_continued(bytes) => Self::Cut,
                _ => Self::Wrong(invalid),
            };
        };
        let next = &bytes[SURROGATE_LENGTH..];
        let is_leading = first < 0xdc00;
        if is_leading && matches!(next, [] | [0xed] | [0xed, 0xb0..=0xbf]) {
            return Self::Cut;
        }
        let pair = surrogate(next).and_then(|second| char::decode_utf16([first, second]).next()?.ok());
        match pair {
            Some(character) => Self::Pair(character),
            None => Self::Wrong(SURROGATE_LENGTH),
        }
    }
}

/// Whether more bytes could make a character of these.
fn may_be_continued(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

fn surrogate(bytes: &[u8]) -> Option<u16> {
    let &[0xed, middle @ 0xa0..=0xbf, last @ 0x80..=0xbf, ..] = bytes else { return None };
    Some(0xd000 | (u16::from(middle) & 0x3f) << 6 | (u16::from(last) & 0x3f))
}

/// A JSON string as bytes: UTF-8 where the server sent valid UTF-8, and three bytes for a lone surrogate.
#[derive(Debug)]
pub(crate) struct RawText<'a>(pub(crate) Cow<'a, [u8]>);

impl<'de: 'a, 'a> Deserialize<'de> for RawText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl<'de> Visitor<'de> for Bytes {
            type Value = Cow<'de, [u8]>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(bytes))
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(Cow::Owned(bytes.to_vec()))
            }
        }

        deserializer.deserialize_bytes(Bytes).map(RawText)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(pieces: &[&[u8]]) -> String {
        let mut joiner = Utf8Joiner::default();
        let mut joined = String::new();
        for piece in pieces {
            joiner.push(piece, &mut joined);
        }
        joined
    }

    fn json(text: &str) -> Vec<u8> {
        serde_json::from_str::<RawText<'_>>(text).unwrap().0.into_owned()
    }

    #[test]
    fn a_character_is_joined_wherever_it_was_cut() {
        let bytes = "añ€😀힣".as_bytes();
        for cut in 0..=bytes.len() {
            assert_eq!(join(&[&bytes[..cut], &bytes[cut..]]), "añ€😀힣", "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(join(&single), "añ€😀힣");
    }

    #[test]
    fn escaped_surrogate_halves_are_joined() {
        let (leading, trailing) = (json(r#""a\ud83d""#), json(r#""\ude00b""#));
        assert_eq!(join(&[&leading, &trailing]), "a😀b");
        assert_eq!(join(&[&leading, b"", &trailing]), "a😀b");
        assert_eq!(join(&[&leading, "힣".as_bytes()]), "a\u{fffd}힣");
    }

    #[test]
    fn a_lone_surrogate_is_replaced() {
        assert_eq!(join(&[&json(r#""a\ude00b""#)]), "a\u{fffd}b");
        assert_eq!(join(&[&json(r#""a\ud83db""#)]), "a\u{fffd}b");
        assert_eq!(join(&[&json(r#""\ud83d\ud83d""#), &json(r#""\ude00""#)]), "\u{fffd}😀");
    }

    #[test]
    fn bytes_that_can_never_become_a_character_are_replaced() {
        assert_eq!(join(&[b"a\xffb"]), "a\u{fffd}b");
        assert_eq!(join(&[b"a\xf0\x9f", b"b"]), "a\u{fffd}b");
    }

    #[test]
    fn an_incomplete_last_character_is_dropped() {
        assert_eq!(join(&[b"a\xf0\x9f\x98"]), "a");
        assert_eq!(join(&[&json(r#""a\ud83d""#)]), "a");
    }
}
