//! A retriever that finds what a test says, without an index.

use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Candidate, ChunkId, DocumentId, Failure, Hit, Passage, Principal, RetrievalQuery, Retrieved, Retriever,
    Stage, StageName, Timestamp,
};

/// A retriever that a test tells what to find.
pub struct ScriptedRetriever {
    finds: Finds,
    queries: Mutex<Vec<RetrievalQuery>>,
}

enum Finds {
    Passages(Vec<Passage>),
    Irrelevant(Vec<Passage>),
    Failure(Failure),
    NothingEver,
}

impl ScriptedRetriever {
    /// Finds nothing.
    pub fn nothing() -> Self {
        Self::new(Finds::Passages(Vec::new()))
    }

    /// Finds these passages, as many of them as are asked for.
    pub fn finding(passages: Vec<Passage>) -> Self {
        Self::new(Finds::Passages(passages))
    }

    /// Finds these, and that none of them answers anything.
    pub fn irrelevant(passages: Vec<Passage>) -> Self {
        Self::new(Finds::Irrelevant(passages))
    }

    /// Fails.
    pub fn failing(failure: Failure) -> Self {
        Self::new(Finds::Failure(failure))
    }

    /// Begins, and never ends.
    pub fn hanging() -> Self {
        Self::new(Finds::NothingEver)
    }

    /// What it was asked for so far.
    pub fn queries(&self) -> Vec<RetrievalQuery> {
        self.queries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn new(finds: Finds) -> Self {
        Self { finds, queries: Mutex::default() }
    }
}

#[async_trait]
impl Retriever for ScriptedRetriever {
    fn is_empty(&self) -> bool {
        matches!(&self.finds, Finds::Passages(passages) if passages.is_empty())
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
        let (passages, is_relevant) = match &self.finds {
            Finds::Passages(passages) => (passages, !passages.is_empty()),
            Finds::Irrelevant(passages) => (passages, false),
            Finds::Failure(failure) => return Err(failure.clone()),
            Finds::NothingEver => pending().await,
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

fn hit((place, passage): (usize, Passage)) -> Hit {
    let candidate = Candidate {
        chunk: passage.chunk,
        document: passage.document,
        is_code: false,
        lexical: None,
        dense: None,
        cosine: Some(passage.score),
    };
    let standing = (place, passage.score);
    Hit { passage, candidate, fused: standing, reranked: Some(standing) }
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
        before: String::new(),
        score: 0.8,
    }
}
