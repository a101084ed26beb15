//! Batches, and the number of concurrent calls.

use domain::{Embedder, EmbeddingPriority};
use providers::BatchLimits;
use testing::{FakeModel, RequestEnding};

use super::{KINDS, Kind, check_vectors, embedder, numbered};

#[tokio::test]
async fn vectors_keep_the_order_of_their_texts_over_concurrent_calls() {
    for kind in KINDS {
        let fake = FakeModel::start().await;
        let embedder = embedder(kind, &fake, "fake", |settings| settings.batches.texts = 4);
        let vectors = embedder.embed(numbered(50), EmbeddingPriority::Bulk).await.unwrap();
        check_vectors(&vectors, &numbered(50));
        assert_eq!(fake.embeddings().len(), 13, "{kind:?}");
    }
}

#[tokio::test]
async fn a_call_keeps_the_bounds_on_texts_and_bytes() {
    for (texts, bytes, expected) in [(2, 1000, vec![2, 2, 1]), (100, 42, vec![3, 2]), (100, 1, vec![1; 5])] {
        let fake = FakeModel::start().await;
        let embedder = embedder(Kind::OpenAi, &fake, "fake", |settings| {
            settings.batches = BatchLimits { texts, bytes, calls: 1 };
        });
        embedder.embed(numbered(5), EmbeddingPriority::Bulk).await.unwrap();
        let sizes: Vec<_> = fake.embeddings().iter().map(|seen| seen.texts().len()).collect();
        assert_eq!(sizes, expected);
    }
}

#[tokio::test]
async fn bulk_calls_queue_and_interactive_calls_do_not() {
    let fake = FakeModel::start().await;
    let embedder = embedder(Kind::OpenAi, &fake, "fake,stall=1", |settings| settings.batches.calls = 1);
    let stalled = embedder.embed(numbered(2), EmbeddingPriority::Bulk);
    let waiting = embedder.embed(numbered(1), EmbeddingPriority::Bulk);
    let query = async {
        fake.wait_until(|requests| requests.len() == 1).await;
        embedder.embed(numbered(1), EmbeddingPriority::Interactive).await.unwrap()
    };
    tokio::select! {
        biased;
        _ = stalled => panic!("the fake never answers two texts"),
        _ = waiting => panic!("the other bulk call holds the permit"),
        vectors = query => check_vectors(&vectors, &numbered(1)),
    }
    assert_eq!(fake.embeddings().len(), 2);
}

#[tokio::test]
async fn dropping_the_future_aborts_its_calls() {
    for kind in KINDS {
        let fake = FakeModel::start().await;
        let embedder = embedder(kind, &fake, "fake,stall=0", |settings| {
            settings.batches = BatchLimits { texts: 1, bytes: 1000, calls: 2 };
        });
        tokio::select! {
            _ = embedder.embed(numbered(5), EmbeddingPriority::Bulk) => panic!("{kind:?}: the fake never answers"),
            _ = fake.wait_until(|requests| requests.len() == 2) => {}
        }
        let all_closed =
            fake.wait_until(|seen| seen.iter().all(|call| call.ending == RequestEnding::Closed)).await;
        assert_eq!(all_closed.len(), 2, "{kind:?}");
    }
}
