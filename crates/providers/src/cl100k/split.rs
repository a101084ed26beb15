//! Splits a text into the pieces that are encoded independently: a word with the space before it, up to three digits,
//! punctuation, white space.

use std::sync::LazyLock;

use regex::Regex;

/// The alternatives in order: the ending of a contraction; a word; digits; punctuation; white space at the end of the
/// text; white space up to its last line end; other white space. Every character starts one of them. `ſ` (long s) is in
/// the first because it is an `s` when case is ignored.
static PIECE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?x) '(?:[sSſdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])
        | [^\r\n\p{L}\p{N}]?\p{L}+
        | \p{N}{1,3}
        | \x20?[^\p{White_Space}\p{L}\p{N}]+[\r\n]*
        | \p{White_Space}+$
        | \p{White_Space}*[\r\n]
        | \p{White_Space}+";
    Regex::new(pattern).expect("the pattern is tested")
});

/// The pieces of a text, in order; together they are the whole text.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let piece = PIECE.find_at(text, at)?.as_str();
        let piece = without_next_space(piece, at + piece.len() == text.len());
        at += piece.len();
        Some(piece)
    })
}

/// Leaves the last character of white space to the word that follows it.
fn without_next_space(piece: &str, is_last: bool) -> &str {
    let is_space = |piece: &str| piece.ends_with(|c: char| c.is_whitespace() && c != '\r' && c != '\n');
    if is_last || !is_space(piece) {
        return piece;
    }
    match piece.char_indices().next_back() {
        Some((last, _)) if last > 0 => &piece[..last],
        _ => piece,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(pieces(text).collect::<Vec<_>>(), expected, "{text:?}");
    }

    #[test]
    fn words_take_the_space_before_them() {
        check("", &[]);
        check("Hello, world!", &["Hello", ",", " world", "!"]);
        check("a  b", &["a", " ", " b"]);
        check("  (a)  ", &[" ", " (", "a", ")", "  "]);
        check("don't 'Tis DON'T", &["don", "'t", " '", "Tis", " DON", "'T"]);
    }

    #[test]
    fn digits_come_in_threes() {
        check("1234567 8", &["123", "456", "7", " ", "8"]);
    }

    #[test]
    fn white_space_ends_after_its_last_line_end() {
        check("a\n\n  b", &["a", "\n\n", " ", " b"]);
        check("a \n \n\tb", &["a", " \n \n", "\tb"]);
        check("x();\r\n\r\n}", &["x", "();\r\n\r\n", "}"]);
        check("a\n ", &["a", "\n "]);
    }

    #[test]
    fn the_pieces_together_are_the_text() {
        for text in ["\u{3000}あ\u{301}", "a\0b\u{85}\u{a0}c", "'ſ'K", " \r", "\u{200b}\u{feff}"] {
            assert_eq!(pieces(text).collect::<String>(), text);
        }
    }
}
