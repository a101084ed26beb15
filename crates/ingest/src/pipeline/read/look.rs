//! Looking through a source, on threads that may block: one reads, and as many as there are cores cut. A file
//! whose digest the catalog has is neither parsed nor cut, and not even read if its source knows its content.

use std::num::NonZero;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use domain::{Clock, DocumentId, DocumentLocation, IngestFailure, IngestStage, Metadata};
use tokio::sync::mpsc::Sender;

use super::{KnownFiles, Looked};
use crate::media::{self, NotText};
use crate::pipeline::digest::{Ingredients, Recipe, of_text};
use crate::pipeline::prepare::{Cutter, Draft};
use crate::sources::{Entry, File, Opened, Root, Skip, Unread, rules};

/// Everything that is needed to look through a source.
pub(super) struct Look {
    pub(super) collection: String,
    pub(super) root: Root,
    pub(super) known: KnownFiles,
    pub(super) recipe: Recipe,
    pub(super) cutter: Cutter,
    pub(super) clock: Arc<dyn Clock>,
}

impl Look {
    /// Looks through all files, and tells which documents are gone. Ends early if nobody hears.
    pub(super) fn through(mut self, mut opened: Box<dyn Opened>, heard: &Sender<Looked>) -> Vec<DocumentId> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let known = std::mem::take(&mut self.known);
        let look = &self;
        thread::scope(|scope| {
            // Both ends live in here: each side notices when the other one is gone.
            let (drafts, waiting) = sync_channel(threads);
            let waiting = Arc::new(Mutex::new(waiting));
            for _ in 0..threads {
                let waiting = Arc::clone(&waiting);
                scope.spawn(move || look.cut(&waiting, heard));
            }
            drop(waiting);
            look.list(&mut *opened, known, &drafts, heard).unwrap_or_default()
        })
    }

    /// Tells of every entry; hands on what is to be cut. None if nobody hears any more.
    fn list(
        &self,
        opened: &mut dyn Opened,
        mut known: KnownFiles,
        drafts: &SyncSender<Draft>,
        heard: &Sender<Looked>,
    ) -> Option<Vec<DocumentId>> {
        let mut out_of_sight: Vec<String> = Vec::new();
        while let Some(entry) = opened.next() {
            let looked = match entry {
                Entry::Skipped { reason, .. } => Looked::Skipped(reason),
                Entry::Failed { path, message } => {
                    let place = self.place(&path);
                    out_of_sight.push(place.file_path.clone());
                    Looked::Failed(IngestFailure { place, stage: IngestStage::Reading, message })
                }
                Entry::File(file) => match self.look_at(opened, &file, &known) {
                    Seen::Skipped(reason) => Looked::Skipped(reason),
                    Seen::Unchanged(file_path) => {
                        known.remove(&file_path);
                        Looked::Unchanged
                    }
                    Seen::Failed(failure) => {
                        known.remove(&failure.place.file_path);
                        Looked::Failed(failure)
                    }
                    Seen::Changed(draft) => {
                        known.remove(&draft.place.file_path);
                        drafts.send(*draft).ok()?;
                        continue;
                    }
                },
            };
            heard.blocking_send(looked).ok()?;
        }
        known.retain(|path, _| !out_of_sight.iter().any(|hidden| is_in(path, hidden)));
        Some(known.into_values().map(|(document, _)| document).collect())
    }

    fn look_at(&self, opened: &mut dyn Opened, file: &File, known: &KnownFiles) -> Seen {
        let place = self.place(&file.path);
        let is_known = |digest| known.get(&place.file_path).is_some_and(|(_, known)| *known == digest);
        if let Some(version) = &file.version
            && is_known(self.digest(&place, file, version))
        {
            return Seen::Unchanged(place.file_path);
        }
        let failed = |place, stage, message| Seen::Failed(IngestFailure { place, stage, message });
        let bytes = match opened.read(file) {
            Ok(bytes) => bytes,
            Err(Unread::Skipped(reason)) => return Seen::Skipped(reason),
            Err(Unread::Failed(message)) => return failed(place, IngestStage::Reading, message),
        };
        let version = file.version.clone().unwrap_or_else(|| of_text(&bytes));
        let digest = self.digest(&place, file, &version);
        if is_known(digest) {
            return Seen::Unchanged(place.file_path);
        }
        let text = match media::decode(&bytes) {
            Ok(text) => text,
            Err(NotText::Nul { .. }) => return Seen::Skipped(Skip::Binary),
            Err(reason) => return failed(place, IngestStage::Parsing, reason.to_string()),
        };
        if let Some(reason) = rules::of_text(&file.path, text) {
            return Seen::Skipped(reason);
        }
        Seen::Changed(Box::new(Draft {
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

    fn digest(&self, place: &DocumentLocation, file: &File, version: &str) -> [u8; 32] {
        self.recipe.digest(&Ingredients {
            kind: self.root.kind,
            place,
            path: &file.path,
            title: None,
            // The commit is no part of it: a file that a commit did not touch is as it was.
            metadata: &Metadata::new(),
            site: self.root.site.as_ref(),
            version,
        })
    }

    fn metadata(&self) -> Metadata {
        let commit = self.root.commit.iter();
        commit.map(|commit| ("commit".to_owned(), format!("\"{commit}\""))).collect()
    }

    /// Cuts what was read until there is no more.
    fn cut(&self, waiting: &Mutex<Receiver<Draft>>, heard: &Sender<Looked>) {
        loop {
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(draft) = next else { return };
            let prepared = self.cutter.prepare(draft, self.root.site.as_ref(), self.clock.now());
            let looked = prepared.map_or_else(Looked::Failed, |new| Looked::Ready(Box::new(new)));
            if heard.blocking_send(looked).is_err() {
                return;
            }
        }
    }
}

/// What was seen of one file.
enum Seen {
    Unchanged(String),
    Skipped(Skip),
    Failed(IngestFailure),
    Changed(Box<Draft>),
}

/// Whether a path is another one, or lies below it. The root of a part of a repository ends with a slash.
fn is_in(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || folder.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_looked_at_hides_all_that_lies_below_it_even_if_it_is_the_root() {
        for folder in ["docs/a.md", "docs", "docs/", ""] {
            assert!(is_in("docs/a.md", folder), "{folder}");
        }
        for folder in ["doc", "docs/a", "src/", "docs/a.md/b"] {
            assert!(!is_in("docs/a.md", folder), "{folder}");
        }
    }
}
