//! Extractive compression: reduces a passage to the run of its sentences that a question is about. Pure; the
//! result is a piece of the passage, with the lines and characters where it stands.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use domain::{Passage, char_count, line_ends};

use crate::text::sentences;
use crate::text::words::content_words;

struct Sentence {
    range: Range<usize>,
    tokens: usize,
    /// The wanted words in it.
    words: HashSet<String>,
}

/// The passage reduced to at most `tokens` tokens around its sentences with the most `wanted` words. None if
/// nothing of it fits.
pub(super) fn extract(
    passage: &Passage,
    wanted: &HashSet<String>,
    tokens: usize,
    count: impl Fn(&str) -> usize,
) -> Option<Passage> {
    let heading = passage.tokens(&count).saturating_sub(count(&passage.text));
    let mut room = tokens.checked_sub(heading)?;
    loop {
        let run = best_run(&passage.text, wanted, room, &count)?;
        let cut = reduce(passage, run);
        // Sentences may have more tokens together than the sum of each by itself.
        let over = cut.tokens(&count).saturating_sub(tokens);
        if over == 0 {
            return Some(cut);
        }
        room = room.checked_sub(over)?;
    }
}

/// The run of sentences with the most wanted words, extended by the sentences around it as far as they fit.
fn best_run(
    text: &str,
    wanted: &HashSet<String>,
    room: usize,
    count: impl Fn(&str) -> usize,
) -> Option<Range<usize>> {
    let sentences: Vec<Sentence> = sentences::split(text)
        .into_iter()
        .map(|range| Sentence {
            tokens: count(&text[range.clone()]),
            words: content_words(&text[range.clone()]).intersection(wanted).cloned().collect(),
            range,
        })
        .collect();
    let Some(core) = densest_run(&sentences, room) else {
        let best = sentences.iter().max_by_key(|one| (one.words.len(), Reverse(one.range.start)))?;
        return beginning(text, best.range.clone(), room, count);
    };
    let (mut first, mut last) = (*core.start(), *core.end());
    let mut left = room - sentences[core].iter().map(|one| one.tokens).sum::<usize>();
    let mut take = |one: &Sentence| left.checked_sub(one.tokens).map(|rest| left = rest).is_some();
    // The sentences after the run explain more than those before it.
    last += sentences[last + 1..].iter().take_while(|one| take(one)).count();
    first -= sentences[..first].iter().rev().take_while(|one| take(one)).count();
    Some(sentences[first].range.start..sentences[last].range.end)
}

/// The shortest run with the most wanted words that fits, the first of several. None if no sentence fits.
fn densest_run(sentences: &[Sentence], room: usize) -> Option<RangeInclusive<usize>> {
    let mut best: Option<(usize, Reverse<usize>, RangeInclusive<usize>)> = None;
    for first in 0..sentences.len() {
        let (mut tokens, mut words) = (0, HashSet::new());
        for (last, sentence) in sentences.iter().enumerate().skip(first) {
            tokens += sentence.tokens;
            if tokens > room {
                break;
            }
            words.extend(&sentence.words);
            let worth = (words.len(), Reverse(last - first));
            if best.as_ref().is_none_or(|(most, length, _)| worth > (*most, *length)) {
                best = Some((worth.0, worth.1, first..=last));
            }
        }
    }
    best.map(|(_, _, run)| run)
}

/// The first words that fit of a sentence that is too long, or its first characters if its first word is too
/// long.
fn beginning(
    text: &str,
    sentence: Range<usize>,
    mut room: usize,
    count: impl Fn(&str) -> usize,
) -> Option<Range<usize>> {
    let words = text[sentence.clone()].split_inclusive(char::is_whitespace);
    let fitting = words.take_while(|word| room.checked_sub(count(word)).map(|rest| room = rest).is_some());
    let length: usize = fitting.map(str::len).sum();
    if length > 0 {
        return Some(sentence.start..sentence.start + length);
    }
    // Some scripts write no spaces, and neither does much generated text.
    let ends: Vec<usize> = text[sentence.clone()]
        .char_indices()
        .map(|(at, character)| sentence.start + at + character.len_utf8())
        .collect();
    let fitting = ends.partition_point(|&end| count(&text[sentence.start..end]) <= room);
    fitting.checked_sub(1).map(|last| sentence.start..ends[last])
}

/// The passage reduced to a range of its text. Line and character positions are adjusted; white space around
/// a passage's text has no part in its lines.
fn reduce(passage: &Passage, run: Range<usize>) -> Passage {
    let text = &passage.text;
    let text_start = text.len() - text.trim_start().len();
    let cut = text[run.clone()].trim();
    let cut_start = run.end - text[run.clone()].trim_start().len();
    let lines = passage.lines.map(|(first, _)| {
        let first = first + line_ends(&text[text_start..cut_start.max(text_start)]);
        (first, first + line_ends(cut))
    });
    let chars = passage.chars.map(|(first, _)| {
        let first = first + char_count(&text[..cut_start]);
        (first, first + char_count(cut))
    });
    Passage { text: cut.to_owned(), lines, chars, ..passage.clone() }
}
