//! The embedder against a real server: llama.cpp's, with a small real model.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use domain::{Embedder, Urgency};
use providers::RemoteEmbedder;
use testing::models_folder;

use crate::embedding::settings;

const MODEL: &str = "smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf";

/// The dimension of that model.
const DIMENSION: usize = 576;

/// The server, as long as this value lives.
struct LlamaServer {
    process: Child,
    url: String,
}

impl LlamaServer {
    fn start() -> Self {
        let model = models_folder().join(MODEL);
        assert!(
            model.is_file(),
            "{} is missing: get it with `cargo run --package cli -- models pull smollm2-135m-instruct`",
            model.display()
        );
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/llama-server");
        let mut command = Command::new(script);
        command.arg(model).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("scripts/llama-server can be run");
        let mut first_line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut first_line).unwrap();
        assert!(
            first_line.starts_with("http://"),
            "scripts/llama-server said {first_line:?}; see its errors above"
        );
        Self { process, url: first_line.trim().to_owned() }
    }

    fn embedder(&self) -> RemoteEmbedder {
        RemoteEmbedder::openai(settings(&format!("{}/v1", self.url), "smollm2")).unwrap()
    }
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn embed(embedder: &RemoteEmbedder, texts: &[&str]) -> Vec<Vec<f32>> {
    let texts = texts.iter().map(|&text| text.to_owned()).collect();
    embedder.embed(texts, Urgency::Bulk).await.unwrap()
}

/// The cosine of two vectors of length one.
fn dot(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

fn largest_difference(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
}

#[tokio::test]
async fn a_real_server_gives_vectors_that_mean_something() {
    let server = LlamaServer::start();
    let embedder = server.embedder();
    embedder.health().await.unwrap();
    assert_eq!(embedder.shape().await.unwrap().dimension, DIMENSION);

    let texts = [
        "The cat sleeps on the warm sofa.",
        "A cat is sleeping on a warm couch.",
        "The central bank raised its interest rates.",
        "Interest rates were raised by the central bank.",
        "fn main() { println!(\"hi\"); }",
    ];
    let vectors = embed(&embedder, &texts).await;
    for (text, vector) in texts.iter().zip(&vectors) {
        assert_eq!(vector.len(), DIMENSION, "{text}");
        assert!((dot(vector, vector) - 1.0).abs() < 1e-5, "{text}: the vector has length one");
        let alone = embed(&embedder, &[text]).await.remove(0);
        assert!(largest_difference(vector, &alone) < 1e-5, "{text}: its neighbours change nothing");
    }
    assert_eq!(embed(&embedder, &texts[..1]).await, embed(&embedder, &texts[..1]).await);
    for (one, paraphrase, unrelated) in [(0, 1, 2), (1, 0, 3), (2, 3, 4), (3, 2, 1)] {
        let (near, far) = (dot(&vectors[one], &vectors[paraphrase]), dot(&vectors[one], &vectors[unrelated]));
        assert!(near > far + 0.1, "{:?}: {near} and {far}", texts[one]);
    }
}

#[tokio::test]
async fn a_text_that_is_too_long_for_a_real_server_is_cut_and_fails_no_other() {
    let server = LlamaServer::start();
    let embedder = server.embedder();
    let long = "The river runs down to the sea. ".repeat(500);
    let vectors = embed(&embedder, &["before", &long, "", "after"]).await;
    let alone = embed(&embedder, &["after"]).await;
    assert!(largest_difference(&vectors[3], &alone[0]) < 1e-5);
    let beginning = embed(&embedder, &[&long[..1000]]).await;
    assert!(dot(&vectors[1], &beginning[0]) > 0.95, "it means what its beginning means");
}
