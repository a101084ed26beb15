//! `wellspring models warm`: fills the prefix cache with passages before prompts need them.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use domain::{Provider, WarmupProgress};
use models::chat::LlamaProvider;
use tokio::runtime::Runtime;

use super::super::ingest::duration;
use super::super::{CommandError, ConfigFlag};
use super::progress::size;
use crate::logging;
use crate::settings::{Environment, Reading, Settings, StorageKind};
use crate::warmup::{Warmup, WarmupPass};
use crate::wiring::{KnowledgeBase, ProcessLifetime, chat_model};

#[derive(Args, Debug)]
#[command(after_help = "\
It computes the KV state of every passage and stores it in the prefix cache, up to models.prefix_cache_disk_bytes. A
server does the same while it is idle (models.read_ahead). It may run beside a server, and may be interrupted: what was
computed by then stays.")]
pub(in crate::commands) struct Warm {
    #[command(flatten)]
    pub(super) config: ConfigFlag,
    /// Only the documents of this collection
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
}

/// Warms the prefix cache of every provider that has one.
pub(super) fn run(warm: &Warm, settings: &Settings, environment: &Environment) -> Result<(), CommandError> {
    logging::start_quietly(environment)?;
    if settings.storage.kind == StorageKind::Memory {
        return Err(CommandError::NothingStored(": there are no documents outside of a server"));
    }
    let caching = settings.providers.iter().filter(|(_, own)| own.reading == Some(Reading::Kept));
    let caching: Vec<_> = caching.collect();
    if caching.is_empty() {
        return Err(CommandError::Usage(
            "no provider of the settings has a prefix cache: set kind = \"embedded\" and reading = \"kept\""
                .to_owned(),
        ));
    }
    let knowledge = KnowledgeBase::open(settings)?;
    let runtime = Runtime::new()?;
    let sharers = caching.len();
    for (name, own) in caching {
        let model = Arc::new(chat_model(name, own, settings, ProcessLifetime::OneCommand));
        let warmup = knowledge.warmup(model.clone(), sharers);
        runtime.block_on(warm_up(name, warmup, &model, warm.collection.as_deref()))?;
    }
    Ok(())
}

async fn warm_up(
    name: &str,
    mut warmup: Warmup,
    model: &LlamaProvider,
    collection: Option<&str>,
) -> Result<(), CommandError> {
    let (began, is_terminal) = (Instant::now(), io::stderr().is_terminal());
    let report = |progress: &WarmupProgress| {
        if is_terminal {
            status!("\r\x1b[K{name}: {}", line(progress, began.elapsed()));
        }
    };
    let pass = warmup.pass(collection, report).await;
    if is_terminal {
        status!("\r\x1b[K");
    }
    let WarmupPass { progress, too_long, .. } =
        pass.map_err(|source| CommandError::Warmup { provider: name.to_owned(), source })?;
    let WarmupProgress { done, total, prefilled, .. } = progress;
    if let (0, Some(collection)) = (total, collection) {
        let message = format!("there are no documents in the collection \"{collection}\"");
        return Err(CommandError::Usage(message));
    }
    let bytes = size(model.status().prefix_cache.unwrap_or_default().disk_bytes);
    let took = duration(began.elapsed());
    statusln!(
        "{name}: {done} of {total} passages, {prefilled} of them prefilled in {took}; the cache has {bytes}"
    );
    if too_long > 0 {
        statusln!("{name}: {too_long} passages are too long to be cached");
    }
    if done < total {
        statusln!("{name}: the prefix cache is full: raise models.prefix_cache_disk_bytes");
    }
    Ok(())
}

/// The progress. The remaining time is an upper bound: some of the remaining passages may be cached.
fn line(progress: &WarmupProgress, elapsed: Duration) -> String {
    let WarmupProgress { done, total, prefilled, .. } = *progress;
    let mut line = format!("{done} of {total} passages, {prefilled} of them prefilled");
    if prefilled > 0 {
        let left = elapsed.mul_f64((total - done) as f64 / prefilled as f64);
        line.push_str(&format!(", about {} left", duration(left)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_progress_and_the_remaining_time() {
        let progress = |done, prefilled| WarmupProgress { done, total: 90, prefilled, paused: None };
        let expected = "50 of 90 passages, 20 of them prefilled, about 1 min 0 s left";
        assert_eq!(line(&progress(50, 20), Duration::from_secs(30)), expected);
        assert_eq!(line(&progress(0, 0), Duration::ZERO), "0 of 90 passages, 0 of them prefilled");
    }
}
