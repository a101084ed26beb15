//! A file on its way: written beside its place under another name, and moved there only when all of it is right.
//! It never grows beyond the size that the manifest gives.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::beside;
use super::fetch::Trouble;
use super::manifest::ModelFile;
use super::sha256::Hasher;

/// What has come of a file so far.
pub(super) struct Part<'a> {
    wanted: &'a ModelFile,
    target: &'a Path,
    path: PathBuf,
    file: File,
    hasher: Hasher,
    written: u64,
}

impl<'a> Part<'a> {
    /// Goes on with what an earlier pull left, or begins.
    pub(super) fn open(wanted: &'a ModelFile, target: &'a Path) -> io::Result<Self> {
        let path = beside(target, ".part");
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
        let mut hasher = Hasher::new();
        let written = hasher.read(&mut file)?;
        let mut part = Self { wanted, target, path, file, hasher, written };
        if written > wanted.bytes {
            part.clear()?;
        }
        Ok(part)
    }

    /// How many bytes have come.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// How many bytes there should be.
    pub(super) fn wanted_bytes(&self) -> u64 {
        self.wanted.bytes
    }

    /// Whether as many bytes have come as there should be.
    pub(super) fn is_full(&self) -> bool {
        self.written == self.wanted.bytes
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.hasher = Hasher::new();
        self.written = 0;
        Ok(())
    }

    /// Adds bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        if bytes.len() as u64 > self.wanted.bytes - self.written {
            self.clear()?;
            return Err(Trouble::Place(format!("it has more than the {} bytes expected", self.wanted.bytes)));
        }
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Moves the file to its place if it is the right one. Else nothing is left of it.
    pub(super) fn settle(&mut self) -> Result<(), Trouble> {
        let ModelFile { sha256: wanted, bytes, .. } = self.wanted;
        let (found, written) = (self.hasher.clone().finish(), self.written);
        if found != *wanted {
            self.clear()?;
            let expected = format!("expected are {bytes} with {wanted}");
            return Err(Trouble::Wrong(format!(
                "it has {written} bytes with the sha256 {found}; {expected}"
            )));
        }
        self.file.sync_all()?;
        fs::rename(&self.path, self.target)?;
        let folder = self.target.parent().expect("a model's file is in a folder");
        File::open(folder)?.sync_all()?;
        Ok(())
    }

    /// Leaves nothing behind unless there is something to go on with.
    pub(super) fn leave(self) -> io::Result<()> {
        if self.written > 0 { Ok(()) } else { fs::remove_file(self.path) }
    }
}
