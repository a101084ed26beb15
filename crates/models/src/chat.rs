//! The chat model that runs in the process, through llama.cpp. `LlamaProvider` exists at once; a thread of its own loads
//! the model (`load`) and then runs all answers, several at a time (`worker`).
//!
//! A request becomes a prompt (`prompt`, `template`). Its KV cache starts from the prefix cache (`prefix_cache`) or from a
//! conversation (`conversation_cache`); the rest is prefilled in batches, between the tokens of running answers. Each
//! token is sampled (`sampler`), decoded (`utf8_decoder`) and sent to the client (`running_answer`).

mod atomic_file;
mod bare_loop;
mod conversation_cache;
mod cpu_contention;
mod cpu_features;
mod llama;
mod load;
mod load_error;
mod prefix_cache;
mod prompt;
mod repacked_weights;
mod running_answer;
mod sampler;
mod template;
mod utf8_decoder;
mod worker;

#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Failure, FailureKind, ModelEvent, ModelId, ModelStream, Provider, ProviderStatus, Request, WarmupProgress,
};
use futures::future::{Either, FutureExt};
use futures::stream::{self, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

pub use bare_loop::BareLoop;
use llama::{Parse, Weights};
use load::Loader;
pub use load_error::{LoadError, ModelError};
use prefix_cache::Counters;
pub use prefix_cache::PassageLookup;
pub use repacked_weights::ModelFile;
use running_answer::{AnswerEvent, AnswerSink};
use worker::{Job, JobReceiver};

/// Bytes per token while the model's tokenizer is not loaded: on the safe side for prose and code.
const BYTES_PER_TOKEN: usize = 2;

/// A chat model of this process.
pub struct LlamaProvider {
    model: ModelId,
    limits: Limits,
    load_state: watch::Receiver<LoadState>,
    queue_slots: Arc<Semaphore>,
    jobs: SyncSender<Option<Job>>,
    unreceived_requests: Arc<AtomicUsize>,
    /// One warm-up job at a time.
    warming: Semaphore,
    counters: Arc<Counters>,
    warmup: Mutex<Option<WarmupProgress>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How much a model does at once, queues and caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Upper bound on the tokens of a prompt and its answer; a model trained with a smaller window has that.
    pub window: usize,
    /// Answers that are generated at once.
    pub answers: usize,
    /// Prompts that may wait for one of these to end; more are refused.
    pub waiting: usize,
    /// Compute threads.
    pub threads: usize,
    /// Seed of the sampler at temperatures above 0; random if there is none.
    pub seed: Option<u64>,
    /// Upper bound on the bytes of idle conversations in memory.
    pub conversation_bytes: usize,
    /// The prefix cache; without it every prompt is prefilled as a whole.
    pub prefix_cache: Option<PrefixCacheLimits>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            window: 8_192,
            answers: 4,
            waiting: 8,
            threads: thread::available_parallelism().map_or(1, NonZero::get),
            seed: None,
            conversation_bytes: 128 << 20,
            prefix_cache: Some(PrefixCacheLimits::default()),
        }
    }
}

/// The bounds of the prefix cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixCacheLimits {
    /// Upper bound on the bytes of KV states in memory.
    pub memory_bytes: usize,
    /// Upper bound on the bytes of KV states in files.
    pub disk_bytes: u64,
    /// Upper bound on the passages that are queued for idle time because a prompt lacked them; 0 in a process that ends
    /// with its answer.
    pub pending: usize,
}

impl Default for PrefixCacheLimits {
    fn default() -> Self {
        Self { memory_bytes: 128 << 20, disk_bytes: 2 << 30, pending: 128 }
    }
}

/// How far loading is.
#[derive(Clone)]
enum LoadState {
    Loading,
    Loaded(Arc<LoadedModel>),
    Failed(Failure),
}

struct LoadedModel {
    weights: Arc<Weights>,
    window: usize,
    has_prefix_cache: bool,
}

impl LlamaProvider {
    /// Starts loading the GGUF file at `path`. If that fails, `health` and every call return the reason.
    pub fn open(model: ModelId, path: impl Into<PathBuf>, limits: Limits) -> Self {
        let file = ModelFile { path: path.into(), sha256: None };
        Self::find_and_open(model, || Ok(file), None, limits)
    }

