//! `wellspring reindex`: vectors of the configured model for all chunks that lack one, and an index made anew.

use std::error::Error;
use std::time::Instant;

use clap::Args;
use domain::{IndexSync, StorageError};
use tokio::runtime::Runtime;

use super::ConfigFlag;
use super::ingest::{Reporter, duration};
use crate::logging;
use crate::running::RunningServer;
use crate::settings::{Environment, Settings, StorageKind};
use crate::wiring::Knowledge;

/// Makes the index anew.
#[derive(Args, Debug)]
#[command(after_help = "\
It is needed after the embedding model was changed, or if the server says so. Documents are not read again. It may
be interrupted: the vectors that are there by then stay.")]
pub(super) struct Reindex {
    #[command(flatten)]
    config: ConfigFlag,
}

/// Embeds what lacks a vector, then begins the index anew and brings it up to the catalog.
pub(super) fn run(reindex: &Reindex, environment: &Environment) -> Result<(), Box<dyn Error>> {
    logging::start_quietly(environment)?;
    let settings = reindex.config.settings(environment)?;
    if settings.storage.kind == StorageKind::Memory {
        return Err(
            "storage.kind is \"memory\": the index is made anew with every start of the server".into()
        );
    }
    Runtime::new()?.block_on(make_anew(&settings))
}

async fn make_anew(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    refuse_beside_a_server(settings)?;
    let knowledge = Knowledge::open(settings)?;
    let reporter = Reporter::new(knowledge.embedder.model(), true);
    let embedded =
        knowledge.pipeline(settings, None).embed_missing(&|progress| reporter.tell(progress)).await;
    drop(reporter);
    let embedded = embedded.map_err(|failure| failure.message)?;
    // That may have taken long.
    refuse_beside_a_server(settings)?;
    let searched = knowledge.search_anew(settings)?;
    searched
        .follower
        .wait_until_searchable()
        .await
        .map_err(|reason: StorageError| format!("index: {reason}"))?;
    searched.follower.stop().await;
    eprintln!("{embedded} chunks embedded, the index made anew, in {}", duration(began.elapsed()));
    Ok(())
}

fn refuse_beside_a_server(settings: &Settings) -> Result<(), String> {
    RunningServer::on(&settings.data_dir).map_or(Ok(()), |server| Err(server.is_in_the_way()))
}
