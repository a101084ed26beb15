//! The cite step: finds the passages that an answer rests on, by its passage numbers and by its words. Pure;
//! every quote is a piece of its passage.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use domain::{Citation, Passage};

use crate::text::markdown::prose;
use crate::text::sentences;
use crate::text::words::content_words;

/// Lower bound on the share of an answer sentence's content words that one or two consecutive sentences of a
/// passage must have to support it. Fitted with a prototype of this rule on human answers of ClapNQ;
/// docs/retrieval.md has the figures.
const MIN_SUPPORT: f32 = 0.6;

/// Lower bound on the content words of a sentence that can be attributed: one with fewer could come from
/// anywhere.
const MIN_WORDS: usize = 3;

/// The citations of an answer, by passage number: the passages whose numbers it names outside of code, such
/// as `[2]`, and those that support one of its sentences best. A supporting passage has its best supporting
/// sentences as the quote.
pub(super) fn citations(answer: &str, passages: &[Passage]) -> Vec<Citation> {
    let prose = prose(answer);
    let mut cited: BTreeMap<usize, Option<Support>> =
        prose.iter().flat_map(|text| markers(text, passages.len())).map(|index| (index, None)).collect();
    let passages: Vec<_> = passages.iter().map(|passage| IndexedPassage::new(&passage.text)).collect();
    for text in prose {
        for sentence in sentences::split(text) {
            for (index, support) in supporting(&text[sentence], &passages) {
                let best = cited.entry(index).or_default();
                if best.as_ref().is_none_or(|best| best.share < support.share) {
                    *best = Some(support);
                }
            }
        }
    }
    let citation = |(index, support): (usize, Option<Support>)| Citation {
        number: u32::try_from(index + 1).unwrap_or(u32::MAX),
        quote: support.map(|support| passages[index].text[support.quote].trim().to_owned()),
    };
    cited.into_iter().map(citation).collect()
}

/// The indexes of the passages whose numbers stand in square brackets: `[2]`, `[1, 3]`. A number that no
/// passage has is ignored.
fn markers(text: &str, passages: usize) -> Vec<usize> {
    let bracketed = text.split('[').skip(1).filter_map(|rest| rest.split_once(']')).map(|(inside, _)| inside);
    bracketed
        .filter_map(numbers)
        .flatten()
        .filter(|number| (1..=passages).contains(number))
        .map(|number| number - 1)
        .collect()
}

/// A comma-separated list of numbers; none if anything else is in the brackets.
fn numbers(inside: &str) -> Option<Vec<usize>> {
    inside.split(',').map(|number| number.trim().parse().ok()).collect()
}

/// The content words of a sentence of the answer, without its markers.
fn words_without_markers(sentence: &str) -> HashSet<String> {
    let mut parts = sentence.split('[');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_marker = |(inside, _): &(&str, &str)| numbers(inside).is_some();
        text.push(' ');
        text.push_str(part.split_once(']').filter(is_marker).map_or(part, |(_, behind)| behind));
    }
    content_words(&text)
}

/// How well a passage supports a sentence, and the part of the passage that does.
struct Support {
    share: f32,
    quote: Range<usize>,
}

/// The passages that support a sentence by [`MIN_SUPPORT`] and as well as any other.
fn supporting(sentence: &str, passages: &[IndexedPassage<'_>]) -> Vec<(usize, Support)> {
    let words = words_without_markers(sentence);
    if words.len() < MIN_WORDS {
        return Vec::new();
    }
    let supports: Vec<_> = passages.iter().map(|passage| passage.support(&words)).collect();
    let best = supports.iter().flatten().map(|support| support.share).fold(MIN_SUPPORT, f32::max);
    let supports = supports.into_iter().enumerate();
    supports.filter_map(|(index, support)| Some((index, support.filter(|s| s.share >= best)?))).collect()
}

/// A passage with the content words of each of its sentences.
struct IndexedPassage<'a> {
    text: &'a str,
    sentences: Vec<(Range<usize>, HashSet<String>)>,
}

impl<'a> IndexedPassage<'a> {
    fn new(text: &'a str) -> Self {
        let with_words = |range: Range<usize>| (range.clone(), content_words(&text[range]));
        Self { text, sentences: sentences::split(text).into_iter().map(with_words).collect() }
    }

