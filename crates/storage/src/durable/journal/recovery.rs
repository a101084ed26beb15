//! Recovery reads the journal of a process that died. It drops a torn tail. Damage costs the frames it hit and no
//! others, and a damaged segment is renamed, never deleted.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use domain::{PromptId, StorageError, Timestamp};
use tracing::{error, info};

use super::frame::{self, Frame, HEADER, MAGIC_BYTES};
use super::segment_file;
use crate::io_error::storage_error;

/// What recovery read.
#[derive(Debug, Default)]
pub(crate) struct RecoveredJournal {
    /// For each wanted prompt, the encoded batches of its frames in the order they were written.
    pub(crate) logs: HashMap<PromptId, Vec<Vec<u8>>>,
    /// Segments that are valid, but for a torn tail.
    valid: Vec<PathBuf>,
    damaged: Vec<PathBuf>,
}

/// Reads all segments in a folder, and returns the frames of the wanted prompts. Changes nothing on disk, so that
/// recovery can be repeated if the process dies before it has stored the logs.
pub(crate) fn recover(
    folder: &Path,
    wanted: impl Fn(PromptId) -> bool,
) -> Result<RecoveredJournal, StorageError> {
    let mut recovered = RecoveredJournal::default();
    let in_folder = |error| storage_error(folder.display(), error);
    let numbers =
        if folder.exists() { segment_file::numbers_in(folder).map_err(in_folder)? } else { Vec::new() };
    for path in numbers.into_iter().map(|number| segment_file::path(folder, number)) {
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            // It was obsolete, and its deletion was still under way.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(storage_error(path.display(), error)),
        };
        let condition = read_segment(&bytes, |prompt, batches| {
            if wanted(prompt) {
                recovered.logs.entry(prompt).or_default().push(batches.to_vec());
            }
        });
        match condition {
            SegmentCondition::Valid => recovered.valid.push(path),
            SegmentCondition::TornTail { at } => {
                info!(path = %path.display(), bytes = bytes.len() - at, "the journal drops a torn tail");
                recovered.valid.push(path);
            }
            SegmentCondition::Damaged { at } => {
                error!(path = %path.display(), at, "a journal segment is damaged: its valid frames are recovered");
                recovered.damaged.push(path);
            }
        }
    }
    Ok(recovered)
}

impl RecoveredJournal {
    /// Clears the journal once the history has stored the logs: valid segments are deleted, damaged ones set aside.
    pub(crate) fn clear(&self, now: Timestamp) -> Result<(), StorageError> {
        self.valid.iter().for_each(|path| segment_file::delete_segment(path));
        self.damaged.iter().try_for_each(|path| set_aside(path, now))
    }

    /// Sets the whole journal aside, if there is no history that knows its prompts.
    pub(crate) fn set_aside(&self, now: Timestamp) -> Result<(), StorageError> {
        self.valid.iter().chain(&self.damaged).try_for_each(|path| set_aside(path, now))
    }
}

fn set_aside(path: &Path, now: Timestamp) -> Result<(), StorageError> {
    let aside = path.with_extension(format!("log.corrupt-{}", now.micros()));
    fs::rename(path, &aside).map_err(|error| storage_error(path.display(), error))?;
    error!(path = %aside.display(), "a journal segment was set aside");
    Ok(())
}

/// The condition of a segment.
#[derive(Debug, PartialEq, Eq)]
enum SegmentCondition {
    Valid,
    /// The last write was cut short, from this offset on.
    TornTail {
        at: usize,
    },
    /// Anything else is wrong, first at this offset.
    Damaged {
        at: usize,
    },
}

/// Calls `on_frame` with each valid frame of a segment.
fn read_segment(bytes: &[u8], mut on_frame: impl FnMut(PromptId, &[u8])) -> SegmentCondition {
    if bytes.len() < HEADER.len() && HEADER.starts_with(bytes) {
        return SegmentCondition::TornTail { at: 0 };
    }
    let mut damaged = None;
    if !bytes.starts_with(&HEADER) {
        damaged = Some(0);
        if bytes.starts_with(&HEADER[..MAGIC_BYTES]) {
            // A newer release wrote it, in a format that is unknown here.
            return SegmentCondition::Damaged { at: 0 };
        }
    }
    let mut at = HEADER.len().min(bytes.len());
    while at < bytes.len() {
        let rest = &bytes[at..];
        let frame = frame::decode(rest);
        if let Frame::Valid { prompt, batches, length } = frame {
            on_frame(prompt, batches);
            at += length;
            continue;
        }
        let Some(skipped) = frame::find_valid(rest) else {
            let torn = frame == Frame::Truncated || rest.iter().all(|byte| *byte == 0);
            return match damaged {
                None if torn => SegmentCondition::TornTail { at },
                _ => SegmentCondition::Damaged { at: damaged.unwrap_or(at) },
            };
        };
        damaged.get_or_insert(at);
        at += skipped;
    }
    damaged.map_or(SegmentCondition::Valid, |at| SegmentCondition::Damaged { at })
}

#[cfg(test)]
mod tests;
