//! Incremental UTF-8 decoding: a token may end in the middle of a character.

/// Decodes UTF-8 from pieces; keeps an incomplete last character for the next piece.
#[derive(Default)]
pub(super) struct Utf8Decoder {
    incomplete: Vec<u8>,
}

impl Utf8Decoder {
    /// The characters that are complete now. Invalid bytes become U+FFFD.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.incomplete.extend_from_slice(bytes);
        let mut complete = String::new();
        let mut taken = 0;
        for chunk in self.incomplete.utf8_chunks() {
            complete.push_str(chunk.valid());
            taken += chunk.valid().len();
            let invalid = chunk.invalid();
            if invalid.is_empty() || is_incomplete_character(&self.incomplete[taken..]) {
                break;
            }
            complete.push(char::REPLACEMENT_CHARACTER);
            taken += invalid.len();
        }
        self.incomplete.drain(..taken);
        complete
    }
}

/// Whether the bytes are the beginning of a character.
fn is_incomplete_character(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(pieces: &[&[u8]]) -> String {
        let mut decoder = Utf8Decoder::default();
        pieces.iter().map(|piece| decoder.push(piece)).collect()
    }

    #[test]
    fn characters_decode_wherever_they_are_split() {
        let bytes = "añ€😀힣".as_bytes();
        for cut in 0..=bytes.len() {
            assert_eq!(join(&[&bytes[..cut], &bytes[cut..]]), "añ€😀힣", "cut at {cut}");
        }
        assert_eq!(join(&bytes.chunks(1).collect::<Vec<_>>()), "añ€😀힣");
    }

    #[test]
    fn invalid_bytes_are_replaced() {
        assert_eq!(join(&[b"a\xffb"]), "a\u{fffd}b");
        assert_eq!(join(&[b"a\xf0\x9f", b"b"]), "a\u{fffd}b");
        assert_eq!(join(&[b"\xff\xfe\xf0\x9f\x98", b"\x80!"]), "\u{fffd}\u{fffd}😀!");
    }

    #[test]
    fn an_incomplete_last_character_is_dropped() {
        assert_eq!(join(&[b"a\xf0\x9f\x98"]), "a");
    }
}
