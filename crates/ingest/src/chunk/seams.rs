//! The places where a document may be cut, by how little is torn apart there.

use std::ops::Range;

use crate::lines;
use crate::outline::{Manner, Outline};

/// How strongly a place separates what is before it from what is after it; the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seam {
    /// A heading or a definition of this level.
    Part(u8),
    /// A block of Markdown.
    Block,
    /// What follows blank lines.
    Paragraph,
    /// A list item, a row, a line of a code block.
    Item,
    Sentence,
    Line,
    Word,
    Character,
}

/// What is tried, one after the other, on a stretch that is too large.
pub(super) fn ladder(manner: Manner) -> &'static [Seam] {
    use Seam::{Block, Character, Item, Line, Paragraph, Part, Sentence, Word};
    match manner {
        Manner::Prose => &[Block, Paragraph, Item, Sentence, Line, Word, Character],
        Manner::Code => &[Part(1), Part(2), Part(3), Part(4), Paragraph, Line, Word, Character],
        Manner::Lines => &[Paragraph, Line, Word, Character],
    }
}

/// The seams of one kind inside a stretch, neither at its beginning nor at its end. Characters are many: no
/// more than about `characters` of those are told, evenly spread.
pub(super) fn inside<'a>(
    outline: &'a Outline,
    text: &'a str,
    stretch: Range<usize>,
    seam: Seam,
    characters: usize,
) -> Box<dyn Iterator<Item = usize> + 'a> {
    let start = stretch.start;
    let piece = &text[stretch.clone()];
    match seam {
        Seam::Part(level) => {
            let parts = &outline.parts[outline.parts.partition_point(|part| part.start <= start)..];
            let inside = parts.iter().take_while(move |part| part.start < stretch.end);
            Box::new(inside.filter(move |part| part.level <= level).map(|part| part.start))
        }
        Seam::Block => listed(&outline.blocks, stretch),
        Seam::Item => listed(&outline.items, stretch),
        Seam::Paragraph => Box::new(paragraphs(piece).map(move |at| start + at)),
        Seam::Sentence => Box::new(sentences(piece).map(move |at| start + at)),
        Seam::Line => Box::new(lines::starts(piece).map(move |at| start + at)),
        Seam::Word => Box::new(words(piece).map(move |at| start + at)),
        Seam::Character => Box::new(spread(piece, characters).map(move |at| start + at)),
    }
}

fn listed(places: &[usize], stretch: Range<usize>) -> Box<dyn Iterator<Item = usize> + '_> {
    let first = places.partition_point(|&place| place <= stretch.start);
    Box::new(places[first..].iter().copied().take_while(move |&place| place < stretch.end))
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

fn spread(text: &str, count: usize) -> impl Iterator<Item = usize> {
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

    fn check(seams: impl Iterator<Item = usize>, text: &str, expected: &[&str]) {
        let mut start = 0;
        let mut pieces = Vec::new();
        for end in seams.chain([text.len()]) {
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
    fn characters_are_cut_at_their_boundaries() {
        let text = "aéüo";
        check(spread(text, 100), text, &["a", "é", "ü", "o"]);
        check(spread(text, 2), text, &["aé", "üo"]);
    }
}
