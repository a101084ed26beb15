//! What makes an answer a good one. Pure; every rule is one that can be computed by hand.

use std::collections::HashMap;

/// What people and models write when they find no answer, in small letters.
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

/// A refusal stands at the beginning; what comes later qualifies an answer.
const BEGINNING: usize = 220;

/// The harmonic mean of precision and recall over the words of two texts, without articles and punctuation.
#[expect(clippy::cast_precision_loss, reason = "an answer has few words")]
pub(super) fn token_f1(answer: &str, reference: &str) -> f64 {
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

/// Whether it says that the documents have no answer.
pub(super) fn is_refusal(answer: &str) -> bool {
    let beginning: String = answer.chars().take(BEGINNING).collect::<String>().to_lowercase();
    REFUSALS.iter().any(|refusal| beginning.contains(refusal))
}

/// Whether one of these is in it, however it is set and spaced. A fact is no part of a longer word: 30 is not in 300.
pub(super) fn has_fact(answer: &str, facts: &[String]) -> bool {
    let answer = plain(answer);
    facts.iter().map(|fact| plain(fact)).any(|fact| !fact.is_empty() && has_words(&answer, &fact))
}

fn has_words(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(start, _)| {
        let (before, behind) = (&text[..start], &text[start + words.len()..]);
        !before.ends_with(char::is_alphanumeric) && !behind.starts_with(char::is_alphanumeric)
    })
}

/// Whether it names a passage by its number.
pub(super) fn has_marker(answer: &str) -> bool {
    let mut brackets = answer.split('[').skip(1).filter_map(|rest| rest.split_once(']'));
    brackets.any(|(inside, _)| !inside.is_empty() && inside.chars().all(|c| c.is_ascii_digit()))
}

/// The words of a text in small letters; the numbers of passages are none.
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

fn plain(text: &str) -> String {
    let text = text.to_lowercase().replace(['`', '*', '"'], "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
    fn a_fact_is_found_however_it_is_set() {
        let facts = ["3600 seconds".to_owned(), "an hour".to_owned()];
        assert!(has_fact("After `3600`\nseconds.", &facts));
        assert!(has_fact("After **an hour**", &facts));
        assert!(!has_fact("After a day.", &facts));
        assert!(!has_fact("After 13600 seconds, or an hourglass.", &facts));
    }

    #[test]
    fn a_number_in_brackets_is_a_marker() {
        assert!(has_marker("So it is [2]."));
        assert!(!has_marker("So it is [] or [x] or 2]."));
    }
}
