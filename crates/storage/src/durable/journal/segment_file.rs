//! Segment files: their names, and the one that is appended to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::frame::HEADER;

/// The segment that frames are appended to.
pub(super) struct ActiveSegment {
    pub(super) number: u64,
    pub(super) file: Arc<File>,
    pub(super) length: u64,
    /// How many of its bytes were copied forward from other segments. They do not count towards its limit.
    pub(super) copied: u64,
}

impl ActiveSegment {
    /// Creates the file with its header. The folder's entry for it is not synced.
    pub(super) fn create(folder: &Path, number: u64) -> io::Result<Self> {
        let path = path(folder, number);
        let mut file = OpenOptions::new().create_new(true).append(true).open(&path)?;
        if let Err(error) = file.write_all(&HEADER) {
            delete_segment(&path);
            return Err(error);
        }
        Ok(Self { number, file: Arc::new(file), length: HEADER.len() as u64, copied: 0 })
    }
}

/// Deletes a segment. One that cannot be deleted only costs the next recovery some reading.
pub(crate) fn delete_segment(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "an obsolete journal segment cannot be deleted");
    }
}

pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:012}.log"))
}

/// The numbers of the segments in a folder, ascending.
pub(super) fn numbers_in(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_suffix(".log"))
            .and_then(|number| number.parse::<u64>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}
