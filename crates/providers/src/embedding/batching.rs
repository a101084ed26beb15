//! Groups texts into batches, and splits batches that a server finds too large. Pure.
//!
//! The server's tokenizer is unknown, and a cautious estimate would drop most of every text. So a text is cut only
//! beyond what any model reads, and further only when the server refuses it.

use super::settings::BatchLimits;

/// Upper bound on the bytes per token of real text. What lies beyond this times the token limit is never read.
const MAX_BYTES_PER_TOKEN: usize = 16;

/// Bytes per token that a refused text is assumed to have, one after the other: those of prose, of code, of other
/// scripts, and of binary noise, which never has more tokens than bytes.
const BYTES_PER_TOKEN: [usize; 4] = [4, 3, 2, 1];

/// The part of a text that is sent. Servers refuse an empty text, so it becomes a space.
pub(super) fn sent(text: &str, token_limit: usize) -> &str {
    let end = text.floor_char_boundary(token_limit.saturating_mul(MAX_BYTES_PER_TOKEN));
    if text.is_empty() { " " } else { &text[..end] }
}

/// Groups texts into batches within the bounds, in order. A text beyond the bounds is a batch of its own.
pub(super) fn batches<'a>(texts: &[&'a str], bounds: BatchLimits) -> Vec<Vec<&'a str>> {
    let mut batches: Vec<Vec<&str>> = Vec::new();
    let mut bytes = 0;
    for &text in texts {
        bytes += text.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < bounds.texts && bytes <= bounds.bytes => batch.push(text),
            _ => {
                bytes = text.len();
                batches.push(vec![text]);
            }
        }
    }
    batches
}

/// Splits a batch that was too large: into halves, or its only text cut shorter. None if that text cannot get shorter.
pub(super) fn split<'a>(texts: &[&'a str], token_limit: usize) -> Option<Vec<Vec<&'a str>>> {
    if let &[text] = texts {
        let lengths = BYTES_PER_TOKEN.map(|bytes| token_limit.saturating_mul(bytes));
        let length = lengths.into_iter().find(|&length| length < text.len())?;
        let end = text.floor_char_boundary(length);
        return (end > 0).then(|| vec![vec![&text[..end]]]);
    }
    let (first, second) = texts.split_at(texts.len() / 2);
    Some(vec![first.to_vec(), second.to_vec()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(texts: &[&str], most: usize, bytes: usize) -> Vec<usize> {
        let bounds = BatchLimits { texts: most, bytes, calls: 1 };
        let batches = batches(texts, bounds);
        assert_eq!(batches.concat(), texts);
        batches.iter().map(Vec::len).collect()
    }

    #[test]
    fn batches_keep_both_bounds() {
        assert_eq!(sizes(&["aa"; 5], 2, 100), [2, 2, 1]);
        assert_eq!(sizes(&["aa"; 5], 100, 6), [3, 2]);
        assert_eq!(sizes(&["a", "aaaaaaaaa", "a", "a"], 3, 4), [1, 1, 2]);
        assert_eq!(sizes(&[], 3, 4), [0; 0]);
    }

    #[test]
    fn a_text_is_cut_beyond_what_any_model_reads() {
        assert_eq!(sent("short", 1), "short");
        assert_eq!(sent(&"é".repeat(9), 1), "é".repeat(8));
        assert_eq!(sent(&format!("a{}", "é".repeat(9)), 1), format!("a{}", "é".repeat(7)));
        assert_eq!(sent("", 1), " ");
    }

    #[test]
    fn a_batch_that_is_too_large_is_halved() {
        assert_eq!(split(&["a", "b", "c"], 1), Some(vec![vec!["a"], vec!["b", "c"]]));
    }

    #[test]
    fn a_single_text_gets_shorter_until_it_cannot() {
        let mut text = &*"a".repeat(100);
        let mut lengths = Vec::new();
        while let Some(calls) = split(&[text], 10) {
            text = text.split_at(calls[0][0].len()).0;
            lengths.push(text.len());
        }
        assert_eq!(lengths, [40, 30, 20, 10]);
        assert_eq!(split(&["é"], 1), None);
    }
}
