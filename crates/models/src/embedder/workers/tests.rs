use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// Embeds a text as its own length, and does what the text says: `panic`, `fail`, or `wait` for the test.
struct Stand {
    begun: Mutex<Sender<()>>,
    released: Mutex<Receiver<()>>,
    batches: AtomicUsize,
}

const PANIC: u32 = 1_000_001;
const WAIT: u32 = 1_000_002;

impl Embed for Stand {
    type Space = HashSet<usize>;

    fn tokens(&self, text: &str) -> Result<Vec<u32>, String> {
        match text {
            "fail" => Err("it says so".to_owned()),
            "panic in tokens" => panic!("the text says so"),
            "panic" => Ok(vec![PANIC; 300]),
            "wait" => Ok(vec![WAIT; 300]),
            // Long enough for a batch of its own.
            text => Ok(vec![u32::try_from(text.len()).unwrap(); 200]),
        }
    }

    fn embed(&self, texts: &[&[u32]], _space: &mut Self::Space) -> Vec<Vec<f32>> {
        self.batches.fetch_add(1, Ordering::SeqCst);
        match texts[0][0] {
            PANIC => panic!("the text says so"),
            WAIT => {
                self.begun.lock().unwrap().send(()).unwrap();
                self.released.lock().unwrap().recv().unwrap();
            }
            _ => {}
        }
        texts.iter().map(|text| vec![text[0] as f32]).collect()
    }
}

struct Stage {
    stand: Arc<Stand>,
    workers: Arc<Workers>,
    begun: Receiver<()>,
    release: Sender<()>,
}

fn stage(limits: Limits) -> Stage {
    let ((begin, begun), (release, released)) = (channel(), channel());
    let stand = Arc::new(Stand {
        begun: Mutex::new(begin),
        released: Mutex::new(released),
        batches: AtomicUsize::new(0),
    });
    let workers = Arc::new(Workers::start(&stand, limits).unwrap());
    Stage { stand, workers, begun, release }
}

const LIMITS: Limits = Limits { bulk_threads: 1, query_threads: 1, waiting_queries: 2, waiting_texts: 8 };

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn vectors_come_in_the_order_of_their_texts() {
    for priority in [EmbeddingPriority::Interactive, EmbeddingPriority::Bulk] {
        let limits = Limits { bulk_threads: 3, waiting_texts: 2, ..LIMITS };
        let vectors = stage(limits).workers.embed(texts(&["a", "bbb", "", "cc"]), priority).await;
        assert_eq!(vectors.unwrap(), [[1.0], [3.0], [0.0], [2.0]]);
    }
}

#[tokio::test]
async fn no_texts_have_no_vectors() {
    for priority in [EmbeddingPriority::Interactive, EmbeddingPriority::Bulk] {
        assert_eq!(stage(LIMITS).workers.embed(Vec::new(), priority).await.unwrap(), Vec::<Vec<f32>>::new());
    }
}

#[tokio::test]
async fn a_panic_becomes_a_failure_and_the_thread_goes_on() {
    let stage = stage(LIMITS);
    for priority in [EmbeddingPriority::Interactive, EmbeddingPriority::Bulk] {
        for text in ["panic", "panic in tokens"] {
            let failure = stage.workers.embed(texts(&["a", text]), priority).await.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Internal);
            assert_eq!(stage.workers.embed(texts(&["a"]), priority).await.unwrap(), [[1.0]]);
        }
    }
}

#[tokio::test]
async fn a_text_that_cannot_be_made_into_tokens_fails_its_call_alone() {
    let stage = stage(LIMITS);
    for priority in [EmbeddingPriority::Interactive, EmbeddingPriority::Bulk] {
        let failure = stage.workers.embed(texts(&["fail"]), priority).await.unwrap_err();
        assert!(failure.message.contains("it says so"), "{failure}");
    }
}

#[tokio::test]
async fn a_query_is_answered_while_bulk_runs() {
    let stage = stage(LIMITS);
    let bulk = tokio::spawn({
        let workers = Arc::clone(&stage.workers);
        async move { workers.embed(texts(&["wait"]), EmbeddingPriority::Bulk).await }
    });
    let begun = tokio::task::spawn_blocking(move || stage.begun.recv());
    begun.await.unwrap().unwrap();
    assert_eq!(stage.workers.embed(texts(&["ab"]), EmbeddingPriority::Interactive).await.unwrap(), [[2.0]]);
    stage.release.send(()).unwrap();
    assert!(bulk.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_caller_who_leaves_ends_the_work_for_it() {
    let stage = stage(LIMITS);
    let bulk = tokio::spawn({
        let workers = Arc::clone(&stage.workers);
        async move { workers.embed(texts(&["wait", "a", "b", "c"]), EmbeddingPriority::Bulk).await }
    });
    tokio::task::spawn_blocking(move || stage.begun.recv()).await.unwrap().unwrap();
    bulk.abort();
    assert!(bulk.await.unwrap_err().is_cancelled());
    stage.release.send(()).unwrap();
    // The one bulk thread takes calls in turn, so it is past the abandoned one when it answers this.
    stage.workers.embed(texts(&["next"]), EmbeddingPriority::Bulk).await.unwrap();
    assert_eq!(
        stage.stand.batches.load(Ordering::SeqCst),
        2,
        "the batch that had begun, and the next call's"
    );
}

#[tokio::test]
async fn queries_beyond_those_that_may_wait_are_refused() {
    let stage = stage(LIMITS);
    let ask = |text| {
        let workers = Arc::clone(&stage.workers);
        async move { workers.embed(texts(&[text]), EmbeddingPriority::Interactive).await }
    };
    let running = tokio::spawn(ask("wait"));
    tokio::task::spawn_blocking(move || stage.begun.recv()).await.unwrap().unwrap();
    let mut waiting = [Box::pin(ask("a")), Box::pin(ask("b"))];
    for query in &mut waiting {
        assert!(futures_poll(query).is_none(), "it waits for the one thread");
    }
    let failure = ask("c").await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert!(failure.retry_after.is_some());
    stage.release.send(()).unwrap();
    assert!(running.await.unwrap().is_ok());
    for query in waiting {
        assert!(query.await.is_ok());
    }
}

/// What a future gives if it is polled once.
fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}
