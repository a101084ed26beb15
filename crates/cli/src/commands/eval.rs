//! `wellspring eval`: how good what is found is, on a collection of questions whose answers are known. Everything
//! goes the way that a server's documents and questions go; nothing of it is kept.

mod ask;
mod collection;
mod library;
mod report;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use retrieval::{Fusion, HybridRetriever};

use super::{ConfigFlag, print};
use crate::settings::{Environment, Flags, RerankKind, Settings, Sources};
use crate::wiring;
use collection::Collection;
use library::Library;
use report::{Part, Report};

/// Measures what is found.
#[derive(Args, Debug)]
#[command(after_help = "\
The folder holds a collection as BEIR has them: corpus.jsonl (_id, title, text), queries.jsonl (_id, text) and
qrels.tsv (query-id, corpus-id, score, below a line of headings). Every question that has a judgement is asked; a
document stands where its best chunk does.")]
pub(super) struct Eval {
    #[command(flatten)]
    config: ConfigFlag,
    /// The folder of the collection
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Prints JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Also measures the parts alone: words, meaning, and both by their ranks
    #[arg(long)]
    parts: bool,
    /// Which questions: dev takes dev_queries.jsonl and dev_qrels.tsv
    #[arg(long, value_enum, default_value_t)]
    split: Split,
}

/// Which questions of a collection are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Split {
    /// Those that are reported.
    #[default]
    Test,
    /// Those that settings are chosen by.
    Dev,
}

/// Measures, and prints what came out.
pub(super) fn run(eval: &Eval, environment: &Environment) -> Result<(), Box<dyn Error>> {
    let file = eval.config.read(environment)?;
    let sources = Sources { file: file.as_ref(), environment, flags: &Flags::default() };
    let (settings, _) = Settings::load(&sources)?;
    let collection = Collection::read(&eval.folder, eval.split == Split::Dev)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(measure(eval, &settings, &collection))?;
    Ok(print(&if eval.json { report.json() } else { report.table() })?)
}

async fn measure(eval: &Eval, settings: &Settings, collection: &Collection) -> Result<Report, String> {
    let embedder = wiring::embedder(settings)?;
    let library = Library::fill(collection, settings.ingest.chunking, Arc::clone(&embedder)).await?;
    let default = match settings.rerank.kind {
        RerankKind::Embedded => Fusion::Weighted,
        RerankKind::None => Fusion::ReciprocalRank,
    };
    let measure = async |fusion| {
        let (catalog, index) = (library.catalog(), library.index());
        let retriever = HybridRetriever::new(catalog, index, Arc::clone(&embedder), fusion);
        ask::all(collection, &retriever).await
    };
    let whole = measure(default).await?;
    let mut parts = Vec::new();
    if eval.parts {
        for (name, fusion) in [
            ("lexical", Fusion::Words),
            ("dense", Fusion::Meaning),
            ("reciprocal_rank", Fusion::ReciprocalRank),
            ("weighted", Fusion::Weighted),
        ] {
            parts.push(Part { name, measured: measure(fusion).await? });
        }
    }
    Ok(Report {
        collection: collection.name.clone(),
        model: embedder.model().to_owned(),
        documents: collection.documents.len(),
        chunks: library.chunks,
        fill: library.took,
        whole,
        parts,
    })
}
