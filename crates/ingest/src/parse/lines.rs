//! Positions of lines. LF, CRLF and a lone CR end a line, as in CommonMark.

use memchr::memchr2_iter;

/// Maps byte offsets to line numbers.
pub(crate) struct LineNumbers {
    /// The starts of the second and all further lines.
    starts: Vec<usize>,
}

impl LineNumbers {
    pub(crate) fn of(text: &str) -> Self {
        Self { starts: starts(text).collect() }
    }

    /// The line of the byte `at`, counted from 1.
    pub(crate) fn line(&self, at: usize) -> u32 {
        let before = self.starts.partition_point(|&start| start <= at);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }
}

/// The start of each line but the first. A line end at the end of the text starts no line.
pub(crate) fn starts(text: &str) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    memchr2_iter(b'\n', b'\r', bytes)
        .filter(|&end| bytes[end] == b'\n' || bytes.get(end + 1) != Some(&b'\n'))
        .map(|end| end + 1)
        .filter(|&start| start < bytes.len())
}

/// The lines, including their ends, with their starts.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    starts(text).chain([text.len()]).map(move |end| {
        let line = (start, &text[start..end]);
        start = end;
        line
    })
}

/// The start of the line that contains `at`, if only white space precedes `at` on it; otherwise `at`.
pub(crate) fn start_of_indentation(text: &str, at: usize) -> usize {
    let before = &text[..at];
    let indent = before.trim_end_matches([' ', '\t']);
    if indent.is_empty() || indent.ends_with(['\n', '\r']) { indent.len() } else { at }
}

/// The end of the line that contains `at`, including its line end.
pub(crate) fn end(text: &str, at: usize) -> usize {
    starts(&text[at..]).next().map_or(text.len(), |start| at + start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lf_cr_and_crlf_each_end_a_line() {
        let text = "one\r\ntwo\rthree\n\nfive\n";
        let numbers = LineNumbers::of(text);
        let line_of = |word: &str| numbers.line(text.find(word).unwrap());
        assert_eq!(["one", "two", "three", "five"].map(line_of), [1, 2, 3, 5]);
        assert_eq!(lines(text).map(|(_, line)| line).collect::<String>(), text);
    }

    #[test]
    fn a_line_end_belongs_to_the_line_before_it() {
        let numbers = LineNumbers::of("a\r\nb");
        assert_eq!([0, 1, 2, 3].map(|at| numbers.line(at)), [1, 1, 1, 2]);
    }

    #[test]
    fn a_start_moves_over_indentation_but_not_over_a_statement() {
        assert_eq!(start_of_indentation("a\n  b", 4), 2);
        assert_eq!(start_of_indentation("a; b", 3), 3);
        assert_eq!(start_of_indentation("  b", 2), 0);
    }
}
