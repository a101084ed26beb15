//! The way of a question to its passages: filters to documents, words to a vector, the index to candidates,
//! and candidates, put in order, to passages. With a selection, its pieces are the candidates.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use domain::{
    Candidate, Catalog, ChunkId, Embedder, EmbeddingPriority, Failure, FailureKind, FilterMatches, Filters,
    Hit, Index, IndexQuery, IndexSync, Principal, RetrievalQuery, Retrieved, Retriever, SearchScope, Stage,
    StageName, StorageError, StoredChunk,
};
use tokio::time::timeout;

use crate::fusion::{Fusion, POOL, Ranked};
use crate::gate;
use crate::selection::Selection;

/// Finds by words and by meaning.
pub struct HybridRetriever {
    catalog: Arc<dyn Catalog>,
    index: Arc<dyn Index>,
    embedder: Arc<dyn Embedder>,
    fusion: Fusion,
    /// Who knows when the index has what was filed, and how long a question waits for that at most.
    up_to_date: Option<(Arc<dyn IndexSync>, Duration)>,
}

impl HybridRetriever {
    /// Finds what `index` has of `catalog`, with vectors of `embedder`.
    pub fn new(
        catalog: Arc<dyn Catalog>,
        index: Arc<dyn Index>,
        embedder: Arc<dyn Embedder>,
        fusion: Fusion,
    ) -> Self {
        Self { catalog, index, embedder, fusion, up_to_date: None }
    }

    /// Finds what was filed before a question, by whichever process, if the index takes it in within this time.
    #[must_use]
    pub fn up_to_date(self, published: Arc<dyn IndexSync>, within: Duration) -> Self {
        Self { up_to_date: Some((published, within)), ..self }
    }

    async fn candidates(
        &self,
        who: &Principal,
        query: &RetrievalQuery,
        filters: &Filters,
    ) -> Result<Vec<Candidate>, Failure> {
        if self.index.is_empty() {
            self.catch_up().await;
        }
        // Nobody needs an embedder to find nothing.
        if self.index.is_empty() {
            return Ok(Vec::new());
        }
        let within = async {
            self.catch_up().await;
            self.matching(who, filters).await
        };
        let (within, vector) = tokio::try_join!(within, self.vector(&query.text))?;
        let search = IndexQuery {
            who: who.clone(),
            text: query.text.clone(),
            vector: Some(vector),
            within,
            limit: query.limit.max(POOL),
        };
        self.index.search(search).await
    }

    /// What the index has is found in any case.
    async fn catch_up(&self) {
        if let Some((published, within)) = &self.up_to_date {
            let _ = timeout(*within, published.wait_until_searchable()).await;
        }
    }

    /// All pieces of a selection.
    async fn pieces(&self, selection: &Selection<'_>, question: &str) -> Result<Vec<Candidate>, Failure> {
        let texts = [question].into_iter().chain(selection.texts()).map(str::to_owned).collect();
        let mut vectors = self.vectors(texts).await?;
        let asked = vectors.remove(0);
        Ok(selection.candidates(question, &asked, &vectors))
    }

    async fn matching(&self, who: &Principal, filters: &Filters) -> Result<Option<FilterMatches>, Failure> {
        if filters.is_empty() {
            return Ok(None);
        }
        self.catalog.matching(who, filters).await.map(Some).map_err(unavailable)
    }

    async fn vector(&self, text: &str) -> Result<Vec<f32>, Failure> {
        Ok(self.vectors(vec![text.to_owned()]).await?.swap_remove(0))
    }

    /// As many vectors as there are texts.
    async fn vectors(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, Failure> {
        let wanted = texts.len();
        let embedded = self.embedder.embed(texts, EmbeddingPriority::Interactive).await;
        let vectors = embedded.map_err(|failure| Failure {
            message: format!("embedding the question failed: {}", failure.message),
            ..failure
        })?;
        if vectors.len() != wanted {
            let (model, given) = (self.embedder.model(), vectors.len());
            let message = format!("embedding the question failed: {model} gave {given} of {wanted} vectors");
            return Err(Failure::new(FailureKind::Internal, message));
        }
        Ok(vectors)
    }

    async fn hits(&self, who: &Principal, ranked: Vec<Ranked>) -> Result<Vec<Hit>, Failure> {
        let chunks: Vec<ChunkId> = ranked.iter().map(|ranked| ranked.candidate.chunk).collect();
        let pieces = self.catalog.pieces(who, &chunks).await.map_err(unavailable)?;
        let mut pieces: HashMap<ChunkId, StoredChunk> =
            pieces.into_iter().map(|piece| (piece.chunk.id, piece)).collect();
        let hits = ranked.into_iter().filter_map(|Ranked { candidate, fused, reranked }| {
            let passage = pieces.remove(&candidate.chunk)?.into_passage(similarity(&candidate));
            Some(Hit { passage, candidate, fused, reranked })
        });
        Ok(hits.collect())
    }
}

#[async_trait]
impl Retriever for HybridRetriever {
    fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    async fn retrieve(
        &self,
        who: &Principal,
        query: RetrievalQuery,
        stages: &(dyn Fn(Stage) + Send + Sync),
    ) -> Result<Retrieved, Failure> {
        let began = begin(StageName::Retrieval, stages);
        let (candidates, selection) = match &query.scope {
            SearchScope::Knowledge(filters) => (self.candidates(who, &query, filters).await?, None),
            SearchScope::Selection(text) => {
                let selection = Selection::new(text);
                (self.pieces(&selection, &query.text).await?, Some(selection))
            }
        };
        let count = candidates.len();
        end(StageName::Retrieval, count, began, stages);

        let reaches =
            |candidate: &Candidate| query.threshold.is_none_or(|least| similarity(candidate) >= least);
        let pick = |candidates| {
            let mut ranked = self.fusion.rank(candidates);
            ranked.retain(|ranked| reaches(&ranked.candidate));
            ranked.truncate(query.limit);
            ranked
        };
        // Whoever selects a text knows that it is what the question is about.
        let is_relevant = (selection.is_some() || gate::lets_through(self.embedder.model(), &candidates))
            && candidates.iter().any(reaches);
        // The other orders are no reranking, and where nothing is found none is told.
        let ranked = if is_relevant && self.fusion == Fusion::Weighted {
            let began = begin(StageName::Reranking, stages);
            let ranked = pick(candidates);
            end(StageName::Reranking, ranked.len(), began, stages);
            ranked
        } else {
            pick(candidates)
        };
        let passages = match selection {
            Some(selection) => selection.hits(ranked),
            None => self.hits(who, ranked).await?,
        };
        Ok(Retrieved { is_relevant: is_relevant && !passages.is_empty(), passages, candidates: count })
    }
}

fn begin(name: StageName, stages: &(dyn Fn(Stage) + Send + Sync)) -> Instant {
    stages(Stage::Began(name));
    Instant::now()
}

/// Tells it in whole microseconds, which is what a stored log keeps: a replay tells the same.
fn end(name: StageName, count: usize, began: Instant, stages: &(dyn Fn(Stage) + Send + Sync)) {
    let took = began.elapsed();
    let took = took.saturating_sub(Duration::from_nanos(u64::from(took.subsec_nanos() % 1000)));
    stages(Stage::Ended { name, count, took });
}

/// What is told of a candidate: its cosine, which says something across questions; 0 if it has no vector yet.
fn similarity(candidate: &Candidate) -> f32 {
    candidate.cosine.unwrap_or(0.0).clamp(0.0, 1.0)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unavailable(reason: StorageError) -> Failure {
    Failure::new(FailureKind::Retrieval, format!("the catalog cannot be read: {reason}"))
}
