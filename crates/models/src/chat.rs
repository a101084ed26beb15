//! The chat model that runs in the process, through llama.cpp. Nobody waits for it to start: it is there at once and
//! loads its model on a thread of its own, which then computes all answers, several at a time.

mod answer;
mod bare;
mod characters;
mod crowd;
mod kept;
mod llama;
mod prepared;
mod processor;
mod prompt;
mod sampler;
mod template;
mod worker;

#[cfg(test)]
mod tests;

use std::fmt;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use domain::{Failure, FailureKind, Model, ModelEvent, ModelStream, Provider, Request};
use futures::future::{Either, FutureExt};
use futures::stream::{self, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use answer::{Event, Listener};
pub use bare::BareLoop;
use crowd::{Threads, threads_here};
use llama::{Context, ContextSize, Parse, Weights};

pub use prepared::ModelFile;
use template::Template;
use worker::{BATCH, Job, Worker, WorkerLimits};

/// A state of twice the window holds two of the largest prompts, or several ordinary ones.
const WINDOWS: usize = 2;

/// Sequences beside those that answers are written in: what they hold serves the next prompts.
const IDLE_SEQUENCES: usize = 4;

/// Before a model is loaded, nobody knows its tokens; two bytes each is on the safe side for prose and code.
const BYTES_PER_TOKEN: usize = 2;

/// A chat model of this process.
pub struct LlamaProvider {
    model: Model,
    limits: Limits,
    state: watch::Receiver<State>,
    places: Arc<Semaphore>,
    jobs: SyncSender<Option<Job>>,
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
}

impl Default for Limits {
    fn default() -> Self {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        Self { window: 8_192, answers: 4, waiting: 8, threads, seed: None }
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
}

impl LlamaProvider {
    /// Begins to load the GGUF file at `path`. If that fails, `health` and every call tell why.
    pub fn open(model: Model, path: impl Into<PathBuf>, limits: Limits) -> Self {
        let file = ModelFile { path: path.into(), sha256: None };
        Self::find_and_open(model, || Ok(file), None, limits)
    }

    /// The same with a file that has to be found first, which may take its time, or fail with a reason. What is made
    /// of it to be faster is kept in the folder `cache`.
    pub fn find_and_open(
        model: Model,
        find: impl FnOnce() -> Result<ModelFile, String> + Send + 'static,
        cache: Option<PathBuf>,
        limits: Limits,
    ) -> Self {
        let (tell, state) = watch::channel(State::Loading);
        let stop = Arc::new(AtomicBool::new(false));
        // Nobody ever waits to send: there are no more jobs than places, and one message to stop.
        let places = limits.answers + limits.waiting;
        let (jobs, received) = sync_channel(places + 1);
        let name = model.model.clone();
        let work = {
            let stop = stop.clone();
            move || {
                let prepare = |file: ModelFile| match &cache {
                    Some(cache) => prepared::prepare(&file, &cache.join("weights"), limits.threads),
                    None => file.path,
                };
                let find = || find().map(prepare);
                let (state, worker) = load(&name, find, limits, received, &stop);
                tell.send_replace(state);
                // Whoever asks later sees by this that nobody would answer any more.
                let _alive = tell;
                if let Some(worker) = worker {
                    worker.run();
                }
            }
        };
        let (state, thread) = match thread::Builder::new().name("chat".to_owned()).spawn(work) {
            Ok(thread) => (state, Some(thread)),
            Err(error) => {
                let failure = unavailable(format!("no thread can be started for {}: {error}", model.model));
                (watch::channel(State::Failed(failure)).1, None)
            }
        };
        Self { model, limits, state, places: Arc::new(Semaphore::new(places)), jobs, stop, thread }
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
    fn model(&self) -> Model {
        self.model.clone()
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            return stream::iter([Err(self.limits.overloaded())]).boxed();
        };
        let started = stream::iter([Ok(ModelEvent::Started(self.model()))]);
        let events =
            submit(self.state.clone(), self.jobs.clone(), request, place).map(|submitted| match submitted {
                Ok(heard) => Either::Left(events(heard)),
                Err(failure) => Either::Right(stream::iter([Err(failure)])),
            });
        started.chain(events.flatten_stream()).boxed()
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
    mut state: watch::Receiver<State>,
    jobs: SyncSender<Option<Job>>,
    request: Arc<Request>,
    place: OwnedSemaphorePermit,
) -> Result<mpsc::Receiver<Event>, Failure> {
    match state.wait_for(|state| !matches!(state, State::Loading)).await.as_deref() {
        Ok(State::Ready(_)) => {}
        Ok(State::Failed(failure)) => return Err(failure.clone()),
        Ok(State::Loading) | Err(_) => return Err(died()),
    }
    let (listener, heard) = Listener::new(&request, place);
    jobs.try_send(Some(Job { request, listener })).map_err(|_| died())?;
    Ok(heard)
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

fn load(
    name: &str,
    find: impl FnOnce() -> Result<PathBuf, String>,
    limits: Limits,
    jobs: Receiver<Option<Job>>,
    stop: &Arc<AtomicBool>,
) -> (State, Option<Worker>) {
    let started = Instant::now();
    let loaded =
        processor::check().and_then(|()| find()).and_then(|path| read(&path, limits, jobs, stop.clone()));
    match loaded {
        Ok((ready, worker)) => {
            let milliseconds = started.elapsed().as_millis();
            tracing::info!(model = name, window = ready.window, milliseconds, "chat model loaded");
            (State::Ready(Arc::new(ready)), Some(worker))
        }
        Err(reason) => {
            // Whoever stopped it while it was read knows.
            if !stop.load(Ordering::Relaxed) {
                tracing::error!(model = name, "chat model not loaded: {reason}");
            }
            let message = format!("the chat model {name} could not be loaded: {reason}");
            (State::Failed(unavailable(message)), None)
        }
    }
}

fn read(
    path: &Path,
    limits: Limits,
    jobs: Receiver<Option<Job>>,
    stop: Arc<AtomicBool>,
) -> Result<(Ready, Worker), String> {
    let at = |reason: String| format!("{}: {reason}", path.display());
    let weights = Weights::load(path, &|| !stop.load(Ordering::Relaxed)).map_err(at)?;
    if !weights.writes() {
        return Err(at("it is no model that writes texts".to_owned()));
    }
    let template = Template::of(&weights).map_err(at)?;
    let window = limits.window.min(weights.trained_window());
    if window < limits.window {
        tracing::warn!("{}: it was trained for {window} tokens, so its window has no more", path.display());
    }
    let weights = Arc::new(weights);
    let tokens = window.saturating_mul(WINDOWS);
    let size = ContextSize {
        tokens: u32::try_from(tokens).map_err(|_| at("context_window is too large".to_owned()))?,
        batch: u32::try_from(BATCH.min(tokens)).unwrap_or(u32::MAX),
        sequences: u32::try_from(limits.answers + IDLE_SEQUENCES).unwrap_or(u32::MAX),
        threads: i32::try_from(limits.threads).unwrap_or(i32::MAX),
    };
    let others = threads_here();
    let context = Context::new(weights.clone(), size).map_err(at)?;
    // Those that are new, and this one.
    let mut watched = threads_here();
    watched.retain(|thread| !others.contains(thread));
    watched.push(PathBuf::from("/proc/thread-self/schedstat"));
    let threads = Threads::new(limits.threads, watched);
    let worker_limits = WorkerLimits { window, tokens, answers: limits.answers, seed: limits.seed };
    let worker = Worker::new(context, template, threads, worker_limits, jobs, stop);
    Ok((Ready { weights, window }, worker))
}

fn unavailable(message: String) -> Failure {
    Failure::new(FailureKind::Unavailable, message)
}

fn died() -> Failure {
    Failure::new(FailureKind::Internal, "the thread of the chat model failed; its log says why")
}
