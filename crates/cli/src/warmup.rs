//! The warm-up of a prefix cache: a background task that walks the catalog, so that its passages are cached before a
//! prompt needs them. The model computes them only while no prompt is queued or running.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    Catalog, CatalogChanges, ChunkId, Failure, Passage, Principal, Provider, Request, StorageError,
    WarmupPause, WarmupProgress,
};
use models::chat::LlamaProvider;
use tokio::time::sleep;
use tracing::{debug, info, warn};

/// Chunks that are read from the catalog together.
const CHUNKS: usize = 64;

/// The embedding model of no vectors: with vectors, a chunk would be listed again when it is embedded.
const NO_VECTORS: &str = "";

/// Interval between two passes.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Why a pass leaves passages out.
const FULL: &str = "the prefix cache is full (models.prefix_cache_disk_bytes): other passages are cached when prompts \
                    need them";

/// Walks the catalog for a model with a prefix cache.
pub(crate) struct Warmup {
    catalog: Arc<dyn Catalog>,
    model: Arc<LlamaProvider>,
    /// Models that share the cache's folder; each fills its share, so that they do not evict each other.
    sharers: u64,
    /// The catalog's revision at the end of the last pass.
    revision: u64,
}

/// Chunks of one owner.
type ChunkGroup = (Principal, Vec<ChunkId>);

