//! The content words of a text, in a form that can be compared.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::text::word_list;

static STOP_WORDS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| word_list::entries(include_str!("stop_words.txt")));

/// The words of a text without stop words, each once, in lower case and without inflectional endings.
pub(crate) fn content_words(text: &str) -> HashSet<String> {
    text.split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .filter(|word| !is_stop_word(word))
        .map(|word| stem(&word).to_owned())
        .collect()
}

/// Whether a lower-case word says nothing about the topic of a sentence.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(word)
}

/// A word without its most common English ending, if at least three characters remain.
fn stem(word: &str) -> &str {
    /// The first that matches is removed, so longer endings stand before their own ends.
    const ENDINGS: [&str; 7] = ["ing", "ies", "es", "ed", "ly", "s", "e"];
    const MIN_STEM_CHARS: usize = 3;
    ENDINGS
        .iter()
        .find_map(|ending| word.strip_suffix(ending).filter(|stem| stem.chars().count() >= MIN_STEM_CHARS))
        .unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_compare_regardless_of_case_and_ending() {
        assert_eq!(content_words("The Streams are resumed, quickly!"), content_words("stream resume QUICK"));
        assert_eq!(content_words("limits.body_bytes = 1048576"), content_words("1048576 byte (body limit)"));
        assert!(content_words("is it of the").is_empty());
    }
}
