//! Splits text into sentences and lines.

use std::ops::Range;

/// The sentences and lines of a text as byte ranges, each with the white space behind it. The ranges cover
/// the text, so that consecutive ones are a piece of it. Takes time linear in the length of the text.
pub(crate) fn split(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let (mut start, mut begun, mut next) = (0, false, 0);
    for (at, character) in text.char_indices() {
        begun |= !character.is_whitespace();
        // What was skipped belongs to the range before; white space alone makes no range.
        if at < next || !begun || !ends_sentence(text, at, character) {
            continue;
        }
        let rest = text[at + character.len_utf8()..].trim_start_matches(CLOSING).trim_start();
        next = text.len() - rest.len();
        ranges.push(start..next);
        (start, begun) = (next, false);
    }
    if start < text.len() {
        ranges.push(start..text.len());
    }
    ranges
}

/// Quotation marks and brackets that may follow the end of a sentence.
const CLOSING: [char; 5] = [')', '"', '\'', '”', '’'];

/// Whether a sentence or a line ends with this character.
fn ends_sentence(text: &str, at: usize, character: char) -> bool {
    match character {
        '\n' | '\r' | '。' | '！' | '？' => true,
        '.' | '!' | '?' => {
            let rest = &text[at + 1..];
            let mut following = rest.trim_start_matches(CLOSING).chars();
            let is_end = following.next().is_none_or(char::is_whitespace);
            let continues = following.find(|next| !next.is_whitespace()).is_some_and(char::is_lowercase);
            is_end && !continues && !(character == '.' && is_abbreviated(&text[..at]))
        }
        _ => false,
    }
}

/// Whether the word before a full stop is an initial ("J."), or the number of a list item.
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
        let found = split(text);
        assert_eq!(found.iter().map(|range| text[range.clone()].trim()).collect::<Vec<_>>(), expected);
        let whole: String = found.into_iter().map(|range| &text[range]).collect();
        assert_eq!(whole, text, "the ranges cover the text");
    }

    #[test]
    fn sentences_and_lines_end_at_their_marks() {
        check("One. Two!  Three? Four", &["One.", "Two!", "Three?", "Four"]);
        check("A line\nand another\n\n- an item\n", &["A line", "and another", "- an item"]);
        check("fn f() {\n    g(1.5);\n}\n", &["fn f() {", "g(1.5);", "}"]);
        check("He said \"yes.\" She left.", &["He said \"yes.\"", "She left."]);
    }

    #[test]
    fn a_full_stop_in_a_version_an_abbreviation_or_a_list_number_is_not_an_end() {
        check("Version 1.2.3 of e.g. this, by J. Smith.", &["Version 1.2.3 of e.g. this, by J. Smith."]);
        check("1. First\n2. Second", &["1. First", "2. Second"]);
        check("See wellspring.toml. Then go.", &["See wellspring.toml.", "Then go."]);
    }

    #[test]
    fn white_space_alone_makes_no_sentence() {
        check("", &[]);
        check(" \n ", &[""]);
        check("\n\nText.", &["Text."]);
    }

    #[test]
    fn a_long_run_of_white_space_takes_no_longer_than_its_length() {
        let text = format!("a{}b.{}", "\n".repeat(2_000_000), " ".repeat(2_000_000));
        assert_eq!(split(&text).len(), 2);
        assert_eq!(split(&"\n".repeat(2_000_000)).len(), 1);
    }

    #[test]
    fn lines_end_at_every_kind_of_line_break() {
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
            let whole: String = split(text).into_iter().map(|piece| &text[piece]).collect();
            assert_eq!(whole, text, "the ranges cover it");
        });
    }
}
