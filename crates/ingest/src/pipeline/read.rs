//! Ingests a source: parses new and changed files, removes the documents of vanished ones, and leaves all others.

mod scan;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::{
    DocumentId, Failure, FailureKind, IngestFailure, IngestStage, KnownFile, NewDocument, Principal,
    PutOutcome, StorageError,
};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;

use super::embed::{self, EmbedOutcome, EmbedScope};
use super::{IngestError, IngestProgress, OnProgress, Pipeline, SourceReport, filing};
use crate::sources::{FileSource, SkipReason, SourceSnapshot};
use scan::Scan;

/// Capacity of the queue between scanning and storing, in files.
const SCANNED_FILES: usize = 64;

const REMOVALS_PER_TRANSACTION: usize = 500;

/// What the scan found out about one file.
enum ScannedFile {
    Unchanged,
    Skipped(SkipReason),
    Failed(IngestFailure),
    Changed(Box<NewDocument>),
}

/// The documents of the catalog with their digests, by path.
type KnownFiles = HashMap<String, (DocumentId, [u8; 32])>;

impl Pipeline {
    /// Ingests the new and changed files of a source into a collection, and removes the documents whose files are
    /// gone. A file that cannot be ingested is in the report and does not affect the others.
    pub async fn ingest_source(
        &self,
        who: &Principal,
        source: Arc<dyn FileSource>,
        collection: &str,
        on_progress: OnProgress<'_>,
    ) -> Result<SourceReport, IngestError> {
        let chunker = self.chunker().await?;
        let snapshot = spawn_blocking(move || source.open()).await??;
        let root = snapshot.root().clone();
        let known = self.ports.catalog.known(who, collection, &root.repo_url).await?;
        let progress = ProgressReporter::new(on_progress, &*snapshot);
        let scan = Scan {
            collection: collection.to_owned(),
            root: root.clone(),
            known: covered_files(known, &*snapshot),
            digests: self.digests(),
            chunker,
            clock: Arc::clone(&self.ports.clock),
        };
        let (scanned_sender, scanned) = mpsc::channel(SCANNED_FILES);
        let scanning = spawn_blocking(move || scan.run(snapshot, &scanned_sender));
        let (stored_sender, stored) = watch::channel(());
        let storing = async {
            let mut report = self.store_scanned(who, scanned, &stored_sender, &progress).await?;
            report.removed = self.remove(who, &scanning.await?).await?;
            drop(stored_sender);
            Ok::<_, IngestError>(report)
        };
        let on_embedded = |embedded: usize| progress.update(|progress| progress.embedded = embedded as u64);
        let embedding = embed::embed_missing(&self.ports, EmbedScope::All, Some(stored), &on_embedded);
        let (report, embedded) = tokio::join!(storing, embedding);
        let mut report = report?;
        let embedded = self.retry_embedding(embedded, &on_embedded).await;
        report.embedded = embedded.embedded as u64;
        report.not_embedded = embedded.failure;
        self.sync_index(&mut report).await;
        Ok(SourceReport { repo_url: root.repo_url, commit: root.commit, ..report })
    }

    /// Retries once: the cause of a failure early in the scan may be over by now.
    async fn retry_embedding(
        &self,
        first: EmbedOutcome,
        on_embedded: &(dyn Fn(usize) + Send + Sync),
    ) -> EmbedOutcome {
        if !first.failure.as_ref().is_some_and(|failure| failure.kind.retryable()) {
            return first;
        }
        let on_retried = |embedded: usize| on_embedded(first.embedded + embedded);
        let second = embed::embed_missing(&self.ports, EmbedScope::All, None, &on_retried).await;
        EmbedOutcome { embedded: first.embedded + second.embedded, failure: second.failure }
    }

