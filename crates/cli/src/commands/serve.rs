//! `wellspring serve`: settings in, a running server out.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use engine::Engine;
use futures::{Stream, stream};
use ingest::Pipeline;
use server::{ConnectionLimits, IpNetwork, ServerSettings};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::{ConfigFlag, print};
use crate::running::Announcement;
use crate::service::ServiceManager;
use crate::settings::{self, AuthMode, Environment, Flags, Network, Settings, Sources};
use crate::wiring::Lasts;
use crate::{files, logging, memory, wiring};

/// What computes for nobody may still do so for this time, when all clients are told.
const LEFT_BEHIND: Duration = Duration::from_millis(250);

/// Runs the server.
#[derive(Args, Debug)]
#[command(after_help = "\
It prints its address once it is ready and logs to standard error; RUST_LOG=debug makes it say more. SIGTERM or
Ctrl-C stops it: it takes no new prompts, and running ones may end within server.drain_seconds. Those that do not, or
all of them at a second SIGTERM or Ctrl-C, end with the error `interrupted`, which says that they may be asked again.")]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigFlag,
    /// Where to listen, for example 127.0.0.1:8080; the same as server.bind
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
}

/// Runs the server until it is told to stop.
pub(super) fn run(serve: Serve, environment: &Environment) -> Result<(), Box<dyn Error>> {
    logging::start(environment)?;
    let file = serve.config.read(environment)?;
    let flags = Flags { bind: serve.bind };
    let sources = Sources { file: file.as_ref(), environment, flags: &flags };
    let (settings, tree) = Settings::load(&sources)?;
    for remark in settings::remarks(&settings, &tree, environment) {
        warn!("{remark}");
    }
    files::raise_limit(&settings);
    to_its_end(listen(&settings, ServiceManager::new(environment)))?
}

/// Runs it to its end. What still computes then, on threads that cannot be told to stop, does so for nobody: documents
/// of a request that was interrupted are cut, or a search goes on. The process does not wait for it to end by itself.
fn to_its_end<T>(serving: impl Future<Output = T>) -> io::Result<T> {
    let runtime = Runtime::new()?;
    let served = runtime.block_on(serving);
    runtime.shutdown_timeout(LEFT_BEHIND);
    Ok(served)
}

async fn listen(settings: &Settings, manager: ServiceManager) -> Result<(), Box<dyn Error>> {
    let bind = settings.server.bind;
    let listener = TcpListener::bind(bind).await.map_err(|error| {
        format!("server.bind: cannot listen on {bind}: {error}; {}", what_to_do(error.kind()))
    })?;
    let wired = wiring::server(settings, Lasts::Long).await?;
    warn_if_open(settings);
    // Asked for before anything is announced, so that whoever waits for the address can stop it.
    let stop = stop_signals(manager.clone())?;
    let address = listener.local_addr()?;
    let announcement = announce(settings, address);
    info!(version = env!("CARGO_PKG_VERSION"), %address, "started");
    manager.tell("READY=1");
    // It serves also if nobody can read this.
    let _ = print(&format!("Wellspring listens on http://{address}\n"));
    let mut beside = JoinSet::new();
    beside.spawn(advise(wired.parts.engine.clone()));
    for provider in wired.watched {
        beside.spawn(async move { provider.run_checks().await });
    }
    beside.spawn(memory::keep_giving_back(wired.parts.engine.clone()));
    beside.spawn(keep_house(wired.parts.engine.clone(), settings.storage.retention));
    beside.spawn(embed_the_rest(wired.pipeline));
    for ahead in wired.ahead {
        beside.spawn(ahead.keep_reading());
    }
    let served = server::serve(listener, wired.parts, server_settings(settings), stop).await;
    beside.shutdown().await;
    // While the data folder is still this process's: whoever comes next announces itself after that.
    drop(announcement);
    wired.follower.stop().await;
    served?;
    info!("stopped");
    Ok(())
}

fn server_settings(settings: &Settings) -> ServerSettings {
    let (server, limits) = (&settings.server, &settings.limits);
    let network = |network: &Network| IpNetwork { address: network.address, prefix: network.prefix };
    ServerSettings {
        body_bytes: limits.body_bytes,
        ingest_body_bytes: limits.ingest_body_bytes,
        question_chars: limits.question_chars,
        allowed_origins: server.allowed_origins.clone(),
        drain: server.drain,
        connections: ConnectionLimits {
            max: limits.connections,
            head_timeout: server.head,
            idle_timeout: server.idle,
            unread_timeout: server.unread,
        },
        requests_per_minute: limits.requests_per_minute,
        trusted_proxies: server.trusted_proxies.iter().map(network).collect(),
    }
}

/// Tells commands that this server runs. One that cannot be told of serves all the same.
fn announce(settings: &Settings, address: SocketAddr) -> Option<Announcement> {
    let announced = Announcement::new(&settings.data_dir, address);
    announced
        .inspect_err(
            |error| warn!(%error, "server.json cannot be written: commands will not find this server"),
        )
        .ok()
}

/// Embeds what a process that ended early left without vectors.
async fn embed_the_rest(pipeline: Arc<Pipeline>) {
    match pipeline.embed_missing(&|_| ()).await {
        Ok(0) => {}
        Ok(chunks) => info!(chunks, "embedded what was left without vectors"),
        Err(failure) => warn!("some chunks are found by their words only: {failure}"),
    }
}

async fn keep_house(engine: Engine, retention: Duration) {
    engine.run_maintenance(retention).await;
}

/// Says what to do while no provider answers, and none will by itself: a model that loads asks to wait.
async fn advise(engine: Engine) {
    let health = engine.provider_health().await;
    let failures = health.values().filter_map(|health| health.as_ref().err());
    let failures = failures.filter(|failure| failure.retry_after.is_none());
    let reasons: Vec<_> = failures.map(ToString::to_string).collect();
    if reasons.len() == health.len() {
        let reasons = reasons.join("; ");
        warn!("no provider answers yet, so prompts will fail. {reasons} (see docs/quickstart.md)");
    }
}

/// What to do when the address cannot be taken.
fn what_to_do(error: io::ErrorKind) -> &'static str {
    match error {
        io::ErrorKind::AddrInUse => "stop the server that runs there, or choose another address with --bind",
        io::ErrorKind::PermissionDenied => "choose a port above 1023 with --bind",
        _ => "choose an address of this machine with --bind",
    }
}

/// A word for each SIGTERM or Ctrl-C.
fn stop_signals(manager: ServiceManager) -> io::Result<impl Stream<Item = ()>> {
    let terminate = signal(SignalKind::terminate())?;
    let interrupt = signal(SignalKind::interrupt())?;
    Ok(stream::unfold((terminate, interrupt, manager), async |(mut terminate, mut interrupt, manager)| {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("stopping");
        manager.tell("STOPPING=1");
        Some(((), (terminate, interrupt, manager)))
    }))
}

fn warn_if_open(settings: &Settings) {
    let bind = settings.server.bind;
    if settings.auth.mode == AuthMode::None && !bind.ip().is_loopback() {
        warn!("auth.mode is \"none\" and server.bind is {bind}: everyone who can reach it can use it");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::spawn_blocking;

    use super::*;

    #[test]
    fn nobody_waits_for_what_computes_for_nobody() {
        let (_never, ends) = mpsc::channel::<()>();
        let served = to_its_end(async {
            spawn_blocking(move || ends.recv());
            "served"
        });
        assert_eq!(served.unwrap(), "served");
    }
}
