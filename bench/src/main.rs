//! Benchmarks of the real binary against the fake model server, both as processes of their own, so that
//! the CPU time counted is the server's alone. `make bench` builds and runs them all.

mod burst;
mod cancel;
mod client;
mod first_token;
mod processes;

use clap::{Parser, ValueEnum};

use processes::Processes;

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
    Cancel,
    FirstToken,
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let wants = |what| arguments.what.is_empty() || arguments.what.contains(&what);
    if wants(What::Burst) {
        for (kind, accept) in [
            ("ollama", "application/x-ndjson"),
            ("openai", "application/x-ndjson"),
            ("openai", "text/event-stream"),
        ] {
            let processes = Processes::start(kind, &format!("fake,tokens={}", arguments.tokens)).await;
            burst::measure(&processes, kind, accept, arguments.tokens).await;
        }
    }
    if wants(What::Cancel) {
        cancel::measure(&Processes::start("ollama", "fake,tokens=100000,pace=20ms").await).await;
    }
    if wants(What::FirstToken) {
        first_token::measure(&Processes::start("ollama", "fake,tokens=1").await).await;
    }
}
