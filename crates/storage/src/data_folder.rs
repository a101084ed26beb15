//! The data folder, which the stores share.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use domain::StorageError;

use crate::{Durability, io_error};

/// Creates the folder if it is missing, readable by its owner alone: it holds what people ask.
pub(crate) fn create(folder: &Path, durability: Durability) -> Result<(), StorageError> {
    try_create(folder, durability).map_err(|error| io_error::storage_error(folder.display(), error))
}

fn try_create(folder: &Path, durability: Durability) -> io::Result<()> {
    if folder.exists() && !folder.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is a file: name a folder (data_dir)"));
    }
    let is_new = !folder.exists();
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if is_new && durability == Durability::Power {
        // A new folder's entry is on the disk once its parent is synced.
        File::open(folder.canonicalize()?.parent().unwrap_or(folder))?.sync_all()?;
    }
    Ok(())
}
