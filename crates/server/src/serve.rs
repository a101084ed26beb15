//! Serving: the caller brings the listener and the word to stop.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use domain::{Catalog, Embedder, IndexSync, Ingest, Retriever};
use engine::Engine;
use futures::{Stream, StreamExt};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::client::Network;
use crate::connections::{self, Closing, Patience};
use crate::health::Watch;
use crate::ingests::Ingests;
use crate::metrics::Refused;
use crate::rate::Rate;
use crate::{door, routes};

/// How long the ends of interrupted prompts may take to be kept.
const ENDING: Duration = Duration::from_secs(5);

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
    /// How long running prompts may go on after the word to stop.
    pub drain: Duration,
    /// How many connections there may be, and how long they are waited for.
    pub patience: Patience,
    /// Requests of one client address in a minute; 0 is no limit.
    pub requests_per_minute: u32,
    /// Proxies that are believed when they tell a client's address.
    pub trusted_proxies: Vec<Network>,
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
    pub published: Arc<dyn IndexSync>,
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
    pub(crate) refused: Arc<Refused>,
    pub(crate) rate: Option<Arc<Rate>>,
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
            rate: Rate::new(settings.requests_per_minute).map(Arc::new),
            settings: Arc::new(settings),
            refused: Arc::default(),
        }
    }
}

/// Serves until it is told to stop. With the first word it takes no new prompts, and running ones may go on for a
/// while; with the second they may not. Then every client is told, and it returns.
pub async fn serve(
    listener: TcpListener,
    parts: Parts,
    settings: Settings,
    stop: impl Stream<Item = ()> + Send + 'static,
) -> io::Result<()> {
    let loopback_only = listener.local_addr()?.ip().is_loopback();
    let (grace, patience) = (settings.drain, settings.patience);
    let app = App::new(parts, settings);
    let (engine, ingests) = (app.engine.clone(), Arc::clone(&app.ingests));
    let router = door::guard(routes::router(), &app, loopback_only).with_state(app);
    let closing = Closing::default();
    let stopping = async {
        drain(&engine, &ingests, grace, stop, &closing.began).await;
        closing.closed.cancel();
    };
    tokio::join!(connections::serve(listener, router, patience, closing.clone()), stopping);
    Ok(())
}

/// Waits for the word to stop, lets what runs come to its end within its grace, and ends the rest.
async fn drain(
    engine: &Engine,
    ingests: &Ingests,
    grace: Duration,
    stop: impl Stream<Item = ()>,
    began: &CancellationToken,
) {
    let mut stop = pin!(stop.fuse());
    stop.next().await;
    engine.close();
    ingests.close();
    began.cancel();
    let running = engine.running_prompts();
    info!(running, seconds = grace.as_secs_f64(), "no new prompts are taken; running ones may end");
    tokio::select! {
        _ = async { tokio::join!(engine.drain(), ingests.drain()) } => return,
        () = async { if !grace.is_zero() { sleep(grace).await } } => {}
        Some(()) = stop.next() => {}
    }
    info!(running = engine.running_prompts(), "prompts that still run are interrupted");
    let ended = async { tokio::join!(engine.shutdown(), ingests.stop()) };
    if timeout(ENDING, ended).await.is_err() {
        warn!("some prompts did not end in time");
    }
}
