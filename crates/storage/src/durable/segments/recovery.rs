//! Reading a journal that a dead process left behind. A torn tail is dropped. Damage costs the records it
//! hit and no others, and a file with damage is set aside under another name, never deleted.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use domain::{PromptId, Timestamp};
use tracing::{error, info};

use super::frame::{self, Frame, HEADER, MAGIC};
use super::{numbers_in, path_of, remove};

/// What a journal had.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// The records of each wanted prompt, in the order they were written: encoded batches.
    pub(crate) logs: HashMap<PromptId, Vec<Vec<u8>>>,
    sound: Vec<PathBuf>,
    damaged: Vec<PathBuf>,
}

/// Reads all segments in a folder, and keeps what they have of the wanted prompts. Changes nothing, so that
/// it can be done again should the process die before it has used what it read.
pub(crate) fn recover(folder: &Path, wanted: impl Fn(PromptId) -> bool) -> io::Result<Recovered> {
    let mut recovered = Recovered::default();
    let numbers = if folder.exists() { numbers_in(folder)? } else { Vec::new() };
    for path in numbers.into_iter().map(|number| path_of(folder, number)) {
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            // It was not needed, and its deletion was still under way.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        };
        let condition = read_segment(&bytes, |prompt, batches| {
            if wanted(prompt) {
                recovered.logs.entry(prompt).or_default().push(batches.to_vec());
            }
        });
        match condition {
            Condition::Sound => recovered.sound.push(path),
            Condition::Torn { at } => {
                info!(path = %path.display(), bytes = bytes.len() - at, "a torn record at the end is dropped");
                recovered.sound.push(path);
            }
            Condition::Damaged { at } => {
                error!(path = %path.display(), at, "a journal segment is damaged: what is sound in it is kept");
                recovered.damaged.push(path);
            }
        }
    }
    Ok(recovered)
}

impl Recovered {
    /// The logs are kept elsewhere now: segments are deleted, and damaged ones set aside.
    pub(crate) fn clear_away(&self, now: Timestamp) -> io::Result<()> {
        self.sound.iter().for_each(|path| remove(path));
        self.damaged.iter().try_for_each(|path| set_aside(path, now))
    }

    /// Nobody knows the prompts of this journal any more: all of it is set aside.
    pub(crate) fn set_aside(&self, now: Timestamp) -> io::Result<()> {
        self.sound.iter().chain(&self.damaged).try_for_each(|path| set_aside(path, now))
    }
}

fn set_aside(path: &Path, now: Timestamp) -> io::Result<()> {
    let aside = path.with_extension(format!("log.corrupt-{}", now.micros()));
    fs::rename(path, &aside)?;
    error!(path = %aside.display(), "a journal segment was set aside");
    Ok(())
}

/// What a segment is like.
#[derive(Debug, PartialEq, Eq)]
enum Condition {
    Sound,
    /// The last write did not get through.
    Torn {
        at: usize,
    },
    /// Something else is wrong, first here.
    Damaged {
        at: usize,
    },
}

/// Gives out the sound records of a segment.
fn read_segment(bytes: &[u8], mut record: impl FnMut(PromptId, &[u8])) -> Condition {
    if bytes.len() < HEADER.len() && HEADER.starts_with(bytes) {
        return Condition::Torn { at: 0 };
    }
    let mut damaged = None;
    if !bytes.starts_with(&HEADER) {
        damaged = Some(0);
        if bytes.starts_with(&HEADER[..MAGIC]) {
            // A newer release wrote it, and what it means is not known here.
            return Condition::Damaged { at: 0 };
        }
    }
    let mut at = HEADER.len().min(bytes.len());
    while at < bytes.len() {
        let rest = &bytes[at..];
        let frame = frame::look(rest);
        if let Frame::Sound { prompt, batches, length } = frame {
            record(prompt, batches);
            at += length;
            continue;
        }
        let Some(skipped) = frame::next_sound(rest) else {
            let torn = frame == Frame::Cut || rest.iter().all(|byte| *byte == 0);
            return match damaged {
                None if torn => Condition::Torn { at },
                _ => Condition::Damaged { at: damaged.unwrap_or(at) },
            };
        };
        damaged.get_or_insert(at);
        at += skipped;
    }
    damaged.map_or(Condition::Sound, |at| Condition::Damaged { at })
}

#[cfg(test)]
mod tests;
