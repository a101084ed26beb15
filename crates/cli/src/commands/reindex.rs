//! `wellspring reindex`: embeds chunks that lack a vector of the configured model, and rebuilds the index.

use std::time::Instant;

use clap::Args;
use tokio::runtime::Runtime;

use super::ingest::{ProgressLine, duration};
use super::{CommandError, ConfigFlag};
use crate::logging;
use crate::running_server::RunningServer;
use crate::settings::{Environment, Settings, StorageKind};
use crate::wiring::KnowledgeBase;

/// Embeds chunks that lack a vector of the configured model, and rebuilds the index
#[derive(Args, Debug)]
#[command(after_help = "\
It is needed after a change of the embedding model, or when the server asks for it. Documents are not read again. An
interrupted run keeps the vectors that it has computed.")]
pub(super) struct Reindex {
    #[command(flatten)]
    config: ConfigFlag,
}

/// Embeds what lacks a vector, then rebuilds the index from the catalog.
pub(super) fn run(reindex: &Reindex, environment: &Environment) -> Result<(), CommandError> {
    logging::start_quietly(environment)?;
    let settings = reindex.config.settings(environment)?;
    if settings.storage.kind == StorageKind::Memory {
        return Err(CommandError::NothingStored(": the index is rebuilt with every start of the server"));
    }
    Runtime::new()?.block_on(rebuild(&settings))
}

async fn rebuild(settings: &Settings) -> Result<(), CommandError> {
    let began = Instant::now();
    refuse_beside_a_server(settings)?;
    let knowledge = KnowledgeBase::open(settings)?;
    let line = ProgressLine::new(knowledge.embedder.model(), true);
    let embedded = knowledge.pipeline(settings, None).embed_missing(&|progress| line.update(progress)).await;
    drop(line);
    let embedded = embedded?;
    // Embedding may have taken long enough for a server to start.
    refuse_beside_a_server(settings)?;
    let search = knowledge.rebuild_index(settings)?;
    search.caught_up().await?;
    search.follower.stop().await;
    statusln!("{embedded} chunks embedded, the index rebuilt, in {}", duration(began.elapsed()));
    Ok(())
}

fn refuse_beside_a_server(settings: &Settings) -> Result<(), CommandError> {
    RunningServer::on(&settings.data_dir).map_or(Ok(()), |server| Err(CommandError::ServerRuns(server)))
}
