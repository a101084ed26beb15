use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// Embeds a text as its length. The texts `panic`, `fail` and `wait` are commands; `wait` blocks until the
/// test releases it.
struct FakeModel {
    started: Mutex<Sender<()>>,
    released: Mutex<Receiver<()>>,
    batches: AtomicUsize,
}

const PANIC: u32 = 1_000_001;
const WAIT: u32 = 1_000_002;

impl Embed for FakeModel {
    type Workspace = HashSet<usize>;

    fn tokenize(&self, text: &str) -> Result<Vec<u32>, TokenizeError> {
        match text {
            "fail" => Err(TokenizeError("it says so".into())),
            "panic in tokens" => panic!("the text says so"),
            "panic" => Ok(vec![PANIC; 300]),
            "wait" => Ok(vec![WAIT; 300]),
            // Enough tokens for a batch of its own.
            text => Ok(vec![u32::try_from(text.len()).unwrap(); 200]),
        }
    }

    fn embed(&self, texts: &[&[u32]], _: &mut Self::Workspace) -> Vec<Vec<f32>> {
        self.batches.fetch_add(1, Ordering::SeqCst);
        match texts[0][0] {
            PANIC => panic!("the text says so"),
            WAIT => {
                self.started.lock().unwrap().send(()).unwrap();
                self.released.lock().unwrap().recv().unwrap();
            }
            _ => {}
        }
        texts.iter().map(|text| vec![text[0] as f32]).collect()
    }
}

struct Harness {
    model: Arc<FakeModel>,
    workers: Arc<Workers>,
    started: Receiver<()>,
    release: Sender<()>,
}

fn harness(limits: WorkerLimits) -> Harness {
    let ((start, started), (release, released)) = (channel(), channel());
    let model = Arc::new(FakeModel {
        started: Mutex::new(start),
        released: Mutex::new(released),
        batches: AtomicUsize::new(0),
    });
    let workers = Arc::new(Workers::start(&model, limits).unwrap());
    Harness { model, workers, started, release }
}

const LIMITS: WorkerLimits =
    WorkerLimits { bulk_threads: 1, query_threads: 1, waiting_queries: 2, waiting_texts: 8 };

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn vectors_are_in_the_order_of_their_texts() {
    for priority in [EmbeddingPriority::Interactive, EmbeddingPriority::Bulk] {
        let limits = WorkerLimits { bulk_threads: 3, waiting_texts: 2, ..LIMITS };
        let vectors = harness(limits).workers.embed(texts(&["a", "bbb", "", "cc"]), priority).await;
        assert_eq!(vectors.unwrap(), [[1.0], [3.0], [0.0], [2.0]]);
    }
}

#[tokio::test]
async fn a_call_without_texts_has_no_vectors() {
    for priority in [EmbeddingPriority::Interactive, EmbeddingPriority::Bulk] {
        assert_eq!(
            harness(LIMITS).workers.embed(Vec::new(), priority).await.unwrap(),
            Vec::<Vec<f32>>::new()
        );
    }
}

#[tokio::test]
async fn a_panic_becomes_a_failure_and_the_thread_goes_on() {
    let harness = harness(LIMITS);
    for priority in [EmbeddingPriority::Interactive, EmbeddingPriority::Bulk] {
        for text in ["panic", "panic in tokens"] {
            let failure = harness.workers.embed(texts(&["a", text]), priority).await.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Internal);
            assert_eq!(harness.workers.embed(texts(&["a"]), priority).await.unwrap(), [[1.0]]);
        }
    }
}

#[tokio::test]
async fn a_text_that_cannot_be_tokenized_fails_its_call_alone() {
    let harness = harness(LIMITS);
    for priority in [EmbeddingPriority::Interactive, EmbeddingPriority::Bulk] {
        let failure = harness.workers.embed(texts(&["fail"]), priority).await.unwrap_err();
        assert!(failure.message.contains("it says so"), "{failure}");
    }
}

#[tokio::test]
async fn a_query_runs_while_a_bulk_call_runs() {
    let harness = harness(LIMITS);
    let bulk = tokio::spawn({
        let workers = Arc::clone(&harness.workers);
        async move { workers.embed(texts(&["wait"]), EmbeddingPriority::Bulk).await }
    });
    let started = tokio::task::spawn_blocking(move || harness.started.recv());
    started.await.unwrap().unwrap();
    assert_eq!(harness.workers.embed(texts(&["ab"]), EmbeddingPriority::Interactive).await.unwrap(), [[2.0]]);
    harness.release.send(()).unwrap();
    assert!(bulk.await.unwrap().is_ok());
}

#[tokio::test]
async fn dropping_a_call_cancels_its_remaining_batches() {
    let harness = harness(LIMITS);
    let bulk = tokio::spawn({
        let workers = Arc::clone(&harness.workers);
        async move { workers.embed(texts(&["wait", "a", "b", "c"]), EmbeddingPriority::Bulk).await }
    });
    tokio::task::spawn_blocking(move || harness.started.recv()).await.unwrap().unwrap();
    bulk.abort();
    assert!(bulk.await.unwrap_err().is_cancelled());
    harness.release.send(()).unwrap();
    // The only bulk thread takes calls in order, so it is past the cancelled one after this call.
    harness.workers.embed(texts(&["next"]), EmbeddingPriority::Bulk).await.unwrap();
    assert_eq!(
        harness.model.batches.load(Ordering::SeqCst),
        2,
        "the batch that was running, and the next call's"
    );
}

#[tokio::test]
async fn queries_beyond_the_queue_are_refused() {
    let harness = harness(LIMITS);
    let ask = |text| {
        let workers = Arc::clone(&harness.workers);
        async move { workers.embed(texts(&[text]), EmbeddingPriority::Interactive).await }
    };
    let running = tokio::spawn(ask("wait"));
    tokio::task::spawn_blocking(move || harness.started.recv()).await.unwrap().unwrap();
    let mut waiting = [Box::pin(ask("a")), Box::pin(ask("b"))];
    for query in &mut waiting {
        assert!(poll_once(query).is_none(), "it waits for the only thread");
    }
    let failure = ask("c").await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert!(failure.retry_after.is_some());
    harness.release.send(()).unwrap();
    assert!(running.await.unwrap().is_ok());
    for query in waiting {
        assert!(query.await.is_ok());
    }
}

/// The output of a future that is ready at its first poll.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}
