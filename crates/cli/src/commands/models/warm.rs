//! `wellspring models warm`: what is filed is read by the chat model before anybody asks.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use domain::Provider;
use models::chat::Room;
use tokio::runtime::Runtime;

use super::super::ConfigFlag;
use super::super::ingest::duration;
use super::progress::size;
use crate::ahead::Outcome;
use crate::logging;
use crate::settings::{Environment, Reading, Settings, StorageKind};
use crate::wiring::{KnowledgeBase, Lasts, chat_model};

#[derive(Args, Debug)]
#[command(after_help = "\
It reads every passage twice, as the first one of a prompt and as one that follows others, and keeps what the model has
computed of it, up to models.kept_disk_bytes. A server does the same by itself while nobody asks (models.read_ahead). It
may run beside a server, and may be interrupted: what was read by then stays.")]
pub(in crate::commands) struct Warm {
    #[command(flatten)]
    pub(super) config: ConfigFlag,
    /// Only the documents of this collection
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
}

/// Reads all passages with every model of the settings that keeps them.
pub(super) fn run(warm: &Warm, settings: &Settings, environment: &Environment) -> Result<(), Box<dyn Error>> {
    logging::start_quietly(environment)?;
    if settings.storage.kind == StorageKind::Memory {
        return Err("storage.kind is \"memory\": there are no documents outside of a server".into());
    }
    let keeping = settings.providers.iter().filter(|(_, own)| own.reading == Some(Reading::Kept));
    let keeping: Vec<_> = keeping.collect();
    if keeping.is_empty() {
        return Err(
            "no provider of the settings keeps what it reads: set kind = \"embedded\" and reading = \"kept\""
                .into(),
        );
    }
    let knowledge = KnowledgeBase::open(settings)?;
    let runtime = Runtime::new()?;
    for (name, own) in keeping {
        let model = Arc::new(chat_model(name, own, settings, Lasts::Briefly));
        runtime.block_on(read(name, &knowledge, model, warm.collection.as_deref()))?;
    }
    Ok(())
}

async fn read(
    name: &str,
    knowledge: &KnowledgeBase,
    model: Arc<models::chat::LlamaProvider>,
    collection: Option<&str>,
) -> Result<(), String> {
    let failed = |reason| format!("{name}: {reason}");
    let mut ahead = knowledge.read_ahead(model.clone());
    let total = ahead.count(collection).await.map_err(failed)?;
    if let (0, Some(collection)) = (total, collection) {
        return Err(format!("there are no documents in the collection \"{collection}\""));
    }
    let (began, is_terminal) = (Instant::now(), io::stderr().is_terminal());
    let tell = |outcome: &Outcome| {
        if is_terminal {
            eprint!("\r\x1b[K{name}: {}", line(outcome.passages, outcome.read, total, began.elapsed()));
            // Whoever closed standard error does not want to see it.
            let _ = io::stderr().flush();
        }
    };
    tell(&Outcome::default());
    if !is_terminal {
        eprintln!("{name}: {total} passages to look at");
    }
    let outcome = ahead.read(collection, Room::Left, tell).await;
    if is_terminal {
        eprint!("\r\x1b[K");
    }
    let Outcome { passages, read, too_long, full, .. } = outcome.map_err(failed)?;
    let kept = model.status().prefix_cache.unwrap_or_default();
    let (bytes, took) = (size(kept.disk_bytes), duration(began.elapsed()));
    eprintln!("{name}: {passages} passages, {read} of them read in {took}; {bytes} are kept");
    if too_long > 0 {
        eprintln!("{name}: {too_long} passages are too long for its window (context_window)");
    }
    if full {
        eprintln!("{name}: there is no room to keep the rest: raise models.kept_disk_bytes");
    }
    Ok(())
}

/// How far it is. The rest takes less than it says where some of that is kept already, or longer than what was read.
fn line(passages: usize, read: usize, total: usize, elapsed: Duration) -> String {
    // What is filed meanwhile is read too.
    let total = total.max(passages);
    let mut line = format!("{passages} of {total} passages, {read} of them read");
    if read > 0 {
        let left = elapsed.mul_f64((total - passages) as f64 / read as f64);
        line.push_str(&format!(", about {} left", duration(left)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_what_is_done_and_how_long_the_rest_takes() {
        let expected = "50 of 90 passages, 20 of them read, about 1 min 0 s left";
        assert_eq!(line(50, 20, 90, Duration::from_secs(30)), expected);
        assert_eq!(line(0, 0, 90, Duration::ZERO), "0 of 90 passages, 0 of them read");
    }

    #[test]
    fn more_than_were_there_at_first_are_no_trouble() {
        let expected = "12 of 12 passages, 12 of them read, about 0.0 s left";
        assert_eq!(line(12, 12, 9, Duration::from_secs(30)), expected);
    }
}
