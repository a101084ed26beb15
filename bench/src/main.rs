//! Benchmarks of the real binary against the fake model server, both as processes of their own, so that
//! the CPU time counted is the server's alone. `make bench` builds and runs them all.

mod burst;
mod cancel;
mod client;
mod first_token;
mod paced;
mod processes;

use clap::{Parser, ValueEnum};

use processes::{Processes, Storage};

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
        for storage in [Storage::Memory, Storage::Sqlite, Storage::Power, Storage::Memory, Storage::Sqlite] {
            let processes = Processes::start("ollama", &model, storage).await;
            burst::measure(&processes, "application/x-ndjson", arguments.tokens).await;
        }
    }
    if wants(What::Paced) {
        for storage in [Storage::Memory, Storage::Sqlite, Storage::Power] {
            paced::measure(&Processes::start("ollama", paced::MODEL, storage).await).await;
        }
    }
    if wants(What::Cancel) {
        cancel::measure(&Processes::start("ollama", "fake,tokens=100000,pace=20ms", Storage::Sqlite).await)
            .await;
    }
    if wants(What::FirstToken) {
        first_token::measure(&Processes::start("ollama", "fake,tokens=1", Storage::Sqlite).await).await;
    }
}
