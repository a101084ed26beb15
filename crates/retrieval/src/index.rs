//! The index in this process: words in tantivy, vectors beside them in the same segments. Every revision is
//! one commit and one snapshot; a search works on one snapshot, and what a crash leaves is the last commit.

mod best;
pub(crate) mod bm25;
mod dense;
mod entry;
mod kernel;
mod label;
mod lexical;
mod quantized;
mod rows;
mod scope;
mod search;
mod snapshot;
mod stem;
mod unusable;
pub(crate) mod words;
mod writer;

#[cfg(test)]
mod tests;

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
use tantivy::{Directory, IndexReader, IndexSettings, ReloadPolicy};
use tokio::sync::{Mutex, Semaphore};

use entry::{Fields, TOKENIZER};
use label::Label;
use rows::RowsPlugin;
use snapshot::Snapshot;
pub use unusable::Unusable;
use words::Words;
use writer::Writer;

/// An index in this process.
pub struct EmbeddedIndex {
    fields: Fields,
    model: String,
    reader: IndexReader,
    writer: Arc<Mutex<Writer>>,
    snapshot: Arc<RwLock<Arc<Snapshot>>>,
    /// A search takes a core, so no more of them run at once than there are.
    searches: Arc<Semaphore>,
}

impl EmbeddedIndex {
    /// Opens the index in a folder of its own, for vectors of a model. One that is not there is begun, at
    /// revision 0.
    pub fn open(folder: &Path, model: &str) -> Result<Self, Unusable> {
        fs::create_dir_all(folder).map_err(|error| Unusable::from_io(folder, &error))?;
        let directory = MmapDirectory::open(folder).map_err(|error| Unusable::NoAccess(error.to_string()))?;
        Self::open_in(directory, model)
    }

    /// Begins an index that nothing remains of.
    pub fn in_memory(model: &str) -> Result<Self, Unusable> {
        Self::open_in(RamDirectory::create(), model)
    }

    /// Empties the folder of an index and begins it anew, whatever was in it. Nobody may use it meanwhile.
    pub fn begin_anew(folder: &Path, model: &str) -> Result<Self, Unusable> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Unusable::from_io(folder, &error)),
            _ => Self::open(folder, model),
        }
    }

    fn open_in(directory: impl Directory, model: &str) -> Result<Self, Unusable> {
        let directory: Box<dyn Directory> = Box::new(directory);
        let label = read_label(&*directory, model)?;
        let (schema, fields) = Fields::schema();
        // Tantivy looks for its own ones too, also where no text is cut.
        let tokenizers = TokenizerManager::default();
        tokenizers.register(TOKENIZER, TextAnalyzer::from(Words));
        let index = tantivy::Index::builder()
            .schema(schema)
            .settings(settings())
            .tokenizers(tokenizers)
            .register_plugin(Arc::new(RowsPlugin))
            .open_or_create(directory)?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let snapshot = Snapshot::new(label.revision, &reader.searcher(), fields, None)?;
        let writer = Writer::open(index, fields)?;
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Ok(Self {
            fields,
            model: model.to_owned(),
            reader,
            writer: Arc::new(Mutex::new(writer)),
            snapshot: Arc::new(RwLock::new(Arc::new(snapshot))),
            searches: Arc::new(Semaphore::new(cores)),
        })
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Texts are kept by the catalog, so tantivy's own store of them stays empty.
fn settings() -> IndexSettings {
    let docstore_compression = Compressor::None;
    IndexSettings {
        docstore_compression,
        docstore_compress_dedicated_thread: false,
        ..IndexSettings::default()
    }
}

/// What an index says of itself, if it was made for this model and in this format.
fn read_label(directory: &dyn Directory, model: &str) -> Result<Label, Unusable> {
    let begun = Label::new(0, model);
    if !tantivy::Index::exists(directory).map_err(|error| Unusable::Damaged(error.to_string()))? {
        return Ok(begun);
    }
    let Some(payload) = tantivy::Index::open(directory.box_clone())?.load_metas()?.payload else {
        return Ok(begun);
    };
    let label = Label::parse(&payload).filter(Label::is_of_this_format).ok_or(Unusable::OtherFormat)?;
    if label.model != model {
        return Err(Unusable::OtherModel { made_with: label.model, configured: model.to_owned() });
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
        check_dimension(&changes, earlier.dimension())?;
        let (fields, reader, snapshot) = (self.fields, self.reader.clone(), Arc::clone(&self.snapshot));
        let label = Label::new(changes.revision, &self.model);
        let applied = tokio::task::spawn_blocking(move || {
            writer.commit(changes, &label)?;
            let new = Snapshot::latest(label.revision, &reader, fields, &earlier)?;
            *snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
            Ok(())
        });
        let applied =
            applied.await.map_err(|died| StorageError::other(format!("the index's writer died: {died}")))?;
        applied.map_err(|error: tantivy::TantivyError| {
            StorageError::other(format!("the index took nothing: {error}"))
        })
    }

    async fn search(&self, search: IndexQuery) -> Result<Vec<Candidate>, Failure> {
        let permit = Arc::clone(&self.searches).acquire_owned().await;
        let permit = permit.map_err(|_| internal("the index was closed"))?;
        let (fields, snapshot) = (self.fields, self.snapshot());
        let found = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            search::search(&snapshot, fields, &search)
        });
        found.await.map_err(|died| internal(format!("a search in the index died: {died}")))?
    }
}

fn check_dimension(changes: &CatalogChanges, mut dimension: Option<usize>) -> Result<(), StorageError> {
    for vector in changes.added.iter().filter_map(|chunk| chunk.vector.as_ref()) {
        let expected = *dimension.get_or_insert(vector.len());
        if vector.len() != expected || vector.iter().any(|number| !number.is_finite()) {
            return Err(StorageError::other(format!(
                "a chunk has a vector that does not fit the others, of {} numbers where they have {expected}, \
                 or one that is no number: if the embedding model changed under its name, give it a new name \
                 and run `wellspring reindex`",
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
