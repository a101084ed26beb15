//! A parser of server-sent events. Unlike a browser, it also accepts a last message that no blank line follows.

use std::borrow::Cow;
use std::mem;

use super::lines::{FrameTooLarge, Lines, MAX_FRAME, skip};

/// The fields between two blank lines.
#[derive(Debug)]
pub(crate) struct SseMessage<'a> {
    /// The `id` of this message itself; empty if it has none.
    pub(crate) id: &'a [u8],
    /// The message has `event: error`, or an `error` field.
    pub(crate) is_error: bool,
    /// Its data lines, joined by LF.
    pub(crate) data: &'a [u8],
}

/// The parser's state between two reads.
#[derive(Default)]
pub(crate) struct Sse {
    lines: Lines,
    id: Vec<u8>,
    is_error: bool,
    data: Option<Vec<u8>>,
}

impl Sse {
    /// Parses the next bytes, and calls `each` with every message that they complete.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(SseMessage<'_>),
    ) -> Result<(), FrameTooLarge> {
        let mut data = self.data.take().map(Cow::Owned);
        while let Some(line) = self.lines.next(&mut bytes)? {
            if line.is_empty() {
                self.emit(data.take(), &mut each);
            } else {
                self.take_field(line, &mut data)?;
            }
        }
        self.data = data.map(Cow::into_owned);
        Ok(())
    }

    /// Ends the stream, and calls `each` with the message that its end completes.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(SseMessage<'_>)) -> Result<(), FrameTooLarge> {
        let mut data = self.data.take().map(Cow::Owned);
        if let Some(line) = self.lines.last() {
            self.take_field(line, &mut data)?;
        }
        self.emit(data, &mut each);
        Ok(())
    }

    fn emit(&mut self, data: Option<Cow<'_, [u8]>>, each: &mut impl FnMut(SseMessage<'_>)) {
        if let Some(data) = data {
            each(SseMessage { id: &self.id, is_error: self.is_error, data: &data });
        }
        self.id.clear();
        self.is_error = false;
    }

    fn take_field<'a>(
        &mut self,
        line: Cow<'a, [u8]>,
        data: &mut Option<Cow<'a, [u8]>>,
    ) -> Result<(), FrameTooLarge> {
        let colon = memchr::memchr(b':', &line).unwrap_or(line.len());
        let start = match &line[colon..] {
            [b':', b' ', ..] => colon + 2,
            [b':', ..] => colon + 1,
            _ => colon,
        };
        match &line[..colon] {
            b"data" => append(data, skip(line, start))?,
            b"event" => self.is_error = &line[start..] == b"error",
            b"id" => {
                self.id.clear();
                self.id.extend_from_slice(&line[start..]);
            }
            // llama.cpp reports errors in a field of this name.
            b"error" => {
                self.is_error = true;
                append(data, skip(line, start))?;
            }
            // Comments (an empty name), `retry` and unknown fields.
            _ => {}
        }
        Ok(())
    }
}

fn append<'a>(data: &mut Option<Cow<'a, [u8]>>, line: Cow<'a, [u8]>) -> Result<(), FrameTooLarge> {
    let Some(before) = data else {
        *data = Some(line);
        return Ok(());
    };
    if before.len() + line.len() >= MAX_FRAME {
        return Err(FrameTooLarge);
    }
    let mut joined = mem::take(before).into_owned();
    joined.push(b'\n');
    joined.extend_from_slice(&line);
    *before = Cow::Owned(joined);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages<'a>(reads: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut sse = Sse::default();
        let mut found = Vec::new();
        let mut note = |message: SseMessage<'_>| {
            let (id, data) = (message.id.escape_ascii(), message.data.escape_ascii());
            found.push(format!("{id}{}{data}", if message.is_error { "!" } else { "=" }));
        };
        for read in reads {
            sse.feed(read, &mut note).unwrap();
        }
        sse.finish(&mut note).unwrap();
        found
    }

    fn check(bytes: &[u8], expected: &[&str]) {
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(messages([head, tail]), expected, "cut at {cut}");
        }
        assert_eq!(messages(bytes.chunks(1)), expected);
    }

    #[test]
    fn a_message_ends_with_a_blank_line_or_with_the_stream() {
        check(
            b"data: one\n\ndata:two\r\n\r\ndata:  three\r\rdata: last",
            &["=one", "=two", "= three", "=last"],
        );
    }

    #[test]
    fn data_lines_of_one_message_are_joined() {
        check(b"data: a\ndata: b\ndata\n\n", &["=a\\nb\\n"]);
    }

    #[test]
    fn comments_and_unknown_fields_are_ignored() {
        check(b": keep-alive\n\nretry: 5\n\nevent: ping\n\n\n:\n\ndata: x\n: between\n\n", &["=x"]);
    }

    #[test]
    fn id_and_error_belong_to_one_message_only() {
        check(b"id: 7\nevent: error\ndata: x\n\ndata: y\n\nerror: z\n\n", &["7!x", "=y", "!z"]);
    }

    #[test]
    fn the_lines_of_a_message_are_bounded_together() {
        let mut sse = Sse::default();
        let line = [b"data: ".as_slice(), &vec![b'x'; MAX_FRAME / 2], b"\n"].concat();
        assert!(sse.feed(&line, |_| {}).is_ok());
        assert!(sse.feed(&line, |_| {}).is_err());
    }
}
