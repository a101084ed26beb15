//! Reads the contents of files through one `git cat-file --batch` process.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use super::git::Git;
use crate::sources::{ReadError, SkipReason, SourceError, SourceFile};

/// Maximum bytes of the line before an object.
const HEADER_BYTES: u64 = 200;

/// A git process that returns blobs. It is killed on drop.
pub(super) struct BlobReader {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    max_bytes: u64,
}

impl BlobReader {
    pub(super) fn start(git: &Git, max_bytes: u64) -> Result<Self, SourceError> {
        let mut command = git.command(&["cat-file", "--batch"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().map_err(SourceError::GitNotStarted)?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(stdin), Some(stdout)) => {
                Ok(Self { process, stdin, stdout: BufReader::new(stdout), max_bytes })
            }
            _ => Err(SourceError::GitNotStarted(io::Error::other("it has no pipes"))),
        }
    }

    /// The bytes of a file, whose version is its object id.
    pub(super) fn read_file(&mut self, file: &SourceFile) -> Result<Vec<u8>, ReadError> {
        let object = file.version.as_deref().unwrap_or_default();
        self.request(object).unwrap_or_else(|error| {
            Err(ReadError::Failed(format!("git cannot read object {object} of it: {error}")))
        })
    }

    fn request(&mut self, object: &str) -> io::Result<Result<Vec<u8>, ReadError>> {
        writeln!(self.stdin, "{object}")?;
        self.stdin.flush()?;
        let mut header = String::new();
        self.stdout.by_ref().take(HEADER_BYTES).read_line(&mut header)?;
        let size = match header.split_ascii_whitespace().collect::<Vec<_>>()[..] {
            [_, "blob", size] => size.parse::<u64>().map_err(io::Error::other)?,
            _ => return Err(io::Error::other(format!("it says {:?}", header.trim_end()))),
        };
        if size > self.max_bytes {
            io::copy(&mut self.stdout.by_ref().take(size + 1), &mut io::sink())?;
            return Ok(Err(ReadError::Skipped(SkipReason::Oversized)));
        }
        let mut bytes = Vec::new();
        let with_line_end = size + 1;
        if self.stdout.by_ref().take(with_line_end).read_to_end(&mut bytes)? as u64 != with_line_end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.pop();
        Ok(Ok(bytes))
    }
}

impl Drop for BlobReader {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
