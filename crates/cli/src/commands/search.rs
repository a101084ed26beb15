//! `wellspring search`: passages without an answer, from the server that runs on the data folder, otherwise from this
//! process.

use std::time::Duration;

use clap::Args;
use dialects::knowledge::{self, SearchRequest};
use domain::Principal;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Runtime;

use super::server_client::{ServerClient, ServerError};
use super::{CommandError, ConfigFlag, print};
use crate::logging;
use crate::running_server::RunningServer;
use crate::settings::{Environment, Settings, StorageKind};
use crate::wiring::KnowledgeBase;

const TIMEOUT: Duration = Duration::from_secs(60);

/// The most lines of a passage that are printed.
const LINES_SHOWN: usize = 6;

/// Finds passages
#[derive(Args, Debug)]
pub(super) struct Search {
    /// The text to search for
    query: String,
    /// How many passages to retrieve
    #[arg(short, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    k: u32,
    /// Prints the JSON of POST /api/query
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlag,
}

/// Prints the passages found, best first.
pub(super) fn run(search: &Search, environment: &Environment) -> Result<(), CommandError> {
    logging::start_quietly(environment)?;
    let settings = search.config.settings(environment)?;
    let body = json!({ "query": search.query, "k": search.k }).to_string();
    let runtime = Runtime::new()?;
    let found = runtime.block_on(async {
        match RunningServer::on(&settings.data_dir) {
            Some(server) => Ok(search_server(&server.url(), body).await?),
            None => search_in_process(&settings, body.as_bytes()).await,
        }
    })?;
    if search.json {
        return print(&(found + "\n"));
    }
    let passages: Vec<PrintedPassage> = serde_json::from_str(&found).map_err(CommandError::other)?;
    if passages.is_empty() {
        statusln!("nothing found");
    }
    let printed = passages.iter().enumerate().map(|(rank, passage)| passage.text(rank + 1));
    print(&printed.collect::<Vec<_>>().join("\n"))
}

/// Asks the server, which has the index open.
async fn search_server(url: &str, body: String) -> Result<String, ServerError> {
    let server = ServerClient::new(url)?;
    let response = server.call(server.post("/api/query").timeout(TIMEOUT).body(body)).await?;
    let body = server.body(response).await?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

async fn search_in_process(settings: &Settings, body: &[u8]) -> Result<String, CommandError> {
    if settings.storage.kind == StorageKind::Memory {
        return Err(CommandError::NothingStored(" and no server runs, so there is nothing to search"));
    }
    if !settings.data_dir.join("knowledge.db").exists() {
        let folder = settings.data_dir.display();
        let message = format!("there are no documents in {folder} yet: `wellspring ingest PATH` brings some");
        return Err(CommandError::Usage(message));
    }
    let request = knowledge::decode_query(body, settings.limits.question_chars)?;
    let knowledge = KnowledgeBase::open(settings)?;
    let hits = retrieve(&knowledge, settings, &request).await?;
    Ok(String::from_utf8_lossy(&hits).into_owned())
}

async fn retrieve(
    knowledge: &KnowledgeBase,
    settings: &Settings,
    request: &SearchRequest,
) -> Result<Vec<u8>, CommandError> {
    let search = knowledge.open_index(settings).await?;
    search.caught_up().await?;
    let who = Principal::local();
    let found = search.retriever.retrieve(&who, request.query.clone(), &|_| ()).await?;
    search.follower.stop().await;
    let chunks: Vec<_> = found.passages.iter().map(|hit| hit.passage.chunk).collect();
    let pieces = knowledge.catalog.chunks(&who, &chunks).await?;
    let documents = pieces.into_iter().map(|piece| (piece.document.id, piece.document)).collect();
    Ok(knowledge::hits(&found.passages, &documents, request))
}

/// A passage of the response, as far as it is printed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PrintedPassage {
    repo_url: String,
    file_path: String,
    title: String,
    text: String,
    line_start: Option<u32>,
    line_end: Option<u32>,
    similarity_score: f32,
}

impl PrintedPassage {
    fn text(&self, rank: usize) -> String {
        let Self { repo_url, file_path, title, similarity_score, .. } = self;
        let lines = match (self.line_start, self.line_end) {
            (Some(first), Some(last)) if first != last => format!(":{first}-{last}"),
            (Some(line), _) => format!(":{line}"),
            _ => String::new(),
        };
        let mut out = format!("{rank}. {title}  {similarity_score:.2}\n   {file_path}{lines}  {repo_url}\n");
        let lines: Vec<_> = self.text.lines().filter(|line| !line.trim().is_empty()).collect();
        for line in lines.iter().take(LINES_SHOWN) {
            out.push_str(&format!("   | {line}\n"));
        }
        if lines.len() > LINES_SHOWN {
            out.push_str(&format!("   | … {} more lines\n", lines.len() - LINES_SHOWN));
        }
        out.chars().filter(|character| !character.is_control() || *character == '\n').collect()
    }
}
