//! Ingests the documents of a client's request. When the call returns, they are searchable.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    ChunkId, DocumentId, DocumentLocation, Failure, FailureKind, Ingest, IngestFailure, IngestStage,
    IngestedDocument, NewDocument, Principal, RawDocument, Rejection,
};

use super::digest::{DigestContext, DigestInput, content_version};
use super::embed::{self, EmbedScope};
use super::prepare::{Draft, map_on_all_cores};
use super::{Pipeline, filing};
use crate::media;

/// Suggested delay for a client when too many calls are running.
const RETRY_AFTER: Duration = Duration::from_secs(5);

type DocumentResult = Result<IngestedDocument, IngestFailure>;

#[async_trait]
impl Ingest for Pipeline {
    async fn ingest(
        &self,
        who: &Principal,
        documents: Vec<RawDocument>,
    ) -> Result<Vec<DocumentResult>, Rejection> {
        let _permit = self.calls.try_acquire().map_err(|_| Rejection::Overloaded {
            message: "too many calls are taking documents in: wait for one to end".to_owned(),
            retry_after: RETRY_AFTER,
        })?;
        let places: Vec<DocumentLocation> = documents.iter().map(|document| document.place.clone()).collect();
        let prepared = match self.prepare(documents).await {
            Ok(prepared) => prepared,
            Err(failure) => {
                let failed = |place| Err(not_ingested(place, IngestStage::Parsing, &failure.message));
                return Ok(places.into_iter().map(failed).collect());
            }
        };
        let mut stored = self.store_prepared(who, prepared).await;
        self.embed_stored(who, &places, &mut stored).await;
        self.wait_for_index(&places, &mut stored).await;
        Ok(stored.into_iter().map(|document| document.result).collect())
    }
}

/// The result for a document so far, and the chunks it has if it was stored.
struct StoredResult {
    result: DocumentResult,
    chunks: Vec<ChunkId>,
}

impl Pipeline {
    async fn prepare(
        &self,
        documents: Vec<RawDocument>,
    ) -> Result<Vec<Result<NewDocument, IngestFailure>>, Failure> {
        let chunker = self.chunker().await?;
        let digests = self.digests();
        let at = self.ports.clock.now();
        let prepare = move || {
            let prepare = |raw: Result<RawDocument, IngestFailure>| {
                let draft = draft(raw?, &digests)?;
                chunker.prepare(draft, None, at)
            };
            map_on_all_cores(reject_duplicates(documents), prepare)
        };
        tokio::task::spawn_blocking(prepare).await.map_err(|error| {
            Failure::new(FailureKind::Internal, format!("documents could not be parsed: {error}"))
        })
    }

    async fn store_prepared(
        &self,
        who: &Principal,
        prepared: Vec<Result<NewDocument, IngestFailure>>,
    ) -> Vec<StoredResult> {
        let mut stored = Vec::with_capacity(prepared.len());
        let mut documents = Vec::new();
        for document in prepared {
            match document {
                Ok(document) => {
                    let chunks: Vec<ChunkId> = document.chunks.iter().map(|chunk| chunk.id).collect();
                    let ingested = IngestedDocument { document: document.document.id, chunks: chunks.len() };
                    stored.push(StoredResult { result: Ok(ingested), chunks });
                    documents.push(document);
                }
                Err(failure) => stored.push(StoredResult { result: Err(failure), chunks: Vec::new() }),
            }
        }
        let places: Vec<DocumentLocation> =
            documents.iter().map(|document| document.document.place.clone()).collect();
        let outcomes = filing::put_all(&*self.ports.catalog, who, documents).await;
        let results = stored.iter_mut().map(|document| &mut document.result).filter(|result| result.is_ok());
        for ((result, place), outcome) in results.zip(places).zip(outcomes) {
            if let Err(error) = outcome {
                *result = Err(not_ingested(place, IngestStage::Filing, &error.to_string()));
            }
        }
        stored
    }

    /// Embeds the chunks of the stored documents. A document with a chunk that has no vector afterwards failed.
    async fn embed_stored(&self, who: &Principal, places: &[DocumentLocation], stored: &mut [StoredResult]) {
        let documents: Vec<DocumentId> =
            stored.iter().filter_map(|document| Some(document.result.as_ref().ok()?.document)).collect();
        let scope = EmbedScope::Documents(who, &documents);
        let outcome = embed::embed_missing(&self.ports, scope, None, &|_| {}).await;
        let Some(failure) = outcome.failure else { return };
        let model = self.ports.embedder.model();
        let missing = self.ports.catalog.unembedded_of(who, &documents, model).await;
        let missing: Result<HashSet<ChunkId>, _> =
            missing.map(|missing| missing.into_iter().map(|chunk| chunk.chunk).collect());
        for (StoredResult { result, chunks }, place) in stored.iter_mut().zip(places) {
            let lacks = |missing: &HashSet<ChunkId>| chunks.iter().any(|chunk| missing.contains(chunk));
            if result.is_ok() && missing.as_ref().map_or(true, lacks) {
                *result = Err(not_ingested(place.clone(), IngestStage::Embedding, &failure.message));
            }
        }
    }

    async fn wait_for_index(&self, places: &[DocumentLocation], stored: &mut [StoredResult]) {
        let Some(index_sync) = &self.ports.index_sync else { return };
        let Err(error) = index_sync.wait_until_searchable().await else { return };
        for (StoredResult { result, .. }, place) in stored.iter_mut().zip(places) {
            if result.is_ok() {
                *result = Err(not_ingested(place.clone(), IngestStage::Indexing, &error.to_string()));
            }
        }
    }
}

/// Rejects all documents with the same location but the last one.
fn reject_duplicates(documents: Vec<RawDocument>) -> Vec<Result<RawDocument, IngestFailure>> {
    let mut later = HashSet::new();
    let mut checked: Vec<_> = documents
        .into_iter()
        .rev()
        .map(|raw| {
            if later.insert(raw.place.document()) {
                return Ok(raw);
            }
            let message = "the same place comes again later in this request: send each place once";
            Err(not_ingested(raw.place, IngestStage::Filing, message))
        })
        .collect();
    checked.reverse();
    checked
}

fn draft(raw: RawDocument, digests: &DigestContext) -> Result<Draft, IngestFailure> {
    let text = match media::decode(raw.text.as_bytes()) {
        Ok(text) => text.to_owned(),
        Err(error) => return Err(not_ingested(raw.place, IngestStage::Parsing, &error.to_string())),
    };
    let digest = digests.digest(&DigestInput {
        kind: raw.source,
        place: &raw.place,
        path: &raw.place.file_path,
        title: raw.title.as_deref(),
        metadata: &raw.metadata,
        site: None,
        version: &content_version(text.as_bytes()),
    });
    Ok(Draft {
        path: raw.place.file_path.clone(),
        place: raw.place,
        kind: raw.source,
        title: raw.title,
        text,
        metadata: raw.metadata,
        digest,
    })
}

fn not_ingested(place: DocumentLocation, stage: IngestStage, message: &str) -> IngestFailure {
    IngestFailure { place, stage, message: message.to_owned() }
}
