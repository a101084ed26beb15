//! Documents that a client sends: all of them are found when the call is answered.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    ChunkId, DocumentId, DocumentLocation, Failure, Ingest, IngestFailure, IngestStage, IngestedDocument,
    NewDocument, Principal, PutOutcome, RawDocument, Rejection,
};
use tokio::sync::watch;

use super::digest::{Ingredients, Recipe, of_text};
use super::embed::{self, Wanted};
use super::prepare::{Cutter, Draft, on_all_cores};
use super::{Pipeline, file};
use crate::media;

/// When to try again if too many calls are running.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What becomes of one document.
type Fate = Result<IngestedDocument, IngestFailure>;

#[async_trait]
impl Ingest for Pipeline {
    async fn ingest(&self, who: &Principal, documents: Vec<RawDocument>) -> Result<Vec<Fate>, Rejection> {
        let _running = self.calls.try_acquire().map_err(|_| Rejection::Overloaded {
            message: "too many calls are taking documents in: wait for one to end".to_owned(),
            retry_after: RETRY_AFTER,
        })?;
        let places: Vec<DocumentLocation> = documents.iter().map(|document| document.place.clone()).collect();
        let prepared = match self.prepare(documents).await {
            Ok(prepared) => prepared,
            Err(failure) => {
                let fate = |place| Err(not_ingested(place, IngestStage::Parsing, &failure.message));
                return Ok(places.into_iter().map(fate).collect());
            }
        };
        let mut fates = self.file(who, prepared).await;
        self.embed(who, &places, &mut fates).await;
        self.publish(&places, &mut fates).await;
        Ok(fates.into_iter().map(|(fate, _)| fate).collect())
    }
}

/// A fate so far, and the chunks that a document has if it was filed.
type Filed = (Fate, Vec<ChunkId>);

impl Pipeline {
    async fn prepare(
        &self,
        documents: Vec<RawDocument>,
    ) -> Result<Vec<Result<NewDocument, IngestFailure>>, Failure> {
        let cutter = self.cutter().await?;
        let recipe = self.recipe();
        let at = self.ports.clock.now();
        let prepare = move || {
            let prepare = |raw: Result<RawDocument, IngestFailure>| {
                let draft = draft(raw?, &recipe)?;
                cutter.prepare(draft, None, at)
            };
            on_all_cores(last_of_each_place(documents), prepare)
        };
        tokio::task::spawn_blocking(prepare).await.map_err(|error| {
            Failure::new(domain::FailureKind::Internal, format!("documents could not be parsed: {error}"))
        })
    }

    /// Files what could be prepared.
    async fn file(&self, who: &Principal, prepared: Vec<Result<NewDocument, IngestFailure>>) -> Vec<Filed> {
        let mut filed: Vec<Filed> = Vec::with_capacity(prepared.len());
        let mut sound = Vec::new();
        for document in prepared {
            match document {
                Ok(document) => {
                    let chunks: Vec<ChunkId> = document.chunks.iter().map(|chunk| chunk.id).collect();
                    let ingested = IngestedDocument { document: document.document.id, chunks: chunks.len() };
                    filed.push((Ok(ingested), chunks));
                    sound.push(document);
                }
                Err(why) => filed.push((Err(why), Vec::new())),
            }
        }
        let places: Vec<DocumentLocation> =
            sound.iter().map(|document| document.document.place.clone()).collect();
        let filings = file::all(&*self.ports.catalog, who, sound).await;
        let fates = filed.iter_mut().map(|(fate, _)| fate).filter(|fate| fate.is_ok());
        for ((fate, place), filing) in fates.zip(places).zip(filings) {
            if let Err(reason) = filing.map(|_: PutOutcome| ()) {
                *fate = Err(not_ingested(place, IngestStage::Filing, &reason.to_string()));
            }
        }
        filed
    }

    /// Embeds the chunks of what was filed; a document with one that has no vector then was not taken in.
    async fn embed(&self, who: &Principal, places: &[DocumentLocation], filed: &mut [Filed]) {
        let documents: Vec<DocumentId> =
            filed.iter().filter_map(|(fate, _)| Some(fate.as_ref().ok()?.document)).collect();
        let (_, nothing_follows) = watch::channel(());
        let wanted = Wanted::Of(who, &documents);
        let outcome = embed::missing(&self.ports, wanted, nothing_follows, &|_| {}).await;
        let Some(failure) = outcome.failure else { return };
        let model = self.ports.embedder.model();
        let missing = self.ports.catalog.unembedded_of(who, &documents, model).await;
        let missing = missing.map(|missing| missing.into_iter().map(|chunk| chunk.chunk).collect());
        for ((fate, chunks), place) in filed.iter_mut().zip(places) {
            let lacks = |missing: &HashSet<ChunkId>| chunks.iter().any(|chunk| missing.contains(chunk));
            if fate.is_ok() && missing.as_ref().map_or(true, lacks) {
                *fate = Err(not_ingested(place.clone(), IngestStage::Embedding, &failure.message));
            }
        }
    }

    /// Waits until what was filed is found.
    async fn publish(&self, places: &[DocumentLocation], filed: &mut [Filed]) {
        let Some(published) = &self.ports.published else { return };
        let Err(reason) = published.wait_until_searchable().await else { return };
        for ((fate, _), place) in filed.iter_mut().zip(places) {
            if fate.is_ok() {
                *fate = Err(not_ingested(place.clone(), IngestStage::Indexing, &reason.to_string()));
            }
        }
    }

    /// Cuts as the embedder counts.
    pub(super) async fn cutter(&self) -> Result<Cutter, Failure> {
        Ok(Cutter { strategy: self.strategy, count: self.ports.embedder.token_counter().await? })
    }

    /// What all digests begin with.
    pub(super) fn recipe(&self) -> Recipe {
        Recipe::new(self.strategy, self.ports.embedder.model())
    }
}

/// Refuses all documents of a place but the last one: a place has one document.
fn last_of_each_place(documents: Vec<RawDocument>) -> Vec<Result<RawDocument, IngestFailure>> {
    let mut later = HashSet::new();
    let mut judged: Vec<_> = documents
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
    judged.reverse();
    judged
}

fn draft(raw: RawDocument, recipe: &Recipe) -> Result<Draft, IngestFailure> {
    let text = match media::decode(raw.text.as_bytes()) {
        Ok(text) => text.to_owned(),
        Err(reason) => return Err(not_ingested(raw.place, IngestStage::Parsing, &reason.to_string())),
    };
    let digest = recipe.digest(&Ingredients {
        kind: raw.source,
        place: &raw.place,
        path: &raw.place.file_path,
        title: raw.title.as_deref(),
        metadata: &raw.metadata,
        site: None,
        version: &of_text(text.as_bytes()),
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
