//! Lines end with LF, CRLF or a lone CR, as CommonMark and editors have it.

use memchr::memchr2_iter;

/// Tells on which line a byte lies.
pub(crate) struct Numbers {
    /// Where the second line begins, the third, and so on.
    starts: Vec<usize>,
}

impl Numbers {
    /// The lines of this text.
    pub(crate) fn of(text: &str) -> Self {
        Self { starts: starts(text).collect() }
    }

    /// The line of the byte `at`, counted from 1.
    pub(crate) fn line(&self, at: usize) -> u32 {
        let before = self.starts.partition_point(|&start| start <= at);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }
}

/// Where each line but the first begins. A line end that ends the text begins no line.
pub(crate) fn starts(text: &str) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    memchr2_iter(b'\n', b'\r', bytes)
        .filter(|&end| bytes[end] == b'\n' || bytes.get(end + 1) != Some(&b'\n'))
        .map(|end| end + 1)
        .filter(|&start| start < bytes.len())
}

/// The lines with where they begin, line ends included.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    starts(text).chain([text.len()]).map(move |end| {
        let line = (start, &text[start..end]);
        start = end;
        line
    })
}

/// The start of the line on which `at` lies, if there is only white space before `at` on it; else `at`.
pub(crate) fn start_if_blank_before(text: &str, at: usize) -> usize {
    let before = &text[..at];
    let indent = before.trim_end_matches([' ', '\t']);
    if indent.is_empty() || indent.ends_with(['\n', '\r']) { indent.len() } else { at }
}

/// Where the line ends on which `at` lies, its line end included.
pub(crate) fn end(text: &str, at: usize) -> usize {
    starts(&text[at..]).next().map_or(text.len(), |start| at + start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_line_ends_are_counted_once() {
        let text = "one\r\ntwo\rthree\n\nfive\n";
        let numbers = Numbers::of(text);
        let line_of = |word: &str| numbers.line(text.find(word).unwrap());
        assert_eq!(["one", "two", "three", "five"].map(line_of), [1, 2, 3, 5]);
        assert_eq!(lines(text).map(|(_, line)| line).collect::<String>(), text);
    }

    #[test]
    fn the_byte_of_a_line_end_is_on_the_line_it_ends() {
        let numbers = Numbers::of("a\r\nb");
        assert_eq!([0, 1, 2, 3].map(|at| numbers.line(at)), [1, 1, 1, 2]);
    }

    #[test]
    fn an_indent_belongs_to_its_line_and_a_statement_before_does_not() {
        assert_eq!(start_if_blank_before("a\n  b", 4), 2);
        assert_eq!(start_if_blank_before("a; b", 3), 3);
        assert_eq!(start_if_blank_before("  b", 2), 0);
    }
}
