//! `wellspring serve`: settings in, a running server out.

use std::error::Error;
use std::io;

use clap::Args;
use engine::Engine;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use super::ConfigFlag;
use crate::settings::{AuthMode, Environment, Flags, Settings, Sources};
use crate::{logging, wiring};

/// Runs the server.
#[derive(Args, Debug)]
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
    let settings = Settings::load(&Sources { file: file.as_ref(), environment, flags: &flags })?;
    warn_if_open(&settings);
    let engine = wiring::engine(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(listen(&settings, engine))
}

async fn listen(settings: &Settings, engine: Engine) -> Result<(), Box<dyn Error>> {
    let bind = settings.server.bind;
    let listener = TcpListener::bind(bind).await.map_err(|error| {
        format!("server.bind: cannot listen on {bind}: {error}; is another server running there?")
    })?;
    // Asked for before anything is announced, so that whoever waits for the address can stop it.
    let stop = stop_signal()?;
    println!("Wellspring listens on http://{}", listener.local_addr()?);
    let advice = tokio::spawn(advise(engine.clone()));
    let server_settings = server::Settings {
        body_bytes: settings.limits.body_bytes,
        allowed_origins: settings.server.allowed_origins.clone(),
    };
    server::serve(listener, engine, server_settings, stop).await?;
    advice.abort();
    info!("stopped");
    Ok(())
}

/// Says what to do while no provider answers.
async fn advise(engine: Engine) {
    let health = engine.provider_health().await;
    if health.values().any(Result::is_ok) {
        return;
    }
    let reasons: Vec<_> = health
        .iter()
        .filter_map(|(name, health)| Some(format!("{name}: {}", health.as_ref().err()?)))
        .collect();
    warn!(
        "no provider answers yet, so prompts will fail. {} (docs/quickstart.md shows how to set one)",
        reasons.join("; ")
    );
}

/// Resolves on SIGTERM or Ctrl-C.
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("stopping");
    })
}

fn warn_if_open(settings: &Settings) {
    let bind = settings.server.bind;
    if settings.auth.mode == AuthMode::None && !bind.ip().is_loopback() {
        warn!("auth.mode is \"none\" and server.bind is {bind}: everyone who can reach it can use it");
    }
}
