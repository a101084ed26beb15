//! Embeds the chunks that lack a vector. Several batches run at a time, and the catalog is read ahead, so that the
//! embedder does not wait for it.

use std::collections::{HashSet, VecDeque};

use domain::{
    ChunkId, DocumentId, EmbeddingPriority, Failure, FailureKind, Principal, StorageError, UnembeddedChunk,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;

use super::PipelinePorts;

/// Texts in a batch.
const BATCH_SIZE: usize = 64;

const MAX_RUNNING_BATCHES: usize = 4;

/// Chunks that one read of the catalog adds.
const CHUNKS_PER_READ: usize = 512;

/// Documents whose chunks one read of the catalog loads.
const DOCUMENTS_PER_READ: usize = 16;

/// Consecutive refusals of single texts at which embedding gives up: then the texts are not the cause.
const MAX_CONSECUTIVE_REFUSALS: usize = 8;

/// The chunks to embed.
pub(super) enum EmbedScope<'a> {
    /// Those of every tenant.
    All,
    /// Those of these documents.
    Documents(&'a Principal, &'a [DocumentId]),
}

#[derive(Debug, Default)]
pub(super) struct EmbedOutcome {
    /// Number of new vectors.
    pub(super) embedded: usize,
    /// Why other chunks got none.
    pub(super) failure: Option<Failure>,
}

/// Embeds the chunks without a vector. Each change of `stored` announces new ones, until its sender is dropped;
/// `on_embedded` gets the number of vectors so far.
pub(super) async fn embed_missing(
    ports: &PipelinePorts,
    scope: EmbedScope<'_>,
    stored: Option<watch::Receiver<()>>,
    on_embedded: &(dyn Fn(usize) + Send + Sync),
) -> EmbedOutcome {
    let mut run = EmbedRun::new(ports, scope);
    let failure = run.run(stored, on_embedded).await.err();
    EmbedOutcome { embedded: run.embedded, failure: failure.or_else(|| run.refusal()) }
}

/// A batch and the embedder's result for it.
type BatchResult = (Vec<UnembeddedChunk>, Result<Vec<Vec<f32>>, Failure>);

struct EmbedRun<'a> {
    ports: &'a PipelinePorts,
    scope: EmbedScope<'a>,
    queue: VecDeque<UnembeddedChunk>,
    /// Halves of refused batches.
    halves: Vec<Vec<UnembeddedChunk>>,
    /// Chunks that are queued, running or refused, which the catalog still lists as unembedded.
    claimed: HashSet<(Principal, ChunkId)>,
    refused: usize,
    consecutive_refusals: usize,
    last_refusal: Option<Failure>,
    embedded: usize,
}

impl<'a> EmbedRun<'a> {
    fn new(ports: &'a PipelinePorts, scope: EmbedScope<'a>) -> Self {
        Self {
            ports,
            scope,
            queue: VecDeque::new(),
            halves: Vec::new(),
            claimed: HashSet::new(),
            refused: 0,
            consecutive_refusals: 0,
            last_refusal: None,
            embedded: 0,
        }
    }

    async fn run(
        &mut self,
        mut stored: Option<watch::Receiver<()>>,
        on_embedded: &(dyn Fn(usize) + Send + Sync),
    ) -> Result<(), Failure> {
        let ports = self.ports;
        let mut running = FuturesUnordered::new();
        let mut has_more = true;
        loop {
            while has_more && self.queue.len() < BATCH_SIZE {
                has_more = self.load_unembedded().await?;
            }
            while running.len() < MAX_RUNNING_BATCHES
                && let Some(batch) = self.next_batch()
            {
                running.push(embed(ports, batch));
            }
            tokio::select! {
                Some(result) = running.next() => {
                    self.handle(result).await?;
                    on_embedded(self.embedded);
                }
                Some(change) = next_change(&mut stored), if !has_more => {
                    if change.is_err() {
                        stored = None;
                    }
                    has_more = true;
                }
                else => return Ok(()),
            }
        }
    }

    /// Queues chunks without a vector, and returns whether there may be more.
    async fn load_unembedded(&mut self) -> Result<bool, Failure> {
        let (catalog, model) = (&self.ports.catalog, self.ports.embedder.model());
        let (unembedded, has_more) = match &mut self.scope {
            EmbedScope::All => {
                let limit = self.claimed.len() + CHUNKS_PER_READ;
                let unembedded = catalog.unembedded(model, limit).await.map_err(storage_failure)?;
                let is_full = unembedded.len() == limit;
                (unembedded, is_full)
            }
            EmbedScope::Documents(who, documents) => {
                let (next, rest) = documents.split_at(documents.len().min(DOCUMENTS_PER_READ));
                *documents = rest;
                let unembedded = catalog.unembedded_of(who, next, model).await.map_err(storage_failure)?;
                (unembedded, !rest.is_empty())
            }
        };
        for chunk in unembedded {
            if self.claimed.insert((chunk.who.clone(), chunk.chunk)) {
                self.queue.push_back(chunk);
            }
        }
        Ok(has_more)
    }

    fn next_batch(&mut self) -> Option<Vec<UnembeddedChunk>> {
        let batch = self.halves.pop().unwrap_or_else(|| {
            let count = self.queue.len().min(BATCH_SIZE);
            self.queue.drain(..count).collect()
        });
        (!batch.is_empty()).then_some(batch)
    }

    /// Stores the vectors of a batch, or halves a refused batch until the refused texts are alone.
    async fn handle(&mut self, (mut batch, result): BatchResult) -> Result<(), Failure> {
        match result {
            Ok(vectors) => self.store(batch, vectors).await,
            Err(failure) if !is_about_the_text(&failure) => Err(failure),
            Err(_) if batch.len() > 1 => {
                self.halves.push(batch.split_off(batch.len() / 2));
                self.halves.push(batch);
                Ok(())
            }
            Err(failure) => {
                self.refused += 1;
                self.consecutive_refusals += 1;
                self.last_refusal = Some(failure.clone());
                if self.consecutive_refusals == MAX_CONSECUTIVE_REFUSALS { Err(failure) } else { Ok(()) }
            }
        }
    }

    async fn store(&mut self, batch: Vec<UnembeddedChunk>, vectors: Vec<Vec<f32>>) -> Result<(), Failure> {
        if batch.len() != vectors.len() {
            let message = format!("the embedder gave {} vectors for {} texts", vectors.len(), batch.len());
            return Err(Failure::new(FailureKind::Internal, message));
        }
        let embedded: Vec<_> = batch.iter().map(|chunk| (chunk.who.clone(), chunk.chunk)).collect();
        let model = self.ports.embedder.model();
        let vectors = batch.into_iter().zip(vectors).collect();
        self.ports.catalog.put_vectors(model, vectors).await.map_err(storage_failure)?;
        self.embedded += embedded.len();
        self.consecutive_refusals = 0;
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

async fn next_change(
    stored: &mut Option<watch::Receiver<()>>,
) -> Option<Result<(), watch::error::RecvError>> {
    Some(stored.as_mut()?.changed().await)
}

async fn embed(ports: &PipelinePorts, batch: Vec<UnembeddedChunk>) -> BatchResult {
    let texts = batch.iter().map(|chunk| chunk.text.clone()).collect();
    let result = ports.embedder.embed(texts, EmbeddingPriority::Bulk).await;
    (batch, result)
}

fn is_about_the_text(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Refused | FailureKind::TooLong)
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed to map_err")]
fn storage_failure(error: StorageError) -> Failure {
    Failure::new(FailureKind::Retrieval, format!("storage is unavailable: {error}"))
}
