//! `wellspring health`: the health of the running server, for a terminal and for the health check of a container.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::StatusCode;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::server_client::{ServerClient, ServerError, server_url};
use super::{CommandError, ConfigFlag, print};
use crate::logging;
use crate::running_server::RunningServer;
use crate::settings::Environment;

/// A server that takes longer is unhealthy.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Reports the health of the running server
#[derive(Args, Debug)]
#[command(after_help = "\
It calls the server that runs on the data folder of the settings, and exits with 0 if the server is healthy or degraded.
With --ready it checks only whether the server takes prompts, whether or not a provider would answer them, and prints
nothing if it does.")]
pub(super) struct Health {
    /// Calls GET /health/ready instead of GET /health
    #[arg(long)]
    ready: bool,
    /// The server to ask, for example http://127.0.0.1:8080
    #[arg(long, value_name = "URL", value_parser = server_url)]
    server: Option<String>,
    #[command(flatten)]
    config: ConfigFlag,
}

/// Prints the state of each part.
pub(super) fn run(health: &Health, environment: &Environment) -> Result<ExitCode, CommandError> {
    logging::start_quietly(environment)?;
    let url = url(health, environment)?;
    let path = if health.ready { "/health/ready" } else { "/health" };
    let (status, report) = Runtime::new()?.block_on(get(&url, path))?;
    let is_healthy = status.is_success();
    if !(health.ready && is_healthy) {
        print(&lines(&report))?;
    }
    Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn url(health: &Health, environment: &Environment) -> Result<String, CommandError> {
    if let Some(url) = &health.server {
        return Ok(url.clone());
    }
    let folder = health.config.settings(environment)?.data_dir;
    let shown = folder.display();
    match RunningServer::find(&folder) {
        Ok(Some(server)) => Ok(server.url()),
        Ok(None) => Err(CommandError::Usage(format!(
            "no server runs on the data folder {shown}: if one runs on another, name its settings file with \
             --config, or its address with --server"
        ))),
        Err(error) => Err(CommandError::Usage(format!(
            "the data folder {shown} cannot be searched for a running server: {error}; run this as the server's user, \
             or name the server's address with --server"
        ))),
    }
}

async fn get(url: &str, path: &str) -> Result<(StatusCode, Value), ServerError> {
    let server = ServerClient::new(url)?;
    let response = server.send(server.get(path).timeout(TIMEOUT)).await?;
    let status = response.status();
    let report = serde_json::from_slice(&server.body(response).await?);
    let report = report.map_err(|_| server.not_ours(format!("answered {status}")))?;
    Ok((status, report))
}

/// The overall status, then each part, with the reason if it is not up.
fn lines(report: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut out = text(&report["status"]) + "\n";
    for (part, service) in report["services"].as_object().into_iter().flatten() {
        let line = format!("  {part}: {} {}", text(&service["status"]), text(&service["message"]));
        out.push_str(&(line.trim_end().to_owned() + "\n"));
    }
    out.chars().filter(|character| !character.is_control() || *character == '\n').collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_part_is_a_line_with_its_reason() {
        let services =
            json!({"index": {"status": "up"}, "storage": {"status": "down", "message": "disk\u{1b} full"}});
        let report = json!({"status": "unhealthy", "services": services});
        assert_eq!(lines(&report), "unhealthy\n  index: up\n  storage: down disk full\n");
        assert_eq!(lines(&json!({"status": "stopping"})), "stopping\n");
    }
}
