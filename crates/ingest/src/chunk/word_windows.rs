//! The strategy `words`: windows over `text.split(" ")`, as the Python package `adalflow` splits. Only a
//! space separates words, and each window but the last ends with one.

use std::iter::once;
use std::ops::Range;

use memchr::memchr_iter;

const WORDS: usize = 350;
const OVERLAP: usize = 100;

/// The windows, in order. An empty text has none.
pub(super) fn windows(text: &str) -> Vec<Range<usize>> {
    let words: Vec<usize> =
        once(0).chain(memchr_iter(b' ', text.as_bytes()).map(|space| space + 1)).collect();
    let mut windows = Vec::new();
    let mut first = 0;
    while let Some(&next) = words.get(first + WORDS) {
        windows.push(words[first]..next);
        first += WORDS - OVERLAP;
    }
    let last = words[first]..text.len();
    windows.extend((!last.is_empty()).then_some(last));
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: usize) -> String {
        (0..words).map(|word| word.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_text_that_fits_is_one_window() {
        assert!(windows("").is_empty());
        for text in ["one", " ", &text(350)] {
            assert_eq!(windows(text), vec![0..text.len()]);
        }
    }

    #[test]
    fn windows_overlap_by_a_hundred_words() {
        let text = text(351);
        let found: Vec<&str> = windows(&text).into_iter().map(|window| &text[window]).collect();
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("0 1 ") && found[0].ends_with(" 349 "));
        assert!(found[1].starts_with("250 ") && found[1].ends_with(" 350"));
    }
}
