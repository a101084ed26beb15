//! Serving until the stop signal, and draining after it.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use futures::{Stream, StreamExt};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::app::{AppState, ServerParts};
use crate::connections::{self, Closing};
use crate::ingest_tasks::IngestTasks;
use crate::settings::ServerSettings;
use crate::{middleware, routes};

/// How long interrupted prompts may take to record their end.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves requests until `stop` yields.
///
/// At the first stop signal the server refuses new prompts, and running ones may continue for
/// `settings.drain`; at the second, or after that time, they end as interrupted. It returns once every client
/// has read its last bytes, or has had half a second to do so.
pub async fn serve(
    listener: TcpListener,
    parts: ServerParts,
    settings: ServerSettings,
    stop: impl Stream<Item = ()> + Send + 'static,
) -> io::Result<()> {
    let loopback_only = listener.local_addr()?.ip().is_loopback();
    let (grace, limits) = (settings.drain, settings.connections);
    let app = AppState::new(parts, settings);
    let (engine, ingest_tasks) = (app.engine.clone(), Arc::clone(&app.ingest_tasks));
    let router = middleware::wrap(routes::router(), &app, loopback_only).with_state(app);
    let closing = Closing::default();
    let stopping = async {
        drain(&engine, &ingest_tasks, grace, stop, &closing.draining).await;
        closing.closed.cancel();
    };
    tokio::join!(connections::serve(listener, router, limits, closing.clone()), stopping);
    Ok(())
}

/// Waits for the stop signal, lets running work end within its grace period, and interrupts the rest.
async fn drain(
    engine: &Engine,
    ingest_tasks: &IngestTasks,
    grace: Duration,
    stop: impl Stream<Item = ()>,
    draining: &CancellationToken,
) {
    let mut stop = pin!(stop.fuse());
    stop.next().await;
    engine.close();
    ingest_tasks.close();
    draining.cancel();
    let running = engine.running_prompts();
    info!(running, seconds = grace.as_secs_f64(), "draining: new prompts are refused");
    tokio::select! {
        _ = async { tokio::join!(engine.drain(), ingest_tasks.drain()) } => return,
        () = async { if !grace.is_zero() { sleep(grace).await } } => {}
        Some(()) = stop.next() => {}
    }
    info!(running = engine.running_prompts(), "interrupting running prompts");
    let ended = async { tokio::join!(engine.shutdown(), ingest_tasks.stop()) };
    if timeout(INTERRUPT_TIMEOUT, ended).await.is_err() {
        warn!("some interrupted prompts did not end in time");
    }
}
