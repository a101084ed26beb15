//! Characters out of tokens, which may end in the middle of one.

/// What is left of a character whose end is still to come.
#[derive(Default)]
pub(super) struct Characters {
    cut: Vec<u8>,
}

impl Characters {
    /// The characters that are whole now. What can never become one turns into U+FFFD.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.cut.extend_from_slice(bytes);
        let mut whole = String::new();
        let mut taken = 0;
        for chunk in self.cut.utf8_chunks() {
            whole.push_str(chunk.valid());
            taken += chunk.valid().len();
            let invalid = chunk.invalid();
            if invalid.is_empty() || may_be_continued(&self.cut[taken..]) {
                break;
            }
            whole.push(char::REPLACEMENT_CHARACTER);
            taken += invalid.len();
        }
        self.cut.drain(..taken);
        whole
    }
}

/// Whether more bytes could make a character of all these.
fn may_be_continued(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(pieces: &[&[u8]]) -> String {
        let mut characters = Characters::default();
        pieces.iter().map(|piece| characters.push(piece)).collect()
    }

    #[test]
    fn a_character_joins_wherever_it_was_cut() {
        let bytes = "añ€😀힣".as_bytes();
        for cut in 0..=bytes.len() {
            assert_eq!(join(&[&bytes[..cut], &bytes[cut..]]), "añ€😀힣", "cut at {cut}");
        }
        assert_eq!(join(&bytes.chunks(1).collect::<Vec<_>>()), "añ€😀힣");
    }

    #[test]
    fn bytes_that_can_never_be_a_character_are_replaced() {
        assert_eq!(join(&[b"a\xffb"]), "a\u{fffd}b");
        assert_eq!(join(&[b"a\xf0\x9f", b"b"]), "a\u{fffd}b");
        assert_eq!(join(&[b"\xff\xfe\xf0\x9f\x98", b"\x80!"]), "\u{fffd}\u{fffd}😀!");
    }

    #[test]
    fn a_last_character_that_stays_cut_is_dropped() {
        assert_eq!(join(&[b"a\xf0\x9f\x98"]), "a");
    }
}
