//! A retriever with a fixed result, without an index.

use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Candidate, ChunkId, DocumentId, Failure, Hit, Passage, Principal, RetrievalQuery, Retrieved, Retriever,
    Stage, StageName, Timestamp,
};

/// Returns the same result for every query, and records the queries.
pub struct ScriptedRetriever {
    outcome: Outcome,
    queries: Mutex<Vec<RetrievalQuery>>,
}

enum Outcome {
    Passages(Vec<Passage>),
    Irrelevant(Vec<Passage>),
    Failure(Failure),
    Hang,
}

impl ScriptedRetriever {
    /// Finds nothing, as an empty knowledge base does.
    pub fn nothing() -> Self {
        Self::new(Outcome::Passages(Vec::new()))
    }

    /// Finds these passages, up to the limit of the query.
    pub fn finding(passages: Vec<Passage>) -> Self {
        Self::new(Outcome::Passages(passages))
    }

    /// Finds these passages, and reports that none of them is relevant.
    pub fn irrelevant(passages: Vec<Passage>) -> Self {
        Self::new(Outcome::Irrelevant(passages))
    }

    /// Fails.
    pub fn failing(failure: Failure) -> Self {
        Self::new(Outcome::Failure(failure))
    }

    /// Starts retrieval and never returns.
    pub fn hanging() -> Self {
        Self::new(Outcome::Hang)
    }

    /// The queries so far.
    pub fn queries(&self) -> Vec<RetrievalQuery> {
        self.queries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn new(outcome: Outcome) -> Self {
        Self { outcome, queries: Mutex::default() }
    }
}

#[async_trait]
impl Retriever for ScriptedRetriever {
    fn is_empty(&self) -> bool {
        matches!(&self.outcome, Outcome::Passages(passages) if passages.is_empty())
    }

    async fn retrieve(
        &self,
        _: &Principal,
        query: RetrievalQuery,
        stages: &(dyn Fn(Stage) + Send + Sync),
    ) -> Result<Retrieved, Failure> {
        let limit = query.limit;
        self.queries.lock().unwrap_or_else(PoisonError::into_inner).push(query);
        stages(Stage::Began(StageName::Retrieval));
        let (passages, is_relevant) = match &self.outcome {
            Outcome::Passages(passages) => (passages, !passages.is_empty()),
            Outcome::Irrelevant(passages) => (passages, false),
            Outcome::Failure(failure) => return Err(failure.clone()),
            Outcome::Hang => pending().await,
        };
        let candidates = passages.len();
        let took = Duration::from_millis(3);
        stages(Stage::Ended { name: StageName::Retrieval, count: candidates, took });
        let passages: Vec<_> = passages.iter().take(limit).cloned().enumerate().map(hit).collect();
        if is_relevant && !passages.is_empty() {
            stages(Stage::Began(StageName::Reranking));
            let took = Duration::from_millis(1);
            stages(Stage::Ended { name: StageName::Reranking, count: passages.len(), took });
        }
        Ok(Retrieved { passages, candidates, is_relevant })
    }
}

fn hit((rank, passage): (usize, Passage)) -> Hit {
    let candidate = Candidate {
        chunk: passage.chunk,
        document: passage.document,
        is_code: false,
        lexical: None,
        dense: None,
        cosine: Some(passage.score),
    };
    let rank_and_score = (rank, passage.score);
    Hit { passage, candidate, fused: rank_and_score, reranked: Some(rank_and_score) }
}

/// A passage with this text, at the beginning of a document with this title.
pub fn passage(title: &str, text: &str) -> Passage {
    let lines = u32::try_from(text.lines().count()).unwrap_or(u32::MAX).max(1);
    Passage {
        chunk: ChunkId::new(Timestamp::from_micros(0)),
        document: DocumentId::new(Timestamp::from_micros(0)),
        title: title.to_owned(),
        repo_url: Some("https://example.com/repository".to_owned()),
        file_path: Some(format!("{title}.md")),
        url: None,
        section: None,
        subsection: None,
        lines: Some((1, lines)),
        chars: None,
        text: text.to_owned(),
        score: 0.8,
    }
}
