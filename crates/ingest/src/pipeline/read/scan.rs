//! Scans a source on blocking threads: one reads files, and one per core chunks them.
//!
//! A file whose digest the catalog has is not parsed, and not even read if the source knows its version.

use std::num::NonZero;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use domain::{Clock, DocumentId, DocumentLocation, IngestFailure, IngestStage, Metadata};
use tokio::sync::mpsc::Sender;

use super::{KnownFiles, ScannedFile};
use crate::media::{self, NotText};
use crate::pipeline::digest::{DigestContext, DigestInput, content_version};
use crate::pipeline::prepare::{Chunker, Draft};
use crate::sources::{
    ReadError, SkipReason, SourceEntry, SourceFile, SourceRoot, SourceSnapshot, skip_rules,
};

pub(super) struct Scan {
    pub(super) collection: String,
    pub(super) root: SourceRoot,
    pub(super) known: KnownFiles,
    pub(super) digests: DigestContext,
    pub(super) chunker: Chunker,
    pub(super) clock: Arc<dyn Clock>,
}

impl Scan {
    /// Sends every file to `scanned`, and returns the documents whose files are gone. Stops early if the receiver
    /// is dropped.
    pub(super) fn run(
        mut self,
        mut snapshot: Box<dyn SourceSnapshot>,
        scanned: &Sender<ScannedFile>,
    ) -> Vec<DocumentId> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let known = std::mem::take(&mut self.known);
        let scan = &self;
        thread::scope(|scope| {
            // Both ends of the channel are local to the scope, so that each side notices when the other ends.
            let (drafts, queue) = sync_channel(threads);
            let queue = Arc::new(Mutex::new(queue));
            for _ in 0..threads {
                let queue = Arc::clone(&queue);
                scope.spawn(move || scan.chunk_drafts(&queue, scanned));
            }
            drop(queue);
            scan.read_files(&mut *snapshot, known, &drafts, scanned).unwrap_or_default()
        })
    }

    /// Compares all entries with the known files, and queues the changed ones for chunking. Returns the documents
    /// of known files that are gone; `None` if the receiver of `scanned` is dropped.
    fn read_files(
        &self,
        snapshot: &mut dyn SourceSnapshot,
        mut known: KnownFiles,
        drafts: &SyncSender<Draft>,
        scanned: &Sender<ScannedFile>,
    ) -> Option<Vec<DocumentId>> {
        let mut unreadable: Vec<String> = Vec::new();
        while let Some(entry) = snapshot.next() {
            let file = match entry {
                SourceEntry::Skipped { reason, .. } => ScannedFile::Skipped(reason),
                SourceEntry::Failed { path, message } => {
                    let place = self.place(&path);
                    unreadable.push(place.file_path.clone());
                    ScannedFile::Failed(IngestFailure { place, stage: IngestStage::Reading, message })
                }
                SourceEntry::File(file) => match self.check(snapshot, &file, &known) {
                    FileCheck::Skipped(reason) => ScannedFile::Skipped(reason),
                    FileCheck::Unchanged(file_path) => {
                        known.remove(&file_path);
                        ScannedFile::Unchanged
                    }
                    FileCheck::Failed(failure) => {
                        known.remove(&failure.place.file_path);
                        ScannedFile::Failed(failure)
                    }
                    FileCheck::Changed(draft) => {
                        known.remove(&draft.place.file_path);
                        drafts.send(*draft).ok()?;
                        continue;
                    }
                },
            };
            scanned.blocking_send(file).ok()?;
        }
        known.retain(|path, _| !unreadable.iter().any(|folder| is_within(path, folder)));
        Some(known.into_values().map(|(document, _)| document).collect())
    }

    fn check(&self, snapshot: &mut dyn SourceSnapshot, file: &SourceFile, known: &KnownFiles) -> FileCheck {
        let place = self.place(&file.path);
        let is_known = |digest| known.get(&place.file_path).is_some_and(|(_, known)| *known == digest);
        if let Some(version) = &file.version
            && is_known(self.digest(&place, file, version))
        {
            return FileCheck::Unchanged(place.file_path);
        }
        let failed = |place, stage, message| FileCheck::Failed(IngestFailure { place, stage, message });
        let bytes = match snapshot.read(file) {
            Ok(bytes) => bytes,
            Err(ReadError::Skipped(reason)) => return FileCheck::Skipped(reason),
            Err(ReadError::Failed(message)) => return failed(place, IngestStage::Reading, message),
        };
        let version = file.version.clone().unwrap_or_else(|| content_version(&bytes));
        let digest = self.digest(&place, file, &version);
        if is_known(digest) {
            return FileCheck::Unchanged(place.file_path);
        }
        let text = match media::decode(&bytes) {
            Ok(text) => text,
            Err(NotText::Nul { .. }) => return FileCheck::Skipped(SkipReason::Binary),
            Err(error) => return failed(place, IngestStage::Parsing, error.to_string()),
        };
        if let Some(reason) = skip_rules::by_text(&file.path, text) {
            return FileCheck::Skipped(reason);
        }
        FileCheck::Changed(Box::new(Draft {
            place,
            kind: self.root.kind,
            path: file.path.clone(),
            title: None,
            text: text.to_owned(),
            metadata: self.metadata(),
            digest,
        }))
    }

    fn place(&self, path: &str) -> DocumentLocation {
        DocumentLocation {
            collection: self.collection.clone(),
            repo_url: self.root.repo_url.clone(),
            file_path: format!("{}{path}", self.root.prefix),
        }
    }

    fn digest(&self, place: &DocumentLocation, file: &SourceFile, version: &str) -> [u8; 32] {
        self.digests.digest(&DigestInput {
            kind: self.root.kind,
            place,
            path: &file.path,
            title: None,
            // The commit is left out: a file that the commit does not change keeps its digest.
            metadata: &Metadata::new(),
            site: self.root.site.as_ref(),
            version,
        })
    }

    fn metadata(&self) -> Metadata {
        let commit = self.root.commit.iter();
        commit.map(|commit| ("commit".to_owned(), format!("\"{commit}\""))).collect()
    }

    fn chunk_drafts(&self, queue: &Mutex<Receiver<Draft>>, scanned: &Sender<ScannedFile>) {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(draft) = next else { return };
            let prepared = self.chunker.prepare(draft, self.root.site.as_ref(), self.clock.now());
            let file = prepared.map_or_else(ScannedFile::Failed, |new| ScannedFile::Changed(Box::new(new)));
            if scanned.blocking_send(file).is_err() {
                return;
            }
        }
    }
}

/// The result of comparing one file with the catalog.
enum FileCheck {
    /// The document at this path is up to date.
    Unchanged(String),
    Skipped(SkipReason),
    Failed(IngestFailure),
    Changed(Box<Draft>),
}

/// Whether `path` is `folder` or lies below it. An empty folder, or one that ends with a slash, is a root.
fn is_within(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || folder.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_folder_contains_every_path_below_it() {
        for folder in ["docs/a.md", "docs", "docs/", ""] {
            assert!(is_within("docs/a.md", folder), "{folder}");
        }
        for folder in ["doc", "docs/a", "src/", "docs/a.md/b"] {
            assert!(!is_within("docs/a.md", folder), "{folder}");
        }
    }
}