    /// Stores the changed files as the scan delivers them, and announces each transaction on `stored`.
    async fn store_scanned(
        &self,
        who: &Principal,
        mut scanned: mpsc::Receiver<ScannedFile>,
        stored: &watch::Sender<()>,
        progress: &ProgressReporter<'_>,
    ) -> Result<SourceReport, StorageError> {
        let mut report = SourceReport::default();
        let mut files = Vec::new();
        while scanned.recv_many(&mut files, SCANNED_FILES).await > 0 {
            let count = files.len() as u64;
            let mut changed = Vec::new();
            for file in files.drain(..) {
                match file {
                    ScannedFile::Unchanged => report.unchanged += 1,
                    ScannedFile::Skipped(reason) => report.add_skipped(reason),
                    ScannedFile::Failed(failure) => report.add_failure(failure),
                    ScannedFile::Changed(document) => changed.push(*document),
                }
            }
            self.store_changed(who, changed, &mut report).await?;
            stored.send_replace(());
            progress.update(|progress| {
                progress.files += count;
                progress.chunks = report.chunks;
            });
        }
        Ok(report)
    }

    async fn store_changed(
        &self,
        who: &Principal,
        documents: Vec<NewDocument>,
        report: &mut SourceReport,
    ) -> Result<(), StorageError> {
        let sizes: Vec<_> = documents
            .iter()
            .map(|new| (new.document.place.clone(), new.chunks.len() as u64, new.document.text.len() as u64))
            .collect();
        let outcomes = filing::put_all(&*self.ports.catalog, who, documents).await;
        if let Some(Err(error)) = outcomes.first()
            && outcomes.iter().all(Result::is_err)
        {
            return Err(error.clone());
        }
        for ((place, chunks, bytes), outcome) in sizes.into_iter().zip(outcomes) {
            match outcome {
                Ok(PutOutcome::Added) => report.added += 1,
                Ok(PutOutcome::Replaced) => report.replaced += 1,
                Ok(PutOutcome::Unchanged) => {
                    report.unchanged += 1;
                    continue;
                }
                Err(error) => {
                    let (stage, message) = (IngestStage::Filing, error.to_string());
                    report.add_failure(IngestFailure { place, stage, message });
                    continue;
                }
            }
            report.chunks += chunks;
            report.bytes += bytes;
        }
        Ok(())
    }

    async fn remove(&self, who: &Principal, documents: &[DocumentId]) -> Result<u64, StorageError> {
        let mut removed = 0;
        for documents in documents.chunks(REMOVALS_PER_TRANSACTION) {
            removed += self.ports.catalog.remove(who, documents).await?;
        }
        Ok(removed)
    }

    async fn sync_index(&self, report: &mut SourceReport) {
        let Some(index_sync) = &self.ports.index_sync else { return };
        if let Err(error) = index_sync.wait_until_searchable().await {
            report.not_embedded.get_or_insert_with(|| {
                Failure::new(FailureKind::Retrieval, format!("the index is behind: {error}"))
            });
        }
    }
}

/// The known files that are within the snapshot.
fn covered_files(known: Vec<KnownFile>, snapshot: &dyn SourceSnapshot) -> KnownFiles {
    let prefix = &snapshot.root().prefix;
    let is_covered = |path: &str| path.strip_prefix(prefix).is_some_and(|path| snapshot.covers(path));
    let known = known.into_iter().filter(|known| is_covered(&known.file_path));
    known.map(|known| (known.file_path, (known.document, known.digest))).collect()
}

/// Merges the progress of concurrent steps into one callback.
struct ProgressReporter<'a> {
    progress: Mutex<IngestProgress>,
    on_progress: OnProgress<'a>,
}

impl<'a> ProgressReporter<'a> {
    fn new(on_progress: OnProgress<'a>, snapshot: &dyn SourceSnapshot) -> Self {
        let progress = IngestProgress { files_total: snapshot.total(), ..IngestProgress::default() };
        Self { progress: Mutex::new(progress), on_progress }
    }

    fn update(&self, change: impl FnOnce(&mut IngestProgress)) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut progress);
        (self.on_progress)(*progress);
    }
}
