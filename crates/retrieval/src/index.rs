//! The index in this process: BM25 postings in tantivy, and a file of rows (owners and vectors) beside them
//! in each segment. Every revision is one commit and one snapshot. A search works on one snapshot; a crash
//! leaves the last commit.

mod commit_label;
mod open_error;
mod quantization;
mod rows;
mod schema;
mod search;
mod snapshot;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::{fs, io, thread};

use async_trait::async_trait;
use domain::{Candidate, CatalogChanges, Failure, FailureKind, Index, IndexQuery, StorageError};
use tantivy::directory::{MmapDirectory, RamDirectory};
use tantivy::store::Compressor;
use tantivy::tokenizer::{TextAnalyzer, TokenizerManager};
use tantivy::{Directory, IndexReader, IndexSettings, ReloadPolicy, TantivyError};
use tokio::sync::{Mutex, Semaphore};

use crate::lexical::tokenizer::TermTokenizer;
use commit_label::CommitLabel;
pub use open_error::OpenIndexError;
use rows::RowsPlugin;
use schema::{Fields, TOKENIZER};
use snapshot::Snapshot;
use writer::RevisionWriter;

/// An index in this process, in a folder or in memory.
pub struct EmbeddedIndex {
    fields: Fields,
    model: String,
    reader: IndexReader,
    writer: Arc<Mutex<RevisionWriter>>,
    snapshot: Arc<RwLock<Arc<Snapshot>>>,
    /// One permit for each core, since a search keeps a core busy.
    search_permits: Arc<Semaphore>,
}

impl EmbeddedIndex {
    /// Opens the index in `folder` for vectors of `model`, or creates it at revision 0. The folder is locked
    /// until the index is dropped.
    pub fn open(folder: &Path, model: &str) -> Result<Self, OpenIndexError> {
        fs::create_dir_all(folder).map_err(|error| OpenIndexError::folder(folder, error))?;
        let directory = MmapDirectory::open(folder)
            .map_err(|error| OpenIndexError::folder(folder, io::Error::other(error)))?;
        Self::open_in(directory, model)
    }

    /// Creates an index that lives in memory.
    pub fn in_memory(model: &str) -> Result<Self, OpenIndexError> {
        Self::open_in(RamDirectory::create(), model)
    }

    /// Deletes `folder` with everything in it and creates an empty index there. No other process may use it
    /// meanwhile.
    pub fn recreate(folder: &Path, model: &str) -> Result<Self, OpenIndexError> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(OpenIndexError::folder(folder, error))
            }
            _ => Self::open(folder, model),
        }
    }

    fn open_in(directory: impl Directory, model: &str) -> Result<Self, OpenIndexError> {
        let directory: Box<dyn Directory> = Box::new(directory);
        let label = read_label(&*directory, model)?;
        let (schema, fields) = Fields::schema();
        // Tantivy also looks for its default tokenizers, though no field uses them.
        let tokenizers = TokenizerManager::default();
        tokenizers.register(TOKENIZER, TextAnalyzer::from(TermTokenizer));
        let index = tantivy::Index::builder()
            .schema(schema)
            .settings(settings())
            .tokenizers(tokenizers)
            .register_plugin(Arc::new(RowsPlugin))
            .open_or_create(directory)?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let snapshot = Snapshot::new(label.revision, &reader.searcher(), fields, None)?;
        let writer = RevisionWriter::open(index, fields)?;
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Ok(Self {
            fields,
            model: model.to_owned(),
            reader,
            writer: Arc::new(Mutex::new(writer)),
            snapshot: Arc::new(RwLock::new(Arc::new(snapshot))),
            search_permits: Arc::new(Semaphore::new(cores)),
        })
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The catalog stores the texts, so tantivy's document store stays empty.
fn settings() -> IndexSettings {
    IndexSettings {
        docstore_compression: Compressor::None,
        docstore_compress_dedicated_thread: false,
        ..IndexSettings::default()
    }
}

/// The label of the last commit, if its format and model are the current ones. A new index is at revision 0.
fn read_label(directory: &dyn Directory, model: &str) -> Result<CommitLabel, OpenIndexError> {
    let new = CommitLabel::new(0, model);
    if !tantivy::Index::exists(directory).map_err(|error| OpenIndexError::Damaged(error.into()))? {
        return Ok(new);
    }
    let Some(payload) = tantivy::Index::open(directory.box_clone())?.load_metas()?.payload else {
        return Ok(new);
    };
    let label = CommitLabel::parse(&payload).filter(CommitLabel::has_current_format);
    let label = label.ok_or(OpenIndexError::OtherFormat)?;
    if label.model != model {
        return Err(OpenIndexError::OtherModel { made_with: label.model, configured: model.to_owned() });
    }
    Ok(label)
}

#[async_trait]
impl Index for EmbeddedIndex {
    fn revision(&self) -> u64 {
        self.snapshot().revision
    }

    fn is_empty(&self) -> bool {
        self.snapshot().is_empty()
    }

    async fn apply(&self, changes: CatalogChanges) -> Result<(), StorageError> {
        let mut writer = Arc::clone(&self.writer).lock_owned().await;
        let earlier = self.snapshot();
        if changes.revision != 0 && changes.revision <= earlier.revision {
            return Ok(());
        }
        check_vectors(&changes, earlier.dimension())?;
        let (fields, reader, snapshot) = (self.fields, self.reader.clone(), Arc::clone(&self.snapshot));
        let label = CommitLabel::new(changes.revision, &self.model);
        let applied = tokio::task::spawn_blocking(move || {
            writer.commit(changes, &label)?;
            let new = Snapshot::latest(label.revision, &reader, fields, &earlier)?;
            *snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
            Ok(())
        });
        let applied = applied.await.map_err(|error| {
            StorageError::other(format!("the index's writer panicked: {error}")).caused_by(error)
        })?;
        applied.map_err(|error: TantivyError| {
            StorageError::other(format!("the index cannot be written: {error}")).caused_by(error)
        })
    }

    async fn search(&self, query: IndexQuery) -> Result<Vec<Candidate>, Failure> {
        let permit = Arc::clone(&self.search_permits).acquire_owned().await;
        let permit = permit.map_err(|_| internal("the index is closed"))?;
        let (fields, snapshot) = (self.fields, self.snapshot());
        let search = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            search::search(&snapshot, fields, &query)
        });
        search.await.map_err(|error| internal(format!("a search of the index panicked: {error}")))?
    }
}

/// Rejects vectors of another dimension than the index's, and such with infinite or undefined numbers.
fn check_vectors(changes: &CatalogChanges, mut dimension: Option<usize>) -> Result<(), StorageError> {
    for vector in changes.added.iter().filter_map(|chunk| chunk.vector.as_ref()) {
        let expected = *dimension.get_or_insert(vector.len());
        if vector.len() != expected || vector.iter().any(|number| !number.is_finite()) {
            return Err(StorageError::other(format!(
                "a chunk's vector has {} numbers where the others have {expected}, or a number that is not \
                 finite: if the embedding model changed under its name, give it a new name and run \
                 `wellspring reindex`",
                vector.len(),
            )));
        }
    }
    Ok(())
}

fn internal(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Internal, message)
}

impl fmt::Debug for EmbeddedIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedIndex").field("model", &self.model).finish_non_exhaustive()
    }
}
