//! A running test server, with shorthands for its most frequent requests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use testing::{FailingCatalog, FailingJournal, FakeModel, RecordedRequest, RequestEnding};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::support::delta_stream::{DeltaStream, Encoding};
use crate::support::http::{Request, Response, with_timeout};

pub(crate) const STREAM: &str = "/api/generation/stream";
pub(crate) const SESSION: &str = "/api/generation/session";
pub(crate) const CANCEL: &str = "/api/generation/cancel";

/// A running server, with the fakes behind it.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) fake: FakeModel,
    pub(crate) journal: Arc<FailingJournal>,
    pub(crate) catalog: Arc<FailingCatalog>,
    pub(crate) stop: mpsc::UnboundedSender<()>,
    pub(crate) serving: JoinHandle<io::Result<()>>,
    /// The data folder of the durable store.
    pub(crate) folder: Option<TempDir>,
}

impl TestServer {
    pub(crate) async fn call(&self, request: Request) -> Response {
        request.send(self.address).await
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.call(Request::get(path)).await
    }

    /// Starts a session and returns its id.
    pub(crate) async fn session(&self) -> String {
        self.session_with(&json!({})).await
    }

    pub(crate) async fn session_with(&self, body: &Value) -> String {
        let started = self.call(Request::post_json(SESSION, body)).await.json(201).await;
        started["sessionId"].as_str().expect("a session has an id").to_owned()
    }

    pub(crate) async fn get_session(&self, id: &str) -> Value {
        self.get(&format!("{SESSION}/{id}")).await.json(200).await
    }

    pub(crate) async fn get_prompt(&self, id: &str) -> Value {
        self.get(&format!("/api/generation/prompts/{id}")).await.json(200).await
    }

    pub(crate) async fn end_session(&self, id: &str) -> Response {
        self.call(Request::delete(format!("{SESSION}/{id}"))).await
    }

    /// Asks a question in the session and reads the answer as NDJSON.
    pub(crate) async fn ask(&self, session: &str) -> DeltaStream {
        self.stream(Encoding::Ndjson, &question(session)).await
    }

    /// Asks and expects a stream.
    pub(crate) async fn stream(&self, encoding: Encoding, body: &Value) -> DeltaStream {
        let request = Request::post_json(STREAM, body).header("Accept", encoding.media_type());
        DeltaStream::new(self.call(request).await, encoding).await
    }

    /// Asks and expects anything.
    pub(crate) async fn try_ask(&self, body: &Value) -> Response {
        self.call(Request::post_json(STREAM, body)).await
    }

    /// Resumes a prompt after a position, or from its start.
    pub(crate) async fn resume(&self, encoding: Encoding, prompt: &str, after: Option<u64>) -> DeltaStream {
        let query = after.map(|after| format!("?after={after}")).unwrap_or_default();
        let request = Request::get(format!("/api/generation/prompts/{prompt}/stream{query}"));
        DeltaStream::new(self.call(request.header("Accept", encoding.media_type())).await, encoding).await
    }

    pub(crate) async fn cancel(&self, session: &str, prompt: &str) -> Response {
        let body = json!({"sessionId": session, "promptId": prompt});
        self.call(Request::post_json(CANCEL, &body)).await
    }

    /// Waits until the prompt has this status.
    pub(crate) async fn wait_for_status(&self, prompt: &str, status: &str) -> Value {
        with_timeout(async {
            loop {
                let now = self.get_prompt(prompt).await;
                if now["status"] == status {
                    return now;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    /// Waits until a model was called and the prompt's log has this many text and reasoning events.
    pub(crate) async fn wait_until_generated(&self, prompt: &str, events: usize) {
        self.fake.wait_until(|seen| !seen.is_empty()).await;
        let mut stream = self.get(&format!("/api/prompts/{prompt}/events")).await;
        let mut log = String::new();
        while log.matches("\nevent: text\n").count() + log.matches("\nevent: reasoning\n").count() < events {
            let chunk =
                stream.chunk().await.expect("a stream ends properly").expect("the model generates more");
            log.push_str(str::from_utf8(&chunk).expect("a chunk has whole events"));
        }
    }

    /// Returns once the server has noticed what its clients did before, such as a disconnect. The server runs
    /// on the test's own thread and handles socket events in order.
    pub(crate) async fn settle(&self) {
        self.get("/health/live").await.json(200).await;
    }

    /// Waits until every call of a model has ended.
    pub(crate) async fn wait_for_model_calls(&self) -> Vec<RecordedRequest> {
        self.fake.wait_until(|seen| seen.iter().all(|seen| seen.ending != RequestEnding::Running)).await
    }

    /// Sends the stop signal. The returned future waits until the server has stopped.
    pub(crate) fn stop(self) -> impl Future<Output = ()> {
        let Self { stop, serving, folder, .. } = self;
        let _ = stop.send(());
        async move {
            with_timeout(serving).await.expect("serving does not panic").expect("serving succeeds");
            drop(folder);
        }
    }
}

/// The body of a prompt in the session.
pub(crate) fn question(session: &str) -> Value {
    json!({"sessionId": session, "prompt": "why does water run down?"})
}

/// Advances the time of this runtime at once. I/O happens in real time, before and after.
pub(crate) async fn advance_time(duration: Duration) {
    tokio::time::pause();
    tokio::time::advance(duration).await;
    tokio::time::resume();
}
