//! Embeddings of a real server.

use domain::{Embedder, EmbeddingPriority};
use providers::RemoteEmbedder;

use super::LlamaServer;
use crate::embedding::settings;

/// The dimension of the model.
const DIMENSION: usize = 576;

fn embedder(server: &LlamaServer) -> RemoteEmbedder {
    RemoteEmbedder::openai(settings(&format!("{}/v1", server.url), "smollm2")).unwrap()
}

async fn embed(embedder: &RemoteEmbedder, texts: &[&str]) -> Vec<Vec<f32>> {
    let texts = texts.iter().map(|&text| text.to_owned()).collect();
    embedder.embed(texts, EmbeddingPriority::Bulk).await.unwrap()
}

/// The cosine of two vectors of length one.
fn dot(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

fn largest_difference(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
}

#[tokio::test]
async fn vectors_of_a_real_server_reflect_meaning() {
    let server = LlamaServer::start("embed");
    let embedder = embedder(&server);
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
async fn a_text_too_long_for_a_real_server_is_cut_and_does_not_fail_the_others() {
    let server = LlamaServer::start("embed");
    let embedder = embedder(&server);
    let long = "The river runs down to the sea. ".repeat(500);
    let vectors = embed(&embedder, &["before", &long, "", "after"]).await;
    let alone = embed(&embedder, &["after"]).await;
    assert!(largest_difference(&vectors[3], &alone[0]) < 1e-5);
    let beginning = embed(&embedder, &[&long[..1000]]).await;
    assert!(dot(&vectors[1], &beginning[0]) > 0.95, "it means what its beginning means");
}
