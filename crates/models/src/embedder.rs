//! The embedder that runs in the process: BERT-like sentence encoders in pure Rust.
//!
//! [`BertEmbedder`] exists at once and loads its model on a thread of its own. `checkpoint` reads the file
//! formats into weights; `tokenizer` turns texts into tokens; `bert` is the forward pass on the arithmetic of
//! `kernels`; `workers` are the threads, with a queue that lets interactive queries overtake bulk work.

mod bert;
mod checkpoint;
mod invalid_model;
mod kernels;
#[cfg(test)]
mod tests;
mod tokenizer;
mod workers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use async_trait::async_trait;
use domain::{Embedder, EmbeddingPriority, EmbeddingShape, Failure, FailureKind, TokenCounter};
use tokio::sync::watch;

use crate::files::FileError;
use bert::{BertModel, Workspace};
use checkpoint::open_checkpoint;
use invalid_model::InvalidModel;
use tokenizer::{TextTokenizer, TokenizeError};
pub use workers::WorkerLimits;
use workers::{Embed, Workers};

/// An embedder whose model runs in this process.
pub struct BertEmbedder {
    name: String,
    state: watch::Receiver<LoadState>,
}

#[derive(Clone)]
enum LoadState {
    Loading,
    Ready(Arc<ReadyModel>),
    Failed(Failure),
}

struct ReadyModel {
    workers: Workers,
    model: Arc<LoadedModel>,
}

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Model(#[from] InvalidModel),
    #[error("its threads cannot be started: {0}")]
    Threads(#[from] io::Error),
}

impl BertEmbedder {
    /// Starts to load the model at `path`: an `.hmsemb` file, or the folder of a sentence-transformers model.
    /// If that fails, `health` and every call return the error.
    pub fn open(name: impl Into<String>, path: impl Into<PathBuf>, limits: WorkerLimits) -> Self {
        let path = path.into();
        Self::open_located(name, || Ok(path), limits)
    }

    /// Like [`open`](Self::open), with a path that has to be located first. `locate` runs on the loading
    /// thread, so it may block.
    pub fn open_located(
        name: impl Into<String>,
        locate: impl FnOnce() -> Result<PathBuf, FileError> + Send + 'static,
        limits: WorkerLimits,
    ) -> Self {
        let name = name.into();
        let (loaded, state) = watch::channel(LoadState::Loading);
        let model_name = name.clone();
        let load = move || loaded.send_replace(load(&model_name, locate, limits));
        if let Err(error) = thread::Builder::new().name("embed-load".to_owned()).spawn(load) {
            let failure = unavailable(format!("no thread can be started to load {name}: {error}"));
            return Self { name, state: watch::channel(LoadState::Failed(failure)).1 };
        }
        Self { name, state }
    }

    async fn ready(&self) -> Result<Arc<ReadyModel>, Failure> {
        let mut state = self.state.clone();
        match state.wait_for(|state| !matches!(state, LoadState::Loading)).await.as_deref() {
            Ok(LoadState::Ready(ready)) => Ok(Arc::clone(ready)),
            Ok(LoadState::Failed(failure)) => Err(failure.clone()),
            Ok(LoadState::Loading) | Err(_) => Err(self.load_panicked()),
        }
    }

    fn load_panicked(&self) -> Failure {
        let message = format!("loading the embedding model {} panicked; the log has the reason", self.name);
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
        Ok(self.ready().await?.model.tokenizer.counter())
    }

    async fn embed(&self, texts: Vec<String>, priority: EmbeddingPriority) -> Result<Vec<Vec<f32>>, Failure> {
        self.ready().await?.workers.embed(texts, priority).await
    }

    async fn health(&self) -> Result<(), Failure> {
        match &*self.state.borrow() {
            LoadState::Ready(_) => Ok(()),
            LoadState::Failed(failure) => Err(failure.clone()),
            LoadState::Loading if self.state.has_changed().is_err() => Err(self.load_panicked()),
            LoadState::Loading => {
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

fn load(name: &str, locate: impl FnOnce() -> Result<PathBuf, FileError>, limits: WorkerLimits) -> LoadState {
    let started = Instant::now();
    match try_load(locate, limits) {
        Ok(ready) => {
            tracing::info!(
                model = name,
                milliseconds = started.elapsed().as_millis(),
                "embedding model loaded"
            );
            LoadState::Ready(Arc::new(ready))
        }
        Err(error) => {
            tracing::error!(model = name, "embedding model not loaded: {error}");
            LoadState::Failed(unavailable(format!("the embedding model {name} could not be loaded: {error}")))
        }
    }
}

fn try_load(
    locate: impl FnOnce() -> Result<PathBuf, FileError>,
    limits: WorkerLimits,
) -> Result<ReadyModel, LoadError> {
    let model = Arc::new(LoadedModel::read(&locate()?)?);
    let workers = Workers::start(&model, limits)?;
    Ok(ReadyModel { workers, model })
}

fn unavailable(message: String) -> Failure {
    Failure::new(FailureKind::Unavailable, message)
}

/// A model with its tokenizer.
struct LoadedModel {
    model: BertModel,
    tokenizer: TextTokenizer,
}

impl LoadedModel {
    fn read(path: &Path) -> Result<Self, InvalidModel> {
        let mut checkpoint = open_checkpoint(path)?;
        let tokenizer = TextTokenizer::new(&checkpoint.tokenizer()?, checkpoint.architecture(), path)?;
        Ok(Self { model: BertModel::load(&mut *checkpoint)?, tokenizer })
    }

    fn shape(&self) -> EmbeddingShape {
        let architecture = self.model.architecture();
        EmbeddingShape { dimension: architecture.hidden, token_limit: architecture.token_limit }
    }
}

impl Embed for LoadedModel {
    type Workspace = Workspace;

    fn tokenize(&self, text: &str) -> Result<Vec<u32>, TokenizeError> {
        self.tokenizer.tokenize(text)
    }

    fn embed(&self, texts: &[&[u32]], workspace: &mut Workspace) -> Vec<Vec<f32>> {
        self.model.embed(texts, workspace)
    }
}
