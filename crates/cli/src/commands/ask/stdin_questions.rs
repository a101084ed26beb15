//! Questions from standard input, one a line, with a `>` prompt on a terminal.

use std::io::{self, BufRead, IsTerminal, Read};
use std::thread;

use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::commands::CommandError;

/// The longest line, in bytes.
const MAX_LINE: u64 = 1 << 20;

/// Why standard input yields no more questions.
#[derive(Debug, thiserror::Error)]
pub(super) enum StdinError {
    #[error("standard input cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("a line of standard input has more than {MAX_LINE} bytes: a question is one line")]
    TooLong,
    #[error("a line of standard input is not UTF-8")]
    NotUtf8,
}

impl From<StdinError> for CommandError {
    fn from(error: StdinError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// The lines of standard input that are not blank.
pub(super) struct StdinQuestions {
    lines: Receiver<Result<String, StdinError>>,
    on_terminal: bool,
}

impl StdinQuestions {
    /// Starts a thread that reads standard input. It is never joined, because a blocking read cannot be interrupted.
    pub(super) fn read() -> Self {
        let (sender, lines) = mpsc::channel(1);
        thread::spawn(move || read_all(&mut io::stdin().lock(), &sender));
        Self { lines, on_terminal: io::stdin().is_terminal() }
    }

    /// Whether a person types the questions.
    pub(super) fn on_terminal(&self) -> bool {
        self.on_terminal
    }

    /// The next question; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<String>, StdinError> {
        if self.on_terminal {
            status!("> ");
        }
        let line = self.lines.recv().await.transpose();
        if self.on_terminal && matches!(line, Ok(None)) {
            statusln!();
        }
        line
    }
}

fn read_all(input: &mut impl BufRead, lines: &Sender<Result<String, StdinError>>) {
    loop {
        let line = read_line(input);
        let is_last = !matches!(line, Ok(Some(_)));
        let line = line.transpose().filter(|line| line.as_ref().map_or(true, |line| !line.is_empty()));
        if line.is_some_and(|line| lines.blocking_send(line).is_err()) || is_last {
            return;
        }
    }
}

/// The next line without the white space around it; `None` at the end.
fn read_line(input: &mut impl BufRead) -> Result<Option<String>, StdinError> {
    let mut line = Vec::new();
    let length = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
    match length? {
        0 => Ok(None),
        length if length as u64 == MAX_LINE && !line.ends_with(b"\n") => Err(StdinError::TooLong),
        _ => match std::str::from_utf8(&line) {
            Ok(line) => Ok(Some(line.trim().to_owned())),
            Err(_) => Err(StdinError::NotUtf8),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &[u8]) -> Vec<Result<String, String>> {
        let (sender, mut lines) = mpsc::channel(10);
        read_all(&mut &*input, &sender);
        drop(sender);
        let next = || Some(lines.blocking_recv()?.map_err(|error| error.to_string()));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn each_line_that_is_not_blank_is_a_question() {
        let expected = ["Why?", "And then?", "ß🙂"].map(|line| Ok(line.to_owned()));
        assert_eq!(all("Why?\r\n\n  And then? \n\t\nß🙂".as_bytes()), expected);
        assert_eq!(all(b""), []);
    }

    #[test]
    fn an_unreadable_line_ends_the_questions_with_the_reason() {
        let lines = all(b"Why?\n\xff\nAnd?\n");
        assert_eq!(lines.len(), 2);
        assert!(lines[1].as_ref().is_err_and(|reason| reason.contains("UTF-8")));
        let long = vec![b'x'; 3 << 20];
        assert!(all(&long)[0].as_ref().is_err_and(|reason| reason.contains("more than")));
    }
}
