//! A file while it is downloaded: `<name>.part`, renamed to its final name once size and hash are right. It
//! never grows beyond the size in the manifest.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::fetch::SourceError;
use crate::files::manifest::ManifestFile;
use crate::files::sha256::Hasher;
use crate::files::with_suffix;

/// The part of a file that is downloaded so far.
pub(super) struct PartialFile<'a> {
    expected: &'a ManifestFile,
    target: &'a Path,
    path: PathBuf,
    file: File,
    hasher: Hasher,
    written: u64,
}

impl<'a> PartialFile<'a> {
    /// Opens what an earlier pull left, or an empty file.
    pub(super) fn open(expected: &'a ManifestFile, target: &'a Path) -> io::Result<Self> {
        let path = with_suffix(target, ".part");
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
        let mut hasher = Hasher::new();
        let written = hasher.read(&mut file)?;
        let mut partial = Self { expected, target, path, file, hasher, written };
        if written > expected.bytes {
            partial.clear()?;
        }
        Ok(partial)
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn expected_bytes(&self) -> u64 {
        self.expected.bytes
    }

    pub(super) fn is_complete(&self) -> bool {
        self.written == self.expected.bytes
    }

    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.hasher = Hasher::new();
        self.written = 0;
        Ok(())
    }

    /// Appends bytes. If there are more than expected, the file is cleared.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), SourceError> {
        if bytes.len() as u64 > self.expected.bytes - self.written {
            self.clear()?;
            return Err(SourceError::TooLarge(self.expected.bytes));
        }
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Renames the file to its target if the content is right, else clears it.
    pub(super) fn finish(&mut self) -> Result<(), SourceError> {
        let ManifestFile { sha256: expected_sha256, bytes: expected_bytes, .. } = *self.expected;
        let (sha256, bytes) = (self.hasher.clone().finish(), self.written);
        if sha256 != expected_sha256 {
            self.clear()?;
            return Err(SourceError::WrongContent { bytes, sha256, expected_bytes, expected_sha256 });
        }
        self.file.sync_all()?;
        fs::rename(&self.path, self.target)?;
        let folder = self.target.parent().expect("a model's file is in a folder");
        File::open(folder)?.sync_all()?;
        Ok(())
    }

    /// Removes an empty file; a part is kept for the next pull.
    pub(super) fn remove_if_empty(self) -> io::Result<()> {
        if self.written > 0 { Ok(()) } else { fs::remove_file(self.path) }
    }
}
