//! What is tried again, and what is not.

use std::time::Duration;

use domain::{Embedder, EmbeddingPriority, FailureKind};
use providers::RemoteEmbedder;
use testing::FakeModel;

use super::{KINDS, Kind, check_vectors, embedder, failure, numbered, plain, settings};
use crate::fake_server::{FakeServer, Reply, response};

#[tokio::test]
async fn a_busy_server_is_asked_again_when_it_says() {
    for kind in KINDS {
        let fake = FakeModel::start().await;
        let embedder = plain(kind, &fake, "fake,status=429,retry-after=0,times=2");
        check_vectors(&embedder.embed(numbered(2), EmbeddingPriority::Bulk).await.unwrap(), &numbered(2));
        assert_eq!(fake.embeddings().len(), 3, "{kind:?}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_is_opened_again() {
    for kind in KINDS {
        let fake = FakeModel::start().await;
        let embedder = plain(kind, &fake, "fake,die=0,times=1");
        check_vectors(
            &embedder.embed(numbered(2), EmbeddingPriority::Interactive).await.unwrap(),
            &numbered(2),
        );
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_for_again() {
    let cut = Reply::Whole("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"embeddings\"".to_owned());
    let server = FakeServer::start(vec![cut, response("200 OK", "", r#"{"embeddings":[[2.0]]}"#)]).await;
    let embedder = RemoteEmbedder::ollama(settings(&server.url, "tiny")).unwrap();
    assert_eq!(embedder.embed(numbered(1), EmbeddingPriority::Interactive).await.unwrap(), [[1.0]]);
}

#[tokio::test]
async fn attempts_end_and_those_of_a_query_sooner() {
    for (priority, attempts) in [(EmbeddingPriority::Bulk, 3), (EmbeddingPriority::Interactive, 2)] {
        let fake = FakeModel::start().await;
        let embedder = plain(Kind::OpenAi, &fake, "fake,status=503,retry-after=0");
        let failure = failure(&embedder, 2, priority).await;
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert!(failure.message.starts_with("embedding: answered 503"), "{failure}");
        assert_eq!(fake.embeddings().len(), attempts, "{priority:?}");
    }
}

#[tokio::test]
async fn a_server_that_asks_for_too_much_patience_is_left_alone() {
    let fake = FakeModel::start().await;
    let embedder = plain(Kind::Ollama, &fake, "fake,status=429,retry-after=3600");
    for priority in [EmbeddingPriority::Interactive, EmbeddingPriority::Bulk] {
        assert_eq!(failure(&embedder, 1, priority).await.retry_after, Some(Duration::from_secs(3600)));
    }
    assert_eq!(fake.embeddings().len(), 2);
}

#[tokio::test]
async fn a_refusal_is_not_asked_about_again() {
    for status in [400, 401, 403, 404] {
        let fake = FakeModel::start().await;
        let embedder = plain(Kind::OpenAi, &fake, &format!("fake,status={status}"));
        assert_eq!(
            failure(&embedder, 1, EmbeddingPriority::Bulk).await.kind,
            FailureKind::Refused,
            "{status}"
        );
        assert_eq!(fake.embeddings().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_server_that_stays_silent_is_given_up() {
    let fake = FakeModel::start().await;
    let embedder = embedder(Kind::Ollama, &fake, "fake,stall=0", |settings| {
        settings.timeout = Duration::from_millis(50);
        settings.retries.attempts = 1;
    });
    let failure = failure(&embedder, 1, EmbeddingPriority::Bulk).await;
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert!(failure.message.contains("no answer within 50ms"), "{failure}");
}
