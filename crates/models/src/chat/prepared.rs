//! A model's file in the form that this processor computes with fastest, where that loses nothing: made once, kept
//! in a folder, known by the hash of what it was made from.
//!
//! Five-bit weights have no kernel that multiplies tiles. In eight bits they say the same, and are read four times as
//! fast; `docs/models.md` has the figures.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::llama::{Form, convert, multiplies_tiles, tensors};
use super::whole::{remove_if_left_behind, write_whole};
use crate::files::Sha256;

/// What is worth converting, and into what.
const SLOW: [Form; 2] = [Form::Q5_0, Form::Q5_1];
const FAST: Form = Form::Q8_0;

/// A GGUF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its hash, if that is known already.
    pub sha256: Option<Sha256>,
}

impl ModelFile {
    /// The hash of what is in it.
    pub(super) fn sha256(&self) -> Result<Sha256, String> {
        let read = || Sha256::of(&mut File::open(&self.path)?);
        self.sha256.map_or_else(|| read().map_err(|error| format!("{}: {error}", self.path.display())), Ok)
    }
}

/// What is loaded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prepared {
    /// Where it is.
    pub(super) path: PathBuf,
    /// What it is known by; none if it is the file itself, as it was.
    pub(super) name: Option<String>,
}

/// What to load: the prepared file in `folder`, made now if it is missing, or the file itself.
pub(super) fn prepare(file: &ModelFile, folder: &Path, threads: usize) -> Prepared {
    let as_it_is = || Prepared { path: file.path.clone(), name: None };
    if !multiplies_tiles() || !is_slow(&file.path) {
        return as_it_is();
    }
    let prepared = file.sha256().and_then(|sha256| {
        let name = format!("{sha256}-q8_0");
        let path = folder.join(format!("{name}.gguf"));
        if !path.exists() {
            make(&file.path, &path, threads)?;
        }
        Ok(Prepared { path, name: Some(name) })
    });
    prepared.unwrap_or_else(|reason| {
        tracing::warn!("{} is used as it is, which is slower: {reason}", file.path.display());
        as_it_is()
    })
}

/// Whether most of what is multiplied is in a form that takes long. What cannot be read is told when it is loaded.
fn is_slow(path: &Path) -> bool {
    let tensors = tensors(path).unwrap_or_default();
    let all: usize = tensors.iter().map(|tensor| tensor.bytes).sum();
    let slow = tensors.iter().filter(|tensor| SLOW.contains(&tensor.form)).map(|tensor| tensor.bytes);
    slow.sum::<usize>() * 2 > all
}

fn make(from: &Path, to: &Path, threads: usize) -> Result<(), String> {
    let started = Instant::now();
    let others = to.parent().and_then(|folder| fs::read_dir(folder).ok());
    others.into_iter().flatten().flatten().for_each(|file| remove_if_left_behind(&file));
    let made = write_whole(to, |part| {
        convert(from, part, &SLOW, FAST, threads).map_err(io::Error::other)?;
        File::open(part)?.sync_all()
    });
    made.map_err(|error| format!("{}: {error}", to.display()))?;
    tracing::info!(milliseconds = started.elapsed().as_millis(), "{} was made, once", to.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::llama::Weights;
    use super::super::tests::{greedy, path, request};
    use super::*;

    #[test]
    fn converted_weights_answer_as_the_ones_they_were_made_from() {
        let folder = tempfile::tempdir().unwrap();
        let (five, eight) = (folder.path().join("five.gguf"), folder.path().join("eight.gguf"));
        convert(&path(), &five, &[Form::Q4_1], Form::Q5_0, 1).unwrap();
        assert!(is_slow(&five) && !is_slow(&path()));
        make(&five, &eight, 1).unwrap();
        assert!(!is_slow(&eight));
        let forms =
            |path: &Path| -> Vec<Form> { tensors(path).unwrap().iter().map(|tensor| tensor.form).collect() };
        for (before, after) in forms(&five).into_iter().zip(forms(&eight)) {
            assert_eq!(after, if SLOW.contains(&before) { FAST } else { before });
        }
        let answer = |path: &Path| {
            let weights = Arc::new(Weights::load(path, &|| true).unwrap());
            greedy(&weights, &request("What is a mutex?", 12))
        };
        assert_eq!(answer(&five), answer(&eight));
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[test]
    fn what_cannot_be_made_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let (text, to) = (folder.path().join("text.gguf"), folder.path().join("cache").join("made.gguf"));
        fs::write(&text, "no model").unwrap();
        assert!(make(&text, &to, 1).is_err());
        assert_eq!(fs::read_dir(folder.path().join("cache")).unwrap().count(), 0);
        let file = ModelFile { path: text.clone(), sha256: None };
        assert_eq!(prepare(&file, folder.path(), 1), Prepared { path: text, name: None });
    }
}
