//! What makes an answer a good one. Every rule can be computed by hand.

use std::collections::HashMap;
use std::time::Duration;

use bench::collection::{Question, ReferenceAnswer, has_fact};
use bench::evaluated::Answer;

use crate::earlier::EarlierAnswers;

/// What is measured of one answer.
pub(crate) struct Verdict {
    pub(crate) answerable: bool,
    /// Against the best of the references; `None` without one.
    pub(crate) f1: Option<f64>,
    /// The difference to an earlier answer's F1; `None` without one.
    pub(crate) better: Option<f64>,
    /// Whether it has a fact of the reference; `None` without facts.
    pub(crate) fact: Option<bool>,
    /// Whether a passage in the prompt has it.
    pub(crate) fact_is_given: bool,
    pub(crate) refusal: bool,
    /// Cited passages, and how many of them are of a document that answers the question.
    pub(crate) cited: usize,
    pub(crate) rightly_cited: usize,
    /// Whether it refers to a passage by its number.
    pub(crate) markers: bool,
    pub(crate) words: usize,
    pub(crate) first_token: Duration,
}

impl Verdict {
    pub(crate) fn new(
        question: &Question,
        reference: &ReferenceAnswer,
        earlier: &EarlierAnswers,
        answer: &Answer,
    ) -> Self {
        let best = reference.answers.iter().map(|given| token_f1(&answer.text, given)).reduce(f64::max);
        let f1 = best.filter(|_| reference.answerable);
        let cited = || answer.sources.iter().filter(|source| source.cited);
        Self {
            answerable: reference.answerable,
            f1,
            better: earlier.better(&question.id, f1),
            fact: (!reference.facts.is_empty()).then(|| has_fact(&answer.text, &reference.facts)),
            fact_is_given: answer.sources.iter().any(|source| has_fact(&source.excerpt, &reference.facts)),
            refusal: is_refusal(&answer.text),
            cited: cited().count(),
            rightly_cited: cited().filter(|source| question.answered_by.contains(&source.file_path)).count(),
            markers: has_marker(&answer.text),
            words: answer.text.split_whitespace().count(),
            first_token: answer.first_token,
        }
    }
}

/// Phrases of answers that find nothing, in lower case.
const REFUSALS: [&str; 25] = [
    "do not tell",
    "does not tell",
    "don't tell",
    "do not say",
    "does not say",
    "do not provide",
    "does not provide",
    "not provided",
    "do not contain",
    "does not contain",
    "do not mention",
    "does not mention",
    "not mentioned",
    "do not specify",
    "does not specify",
    "not specified",
    "do not answer",
    "does not answer",
    "not in the passages",
    "not in the documents",
    "no information",
    "nothing was found",
    "not found in",
    "cannot answer",
    "i do not know",
];

/// A refusal is within the first characters; later, such a phrase qualifies an answer.
const BEGINNING: usize = 220;

/// The harmonic mean of precision and recall over the words of two texts, without articles and punctuation.
fn token_f1(answer: &str, reference: &str) -> f64 {
    let (answer, reference) = (words(answer), words(reference));
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in &reference {
        *left.entry(word).or_default() += 1;
    }
    let is_left = |word: &&String| match left.get_mut(word.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    };
    let common = answer.iter().filter(is_left).count();
    if common == 0 {
        return 0.0;
    }
    2.0 * common as f64 / (answer.len() + reference.len()) as f64
}

/// Whether the answer says that the documents have none.
fn is_refusal(answer: &str) -> bool {
    let beginning: String = answer.chars().take(BEGINNING).collect::<String>().to_lowercase();
    REFUSALS.iter().any(|refusal| beginning.contains(refusal))
}

/// Whether the answer refers to a passage by its number.
fn has_marker(answer: &str) -> bool {
    let mut brackets = answer.split('[').skip(1).filter_map(|rest| rest.split_once(']'));
    brackets.any(|(inside, _)| !inside.is_empty() && inside.chars().all(|c| c.is_ascii_digit()))
}

/// The words of a text in lower case, without the numbers of passages.
fn words(text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let without_markers = text.split('[').enumerate().map(|(index, part)| match part.split_once(']') {
        Some((inside, rest)) if index > 0 && inside.chars().all(|c| c.is_ascii_digit()) => rest,
        _ => part,
    });
    let joined = without_markers.collect::<Vec<_>>().join(" ");
    let words = joined.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.filter(|word| !["a", "an", "the"].contains(word)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f1_is_computed_over_words() {
        assert!((token_f1("The cat sat [1].", "a CAT sat") - 1.0).abs() < 1e-9);
        // Two of three words, and two of two.
        assert!((token_f1("the cat sat down", "cat sat") - 0.8).abs() < 1e-9);
        // A word counts as often as the reference has it.
        assert!((token_f1("cat cat", "cat dog") - 0.5).abs() < 1e-9);
        assert!(token_f1("", "cat").abs() < 1e-9);
        assert!(token_f1("dog", "cat").abs() < 1e-9);
    }

    #[test]
    fn a_refusal_says_so_at_its_beginning() {
        assert!(is_refusal("The documents do not tell."));
        assert!(is_refusal("The passage does not mention who wrote it."));
        assert!(!is_refusal("Sessions end after an hour [1]."));
        assert!(!is_refusal(&format!("{}. The passages do not mention more.", "word ".repeat(60))));
    }

    #[test]
    fn a_number_in_brackets_is_a_marker() {
        assert!(has_marker("So it is [2]."));
        assert!(!has_marker("So it is [] or [x] or 2]."));
    }
}
