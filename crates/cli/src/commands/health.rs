//! `wellspring health`: how the server is that runs, for a terminal and for whoever watches over a container.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::StatusCode;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::{ConfigFlag, calls, print};
use crate::logging;
use crate::running::RunningServer;
use crate::settings::Environment;

/// A server that takes longer is not well.
const LONGEST_WAIT: Duration = Duration::from_secs(4);

/// Tells how the server is.
#[derive(Args, Debug)]
#[command(after_help = "\
It asks the server that runs on the data folder of the settings, and ends with 0 if prompts are answered, also where a
part of the server is not at its best. With --ready it asks only whether prompts are taken, says nothing if they are,
and does not mind whether anybody would answer them.")]
pub(super) struct Health {
    /// Asks GET /health/ready instead of GET /health
    #[arg(long)]
    ready: bool,
    /// The server to ask, for example http://127.0.0.1:8080
    #[arg(long, value_name = "URL", value_parser = calls::server_url)]
    server: Option<String>,
    #[command(flatten)]
    config: ConfigFlag,
}

/// Prints how each part is.
pub(super) fn run(health: &Health, environment: &Environment) -> Result<ExitCode, Box<dyn Error>> {
    logging::start_quietly(environment)?;
    let url = url(health, environment)?;
    let path = if health.ready { "/health/ready" } else { "/health" };
    let (status, report) = Runtime::new()?.block_on(ask(&url, path))?;
    let is_well = status.is_success();
    if !(health.ready && is_well) {
        print(&shown(&report))?;
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn url(health: &Health, environment: &Environment) -> Result<String, Box<dyn Error>> {
    if let Some(url) = &health.server {
        return Ok(url.clone());
    }
    let folder = health.config.settings(environment)?.data_dir;
    let shown = folder.display();
    let server = RunningServer::find(&folder).map_err(|error| {
        format!(
            "whether a server runs on the data folder {shown} cannot be told: {error}; run this as the server's \
             user, or name the server's address with --server"
        )
    })?;
    let server = server.ok_or_else(|| {
        format!(
            "no server runs on the data folder {shown}: if one runs on another, name its settings file with \
             --config, or its address with --server"
        )
    })?;
    Ok(server.url())
}

async fn ask(url: &str, path: &str) -> Result<(StatusCode, Value), String> {
    let failed = |error: reqwest::Error| calls::unanswered(url, &error);
    let call = calls::client(url)?.get(format!("{url}{path}")).timeout(LONGEST_WAIT);
    let response = call.send().await.map_err(failed)?;
    let (status, body) = (response.status(), response.bytes().await.map_err(failed)?);
    let report = serde_json::from_slice(&body);
    let report =
        report.map_err(|_| format!("the server at {url} answered {status}: is it Wellspring's address?"))?;
    Ok((status, report))
}

/// The whole, then each part with the reason if it is not at its best.
fn shown(report: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = text(&report["status"]) + "\n";
    for (part, service) in report["services"].as_object().into_iter().flatten() {
        let line = format!("  {part}: {} {}", text(&service["status"]), text(&service["message"]));
        lines.push_str(&(line.trim_end().to_owned() + "\n"));
    }
    lines.chars().filter(|character| !character.is_control() || *character == '\n').collect()
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
        assert_eq!(shown(&report), "unhealthy\n  index: up\n  storage: down disk full\n");
        assert_eq!(shown(&json!({"status": "stopping"})), "stopping\n");
    }
}
