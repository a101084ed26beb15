//! The data folder, which several stores share.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::Durability;

/// Makes the folder if it is missing.
pub(crate) fn make(folder: &Path, durability: Durability) -> io::Result<()> {
    if folder.exists() && !folder.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is a file: name a folder (data_dir)"));
    }
    let is_new = !folder.exists();
    fs::create_dir_all(folder)?;
    if is_new && durability == Durability::Power {
        // A new folder's name is on the disk once the folder above it is.
        File::open(folder.canonicalize()?.parent().unwrap_or(folder))?.sync_all()?;
    }
    Ok(())
}
