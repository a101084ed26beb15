//! States in files, one each, within a number of bytes; those used longest ago go first. What is damaged, or not what
//! its name says, is never used. Several processes may use one folder: each finds what the others write, and keeps to the
//! bound by itself.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::key::Key;
use super::state::State;
use crate::chat::whole::{remove_if_left_behind, write_whole};

/// What a file begins with: the form it has.
const FORM: &[u8; 8] = b"wsstate1";

/// The form, the key, the tokens, and the checksum of these and of what follows.
const HEAD_BYTES: usize = 8 + 32 + 4 + 4;

/// After so many files, or this share of the bytes that there may be, it is looked what others have written.
const FILES_BETWEEN_LOOKS: usize = 256;
const SHARE_BETWEEN_LOOKS: u64 = 16;

/// A folder of states.
pub(super) struct Disk {
    folder: PathBuf,
    most_bytes: u64,
    bytes: u64,
    /// When each was used, and how large it is.
    files: HashMap<Key, (SystemTime, u64)>,
    by_use: BTreeMap<(SystemTime, Key), u64>,
    /// Files and bytes that were written since it was looked.
    written: (usize, u64),
}

/// What is where a state should be.
#[derive(PartialEq, Eq)]
pub(super) enum Place {
    /// The state.
    Has(State),
    /// Something else, which should go.
    Damaged,
    Empty,
}

impl Disk {
    /// The states in a folder, which is made if it is not there, for its owner alone: documents speak from them.
    pub(super) fn open(folder: PathBuf, most_bytes: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let (files, by_use) = (HashMap::new(), BTreeMap::new());
        let mut disk = Self { folder, most_bytes, bytes: 0, files, by_use, written: (0, 0) };
        disk.look()?;
        disk.make_room();
        Ok(disk)
    }

    /// Writes a state to its place, and lets others go for it.
    pub(super) fn put(&mut self, key: Key, state: &State) -> io::Result<()> {
        let size = size(state);
        if size > self.most_bytes {
            return Ok(());
        }
        write(&path(&self.folder, key), key, state)?;
        self.note(key, SystemTime::now(), size);
        self.written = (self.written.0 + 1, self.written.1 + size);
        if self.written.0 >= FILES_BETWEEN_LOOKS || self.written.1 >= self.most_bytes / SHARE_BETWEEN_LOOKS {
            self.look()?;
        }
        self.make_room();
        Ok(())
    }

    /// Takes note that a state was used, whoever wrote it.
    pub(super) fn note_used(&mut self, key: Key) {
        let now = SystemTime::now();
        let file = File::options().append(true).open(path(&self.folder, key));
        match file.as_ref().map(File::metadata) {
            Ok(Ok(metadata)) => self.note(key, now, metadata.len()),
            _ => self.forget(key),
        }
        // Where the time cannot be set, the order is the one of this process.
        let _ = file.and_then(|file| file.set_modified(now));
    }

    /// Deletes what is in a state's place.
    pub(super) fn remove(&mut self, key: Key) {
        let _ = fs::remove_file(path(&self.folder, key));
        self.forget(key);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes note of all files that there are, whoever wrote them.
    fn look(&mut self) -> io::Result<()> {
        (self.bytes, self.files, self.by_use) = (0, HashMap::new(), BTreeMap::new());
        self.written = (0, 0);
        for folder in fs::read_dir(&self.folder)?.flatten().filter(|entry| entry.path().is_dir()) {
            for file in fs::read_dir(folder.path())?.flatten() {
                let Ok(metadata) = file.metadata() else { continue };
                let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                match name_of(&file.path()) {
                    Some(key) => self.note(key, modified, metadata.len()),
                    None => remove_if_left_behind(&file),
                }
            }
        }
        Ok(())
    }

    fn make_room(&mut self) {
        while self.bytes > self.most_bytes
            && let Some((&(_, oldest), _)) = self.by_use.first_key_value()
        {
            self.remove(oldest);
        }
    }

    fn note(&mut self, key: Key, used: SystemTime, size: u64) {
        self.forget(key);
        self.bytes += size;
        self.files.insert(key, (used, size));
        self.by_use.insert((used, key), size);
    }

    fn forget(&mut self, key: Key) {
        if let Some((used, size)) = self.files.remove(&key) {
            self.by_use.remove(&(used, key));
            self.bytes -= size;
        }
    }
}

/// Where a state goes: in folders by the first digits, as no folder should have too many files.
pub(super) fn path(folder: &Path, key: Key) -> PathBuf {
    let name = key.to_string();
    folder.join(&name[..2]).join(format!("{name}.state"))
}

/// What is in a state's place. It takes no note of that.
pub(super) fn read(folder: &Path, key: Key) -> Place {
    match fs::read(path(folder, key)) {
        Ok(bytes) => unpack(key, &bytes).map_or(Place::Damaged, Place::Has),
        // What cannot be read now, for want of a descriptor or a right, may be good.
        Err(_) => Place::Empty,
    }
}

fn write(path: &Path, key: Key, state: &State) -> io::Result<()> {
    write_whole(path, |part| {
        let (head, checksum) = head(key, state);
        let mut file = File::create(part)?;
        file.write_all(&head)?;
        file.write_all(&checksum.to_le_bytes())?;
        file.write_all(&state.bytes)
    })
}

/// What a state takes as a file.
pub(super) fn size(state: &State) -> u64 {
    (HEAD_BYTES + state.bytes.len()) as u64
}

fn name_of(path: &Path) -> Option<Key> {
    let name = path.file_name()?.to_str()?.strip_suffix(".state")?;
    Key::from_digits(name)
}

/// All that stands before the checksum, and the checksum.
fn head(key: Key, state: &State) -> (Vec<u8>, u32) {
    let tokens = u32::try_from(state.tokens).unwrap_or(u32::MAX);
    let head = [FORM.as_slice(), key.as_bytes(), &tokens.to_le_bytes()].concat();
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), &state.bytes);
    (head, checksum)
}

fn unpack(key: Key, mut file: &[u8]) -> Option<State> {
    let mut before = [0; HEAD_BYTES];
    file.read_exact(&mut before).ok()?;
    let tokens = usize::try_from(u32::from_le_bytes(before[40..44].try_into().ok()?)).ok()?;
    let state = State { tokens, bytes: file.to_vec() };
    let (expected, checksum) = head(key, &state);
    (before[..44] == expected && before[44..] == checksum.to_le_bytes()).then_some(state)
}

#[cfg(test)]
mod tests;
