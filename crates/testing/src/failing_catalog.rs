//! A catalog that fails while the test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use domain::{
    Catalog, CatalogChanges, ChunkId, DocumentId, FilterMatches, Filters, KnownFile, NewDocument, Principal,
    PutOutcome, StorageError, StoredChunk, StoredDocument, UnembeddedChunk,
};

/// Forwards to another catalog, or fails every call.
pub struct FailingCatalog {
    inner: Arc<dyn Catalog>,
    fails: AtomicBool,
}

impl FailingCatalog {
    /// Forwards every call, until told to fail.
    pub fn new(inner: Arc<dyn Catalog>) -> Self {
        Self { inner, fails: AtomicBool::new(false) }
    }

    /// Makes every call fail, or succeed again.
    pub fn fail(&self, fail: bool) {
        self.fails.store(fail, Ordering::SeqCst);
    }

    fn check(&self) -> Result<&dyn Catalog, StorageError> {
        match self.fails.load(Ordering::SeqCst) {
            true => Err(StorageError::other("this test's catalog fails".to_owned())),
            false => Ok(&*self.inner),
        }
    }
}

#[async_trait]
impl Catalog for FailingCatalog {
    async fn put(
        &self,
        who: &Principal,
        documents: Vec<NewDocument>,
    ) -> Result<Vec<PutOutcome>, StorageError> {
        self.check()?.put(who, documents).await
    }

    async fn remove(&self, who: &Principal, documents: &[DocumentId]) -> Result<u64, StorageError> {
        self.check()?.remove(who, documents).await
    }

    async fn document(
        &self,
        who: &Principal,
        id: DocumentId,
    ) -> Result<Option<StoredDocument>, StorageError> {
        self.check()?.document(who, id).await
    }

    async fn documents(
        &self,
        who: &Principal,
        repo_url: Option<&str>,
        skip: u64,
        limit: usize,
    ) -> Result<(Vec<StoredDocument>, u64), StorageError> {
        self.check()?.documents(who, repo_url, skip, limit).await
    }

    async fn collections(&self, who: &Principal) -> Result<Vec<(String, u64)>, StorageError> {
        self.check()?.collections(who).await
    }

    async fn known(
        &self,
        who: &Principal,
        collection: &str,
        repo_url: &str,
    ) -> Result<Vec<KnownFile>, StorageError> {
        self.check()?.known(who, collection, repo_url).await
    }

    async fn matching(&self, who: &Principal, filters: &Filters) -> Result<FilterMatches, StorageError> {
        self.check()?.matching(who, filters).await
    }

    async fn chunks(&self, who: &Principal, chunks: &[ChunkId]) -> Result<Vec<StoredChunk>, StorageError> {
        self.check()?.chunks(who, chunks).await
    }

    async fn unembedded(&self, model: &str, limit: usize) -> Result<Vec<UnembeddedChunk>, StorageError> {
        self.check()?.unembedded(model, limit).await
    }

    async fn unembedded_of(
        &self,
        who: &Principal,
        documents: &[DocumentId],
        model: &str,
    ) -> Result<Vec<UnembeddedChunk>, StorageError> {
        self.check()?.unembedded_of(who, documents, model).await
    }

    async fn put_vectors(
        &self,
        model: &str,
        vectors: Vec<(UnembeddedChunk, Vec<f32>)>,
    ) -> Result<(), StorageError> {
        self.check()?.put_vectors(model, vectors).await
    }

    async fn changes_since(
        &self,
        revision: u64,
        model: &str,
        limit: usize,
    ) -> Result<CatalogChanges, StorageError> {
        self.check()?.changes_since(revision, model, limit).await
    }
}
