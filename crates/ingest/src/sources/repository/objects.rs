//! The contents of files, from one git process that answers object by object.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use super::command::Git;
use crate::sources::{File, Skip, SourceError, Unread};

/// Bytes of the line before an object.
const HEADER_BYTES: u64 = 200;

/// A process that reads objects. It ends with this.
pub(super) struct Objects {
    process: Child,
    asked: ChildStdin,
    told: BufReader<ChildStdout>,
    largest: u64,
}

impl Objects {
    pub(super) fn of(git: &Git, largest: u64) -> Result<Self, SourceError> {
        let failed = |error: io::Error| SourceError(format!("git cannot be started: {error}"));
        let mut command = git.command(&["cat-file", "--batch"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().map_err(failed)?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(asked), Some(told)) => Ok(Self { process, asked, told: BufReader::new(told), largest }),
            _ => Err(failed(io::Error::other("it has no pipes"))),
        }
    }

    /// The bytes of a file, whose version is its object.
    pub(super) fn read_file(&mut self, file: &File) -> Result<Vec<u8>, Unread> {
        let object = file.version.as_deref().unwrap_or_default();
        self.ask(object).unwrap_or_else(|error| {
            Err(Unread::Failed(format!("git cannot read object {object} of it: {error}")))
        })
    }

    fn ask(&mut self, object: &str) -> io::Result<Result<Vec<u8>, Unread>> {
        writeln!(self.asked, "{object}")?;
        self.asked.flush()?;
        let mut header = String::new();
        self.told.by_ref().take(HEADER_BYTES).read_line(&mut header)?;
        let size = match header.split_ascii_whitespace().collect::<Vec<_>>()[..] {
            [_, "blob", size] => size.parse::<u64>().map_err(io::Error::other)?,
            _ => return Err(io::Error::other(format!("it says {:?}", header.trim_end()))),
        };
        if size > self.largest {
            io::copy(&mut self.told.by_ref().take(size + 1), &mut io::sink())?;
            return Ok(Err(Unread::Skipped(Skip::Oversized)));
        }
        let mut bytes = Vec::new();
        let with_line_end = size + 1;
        if self.told.by_ref().take(with_line_end).read_to_end(&mut bytes)? as u64 != with_line_end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.pop();
        Ok(Ok(bytes))
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
