//! Responses that are accepted or refused.

use domain::{Embedder, EmbeddingPriority, EmbeddingShape, FailureKind};
use providers::RemoteEmbedder;
use testing::FakeModel;

use super::{KINDS, Kind, check_vectors, embedder, failure, numbered, plain, settings};
use crate::fake_server::{FakeServer, response};

#[tokio::test]
async fn vectors_are_ordered_by_their_index() {
    let fake = FakeModel::start().await;
    let vectors =
        plain(Kind::OpenAi, &fake, "fake,reverse").embed(numbered(5), EmbeddingPriority::Interactive).await;
    check_vectors(&vectors.unwrap(), &numbered(5));
}

#[tokio::test]
async fn a_wrong_response_fails_with_what_was_expected_and_received() {
    for (fault, expected) in [
        ("lacks=1", "it gave 2 vectors where 3 were expected"),
        ("short=1", "a vector of 63 numbers where 64 were expected"),
        ("dimension=8", "a vector of 8 numbers where 64 were expected"),
        ("null=2", "a number that is not finite"),
        ("zero=0", "a vector of zeros"),
    ] {
        for kind in KINDS {
            let fake = FakeModel::start().await;
            let model = format!("fake,{fault}");
            let embedder = embedder(kind, &fake, &model, |settings| settings.dimension = Some(64));
            let failure = failure(&embedder, 3, EmbeddingPriority::Bulk).await;
            assert_eq!(failure.kind, FailureKind::Refused, "{kind:?} {fault}");
            let begin = format!("embedding: the answer of {model} cannot be used: ");
            assert!(failure.message.starts_with(&begin) && failure.message.contains(expected), "{failure}");
            assert_eq!(fake.embeddings().len(), 1, "{kind:?} {fault}");
        }
    }
}

#[tokio::test]
async fn later_responses_must_have_the_dimension_of_the_first() {
    let answer = |vector: &str| response("200 OK", "", &format!(r#"{{"data":[{{"embedding":{vector}}}]}}"#));
    let server = FakeServer::start(vec![answer("[1,0]"), answer("[1,0,0]")]).await;
    let embedder = RemoteEmbedder::openai(settings(&server.url, "tiny")).unwrap();
    embedder.embed(numbered(1), EmbeddingPriority::Bulk).await.unwrap();
    let failure = failure(&embedder, 1, EmbeddingPriority::Bulk).await;
    assert!(failure.message.contains("3 numbers where 2 were expected"), "{failure}");
}

#[tokio::test]
async fn a_response_that_is_not_json_or_too_large_is_refused() {
    let page = "<html>Welcome</html>";
    let endless = format!("{{\"data\":[{}", " ".repeat(600 << 10));
    for (body, expected) in [(page, "it cannot be read"), (&endless, "it has more than 524288 bytes")] {
        let server = FakeServer::start(vec![response("200 OK", "", body)]).await;
        let embedder = RemoteEmbedder::openai(settings(&server.url, "tiny")).unwrap();
        let failure = failure(&embedder, 1, EmbeddingPriority::Bulk).await;
        assert!(failure.message.contains(expected), "{failure}");
    }
}

#[tokio::test]
async fn the_dimension_is_learned_once() {
    for kind in KINDS {
        let fake = FakeModel::start().await;
        let learning = plain(kind, &fake, "fake,dimension=8");
        for _ in 0..2 {
            assert_eq!(learning.shape().await.unwrap(), EmbeddingShape { dimension: 8, token_limit: 512 });
        }
        assert_eq!(fake.embeddings().len(), 1, "{kind:?}");
        let configured = embedder(kind, &fake, "fake", |settings| settings.dimension = Some(64));
        assert_eq!(configured.shape().await.unwrap().dimension, 64);
        assert_eq!(fake.embeddings().len(), 1, "{kind:?}");
    }
}