    /// Starts loading the file that `find` returns, which may take its time. `cache` is the folder for repacked weights
    /// and for the prefix cache's disk tier.
    pub fn find_and_open(
        model: ModelId,
        find: impl FnOnce() -> Result<ModelFile, Box<dyn Error + Send + Sync>> + Send + 'static,
        cache: Option<PathBuf>,
        limits: Limits,
    ) -> Self {
        let (sender, load_state) = watch::channel(LoadState::Loading);
        let (stop, unreceived_requests, counters) =
            (Arc::new(AtomicBool::new(false)), Arc::<AtomicUsize>::default(), Arc::default());
        // Room for every job: one per queue slot, one warm-up job, and the message that stops the worker.
        let queue_slots = limits.answers + limits.waiting;
        let (jobs, receiver) = sync_channel(queue_slots + 2);
        let loader = Loader {
            name: model.model.clone(),
            limits,
            cache,
            counters: Arc::clone(&counters),
            jobs: JobReceiver { jobs: receiver, unreceived_requests: unreceived_requests.clone() },
            stop: stop.clone(),
        };
        let work = move || {
            let (state, worker) = loader.load(find);
            sender.send_replace(state);
            // Dropped with the thread, so that later calls notice if the worker panicked.
            let _sender = sender;
            if let Some(worker) = worker {
                worker.run();
            }
        };
        let (load_state, thread) = match thread::Builder::new().name("chat".to_owned()).spawn(work) {
            Ok(thread) => (load_state, Some(thread)),
            Err(error) => {
                let failure = unavailable(format!("no thread can be started for {}: {error}", model.model));
                (watch::channel(LoadState::Failed(failure)).1, None)
            }
        };
        let (queue_slots, warming) = (Arc::new(Semaphore::new(queue_slots)), Semaphore::new(1));
        let warmup = Mutex::default();
        Self {
            model,
            limits,
            load_state,
            queue_slots,
            jobs,
            unreceived_requests,
            warming,
            counters,
            warmup,
            stop,
            thread,
        }
    }

    /// Looks up the only passage of a request in the prefix cache, and marks it as used. Fails if the model cannot be
    /// loaded or has no prefix cache.
    pub async fn look_up_passage(&self, request: Arc<Request>) -> Result<PassageLookup, Failure> {
        self.warm(request, false).await
    }

    /// The same, and computes a passage that is missing. Waits until no prompt is queued or running.
    pub async fn prefill_passage(&self, request: Arc<Request>) -> Result<PassageLookup, Failure> {
        self.warm(request, true).await
    }

    async fn warm(&self, request: Arc<Request>, compute: bool) -> Result<PassageLookup, Failure> {
        let _turn = self.warming.acquire().await.map_err(|_| worker_died())?;
        loaded(self.load_state.clone()).await?;
        let (reply, lookup) = oneshot::channel();
        self.jobs.try_send(Some(Job::Warm { request, compute, reply })).map_err(|_| worker_died())?;
        lookup.await.map_err(|_| worker_died())?
    }

    /// Sets the progress of the warm-up that its caller reports, as a part of `status`.
    pub fn set_warmup(&self, progress: WarmupProgress) {
        *self.warmup.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
    }

    fn loaded(&self) -> Option<Arc<LoadedModel>> {
        match &*self.load_state.borrow() {
            LoadState::Loaded(model) => Some(Arc::clone(model)),
            LoadState::Loading | LoadState::Failed(_) => None,
        }
    }
}

#[async_trait]
impl Provider for LlamaProvider {
    fn model(&self) -> ModelId {
        self.model.clone()
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        let Ok(queue_slot) = self.queue_slots.clone().try_acquire_owned() else {
            let Limits { answers, waiting, .. } = self.limits;
            let message = format!(
                "the model writes {answers} answers at once, and {waiting} more prompts wait for it \
                 (limits.model_queue): ask again later"
            );
            let mut failure = Failure::new(FailureKind::Overloaded, message);
            failure.retry_after = Some(Duration::from_secs(5));
            return stream::iter([Err(failure)]).boxed();
        };
        let started = stream::iter([Ok(ModelEvent::Started(self.model()))]);
        let (load_state, jobs) = (self.load_state.clone(), self.jobs.clone());
        let events = submit(load_state, jobs, self.unreceived_requests.clone(), request, queue_slot);
        let events = events.map(|submitted| match submitted {
            Ok(receiver) => Either::Left(until_terminal(receiver)),
            Err(failure) => Either::Right(stream::iter([Err(failure)])),
        });
        started.chain(events.flatten_stream()).boxed()
    }

