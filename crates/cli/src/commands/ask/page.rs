//! What is printed of an answer: its deltas as they are, or its text as it comes and then its sources.

use std::io::{self, Write};

use super::delta::{Delta, Done, Source};
use super::hint::Hint;

/// Longer than any delta.
const LONGEST_LINE: usize = 16 << 20;

/// How an answer ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is whole.
    Done,
    /// Ctrl-C ended it.
    Interrupted,
    /// Someone else cancelled it.
    Cancelled,
    /// It went wrong; the message says why.
    Failed(String),
    /// Standard output was closed: whoever read it has read enough.
    Unread,
}

/// How answers look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// As their deltas, one JSON a line.
    pub(super) json: bool,
    pub(super) colours: bool,
}

/// An answer as it is printed.
pub(super) struct Page<W: Write> {
    out: W,
    hint: Hint,
    look: Look,
    /// What came of a line that is not whole yet.
    line: Vec<u8>,
    /// Whether the last line that was printed has no end yet.
    open: bool,
}

impl<W: Write> Page<W> {
    /// Nothing is printed yet; the hint is wiped when something is.
    pub(super) fn new(out: W, hint: Hint, look: Look) -> Self {
        Self { out, hint, look, line: Vec::new(), open: false }
    }

    /// Prints the deltas that these bytes complete, one JSON a line. Tells how the answer ended, when it has.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<Option<End>, String> {
        let mut end = None;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                end = end.or(self.delta(&line)?);
            }
        }
        if self.line.len() > LONGEST_LINE {
            return Err(format!("the server sent a line of more than {LONGEST_LINE} bytes"));
        }
        Ok(end)
    }

    /// Ends the last line, so that what comes next begins one.
    pub(super) fn close(&mut self) {
        self.hint.wipe();
        if std::mem::take(&mut self.open) {
            // Nobody is left to be told if it fails.
            let _ = self.out.write_all(b"\n");
        }
    }

    fn delta(&mut self, line: &[u8]) -> Result<Option<End>, String> {
        let delta: Delta = serde_json::from_slice(line)
            .map_err(|error| format!("the server sent what is no delta ({error}): is it Wellspring's?"))?;
        let printed = if self.look.json { self.print(line) } else { self.show(&delta) };
        match printed {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Some(End::Unread)),
            Err(error) => Err(format!("standard output cannot be written to: {error}")),
            Ok(()) => Ok(end(delta)),
        }
    }

    fn show(&mut self, delta: &Delta) -> io::Result<()> {
        match delta {
            Delta::Token { text } => {
                let text = harmless(text);
                self.open = !text.ends_with('\n');
                self.print(text.as_bytes())
            }
            Delta::Done { metadata } if metadata.finish_reason == "cancelled" => {
                self.close();
                Ok(())
            }
            Delta::Done { metadata } => {
                self.close();
                self.print(self.below(metadata).as_bytes())
            }
            Delta::Error { .. } => {
                self.close();
                Ok(())
            }
        }
    }

    /// Everything below the text.
    fn below(&self, done: &Done) -> String {
        let mut below = String::new();
        if done.finish_reason == "length" {
            below.push_str(&self.dim("(cut short: it is as long as generation.max_tokens allows)"));
            below.push('\n');
        }
        if done.sources.is_empty() {
            let none = "No sources: nothing was found (`wellspring ingest PATH` brings documents)";
            return format!("{below}\n{}\n", self.dim(none));
        }
        let cited = if done.sources.iter().any(|source| source.cited) { " (* cited)" } else { "" };
        below.push_str(&format!("\n{}{cited}:\n", self.bold("Sources")));
        done.sources.iter().for_each(|source| below.push_str(&self.source(source)));
        below
    }

    fn source(&self, source: &Source) -> String {
        let title = harmless(&format!("[{}] {}", source.index, source.title)).replace('\n', " ");
        let place = self.dim(&harmless(&source.place()).replace('\n', " "));
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
        if self.look.colours { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn print(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hint.wipe();
        self.out.write_all(bytes)?;
        // A token is seen when it comes, not when its line is whole.
        self.out.flush()
    }
}

impl<W: Write> Drop for Page<W> {
    fn drop(&mut self) {
        self.close();
    }
}

fn end(delta: Delta) -> Option<End> {
    match delta {
        Delta::Token { .. } => None,
        Delta::Done { metadata } if metadata.finish_reason == "cancelled" => Some(End::Cancelled),
        Delta::Done { .. } => Some(End::Done),
        Delta::Error { metadata } => Some(End::Failed(harmless(&metadata.message))),
    }
}

/// A text without what a terminal would obey instead of showing it.
fn harmless(text: &str) -> String {
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

    fn printed(page: Page<&mut Vec<u8>>, deltas: &str, piece: usize) -> Option<End> {
        let mut page = page;
        let mut end = None;
        for piece in deltas.as_bytes().chunks(piece) {
            end = page.write(piece).expect("these are deltas");
        }
        end
    }

    fn check(deltas: &str, colours: bool, expected: &str, expected_end: Option<&End>) {
        for piece in 1..=deltas.len() {
            let mut out = Vec::new();
            let end =
                printed(Page::new(&mut out, Hint::none(), Look { json: false, colours }), deltas, piece);
            assert_eq!(
                (String::from_utf8(out).expect("UTF-8").as_str(), end.as_ref()),
                (expected, expected_end)
            );
        }
    }

    #[test]
    fn the_text_comes_first_and_then_its_sources_however_the_deltas_are_cut() {
        let file = source(1, true, r#""filePath":"a.md","lineStart":3,"lineEnd":9"#);
        let line = source(2, false, r#""filePath":"b.rs","url":"https://b","lineStart":3,"lineEnd":3"#);
        let page = source(3, false, r#""url":"https://c""#);
        let deltas = TOKENS.to_owned() + &done("stop", &[file, line, page].join(","));
        let expected = "Wäter runs[31m\n\nSources (* cited):\n* [1] Title 1  a.md:3-9\n  [2] Title 2  b.rs:3\n  \
                        [3] Title 3  https://c\n";
        check(&deltas, false, expected, Some(&End::Done));
        let expected = "Wäter runs[31m\n\n\x1b[1mSources\x1b[0m (* cited):\n* \x1b[1m[1] Title 1\x1b[0m  \x1b[2ma.md:3-9\x1b[0m\n  \
                        [2] Title 2  \x1b[2mb.rs:3\x1b[0m\n  [3] Title 3  \x1b[2mhttps://c\x1b[0m\n";
        check(&deltas, true, expected, Some(&End::Done));
    }

    #[test]
    fn an_answer_without_sources_or_cut_short_says_so() {
        let none = "No sources: nothing was found (`wellspring ingest PATH` brings documents)";
        let deltas = TOKENS.to_owned() + &done("stop", "");
        check(&deltas, false, &format!("Wäter runs[31m\n\n{none}\n"), Some(&End::Done));
        let short = "(cut short: it is as long as generation.max_tokens allows)";
        let deltas = TOKENS.to_owned() + &done("length", &source(1, false, r#""url":"u""#));
        let expected = format!("Wäter runs[31m\n{short}\n\nSources:\n  [1] Title 1  u\n");
        check(&deltas, false, &expected, Some(&End::Done));
    }

    #[test]
    fn an_answer_that_does_not_come_to_its_end_ends_its_line() {
        check(TOKENS, false, "Wäter runs[31m\n", None);
        check(
            &(TOKENS.to_owned() + &done("cancelled", "")),
            false,
            "Wäter runs[31m\n",
            Some(&End::Cancelled),
        );
        let error = r#"{"promptId":"p","type":"error","seq":2,"role":"system","metadata":{"code":"c","message":"no model"}}"#;
        let failed = End::Failed("no model".to_owned());
        check(&format!("{TOKENS}{error}\n"), false, "Wäter runs[31m\n", Some(&failed));
    }

    #[test]
    fn as_json_the_lines_are_what_came() {
        let deltas = TOKENS.to_owned() + &done("stop", &source(1, false, r#""url":"u""#));
        for piece in 1..=deltas.len() {
            let mut out = Vec::new();
            let end = printed(
                Page::new(&mut out, Hint::none(), Look { json: true, colours: true }),
                &deltas,
                piece,
            );
            assert_eq!((out.as_slice(), end), (deltas.as_bytes(), Some(End::Done)));
        }
    }

    #[test]
    fn what_is_no_delta_is_not_believed() {
        let mut out = Vec::new();
        let mut page = Page::new(&mut out, Hint::none(), Look { json: false, colours: false });
        assert!(page.write(b"<html>\n").unwrap_err().contains("no delta"));
        assert!(page.write(&vec![b'x'; LONGEST_LINE + 1]).unwrap_err().contains("a line of more than"));
    }

    #[test]
    fn a_reader_who_has_gone_ends_it() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut page = Page::new(Closed, Hint::none(), Look { json: false, colours: false });
        assert_eq!(page.write(TOKENS.as_bytes()), Ok(Some(End::Unread)));
    }

    #[test]
    fn fuzz_nearly_right_deltas() {
        let whole =
            format!("{TOKENS}{}", done("stop", &source(1, true, "\"filePath\":\"a.md\",\"lineStart\":1")));
        let error = "{\"type\":\"error\",\"metadata\":{\"code\":\"x\",\"message\":\"y\"}}\n";
        let words = ["\\u001b[2J", "\u{9b}", "\u{202e}", "\"type\":\"done\",", "null", "{}", "[]", "\\ud800"];
        testing::fuzz(&[whole.as_bytes(), error.as_bytes()], &words, |deltas| {
            for json in [false, true] {
                let look = Look { json, colours: false };
                let (mut at_once, mut in_pieces) = (Vec::new(), Vec::new());
                let told = Page::new(&mut at_once, Hint::none(), look).write(deltas);
                let mut page = Page::new(&mut in_pieces, Hint::none(), look);
                let told_in_pieces: Vec<_> =
                    deltas.chunks(5).map_while(|piece| page.write(piece).ok()).collect();
                if told.is_ok() {
                    assert_eq!(told_in_pieces.len(), deltas.chunks(5).count());
                    drop(page);
                    assert_eq!(at_once, in_pieces);
                }
                assert!(json || !at_once.contains(&0x1b), "no text moves a terminal's cursor");
            }
        });
    }
}
