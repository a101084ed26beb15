//! The index under a failing disk, with a label of another release, and across merges.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::{ChunkId, DocumentId, IndexedChunk, Principal};
use tantivy::directory::error::{DeleteError, OpenReadError, OpenWriteError};
use tantivy::directory::{FileHandle, WatchCallback, WatchHandle, WritePtr};
use uuid::Uuid;

use super::*;

#[tokio::test]
async fn a_failed_write_keeps_the_last_revision_and_can_be_repeated() {
    let directory = FailingDirectory::default();
    let index = EmbeddedIndex::open_in(directory.clone(), "model").unwrap();
    index.apply(changes(1, "cats")).await.unwrap();

    directory.fails.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        let error = index.apply(changes(2, "dogs")).await.unwrap_err();
        assert!(error.to_string().contains("the disk is full"), "{error}");
        assert_eq!((index.revision(), found(&index, "cats").await), (1, 1));
    }
    directory.fails.store(false, Ordering::SeqCst);
    index.apply(changes(2, "dogs")).await.unwrap();
    assert_eq!((index.revision(), found(&index, "cats").await, found(&index, "dogs").await), (2, 0, 1));
}

#[tokio::test]
async fn an_index_of_another_format_is_refused_with_the_command_that_rebuilds_it() {
    let directory = FailingDirectory::default();
    let index = EmbeddedIndex::open_in(directory.clone(), "model").unwrap();
    let label = CommitLabel::parse("0 1 model").unwrap();
    index.writer.lock().await.commit(changes(1, "cats"), &label).unwrap();
    drop(index);

    let refused = EmbeddedIndex::open_in(directory, "model").unwrap_err();
    assert!(matches!(refused, OpenIndexError::OtherFormat), "{refused}");
    assert!(refused.to_string().contains("run `wellspring reindex`"));
}

#[tokio::test]
async fn a_merge_keeps_every_chunk_that_is_not_deleted() {
    let index = EmbeddedIndex::in_memory("model").unwrap();
    let mut revision = 0;
    let mut merged = false;
    while !merged || revision < 30 {
        assert!(revision < 1000, "no segments are merged");
        let segments = index.snapshot().segments.len();
        revision += 1;
        index.apply(numbered(revision)).await.unwrap();
        merged |= index.snapshot().segments.len() <= segments;
    }

    let expected: Vec<u64> = (1..=revision).filter(|number| number % 3 != 1 || *number == revision).collect();
    let who = Principal::local();
    let search =
        IndexQuery { who, text: "cats".into(), vector: Some(vec![1.0, 0.0]), within: None, limit: 2000 };
    let found = index.search(search).await.unwrap();
    assert_eq!(found.len(), expected.len());
    for (candidate, number) in found.iter().zip(expected) {
        assert_eq!(candidate.chunk.0.as_u128(), u128::from(number));
        assert_eq!(candidate.document.0.as_u128(), u128::from(number / 5));
        assert_eq!(candidate.is_code, number % 2 == 0);
        assert_eq!(candidate.cosine, (number % 4 != 0).then_some(1.0));
    }
}

/// A revision with a new chunk. Every third revision deletes the chunk before.
fn numbered(revision: u64) -> CatalogChanges {
    let mut changes = changes(revision, "cats");
    let chunk = &mut changes.added[0];
    chunk.chunk = ChunkId(Uuid::from_u128(revision.into()));
    chunk.document = DocumentId(Uuid::from_u128((revision / 5).into()));
    chunk.is_code = revision.is_multiple_of(2);
    chunk.vector = chunk.vector.take().filter(|_| !revision.is_multiple_of(4));
    if revision % 3 == 2 {
        changes.removed.push((Principal::local(), ChunkId(Uuid::from_u128((revision - 1).into()))));
    }
    changes
}

/// A revision that replaces the only chunk.
fn changes(revision: u64, text: &str) -> CatalogChanges {
    let chunk = IndexedChunk {
        who: Principal::local(),
        chunk: ChunkId(Uuid::nil()),
        document: DocumentId(Uuid::nil()),
        title: String::new(),
        file_path: String::new(),
        context: String::new(),
        text: text.to_owned(),
        is_code: false,
        vector: Some(vec![1.0, 0.0]),
    };
    CatalogChanges { revision, more: false, removed: Vec::new(), added: vec![chunk] }
}

async fn found(index: &EmbeddedIndex, text: &str) -> usize {
    let (who, text) = (Principal::local(), text.to_owned());
    let search = IndexQuery { who, text, vector: None, within: None, limit: 10 };
    index.search(search).await.expect("a search of one chunk").len()
}

/// A directory in memory whose writes can be made to fail.
#[derive(Clone, Default)]
struct FailingDirectory {
    files: RamDirectory,
    fails: Arc<AtomicBool>,
}

impl FailingDirectory {
    fn check(&self) -> io::Result<()> {
        if self.fails.load(Ordering::SeqCst) { Err(io::Error::other("the disk is full")) } else { Ok(()) }
    }
}

impl fmt::Debug for FailingDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FailingDirectory")
    }
}

impl Directory for FailingDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.files.get_file_handle(path)
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.files.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.files.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        self.check().map_err(|error| OpenWriteError::wrap_io_error(error, path.to_owned()))?;
        self.files.open_write(path)
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.files.atomic_read(path)
    }

    fn atomic_write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.check()?;
        self.files.atomic_write(path, bytes)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.files.sync_directory()
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.files.watch(callback)
    }
}