    async fn ready(&self) {
        // A failure is returned by every later call.
        let _ = loaded(self.load_state.clone()).await;
    }

    fn room(&self, request: &Request) -> Option<usize> {
        let window = self.loaded().map_or(self.limits.window, |model| model.window);
        request.room(window, |text| self.count_tokens(text))
    }

    fn count_tokens(&self, text: &str) -> usize {
        match self.loaded() {
            Some(model) => {
                let tokens = model.weights.vocabulary().tokens(text, Parse::Plain);
                tokens.map_or(text.len(), |tokens| tokens.len())
            }
            None => text.len().div_ceil(BYTES_PER_TOKEN),
        }
    }

    fn caches_passages(&self) -> bool {
        self.loaded().is_some_and(|model| model.has_prefix_cache)
    }

    async fn health(&self) -> Result<(), Failure> {
        match &*self.load_state.borrow() {
            LoadState::Failed(failure) => Err(failure.clone()),
            LoadState::Loading | LoadState::Loaded(_) if self.load_state.has_changed().is_err() => {
                Err(worker_died())
            }
            LoadState::Loaded(_) => Ok(()),
            LoadState::Loading => {
                let mut failure = unavailable(format!("the model {} is being loaded", self.model.model));
                failure.retry_after = Some(Duration::from_secs(1));
                Err(failure)
            }
        }
    }

    fn status(&self) -> ProviderStatus {
        let prefix_cache = self.caches_passages().then(|| self.counters.stats());
        let warmup = self.warmup.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ProviderStatus { prefix_cache, warmup, ..ProviderStatus::default() }
    }
}

impl Drop for LlamaProvider {
    /// Aborts the batch and joins the thread: llama.cpp must not run any more when the process ends.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The worker may be waiting for a job; if it is gone, it has stopped.
        let _ = self.jobs.try_send(None);
        if let Some(thread) = self.thread.take() {
            // A panic is in the log already.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for LlamaProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlamaProvider").field("model", &self.model).finish_non_exhaustive()
    }
}

/// Waits until the model is loaded, and sends the request to the worker.
async fn submit(
    load_state: watch::Receiver<LoadState>,
    jobs: SyncSender<Option<Job>>,
    unreceived_requests: Arc<AtomicUsize>,
    request: Arc<Request>,
    queue_slot: OwnedSemaphorePermit,
) -> Result<mpsc::Receiver<AnswerEvent>, Failure> {
    loaded(load_state).await?;
    let (sink, receiver) = AnswerSink::new(&request, queue_slot);
    unreceived_requests.fetch_add(1, Ordering::Relaxed);
    jobs.try_send(Some(Job::Answer(request, sink))).map_err(|_| worker_died())?;
    Ok(receiver)
}

/// Waits until the model is loaded.
async fn loaded(mut load_state: watch::Receiver<LoadState>) -> Result<(), Failure> {
    match load_state.wait_for(|state| !matches!(state, LoadState::Loading)).await.as_deref() {
        Ok(LoadState::Loaded(_)) => Ok(()),
        Ok(LoadState::Failed(failure)) => Err(failure.clone()),
        Ok(LoadState::Loading) | Err(_) => Err(worker_died()),
    }
}

/// The events up to the terminal one. A channel that closes without one gives a failure.
fn until_terminal(receiver: mpsc::Receiver<AnswerEvent>) -> impl stream::Stream<Item = AnswerEvent> {
    stream::unfold(Some(receiver), |receiver| async {
        let mut receiver = receiver?;
        let event = receiver.recv().await.unwrap_or_else(|| Err(worker_died()));
        let is_terminal = matches!(event, Ok(ModelEvent::Finish(_)) | Err(_));
        Some((event, (!is_terminal).then_some(receiver)))
    })
}

fn unavailable(message: String) -> Failure {
    Failure::new(FailureKind::Unavailable, message)
}

fn worker_died() -> Failure {
    Failure::new(FailureKind::Internal, "the thread of the chat model failed; its log says why")
}
