//! Reading a source: what changed is read, what is gone is removed, everything else is left as it is.

mod look;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::{DocumentId, IngestFailure, IngestStage, NewDocument, Principal, PutOutcome, StorageError};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;

use super::embed::{self, Outcome, Wanted};
use super::{Pipeline, Progress, Report, Stopped, Tell, file};
use crate::sources::{Opened, Skip, Source};
use look::Look;

/// Files that wait between being cut and being filed.
const WAITING: usize = 64;

/// Documents that are removed in one transaction.
const REMOVED_AT_A_TIME: usize = 500;

/// What was found out about one file.
enum Looked {
    Unchanged,
    Skipped(Skip),
    Failed(IngestFailure),
    Ready(Box<NewDocument>),
}

impl Pipeline {
    /// Reads a source into a collection: files that are new or changed, and no others. Documents whose files are
    /// gone are removed. What cannot be taken in is told in the report and stops nothing else.
    pub async fn read(
        &self,
        who: &Principal,
        source: Arc<dyn Source>,
        collection: &str,
        tell: Tell<'_>,
    ) -> Result<Report, Stopped> {
        let cutter = self.cutter().await.map_err(|failure| stopped(IngestStage::Embedding, &failure))?;
        let opened = spawn_blocking(move || source.open()).await.map_err(of_a_bug)?;
        let opened = opened.map_err(|error| stopped(IngestStage::Reading, &error))?;
        let root = opened.root().clone();
        let known = self.ports.catalog.known(who, collection, &root.repo_url).await.map_err(of_storage)?;
        let is_here = |path: &str| path.strip_prefix(&root.prefix).is_some_and(|path| opened.covers(path));
        let known: Vec<_> = known.into_iter().filter(|known| is_here(&known.file_path)).collect();
        let teller = Teller::new(tell, &*opened);
        let (heard, hear) = mpsc::channel(WAITING);
        let look = Look {
            collection: collection.to_owned(),
            root: root.clone(),
            known: known.into_iter().map(|known| (known.file_path, (known.document, known.digest))).collect(),
            recipe: self.recipe(),
            cutter,
            clock: Arc::clone(&self.ports.clock),
        };
        let looking = spawn_blocking(move || look.through(opened, &heard));
        let (filed, filings) = watch::channel(());
        let taking = async {
            let mut report = self.take(who, hear, &filed, &teller).await.map_err(of_storage)?;
            let gone = looking.await.map_err(of_a_bug)?;
            report.removed = self.remove(who, &gone).await.map_err(of_storage)?;
            drop(filed);
            Ok(report)
        };
        let told = |embedded: usize| teller.update(|progress| progress.embedded = embedded as u64);
        let embedding = embed::missing(&self.ports, Wanted::All, filings, &told);
        let (taken, embedded) = tokio::join!(taking, embedding);
        let mut report = taken?;
        let outcome = self.try_once_more(embedded, &told).await;
        report.embedded = outcome.embedded as u64;
        report.not_embedded = outcome.failure;
        self.wait_until_published(&mut report).await;
        Ok(Report { repo_url: root.repo_url, commit: root.commit, ..report })
    }

    /// What stopped embedding while files were still being read may be over by now.
    async fn try_once_more(&self, first: Outcome, tell: &(dyn Fn(usize) + Send + Sync)) -> Outcome {
        if !first.failure.as_ref().is_some_and(|failure| failure.kind.retryable()) {
            return first;
        }
        let (_, nothing_follows) = watch::channel(());
        let told = |embedded: usize| tell(first.embedded + embedded);
        let second = embed::missing(&self.ports, Wanted::All, nothing_follows, &told).await;
        Outcome { embedded: first.embedded + second.embedded, failure: second.failure }
    }

    /// Files what is ready, in short transactions, and counts everything. `filed` hears of each.
    async fn take(
        &self,
        who: &Principal,
        mut hear: mpsc::Receiver<Looked>,
        filed: &watch::Sender<()>,
        teller: &Teller<'_>,
    ) -> Result<Report, StorageError> {
        let mut report = Report::default();
        let mut looked = Vec::new();
        while hear.recv_many(&mut looked, WAITING).await > 0 {
            let files = looked.len() as u64;
            let mut ready = Vec::new();
            for looked in looked.drain(..) {
                match looked {
                    Looked::Unchanged => report.unchanged += 1,
                    Looked::Skipped(reason) => report.skip(reason),
                    Looked::Failed(failure) => report.fail(failure),
                    Looked::Ready(document) => ready.push(*document),
                }
            }
            self.file_and_count(who, ready, &mut report).await?;
            filed.send_replace(());
            teller.update(|progress| {
                progress.files += files;
                progress.chunks = report.chunks;
            });
        }
        Ok(report)
    }

    async fn file_and_count(
        &self,
        who: &Principal,
        documents: Vec<NewDocument>,
        report: &mut Report,
    ) -> Result<(), StorageError> {
        let sizes: Vec<_> = documents
            .iter()
            .map(|new| (new.document.place.clone(), new.chunks.len() as u64, new.document.text.len() as u64))
            .collect();
        let filings = file::all(&*self.ports.catalog, who, documents).await;
        if let Some(Err(error)) = filings.first()
            && filings.iter().all(Result::is_err)
        {
            return Err(error.clone());
        }
        for ((place, chunks, bytes), filing) in sizes.into_iter().zip(filings) {
            match filing {
                Ok(PutOutcome::Added) => report.added += 1,
                Ok(PutOutcome::Replaced) => report.replaced += 1,
                Ok(PutOutcome::Unchanged) => {
                    report.unchanged += 1;
                    continue;
                }
                Err(error) => {
                    report.fail(IngestFailure {
                        place,
                        stage: IngestStage::Filing,
                        message: error.to_string(),
                    });
                    continue;
                }
            }
            report.chunks += chunks;
            report.bytes += bytes;
        }
        Ok(())
    }

    async fn remove(&self, who: &Principal, gone: &[DocumentId]) -> Result<u64, StorageError> {
        let mut removed = 0;
        for some in gone.chunks(REMOVED_AT_A_TIME) {
            removed += self.ports.catalog.remove(who, some).await?;
        }
        Ok(removed)
    }

    async fn wait_until_published(&self, report: &mut Report) {
        let Some(published) = &self.ports.published else { return };
        if let Err(reason) = published.wait_until_searchable().await {
            report.not_embedded.get_or_insert_with(|| {
                domain::Failure::new(domain::FailureKind::Retrieval, format!("the index is behind: {reason}"))
            });
        }
    }
}

/// Tells how far things are, from all who move them.
struct Teller<'a> {
    progress: Mutex<Progress>,
    tell: Tell<'a>,
}

impl<'a> Teller<'a> {
    fn new(tell: Tell<'a>, opened: &dyn Opened) -> Self {
        let progress = Progress { files_total: opened.total(), ..Progress::default() };
        Self { progress: Mutex::new(progress), tell }
    }

    fn update(&self, change: impl FnOnce(&mut Progress)) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut progress);
        (self.tell)(*progress);
    }
}

/// What the catalog has, by path.
type KnownFiles = HashMap<String, (DocumentId, [u8; 32])>;

fn stopped(stage: IngestStage, error: &dyn std::error::Error) -> Stopped {
    Stopped { stage, message: error.to_string() }
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn of_storage(error: StorageError) -> Stopped {
    stopped(IngestStage::Filing, &error)
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn of_a_bug(error: tokio::task::JoinError) -> Stopped {
    Stopped { stage: IngestStage::Reading, message: format!("reading broke off, which is a bug: {error}") }
}
