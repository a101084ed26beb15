//! Reading a journal that a dead process left behind. A torn tail is dropped; a file with damage in its
//! middle is set aside under another name, never deleted.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use domain::PromptId;
use tracing::{error, info};

use super::{HEADER, PROMPT_ID, RECORD_HEAD, numbers_in, path_of};

/// What a journal had.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// The encoded batches of each prompt, in the order they were written.
    pub(crate) logs: HashMap<PromptId, Vec<u8>>,
    /// The segments that were read; to be deleted once their logs are folded.
    pub(crate) segments: Vec<PathBuf>,
}

/// Reads all segments in a folder.
pub(crate) fn recover(folder: &Path) -> io::Result<Recovered> {
    let mut recovered = Recovered::default();
    let numbers = if folder.exists() { numbers_in(folder)? } else { Vec::new() };
    for number in numbers {
        let path = path_of(folder, number);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            // It was not needed, and its deletion was still under way.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let read = read_segment(&bytes, |prompt, batches| {
            recovered.logs.entry(prompt).or_default().extend(batches);
        });
        match read {
            Tail::Clean => recovered.segments.push(path),
            Tail::Torn { at } => {
                info!(path = %path.display(), dropped = bytes.len() - at, "a torn record at the end was dropped");
                recovered.segments.push(path);
            }
            Tail::Damaged { at } => {
                let aside = path.with_extension("log.corrupt");
                fs::rename(&path, &aside)?;
                error!(path = %aside.display(), at, "a journal segment is damaged: what came before was recovered, and the file was set aside");
            }
        }
    }
    Ok(recovered)
}

/// How a segment ends.
#[derive(Debug, PartialEq, Eq)]
enum Tail {
    Clean,
    /// The last write did not get through; nothing sound follows.
    Torn {
        at: usize,
    },
    /// Something is wrong, and it is not just the last write.
    Damaged {
        at: usize,
    },
}

/// Gives out the records of a segment, up to the first that is not sound.
fn read_segment(bytes: &[u8], mut record: impl FnMut(PromptId, &[u8])) -> Tail {
    if bytes.len() < HEADER.len() && HEADER.starts_with(bytes) {
        return Tail::Torn { at: 0 };
    }
    if !bytes.starts_with(&HEADER) {
        return Tail::Damaged { at: 0 };
    }
    let mut at = HEADER.len();
    while at < bytes.len() {
        let Some((prompt, batches)) = sound_record(&bytes[at..]) else {
            // Whether the rest is a torn write or damage shows in what comes after it.
            let damaged = (at + 1..bytes.len()).any(|later| begins_record(&bytes[later..]));
            return if damaged { Tail::Damaged { at } } else { Tail::Torn { at } };
        };
        record(prompt, batches);
        at += RECORD_HEAD + PROMPT_ID + batches.len();
    }
    Tail::Clean
}

/// Whether a sound record begins here. Looked for at every byte, so what cannot be the id of a prompt is
/// passed over before any checksum is computed.
fn begins_record(bytes: &[u8]) -> bool {
    let (version, variant) = (bytes.get(RECORD_HEAD + 6), bytes.get(RECORD_HEAD + 8));
    let may_be_id =
        version.is_some_and(|byte| byte >> 4 == 7) && variant.is_some_and(|byte| byte >> 6 == 0b10);
    may_be_id && sound_record(bytes).is_some()
}

/// The record at the beginning of `bytes`, if it is whole and its checksum is right.
fn sound_record(bytes: &[u8]) -> Option<(PromptId, &[u8])> {
    let (head, rest) = bytes.split_at_checked(RECORD_HEAD)?;
    let length = u32::from_le_bytes(head[..4].try_into().ok()?) as usize;
    let checksum = u32::from_le_bytes(head[4..].try_into().ok()?);
    let body = rest.get(..length)?;
    let (prompt, batches) = body.split_first_chunk::<PROMPT_ID>()?;
    (crc32c::crc32c(body) == checksum).then(|| (PromptId(uuid::Uuid::from_bytes(*prompt)), batches))
}
