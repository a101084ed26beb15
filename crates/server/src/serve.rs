//! Serving: the caller brings the listener and the signal to stop.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use domain::{Catalog, Embedder, Ingest, Published, Retriever};
use engine::Engine;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tracing::warn;

use crate::health::Watch;
use crate::ingests::Ingests;
use crate::{door, routes};

/// A client that vanished without a word is noticed after this time, and then some probes.
const TCP_KEEP_ALIVE: Duration = Duration::from_secs(60);

/// How long prompts may take to end when the server stops.
const ENDING: Duration = Duration::from_secs(5);

/// How long clients may take to read their last bytes when the server stops.
const LAST_BYTES: Duration = Duration::from_secs(5);

/// What the server needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The largest body.
    pub body_bytes: usize,
    /// The largest body that brings documents.
    pub ingest_body_bytes: usize,
    /// The longest query, in characters.
    pub question_chars: usize,
    /// Browsers on these origins may call; `*` means all.
    pub allowed_origins: Vec<String>,
}

/// What the server stands on.
pub struct Parts {
    /// Runs prompts.
    pub engine: Engine,
    /// Makes vectors.
    pub embedder: Arc<dyn Embedder>,
    /// What is known.
    pub knowledge: Knowledge,
}

/// The knowledge base.
pub struct Knowledge {
    /// Keeps documents.
    pub catalog: Arc<dyn Catalog>,
    /// Takes them in.
    pub ingest: Arc<dyn Ingest>,
    /// Finds passages of them.
    pub retriever: Arc<dyn Retriever>,
    /// Knows whether all of them can be found.
    pub published: Arc<dyn Published>,
}

/// What every handler works with.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) retriever: Arc<dyn Retriever>,
    pub(crate) ingests: Arc<Ingests>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) settings: Arc<Settings>,
}

impl App {
    fn new(parts: Parts, settings: Settings) -> Self {
        let Parts { engine, embedder, knowledge } = parts;
        let Knowledge { catalog, ingest, retriever, published } = knowledge;
        Self {
            engine,
            catalog,
            retriever,
            ingests: Arc::new(Ingests::new(ingest)),
            watch: Arc::new(Watch::new(embedder, published)),
            settings: Arc::new(settings),
        }
    }
}

/// Serves until `stop`, then ends the running prompts, tells every client, and returns.
pub async fn serve(
    listener: TcpListener,
    parts: Parts,
    settings: Settings,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let loopback_only = listener.local_addr()?.ip().is_loopback();
    let app = App::new(parts, settings);
    let (engine, ingests) = (app.engine.clone(), Arc::clone(&app.ingests));
    let router: Router = door::guard(routes::all(), &app.settings, loopback_only).with_state(app);

    let (stopped, mut last_bytes) = tokio::sync::watch::channel(());
    let drain = async move {
        stop.await;
        let ended = async { tokio::join!(engine.shutdown(), ingests.stop()) };
        if timeout(ENDING, ended).await.is_err() {
            warn!("some prompts did not end in time");
        }
        drop(stopped);
    };
    let serving = axum::serve(listener.tap_io(tune), router).with_graceful_shutdown(drain);
    tokio::select! {
        served = serving => served,
        () = async {
            // The sender is dropped when the prompts have ended.
            while last_bytes.changed().await.is_ok() {}
            tokio::time::sleep(LAST_BYTES).await;
        } => {
            warn!("some clients did not read their last bytes in time");
            Ok(())
        }
    }
}

/// Tokens leave at once, and dead peers are noticed. A socket that will not be tuned works all the same.
fn tune(connection: &mut TcpStream) {
    let keep_alive = TcpKeepalive::new().with_time(TCP_KEEP_ALIVE).with_interval(TCP_KEEP_ALIVE / 4);
    let tuned = connection
        .set_nodelay(true)
        .and_then(|()| SockRef::from(&*connection).set_tcp_keepalive(&keep_alive));
    if let Err(error) = tuned {
        warn!(%error, "a connection could not be tuned");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tokens_leave_at_once_and_peers_that_vanish_are_noticed() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let _client = TcpStream::connect(listener.local_addr()?).await?;
        let (mut connection, _) = listener.accept().await?;
        assert!(!connection.nodelay()? && !SockRef::from(&connection).keepalive()?);
        tune(&mut connection);
        assert!(connection.nodelay()? && SockRef::from(&connection).keepalive()?);
        Ok(())
    }
}
