//! The words of a text that mean something, in a form that compares.

use std::collections::HashSet;

/// The words that mean something, each once: lower-case, without endings that only bend them.
pub(crate) fn content_words(text: &str) -> HashSet<String> {
    text.split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .filter(|word| !is_stop_word(word))
        .map(|word| stem(&word).to_owned())
        .collect()
}

/// Whether a lower-case word says nothing about what a sentence is about.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(&word)
}

/// A word without the commonest English endings. Numbers and names in code stay as they are.
fn stem(word: &str) -> &str {
    const ENDINGS: [&str; 7] = ["ing", "ies", "es", "ed", "ly", "s", "e"];
    const LEAST: usize = 3;
    ENDINGS
        .iter()
        .find_map(|ending| word.strip_suffix(ending).filter(|stem| stem.chars().count() >= LEAST))
        .unwrap_or(word)
}

/// Words that say nothing about what a sentence is about.
const STOP_WORDS: [&str; 78] = [
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by",
    "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he", "her", "his", "how", "i",
    "if", "in", "into", "is", "it", "its", "may", "more", "most", "no", "not", "of", "on", "one", "or",
    "other", "our", "s", "she", "should", "so", "some", "such", "than", "that", "the", "their", "them",
    "then", "there", "these", "they", "this", "to", "was", "we", "were", "what", "when", "where", "which",
    "who", "will", "with", "would", "you", "your", "t",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_compare_whatever_their_case_and_ending() {
        assert_eq!(content_words("The Streams are resumed, quickly!"), content_words("stream resume QUICK"));
        assert_eq!(content_words("limits.body_bytes = 1048576"), content_words("1048576 byte (body limit)"));
        assert!(content_words("is it of the").is_empty());
    }
}
