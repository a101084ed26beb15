//! Retrieval of the passages for one question: match the filters, embed the question, search the index, fuse
//! and rerank the candidates, apply the relevance gate, load the passages. For a selected text, its chunks
//! are the candidates.

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

use crate::fusion::{Fusion, MIN_CANDIDATES, RankedCandidate};
use crate::relevance_gate;
use crate::selected_text::SelectedText;

/// Receives the stages of a retrieval as they begin and end.
type OnStage<'a> = &'a (dyn Fn(Stage) + Send + Sync);

/// Retrieves passages by a lexical and a dense search of the same index.
pub struct HybridRetriever {
    catalog: Arc<dyn Catalog>,
    index: Arc<dyn Index>,
    embedder: Arc<dyn Embedder>,
    fusion: Fusion,
    /// Syncs the index before a search, and how long a search waits for that at most.
    index_sync: Option<(Arc<dyn IndexSync>, Duration)>,
}

impl HybridRetriever {
    /// A retriever over `index`, which is derived from `catalog` with the vectors of `embedder`.
    pub fn new(
        catalog: Arc<dyn Catalog>,
        index: Arc<dyn Index>,
        embedder: Arc<dyn Embedder>,
        fusion: Fusion,
    ) -> Self {
        Self { catalog, index, embedder, fusion, index_sync: None }
    }

    /// Syncs the index before each search, so that documents stored before a question are found. A search
    /// waits at most `max_wait` for it, then uses the index as it is.
    #[must_use]
    pub fn with_index_sync(self, sync: Arc<dyn IndexSync>, max_wait: Duration) -> Self {
        Self { index_sync: Some((sync, max_wait)), ..self }
    }

    async fn search_index(
        &self,
        who: &Principal,
        query: &RetrievalQuery,
        filters: &Filters,
    ) -> Result<Vec<Candidate>, Failure> {
        if self.index.is_empty() {
            self.sync_index().await;
        }
        // An empty index needs no embedder, which may be unavailable.
        if self.index.is_empty() {
            return Ok(Vec::new());
        }
        let within = async {
            self.sync_index().await;
            self.matching(who, filters).await
        };
        let (within, vector) = tokio::try_join!(within, self.embed_question(&query.text))?;
        let search = IndexQuery {
            who: who.clone(),
            text: query.text.clone(),
            vector: Some(vector),
            within,
            limit: query.limit.max(MIN_CANDIDATES),
        };
        self.index.search(search).await
    }

    /// An index that stays behind is searched as it is.
    async fn sync_index(&self) {
        if let Some((sync, max_wait)) = &self.index_sync {
            let _ = timeout(*max_wait, sync.wait_until_searchable()).await;
        }
    }

    async fn matching(&self, who: &Principal, filters: &Filters) -> Result<Option<FilterMatches>, Failure> {
        if filters.is_empty() {
            return Ok(None);
        }
        self.catalog.matching(who, filters).await.map(Some).map_err(|error| catalog_failure(&error))
    }

    /// All chunks of a selected text.
    async fn search_selection(
        &self,
        selection: &SelectedText<'_>,
        question: &str,
    ) -> Result<Vec<Candidate>, Failure> {
        let texts = [question].into_iter().chain(selection.chunk_texts()).map(str::to_owned).collect();
        let mut vectors = self.embed(texts).await?;
        let question_vector = vectors.remove(0);
        Ok(selection.candidates(question, &question_vector, &vectors))
    }

    async fn embed_question(&self, text: &str) -> Result<Vec<f32>, Failure> {
        Ok(self.embed(vec![text.to_owned()]).await?.swap_remove(0))
    }

    /// One vector for each text.
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, Failure> {
        let expected = texts.len();
        let embedded = self.embedder.embed(texts, EmbeddingPriority::Interactive).await;
        let vectors = embedded.map_err(|failure| Failure {
            message: format!("embedding the question failed: {}", failure.message),
            ..failure
        })?;
        if vectors.len() != expected {
            let (model, count) = (self.embedder.model(), vectors.len());
            let message =
                format!("embedding the question failed: {model} gave {count} of {expected} vectors");
            return Err(Failure::new(FailureKind::Internal, message));
        }
        Ok(vectors)
    }

