//! What is told while a source is read, and when it has been.

use std::collections::BTreeMap;

use domain::{Failure, IngestFailure, IngestStage};

use crate::sources::Skip;

/// Failures that are told one by one; those after them are only counted.
const FAILURES_TOLD: usize = 1_000;

/// How far things are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files looked at.
    pub files: u64,
    /// Files there are, if that is known.
    pub files_total: Option<u64>,
    /// Chunks filed: these are found by their words.
    pub chunks: u64,
    /// Chunks that got their vectors.
    pub embedded: u64,
}

/// Told how far things are: often, and from one task, so it should be quick.
pub type Tell<'a> = &'a (dyn Fn(Progress) + Send + Sync);

/// What became of a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The root of its documents.
    pub repo_url: String,
    /// The commit that was read.
    pub commit: Option<String>,
    /// Files that were new.
    pub added: u64,
    /// Files that had changed.
    pub replaced: u64,
    /// Files that are as they were.
    pub unchanged: u64,
    /// Documents whose files are gone, or are left out now.
    pub removed: u64,
    /// How many were left out, by reason.
    pub skipped: BTreeMap<Skip, u64>,
    /// Chunks of the new and changed files.
    pub chunks: u64,
    /// Bytes of the new and changed files.
    pub bytes: u64,
    /// Chunks that got their vectors.
    pub embedded: u64,
    /// What could not be taken in: the first thousand.
    pub failures: Vec<IngestFailure>,
    /// How much could not be taken in.
    pub failure_count: u64,
    /// Why chunks have no vectors yet. They are found by their words; reading again gives them the rest.
    pub not_embedded: Option<Failure>,
}

impl Report {
    pub(super) fn skip(&mut self, reason: Skip) {
        *self.skipped.entry(reason).or_default() += 1;
    }

    pub(super) fn fail(&mut self, failure: IngestFailure) {
        self.failure_count += 1;
        if self.failures.len() < FAILURES_TOLD {
            self.failures.push(failure);
        }
    }
}

/// Why a source was not read to its end. What was filed before stays; reading again goes on from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// How far it came.
    pub stage: IngestStage,
    /// What is wrong and what to do.
    pub message: String,
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Stopped {}
