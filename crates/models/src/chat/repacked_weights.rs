//! A cache of weight files requantized for this processor, where that loses nothing: created once, named after the
//! SHA-256 of the original.
//!
//! llama.cpp has no AMX kernel for five-bit weights. As eight-bit weights they have the same values and prefill is
//! four times as fast; `docs/models.md` has the figures.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::atomic_file::{remove_if_abandoned, write_atomically};
use super::llama::{Quantization, has_amx, requantize, tensors};
use super::load_error::ModelError;
use crate::files::Sha256;

/// Quantizations without an AMX kernel.
const SLOW: [Quantization; 2] = [Quantization::Q5_0, Quantization::Q5_1];
/// The smallest one with a kernel that represents their values exactly enough.
const FAST: Quantization = Quantization::Q8_0;

/// A GGUF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFile {
    /// The file.
    pub path: PathBuf,
    /// Its hash, if it is known already.
    pub sha256: Option<Sha256>,
}

impl ModelFile {
    /// The hash of its content. Reads the file if the hash is not known.
    pub(super) fn sha256(&self) -> io::Result<Sha256> {
        self.sha256.map_or_else(|| Sha256::of(&mut File::open(&self.path)?), Ok)
    }
}

/// The weight file to load.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WeightFile {
    pub(super) path: PathBuf,
    /// The name of a repacked file; none for the original.
    pub(super) repacked: Option<String>,
}

/// The weight file to load: the repacked one in `folder`, created now if it is missing, or the original.
pub(super) fn weight_file(file: &ModelFile, folder: &Path, threads: usize) -> WeightFile {
    let original = || WeightFile { path: file.path.clone(), repacked: None };
    if !has_amx() || !is_slow(&file.path) {
        return original();
    }
    let repacked = file.sha256().map_err(ModelError::from).and_then(|sha256| {
        let name = format!("{sha256}-q8_0");
        let path = folder.join(format!("{name}.gguf"));
        if !path.exists() {
            repack(&file.path, &path, threads)?;
        }
        Ok(WeightFile { path, repacked: Some(name) })
    });
    repacked.unwrap_or_else(|error| {
        tracing::warn!("{} is not repacked, so prefill is slower: {error}", file.path.display());
        original()
    })
}

/// Whether most weights have a slow quantization. An unreadable file is reported when it is loaded.
fn is_slow(path: &Path) -> bool {
    let tensors = tensors(path).unwrap_or_default();
    let all: usize = tensors.iter().map(|tensor| tensor.bytes).sum();
    let slow = tensors.iter().filter(|tensor| SLOW.contains(&tensor.quantization)).map(|tensor| tensor.bytes);
    slow.sum::<usize>() * 2 > all
}

fn repack(from: &Path, to: &Path, threads: usize) -> Result<(), ModelError> {
    let started = Instant::now();
    let others = to.parent().and_then(|folder| fs::read_dir(folder).ok());
    others.into_iter().flatten().flatten().for_each(|file| remove_if_abandoned(&file));
    write_atomically(to, |part| {
        requantize(from, part, &SLOW, FAST, threads).map_err(io::Error::other)?;
        File::open(part)?.sync_all()
    })?;
    tracing::info!(milliseconds = started.elapsed().as_millis(), "weights repacked to {}", to.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::llama::Weights;
    use super::super::tests::{greedy, path, request};
    use super::*;

    #[test]
    fn repacked_weights_answer_as_the_original() {
        let folder = tempfile::tempdir().unwrap();
        let (five, eight) = (folder.path().join("five.gguf"), folder.path().join("eight.gguf"));
        requantize(&path(), &five, &[Quantization::Q4_1], Quantization::Q5_0, 1).unwrap();
        assert!(is_slow(&five) && !is_slow(&path()));
        repack(&five, &eight, 1).unwrap();
        assert!(!is_slow(&eight));
        let quantizations = |path: &Path| -> Vec<Quantization> {
            tensors(path).unwrap().iter().map(|tensor| tensor.quantization).collect()
        };
        for (before, after) in quantizations(&five).into_iter().zip(quantizations(&eight)) {
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
    fn a_failed_repacking_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let (text, to) = (folder.path().join("text.gguf"), folder.path().join("cache").join("repacked.gguf"));
        fs::write(&text, "not a model").unwrap();
        assert!(repack(&text, &to, 1).is_err());
        assert_eq!(fs::read_dir(folder.path().join("cache")).unwrap().count(), 0);
        let file = ModelFile { path: text.clone(), sha256: None };
        assert_eq!(weight_file(&file, folder.path(), 1), WeightFile { path: text, repacked: None });
    }
}
