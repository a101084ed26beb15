//! Where a selection is cut: between paragraphs if that is possible, else between lines, sentences or words. Pure; the
//! pieces have everything of the text but the white space between them.

use std::ops::Range;

/// A piece has no more characters than this: a model takes it in as a whole.
const MOST_CHARS: usize = 1000;

/// The pieces of a text, in their order. None begins or ends with white space.
pub(super) fn of(text: &str) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut start = 0;
    loop {
        start = text.len() - text[start..].trim_start().len();
        let rest = &text[start..];
        if rest.is_empty() {
            return pieces;
        }
        let length = cut(rest);
        pieces.push(start..start + rest[..length].trim_end().len());
        start += length;
    }
}

/// How much of a text is its first piece.
fn cut(text: &str) -> usize {
    let Some((most, _)) = text.char_indices().nth(MOST_CHARS) else { return text.len() };
    // What ends behind the last of them may end with them.
    let window = &text[..most];
    let is_end = |at: usize| text[at..].starts_with(char::is_whitespace);
    // A cut in the first half would leave pieces that say little.
    let half = window.char_indices().nth(MOST_CHARS / 2).map_or(0, |(half, _)| half);
    let ends = |is_seam: &dyn Fn(usize, char) -> bool| {
        let mut seams = window.char_indices().rev().take_while(|(at, _)| *at >= half);
        seams.find_map(|(at, character)| {
            let behind = at + character.len_utf8();
            is_seam(behind, character).then_some(behind)
        })
    };
    let line = |character: char| matches!(character, '\n' | '\r');
    let paragraph = |behind: usize, character: char| line(character) && is_blank_line(&text[behind..]);
    let sentence = |behind: usize, character: char| match character {
        '.' | '!' | '?' => is_end(behind),
        '。' | '！' | '？' => true,
        _ => false,
    };
    ends(&paragraph)
        .or_else(|| ends(&|_, character| line(character)))
        .or_else(|| ends(&sentence))
        .or_else(|| ends(&|behind, character| character.is_whitespace() || is_end(behind)))
        .unwrap_or(most)
}

/// Whether a text begins with a line that has nothing in it.
fn is_blank_line(text: &str) -> bool {
    let line = text.trim_start_matches([' ', '\t']);
    line.starts_with(['\n', '\r'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        of(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn a_short_text_is_one_piece() {
        assert_eq!(texts(" A line.\r\nAnother. "), ["A line.\r\nAnother."]);
        assert!(texts("").is_empty() && texts(" \r\n\t").is_empty());
    }

    #[test]
    fn a_text_is_cut_at_the_strongest_seam() {
        let long = |count: usize| "word ".repeat(count / 5);
        for (text, first) in [
            (format!("{}end.\n\n{}\nline.\n{}", long(600), long(200), long(900)), "end."),
            (format!("{}\nline\n{}. Sentence {}", long(600), long(200), long(900)), "line"),
            (format!("{}sentence. {}", long(600), long(900)), "sentence."),
            (format!("{}句子。{}", long(600), long(900)), "句子。"),
            (format!("{}last {}", long(990), "x".repeat(900)), "last"),
        ] {
            let pieces = texts(&text);
            assert!(pieces[0].ends_with(first), "{:?}", pieces[0]);
        }
    }

    #[test]
    fn a_text_without_seams_is_cut_between_characters() {
        let text = "🙂".repeat(2500);
        assert_eq!(of(&text).into_iter().map(|range| range.len() / 4).collect::<Vec<_>>(), [1000, 1000, 500]);
    }

    proptest! {
        #[test]
        fn pieces_are_bounded_and_leave_out_nothing_but_white_space(
            text in "([a-zß🙂あ]{1,12}[ .。\\t\r\n]{0,3}){0,600}",
        ) {
            let (pieces, mut at) = (of(&text), 0);
            for piece in &pieces {
                prop_assert!(text[at..piece.start].trim().is_empty());
                let words = &text[piece.clone()];
                prop_assert!(!words.is_empty() && words == words.trim());
                prop_assert!(words.chars().count() <= MOST_CHARS);
                at = piece.end;
            }
            prop_assert!(text[at..].trim().is_empty());
        }
    }
}
