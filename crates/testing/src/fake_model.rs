//! The fake model server, as tests hold it.

use std::collections::VecDeque;
use std::io;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::routes::{Fake, router, until_stopped};
use crate::seen::{Requests, Seen};
use crate::socket::{Flushes, Sockets};

/// A model server that runs as long as this value lives. It speaks OpenAI (base address `/v1`) and
/// Ollama, answers for any model, and misbehaves as the model's name says; see [`crate::grammar`].
///
/// It uses real sockets, so tests that pause tokio's clock want [`crate::ScriptedProvider`] instead.
pub struct FakeModel {
    url: String,
    requests: Requests,
    /// Dropping it stops the server.
    running: watch::Sender<()>,
    serving: JoinHandle<()>,
}

impl FakeModel {
    /// Starts one on a free port of this machine.
    pub async fn start() -> Self {
        Self::start_with([]).await
    }

    /// Starts one that lists these models too.
    pub async fn start_with<'a>(models: impl IntoIterator<Item = &'a str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("this machine has a free port");
        let models = models.into_iter().map(str::to_owned).collect();
        Self::serve(listener, models).expect("a bound listener has an address")
    }

    /// Serves on this listener, and lists these models too.
    pub fn serve(listener: TcpListener, models: Vec<String>) -> io::Result<Self> {
        let url = format!("http://{}", listener.local_addr()?);
        let (running, stopped) = watch::channel(());
        let requests = Requests::default();
        let fake = Fake { requests: requests.clone(), models: models.into(), stopped: stopped.clone() };
        let serving = tokio::spawn(async move {
            let service = router(fake).into_make_service_with_connect_info::<Flushes>();
            let stop = until_stopped(stopped);
            let served = axum::serve(Sockets(listener), service).with_graceful_shutdown(stop).await;
            served.expect("serving never ends with an error");
        });
        Ok(Self { url, requests, running, serving })
    }

    /// Its address, such as `http://127.0.0.1:40123`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Every request it saw, the newest last; of very many only the newest.
    pub fn requests(&self) -> Vec<Seen> {
        self.requests.look(|requests| requests.iter().cloned().collect())
    }

    /// The requests for an answer, without those that only looked around.
    pub fn chats(&self) -> Vec<Seen> {
        self.requests.look(|requests| requests.iter().filter(|seen| seen.is_chat()).cloned().collect())
    }

    /// The requests for vectors.
    pub fn embeddings(&self) -> Vec<Seen> {
        self.requests.look(|requests| requests.iter().filter(|seen| seen.is_embedding()).cloned().collect())
    }

    /// Waits until the requests meet the condition, and returns them.
    ///
    /// # Panics
    /// If they don't within ten seconds; the message shows them.
    #[track_caller]
    pub fn wait_until(&self, condition: impl Fn(&VecDeque<Seen>) -> bool) -> impl Future<Output = Vec<Seen>> {
        self.requests.wait_until(condition)
    }

    /// Stops it: running answers break off, and when this returns nobody listens any more.
    pub async fn stop(self) {
        drop(self.running);
        self.serving.await.expect("serving does not panic");
    }
}
