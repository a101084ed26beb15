//! Positions where a text may be split, by how strongly they separate it.

use std::ops::Range;

use crate::parse::{Outline, TextKind, lines};

/// The kinds of boundaries, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Boundary {
    /// A heading or a definition of this level.
    Part(u8),
    /// The start of a Markdown block.
    Block,
    /// The start of a text after blank lines.
    Paragraph,
    /// The start of a list item, a table row or a line of a code block.
    Item,
    Sentence,
    Line,
    Word,
    Character,
}

/// The boundaries at which text that exceeds the budget is split, in the order in which they are tried.
pub(super) fn strongest_first(kind: TextKind) -> &'static [Boundary] {
    use Boundary::{Block, Character, Item, Line, Paragraph, Part, Sentence, Word};
    match kind {
        TextKind::Prose => &[Block, Paragraph, Item, Sentence, Line, Word, Character],
        TextKind::Code => &[Part(1), Part(2), Part(3), Part(4), Paragraph, Line, Word, Character],
        TextKind::Lines => &[Paragraph, Line, Word, Character],
    }
}

/// The boundaries of one kind within a span, without its start and end. There are at most about
/// `max_characters` positions of kind `Character`, evenly spread.
pub(super) fn positions<'a>(
    outline: &'a Outline,
    text: &'a str,
    span: Range<usize>,
    kind: Boundary,
    max_characters: usize,
) -> Box<dyn Iterator<Item = usize> + 'a> {
    let start = span.start;
    let piece = &text[span.clone()];
    match kind {
        Boundary::Part(level) => {
            let parts = &outline.parts[outline.parts.partition_point(|part| part.start <= start)..];
            let inside = parts.iter().take_while(move |part| part.start < span.end);
            Box::new(inside.filter(move |part| part.level <= level).map(|part| part.start))
        }
        Boundary::Block => between(&outline.blocks, span),
        Boundary::Item => between(&outline.items, span),
        Boundary::Paragraph => Box::new(paragraphs(piece).map(move |at| start + at)),
        Boundary::Sentence => Box::new(sentences(piece).map(move |at| start + at)),
        Boundary::Line => Box::new(lines::starts(piece).map(move |at| start + at)),
        Boundary::Word => Box::new(words(piece).map(move |at| start + at)),
        Boundary::Character => Box::new(characters(piece, max_characters).map(move |at| start + at)),
    }
}

fn between(positions: &[usize], span: Range<usize>) -> Box<dyn Iterator<Item = usize> + '_> {
    let first = positions.partition_point(|&position| position <= span.start);
    Box::new(positions[first..].iter().copied().take_while(move |&position| position < span.end))
}

fn paragraphs(text: &str) -> impl Iterator<Item = usize> {
    let mut after_blank = false;
    lines::lines(text).filter_map(move |(start, line)| {
        let is_blank = line.trim().is_empty();
        let begins = after_blank && !is_blank && start > 0;
        after_blank = is_blank;
        begins.then_some(start)
    })
}

fn words(text: &str) -> impl Iterator<Item = usize> {
    let mut after_space = false;
    text.char_indices().filter_map(move |(at, character)| {
        let is_space = character.is_whitespace();
        let begins = after_space && !is_space && at > 0;
        after_space = is_space;
        begins.then_some(at)
    })
}

fn sentences(text: &str) -> impl Iterator<Item = usize> {
    let mut ended = false;
    let mut separated = false;
    text.char_indices().filter_map(move |(at, character)| {
        match character {
            '.' | '!' | '?' => (ended, separated) = (true, false),
            '。' | '！' | '？' => (ended, separated) = (true, true),
            '"' | '\'' | ')' | ']' | '”' | '’' | '»' | '」' => {}
            _ if character.is_whitespace() => separated = ended,
            _ => {
                let begins = ended && separated;
                (ended, separated) = (false, false);
                return begins.then_some(at);
            }
        }
        None
    })
}

fn characters(text: &str, count: usize) -> impl Iterator<Item = usize> {
    let step = (text.len() / count.max(1)).max(1);
    let mut last = 0;
    (step..text.len()).step_by(step).filter_map(move |at| {
        let at = text.floor_char_boundary(at);
        let is_new = at > last;
        last = at;
        is_new.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(positions: impl Iterator<Item = usize>, text: &str, expected: &[&str]) {
        let mut start = 0;
        let mut pieces = Vec::new();
        for end in positions.chain([text.len()]) {
            pieces.push(&text[start..end]);
            start = end;
        }
        assert_eq!(pieces, expected);
    }

    #[test]
    fn a_sentence_begins_after_the_end_of_one_and_white_space() {
        let text = "He said \"no.\" She left! Version 2.0 came.\nDone? 好。是";
        let expected = ["He said \"no.\" ", "She left! ", "Version 2.0 came.\n", "Done? ", "好。", "是"];
        check(sentences(text), text, &expected);
    }

    #[test]
    fn a_paragraph_begins_after_blank_lines() {
        let text = "\n\na\nb\n \n\nc\r\n\r\nd";
        check(paragraphs(text), text, &["\n\n", "a\nb\n \n\n", "c\r\n\r\n", "d"]);
    }

    #[test]
    fn no_character_is_split() {
        let text = "aéüo";
        check(characters(text, 100), text, &["a", "é", "ü", "o"]);
        check(characters(text, 2), text, &["aé", "üo"]);
    }
}
