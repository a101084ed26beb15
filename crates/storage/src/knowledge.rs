//! The catalog on SQLite: `knowledge.db` is the truth about documents, their chunks and the chunks' vectors.
//!
//! Another process may write the file at the same time. So every write is one transaction that takes the file's
//! lock at its beginning, and nothing is remembered here that such a write could make untrue.

mod addresses;
mod changes;
mod documents;
mod matching;
mod open;
mod pieces;
mod put;
mod remove;
mod revision;
mod schema;
mod texts;
mod vectors;

use async_trait::async_trait;
use domain::{
    Catalog, CatalogChanges, ChunkId, DocumentId, FilterMatches, Filters, KnownFile, NewDocument, Principal,
    PutOutcome, StorageError, StoredChunk, StoredDocument, UnembeddedChunk,
};

use crate::sqlite::{Database, Lane};
use matching::Wanted;
pub(crate) use schema::KNOWLEDGE;
use vectors::Embedded;

/// Documents in a data folder, or in memory.
pub struct Knowledge {
    /// For those who read much at once, so that nobody who searches waits for them.
    bulk: Lane,
    database: Database,
    embedded: Embedded,
}

#[async_trait]
impl Catalog for Knowledge {
    async fn put(
        &self,
        who: &Principal,
        documents: Vec<NewDocument>,
    ) -> Result<Vec<PutOutcome>, StorageError> {
        documents.iter().try_for_each(put::check)?;
        let who = who.clone();
        self.database.write(move |db| put::all(db, &who, &documents)).await
    }

    async fn remove(&self, who: &Principal, documents: &[DocumentId]) -> Result<u64, StorageError> {
        let (who, documents) = (who.clone(), documents.to_vec());
        self.database.write(move |db| remove::all(db, &who, &documents)).await
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
        self.bulk.read(move |db| documents::known(db, &who, &collection, &repo_url)).await
    }

    async fn matching(&self, who: &Principal, filters: &Filters) -> Result<FilterMatches, StorageError> {
        let (who, wanted) = (who.clone(), Wanted::new(filters)?);
        self.database.read(move |db| wanted.find(db, &who)).await
    }

    async fn pieces(&self, who: &Principal, chunks: &[ChunkId]) -> Result<Vec<StoredChunk>, StorageError> {
        let (who, chunks) = (who.clone(), chunks.to_vec());
        self.database.read(move |db| pieces::find(db, &who, &chunks)).await
    }

    async fn unembedded(&self, model: &str, limit: usize) -> Result<Vec<UnembeddedChunk>, StorageError> {
        let (model, embedded) = (model.to_owned(), self.embedded.clone());
        self.bulk.read(move |db| embedded.missing(db, &model, limit)).await
    }

    async fn unembedded_of(
        &self,
        who: &Principal,
        documents: &[DocumentId],
        model: &str,
    ) -> Result<Vec<UnembeddedChunk>, StorageError> {
        let (who, documents, model) = (who.clone(), documents.to_vec(), model.to_owned());
        self.bulk.read(move |db| vectors::missing_of(db, &who, &documents, &model)).await
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
        self.bulk.read(move |db| changes::since(db, revision, &model, limit)).await
    }
}

#[cfg(test)]
mod plans;
