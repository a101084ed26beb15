//! Splits bytes into lines. A line ends with LF, CR or CRLF; one that lies within a single read is not copied. A byte
//! order mark before the first line is dropped.

use std::borrow::Cow;
use std::mem;

/// Upper bound in bytes on a line, and on a message of several lines.
pub(crate) const MAX_FRAME: usize = 1 << 20;

/// A line or message of more than [`MAX_FRAME`] bytes.
#[derive(Debug)]
pub(crate) struct FrameTooLarge;

/// A line splitter: the state between two reads.
#[derive(Default)]
pub(crate) struct Lines {
    /// The beginning of a line whose end has not been read.
    partial: Vec<u8>,
    after_carriage_return: bool,
    past_first: bool,
}

impl Lines {
    /// Takes the next line off the front of `bytes`, without its line end. A rest without a line end is kept for
    /// the next read.
    pub(crate) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Cow<'a, [u8]>>, FrameTooLarge> {
        if let Some((first, rest)) = bytes.split_first()
            && mem::take(&mut self.after_carriage_return)
            && *first == b'\n'
        {
            *bytes = rest;
        }
        let end = memchr::memchr2(b'\n', b'\r', bytes);
        let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        if self.partial.len() + line.len() > MAX_FRAME {
            return Err(FrameTooLarge);
        }
        let Some((line_end, rest)) = rest.split_first() else {
            self.partial.extend_from_slice(line);
            *bytes = rest;
            return Ok(None);
        };
        self.after_carriage_return = *line_end == b'\r';
        *bytes = rest;
        if self.partial.is_empty() {
            return Ok(Some(self.without_mark(Cow::Borrowed(line))));
        }
        self.partial.extend_from_slice(line);
        let whole = Cow::Owned(mem::take(&mut self.partial));
        Ok(Some(self.without_mark(whole)))
    }

    /// The last line, if the stream ends without a line end.
    pub(crate) fn last(&mut self) -> Option<Cow<'static, [u8]>> {
        let last = mem::take(&mut self.partial);
        (!last.is_empty()).then(|| self.without_mark(Cow::Owned(last)))
    }

    fn without_mark<'a>(&mut self, line: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        if mem::replace(&mut self.past_first, true) || !line.starts_with(MARK) {
            return line;
        }
        skip(line, MARK.len())
    }
}

/// Drops the bytes before `start`.
pub(crate) fn skip(bytes: Cow<'_, [u8]>, start: usize) -> Cow<'_, [u8]> {
    match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[start..]),
        Cow::Owned(mut bytes) => {
            bytes.drain(..start);
            Cow::Owned(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split<'a>(reads: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for mut read in reads {
            while let Some(line) = lines.next(&mut read).unwrap() {
                found.push(line.into_owned());
            }
        }
        found.extend(lines.last().map(Cow::into_owned));
        found.into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
    }

    #[test]
    fn lines_end_with_lf_cr_or_crlf_wherever_the_bytes_are_cut() {
        let bytes = b"\xef\xbb\xbfone\r\ntwo\rthree\n\n\r\n\r\rlast";
        let expected = ["one", "two", "three", "", "", "", "", "last"];
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(split([head, tail]), expected, "cut at {cut}");
        }
        assert_eq!(split(bytes.chunks(1)), expected);
    }

    #[test]
    fn a_line_within_one_read_is_not_copied() {
        let mut lines = Lines::default();
        let mut read: &[u8] = b"whole\ncut";
        assert!(matches!(lines.next(&mut read).unwrap(), Some(Cow::Borrowed(b"whole"))));
        assert!(lines.next(&mut read).unwrap().is_none());
    }

    #[test]
    fn a_line_over_the_bound_is_refused() {
        let longest = vec![b'x'; MAX_FRAME];
        let mut lines = Lines::default();
        assert!(lines.next(&mut longest.as_slice()).unwrap().is_none());
        assert!(lines.next(&mut b"\n".as_slice()).unwrap().is_some());
        assert!(lines.next(&mut longest.as_slice()).unwrap().is_none());
        assert!(lines.next(&mut b"x\n".as_slice()).is_err());
    }
}
