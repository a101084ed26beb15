//! The data folder, which several stores share.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::Durability;

/// Makes the folder if it is missing, for its owner alone.
pub(crate) fn make(folder: &Path, durability: Durability) -> io::Result<()> {
    if folder.exists() && !folder.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is a file: name a folder (data_dir)"));
    }
    let is_new = !folder.exists();
    // What people ask is nobody else's business.
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if is_new && durability == Durability::Power {
        // A new folder's name is on the disk once the folder above it is.
        File::open(folder.canonicalize()?.parent().unwrap_or(folder))?.sync_all()?;
    }
    Ok(())
}
