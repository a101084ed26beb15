//! Giving chunks their vectors. The catalog says which lack one; some batches are on their way at a time, and the
//! next are looked up meanwhile, so that the embedder never waits.

use std::collections::{HashSet, VecDeque};

use domain::{
    ChunkId, DocumentId, EmbeddingPriority, Failure, FailureKind, Principal, StorageError, UnembeddedChunk,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;

use super::Ports;

/// Texts in a batch.
const BATCH: usize = 64;

/// Batches that are on their way at a time.
const AT_A_TIME: usize = 4;

/// Chunks that are looked up at a time.
const WINDOW: usize = 512;

/// Documents whose chunks are looked up at a time.
const DOCUMENTS: usize = 16;

/// Texts that the embedder may refuse in a row: if it refuses more, it is not the texts.
const REFUSALS: usize = 8;

/// Whose chunks get vectors.
pub(super) enum Wanted<'a> {
    /// Every tenant's, all that lack one.
    All,
    /// Those of these documents.
    Of(&'a Principal, &'a [DocumentId]),
}

/// What became of chunks without vectors.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// How many got one.
    pub(super) embedded: usize,
    /// Why others did not.
    pub(super) failure: Option<Failure>,
}

/// Embeds what lacks a vector, and what comes to lack one until `filed` ends. `tell` hears how many got one.
pub(super) async fn missing(
    ports: &Ports,
    wanted: Wanted<'_>,
    mut filed: watch::Receiver<()>,
    tell: &(dyn Fn(usize) + Send + Sync),
) -> Outcome {
    let mut embedding = Embedding::new(ports, wanted);
    let failure = embedding.run(&mut filed, tell).await.err();
    Outcome { embedded: embedding.embedded, failure: failure.or_else(|| embedding.refusal()) }
}

/// A batch and what the embedder made of it.
type Answered = (Vec<UnembeddedChunk>, Result<Vec<Vec<f32>>, Failure>);

struct Embedding<'a> {
    ports: &'a Ports,
    wanted: Wanted<'a>,
    waiting: VecDeque<UnembeddedChunk>,
    /// Batches that were refused, divided.
    divided: Vec<Vec<UnembeddedChunk>>,
    /// Chunks that wait, are on their way or were refused: the catalog tells them again.
    claimed: HashSet<(Principal, ChunkId)>,
    refused: usize,
    refused_in_a_row: usize,
    last_refusal: Option<Failure>,
    embedded: usize,
}

impl<'a> Embedding<'a> {
    fn new(ports: &'a Ports, wanted: Wanted<'a>) -> Self {
        Self {
            ports,
            wanted,
            waiting: VecDeque::new(),
            divided: Vec::new(),
            claimed: HashSet::new(),
            refused: 0,
            refused_in_a_row: 0,
            last_refusal: None,
            embedded: 0,
        }
    }

    async fn run(
        &mut self,
        filed: &mut watch::Receiver<()>,
        tell: &(dyn Fn(usize) + Send + Sync),
    ) -> Result<(), Failure> {
        let ports = self.ports;
        let mut running = FuturesUnordered::new();
        let mut may_be_more = true;
        let mut is_open = true;
        loop {
            while may_be_more && self.waiting.len() < BATCH {
                may_be_more = self.look().await?;
            }
            while running.len() < AT_A_TIME
                && let Some(batch) = self.next_batch()
            {
                running.push(embed(ports, batch));
            }
            tokio::select! {
                Some(answered) = running.next() => {
                    self.take(answered).await?;
                    tell(self.embedded);
                }
                more = filed.changed(), if is_open && !may_be_more => {
                    is_open = more.is_ok();
                    may_be_more = true;
                }
                else => return Ok(()),
            }
        }
    }

    /// Looks for chunks without a vector, and tells whether there may be more of them.
    async fn look(&mut self) -> Result<bool, Failure> {
        let (catalog, model) = (&self.ports.catalog, self.ports.embedder.model());
        let (found, may_be_more) = match &mut self.wanted {
            Wanted::All => {
                let limit = self.claimed.len() + WINDOW;
                let found = catalog.unembedded(model, limit).await.map_err(of_storage)?;
                let is_full = found.len() == limit;
                (found, is_full)
            }
            Wanted::Of(who, documents) => {
                let (next, rest) = documents.split_at(documents.len().min(DOCUMENTS));
                *documents = rest;
                (catalog.unembedded_of(who, next, model).await.map_err(of_storage)?, !rest.is_empty())
            }
        };
        for chunk in found {
            if self.claimed.insert((chunk.who.clone(), chunk.chunk)) {
                self.waiting.push_back(chunk);
            }
        }
        Ok(may_be_more)
    }

    fn next_batch(&mut self) -> Option<Vec<UnembeddedChunk>> {
        let batch = self.divided.pop().unwrap_or_else(|| {
            let count = self.waiting.len().min(BATCH);
            self.waiting.drain(..count).collect()
        });
        (!batch.is_empty()).then_some(batch)
    }

    async fn take(&mut self, (mut batch, answer): Answered) -> Result<(), Failure> {
        match answer {
            Ok(vectors) => self.keep(batch, vectors).await,
            Err(failure) if !is_about_the_text(&failure) => Err(failure),
            Err(_) if batch.len() > 1 => {
                self.divided.push(batch.split_off(batch.len() / 2));
                self.divided.push(batch);
                Ok(())
            }
            Err(failure) => {
                self.refused += 1;
                self.refused_in_a_row += 1;
                let is_too_much = self.refused_in_a_row == REFUSALS;
                self.last_refusal = Some(failure.clone());
                if is_too_much { Err(failure) } else { Ok(()) }
            }
        }
    }

    async fn keep(&mut self, batch: Vec<UnembeddedChunk>, vectors: Vec<Vec<f32>>) -> Result<(), Failure> {
        if batch.len() != vectors.len() {
            let message = format!("the embedder gave {} vectors for {} texts", vectors.len(), batch.len());
            return Err(Failure::new(FailureKind::Internal, message));
        }
        let embedded: Vec<_> = batch.iter().map(|chunk| (chunk.who.clone(), chunk.chunk)).collect();
        let model = self.ports.embedder.model();
        let vectors = batch.into_iter().zip(vectors).collect();
        self.ports.catalog.put_vectors(model, vectors).await.map_err(of_storage)?;
        self.embedded += embedded.len();
        self.refused_in_a_row = 0;
        for chunk in embedded {
            self.claimed.remove(&chunk);
        }
        Ok(())
    }

    fn refusal(&self) -> Option<Failure> {
        let last = self.last_refusal.as_ref()?;
        let message = format!("the embedder refused {} chunks, the last one so: {last}", self.refused);
        Some(Failure { message, ..last.clone() })
    }
}

async fn embed(ports: &Ports, batch: Vec<UnembeddedChunk>) -> Answered {
    let texts = batch.iter().map(|chunk| chunk.text.clone()).collect();
    let answer = ports.embedder.embed(texts, EmbeddingPriority::Bulk).await;
    (batch, answer)
}

fn is_about_the_text(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Refused | FailureKind::TooLong)
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn of_storage(error: StorageError) -> Failure {
    Failure::new(FailureKind::Retrieval, format!("storage is unavailable: {error}"))
}
