//! The disk tier: one file per KV state, within a number of bytes, least recently used first out. Each file has a checksum;
//! one that is damaged or does not belong to its name is deleted. Processes may share the folder: each uses the files
//! of the others, and enforces the bound by itself.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::key::CacheKey;
use super::kv_state::KvState;
use crate::chat::atomic_file::{remove_if_abandoned, write_atomically};

/// The first bytes of a file.
const FORMAT: &[u8; 8] = b"wsprefx1";

/// Format, key, number of tokens, and the checksum of these and of the state that follows.
const HEADER_BYTES: usize = 8 + 32 + 4 + 4;

/// The folder is scanned for files of other processes after this share of the bound was written.
const SCAN_SHARE: u64 = 16;

/// A folder of KV states.
pub(super) struct DiskTier {
    folder: PathBuf,
    max_bytes: u64,
    bytes: u64,
    /// When each file was last used, and its size.
    files: HashMap<CacheKey, (SystemTime, u64)>,
    written_since_scan: u64,
}

impl DiskTier {
    /// Opens a folder. Creates it for its owner alone: KV states reveal the documents.
    pub(super) fn open(folder: PathBuf, max_bytes: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let mut disk = Self { folder, max_bytes, bytes: 0, files: HashMap::new(), written_since_scan: 0 };
        disk.scan()?;
        disk.evict();
        Ok(disk)
    }

    /// Reads a state, and marks it as used. Deletes a damaged file.
    pub(super) fn get(&mut self, key: CacheKey) -> Option<KvState> {
        let path = self.path(key);
        // A file that cannot be opened, for want of a descriptor or a permission, may be intact.
        let bytes = fs::read(&path).ok()?;
        let state = decode(key, &bytes);
        match state {
            Some(_) => self.touch(key),
            None => {
                tracing::warn!("{} is damaged and is deleted", path.display());
                self.remove(key);
            }
        }
        state
    }

    /// Whether there is a file, whichever process wrote it. It may be damaged.
    pub(super) fn contains(&self, key: CacheKey) -> bool {
        self.path(key).exists()
    }

    /// Writes a state and evicts others for it. A state larger than the bound is not written.
    pub(super) fn put(&mut self, key: CacheKey, state: &KvState) -> io::Result<()> {
        let size = file_bytes(state.bytes.len());
        if size > self.max_bytes {
            return Ok(());
        }
        write_atomically(&self.path(key), |part| {
            let mut file = File::create(part)?;
            file.write_all(&header(key, state))?;
            file.write_all(&state.bytes)
        })?;
        self.note(key, SystemTime::now(), size);
        self.written_since_scan += size;
        if self.written_since_scan >= self.max_bytes / SCAN_SHARE {
            self.scan()?;
        }
        self.evict();
        Ok(())
    }

    /// Marks a state as used, for all processes.
    pub(super) fn touch(&mut self, key: CacheKey) {
        let now = SystemTime::now();
        let file = File::options().append(true).open(self.path(key));
        match file.as_ref().map(File::metadata) {
            Ok(Ok(metadata)) => self.note(key, now, metadata.len()),
            _ => self.forget(key),
        }
        // Where the time cannot be set, only this process knows of the use.
        let _ = file.and_then(|file| file.set_modified(now));
    }

    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Notes all files of the folder, whichever process wrote them.
    fn scan(&mut self) -> io::Result<()> {
        (self.bytes, self.written_since_scan) = (0, 0);
        self.files.clear();
        for folder in fs::read_dir(&self.folder)?.flatten().filter(|entry| entry.path().is_dir()) {
            for file in fs::read_dir(folder.path())?.flatten() {
                let Ok(metadata) = file.metadata() else { continue };
                let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                match key_of(&file.path()) {
                    Some(key) => self.note(key, modified, metadata.len()),
                    None => remove_if_abandoned(&file),
                }
            }
        }
        Ok(())
    }

    fn evict(&mut self) {
        while self.bytes > self.max_bytes
            && let Some((&oldest, _)) = self.files.iter().min_by_key(|(_, (used, _))| *used)
        {
            self.remove(oldest);
        }
    }

    fn remove(&mut self, key: CacheKey) {
        let _ = fs::remove_file(self.path(key));
        self.forget(key);
    }

    fn note(&mut self, key: CacheKey, used: SystemTime, size: u64) {
        self.forget(key);
        self.bytes += size;
        self.files.insert(key, (used, size));
    }

    fn forget(&mut self, key: CacheKey) {
        if let Some((_, size)) = self.files.remove(&key) {
            self.bytes -= size;
        }
    }

    /// The path of a state, in a subfolder by its first digits: one folder should not have too many files.
    pub(super) fn path(&self, key: CacheKey) -> PathBuf {
        let name = key.to_string();
        self.folder.join(&name[..2]).join(format!("{name}.{EXTENSION}"))
    }
}

const EXTENSION: &str = "kv";

fn key_of(path: &Path) -> Option<CacheKey> {
    CacheKey::parse(path.file_name()?.to_str()?.strip_suffix(EXTENSION)?.strip_suffix('.')?)
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
