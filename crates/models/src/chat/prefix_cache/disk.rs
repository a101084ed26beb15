//! The disk tier: one file per KV state, within a number of bytes, least recently used first out. Each file has a checksum;
//! one that is damaged or does not belong to its name is deleted. Processes may share the folder: each uses the files
//! of the others, and enforces the bound by itself.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::SystemTime;

use super::key::CacheKey;
use super::kv_state::KvState;
use crate::chat::atomic_file::{remove_if_abandoned, write_atomically};

/// The first bytes of a file.
const FORMAT: &[u8; 8] = b"wsprefx1";

/// Format, key, number of tokens, and the checksum of these and of the state that follows.
const HEADER_BYTES: usize = 8 + 32 + 4 + 4;

const EXTENSION: &str = "kv";

/// The folder is scanned for files of other processes after this share of the bound was written.
const SCAN_SHARE: u64 = 16;

/// A folder of KV states. The modification time of a file is its last use.
pub(super) struct DiskTier {
    folder: PathBuf,
    max_bytes: u64,
    bytes: u64,
    written_since_scan: u64,
}

impl DiskTier {
    /// Opens a folder. Creates it for its owner alone: KV states reveal the documents.
    pub(super) fn open(folder: PathBuf, max_bytes: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let mut disk = Self { folder, max_bytes, bytes: 0, written_since_scan: 0 };
        disk.scan()?;
        Ok(disk)
    }

    /// Reads a state, and marks it as used. Deletes a damaged file.
    pub(super) fn get(&mut self, key: CacheKey) -> Option<KvState> {
        let path = self.path(key);
        // A file that cannot be opened, for want of a descriptor or a permission, may be intact.
        let bytes = fs::read(&path).ok()?;
        let state = decode(key, &bytes);
        if state.is_some() {
            self.touch(key);
        } else {
            tracing::warn!("{} is damaged and is deleted", path.display());
            let _ = fs::remove_file(&path).and_then(|()| self.scan());
        }
        state
    }

    /// Whether there is a file, whichever process wrote it. It may be damaged.
    pub(super) fn contains(&self, key: CacheKey) -> bool {
        self.path(key).exists()
    }

    /// Writes a state and evicts others for it. A state larger than the bound is not written.
    pub(super) fn put(&mut self, key: CacheKey, state: &KvState) -> io::Result<()> {
        let (path, size) = (self.path(key), file_bytes(state.bytes.len()));
        if size > self.max_bytes {
            return Ok(());
        }
        let replaced = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        write_atomically(&path, |part| {
            let mut file = File::create(part)?;
            file.write_all(&header(key, state))?;
            file.write_all(&state.bytes)?;
            // The kernel's own time is too coarse to order uses.
            file.set_modified(SystemTime::now())
        })?;
        self.bytes = (self.bytes + size).saturating_sub(replaced);
        self.written_since_scan += size;
        if self.bytes > self.max_bytes || self.written_since_scan >= self.max_bytes / SCAN_SHARE {
            self.scan()?;
        }
        Ok(())
    }

    /// Marks a state as used, for all processes.
    pub(super) fn touch(&self, key: CacheKey) {
        let file = File::options().append(true).open(self.path(key));
        // A file that is gone, or whose time cannot be set, is computed again one day.
        let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
    }

    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts all files of the folder, whichever process wrote them, and evicts beyond the bound.
    fn scan(&mut self) -> io::Result<()> {
        let mut files = Vec::new();
        for file in fs::read_dir(&self.folder)?.flatten() {
            let Ok(metadata) = file.metadata() else { continue };
            if file.path().extension() == Some(EXTENSION.as_ref()) {
                files.push((metadata.modified()?, metadata.len(), file.path()));
            } else {
                remove_if_abandoned(&file);
            }
        }
        files.sort_unstable();
        self.written_since_scan = 0;
        self.bytes = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in files {
            if self.bytes <= self.max_bytes {
                break;
            }
            // Another process may have removed it.
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                _ => self.bytes -= size,
            }
        }
        Ok(())
    }

    fn path(&self, key: CacheKey) -> PathBuf {
        self.folder.join(format!("{key}.{EXTENSION}"))
    }
}

/// The size of the file of a state of this many bytes.
pub(super) fn file_bytes(state: usize) -> u64 {
    (HEADER_BYTES + state) as u64
}

fn header(key: CacheKey, state: &KvState) -> Vec<u8> {
    let tokens = u32::try_from(state.tokens).unwrap_or(u32::MAX);
    let head = [FORMAT.as_slice(), key.as_bytes(), &tokens.to_le_bytes()].concat();
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), &state.bytes);
    [head.as_slice(), &checksum.to_le_bytes()].concat()
}

fn decode(key: CacheKey, mut file: &[u8]) -> Option<KvState> {
    let mut stored = [0; HEADER_BYTES];
    file.read_exact(&mut stored).ok()?;
    let tokens = u32::from_le_bytes(stored[40..44].try_into().ok()?);
    let state = KvState { tokens: usize::try_from(tokens).ok()?, bytes: file.to_vec() };
    (stored == header(key, &state).as_slice()).then_some(state)
}

#[cfg(test)]
mod tests;
