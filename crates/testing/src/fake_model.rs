//! A fake model server over HTTP.
//!
//! [`routes`] decodes a request of either [API](api) and records it. The model's name is an answer's [`script`];
//! [`answer_body`] renders the [`answer_text`] by it, write by write, in the frames of [`openai`] or [`ollama`], and
//! [`embeddings`] answers with [`vectors`].

mod answer_body;
mod answer_text;
mod api;
mod embeddings;
mod flush_socket;
mod ollama;
mod openai;
mod recorded;
mod routes;
mod script;
mod vectors;

use std::collections::VecDeque;
use std::io;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use answer_text::{fake_text, fake_token};
use flush_socket::{FlushListener, FlushSignal};
use recorded::RequestLog;
pub use recorded::{RecordedRequest, RequestEnding};
use routes::{ServerState, router, until_stopped};
pub use script::model_name_grammar;
pub use vectors::fake_vector;

/// A model server that runs as long as this value lives.
///
/// It speaks the APIs of OpenAI (base address `/v1`) and Ollama, answers for any model name, and shows the
/// faults that the name asks for: see [`model_name_grammar`]. It records every request.
///
/// It uses real sockets, so tests that pause tokio's clock use [`crate::ManualProvider`] instead.
pub struct FakeModel {
    url: String,
    requests: RequestLog,
    /// Dropping it stops the server.
    running: watch::Sender<()>,
    serving: JoinHandle<()>,
}

impl FakeModel {
    /// Starts a server on a free port of this machine.
    pub async fn start() -> Self {
        Self::start_with([]).await
    }

    /// Starts a server that also lists these models.
    pub async fn start_with<'a>(models: impl IntoIterator<Item = &'a str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("this machine has a free port");
        let models = models.into_iter().map(str::to_owned).collect();
        Self::serve(listener, models).expect("a bound listener has an address")
    }

    /// Serves on this listener, and also lists these models.
    pub fn serve(listener: TcpListener, models: Vec<String>) -> io::Result<Self> {
        let url = format!("http://{}", listener.local_addr()?);
        let (running, stopped) = watch::channel(());
        let requests = RequestLog::default();
        let state =
            ServerState { requests: requests.clone(), models: models.into(), stopped: stopped.clone() };
        let serving = tokio::spawn(async move {
            let service = router(state).into_make_service_with_connect_info::<FlushSignal>();
            let stop = until_stopped(stopped);
            let served = axum::serve(FlushListener(listener), service).with_graceful_shutdown(stop).await;
            served.expect("serving never ends with an error");
        });
        Ok(Self { url, requests, running, serving })
    }

    /// The address, such as `http://127.0.0.1:40123`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The recorded requests, the newest last; at most the newest 10,000.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.read(|requests| requests.iter().cloned().collect())
    }

    /// The recorded chat requests, without those for models and versions.
    pub fn chats(&self) -> Vec<RecordedRequest> {
        self.requests.read(|requests| requests.iter().filter(|request| request.is_chat()).cloned().collect())
    }

    /// The recorded embedding requests.
    pub fn embeddings(&self) -> Vec<RecordedRequest> {
        self.requests
            .read(|requests| requests.iter().filter(|request| request.is_embedding()).cloned().collect())
    }

    /// Waits until the recorded requests meet the condition, and returns them.
    ///
    /// # Panics
    /// If they do not within 60 seconds. The message shows the newest requests.
    #[track_caller]
    pub fn wait_until(
        &self,
        condition: impl Fn(&VecDeque<RecordedRequest>) -> bool,
    ) -> impl Future<Output = Vec<RecordedRequest>> {
        self.requests.wait_until(condition)
    }

    /// Stops the server: running answers break off. When this returns, the port is closed.
    pub async fn stop(self) {
        drop(self.running);
        self.serving.await.expect("serving does not panic");
    }
}
