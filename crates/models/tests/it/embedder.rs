//! The embedder behind its port, with the real model.

use std::path::PathBuf;
use std::process::Command;

use domain::{Embedder, EmbeddingPriority, EmbeddingShape, FailureKind};
use models::embedder::{BertEmbedder, WorkerLimits};

const GRANITE: &str = "granite-embedding-30m-english";

fn granite() -> BertEmbedder {
    let set = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let folder = set("WELLSPRING__MODELS__DIR").or_else(|| Some(cache()?.join("wellspring/models")));
    let folder = folder.expect("a home directory has a cache directory");
    let path = folder.join(GRANITE).join("granite-embedding-30m-english-int8.hmsemb");
    assert!(path.exists(), "{} is missing: run `wellspring models pull`", path.display());
    BertEmbedder::open(GRANITE, path, WorkerLimits::default())
}

/// Texts of many lengths, so that there are batches of several texts, of one, and with partial tiles of rows.
fn texts() -> Vec<String> {
    let words = ["stream", "journal", "a", "retry-after", "naïve", "数据", "fn", "🙂", "position", "of"];
    let text =
        |length: usize| (0..length).map(|place| words[place * length % words.len()]).collect::<Vec<_>>();
    [0, 1, 40, 3, 250, 7, 90, 2, 15, 600, 33, 5].into_iter().map(|length| text(length).join(" ")).collect()
}

#[tokio::test]
async fn vectors_are_bit_identical_alone_in_batches_and_in_any_order() {
    let model = granite();
    let texts = texts();
    let batched = model.embed(texts.clone(), EmbeddingPriority::Bulk).await.unwrap();
    let mut reversed =
        model.embed(texts.iter().rev().cloned().collect(), EmbeddingPriority::Bulk).await.unwrap();
    reversed.reverse();
    assert!(reversed == batched);
    for (text, vector) in texts.into_iter().zip(batched) {
        let alone = model.embed(vec![text], EmbeddingPriority::Interactive).await.unwrap();
        assert!(alone == [vector]);
    }
}

#[tokio::test]
async fn vectors_have_the_reported_shape_and_length_one() {
    let model = granite();
    assert_eq!(model.model(), GRANITE);
    assert_eq!(model.shape().await.unwrap(), EmbeddingShape { dimension: 384, token_limit: 512 });
    for vector in model.embed(texts(), EmbeddingPriority::Interactive).await.unwrap() {
        let length: f32 = vector.iter().map(|number| number * number).sum();
        assert!(vector.len() == 384 && (length - 1.0).abs() < 1e-5);
    }
}

#[tokio::test]
async fn text_beyond_the_token_limit_does_not_count() {
    let model = granite();
    let long = "A prompt is a log. ".repeat(2_000);
    let longer = long.clone() + &"x".repeat(1 << 20);
    let vectors = model.embed(vec![long, longer], EmbeddingPriority::Bulk).await.unwrap();
    assert!(vectors[0] == vectors[1]);
}

#[tokio::test]
async fn texts_of_the_same_meaning_have_similar_vectors() {
    let texts = ["How do I restart the server?", "Ways to reboot the machine", "A recipe for apple pie"];
    let vectors =
        granite().embed(texts.map(str::to_owned).to_vec(), EmbeddingPriority::Interactive).await.unwrap();
    let cosine = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    assert!(cosine(&vectors[0], &vectors[1]) > cosine(&vectors[0], &vectors[2]) + 0.1);
}

#[tokio::test]
async fn an_embedder_whose_model_is_loading_reports_it() {
    let folder = tempfile::tempdir().unwrap();
    // Opening a pipe blocks until it has a writer, so the test decides how long loading takes.
    let path = folder.path().join("pipe.hmsemb");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let model = BertEmbedder::open("slow", &path, WorkerLimits::default());
    let failure = model.health().await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert!(failure.message.contains("being loaded") && failure.retry_after.is_some(), "{failure}");
    let written = tokio::task::spawn_blocking(move || std::fs::write(path, b""));
    assert!(model.shape().await.unwrap_err().message.contains("could not be loaded"));
    written.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_embedder_is_healthy_once_its_model_is_loaded() {
    let model = granite();
    model.shape().await.unwrap();
    model.health().await.unwrap();
}

#[tokio::test]
async fn every_call_fails_with_the_reason_if_the_model_cannot_be_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken.hmsemb");
    std::fs::write(&path, b"not a model, not at all").unwrap();
    let model = BertEmbedder::open("broken", &path, WorkerLimits::default());
    let failure = model.embed(vec![String::new()], EmbeddingPriority::Interactive).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert!(failure.message.contains("broken.hmsemb is not a model"), "{failure}");
    assert_eq!(model.shape().await.unwrap_err(), failure);
    assert_eq!(model.health().await.unwrap_err(), failure);
}

#[tokio::test]
async fn the_token_counter_counts_beyond_the_token_limit() {
    let count = granite().token_counter().await.unwrap();
    assert_eq!(count(""), 2, "the special tokens around it");
    assert_eq!(count("A prompt is a log."), 8);
    assert_eq!(count(&"A prompt is a log. ".repeat(1_000)), 6_003);
}
