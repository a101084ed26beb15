//! What of the found passages goes into the prompt: whole where there is room, else one run of sentences of
//! each, the better ones first; or, for a model that keeps what it reads of a passage, only whole ones. Pure; what is
//! cut is still a piece of its document, at the lines it says.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use domain::{Passage, char_count, line_ends};

use crate::sentences;
use crate::words::content_words;

/// A passage with fewer tokens to itself would say nothing; the last ones are left out instead.
const LEAST_TOKENS: usize = 48;

/// The passages for a question that fit into so many tokens, best first.
pub(crate) fn fit(
    passages: Vec<Passage>,
    question: &str,
    mut room: usize,
    count: impl Fn(&str) -> usize,
) -> Vec<Passage> {
    let costs: Vec<usize> = passages.iter().map(|passage| passage.tokens(&count)).collect();
    let taken = if costs.iter().sum::<usize>() <= room {
        passages.len()
    } else {
        // Each has half of what those before it left, the last all of it.
        let halvings = (room / LEAST_TOKENS).checked_ilog2().unwrap_or(0) as usize;
        passages.len().min(1 + halvings)
    };
    let wanted = content_words(question);
    let mut fitted = Vec::with_capacity(taken);
    for (index, passage) in passages.into_iter().take(taken).enumerate() {
        // Half of what is left, or all that those behind it do not need.
        let behind: usize = costs[index + 1..taken].iter().sum();
        let share = (room / 2).max(room.saturating_sub(behind));
        let passage =
            if costs[index] <= share { Some(passage) } else { cut(&passage, &wanted, share, &count) };
        let Some(passage) = passage else { continue };
        room = room.saturating_sub(passage.tokens(&count));
        fitted.push(passage);
    }
    fitted
}

/// The passages that go in whole, best first: as many as have `most` tokens together, and the best one in any case. It
/// is cut only where the model has no room for it.
pub(crate) fn whole(
    passages: Vec<Passage>,
    question: &str,
    most: usize,
    room: usize,
    count: impl Fn(&str) -> usize,
) -> Vec<Passage> {
    let mut left = most.min(room);
    let mut taken = Vec::new();
    for passage in passages {
        let tokens = passage.tokens(&count);
        match left.checked_sub(tokens) {
            Some(rest) => left = rest,
            None if !taken.is_empty() => continue,
            None if tokens <= room => left = 0,
            None => return fit(vec![passage], question, room, count),
        }
        taken.push(passage);
    }
    taken
}

/// The passage, cut to what fits into so many tokens.
fn cut(
    passage: &Passage,
    wanted: &HashSet<String>,
    tokens: usize,
    count: impl Fn(&str) -> usize,
) -> Option<Passage> {
    let heading = passage.tokens(&count).saturating_sub(count(&passage.text));
    let mut room = tokens.checked_sub(heading)?;
    loop {
        let run = best_run(&passage.text, wanted, room, &count)?;
        let cut = at(passage, run);
        // Pieces may have more tokens together than each by itself.
        let over = cut.tokens(&count).saturating_sub(tokens);
        if over == 0 {
            return Some(cut);
        }
        room = room.checked_sub(over)?;
    }
}

/// The run of sentences that has the most of the wanted words, and as much around it as fits.
fn best_run(
    text: &str,
    wanted: &HashSet<String>,
    room: usize,
    count: impl Fn(&str) -> usize,
) -> Option<Range<usize>> {
    let pieces: Vec<Piece> = sentences::pieces(text)
        .into_iter()
        .map(|range| Piece {
            tokens: count(&text[range.clone()]),
            words: content_words(&text[range.clone()]).intersection(wanted).cloned().collect(),
            range,
        })
        .collect();
    let Some(core) = densest(&pieces, room) else {
        let most = pieces.iter().max_by_key(|piece| (piece.words.len(), Reverse(piece.range.start)))?;
        return beginning(text, most.range.clone(), room, count);
    };
    let (mut first, mut last) = (*core.start(), *core.end());
    let mut left = room - pieces[core].iter().map(|piece| piece.tokens).sum::<usize>();
    let mut take = |piece: &Piece| left.checked_sub(piece.tokens).map(|rest| left = rest).is_some();
    // What follows explains more than what comes before.
    last += pieces[last + 1..].iter().take_while(|piece| take(piece)).count();
    first -= pieces[..first].iter().rev().take_while(|piece| take(piece)).count();
    Some(pieces[first].range.start..pieces[last].range.end)
}

