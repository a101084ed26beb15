//! A running server, and short ways to call it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testing::{FailingCatalog, FailingJournal, FakeModel, RecordedRequest, RequestEnding};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::client::{Answer, Call, in_time};
use crate::deltas::{Encoding, Stream};

pub(crate) const STREAM: &str = "/api/generation/stream";
pub(crate) const SESSION: &str = "/api/generation/session";
pub(crate) const CANCEL: &str = "/api/generation/cancel";

/// A running server and what is behind it.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) fake: FakeModel,
    pub(crate) journal: Arc<FailingJournal>,
    pub(crate) catalog: Arc<FailingCatalog>,
    pub(crate) stop: mpsc::UnboundedSender<()>,
    pub(crate) serving: JoinHandle<io::Result<()>>,
}

impl World {
    pub(crate) async fn call(&self, call: Call) -> Answer {
        call.send(self.address).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Call::get(path)).await
    }

    /// Starts a session and returns its id.
    pub(crate) async fn session(&self) -> String {
        self.session_with(&json!({})).await
    }

    pub(crate) async fn session_with(&self, body: &Value) -> String {
        let started = self.call(Call::post_json(SESSION, body)).await.json(201).await;
        started["sessionId"].as_str().expect("a session has an id").to_owned()
    }

    /// The session as it stands.
    pub(crate) async fn look_at_session(&self, id: &str) -> Value {
        self.get(&format!("{SESSION}/{id}")).await.json(200).await
    }

    /// The prompt as it stands.
    pub(crate) async fn look_at_prompt(&self, id: &str) -> Value {
        self.get(&format!("/api/generation/prompts/{id}")).await.json(200).await
    }

    pub(crate) async fn end_session(&self, id: &str) -> Answer {
        self.call(Call::delete(format!("{SESSION}/{id}"))).await
    }

    /// Asks something in the session, and reads NDJSON.
    pub(crate) async fn ask(&self, session: &str) -> Stream {
        self.stream(Encoding::Ndjson, &question(session)).await
    }

    /// Asks, and must be answered with a stream.
    pub(crate) async fn stream(&self, encoding: Encoding, body: &Value) -> Stream {
        let call = Call::post_json(STREAM, body).header("Accept", encoding.media_type());
        Stream::new(self.call(call).await, encoding).await
    }

    /// Asks, whatever the answer will be.
    pub(crate) async fn try_ask(&self, body: &Value) -> Answer {
        self.call(Call::post_json(STREAM, body)).await
    }

    /// Reads a prompt behind a position, or from its start.
    pub(crate) async fn resume(&self, encoding: Encoding, prompt: &str, after: Option<u64>) -> Stream {
        let query = after.map(|after| format!("?after={after}")).unwrap_or_default();
        let call = Call::get(format!("/api/generation/prompts/{prompt}/stream{query}"));
        Stream::new(self.call(call.header("Accept", encoding.media_type())).await, encoding).await
    }

    pub(crate) async fn cancel(&self, session: &str, prompt: &str) -> Answer {
        let body = json!({"sessionId": session, "promptId": prompt});
        self.call(Call::post_json(CANCEL, &body)).await
    }

    /// Waits until the prompt has this status.
    pub(crate) async fn until_status(&self, prompt: &str, status: &str) -> Value {
        in_time(async {
            loop {
                let now = self.look_at_prompt(prompt).await;
                if now["status"] == status {
                    return now;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    /// Waits until a model is asked and the prompt's log has so many texts and thoughts of it.
    pub(crate) async fn until_said(&self, prompt: &str, said: usize) {
        self.fake.wait_until(|seen| !seen.is_empty()).await;
        let mut events = self.get(&format!("/api/prompts/{prompt}/events")).await;
        let mut log = String::new();
        while log.matches("\nevent: text\n").count() + log.matches("\nevent: reasoning\n").count() < said {
            let chunk = events.chunk().await.expect("a stream ends properly").expect("the model says more");
            log.push_str(str::from_utf8(&chunk).expect("a chunk has whole events"));
        }
    }

    /// Makes sure that the server has noticed what its clients did before, such as leaving: it runs in the
    /// test's own thread, and takes what happens in order.
    pub(crate) async fn settle(&self) {
        self.get("/health/live").await.json(200).await;
    }

    /// Waits until no model is being asked any more.
    pub(crate) async fn until_calls_ended(&self) -> Vec<RecordedRequest> {
        self.fake.wait_until(|seen| seen.iter().all(|seen| seen.ending != RequestEnding::Running)).await
    }

    /// Tells the server to stop. What it gives back waits until it has.
    pub(crate) fn stop(self) -> impl Future<Output = ()> {
        let _ = self.stop.send(());
        async { in_time(self.serving).await.expect("serving does not panic").expect("serving ends well") }
    }
}

/// A question in the session.
pub(crate) fn question(session: &str) -> Value {
    json!({"sessionId": session, "prompt": "why does water run down?"})
}

/// Lets so much time pass at once, for everything in this runtime. Reading and writing happen in real time,
/// before it and after it.
pub(crate) async fn time_passes(duration: Duration) {
    tokio::time::pause();
    tokio::time::advance(duration).await;
    tokio::time::resume();
}
