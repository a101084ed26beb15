//! The embedder that runs in the process: BERT-like models in pure Rust. Nobody waits for it to start: it is
//! there at once and loads its model on a thread of its own.

mod folder;
mod hmsemb;
mod invalid;
mod kernels;
mod model;
mod safetensors;
mod tensors;
mod tokens;
mod weights;
mod workers;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, thread};

use async_trait::async_trait;
use domain::{Embedder, EmbeddingPriority, EmbeddingShape, Failure, FailureKind, TokenCounter};
use tokio::sync::watch;

use folder::Folder;
use hmsemb::HmsembFile;
pub use invalid::{InvalidModel, Problem};
use model::{Model, Workspace};
use tokens::Tokens;
use weights::Checkpoint;
pub use workers::Limits;
use workers::{Embed, Workers};

/// An embedder whose model runs in this process.
pub struct BertEmbedder {
    name: String,
    state: watch::Receiver<State>,
}

#[derive(Clone)]
enum State {
    Loading,
    Ready(Arc<Ready>),
    Failed(Failure),
}

struct Ready {
    workers: Workers,
    model: Arc<LoadedModel>,
}

impl BertEmbedder {
    /// Begins to load the model at `path`: an `.hmsemb` file, or the folder of a sentence-transformers model.
    /// If that fails, `health` and every call tell why.
    pub fn open(name: impl Into<String>, path: impl Into<PathBuf>, limits: Limits) -> Self {
        let path = path.into();
        Self::find_and_open(name, || Ok(path), limits)
    }

    /// The same with a path that has to be found first, which may take its time, or fail with a reason.
    pub fn find_and_open(
        name: impl Into<String>,
        find: impl FnOnce() -> Result<PathBuf, String> + Send + 'static,
        limits: Limits,
    ) -> Self {
        let name = name.into();
        let (told, state) = watch::channel(State::Loading);
        let called = name.clone();
        let load = move || told.send_replace(load(&called, find, limits));
        if let Err(error) = thread::Builder::new().name("embed-load".to_owned()).spawn(load) {
            let failure = unavailable(format!("no thread can be started to load {name}: {error}"));
            return Self { name, state: watch::channel(State::Failed(failure)).1 };
        }
        Self { name, state }
    }

    async fn ready(&self) -> Result<Arc<Ready>, Failure> {
        let mut state = self.state.clone();
        match state.wait_for(|state| !matches!(state, State::Loading)).await.as_deref() {
            Ok(State::Ready(ready)) => Ok(Arc::clone(ready)),
            Ok(State::Failed(failure)) => Err(failure.clone()),
            Ok(State::Loading) | Err(_) => Err(self.load_died()),
        }
    }

    fn load_died(&self) -> Failure {
        let message = format!("loading the embedding model {} broke off; its log says why", self.name);
        Failure::new(FailureKind::Internal, message)
    }
}

#[async_trait]
impl Embedder for BertEmbedder {
    fn model(&self) -> &str {
        &self.name
    }

    async fn shape(&self) -> Result<EmbeddingShape, Failure> {
        Ok(self.ready().await?.model.shape())
    }

    async fn token_counter(&self) -> Result<TokenCounter, Failure> {
        Ok(self.ready().await?.model.tokens.counter())
    }

    async fn embed(&self, texts: Vec<String>, priority: EmbeddingPriority) -> Result<Vec<Vec<f32>>, Failure> {
        self.ready().await?.workers.embed(texts, priority).await
    }

    async fn health(&self) -> Result<(), Failure> {
        match &*self.state.borrow() {
            State::Ready(_) => Ok(()),
            State::Failed(failure) => Err(failure.clone()),
            State::Loading if self.state.has_changed().is_err() => Err(self.load_died()),
            State::Loading => {
                let mut failure = unavailable(format!("the embedding model {} is being loaded", self.name));
                failure.retry_after = Some(Duration::from_secs(1));
                Err(failure)
            }
        }
    }
}

impl fmt::Debug for BertEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BertEmbedder").field("name", &self.name).finish_non_exhaustive()
    }
}

fn load(name: &str, find: impl FnOnce() -> Result<PathBuf, String>, limits: Limits) -> State {
    let started = Instant::now();
    let read = |path: PathBuf| LoadedModel::read(&path).map_err(|invalid| invalid.to_string());
    let loaded = find().and_then(read).and_then(|loaded| {
        let model = Arc::new(loaded);
        let workers = Workers::start(&model, limits);
        workers.map(|workers| Ready { workers, model }).map_err(|error| format!("no threads: {error}"))
    });
    match loaded {
        Ok(ready) => {
            tracing::info!(
                model = name,
                milliseconds = started.elapsed().as_millis(),
                "embedding model loaded"
            );
            State::Ready(Arc::new(ready))
        }
        Err(reason) => {
            tracing::error!(model = name, "embedding model not loaded: {reason}");
            State::Failed(unavailable(format!("the embedding model {name} could not be loaded: {reason}")))
        }
    }
}

fn unavailable(message: String) -> Failure {
    Failure::new(FailureKind::Unavailable, message)
}

/// A model and its tokenizer.
struct LoadedModel {
    model: Model,
    tokens: Tokens,
}

impl LoadedModel {
    fn read(path: &Path) -> Result<Self, InvalidModel> {
        let mut checkpoint = checkpoint(path)?;
        let tokens = Tokens::new(&checkpoint.tokenizer()?, checkpoint.architecture(), path)?;
        Ok(Self { model: Model::load(&mut *checkpoint)?, tokens })
    }

    fn shape(&self) -> EmbeddingShape {
        let architecture = self.model.architecture();
        EmbeddingShape { dimension: architecture.hidden, token_limit: architecture.token_limit }
    }
}

fn checkpoint(path: &Path) -> Result<Box<dyn Checkpoint>, InvalidModel> {
    if path.is_dir() {
        return Ok(Box::new(Folder::open(path)?));
    }
    Ok(Box::new(HmsembFile::open(path)?))
}

impl Embed for LoadedModel {
    type Space = Workspace;

    fn tokens(&self, text: &str) -> Result<Vec<u32>, String> {
        self.tokens.encode(text)
    }

    fn embed(&self, texts: &[&[u32]], space: &mut Workspace) -> Vec<Vec<f32>> {
        self.model.embed(texts, space)
    }
}
