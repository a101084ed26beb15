//! Splits a selected text into chunks: between paragraphs where possible, else between lines, sentences or
//! words. The chunks contain all of the text but the white space between them.

use std::ops::Range;

/// Characters of a chunk, at most, so that the embedding model reads all of it.
const MAX_CHUNK_CHARS: usize = 1000;

/// The chunks of a text, in order. None is empty, or begins or ends with white space.
pub(super) fn split(text: &str) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let mut start = 0;
    loop {
        start = text.len() - text[start..].trim_start().len();
        let rest = &text[start..];
        if rest.is_empty() {
            return chunks;
        }
        let length = first_chunk_length(rest);
        chunks.push(start..start + rest[..length].trim_end().len());
        start += length;
    }
}

/// Length in bytes of the first chunk of a text.
fn first_chunk_length(text: &str) -> usize {
    let Some((max, _)) = text.char_indices().nth(MAX_CHUNK_CHARS) else { return text.len() };
    // The text behind the window decides whether its last character ends a paragraph, sentence or word.
    let window = &text[..max];
    let is_word_end = |at: usize| text[at..].starts_with(char::is_whitespace);
    // A split in the first half would leave a chunk with little content.
    let half = window.char_indices().nth(MAX_CHUNK_CHARS / 2).map_or(0, |(half, _)| half);
    let last_end = |is_end: &dyn Fn(usize, char) -> bool| {
        let mut characters = window.char_indices().rev().take_while(|(at, _)| *at >= half);
        characters.find_map(|(at, character)| {
            let end = at + character.len_utf8();
            is_end(end, character).then_some(end)
        })
    };
    let line = |character: char| matches!(character, '\n' | '\r');
    let paragraph = |end: usize, character: char| line(character) && begins_with_blank_line(&text[end..]);
    let sentence = |end: usize, character: char| match character {
        '.' | '!' | '?' => is_word_end(end),
        '。' | '！' | '？' => true,
        _ => false,
    };
    last_end(&paragraph)
        .or_else(|| last_end(&|_, character| line(character)))
        .or_else(|| last_end(&sentence))
        .or_else(|| last_end(&|end, character| character.is_whitespace() || is_word_end(end)))
        .unwrap_or(max)
}

fn begins_with_blank_line(text: &str) -> bool {
    let line = text.trim_start_matches([' ', '\t']);
    line.starts_with(['\n', '\r'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        split(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn a_short_text_is_one_chunk() {
        assert_eq!(texts(" A line.\r\nAnother. "), ["A line.\r\nAnother."]);
        assert!(texts("").is_empty() && texts(" \r\n\t").is_empty());
    }

    #[test]
    fn a_text_is_split_at_the_largest_boundary() {
        let long = |count: usize| "word ".repeat(count / 5);
        for (text, first) in [
            (format!("{}end.\n\n{}\nline.\n{}", long(600), long(200), long(900)), "end."),
            (format!("{}\nline\n{}. Sentence {}", long(600), long(200), long(900)), "line"),
            (format!("{}sentence. {}", long(600), long(900)), "sentence."),
            (format!("{}句子。{}", long(600), long(900)), "句子。"),
            (format!("{}last {}", long(990), "x".repeat(900)), "last"),
        ] {
            let chunks = texts(&text);
            assert!(chunks[0].ends_with(first), "{:?}", chunks[0]);
        }
    }

    #[test]
    fn a_text_without_boundaries_is_split_between_characters() {
        let text = "🙂".repeat(2500);
        assert_eq!(
            split(&text).into_iter().map(|range| range.len() / 4).collect::<Vec<_>>(),
            [1000, 1000, 500]
        );
    }

    proptest! {
        #[test]
        fn chunks_are_bounded_and_leave_out_only_white_space(
            text in "([a-zß🙂あ]{1,12}[ .。\\t\r\n]{0,3}){0,600}",
        ) {
            let (chunks, mut at) = (split(&text), 0);
            for chunk in &chunks {
                prop_assert!(text[at..chunk.start].trim().is_empty());
                let words = &text[chunk.clone()];
                prop_assert!(!words.is_empty() && words == words.trim());
                prop_assert!(words.chars().count() <= MAX_CHUNK_CHARS);
                at = chunk.end;
            }
            prop_assert!(text[at..].trim().is_empty());
        }
    }
}
