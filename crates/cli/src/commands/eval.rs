//! `wellspring eval`: how good what is found is, and how good the answers are, on a collection of questions whose
//! answers are known. Everything goes the way that a server's documents and questions go; nothing of it is kept.

mod answers;
mod collection;
mod dialogues;
mod found;
mod library;
mod report;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use ingest::chunk::{ChunkBudget, ChunkStrategy};
use retrieval::{Fusion, HybridRetriever};

use super::{ConfigFlag, print};
use crate::settings::{Chunking, Environment, Flags, RerankKind, Settings, Sources};
use crate::wiring;
use answers::Asked;
use collection::Collection;
use library::Library;
use report::{Part, Report};

/// Measures what is found, and what is answered.
#[derive(Args, Debug)]
#[command(after_help = "\
The folder holds a collection as BEIR has them: corpus.jsonl (_id, title, text, or a file instead of the two),
queries.jsonl (_id, text) and qrels.tsv (query-id, corpus-id, score, below a line of headings). Every question that has
a judgement is looked up; a document stands where its best chunk does. With --answers questions are also asked, of the
providers in the settings; answers.jsonl has what good answers say. With --dialogues the folder holds corpus.jsonl and
dialogues.jsonl instead, conversations whose questions go on from earlier ones.")]
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
    /// Measures what is found for the questions of conversations, as asked, rewritten, and as people rewrote them
    #[arg(long, conflicts_with_all = ["parts", "split", "answers"])]
    dialogues: bool,
    /// How many tokens a chunk has at most where documents are cut along their structure; otherwise as many as a server's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    chunk_tokens: Option<u16>,
    #[command(flatten)]
    asked: Asked,
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
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if eval.dialogues {
        let report = runtime.block_on(measure_dialogues(eval, &settings))?;
        return Ok(print(&if eval.json { report.json() } else { report.table() })?);
    }
    let collection = Collection::read(&eval.folder, eval.split == Split::Dev)?;
    let report = runtime.block_on(measure(eval, &settings, &collection))?;
    Ok(print(&if eval.json { report.json() } else { report.table() })?)
}

async fn measure(eval: &Eval, settings: &Settings, collection: &Collection) -> Result<Report, String> {
    let embedder = wiring::embedder(settings)?;
    let strategy = strategy(eval, settings)?;
    let library = Library::fill(&collection.documents, strategy, Arc::clone(&embedder)).await?;
    let default = fusion(settings);
    let retriever = |library: &Library, fusion| {
        HybridRetriever::new(library.catalog(), library.index(), Arc::clone(&embedder), fusion)
    };
    let measure = async |fusion| found::all(collection, &retriever(&library, fusion)).await;
    let whole = measure(default).await?;
    let mut parts = Vec::new();
    if eval.parts {
        for (name, fusion) in [
            ("lexical", Fusion::LexicalOnly),
            ("dense", Fusion::DenseOnly),
            ("reciprocal_rank", Fusion::ReciprocalRank),
            ("weighted", Fusion::Weighted),
        ] {
            parts.push(Part { name, measured: measure(fusion).await? });
        }
    }
    let answers = if eval.asked.answers {
        let references = Collection::references(&eval.folder)?;
        let asked = if eval.asked.without_documents {
            Library::fill(&[], strategy, Arc::clone(&embedder)).await?
        } else {
            library.clone()
        };
        let engine = wiring::engine_in_memory(settings, Arc::new(retriever(&asked, default)))?;
        let answers = answers::measure(&eval.asked, collection, &references, &engine).await;
        engine.shutdown().await;
        Some(answers?)
    } else {
        None
    };
    Ok(Report {
        collection: collection.name.clone(),
        model: embedder.model().to_owned(),
        documents: collection.documents.len(),
        chunks: library.chunks,
        fill: library.took,
        whole,
        parts,
        answers,
    })
}

async fn measure_dialogues(eval: &Eval, settings: &Settings) -> Result<dialogues::Report, String> {
    let (documents, ids) = Collection::documents(&eval.folder)?;
    let dialogues = dialogues::read(&eval.folder, &ids)?;
    let embedder = wiring::embedder(settings)?;
    let library = Library::fill(&documents, strategy(eval, settings)?, Arc::clone(&embedder)).await?;
    let retriever = HybridRetriever::new(library.catalog(), library.index(), embedder, fusion(settings));
    dialogues::measure(collection::name_of(&eval.folder), &dialogues, &retriever).await
}

/// Documents are cut as the settings say, into chunks of another size if one is given.
fn strategy(eval: &Eval, settings: &Settings) -> Result<ChunkStrategy, String> {
    let usual = ChunkBudget::default();
    match (settings.ingest.chunking, eval.chunk_tokens.map(usize::from)) {
        (Chunking::Structure, None) => Ok(ChunkStrategy::Structure(usual)),
        (Chunking::Structure, Some(max_tokens)) => {
            let min_tokens = usual.min_tokens.min(max_tokens);
            Ok(ChunkStrategy::Structure(ChunkBudget { max_tokens, min_tokens }))
        }
        (Chunking::Words, None) => Ok(ChunkStrategy::Words),
        (Chunking::Words, Some(_)) => {
            Err("--chunk-tokens needs ingest.chunking = \"structure\": chunks of words have one size"
                .to_owned())
        }
    }
}

/// The order that the settings have.
fn fusion(settings: &Settings) -> Fusion {
    match settings.rerank.kind {
        RerankKind::Embedded => Fusion::Weighted,
        RerankKind::None => Fusion::ReciprocalRank,
    }
}
