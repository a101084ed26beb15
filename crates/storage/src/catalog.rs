//! The catalog on SQLite: `knowledge.db` is the source of truth about documents, their chunks and the chunks' vectors.
//!
//! Another process may write the file at the same time. So every write is one transaction that takes the file's
//! lock at its beginning, and nothing is cached here that another process's write could make stale.

mod changes;
mod chunk_text;
mod chunks;
mod documents;
mod filters;
mod open;
mod put_documents;
#[cfg(test)]
mod query_plans;
mod remove_documents;
mod revisions;
mod schema;
mod tombstones;
mod vectors;

use async_trait::async_trait;
use domain::{
    Catalog, CatalogChanges, ChunkId, DocumentId, FilterMatches, Filters, KnownFile, NewDocument, Principal,
    PutOutcome, StorageError, StoredChunk, StoredDocument, UnembeddedChunk,
};

use crate::sqlite::{Database, QueuedConnection};
use filters::CompiledFilters;
pub(crate) use schema::CATALOG_SCHEMA;
use vectors::EmbeddingProgress;

/// The catalog in a data folder, or in memory.
pub struct SqliteCatalog {
    /// For large reads, so that they do not delay searches.
    bulk_reader: QueuedConnection,
    database: Database,
    embedding_progress: EmbeddingProgress,
}

#[async_trait]
impl Catalog for SqliteCatalog {
    async fn put(
        &self,
        who: &Principal,
        documents: Vec<NewDocument>,
    ) -> Result<Vec<PutOutcome>, StorageError> {
        documents.iter().try_for_each(put_documents::validate)?;
        let who = who.clone();
        self.database.write(move |db| put_documents::put(db, &who, &documents)).await
    }

    async fn remove(&self, who: &Principal, documents: &[DocumentId]) -> Result<u64, StorageError> {
        let (who, documents) = (who.clone(), documents.to_vec());
        self.database.write(move |db| remove_documents::remove(db, &who, &documents)).await
    }

    async fn document(
        &self,
        who: &Principal,
        id: DocumentId,
    ) -> Result<Option<StoredDocument>, StorageError> {
        let who = who.clone();
        self.database.read(move |db| documents::find(db, &who, id)).await
    }

    async fn documents(
        &self,
        who: &Principal,
        repo_url: Option<&str>,
        skip: u64,
        limit: usize,
    ) -> Result<(Vec<StoredDocument>, u64), StorageError> {
        let (who, repo_url) = (who.clone(), repo_url.map(str::to_owned));
        self.database.read(move |db| documents::page(db, &who, repo_url.as_deref(), skip, limit)).await
    }

    async fn collections(&self, who: &Principal) -> Result<Vec<(String, u64)>, StorageError> {
        let who = who.clone();
        self.database.read(move |db| documents::collections(db, &who)).await
    }

    async fn known(
        &self,
        who: &Principal,
        collection: &str,
        repo_url: &str,
    ) -> Result<Vec<KnownFile>, StorageError> {
        let (who, collection, repo_url) = (who.clone(), collection.to_owned(), repo_url.to_owned());
        self.bulk_reader.read(move |db| documents::known_files(db, &who, &collection, &repo_url)).await
    }

    async fn matching(&self, who: &Principal, filters: &Filters) -> Result<FilterMatches, StorageError> {
        let (who, filters) = (who.clone(), CompiledFilters::new(filters)?);
        self.database.read(move |db| filters.find(db, &who)).await
    }

    async fn chunks(&self, who: &Principal, chunks: &[ChunkId]) -> Result<Vec<StoredChunk>, StorageError> {
        let (who, chunks) = (who.clone(), chunks.to_vec());
        self.database.read(move |db| chunks::find(db, &who, &chunks)).await
    }

    async fn unembedded(&self, model: &str, limit: usize) -> Result<Vec<UnembeddedChunk>, StorageError> {
        let (model, progress) = (model.to_owned(), self.embedding_progress.clone());
        self.bulk_reader.read(move |db| progress.unembedded(db, &model, limit)).await
    }

    async fn unembedded_of(
        &self,
        who: &Principal,
        documents: &[DocumentId],
        model: &str,
    ) -> Result<Vec<UnembeddedChunk>, StorageError> {
        let (who, documents, model) = (who.clone(), documents.to_vec(), model.to_owned());
        self.bulk_reader.read(move |db| vectors::unembedded_of(db, &who, &documents, &model)).await
    }

    async fn put_vectors(
        &self,
        model: &str,
        vectors: Vec<(UnembeddedChunk, Vec<f32>)>,
    ) -> Result<(), StorageError> {
        let model = model.to_owned();
        self.database.write(move |db| vectors::put(db, &model, &vectors)).await
    }

    async fn changes_since(
        &self,
        revision: u64,
        model: &str,
        limit: usize,
    ) -> Result<CatalogChanges, StorageError> {
        let model = model.to_owned();
        self.bulk_reader.read(move |db| changes::since(db, revision, &model, limit)).await
    }
}
