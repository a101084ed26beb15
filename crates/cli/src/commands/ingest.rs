//! `wellspring ingest`: folders and repositories into the knowledge base. Beside a running server it writes the
//! catalog only, which the server follows; without one it brings the index up to date too.

mod progress;
mod summary;

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use domain::{IndexSync, Principal, StorageError};
use ingest::names::DocusaurusSite;
use ingest::sources::{FileSource, Folder, Repository, SourceLimits};
use ingest::{IngestError, Pipeline, SourceReport};
use tokio::runtime::Runtime;

use super::{ConfigFlag, print};
use crate::logging;
use crate::running::RunningServer;
use crate::settings::{Environment, Settings, StorageKind};
use crate::wiring::Knowledge;
pub(super) use progress::{Reporter, duration};
use summary::Summary;

/// How long what is being read may take to end after Ctrl-C.
const ENDING: Duration = Duration::from_secs(2);

/// Reads documents into the knowledge base.
#[derive(Args, Debug)]
#[command(after_help = "\
A folder is read without what .gitignore names, hidden files, binaries, keys and links; a repository at its
latest commit, through git. What did not change since the last time is not read again, and documents whose files
are gone are removed. It may run beside the server, which finds new documents at once.")]
pub(super) struct Ingest {
    /// Folders, single files, and repositories by their URL
    #[arg(required = true, value_name = "PATH|GIT-URL")]
    sources: Vec<String>,
    /// The collection that the documents are filed in
    #[arg(long, value_name = "NAME", default_value = "default")]
    collection: String,
    /// The pages are those of a site of this kind [default: found out by its settings]
    #[arg(long, value_name = "KIND")]
    site: Option<SiteKind>,
    /// Prints a JSON object with the figures, and no progress
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlag,
}

/// Sites whose routes are known.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum SiteKind {
    Docusaurus,
}

/// Reads all sources, one after the other.
pub(super) fn run(ingest: &Ingest, environment: &Environment) -> Result<(), Box<dyn Error>> {
    logging::start_quietly(environment)?;
    let settings = ingest.config.settings(environment)?;
    check_collection(&ingest.collection)?;
    if settings.storage.kind == StorageKind::Memory {
        return Err("storage.kind is \"memory\": only the server itself has documents then; \
                    send them to POST /api/documents/ingest"
            .into());
    }
    let runtime = Runtime::new()?;
    let ran = runtime.block_on(async {
        tokio::select! {
            ran = read_all(ingest, &settings) => ran,
            _ = tokio::signal::ctrl_c() => {
                Err("interrupted: what was read so far is kept, and the same command goes on from there".into())
            }
        }
    });
    runtime.shutdown_timeout(ENDING);
    ran
}

async fn read_all(ingest: &Ingest, settings: &Settings) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let knowledge = Knowledge::open(settings)?;
    // Told before anything is read, if it cannot be searched in the end.
    let searched = match RunningServer::on(&settings.data_dir) {
        Some(_) => None,
        None => knowledge.search_if_free(settings)?,
    };
    let pipeline = knowledge.pipeline(settings, None);
    let mut summary = Summary::default();
    for typed in &ingest.sources {
        // What a person types may have a password in it, and what is printed ends up in logs.
        let shown = Repository::redacted(typed);
        let read = read(&pipeline, source(typed, ingest, settings), ingest, &shown).await;
        summary.add(&shown, read);
    }
    if let Some(searched) = &searched {
        let published = searched.follower.wait_until_searchable().await;
        published.map_err(|reason: StorageError| format!("index: {reason}"))?;
        searched.follower.stop().await;
    }
    let took = began.elapsed();
    print(&if ingest.json { summary.json(took) } else { summary.text(took) })?;
    summary.verdict().map_err(Into::into)
}

async fn read(
    pipeline: &Pipeline,
    source: Arc<dyn FileSource>,
    ingest: &Ingest,
    shown: &str,
) -> Result<SourceReport, IngestError> {
    let reporter = Reporter::new(shown, !ingest.json);
    let tell = |progress| reporter.tell(progress);
    pipeline.ingest_source(&Principal::local(), source, &ingest.collection, &tell).await
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

fn check_collection(name: &str) -> Result<(), String> {
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        return Err(format!("--collection is {name:?}: give it a name that can be read"));
    }
    Ok(())
}
