//! Prints an answer: its deltas as they are, or its text as it arrives and then its sources.

use std::io::{self, Write};

use super::delta::{Delta, DeltaSource, DoneMetadata};
use super::status_line::StatusLine;
use crate::commands::CommandError;

/// The longest delta, in bytes.
const MAX_LINE: usize = 16 << 20;

/// How an answer ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerEnd {
    /// The answer is complete.
    Done,
    /// Ctrl-C ended it.
    Interrupted,
    /// Another client cancelled it.
    Cancelled,
    /// The prompt failed, with this message.
    Failed(String),
    /// The reader of standard output closed it.
    Unread,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerStyle {
    /// Print the deltas, one JSON a line.
    pub(super) json: bool,
    pub(super) colours: bool,
}

/// Prints one answer.
pub(super) struct AnswerPrinter<W: Write> {
    out: W,
    status: StatusLine,
    style: AnswerStyle,
    /// The incomplete last line of the deltas.
    partial: Vec<u8>,
    /// Whether the output ends within a line.
    mid_line: bool,
}

impl<W: Write> AnswerPrinter<W> {
    /// A printer that erases the status line before its first output.
    pub(super) fn new(out: W, status: StatusLine, style: AnswerStyle) -> Self {
        Self { out, status, style, partial: Vec::new(), mid_line: false }
    }

