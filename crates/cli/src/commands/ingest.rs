//! `wellspring ingest`: reads folders and repositories into the knowledge base. Beside a running server it writes the
//! catalog only, which the server follows; without one it brings the index up to date too.

mod progress;
mod summary;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use domain::Principal;
use ingest::names::DocusaurusSite;
use ingest::sources::{FileSource, Folder, Repository, SourceLimits};
use ingest::{IngestError, Pipeline, SourceReport};
use tokio::runtime::Runtime;

use super::{CommandError, ConfigFlag, print};
use crate::logging;
use crate::running_server::RunningServer;
use crate::settings::{Environment, Settings, StorageKind};
use crate::wiring::KnowledgeBase;
pub(super) use progress::{ProgressLine, duration};
use summary::IngestSummary;

/// How long running reads may take to end after Ctrl-C.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads folders and repositories into the knowledge base
#[derive(Args, Debug)]
#[command(after_help = "\
A folder is read without ignored (.gitignore) and hidden files, binaries, keys and links; a repository at its latest
commit, through git. Unchanged files are not read again, and documents whose files are gone are removed. It may run beside
the server, which finds new documents at once.")]
pub(super) struct Ingest {
    /// Folders, single files, and repositories by their URL
    #[arg(required = true, value_name = "PATH|GIT-URL")]
    sources: Vec<String>,
    /// The collection for the documents
    #[arg(long, value_name = "NAME", default_value = "default")]
    collection: String,
    /// The kind of site that the pages belong to [default: detected by its settings]
    #[arg(long, value_name = "KIND")]
    site: Option<SiteKind>,
    /// Prints a JSON object with the figures, and no progress
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlag,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SiteKind {
    Docusaurus,
}

/// Reads all sources, one after the other.
pub(super) fn run(ingest: &Ingest, environment: &Environment) -> Result<(), CommandError> {
    logging::start_quietly(environment)?;
    let settings = ingest.config.settings(environment)?;
    check_collection(&ingest.collection)?;
    if settings.storage.kind == StorageKind::Memory {
        return Err(CommandError::NothingStored(
            ": only the server itself has documents then; send them to POST /api/documents/ingest",
        ));
    }
    let runtime = Runtime::new()?;
    let ran = runtime.block_on(async {
        tokio::select! {
            ran = read_all(ingest, &settings) => ran,
            _ = tokio::signal::ctrl_c() => {
                Err(CommandError::Incomplete(
                    "interrupted: the same command continues with the files that are not read yet".to_owned(),
                ))
            }
        }
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    ran
}

async fn read_all(ingest: &Ingest, settings: &Settings) -> Result<(), CommandError> {
    let began = Instant::now();
    let knowledge = KnowledgeBase::open(settings)?;
    // Opened first: an unusable index is reported before anything is read.
    let search = match RunningServer::on(&settings.data_dir) {
        Some(_) => None,
        None => knowledge.open_index_if_free(settings)?,
    };
    let pipeline = knowledge.pipeline(settings, None);
    let mut summary = IngestSummary::default();
    for typed in &ingest.sources {
        // A typed URL may contain a password, and output ends up in logs.
        let shown = Repository::redacted(typed);
        let read = read(&pipeline, source(typed, ingest, settings), ingest, &shown).await;
        summary.add(&shown, read);
    }
    if let Some(search) = &search {
        search.caught_up().await?;
        search.follower.stop().await;
    }
    let took = began.elapsed();
    print(&if ingest.json { summary.json(took) } else { summary.text(took) })?;
    summary.check_complete()
}

async fn read(
    pipeline: &Pipeline,
    source: Arc<dyn FileSource>,
    ingest: &Ingest,
    shown: &str,
) -> Result<SourceReport, IngestError> {
    let line = ProgressLine::new(shown, !ingest.json);
    let update = |progress| line.update(progress);
    pipeline.ingest_source(&Principal::local(), source, &ingest.collection, &update).await
}

fn source(typed: &str, ingest: &Ingest, settings: &Settings) -> Arc<dyn FileSource> {
    let site = ingest.site.map(|SiteKind::Docusaurus| DocusaurusSite::default());
    let limits = SourceLimits::default();
    if Repository::is_address(typed) {
        let cache = settings.data_dir.join("repositories");
        return Arc::new(Repository { address: typed.to_owned(), cache, site, limits });
    }
    Arc::new(Folder { path: typed.into(), site, limits })
}

fn check_collection(name: &str) -> Result<(), CommandError> {
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        return Err(CommandError::Usage(format!(
            "--collection is {name:?}: allowed is one line of text that is not blank"
        )));
    }
    Ok(())
}
