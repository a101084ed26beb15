//! `wellspring serve`: the server, and the background tasks beside it.

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

use super::{CommandError, ConfigFlag, print};
use crate::running_server::ServerFile;
use crate::service_manager::ServiceManager;
use crate::settings::{self, AuthMode, Environment, Flags, Network, Settings, SettingsSources};
use crate::wiring::ProcessLifetime;
use crate::{logging, malloc_trim, open_file_limit, wiring};

/// How long blocking work may go on after the server has stopped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(250);

/// Runs the server
#[derive(Args, Debug)]
#[command(after_help = "\
It prints its address once it is ready, and logs to standard error; RUST_LOG=debug logs more. SIGTERM or Ctrl-C stops it:
it takes no new prompts, and running ones may end within server.drain_seconds. Those that do not, and all of them at a
second SIGTERM or Ctrl-C, end with the error `interrupted`, which is retryable.")]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigFlag,
    /// The address to listen on, for example 127.0.0.1:8080; overrules server.bind
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
}

/// Runs the server until SIGTERM or Ctrl-C.
pub(super) fn run(serve: Serve, environment: &Environment) -> Result<(), CommandError> {
    logging::start(environment)?;
    let file = serve.config.read(environment)?;
    let flags = Flags { bind: serve.bind };
    let sources = SettingsSources { file: file.as_ref(), environment, flags: &flags };
    let (settings, raw) = Settings::load(&sources)?;
    for warning in settings::warnings(&settings, &raw, environment) {
        warn!("{warning}");
    }
    open_file_limit::raise(&settings);
    block_on(run_server(&settings, ServiceManager::new(environment)))?
}

/// Runs the future on a runtime of its own. Blocking work that goes on after it (cutting documents, a search) serves an
/// interrupted request, and threads cannot be cancelled: the process exits without waiting for it.
fn block_on<T>(serving: impl Future<Output = T>) -> io::Result<T> {
    let runtime = Runtime::new()?;
    let served = runtime.block_on(serving);
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    Ok(served)
}

async fn run_server(settings: &Settings, manager: ServiceManager) -> Result<(), CommandError> {
    let bind = settings.server.bind;
    let listener = TcpListener::bind(bind).await.map_err(|error| {
        let advice = bind_advice(error.kind());
        CommandError::Usage(format!("server.bind: cannot listen on {bind}: {error}; {advice}"))
    })?;
    let wired = wiring::server(settings, ProcessLifetime::Server).await?;
    warn_if_open(settings);
    // Installed before the address is printed, so that a client that waits for it can stop the server.
    let stop = stop_signals(manager.clone())?;
    let address = listener.local_addr()?;
    let server_file = write_server_file(settings, address);
    info!(version = env!("CARGO_PKG_VERSION"), %address, "started");
    manager.notify("READY=1");
    // The server runs also if standard output is closed.
    let _ = print(&format!("Wellspring listens on http://{address}\n"));
    let mut background = JoinSet::new();
    background.spawn(warn_without_provider(wired.parts.engine.clone()));
    for provider in wired.watched {
        background.spawn(async move { provider.run_checks().await });
    }
    background.spawn(malloc_trim::trim_after_bursts(wired.parts.engine.clone()));
    background.spawn(run_retention(wired.parts.engine.clone(), settings.storage.retention));
    background.spawn(embed_missing(wired.pipeline));
    for warmup in wired.warmups {
        background.spawn(warmup.run());
    }
    let served = server::serve(listener, wired.parts, server_settings(settings), stop).await;
    background.shutdown().await;
    // While this process still holds the data folder: the next server writes its own file after that.
    drop(server_file);
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

/// Writes `server.json`, by which commands find this server. The server runs without it too.
fn write_server_file(settings: &Settings, address: SocketAddr) -> Option<ServerFile> {
    ServerFile::create(&settings.data_dir, address)
        .inspect_err(
            |error| warn!(%error, "server.json cannot be written: commands will not find this server"),
        )
        .ok()
}

/// Embeds chunks that an interrupted process left without vectors.
async fn embed_missing(pipeline: Arc<Pipeline>) {
    match pipeline.embed_missing(&|_| ()).await {
        Ok(0) => {}
        Ok(chunks) => info!(chunks, "embedded chunks that had no vectors"),
        Err(failure) => warn!("some chunks are found by their words only: {failure}"),
    }
}

async fn run_retention(engine: Engine, retention: Duration) {
    engine.run_maintenance(retention).await;
}

/// Warns with advice if no provider answers. A model that is still loading (`retry_after`) does not count.
async fn warn_without_provider(engine: Engine) {
    let health = engine.provider_health().await;
    let failures = health.values().filter_map(|health| health.as_ref().err());
    let failures = failures.filter(|failure| failure.retry_after.is_none());
    let reasons: Vec<_> = failures.map(ToString::to_string).collect();
    if reasons.len() == health.len() {
        let reasons = reasons.join("; ");
        warn!("no provider answers yet, so prompts will fail. {reasons} (see docs/quickstart.md)");
    }
}

fn bind_advice(error: io::ErrorKind) -> &'static str {
    match error {
        io::ErrorKind::AddrInUse => "stop the server that runs there, or choose another address with --bind",
        io::ErrorKind::PermissionDenied => "choose a port above 1023 with --bind",
        _ => "choose an address of this machine with --bind",
    }
}

/// One item for each SIGTERM or Ctrl-C.
fn stop_signals(manager: ServiceManager) -> io::Result<impl Stream<Item = ()>> {
    let terminate = signal(SignalKind::terminate())?;
    let interrupt = signal(SignalKind::interrupt())?;
    Ok(stream::unfold((terminate, interrupt, manager), async |(mut terminate, mut interrupt, manager)| {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("stopping");
        manager.notify("STOPPING=1");
        Some(((), (terminate, interrupt, manager)))
    }))
}

fn warn_if_open(settings: &Settings) {
    let bind = settings.server.bind;
    if settings.auth.mode == AuthMode::None && !bind.ip().is_loopback() {
        warn!("auth.mode is \"none\" and server.bind is {bind}: every client that can reach it can use it");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::spawn_blocking;

    use super::*;

    #[test]
    fn blocking_work_does_not_delay_the_exit() {
        let (_never, ends) = mpsc::channel::<()>();
        let served = block_on(async {
            spawn_blocking(move || ends.recv());
            "served"
        });
        assert_eq!(served.unwrap(), "served");
    }
}