    /// The sentence, or the two consecutive sentences, with the largest share of the words. One wins over two
    /// with the same share.
    #[expect(clippy::cast_precision_loss, reason = "a sentence has few words")]
    fn support(&self, words: &HashSet<String>) -> Option<Support> {
        let mut best: Option<Support> = None;
        for length in [1, 2] {
            for run in self.sentences.windows(length) {
                let found = words.iter().filter(|word| run.iter().any(|(_, has)| has.contains(*word)));
                let share = found.count() as f32 / words.len() as f32;
                if best.as_ref().is_none_or(|best| best.share < share) {
                    best = Some(Support { share, quote: run[0].0.start..run[length - 1].0.end });
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn passage(text: &str) -> Passage {
        testing::passage("Guide", text)
    }

    fn check(answer: &str, passages: &[&str], expected: &[(u32, Option<&str>)]) {
        let passages: Vec<_> = passages.iter().map(|text| passage(text)).collect();
        let found = citations(answer, &passages);
        let found: Vec<_> =
            found.iter().map(|citation| (citation.number, citation.quote.as_deref())).collect();
        assert_eq!(found, expected, "{answer}");
    }

    const JOURNAL: &str = "The journal keeps running logs. Each batch is one write to a segment file.";
    const SESSIONS: &str = "A session expires when it was idle for an hour. Its history stays.";

    #[test]
    fn a_number_in_brackets_names_its_passage() {
        check("So it is [2].", &["a", "b"], &[(2, None)]);
        check("Both [1, 2]; and [1][2] again.", &["a", "b"], &[(1, None), (2, None)]);
        check("None of [0], [3], [x], [1-2], [] or [1", &["a", "b"], &[]);
    }

    #[test]
    fn numbers_in_code_are_not_markers() {
        check("Use `list[1]` or\n```rust\nitems[2]\n```\nand `x[1]`.", &["a", "b"], &[]);
        check("Use `list[1]`, see [2].", &["a", "b"], &[(2, None)]);
        check("```\nnever closed [1]", &["a"], &[]);
    }

    #[test]
    fn a_sentence_is_supported_by_a_passage_with_its_words() {
        check(
            "Each batch goes to a segment file, in one write.",
            &[SESSIONS, JOURNAL],
            &[(2, Some("Each batch is one write to a segment file."))],
        );
        check(
            "Idle sessions expire after an hour.",
            &[JOURNAL, SESSIONS],
            &[(2, Some("A session expires when it was idle for an hour."))],
        );
    }

    #[test]
    fn a_sentence_that_no_passage_has_is_not_supported() {
        check("Postgres replicates tables between regions.", &[JOURNAL, SESSIONS], &[]);
        check("Yes. No idea.", &[JOURNAL], &[]);
        check("", &[JOURNAL], &[]);
        check("Anything at all, however long it is.", &[], &[]);
    }

    #[test]
    fn a_marker_gets_a_quote_from_its_passage() {
        check(
            "Running logs are kept in the journal [1].",
            &[JOURNAL],
            &[(1, Some("The journal keeps running logs."))],
        );
    }

    #[test]
    fn markers_do_not_count_as_words() {
        check("Yes, see [1] [2] [3].", &["1 2\n3 and more", "x", "y"], &[(1, None), (2, None), (3, None)]);
        check(
            "The journal keeps logs [1, 2].",
            &[JOURNAL, SESSIONS],
            &[(1, Some("The journal keeps running logs.")), (2, None)],
        );
    }

    #[test]
    fn every_quote_is_in_its_passage() {
        let text = "Größe zählt hier mehr als sonst 🙂. Und die Farbe der Kacheln auch!\nNächste Zeile";
        let citations = citations("Die Größe zählt hier mehr als die Farbe.", &[passage(text)]);
        let [Citation { number: 1, quote: Some(quote) }] = &citations[..] else { panic!("{citations:?}") };
        assert!(text.contains(quote), "{quote}");
    }

    #[test]
    fn fuzz_nearly_right_answers() {
        let passages = [
            passage("Water boils at 100 degrees. It freezes at zero degrees."),
            passage("Pumps lift water."),
        ];
        let answers = [
            "Water boils at 100 degrees [1]. Pumps lift water [2, 1].\n\n```\nx[1]\n```\n`[2]` and [3]",
            "~~~rust\nlet a = b[1];\n~~~\nIt freezes at zero degrees.",
        ];
        let words = [
            "[",
            "]",
            "[1]",
            "[2, 1]",
            "`",
            "``",
            "```",
            "~~~",
            "[99999999999999999999]",
            "[-1]",
            "\u{3000}",
            "。",
        ];
        testing::fuzz_text(&answers, &words, |answer| {
            let cited = citations(answer, &passages);
            assert!(cited.is_sorted_by(|one, next| one.number < next.number), "{cited:?}");
            for citation in cited {
                let passage = &passages[citation.number as usize - 1];
                assert!(citation.quote.is_none_or(|quote| passage.text.contains(&quote)));
            }
        });
    }
}
