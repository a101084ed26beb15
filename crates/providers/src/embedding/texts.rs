//! How texts are shared out over calls, and what becomes of texts that a server finds too long. Pure.
//!
//! Nobody here can count a server's tokens. A cautious estimate would throw away most of every text, so
//! texts are cut only where no model would look, and further only when the server refuses them.

use super::settings::Batches;

/// No real text has so many bytes to a token, so what lies beyond does not count.
const MOST_BYTES_A_TOKEN: usize = 16;

/// How many bytes to a token a refused text is supposed to have: of prose, of code, of other scripts, and
/// of bytes without meaning, which never have more tokens than bytes.
const BYTES_A_TOKEN: [usize; 4] = [4, 3, 2, 1];

/// A text as it is sent. Servers refuse an empty one, so it becomes a space.
pub(super) fn sent(text: &str, token_limit: usize) -> &str {
    let end = text.floor_char_boundary(token_limit.saturating_mul(MOST_BYTES_A_TOKEN));
    if text.is_empty() { " " } else { &text[..end] }
}

/// The texts in calls that keep the bounds, in order. A text beyond them goes alone.
pub(super) fn batches<'a>(texts: &[&'a str], bounds: Batches) -> Vec<Vec<&'a str>> {
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

/// What to ask for instead of a call that was too much: its halves, or its only text cut shorter. None if
/// the text is as short as it can be.
pub(super) fn smaller<'a>(texts: &[&'a str], token_limit: usize) -> Option<Vec<Vec<&'a str>>> {
    if let &[text] = texts {
        let lengths = BYTES_A_TOKEN.map(|bytes| token_limit.saturating_mul(bytes));
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
        let bounds = Batches { texts: most, bytes, calls: 1 };
        let batches = batches(texts, bounds);
        assert_eq!(batches.concat(), texts);
        batches.iter().map(Vec::len).collect()
    }

    #[test]
    fn calls_keep_both_bounds() {
        assert_eq!(sizes(&["aa"; 5], 2, 100), [2, 2, 1]);
        assert_eq!(sizes(&["aa"; 5], 100, 6), [3, 2]);
        assert_eq!(sizes(&["a", "aaaaaaaaa", "a", "a"], 3, 4), [1, 1, 2]);
        assert_eq!(sizes(&[], 3, 4), [0; 0]);
    }

    #[test]
    fn a_text_is_cut_where_no_model_would_look() {
        assert_eq!(sent("short", 1), "short");
        assert_eq!(sent(&"é".repeat(9), 1), "é".repeat(8));
        assert_eq!(sent(&format!("a{}", "é".repeat(9)), 1), format!("a{}", "é".repeat(7)));
        assert_eq!(sent("", 1), " ");
    }

    #[test]
    fn a_call_that_is_too_much_is_halved() {
        assert_eq!(smaller(&["a", "b", "c"], 1), Some(vec![vec!["a"], vec!["b", "c"]]));
    }

    #[test]
    fn a_text_that_is_too_long_gets_shorter_until_it_cannot() {
        let mut text = &*"a".repeat(100);
        let mut lengths = Vec::new();
        while let Some(calls) = smaller(&[text], 10) {
            text = text.split_at(calls[0][0].len()).0;
            lengths.push(text.len());
        }
        assert_eq!(lengths, [40, 30, 20, 10]);
        assert_eq!(smaller(&["é"], 1), None);
    }
}
