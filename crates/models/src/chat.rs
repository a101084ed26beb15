//! The chat model that runs in the process, through llama.cpp. Nobody waits for it to start: it is there at once and
//! loads its model on a thread of its own, which then computes all answers, several at a time.

mod answer;
mod bare;
mod characters;
mod conversations;
mod crowd;
mod kept;
mod llama;
mod load;
mod passages;
mod prepared;
mod processor;
mod prompt;
mod sampler;
mod template;
mod whole;
mod worker;

#[cfg(test)]
mod tests;

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

use answer::{Event, Listener};
pub use bare::BareLoop;
use llama::{Parse, Weights};
use load::Loading;
use passages::Counts;
pub use prepared::ModelFile;
pub use worker::{Ahead, Read, Room};
use worker::{Job, Jobs};

/// Before a model is loaded, nobody knows its tokens; two bytes each is on the safe side for prose and code.
const BYTES_PER_TOKEN: usize = 2;

/// A chat model of this process.
pub struct LlamaProvider {
    model: ModelId,
    limits: Limits,
    state: watch::Receiver<State>,
    places: Arc<Semaphore>,
    jobs: SyncSender<Option<Job>>,
    asking: Arc<AtomicUsize>,
    ahead: Arc<Semaphore>,
    counts: Arc<Counts>,
    reading_ahead: Mutex<Option<WarmupProgress>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How much is done at once, and how much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tokens of a prompt and its answer, if the model was trained for so many.
    pub window: usize,
    /// Answers that are written at once.
    pub answers: usize,
    /// Prompts that may wait for one of these to end; more are refused.
    pub waiting: usize,
    /// Threads that compute.
    pub threads: usize,
    /// What chance is taken from, at temperatures above 0; without it, it is another one each time.
    pub seed: Option<u64>,
    /// How much is kept of what was read.
    pub keep: Keep,
}

impl Default for Limits {
    fn default() -> Self {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        Self { window: 8_192, answers: 4, waiting: 8, threads, seed: None, keep: Keep::default() }
    }
}

/// How much is kept of what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Whether passages are read one by one and kept. Otherwise each prompt is read as a whole.
    pub passages: bool,
    /// Whether there will be time: a prompt of which little is kept may then be read as a whole, and its passages by
    /// themselves while nobody asks.
    pub put_off: bool,
    /// Bytes in memory: one half for passages, the other for conversations.
    pub memory_bytes: usize,
    /// Bytes of passages in files.
    pub disk_bytes: u64,
}

impl Default for Keep {
    fn default() -> Self {
        Self { passages: true, put_off: true, memory_bytes: 256 << 20, disk_bytes: 2 << 30 }
    }
}

#[derive(Clone)]
enum State {
    Loading,
    Ready(Arc<Ready>),
    Failed(Failure),
}

struct Ready {
    weights: Arc<Weights>,
    window: usize,
    keeps_passages: bool,
}

impl LlamaProvider {
    /// Begins to load the GGUF file at `path`. If that fails, `health` and every call tell why.
    pub fn open(model: ModelId, path: impl Into<PathBuf>, limits: Limits) -> Self {
        let file = ModelFile { path: path.into(), sha256: None };
        Self::find_and_open(model, || Ok(file), None, limits)
    }

    /// The same with a file that has to be found first, which may take its time, or fail with a reason; and with a
    /// folder for what is computed once.
    pub fn find_and_open(
        model: ModelId,
        find: impl FnOnce() -> Result<ModelFile, String> + Send + 'static,
        cache: Option<PathBuf>,
        limits: Limits,
    ) -> Self {
        let (tell, state) = watch::channel(State::Loading);
        let (stop, asking, counts) = (Arc::new(AtomicBool::new(false)), Arc::default(), Arc::default());
        // Nobody ever waits to send: there are no more jobs than places, one that is read ahead, and one message to
        // stop.
        let places = limits.answers + limits.waiting;
        let (jobs, received) = sync_channel(places + 2);
        let loading = Loading {
            name: model.model.clone(),
            limits,
            cache,
            counts: Arc::clone(&counts),
            jobs: Jobs { received, asking: Arc::clone(&asking) },
            stop: stop.clone(),
        };
        let work = move || {
            let (state, worker) = loading.load(find);
            tell.send_replace(state);
            // Whoever asks later sees by this that nobody would answer any more.
            let _alive = tell;
            if let Some(worker) = worker {
                worker.run();
            }
        };
        let (state, thread) = match thread::Builder::new().name("chat".to_owned()).spawn(work) {
            Ok(thread) => (state, Some(thread)),
            Err(error) => {
                let failure = unavailable(format!("no thread can be started for {}: {error}", model.model));
                (watch::channel(State::Failed(failure)).1, None)
            }
        };
        let (places, ahead) = (Arc::new(Semaphore::new(places)), Arc::new(Semaphore::new(1)));
        let reading_ahead = Mutex::default();
        Self { model, limits, state, places, jobs, asking, ahead, counts, reading_ahead, stop, thread }
    }

    /// Reads the passages of a request ahead of any question, when nobody waits for anything else, and keeps what it
    /// has read.
    pub async fn read_ahead(&self, request: Arc<Request>, room: Room) -> Result<Ahead, Failure> {
        // One at a time.
        let _turn = self.ahead.acquire().await.map_err(|_| died())?;
        ready(self.state.clone()).await?;
        let (told, heard) = oneshot::channel();
        self.jobs.try_send(Some(Job::Ahead(request, room, told))).map_err(|_| died())?;
        heard.await.map_err(|_| died())
    }