    /// Prints the deltas that these bytes complete. Returns how the answer ended, once it has.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<Option<AnswerEnd>, CommandError> {
        let mut end = None;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.partial);
                end = end.or(self.delta(&line)?);
            }
        }
        if self.partial.len() > MAX_LINE {
            let message = format!("the server sent a line of more than {MAX_LINE} bytes");
            return Err(CommandError::NoAnswer(message));
        }
        Ok(end)
    }

    /// Ends the last line, so that later output begins a new one.
    pub(super) fn close(&mut self) {
        self.status.erase();
        if std::mem::take(&mut self.mid_line) {
            // The answer is over; there is nothing to do about an error.
            let _ = self.out.write_all(b"\n");
        }
    }

    fn delta(&mut self, line: &[u8]) -> Result<Option<AnswerEnd>, CommandError> {
        let delta: Delta = serde_json::from_slice(line).map_err(|error| {
            CommandError::NoAnswer(format!("the server sent no delta ({error}): is it Wellspring's address?"))
        })?;
        let printed = if self.style.json { self.print(line) } else { self.show(&delta) };
        match printed {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Some(AnswerEnd::Unread)),
            Err(error) => Err(CommandError::Stdout(error)),
            Ok(()) => Ok(end(delta)),
        }
    }

    fn show(&mut self, delta: &Delta) -> io::Result<()> {
        match delta {
            Delta::Token { text } => {
                let text = without_controls(text);
                self.mid_line = !text.ends_with('\n');
                self.print(text.as_bytes())
            }
            Delta::Done { metadata } if metadata.finish_reason == "cancelled" => {
                self.close();
                Ok(())
            }
            Delta::Done { metadata } => {
                self.close();
                self.print(self.footer(metadata).as_bytes())
            }
            Delta::Error { .. } => {
                self.close();
                Ok(())
            }
        }
    }

    /// The lines below the answer's text: why it is short, and its sources.
    fn footer(&self, done: &DoneMetadata) -> String {
        let mut footer = String::new();
        if done.finish_reason == "length" {
            footer.push_str(&self.dim("(cut short: it is as long as generation.max_tokens allows)"));
            footer.push('\n');
        }
        if done.sources.is_empty() {
            let none = "No sources: nothing was found (`wellspring ingest PATH` brings documents)";
            return format!("{footer}\n{}\n", self.dim(none));
        }
        let cited = if done.sources.iter().any(|source| source.cited) { " (* cited)" } else { "" };
        footer.push_str(&format!("\n{}{cited}:\n", self.bold("Sources")));
        done.sources.iter().for_each(|source| footer.push_str(&self.source(source)));
        footer
    }

    fn source(&self, source: &DeltaSource) -> String {
        let title = without_controls(&format!("[{}] {}", source.index, source.title)).replace('\n', " ");
        let place = self.dim(&without_controls(&source.place()).replace('\n', " "));
        match source.cited {
            true => format!("* {}  {place}\n", self.bold(&title)),
            false => format!("  {title}  {place}\n"),
        }
    }

    fn bold(&self, text: &str) -> String {
        self.styled(1, text)
    }

    fn dim(&self, text: &str) -> String {
        self.styled(2, text)
    }

    fn styled(&self, style: u8, text: &str) -> String {
        if self.style.colours { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn print(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.status.erase();
        self.out.write_all(bytes)?;
        // Tokens appear as they arrive, not line by line.
        self.out.flush()
    }
}

impl<W: Write> Drop for AnswerPrinter<W> {
    fn drop(&mut self) {
        self.close();
    }
}

fn end(delta: Delta) -> Option<AnswerEnd> {
    match delta {
        Delta::Token { .. } => None,
        Delta::Done { metadata } if metadata.finish_reason == "cancelled" => Some(AnswerEnd::Cancelled),
        Delta::Done { .. } => Some(AnswerEnd::Done),
        Delta::Error { metadata } => Some(AnswerEnd::Failed(without_controls(&metadata.message))),
    }
}

/// The text without control characters, which a terminal would interpret.
fn without_controls(text: &str) -> String {
    text.chars().filter(|character| !character.is_control() || matches!(character, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: &str = "{\"promptId\":\"p\",\"type\":\"token\",\"seq\":0,\"text\":\"Wäter\",\"role\":\"assistant\"}\n\
                          {\"promptId\":\"p\",\"type\":\"token\",\"seq\":1,\"text\":\" runs\\u001b[31m\",\"role\":\"assistant\"}\n";

    fn done(finish_reason: &str, sources: &str) -> String {
        format!(
            "{{\"promptId\":\"p\",\"type\":\"done\",\"seq\":2,\"role\":\"assistant\",\
             \"metadata\":{{\"tokenCount\":2,\"finishReason\":\"{finish_reason}\",\"sources\":[{sources}]}}}}\n"
        )
    }

    fn source(index: u32, cited: bool, place: &str) -> String {
        format!(
            "{{\"index\":{index},\"title\":\"Title {index}\",{place},\"excerpt\":\"\",\"score\":0.5,\"cited\":{cited}}}"
        )
    }

    fn printed(mut printer: AnswerPrinter<&mut Vec<u8>>, deltas: &str, piece: usize) -> Option<AnswerEnd> {
        let mut end = None;
        for piece in deltas.as_bytes().chunks(piece) {
            end = printer.write(piece).expect("these are deltas");
        }
        end
    }

    fn check(deltas: &str, colours: bool, expected: &str, expected_end: Option<&AnswerEnd>) {
        for piece in 1..=deltas.len() {
            let mut out = Vec::new();
            let end = printed(
                AnswerPrinter::new(&mut out, StatusLine::none(), AnswerStyle { json: false, colours }),
                deltas,
                piece,
            );
            assert_eq!(
                (String::from_utf8(out).expect("UTF-8").as_str(), end.as_ref()),
                (expected, expected_end)
            );
        }
    }

    #[test]
    fn the_text_is_printed_before_its_sources_however_the_deltas_are_cut() {
        let file = source(1, true, r#""filePath":"a.md","lineStart":3,"lineEnd":9"#);
        let line = source(2, false, r#""filePath":"b.rs","url":"https://b","lineStart":3,"lineEnd":3"#);
        let page = source(3, false, r#""url":"https://c""#);
        let deltas = TOKENS.to_owned() + &done("stop", &[file, line, page].join(","));
        let expected = "Wäter runs[31m\n\nSources (* cited):\n* [1] Title 1  a.md:3-9\n  [2] Title 2  b.rs:3\n  \
                        [3] Title 3  https://c\n";
        check(&deltas, false, expected, Some(&AnswerEnd::Done));
        let expected = "Wäter runs[31m\n\n\x1b[1mSources\x1b[0m (* cited):\n* \x1b[1m[1] Title 1\x1b[0m  \x1b[2ma.md:3-9\x1b[0m\n  \
                        [2] Title 2  \x1b[2mb.rs:3\x1b[0m\n  [3] Title 3  \x1b[2mhttps://c\x1b[0m\n";
        check(&deltas, true, expected, Some(&AnswerEnd::Done));
    }

    #[test]
    fn an_answer_without_sources_or_cut_short_says_so() {
        let none = "No sources: nothing was found (`wellspring ingest PATH` brings documents)";
        let deltas = TOKENS.to_owned() + &done("stop", "");
        check(&deltas, false, &format!("Wäter runs[31m\n\n{none}\n"), Some(&AnswerEnd::Done));
        let short = "(cut short: it is as long as generation.max_tokens allows)";
        let deltas = TOKENS.to_owned() + &done("length", &source(1, false, r#""url":"u""#));
        let expected = format!("Wäter runs[31m\n{short}\n\nSources:\n  [1] Title 1  u\n");
        check(&deltas, false, &expected, Some(&AnswerEnd::Done));
    }

    #[test]
    fn an_incomplete_answer_ends_its_line() {
        check(TOKENS, false, "Wäter runs[31m\n", None);
        check(
            &(TOKENS.to_owned() + &done("cancelled", "")),
            false,
            "Wäter runs[31m\n",
            Some(&AnswerEnd::Cancelled),
        );
        let error = r#"{"promptId":"p","type":"error","seq":2,"role":"system","metadata":{"code":"c","message":"no model"}}"#;
        let failed = AnswerEnd::Failed("no model".to_owned());
        check(&format!("{TOKENS}{error}\n"), false, "Wäter runs[31m\n", Some(&failed));
    }

    #[test]
    fn as_json_the_deltas_are_printed_unchanged() {
        let deltas = TOKENS.to_owned() + &done("stop", &source(1, false, r#""url":"u""#));
        for piece in 1..=deltas.len() {
            let mut out = Vec::new();
            let end = printed(
                AnswerPrinter::new(&mut out, StatusLine::none(), AnswerStyle { json: true, colours: true }),
                &deltas,
                piece,
            );
            assert_eq!((out.as_slice(), end), (deltas.as_bytes(), Some(AnswerEnd::Done)));
        }
    }

    #[test]
    fn a_line_that_is_not_a_delta_is_an_error() {
        let mut out = Vec::new();
        let mut printer =
            AnswerPrinter::new(&mut out, StatusLine::none(), AnswerStyle { json: false, colours: false });
        assert!(printer.write(b"<html>\n").unwrap_err().to_string().contains("no delta"));
        assert!(
            printer.write(&vec![b'x'; MAX_LINE + 1]).unwrap_err().to_string().contains("a line of more than")
        );
    }

    #[test]
    fn a_closed_standard_output_ends_the_answer() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut printer =
            AnswerPrinter::new(Closed, StatusLine::none(), AnswerStyle { json: false, colours: false });
        assert_eq!(printer.write(TOKENS.as_bytes()).unwrap(), Some(AnswerEnd::Unread));
    }

    #[test]
    fn fuzz_nearly_right_deltas() {
        let whole =
            format!("{TOKENS}{}", done("stop", &source(1, true, "\"filePath\":\"a.md\",\"lineStart\":1")));
        let error = "{\"type\":\"error\",\"metadata\":{\"code\":\"x\",\"message\":\"y\"}}\n";
        let words = ["\\u001b[2J", "\u{9b}", "\u{202e}", "\"type\":\"done\",", "null", "{}", "[]", "\\ud800"];
        testing::fuzz(&[whole.as_bytes(), error.as_bytes()], &words, |deltas| {
            for json in [false, true] {
                let style = AnswerStyle { json, colours: false };
                let (mut at_once, mut in_pieces) = (Vec::new(), Vec::new());
                let written = AnswerPrinter::new(&mut at_once, StatusLine::none(), style).write(deltas);
                let mut printer = AnswerPrinter::new(&mut in_pieces, StatusLine::none(), style);
                let written_in_pieces: Vec<_> =
                    deltas.chunks(5).map_while(|piece| printer.write(piece).ok()).collect();
                if written.is_ok() {
                    assert_eq!(written_in_pieces.len(), deltas.chunks(5).count());
                    drop(printer);
                    assert_eq!(at_once, in_pieces);
                }
                assert!(json || !at_once.contains(&0x1b), "no text moves a terminal's cursor");
            }
        });
    }
}
