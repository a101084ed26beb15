//! Embedders against the fake model server. The model's name selects its faults.

mod calls;
mod lengths;
mod responses;
mod retries;

use std::time::Duration;

use domain::{Embedder, EmbeddingPriority, Failure, FailureKind};
use providers::{BatchLimits, HttpEmbedderSettings, RemoteEmbedder, RetryLimits, Secret};
use testing::{FakeModel, fake_vector};

use crate::fake_server::dead_address;

/// The kinds of servers, for tests that hold for all.
const KINDS: [Kind; 2] = [Kind::OpenAi, Kind::Ollama];

#[derive(Clone, Copy, Debug)]
enum Kind {
    OpenAi,
    Ollama,
}

pub(crate) fn settings(base_url: &str, model: &str) -> HttpEmbedderSettings {
    HttpEmbedderSettings {
        name: "embedding".to_owned(),
        base_url: base_url.to_owned(),
        model: model.to_owned(),
        api_key: None,
        connect: Duration::from_secs(5),
        proxy: None,
        dimension: None,
        token_limit: 512,
        batches: BatchLimits { texts: 32, bytes: 1 << 20, calls: 3 },
        timeout: Duration::from_secs(60),
        retries: RetryLimits { attempts: 3, within: Duration::from_secs(60) },
    }
}

/// An embedder with changed settings.
fn embedder(
    kind: Kind,
    fake: &FakeModel,
    model: &str,
    set: impl FnOnce(&mut HttpEmbedderSettings),
) -> RemoteEmbedder {
    let mut settings = settings(fake.url(), model);
    set(&mut settings);
    match kind {
        Kind::Ollama => RemoteEmbedder::ollama(settings).unwrap(),
        Kind::OpenAi => {
            settings.base_url.push_str("/v1");
            RemoteEmbedder::openai(settings).unwrap()
        }
    }
}

fn plain(kind: Kind, fake: &FakeModel, model: &str) -> RemoteEmbedder {
    embedder(kind, fake, model, |_| {})
}

fn numbered(texts: usize) -> Vec<String> {
    (0..texts).map(|number| format!("text number {number}")).collect()
}

fn unit(text: &str, dimension: usize) -> Vec<f32> {
    let vector = fake_vector(text, dimension);
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    vector.into_iter().map(|number| number / length).collect()
}

#[track_caller]
fn check_vectors(vectors: &[Vec<f32>], texts: &[String]) {
    assert_eq!(vectors.len(), texts.len());
    for (vector, text) in vectors.iter().zip(texts) {
        let expected = unit(text, vector.len());
        let is_near = vector.iter().zip(&expected).all(|(one, other)| (one - other).abs() < 1e-6);
        assert!(is_near, "{text}: {vector:?} is not {expected:?}");
    }
}

async fn failure(embedder: &RemoteEmbedder, texts: usize, priority: EmbeddingPriority) -> Failure {
    embedder.embed(numbered(texts), priority).await.unwrap_err()
}

#[tokio::test]
async fn the_key_is_sent_and_masked_in_messages() {
    let fake = FakeModel::start().await;
    let embedder = embedder(Kind::OpenAi, &fake, "fake,no-sk-Secret-part", |settings| {
        settings.api_key = Some(Secret::from("sk-Secret"));
    });
    let failure = failure(&embedder, 1, EmbeddingPriority::Bulk).await;
    assert_eq!(fake.embeddings()[0].authorization.as_deref(), Some("Bearer sk-Secret"));
    assert!(failure.message.contains("no-***-part"), "{failure}");
}

#[tokio::test]
async fn an_embedder_is_healthy_when_its_server_would_embed() {
    let fake = FakeModel::start().await;
    for kind in KINDS {
        plain(kind, &fake, "fake").health().await.unwrap();
    }
    let paths: Vec<_> = fake.requests().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/v1/models", "/api/show"]);
    let missing = plain(Kind::Ollama, &fake, "fake,no-such-part").health().await.unwrap_err();
    assert!(missing.message.contains("ollama pull fake,no-such-part"), "{missing}");
    let dead = RemoteEmbedder::openai(settings(&dead_address().await, "tiny")).unwrap();
    let failure = dead.health().await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert!(failure.message.starts_with("embedding: cannot connect to http://127.0.0.1:"), "{failure}");
}

#[test]
fn bounds_of_zero_are_invalid_settings() {
    type Change = fn(&mut HttpEmbedderSettings);
    let changes: [(&str, Change); 5] = [
        ("dimension", |settings| settings.dimension = Some(0)),
        ("token_limit", |settings| settings.token_limit = 0),
        ("batch_texts", |settings| settings.batches.texts = 0),
        ("batch_bytes", |settings| settings.batches.bytes = 0),
        ("calls", |settings| settings.batches.calls = 0),
    ];
    for (key, change) in changes {
        let mut settings = settings("http://127.0.0.1:1", "tiny");
        change(&mut settings);
        assert_eq!(RemoteEmbedder::ollama(settings).err().unwrap().key, key);
    }
}
