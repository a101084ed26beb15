//! Removes code from Markdown.

/// The pieces of a Markdown text outside of fenced blocks and code spans, in order.
pub(crate) fn prose(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    let mut fence: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        match fence {
            Some(open) if closes(line, open) => {
                fence = None;
                start = end;
            }
            Some(_) => start = end,
            None => {
                if let Some(marks) = fence_marks(line) {
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

/// The marks with which a line opens a fenced block. A line with further backticks is a code span instead.
fn fence_marks(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|first| matches!(first, '`' | '~'))?;
    let (marks, rest) = line.split_at(line.len() - line.trim_start_matches(mark).len());
    (marks.len() >= 3 && !(mark == '`' && rest.contains('`'))).then_some(marks)
}

/// Whether a line closes the block that these marks opened: it consists of at least as many of the same
/// marks.
fn closes(line: &str, open: &str) -> bool {
    let line = line.trim();
    line.len() >= open.len() && line.bytes().all(|byte| byte == open.as_bytes()[0])
}

/// The pieces outside of code spans. Backticks without a closing run are ordinary characters.
fn outside_spans(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(found) = text[at..].find('`') {
        let open = at + found;
        let marks = text[open..].len() - text[open..].trim_start_matches('`').len();
        at = open + marks;
        if let Some(close) = closing(&text[at..], marks) {
            pieces.push(&text[start..open]);
            at += close + marks;
            start = at;
        }
    }
    pieces.push(&text[start..]);
    pieces
}

/// Where the first run of exactly `marks` backticks begins.
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
    fn fenced_blocks_and_code_spans_are_not_prose() {
        check("before\n```rust\ncode\n```\nafter", &["before", "after"]);
        check("before\n~~~~\n~~~\ncode\n~~~~\nafter", &["before", "after"]);
        check("a `code` b ``with ` tick`` c", &["a", "b", "c"]);
        check("```\nnever closed", &[]);
        check("```cargo test``` runs them [1].\nMore [2].", &["runs them [1].\nMore [2]."]);
        check("```\ncode\n``` not yet\n```\nafter", &["after"]);
    }

    #[test]
    fn an_unclosed_backtick_is_an_ordinary_character() {
        check("a ` b [1]", &["a ` b [1]"]);
        check("a `` b `x[1]` c", &["a `` b", "c"]);
        check("", &[]);
    }
}
