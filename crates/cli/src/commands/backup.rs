//! `wellspring backup`: copies of what is kept, also while the server runs.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;

use super::{ConfigFlag, print};
use crate::logging;
use crate::settings::{Environment, StorageKind};

/// Copies what is kept.
#[derive(Args, Debug)]
#[command(after_help = "\
The copies are history.db (sessions, prompts, answers) and knowledge.db (documents and their vectors), each as it was at
one moment. To restore them, stop the server and put them into an empty data folder: the index is made anew at the next
start. Prompts that ran at that moment have ended with `interrupted` then.")]
pub(super) struct Backup {
    /// Where to: a folder that is new or empty
    folder: PathBuf,
    #[command(flatten)]
    config: ConfigFlag,
}

/// Copies, and tells what was copied.
pub(super) fn run(backup: &Backup, environment: &Environment) -> Result<(), Box<dyn Error>> {
    logging::start_quietly(environment)?;
    let settings = backup.config.settings(environment)?;
    if settings.storage.kind == StorageKind::Memory {
        return Err("storage.kind is \"memory\": nothing is kept that could be copied".into());
    }
    let copied = storage::back_up(&settings.data_dir, &backup.folder).map_err(|error| error.to_string())?;
    let lines = copied.iter().map(|copied| {
        let (path, mebibytes) = (backup.folder.join(copied.file), copied.bytes as f64 / f64::from(1 << 20));
        format!("{}  {mebibytes:.1} MiB\n", path.display())
    });
    Ok(print(&lines.collect::<String>())?)
}
