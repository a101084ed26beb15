//! Chat models in this process beside a bare loop over llama.cpp on the same weights: tokens per second, and the time to the
//! first token through the whole server, by the number of tokens to prefill and of passages in the prefix cache. All are
//! measured in turns, in one run. `make bench-models` runs it.

mod cached_passages;
mod figures;
mod served;

use std::thread;
use std::time::Instant;

use bench::models_folder;
use clap::Parser;
use models::chat::{BareLoop, ModelFile};
use models::files::{Manifest, ModelStore, Purpose};

use figures::{Figures, milliseconds};
use served::{Asked, Served};

/// Measures chat models.
#[derive(Parser)]
struct Arguments {
    /// The models, by their names or as GGUF files [default: all of the manifest that are here]
    #[arg(long = "model", value_name = "NAME")]
    names: Vec<String>,
    /// How many rounds
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Tokens of the answer whose speed is measured
    #[arg(long, default_value_t = 96)]
    answer: usize,
    /// The curve: numbers of uncached tokens
    #[arg(long, value_delimiter = ',', default_values_t = [50, 100, 200, 400, 800])]
    unread: Vec<usize>,
    /// Measures only the prefix cache
    #[arg(long)]
    only_cached: bool,
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let models = wanted(&arguments.names);
    assert!(!models.is_empty(), "there is nothing to measure: pull a model, or name one");
    for (name, file) in models {
        println!("{name}");
        if !arguments.only_cached {
            measure(&name, &file, &arguments).await;
        }
        cached_passages::measure(&name, 2 * arguments.rounds).await;
    }
}

/// The models as settings name them, and their files.
fn wanted(names: &[String]) -> Vec<(String, ModelFile)> {
    let (manifest, files) = (Manifest::committed(), ModelStore::new(models_folder()));
    let mut wanted = Vec::new();
    for model in manifest.models.iter().filter(|model| model.purpose == Purpose::Chat) {
        if !names.is_empty() && !names.contains(&model.name) {
            continue;
        }
        match files.locate(model) {
            Ok(path) => {
                let sha256 = model.files.first().map(|file| file.sha256);
                wanted.push((model.name.clone(), ModelFile { path, sha256 }));
            }
            Err(unusable) => eprintln!("left out: {unusable}"),
        }
    }
    let paths = names.iter().filter(|name| name.ends_with(".gguf"));
    wanted.extend(paths.map(|path| (path.clone(), ModelFile { path: path.into(), sha256: None })));
    wanted
}

async fn measure(name: &str, file: &ModelFile, arguments: &Arguments) {
    let threads = thread::available_parallelism().map_or(1, Into::into);
    let served = Served::start(name, arguments.answer).await;
    let cache = models_folder().join("cache");
    let mut bare = BareLoop::open(file, &cache, threads).expect("the model loads");
    let mut figures = Figures::default();
    for round in 0..=arguments.rounds {
        // The first round warms the caches.
        let figures = if round == 0 { &mut Figures::default() } else { &mut figures };
        for &unread in &arguments.unread {
            let asked = served.ask(unread).await;
            figures.first_tokens(unread).push((asked, first_token(&mut bare, asked)));
        }
        let asked = served.ask_for_long().await;
        figures.speeds.push((asked.per_second, written_per_second(&mut bare, asked)));
    }
    figures.report();
}

/// How long the loop takes to prefill as many tokens behind as many cached ones, and to sample the next.
fn first_token(bare: &mut BareLoop, asked: Asked) -> f64 {
    ready(bare, asked);
    let tokens = bare.filler(asked.input - asked.cached);
    let started = Instant::now();
    bare.read(&tokens).expect("the loop reads");
    milliseconds(started)
}

/// The loop's tokens per second behind a prompt of the same length.
fn written_per_second(bare: &mut BareLoop, asked: Asked) -> f64 {
    ready(bare, asked);
    let tokens = bare.filler(asked.input - asked.cached);
    let mut token = bare.read(&tokens).expect("the loop reads");
    let started = Instant::now();
    for _ in 1..asked.output {
        token = bare.read(&[token]).expect("the loop reads");
    }
    (asked.output - 1) as f64 / started.elapsed().as_secs_f64()
}

/// Gives the loop the same cached tokens as the server.
fn ready(bare: &mut BareLoop, asked: Asked) {
    bare.truncate(0);
    if asked.cached > 0 {
        let tokens = bare.filler(asked.cached);
        bare.read(&tokens).expect("the loop reads");
    }
}