    /// Takes note of how reading ahead goes, which only whoever asks for it knows, so that `standing` tells it.
    pub fn note_reading_ahead(&self, now: WarmupProgress) {
        *self.reading_ahead.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// Bytes that all kept passages may have.
    pub fn most_kept_bytes(&self) -> u64 {
        let Keep { memory_bytes, disk_bytes, .. } = self.limits.keep;
        disk_bytes.max(memory_bytes as u64 / 2)
    }

    fn loaded(&self) -> Option<Arc<Ready>> {
        match &*self.state.borrow() {
            State::Ready(ready) => Some(Arc::clone(ready)),
            State::Loading | State::Failed(_) => None,
        }
    }
}

#[async_trait]
impl Provider for LlamaProvider {
    fn model(&self) -> ModelId {
        self.model.clone()
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            return stream::iter([Err(self.limits.overloaded())]).boxed();
        };
        let started = stream::iter([Ok(ModelEvent::Started(self.model()))]);
        let events = submit(self.state.clone(), self.jobs.clone(), self.asking.clone(), request, place).map(
            |submitted| match submitted {
                Ok(heard) => Either::Left(events(heard)),
                Err(failure) => Either::Right(stream::iter([Err(failure)])),
            },
        );
        started.chain(events.flatten_stream()).boxed()
    }

    async fn ready(&self) {
        // Why it is not is told to whoever asks it.
        let _ = ready(self.state.clone()).await;
    }

    fn room(&self, request: &Request) -> Option<usize> {
        let window = self.loaded().map_or(self.limits.window, |ready| ready.window);
        request.room(window, |text| self.count_tokens(text))
    }

    fn count_tokens(&self, text: &str) -> usize {
        match self.loaded() {
            Some(ready) => {
                let tokens = ready.weights.vocabulary().tokens(text, Parse::Plain);
                tokens.map_or(text.len(), |tokens| tokens.len())
            }
            None => text.len().div_ceil(BYTES_PER_TOKEN),
        }
    }

    async fn health(&self) -> Result<(), Failure> {
        match &*self.state.borrow() {
            State::Failed(failure) => Err(failure.clone()),
            State::Loading | State::Ready(_) if self.state.has_changed().is_err() => Err(died()),
            State::Ready(_) => Ok(()),
            State::Loading => {
                let mut failure = unavailable(format!("the model {} is being loaded", self.model.model));
                failure.retry_after = Some(Duration::from_secs(1));
                Err(failure)
            }
        }
    }

    fn status(&self) -> ProviderStatus {
        let prefix_cache = self.loaded().filter(|ready| ready.keeps_passages).map(|_| self.counts.told());
        let warmup = self.reading_ahead.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ProviderStatus { prefix_cache, warmup, ..ProviderStatus::default() }
    }
}

impl Drop for LlamaProvider {
    /// Stops what is computed, which takes no longer than a step of it: llama.cpp must not be at work any more
    /// when the process ends.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It may be waiting for work. If it is gone, it has stopped.
        let _ = self.jobs.try_send(None);
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was told.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for LlamaProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlamaProvider").field("model", &self.model).finish_non_exhaustive()
    }
}

impl Limits {
    fn overloaded(&self) -> Failure {
        let Self { answers, waiting, .. } = self;
        let message = format!(
            "the model writes {answers} answers at once, and {waiting} more prompts wait for it \
             (limits.model_queue): ask again later"
        );
        let mut failure = Failure::new(FailureKind::Overloaded, message);
        failure.retry_after = Some(Duration::from_secs(5));
        failure
    }
}

/// Waits for the model and hands the request over.
async fn submit(
    state: watch::Receiver<State>,
    jobs: SyncSender<Option<Job>>,
    asking: Arc<AtomicUsize>,
    request: Arc<Request>,
    place: OwnedSemaphorePermit,
) -> Result<mpsc::Receiver<Event>, Failure> {
    ready(state).await?;
    let (listener, heard) = Listener::new(&request, place);
    asking.fetch_add(1, Ordering::Relaxed);
    jobs.try_send(Some(Job::Answer(request, listener))).map_err(|_| died())?;
    Ok(heard)
}

/// Waits for the model.
async fn ready(mut state: watch::Receiver<State>) -> Result<(), Failure> {
    match state.wait_for(|state| !matches!(state, State::Loading)).await.as_deref() {
        Ok(State::Ready(_)) => Ok(()),
        Ok(State::Failed(failure)) => Err(failure.clone()),
        Ok(State::Loading) | Err(_) => Err(died()),
    }
}

/// What is heard, up to the end and with one in any case.
fn events(heard: mpsc::Receiver<Event>) -> impl stream::Stream<Item = Event> {
    stream::unfold(Some(heard), |heard| async {
        let mut heard = heard?;
        let event = heard.recv().await.unwrap_or_else(|| Err(died()));
        let is_last = matches!(event, Ok(ModelEvent::Finish(_)) | Err(_));
        Some((event, (!is_last).then_some(heard)))
    })
}

fn unavailable(message: String) -> Failure {
    Failure::new(FailureKind::Unavailable, message)
}

fn died() -> Failure {
    Failure::new(FailureKind::Internal, "the thread of the chat model failed; its log says why")
}
