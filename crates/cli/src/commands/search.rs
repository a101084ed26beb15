//! `wellspring search`: passages without an answer. Through the server that runs on the data folder if there is
//! one, else in this process.

use std::error::Error;
use std::time::Duration;

use clap::Args;
use dialects::knowledge::{self, SearchRequest};
use domain::{IndexSync, Principal, StorageError};
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Runtime;

use super::{ConfigFlag, calls, print};
use crate::logging;
use crate::running::RunningServer;
use crate::settings::{Environment, Settings, StorageKind};
use crate::wiring::Knowledge;

/// How long the server may take.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Lines of a passage that a person is shown.
const LINES_SHOWN: usize = 6;

/// Finds passages.
#[derive(Args, Debug)]
pub(super) struct Search {
    /// What to look for
    query: String,
    /// How many passages
    #[arg(short, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    k: u32,
    /// Prints the JSON of POST /api/query
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlag,
}

/// Prints what is found, best first.
pub(super) fn run(search: &Search, environment: &Environment) -> Result<(), Box<dyn Error>> {
    logging::start_quietly(environment)?;
    let settings = search.config.settings(environment)?;
    let body = json!({ "query": search.query, "k": search.k }).to_string();
    let runtime = Runtime::new()?;
    let found = runtime.block_on(async {
        match RunningServer::on(&settings.data_dir) {
            Some(server) => ask(&server, body).await,
            None => look(&settings, body.as_bytes()).await,
        }
    })?;
    if search.json {
        return Ok(print(&(found + "\n"))?);
    }
    let passages: Vec<Passage> = serde_json::from_str(&found)?;
    if passages.is_empty() {
        eprintln!("nothing found");
    }
    let shown: Vec<_> = passages.iter().enumerate().map(|(rank, passage)| passage.shown(rank + 1)).collect();
    Ok(print(&shown.join("\n"))?)
}

/// Asks the server that has the index open.
async fn ask(server: &RunningServer, body: String) -> Result<String, String> {
    let url = server.url();
    let failed = |error: reqwest::Error| calls::unanswered(&url, &error);
    let call = calls::client(&url)?.post(format!("{url}/api/query")).timeout(LONGEST_WAIT).body(body);
    let response = calls::accepted(&url, call.send().await.map_err(failed)?).await;
    response.map_err(|refusal| refusal.message)?.text().await.map_err(failed)
}

/// Searches in this process.
async fn look(settings: &Settings, body: &[u8]) -> Result<String, String> {
    if settings.storage.kind == StorageKind::Memory {
        return Err("storage.kind is \"memory\" and no server runs, so there is nothing to search".to_owned());
    }
    if !settings.data_dir.join("knowledge.db").exists() {
        let folder = settings.data_dir.display();
        return Err(format!("there are no documents in {folder} yet: `wellspring ingest PATH` brings some"));
    }
    let request = knowledge::decode_query(body, settings.limits.question_chars);
    let request = request.map_err(|rejection| rejection.to_string())?;
    let knowledge = Knowledge::open(settings)?;
    let found = find(&knowledge, settings, &request).await?;
    Ok(String::from_utf8_lossy(&found).into_owned())
}

async fn find(
    knowledge: &Knowledge,
    settings: &Settings,
    request: &SearchRequest,
) -> Result<Vec<u8>, String> {
    let storage = |reason: StorageError| format!("storage: {reason}");
    let searched = knowledge.search(settings).await?;
    searched.follower.wait_until_searchable().await.map_err(storage)?;
    let who = Principal::local();
    let found = searched.retriever.retrieve(&who, request.query.clone(), &|_| ()).await;
    let found = found.map_err(|failure| failure.message)?;
    searched.follower.stop().await;
    let chunks: Vec<_> = found.passages.iter().map(|hit| hit.passage.chunk).collect();
    let pieces = knowledge.catalog.pieces(&who, &chunks).await.map_err(storage)?;
    let documents = pieces.into_iter().map(|piece| (piece.document.id, piece.document)).collect();
    Ok(knowledge::hits(&found.passages, &documents, request))
}

/// A passage of the answer, as far as a person is shown it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Passage {
    repo_url: String,
    file_path: String,
    title: String,
    text: String,
    line_start: Option<u32>,
    line_end: Option<u32>,
    similarity_score: f32,
}

impl Passage {
    fn shown(&self, rank: usize) -> String {
        let Self { repo_url, file_path, title, similarity_score, .. } = self;
        let lines = match (self.line_start, self.line_end) {
            (Some(first), Some(last)) if first != last => format!(":{first}-{last}"),
            (Some(line), _) => format!(":{line}"),
            _ => String::new(),
        };
        let mut text = format!("{rank}. {title}  {similarity_score:.2}\n   {file_path}{lines}  {repo_url}\n");
        let lines: Vec<_> = self.text.lines().filter(|line| !line.trim().is_empty()).collect();
        for line in lines.iter().take(LINES_SHOWN) {
            text.push_str(&format!("   | {line}\n"));
        }
        if lines.len() > LINES_SHOWN {
            text.push_str(&format!("   | … {} more lines\n", lines.len() - LINES_SHOWN));
        }
        text.chars().filter(|character| !character.is_control() || *character == '\n').collect()
    }
}
