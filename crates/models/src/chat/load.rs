//! Loads a chat model: finds and repacks its file, reads the weights, creates the context and the worker.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::cpu_contention::{ComputeThreads, thread_stats};
use super::llama::{Context, ContextSize, Sequence, Weights, required_cpu_features, version};
use super::load_error::{LoadError, ModelError};
use super::prefix_cache::{CacheKey, Counters, MAX_PREFILL_TOKENS, PrefixCache, Store, probe};
use super::repacked_weights::{ModelFile, WeightFile, weight_file};
use super::template::Template;
use super::worker::{BATCH_TOKENS, Decoder, JobReceiver, Worker, WorkerLimits};
use super::{Limits, LoadState, LoadedModel, PrefixCacheLimits, cpu_features, unavailable};

/// The KV cache has room for this many context windows: four prompts of three quarters of a window each, with answers.
const WINDOWS: usize = 3;

/// A change of how KV states are computed or stored changes this part of their keys.
const KEY_VERSION: &str = "2";

/// What is known before a model is loaded.
pub(super) struct Loader {
    pub(super) name: Arc<str>,
    pub(super) limits: Limits,
    pub(super) cache: Option<PathBuf>,
    pub(super) counters: Arc<Counters>,
    pub(super) jobs: JobReceiver,
    pub(super) stop: Arc<AtomicBool>,
}

impl Loader {
    /// Loads the model and creates its worker.
    pub(super) fn load(
        self,
        find: impl FnOnce() -> Result<ModelFile, Box<dyn std::error::Error + Send + Sync>>,
    ) -> (LoadState, Option<Worker>) {
        let (started, name, stop) = (Instant::now(), self.name.clone(), self.stop.clone());
        let file = cpu_features::check().and_then(|()| find().map_err(LoadError::NotFound));
        match file.and_then(|file| self.load_file(&file).map_err(|error| error.at(file.path))) {
            Ok((model, worker)) => {
                let (window, milliseconds) = (model.window, started.elapsed().as_millis());
                tracing::info!(model = &*name, window, milliseconds, "chat model loaded");
                (LoadState::Loaded(Arc::new(model)), Some(worker))
            }
            Err(error) => {
                // A stop aborts loading, too.
                if !stop.load(Ordering::Relaxed) {
                    tracing::error!(model = &*name, "chat model not loaded: {error}");
                }
                let message = format!("the chat model {name} could not be loaded: {error}");
                (LoadState::Failed(unavailable(message)), None)
            }
        }
    }

    fn load_file(self, file: &ModelFile) -> Result<(LoadedModel, Worker), ModelError> {
        let weight_file = match &self.cache {
            Some(cache) => weight_file(file, &cache.join("weights"), self.limits.threads),
            None => WeightFile { path: file.path.clone(), repacked: None },
        };
        let weights = Weights::load(&weight_file.path, &|| !self.stop.load(Ordering::Relaxed))?;
        if !weights.generates_text() {
            return Err(ModelError::NotGenerative);
        }
        let template = Template::of(&weights)?;
        let weights = Arc::new(weights);
        let limits = self.worker_limits(&weights, &file.path);
        let threads_before = thread_stats();
        let mut context = Context::new(weights.clone(), self.context_size(limits.tokens)?)?;
        let threads = self.compute_threads(&threads_before);
        let mut sequences: Vec<_> = context.sequences().collect();
        let prefix_cache = self.limits.prefix_cache.and_then(|limits| {
            let own = sequences.pop()?;
            self.prefix_cache(limits, &mut context, [own, sequences[0]], file, &weight_file)
        });
        let model = LoadedModel { weights, window: limits.window, has_prefix_cache: prefix_cache.is_some() };
        let decoder = Decoder::new(context, threads, self.stop);
        Ok((model, Worker::new(decoder, sequences, prefix_cache, template, limits, self.jobs)))
    }

    fn worker_limits(&self, weights: &Weights, path: &Path) -> WorkerLimits {
        let Limits { conversation_bytes, seed, .. } = self.limits;
        let window = self.limits.window.min(weights.trained_window());
        if window < self.limits.window {
            tracing::warn!("{}: its context window is {window} tokens, as it was trained", path.display());
        }
        WorkerLimits { window, tokens: window.saturating_mul(WINDOWS), conversation_bytes, seed }
    }

    fn context_size(&self, tokens: usize) -> Result<ContextSize, ModelError> {
        let for_prefix_cache = usize::from(self.limits.prefix_cache.is_some());
        let all = tokens.saturating_add(for_prefix_cache * MAX_PREFILL_TOKENS);
        Ok(ContextSize {
            tokens: u32::try_from(all).map_err(|_| ModelError::WindowTooLarge)?,
            batch: u32::try_from(BATCH_TOKENS.min(tokens)).unwrap_or(u32::MAX),
            sequences: u32::try_from(self.limits.answers + for_prefix_cache).unwrap_or(u32::MAX),
            threads: i32::try_from(self.limits.threads).unwrap_or(i32::MAX),
        })
    }

    /// This thread and those that the context has started.
    fn compute_threads(&self, before: &[PathBuf]) -> ComputeThreads {
        let mut watched = thread_stats();
        watched.retain(|thread| !before.contains(thread));
        watched.push(PathBuf::from("/proc/thread-self/schedstat"));
        ComputeThreads::new(self.limits.threads, watched)
    }

    /// The prefix cache, if the model allows it. The second sequence is borrowed for the probe.
    fn prefix_cache(
        &self,
        limits: PrefixCacheLimits,
        context: &mut Context,
        sequences: [Sequence; 2],
        file: &ModelFile,
        weight_file: &WeightFile,
    ) -> Option<PrefixCache> {
        let warn = |reason: &dyn std::error::Error| {
            tracing::warn!(model = &*self.name, "prompts are prefilled as a whole: {reason}");
        };
        let layout = probe(context, sequences).inspect_err(|reason| warn(reason)).ok()?;
        let weights = match &weight_file.repacked {
            Some(name) => name.clone(),
            None => file.sha256().inspect_err(|error| warn(error)).ok()?.to_string(),
        };
        let features: Vec<_> = required_cpu_features().iter().map(|feature| feature.name).collect();
        let model = CacheKey::of_model(&[
            KEY_VERSION,
            &version(),
            &features.join(" "),
            &weights,
            "f16",
            "flash attention",
        ]);
        let PrefixCacheLimits { memory_bytes, disk_bytes, pending } = limits;
        let store = Store::open(self.cache.as_deref(), memory_bytes, disk_bytes, self.counters.clone());
        Some(PrefixCache::new(layout, model, store, sequences[0], pending))
    }
}