    async fn load_hits(&self, who: &Principal, ranked: Vec<RankedCandidate>) -> Result<Vec<Hit>, Failure> {
        let ids: Vec<ChunkId> = ranked.iter().map(|ranked| ranked.candidate.chunk).collect();
        let chunks = self.catalog.chunks(who, &ids).await.map_err(|error| catalog_failure(&error))?;
        let mut chunks: HashMap<ChunkId, StoredChunk> =
            chunks.into_iter().map(|chunk| (chunk.chunk.id, chunk)).collect();
        // A chunk that the catalog has removed since the search is left out.
        let hits = ranked.into_iter().filter_map(|RankedCandidate { candidate, fused, reranked }| {
            let passage = chunks.remove(&candidate.chunk)?.into_passage(similarity(&candidate));
            Some(Hit { passage, candidate, fused, reranked })
        });
        Ok(hits.collect())
    }

    /// Candidates that reach the threshold, best first.
    fn rank(&self, query: &RetrievalQuery, candidates: Vec<Candidate>) -> Vec<RankedCandidate> {
        let mut ranked = self.fusion.rank(candidates);
        ranked.retain(|ranked| reaches_threshold(query, &ranked.candidate));
        ranked.truncate(query.limit);
        ranked
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
        stages: OnStage<'_>,
    ) -> Result<Retrieved, Failure> {
        let started = begin(StageName::Retrieval, stages);
        let (candidates, selection) = match &query.scope {
            SearchScope::Knowledge(filters) => (self.search_index(who, &query, filters).await?, None),
            SearchScope::Selection(text) => {
                let selection = SelectedText::new(text);
                (self.search_selection(&selection, &query.text).await?, Some(selection))
            }
        };
        let count = candidates.len();
        end(StageName::Retrieval, count, started, stages);

        // A selected text is relevant by the user's choice.
        let is_relevant = (selection.is_some() || relevance_gate::passes(self.embedder.model(), &candidates))
            && candidates.iter().any(|candidate| reaches_threshold(&query, candidate));
        // Only the weighted fusion reranks, and without relevant candidates no stage is reported.
        let ranked = if is_relevant && self.fusion == Fusion::Weighted {
            let started = begin(StageName::Reranking, stages);
            let ranked = self.rank(&query, candidates);
            end(StageName::Reranking, ranked.len(), started, stages);
            ranked
        } else {
            self.rank(&query, candidates)
        };
        let passages = match selection {
            Some(selection) => selection.hits(ranked),
            None => self.load_hits(who, ranked).await?,
        };
        Ok(Retrieved { is_relevant: is_relevant && !passages.is_empty(), passages, candidates: count })
    }
}

fn begin(name: StageName, stages: OnStage<'_>) -> Instant {
    stages(Stage::Began(name));
    Instant::now()
}

/// Reports the end of a stage. The duration is cut to whole microseconds, the resolution of a stored log, so
/// that a replay is equal to the original.
fn end(name: StageName, count: usize, started: Instant, stages: OnStage<'_>) {
    let took = started.elapsed();
    let took = took.saturating_sub(Duration::from_nanos(u64::from(took.subsec_nanos() % 1000)));
    stages(Stage::Ended { name, count, took });
}

fn reaches_threshold(query: &RetrievalQuery, candidate: &Candidate) -> bool {
    query.threshold.is_none_or(|threshold| similarity(candidate) >= threshold)
}

/// The score that clients see: the cosine, which is comparable across questions; 0 without a vector.
pub(crate) fn similarity(candidate: &Candidate) -> f32 {
    candidate.cosine.unwrap_or(0.0).clamp(0.0, 1.0)
}

fn catalog_failure(error: &StorageError) -> Failure {
    Failure::new(FailureKind::Retrieval, format!("the catalog cannot be read: {error}"))
}
