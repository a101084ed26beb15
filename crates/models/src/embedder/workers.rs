//! The threads that embed: one a core for bulk, and some for queries, which go first. Whatever happens on them,
//! every call is answered, and a caller who left is worked for no further.

mod batches;
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

use job::Job;
use queue::{Bulk, Queue};

/// What can be embedded with: a loaded model, or a test's stand-in.
pub(crate) trait Embed: Send + Sync + 'static {
    /// What each thread has for itself.
    type Space: Default;
    /// The tokens of a text.
    fn tokens(&self, text: &str) -> Result<Vec<u32>, String>;
    /// One vector a text.
    fn embed(&self, texts: &[&[u32]], space: &mut Self::Space) -> Vec<Vec<f32>>;
}

/// How much is done at once, and how much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads that embed in bulk.
    pub bulk_threads: usize,
    /// Threads that embed queries, each one query at a time.
    pub query_threads: usize,
    /// Queries that may wait for a thread; more are refused.
    pub waiting_queries: usize,
    /// Texts that may wait in bulk; callers with more wait until there is room.
    pub waiting_texts: u32,
}

impl Default for Limits {
    /// Two threads a core, so that a query never waits for bulk.
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Self { bulk_threads: cores, query_threads: cores, waiting_queries: 64, waiting_texts: 4096 }
    }
}

/// Vectors of one call, or why there are none.
type Answer = Result<Vec<Vec<f32>>, Failure>;

/// Texts that somebody waits for.
struct Call {
    texts: Vec<String>,
    answer: oneshot::Sender<Answer>,
}

/// The threads. They end when this is dropped, after what they are at.
pub(crate) struct Workers {
    queue: Arc<Queue>,
    room: Semaphore,
    limits: Limits,
}

impl Workers {
    pub(crate) fn start<E: Embed>(embed: &Arc<E>, limits: Limits) -> io::Result<Self> {
        let queue = Arc::new(Queue::new(limits.waiting_queries));
        let workers = Self { queue, room: Semaphore::new(limits.waiting_texts as usize), limits };
        for _ in 0..limits.query_threads {
            let (embed, queue) = (Arc::clone(embed), Arc::clone(&workers.queue));
            thread::Builder::new()
                .name("embed-query".to_owned())
                .spawn(move || answer_queries(&*embed, &queue))?;
        }
        for _ in 0..limits.bulk_threads {
            let (embed, queue) = (Arc::clone(embed), Arc::clone(&workers.queue));
            thread::Builder::new()
                .name("embed-bulk".to_owned())
                .spawn(move || embed_bulk(&*embed, &queue))?;
        }
        Ok(workers)
    }

    /// One vector a text. Work on it ends when the future is dropped.
    pub(crate) async fn embed(&self, texts: Vec<String>, priority: EmbeddingPriority) -> Answer {
        let (answer, answered) = oneshot::channel();
        // More than ever fits in takes all the room there is.
        let size = u32::try_from(texts.len()).unwrap_or(u32::MAX).min(self.limits.waiting_texts);
        let _room = match priority {
            EmbeddingPriority::Interactive => {
                self.queue.push_query(Call { texts, answer })?;
                None
            }
            EmbeddingPriority::Bulk => {
                let room = self.room.acquire_many(size).await.expect("the room is never closed");
                self.queue.push_bulk(Call { texts, answer });
                Some(room)
            }
        };
        answered.await.unwrap_or_else(|_| Err(broken("a thread of the embedder failed; its log says why")))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn answer_queries<E: Embed>(embed: &E, queue: &Queue) {
    let mut space = E::Space::default();
    while let Some((query, _running)) = queue.next_query() {
        if query.answer.is_closed() {
            continue;
        }
        let answered = catch_unwind(AssertUnwindSafe(|| answer_query(embed, query, &mut space)));
        if answered.is_err() {
            // What a panic left half done is not used again; its caller sees that nobody answers.
            space = E::Space::default();
        }
    }
}

fn answer_query<E: Embed>(embed: &E, query: Call, space: &mut E::Space) {
    let Some(job) = Job::prepare(embed, query) else { return };
    for batch in 0..job.batches() {
        job.run(embed, batch, space);
    }
}

fn embed_bulk<E: Embed>(embed: &E, queue: &Queue) {
    let mut space = E::Space::default();
    while let Some(work) = queue.next_bulk() {
        let (job, batch) = match work {
            Bulk::Call(call) => {
                if let Ok(Some(job)) = catch_unwind(AssertUnwindSafe(|| Job::prepare(embed, call))) {
                    queue.push_job(Arc::new(job));
                }
                continue;
            }
            Bulk::Batch(job, batch) => (job, batch),
        };
        if catch_unwind(AssertUnwindSafe(|| job.run(embed, batch, &mut space))).is_err() {
            space = E::Space::default();
            job.give_up();
        }
    }
}

fn broken(message: &str) -> Failure {
    Failure::new(FailureKind::Internal, message)
}

fn busy() -> Failure {
    let mut failure =
        Failure::new(FailureKind::Unavailable, "too many questions wait to be embedded; ask again");
    failure.retry_after = Some(Duration::from_secs(1));
    failure
}