/// The pieces in a row that have the most of the wanted words, and no more pieces than that takes; the first
/// such row.
fn densest(pieces: &[Piece], room: usize) -> Option<RangeInclusive<usize>> {
    let mut best: Option<(usize, Reverse<usize>, RangeInclusive<usize>)> = None;
    for first in 0..pieces.len() {
        let (mut tokens, mut words) = (0, HashSet::new());
        for (last, piece) in pieces.iter().enumerate().skip(first) {
            tokens += piece.tokens;
            if tokens > room {
                break;
            }
            words.extend(&piece.words);
            let worth = (words.len(), Reverse(last - first));
            if best.as_ref().is_none_or(|(most, length, _)| worth > (*most, *length)) {
                best = Some((worth.0, worth.1, first..=last));
            }
        }
    }
    best.map(|(_, _, row)| row)
}

/// The first words of a piece that is too long by itself, or its first characters if one word is.
fn beginning(
    text: &str,
    piece: Range<usize>,
    mut room: usize,
    count: impl Fn(&str) -> usize,
) -> Option<Range<usize>> {
    let words = text[piece.clone()].split_inclusive(char::is_whitespace);
    let fitting = words.take_while(|word| room.checked_sub(count(word)).map(|rest| room = rest).is_some());
    let length: usize = fitting.map(str::len).sum();
    if length > 0 {
        return Some(piece.start..piece.start + length);
    }
    // Some scripts have no spaces, nor has all that machines write: then it is the first characters.
    let ends: Vec<usize> = text[piece.clone()]
        .char_indices()
        .map(|(at, character)| piece.start + at + character.len_utf8())
        .collect();
    let fitting = ends.partition_point(|&end| count(&text[piece.start..end]) <= room);
    fitting.checked_sub(1).map(|last| piece.start..ends[last])
}

struct Piece {
    range: Range<usize>,
    tokens: usize,
    words: HashSet<String>,
}

