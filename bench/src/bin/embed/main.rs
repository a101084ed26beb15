//! The embedder beside ONNX Runtime, on the same weights, in interleaved rounds, tokenizing included. The last line is the
//! ratio of texts per second of CPU time, which other load on the machine hardly changes. `make bench-embed` runs it.

mod figures;
mod opponent;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bench::{cpu_seconds, models_folder, resident_megabytes};
use clap::Parser;
use domain::{Embedder, EmbeddingPriority};
use models::embedder::{BertEmbedder, WorkerLimits};

use figures::{Figures, report};
use opponent::Opponent;

/// Measures the embedder against ONNX Runtime.
#[derive(Parser)]
struct Arguments {
    /// The interpreter of an environment with numpy, onnx, onnxruntime and tokenizers
    #[arg(long)]
    python: PathBuf,
    /// The folder of model files
    #[arg(long, default_value_os_t = models_folder())]
    models: PathBuf,
    /// How often each of the two embeds all texts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

const MODEL: &str = "granite-embedding-30m-english";
const TEXTS: usize = 256;
const QUERIES: usize = 200;

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let (texts, queries) = (texts(), queries());
    let mut opponent = Opponent::at_its_best(&arguments.python, &texts);
    let path = arguments.models.join(MODEL).join(format!("{MODEL}-int8.hmsemb"));
    let model = BertEmbedder::open(MODEL, path, WorkerLimits::default());
    model.shape().await.expect("the model loads");
    let (mut ours, mut theirs) = (Figures::default(), Figures::default());
    let mut least_cosine = f64::MAX;
    for round in 0..arguments.rounds {
        let vectors = bulk(&model, &texts, &mut ours).await;
        let their_vectors = opponent.bulk(&texts, &mut theirs);
        least_cosine = vectors.iter().zip(&their_vectors).map(cosine).fold(least_cosine, f64::min);
        ours.query.extend(query_times(&model, &queries).await);
        theirs.query.extend(opponent.queries(&queries, 2));
        theirs.query_on_one_thread.extend(opponent.queries(&queries, 1));
        ours.query_in_bulk.extend(query_times_in_bulk(&model, &queries, &texts).await);
        eprintln!("round {} of {}", round + 1, arguments.rounds);
    }
    report(ours, theirs, least_cosine);
}

async fn bulk(model: &BertEmbedder, texts: &[String], figures: &mut Figures) -> Vec<Vec<f32>> {
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    let vectors = model.embed(texts.to_vec(), EmbeddingPriority::Bulk).await.expect("the texts are embedded");
    figures.add_bulk(texts.len(), cpu_seconds() - cpu, wall.elapsed().as_secs_f64());
    figures.megabytes = resident_megabytes();
    vectors
}

async fn query_times(model: &BertEmbedder, queries: &[String]) -> Vec<f64> {
    let mut times = Vec::new();
    for query in queries {
        let start = Instant::now();
        model
            .embed(vec![query.clone()], EmbeddingPriority::Interactive)
            .await
            .expect("the query is embedded");
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    times
}

/// Queries ten milliseconds apart while all cores embed in bulk.
async fn query_times_in_bulk(model: &BertEmbedder, queries: &[String], texts: &[String]) -> Vec<f64> {
    let bulk = async {
        loop {
            model.embed(texts.to_vec(), EmbeddingPriority::Bulk).await.expect("the texts are embedded");
        }
    };
    let asking = async {
        let mut times = Vec::new();
        for query in queries {
            tokio::time::sleep(Duration::from_millis(10)).await;
            times.extend(query_times(model, std::slice::from_ref(query)).await);
        }
        times
    };
    let times = tokio::select! {
        times = asking => times,
        () = bulk => unreachable!("bulk has no end"),
    };
    // The batches that had begun end before anything else is measured.
    tokio::time::sleep(Duration::from_millis(300)).await;
    times
}

fn cosine((ours, theirs): (&Vec<f32>, &Vec<f32>)) -> f64 {
    ours.iter().zip(theirs).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// Passages of this project's own documents, of about 120 tokens.
fn texts() -> Vec<String> {
    let documents =
        [include_str!("../../../../ARCHITECTURE.md"), include_str!("../../../../docs/performance.md")]
            .concat();
    let words: Vec<&str> = documents.split_whitespace().collect();
    let passage = |number: usize| words[number * 31 % (words.len() - 90)..][..74 + number % 13].join(" ");
    (0..TEXTS).map(passage).collect()
}

/// Questions of about 11 tokens.
fn queries() -> Vec<String> {
    let questions = [
        "How do I resume a stream that broke off?",
        "Where does the server keep its journal files?",
        "What happens when the disk becomes full?",
        "Which provider is asked after the first one?",
    ];
    (0..QUERIES).map(|number| questions[number % questions.len()].to_owned()).collect()
}
