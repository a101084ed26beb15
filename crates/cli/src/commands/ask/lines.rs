//! Questions from standard input, one a line. Whoever types them is shown where.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::thread;

use tokio::sync::mpsc::{self, Receiver, Sender};

/// No question is longer.
const LONGEST: u64 = 1 << 20;

/// The lines of standard input that are not blank.
pub(super) struct Lines {
    read: Receiver<Result<String, String>>,
    typed: bool,
}

impl Lines {
    /// Reads on a thread of its own, which nobody waits for: a read cannot be broken off.
    pub(super) fn of_standard_input() -> Self {
        let (sender, read) = mpsc::channel(1);
        thread::spawn(move || read_all(&mut io::stdin().lock(), &sender));
        Self { read, typed: io::stdin().is_terminal() }
    }

    /// Whether somebody types them.
    pub(super) fn are_typed(&self) -> bool {
        self.typed
    }

    /// The next one; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<String>, String> {
        if self.typed {
            eprint!("> ");
            // Whoever closed standard error does not want to see it.
            let _ = io::stderr().flush();
        }
        let line = self.read.recv().await.transpose();
        if self.typed && matches!(line, Ok(None)) {
            eprintln!();
        }
        line
    }
}

fn read_all(input: &mut impl BufRead, lines: &Sender<Result<String, String>>) {
    loop {
        let line = read(input);
        let is_last = !matches!(line, Ok(Some(_)));
        let line = line.transpose().filter(|line| line.as_ref().map_or(true, |line| !line.is_empty()));
        if line.is_some_and(|line| lines.blocking_send(line).is_err()) || is_last {
            return;
        }
    }
}

/// The next line without the white space around it; none at the end.
fn read(input: &mut impl BufRead) -> Result<Option<String>, String> {
    let mut line = Vec::new();
    let length = input.by_ref().take(LONGEST).read_until(b'\n', &mut line);
    match length.map_err(|error| format!("standard input cannot be read: {error}"))? {
        0 => Ok(None),
        length if length as u64 == LONGEST && !line.ends_with(b"\n") => {
            Err(format!("a line of standard input has more than {LONGEST} bytes: a question is one line"))
        }
        _ => match std::str::from_utf8(&line) {
            Ok(line) => Ok(Some(line.trim().to_owned())),
            Err(_) => Err("a line of standard input is no UTF-8".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &[u8]) -> Vec<Result<String, String>> {
        let (sender, mut read) = mpsc::channel(10);
        read_all(&mut &*input, &sender);
        drop(sender);
        std::iter::from_fn(|| read.blocking_recv()).collect()
    }

    #[test]
    fn a_question_is_a_line_and_blank_ones_are_none() {
        let expected = ["Why?", "And then?", "ß🙂"].map(|line| Ok(line.to_owned()));
        assert_eq!(all("Why?\r\n\n  And then? \n\t\nß🙂".as_bytes()), expected);
        assert_eq!(all(b""), []);
    }

    #[test]
    fn what_is_no_question_ends_it_and_says_why() {
        let lines = all(b"Why?\n\xff\nAnd?\n");
        assert_eq!(lines.len(), 2);
        assert!(lines[1].as_ref().is_err_and(|reason| reason.contains("UTF-8")));
        let long = vec![b'x'; 3 << 20];
        assert!(all(&long)[0].as_ref().is_err_and(|reason| reason.contains("more than")));
    }
}
