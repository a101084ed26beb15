//! Benchmarks of the real binary over the fake model server, each in a process of its own, so that the CPU time is the
//! server's alone. `make bench` builds and runs them all.

mod burst;
mod cancel;
mod chat;
mod first_token;
mod paced;
mod processes;

use bench::client;
use clap::{Parser, ValueEnum};

use processes::{Processes, Storage};

/// How often each side of a comparison is measured.
const ROUNDS: usize = 5;

/// Measures the release binaries that lie beside this one.
#[derive(Parser)]
struct Arguments {
    /// What to measure; all of it if nothing is named
    what: Vec<What>,
    /// Tokens of each of the 32 bursting streams
    #[arg(long, default_value_t = 100_000)]
    tokens: u64,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum What {
    Burst,
    Paced,
    Cancel,
    FirstToken,
    Chat,
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let wants = |what| arguments.what.is_empty() || arguments.what.contains(&what);
    if wants(What::Burst) {
        let model = format!("fake,tokens={}", arguments.tokens);
        for (kind, accept) in [
            ("ollama", "application/x-ndjson"),
            ("openai", "application/x-ndjson"),
            ("openai", "text/event-stream"),
        ] {
            burst::measure(&Processes::start(kind, &model, Storage::Sqlite).await, accept, arguments.tokens)
                .await;
        }
        compare("CPU-seconds per million tokens", async |storage| {
            let processes = Processes::start("ollama", &model, storage).await;
            burst::measure(&processes, "application/x-ndjson", arguments.tokens).await
        })
        .await;
    }
    if wants(What::Paced) {
        compare("ms late at p99", async |storage| {
            paced::measure(&Processes::start("ollama", paced::MODEL, storage).await).await
        })
        .await;
    }
    if wants(What::Cancel) {
        cancel::measure(&Processes::start("ollama", "fake,tokens=100000,pace=20ms", Storage::Sqlite).await)
            .await;
    }
    if wants(What::FirstToken) {
        first_token::measure(&Processes::start("ollama", "fake,tokens=1", Storage::Sqlite).await).await;
    }
    if wants(What::Chat) {
        chat::measure(&Processes::start("ollama", "fake,tokens=64", Storage::Sqlite).await).await;
    }
}

/// Measures each kind of storage in turns, so that other load meets all alike, and prints the medians beside that of
/// memory.
async fn compare(unit: &str, mut measure: impl AsyncFnMut(Storage) -> f64) {
    let mut figures = [Storage::Memory, Storage::Sqlite, Storage::Power].map(|storage| (storage, Vec::new()));
    for _ in 0..ROUNDS {
        for (storage, figures) in &mut figures {
            figures.push(measure(*storage).await);
        }
    }
    let medians = figures.map(|(storage, mut figures)| {
        figures.sort_by(f64::total_cmp);
        (storage, client::percentile(&figures, 50.0))
    });
    let memory = medians[0].1;
    for (storage, median) in medians {
        println!(
            "{storage:?}: {median:.2} {unit} (median of {ROUNDS}); {:+.2}, or {:.2} times that of memory",
            median - memory,
            median / memory
        );
    }
}
