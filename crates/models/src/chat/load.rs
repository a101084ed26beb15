//! How a model gets ready: its file is found, prepared and read, its state made, and its thread given all of that.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::crowd::{Threads, threads_here};
use super::llama::{Context, ContextSize, Sequence, Weights, instructions, version};
use super::passages::{self, Counts, Key, Passages, Store, shape_of};
use super::prepared::{ModelFile, Prepared, prepare};
use super::template::Template;
use super::worker::{BATCH, Jobs, Parts, Worker, WorkerLimits};
use super::{Keep, Limits, Ready, State, processor, unavailable};

/// A state of three windows holds four prompts at once that take three quarters of one each, with their answers.
const WINDOWS: usize = 3;

/// What is known before a model is loaded.
pub(super) struct Loading {
    pub(super) name: Arc<str>,
    pub(super) limits: Limits,
    pub(super) cache: Option<PathBuf>,
    pub(super) counts: Arc<Counts>,
    pub(super) jobs: Jobs,
    pub(super) stop: Arc<AtomicBool>,
}

impl Loading {
    /// Loads the model, or tells why it cannot be.
    pub(super) fn load(self, find: impl FnOnce() -> Result<ModelFile, String>) -> (State, Option<Worker>) {
        let (started, name, stop) = (Instant::now(), self.name.clone(), self.stop.clone());
        match processor::check().and_then(|()| find()).and_then(|file| self.read(&file)) {
            Ok((ready, worker)) => {
                let (window, milliseconds) = (ready.window, started.elapsed().as_millis());
                tracing::info!(model = &*name, window, milliseconds, "chat model loaded");
                (State::Ready(Arc::new(ready)), Some(worker))
            }
            Err(reason) => {
                // Whoever stopped it while it was read knows.
                if !stop.load(Ordering::Relaxed) {
                    tracing::error!(model = &*name, "chat model not loaded: {reason}");
                }
                let message = format!("the chat model {name} could not be loaded: {reason}");
                (State::Failed(unavailable(message)), None)
            }
        }
    }

    fn read(self, file: &ModelFile) -> Result<(Ready, Worker), String> {
        let at = |reason: String| format!("{}: {reason}", file.path.display());
        let prepared = match &self.cache {
            Some(cache) => prepare(file, &cache.join("weights"), self.limits.threads),
            None => Prepared { path: file.path.clone(), name: None },
        };
        let weights = Weights::load(&prepared.path, &|| !self.stop.load(Ordering::Relaxed)).map_err(at)?;
        if !weights.writes() {
            return Err(at("it is no model that writes texts".to_owned()));
        }
        let template = Template::of(&weights).map_err(at)?;
        let weights = Arc::new(weights);
        let limits = self.worker_limits(&weights, &file.path);
        let size = self.size(limits.tokens).map_err(at)?;
        let others = threads_here();
        let mut context = Context::new(weights.clone(), size).map_err(at)?;
        let threads = self.threads(&others);
        let mut sequences: Vec<_> = context.sequences().collect();
        let strands = sequences.split_off(self.limits.answers);
        let passages = self.passages(&mut context, file, &prepared, strands);
        let ready = Ready { weights, window: limits.window, keeps_passages: passages.is_some() };
        let (jobs, stop) = (self.jobs, self.stop);
        let parts = Parts { context, sequences, passages, template, threads, limits, jobs, stop };
        Ok((ready, Worker::new(parts)))
    }

    fn worker_limits(&self, weights: &Weights, path: &Path) -> WorkerLimits {
        let window = self.limits.window.min(weights.trained_window());
        if window < self.limits.window {
            tracing::warn!(
                "{}: it was trained for {window} tokens, so its window has no more",
                path.display()
            );
        }
        let tokens = window.saturating_mul(WINDOWS);
        let Keep { put_off: puts_off, memory_bytes, .. } = self.limits.keep;
        let conversation_bytes = memory_bytes / 2;
        WorkerLimits { window, tokens, conversation_bytes, puts_off, seed: self.limits.seed }
    }

    fn size(&self, tokens: usize) -> Result<ContextSize, String> {
        let (more_tokens, strands) =
            if self.limits.keep.passages { (passages::TOKENS, passages::SEQUENCES) } else { (0, 0) };
        let sequences = self.limits.answers + strands;
        let all = tokens.saturating_add(more_tokens);
        Ok(ContextSize {
            tokens: u32::try_from(all).map_err(|_| "context_window is too large".to_owned())?,
            batch: u32::try_from(BATCH.min(tokens)).unwrap_or(u32::MAX),
            sequences: u32::try_from(sequences).unwrap_or(u32::MAX),
            threads: i32::try_from(self.limits.threads).unwrap_or(i32::MAX),
        })
    }

    /// The threads that there are now and were not before, and this one.
    fn threads(&self, others: &[PathBuf]) -> Threads {
        let mut watched = threads_here();
        watched.retain(|thread| !others.contains(thread));
        watched.push(PathBuf::from("/proc/thread-self/schedstat"));
        Threads::new(self.limits.threads, watched)
    }

    /// What keeps passages, if that is wanted and the model allows it.
    fn passages(
        &self,
        context: &mut Context,
        file: &ModelFile,
        prepared: &Prepared,
        strands: Vec<Sequence>,
    ) -> Option<Passages> {
        let [one, other, ..] = *strands.as_slice() else { return None };
        let shape = shape_of(context, [one, other]).inspect_err(|reason| {
            tracing::warn!(model = &*self.name, "passages are read as part of each prompt: {reason}");
        });
        let shape = shape.ok()?;
        let weights =
            prepared.name.clone().map_or_else(|| file.sha256().map(|sha256| sha256.to_string()), Ok);
        let weights = weights.inspect_err(|error| tracing::warn!("passages are not kept: {error}")).ok()?;
        let compiled = format!("{:?}", instructions());
        let model = Key::of_model(&["1", &version(), &compiled, &weights, "f16", "flash attention"]);
        let store = Store::open(
            self.cache.as_ref().map(|cache| cache.join("states")),
            self.limits.keep,
            self.counts.clone(),
        );
        Passages::new(shape, model, store, strands)
    }
}
