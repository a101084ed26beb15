//! The threads of the embedder: some for interactive queries, which have priority, and some for bulk calls.
//! Every call gets a result, even if a thread panics. Work for a disconnected caller stops at the next batch.

mod batching;
mod job;
mod queue;

#[cfg(test)]
mod tests;

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use domain::{EmbeddingPriority, Failure, FailureKind};
use tokio::sync::{Semaphore, oneshot};

use super::tokenizer::TokenizeError;
use job::Job;
use queue::{BulkTask, Queue};

/// A loaded model, or a fake in tests.
pub(crate) trait Embed: Send + Sync + 'static {
    /// The buffers of a thread.
    type Workspace: Default;
    fn tokenize(&self, text: &str) -> Result<Vec<u32>, TokenizeError>;
    /// One vector for each tokenized text.
    fn embed(&self, texts: &[&[u32]], workspace: &mut Self::Workspace) -> Vec<Vec<f32>>;
}

/// Number of threads, and bounds of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerLimits {
    /// Threads for bulk calls.
    pub bulk_threads: usize,
    /// Threads for queries. Each runs one query at a time.
    pub query_threads: usize,
    /// Queued queries; further ones are refused.
    pub waiting_queries: usize,
    /// Texts of queued and running bulk calls; further calls wait for permits.
    pub waiting_texts: u32,
}

impl Default for WorkerLimits {
    /// Two threads for each core, so that a query never waits for a bulk batch.
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Self { bulk_threads: cores, query_threads: cores, waiting_queries: 64, waiting_texts: 4096 }
    }
}

/// The vectors of one call.
type EmbedResult = Result<Vec<Vec<f32>>, Failure>;

/// A call, with the channel to its caller.
struct EmbedCall {
    texts: Vec<String>,
    reply: oneshot::Sender<EmbedResult>,
}

/// The threads. They end after their current task when this is dropped.
pub(crate) struct Workers {
    queue: Arc<Queue>,
    /// One permit for each text of a bulk call.
    bulk_permits: Semaphore,
    limits: WorkerLimits,
}

impl Workers {
    pub(crate) fn start<E: Embed>(embed: &Arc<E>, limits: WorkerLimits) -> io::Result<Self> {
        let queue = Arc::new(Queue::new(limits.waiting_queries));
        let workers = Self { queue, bulk_permits: Semaphore::new(limits.waiting_texts as usize), limits };
        for _ in 0..limits.query_threads {
            let (embed, queue) = (Arc::clone(embed), Arc::clone(&workers.queue));
            thread::Builder::new()
                .name("embed-query".to_owned())
                .spawn(move || run_queries(&*embed, &queue))?;
        }
        for _ in 0..limits.bulk_threads {
            let (embed, queue) = (Arc::clone(embed), Arc::clone(&workers.queue));
            thread::Builder::new().name("embed-bulk".to_owned()).spawn(move || run_bulk(&*embed, &queue))?;
        }
        Ok(workers)
    }

    /// One vector for each text. Dropping the future cancels the work at the next batch.
    pub(crate) async fn embed(&self, texts: Vec<String>, priority: EmbeddingPriority) -> EmbedResult {
        let (reply, result) = oneshot::channel();
        // A call with more texts than there are permits takes all of them.
        let permits = u32::try_from(texts.len()).unwrap_or(u32::MAX).min(self.limits.waiting_texts);
        let _permits = match priority {
            EmbeddingPriority::Interactive => {
                self.queue.push_query(EmbedCall { texts, reply })?;
                None
            }
            EmbeddingPriority::Bulk => {
                let permits = self.bulk_permits.acquire_many(permits).await.expect("it is never closed");
                self.queue.push_bulk(EmbedCall { texts, reply });
                Some(permits)
            }
        };
        result
            .await
            .unwrap_or_else(|_| Err(internal("a thread of the embedder panicked; the log has the reason")))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn run_queries<E: Embed>(embed: &E, queue: &Queue) {
    let mut workspace = E::Workspace::default();
    while let Some((query, _running)) = queue.next_query() {
        if query.reply.is_closed() {
            continue;
        }
        let run = catch_unwind(AssertUnwindSafe(|| run_query(embed, query, &mut workspace)));
        if run.is_err() {
            // The buffers may be inconsistent after a panic. The caller sees its channel closed.
            workspace = E::Workspace::default();
        }
    }
}

fn run_query<E: Embed>(embed: &E, query: EmbedCall, workspace: &mut E::Workspace) {
    let Some(job) = Job::prepare(embed, query) else { return };
    for batch in 0..job.batch_count() {
        job.run(embed, batch, workspace);
    }
}

fn run_bulk<E: Embed>(embed: &E, queue: &Queue) {
    let mut workspace = E::Workspace::default();
    while let Some(task) = queue.next_bulk() {
        let (job, batch) = match task {
            BulkTask::Tokenize(call) => {
                if let Ok(Some(job)) = catch_unwind(AssertUnwindSafe(|| Job::prepare(embed, call))) {
                    queue.push_job(Arc::new(job));
                }
                continue;
            }
            BulkTask::Batch(job, batch) => (job, batch),
        };
        if catch_unwind(AssertUnwindSafe(|| job.run(embed, batch, &mut workspace))).is_err() {
            workspace = E::Workspace::default();
            job.fail();
        }
    }
}

fn internal(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Internal, message)
}

fn overloaded() -> Failure {
    let mut failure =
        Failure::new(FailureKind::Unavailable, "too many questions wait to be embedded; ask again");
    failure.retry_after = Some(Duration::from_secs(1));
    failure
}
