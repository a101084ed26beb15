//! Where sentences and lines end. Pure; the pieces cover the text, so that a run of them is a piece of it.

use std::ops::Range;

/// The pieces of a text, each with the white space behind it.
pub(crate) fn pieces(text: &str) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let (mut start, mut begun, mut next) = (0, false, 0);
    for (at, character) in text.char_indices() {
        begun |= !character.is_whitespace();
        // What was passed over belongs to the piece before; a piece of white space alone is none.
        if at < next || !begun || !ends_piece(text, at, character) {
            continue;
        }
        let rest = text[at + character.len_utf8()..].trim_start_matches(CLOSING).trim_start();
        next = text.len() - rest.len();
        pieces.push(start..next);
        (start, begun) = (next, false);
    }
    if start < text.len() {
        pieces.push(start..text.len());
    }
    pieces
}

const CLOSING: [char; 5] = [')', '"', '\'', '”', '’'];

/// Whether a sentence or a line ends with this character.
fn ends_piece(text: &str, at: usize, character: char) -> bool {
    match character {
        '\n' | '\r' | '。' | '！' | '？' => true,
        '.' | '!' | '?' => {
            let rest = &text[at + 1..];
            let mut following = rest.trim_start_matches(CLOSING).chars();
            let is_end = following.next().is_none_or(char::is_whitespace);
            let goes_on = following.find(|next| !next.is_whitespace()).is_some_and(char::is_lowercase);
            is_end && !goes_on && !(character == '.' && is_abbreviated(&text[..at]))
        }
        _ => false,
    }
}

/// Whether the word before a full stop is an initial, or a number that counts something.
fn is_abbreviated(before: &str) -> bool {
    let word = before.rsplit(|character: char| character.is_whitespace()).next().unwrap_or_default();
    let mut characters = word.chars().filter(|character| character.is_alphanumeric());
    match (characters.next(), characters.next()) {
        (Some(only), None) => {
            only.is_uppercase() || only.is_ascii_digit() && word.len() == 1 && at_line_start(before)
        }
        _ => false,
    }
}

fn at_line_start(before: &str) -> bool {
    before.rsplit('\n').next().is_some_and(|line| line.trim().len() <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found = pieces(text);
        assert_eq!(found.iter().map(|range| text[range.clone()].trim()).collect::<Vec<_>>(), expected);
        let whole: String = found.into_iter().map(|range| &text[range]).collect();
        assert_eq!(whole, text, "the pieces cover the text");
    }

    #[test]
    fn sentences_end_at_their_marks_and_lines_at_theirs() {
        check("One. Two!  Three? Four", &["One.", "Two!", "Three?", "Four"]);
        check("A line\nand another\n\n- an item\n", &["A line", "and another", "- an item"]);
        check("fn f() {\n    g(1.5);\n}\n", &["fn f() {", "g(1.5);", "}"]);
        check("He said \"yes.\" She left.", &["He said \"yes.\"", "She left."]);
    }

    #[test]
    fn not_every_full_stop_is_an_end() {
        check("Version 1.2.3 of e.g. this, by J. Smith.", &["Version 1.2.3 of e.g. this, by J. Smith."]);
        check("1. First\n2. Second", &["1. First", "2. Second"]);
        check("See wellspring.toml. Then go.", &["See wellspring.toml.", "Then go."]);
    }

    #[test]
    fn nothing_and_white_space_are_no_sentences() {
        check("", &[]);
        check(" \n ", &[""]);
        check("\n\nText.", &["Text."]);
    }

    #[test]
    fn a_long_run_of_white_space_takes_no_longer_than_its_length() {
        let text = format!("a{}b.{}", "\n".repeat(2_000_000), " ".repeat(2_000_000));
        assert_eq!(pieces(&text).len(), 2);
        assert_eq!(pieces(&"\n".repeat(2_000_000)).len(), 1);
    }

    #[test]
    fn lines_end_as_files_end_them() {
        check("one\rtwo\r\nthree", &["one", "two", "three"]);
    }

    #[test]
    fn characters_of_many_bytes_are_never_cut() {
        check("Größe. 数据。🙂 Ende.", &["Größe.", "数据。", "🙂 Ende."]);
    }

    #[test]
    fn fuzz_nearly_right_texts() {
        let seeds = ["Dr. Who (he) came. \"So?\" it said!\nv1.2 is e.g. new. あ。い！", "One\r\ntwo"];
        testing::fuzz_text(&seeds, &[".", "!", "?", ")", "\"", "’", "。", " ", "e.g."], |text| {
            let whole: String = pieces(text).into_iter().map(|piece| &text[piece]).collect();
            assert_eq!(whole, text, "the pieces cover it");
        });
    }
}