/// The passage, reduced to a run of its text. White space around a text has no part in its lines.
fn at(passage: &Passage, run: Range<usize>) -> Passage {
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
    Passage { text: cut.to_owned(), before: String::new(), lines, chars, ..passage.clone() }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::slice;

    use domain::{ChunkId, DocumentId, Timestamp};
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn passage(text: &str) -> Passage {
        Passage {
            chunk: ChunkId::new(Timestamp::from_micros(0)),
            document: DocumentId::new(Timestamp::from_micros(0)),
            title: "Guide".to_owned(),
            repo_url: None,
            file_path: Some("guide.md".to_owned()),
            url: None,
            section: None,
            subsection: None,
            lines: Some((10, 10 + line_ends(text.trim()))),
            chars: None,
            text: text.to_owned(),
            before: String::new(),
            score: 0.5,
        }
    }

    fn words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn texts(passages: &[Passage]) -> Vec<&str> {
        passages.iter().map(|passage| passage.text.as_str()).collect()
    }

    const STORY: &str =
        "\nFirst comes a line.\nThe server keeps sessions for one hour.\n\nThen they end. Last of all.\n";

    #[test]
    fn passages_that_fit_stay_as_they_are() {
        let passages = vec![passage(&STORY.repeat(9)), passage("Short."), passage("Short too.")];
        let all: usize = passages.iter().map(|passage| passage.tokens(words)).sum();
        assert_eq!(fit(passages.clone(), "question", all, words), passages);
        assert_eq!(fit(vec![], "question", 0, words), []);
    }

    #[test]
    fn a_passage_that_is_too_long_keeps_the_sentences_that_the_question_is_about() {
        let fitted = fit(vec![passage(STORY)], "How long is a session kept?", 22, words);
        assert_eq!(texts(&fitted), ["The server keeps sessions for one hour.\n\nThen they end."]);
        assert_eq!(fitted[0].lines, Some((11, 13)));
    }

    #[test]
    fn a_sentence_that_is_too_long_keeps_its_first_words() {
        let fitted = fit(vec![passage(&"word ".repeat(100))], "question", 20, words);
        assert_eq!(texts(&fitted), ["word word word word word word word word word word"]);
        let characters = |text: &str| text.chars().count();
        let fitted = fit(vec![passage(&"ß".repeat(10_000))], "question", 40, characters);
        assert_eq!(texts(&fitted), ["ß".repeat(19)]);
        assert!(fit(vec![passage(&"x".repeat(10_000))], "question", 20, characters).is_empty());
    }

    #[test]
    fn the_last_passages_are_left_out_when_there_is_no_room_for_all() {
        let long = "One two three four. ".repeat(50);
        let passages: Vec<_> = (0..5).map(|_| passage(&long)).collect();
        assert_eq!(fit(passages.clone(), "four", 2 * LEAST_TOKENS, words).len(), 2);
        assert_eq!(fit(passages, "four", 3, words), [], "not even a sentence fits");
    }

    #[test]
    fn passages_that_are_kept_go_in_whole_or_not_at_all() {
        let [long, short] = [passage(&STORY.repeat(9)), passage("Short.")];
        let tokens = |passage: &Passage| passage.tokens(words);
        let all = || vec![long.clone(), long.clone(), short.clone()];
        let both = tokens(&long) + tokens(&short);
        assert_eq!(whole(all(), "question", both, 10_000, words), [long.clone(), short.clone()]);
        assert_eq!(
            whole(all(), "question", 50, 10_000, words),
            slice::from_ref(&long),
            "the best one in any case"
        );
        assert_eq!(whole(all(), "question", 10_000, both, words), [long.clone(), short.clone()]);
        let cut = whole(all(), "question", 10_000, tokens(&long) - 1, words);
        assert!(cut.len() == 1 && long.text.contains(&cut[0].text) && cut[0].text.len() < long.text.len());
        assert_eq!(whole(all(), "question", 50, 3, words), []);
    }

    /// Pieces have more tokens together than each by itself.
    fn letters(text: &str) -> usize {
        text.len() + text.len().checked_ilog2().unwrap_or(0) as usize
    }

    proptest! {
        #[test]
        fn what_is_cut_from_a_selection_is_at_its_characters_and_lines(
            before in "[a-zßあ🙂 \r\n]{0,30}",
            text in "([a-zßあ🙂]{1,8}[ .\r\n]{1,3}){1,40}",
            room in 10_usize..400,
        ) {
            let selection = format!("{}\n{text}", before.trim_end());
            let first = char_count(before.trim_end()) + 1;
            let whole = Passage {
                chars: Some((first, first + char_count(&text))),
                lines: Some((1 + line_ends(before.trim_end()) + 1, 1 + line_ends(selection.trim_end()))),
                ..passage(&text)
            };
            for cut in fit(vec![whole], "a b c", room, letters) {
                let ((start, end), (first, last)) = (cut.chars.unwrap(), cut.lines.unwrap());
                let (start, end) = (start as usize, end as usize);
                let quoted: String = selection.chars().take(end).skip(start).collect();
                prop_assert_eq!(&cut.text, &quoted);
                let until = |chars: usize| selection.chars().take(chars).collect::<String>();
                if cut.text == cut.text.trim() {
                    prop_assert_eq!(first, 1 + line_ends(&until(start)));
                    prop_assert_eq!(last, 1 + line_ends(&until(end)));
                }
            }
        }

        #[test]
        fn what_is_cut_fits_and_is_in_its_passage_at_its_lines(
            texts in proptest::collection::vec("([a-z]{1,8}[ .\r\n]{1,2}){1,40}", 1..6),
            room in 0_usize..600,
        ) {
            let passages: Vec<_> = texts
                .iter()
                .enumerate()
                .map(|(number, text)| Passage { title: number.to_string(), ..passage(text) })
                .collect();
            let fitted = fit(passages.clone(), "a b c", room, letters);
            prop_assert!(fitted.iter().map(|passage| passage.tokens(letters)).sum::<usize>() <= room);
            for cut in &fitted {
                let whole = &passages[cut.title.parse::<usize>().unwrap()].text;
                let at = whole.find(cut.text.trim()).expect("it is a piece of its passage");
                let (first, last) = cut.lines.unwrap();
                prop_assert!(!cut.text.trim().is_empty());
                prop_assert_eq!(last - first, line_ends(cut.text.trim()));
                let earliest = line_ends(&whole[whole.len() - whole.trim_start().len()..at]);
                prop_assert!(first - 10 >= earliest, "{:?} of {:?}", cut, whole);
            }
        }
    }
}