/// The result of a pass.
#[derive(Debug, Default)]
pub(crate) struct WarmupPass {
    /// Passages beyond `done` do not fit into the cache.
    pub(crate) progress: WarmupProgress,
    /// Passages that are too long for the cache.
    pub(crate) too_long: u64,
    /// Bytes of the passages that are cached.
    bytes: u64,
    /// Upper bound on these.
    capacity: u64,
}

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WarmupError {
    /// The catalog; the next pass may succeed.
    #[error(transparent)]
    Catalog(#[from] StorageError),
    /// The model, for good.
    #[error(transparent)]
    Model(#[from] Failure),
}

impl Warmup {
    pub(crate) fn new(catalog: Arc<dyn Catalog>, model: Arc<LlamaProvider>, sharers: usize) -> Self {
        Self { catalog, model, sharers: sharers.max(1) as u64, revision: 0 }
    }

    /// Walks the catalog, then what changes in it. Sets the progress in the model's status.
    pub(crate) async fn run(mut self) {
        let (model, mut all) = (self.model.clone(), WarmupProgress::default());
        loop {
            let before = all.clone();
            let report = |progress: &WarmupProgress| model.set_warmup(sum(&before, progress));
            match self.pass(None, report).await {
                Ok(WarmupPass { progress, .. }) => {
                    let WarmupProgress { done, total, prefilled, .. } = progress;
                    if prefilled > 0 {
                        debug!(done, prefilled, "passages prefilled");
                    }
                    if done < total {
                        info!("{FULL}");
                    }
                    all = sum(&before, &progress);
                    all.paused = (all.done < all.total).then_some(WarmupPause::CacheFull);
                }
                Err(WarmupError::Catalog(error)) => {
                    warn!("passages cannot be prefilled now: {error}");
                    all = WarmupProgress { paused: Some(WarmupPause::Retrying(error.to_string())), ..before };
                }
                Err(WarmupError::Model(failure)) => {
                    warn!("passages are not prefilled: {failure}");
                    let stopped = model.status().warmup.unwrap_or_default();
                    let paused = Some(WarmupPause::Failed(failure.message));
                    return model.set_warmup(WarmupProgress { paused, ..stopped });
                }
            }
            model.set_warmup(all.clone());
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Caches the passages that are new since the last pass, of one collection or of all. First marks those that are
    /// cached as used, so that the others do not evict them; then computes the others, while all of them together fit.
    pub(crate) async fn pass(
        &mut self,
        collection: Option<&str>,
        report: impl Fn(&WarmupProgress),
    ) -> Result<WarmupPass, WarmupError> {
        let (revision, groups) = self.new_chunks(collection).await?;
        let mut pass = WarmupPass::default();
        pass.progress.total = groups.iter().map(|(_, chunks)| chunks.len() as u64).sum();
        if pass.progress.total > 0 {
            let paused = self.model.health().await.err();
            let paused = paused.map(|failure| WarmupPause::Retrying(failure.message));
            report(&WarmupProgress { paused, ..pass.progress.clone() });
            self.model.ready().await;
            let missing = self.mark_cached(&groups, &mut pass, &report).await?;
            self.prefill(&missing, &mut pass, &report).await?;
        }
        self.revision = revision;
        Ok(pass)
    }

    /// The new chunks in groups of one owner, and the revision that has them all.
    async fn new_chunks(&self, collection: Option<&str>) -> Result<(u64, Vec<ChunkGroup>), StorageError> {
        let (mut from, mut groups) = (self.revision, Vec::new());
        loop {
            let changes = self.catalog.changes_since(from, NO_VECTORS, CHUNKS).await?;
            let CatalogChanges { revision, more, added, .. } = changes;
            let mut by_owner = BTreeMap::<Principal, Vec<ChunkId>>::new();
            added.into_iter().for_each(|chunk| by_owner.entry(chunk.who).or_default().push(chunk.chunk));
            for (who, mut chunks) in by_owner {
                if let Some(collection) = collection {
                    let stored = self.catalog.chunks(&who, &chunks).await?;
                    let own = stored.iter().filter(|chunk| chunk.document.place.collection == collection);
                    chunks = own.map(|chunk| chunk.chunk.id).collect();
                }
                groups.push((who, chunks));
            }
            from = revision;
            if !more {
                return Ok((from, groups));
            }
        }
    }

    /// Marks the cached passages as used, and returns the others with their bytes.
    async fn mark_cached<'g>(
        &self,
        groups: &'g [ChunkGroup],
        pass: &mut WarmupPass,
        report: &impl Fn(&WarmupProgress),
    ) -> Result<Vec<(&'g Principal, ChunkId, u64)>, WarmupError> {
        let mut missing = Vec::new();
        for (who, chunks) in groups {
            let missing_before = missing.len();
            for passage in self.passages(who, chunks).await? {
                let chunk = passage.chunk;
                let lookup = self.model.look_up_passage(about(passage)).await?;
                match lookup.bytes {
                    None => pass.too_long += 1,
                    Some(bytes) if lookup.is_cached => pass.bytes += bytes,
                    Some(bytes) => missing.push((who, chunk, bytes)),
                }
                pass.capacity = (lookup.capacity / self.sharers).max(pass.capacity);
            }
            pass.progress.done += (chunks.len() + missing_before - missing.len()) as u64;
            report(&pass.progress);
        }
        Ok(missing)
    }

    /// Computes passages of these sizes, while they fit.
    async fn prefill(
        &self,
        missing: &[(&Principal, ChunkId, u64)],
        pass: &mut WarmupPass,
        report: &impl Fn(&WarmupProgress),
    ) -> Result<(), WarmupError> {
        for (who, chunk, bytes) in missing {
            if pass.bytes + bytes > pass.capacity {
                break;
            }
            for passage in self.passages(who, &[*chunk]).await? {
                if self.model.prefill_passage(about(passage)).await?.is_cached {
                    pass.progress.prefilled += 1;
                    pass.bytes += bytes;
                }
            }
            pass.progress.done += 1;
            report(&pass.progress);
        }
        Ok(())
    }

    async fn passages(&self, who: &Principal, chunks: &[ChunkId]) -> Result<Vec<Passage>, StorageError> {
        let stored = self.catalog.chunks(who, chunks).await?;
        Ok(stored.into_iter().map(|chunk| chunk.into_passage(0.0)).collect())
    }
}

/// A request whose prompt has the passage where prompts about it have it.
fn about(passage: Passage) -> Arc<Request> {
    Arc::new(engine::passages_request(vec![passage]))
}

fn sum(before: &WarmupProgress, pass: &WarmupProgress) -> WarmupProgress {
    WarmupProgress {
        done: before.done + pass.done,
        total: before.total + pass.total,
        prefilled: before.prefilled + pass.prefilled,
        paused: pass.paused.clone(),
    }
}
