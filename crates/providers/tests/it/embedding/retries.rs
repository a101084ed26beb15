//! Which failures are retried.

use std::time::Duration;

use domain::{Embedder, EmbeddingPriority, FailureKind};
use providers::RemoteEmbedder;
use testing::FakeModel;

use super::{KINDS, Kind, check_vectors, embedder, failure, numbered, plain, settings};
use crate::fake_server::{FakeServer, Reply, response};

#[tokio::test]
async fn a_busy_server_is_called_again_after_its_retry_after() {
    for kind in KINDS {
        let fake = FakeModel::start().await;
        let embedder = plain(kind, &fake, "fake,status=429,retry-after=0,times=2");
        check_vectors(&embedder.embed(numbered(2), EmbeddingPriority::Bulk).await.unwrap(), &numbered(2));
        assert_eq!(fake.embeddings().len(), 3, "{kind:?}");
    }
}

#[tokio::test]
async fn a_call_is_retried_after_a_broken_connection() {
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
async fn a_call_is_retried_after_an_incomplete_response() {
    let cut = Reply::Whole("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"embeddings\"".to_owned());
    let server = FakeServer::start(vec![cut, response("200 OK", "", r#"{"embeddings":[[2.0]]}"#)]).await;
    let embedder = RemoteEmbedder::ollama(settings(&server.url, "tiny")).unwrap();
    assert_eq!(embedder.embed(numbered(1), EmbeddingPriority::Interactive).await.unwrap(), [[1.0]]);
}

#[tokio::test]
async fn interactive_calls_have_fewer_attempts() {
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
async fn a_retry_after_beyond_the_limits_is_not_waited_for() {
    let fake = FakeModel::start().await;
    let embedder = plain(Kind::Ollama, &fake, "fake,status=429,retry-after=3600");
    for priority in [EmbeddingPriority::Interactive, EmbeddingPriority::Bulk] {
        assert_eq!(failure(&embedder, 1, priority).await.retry_after, Some(Duration::from_secs(3600)));
    }
    assert_eq!(fake.embeddings().len(), 2);
}

#[tokio::test]
async fn a_refusal_is_not_retried() {
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
async fn a_silent_server_runs_into_the_timeout() {
    let fake = FakeModel::start().await;
    let embedder = embedder(Kind::Ollama, &fake, "fake,stall=0", |settings| {
        settings.timeout = Duration::from_millis(50);
        settings.retries.attempts = 1;
    });
    let failure = failure(&embedder, 1, EmbeddingPriority::Bulk).await;
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert!(failure.message.contains("no answer within 50ms"), "{failure}");
}
