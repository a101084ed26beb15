//! What of an answer is not code. Pure.

/// The pieces of a Markdown text outside of fenced blocks and code spans, in order.
pub(crate) fn prose(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    let mut fence: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        let marks = fence_marks(line);
        match fence {
            Some(open)
                if marks.is_some_and(|marks| marks.len() >= open.len() && marks.starts_with(&open[..1])) =>
            {
                fence = None;
                start = end;
            }
            Some(_) => start = end,
            None => {
                if let Some(marks) = marks {
                    pieces.extend(outside_spans(&text[start..at]));
                    fence = Some(marks);
                    start = end;
                }
            }
        }
        at = end;
    }
    pieces.extend(outside_spans(&text[start..]));
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces
}

/// The marks that a line opens or closes a fenced block with.
fn fence_marks(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|first| matches!(first, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    (length >= 3).then_some(&line[..length])
}

/// What lies outside of code spans. A backtick that nothing closes is a backtick.
fn outside_spans(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('`') {
        let marks = rest[open..].len() - rest[open..].trim_start_matches('`').len();
        let inside = &rest[open + marks..];
        let Some(close) = closing(inside, marks) else { break };
        pieces.push(&rest[..open]);
        rest = &inside[close + marks..];
    }
    pieces.push(rest);
    pieces
}

/// Where a run of exactly so many backticks begins.
fn closing(text: &str, marks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        let begin = at + found;
        let length = text[begin..].len() - text[begin..].trim_start_matches('`').len();
        if length == marks {
            return Some(begin);
        }
        at = begin + length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(prose(text).into_iter().map(str::trim).collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn fenced_blocks_and_code_spans_are_no_prose() {
        check("before\n```rust\ncode\n```\nafter", &["before", "after"]);
        check("before\n~~~~\n~~~\ncode\n~~~~\nafter", &["before", "after"]);
        check("a `code` b ``with ` tick`` c", &["a", "b", "c"]);
        check("```\nnever closed", &[]);
    }

    #[test]
    fn a_backtick_that_nothing_closes_is_a_backtick() {
        check("a ` b [1]", &["a ` b [1]"]);
        check("", &[]);
    }
}
