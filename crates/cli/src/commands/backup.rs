//! `wellspring backup`: copies of the databases, also while the server runs.

use std::path::PathBuf;

use clap::Args;

use super::{CommandError, ConfigFlag, print};
use crate::logging;
use crate::settings::{Environment, StorageKind};

/// Copies the databases, also while the server runs
#[derive(Args, Debug)]
#[command(after_help = "\
The copies are history.db (sessions, prompts, answers) and knowledge.db (documents and their vectors), each a snapshot of
one moment. To restore them, stop the server and put them into an empty data folder: the index is rebuilt at the next
start. Prompts that ran at that moment are `interrupted` in the copy.")]
pub(super) struct Backup {
    /// The folder for the copies, new or empty
    folder: PathBuf,
    #[command(flatten)]
    config: ConfigFlag,
}

/// Copies, and lists the copies.
pub(super) fn run(backup: &Backup, environment: &Environment) -> Result<(), CommandError> {
    logging::start_quietly(environment)?;
    let settings = backup.config.settings(environment)?;
    if settings.storage.kind == StorageKind::Memory {
        return Err(CommandError::NothingStored(": there is no database to copy"));
    }
    let copies = storage::back_up(&settings.data_dir, &backup.folder).map_err(CommandError::other)?;
    let lines = copies.iter().map(|copy| {
        let (path, mebibytes) = (backup.folder.join(copy.file), copy.bytes as f64 / f64::from(1 << 20));
        format!("{}  {mebibytes:.1} MiB\n", path.display())
    });
    print(&lines.collect::<String>())
}
