//! The progress and the result of ingesting a source.

use std::collections::BTreeMap;

use domain::{Failure, IngestFailure, IngestStage, StorageError};
use tokio::task::JoinError;

use crate::sources::{SkipReason, SourceError};

/// Maximum failures in a report; further ones are only counted.
const MAX_FAILURES: usize = 1_000;

/// The progress of an ingest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngestProgress {
    /// Files examined.
    pub files: u64,
    /// Files of the source, if the number is known.
    pub files_total: Option<u64>,
    /// Chunks stored, which makes them searchable by words.
    pub chunks: u64,
    /// Chunks embedded.
    pub embedded: u64,
}

/// Called on every step of an ingest, often and from its task, so it must return quickly.
pub type OnProgress<'a> = &'a (dyn Fn(IngestProgress) + Send + Sync);

/// The result of ingesting a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceReport {
    /// The address of the repository or folder.
    pub repo_url: String,
    /// The commit that was read.
    pub commit: Option<String>,
    /// New files.
    pub added: u64,
    /// Changed files.
    pub replaced: u64,
    /// Unchanged files.
    pub unchanged: u64,
    /// Documents removed, because their files are gone or are skipped now.
    pub removed: u64,
    /// Skipped files, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// Chunks of the new and changed files.
    pub chunks: u64,
    /// Bytes of the new and changed files.
    pub bytes: u64,
    /// Chunks embedded.
    pub embedded: u64,
    /// The files that could not be ingested, at most 1,000 of them.
    pub failures: Vec<IngestFailure>,
    /// The number of files that could not be ingested.
    pub failure_count: u64,
    /// Why some chunks have no vectors yet. They are searchable by words; the next ingest embeds them.
    pub not_embedded: Option<Failure>,
}

impl SourceReport {
    pub(super) fn add_skipped(&mut self, reason: SkipReason) {
        *self.skipped.entry(reason).or_default() += 1;
    }

    pub(super) fn add_failure(&mut self, failure: IngestFailure) {
        self.failure_count += 1;
        if self.failures.len() < MAX_FAILURES {
            self.failures.push(failure);
        }
    }
}

/// Why a source was not ingested to its end. The documents stored until then remain, and the next ingest continues.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The source cannot be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The catalog cannot be read or written.
    #[error(transparent)]
    Catalog(#[from] StorageError),
    /// The embedder has no token counter, so that documents cannot be chunked.
    #[error(transparent)]
    Embedder(#[from] Failure),
    /// The thread that reads the source panicked.
    #[error("reading broke off, which is a bug: {0}")]
    Panicked(#[from] JoinError),
}

impl IngestError {
    /// The stage that failed.
    pub fn stage(&self) -> IngestStage {
        match self {
            Self::Source(_) | Self::Panicked(_) => IngestStage::Reading,
            Self::Catalog(_) => IngestStage::Filing,
            Self::Embedder(_) => IngestStage::Embedding,
        }
    }
}
