//! `wellspring eval`: the quality of retrieval on a collection of questions whose answers are known. Documents and questions
//! take the same path as a server's, with an index in memory: nothing is stored.

mod collection;
mod knowledge_base;
mod report;
mod retrieval;

use std::path::PathBuf;
use std::sync::Arc;

use ::retrieval::{Fusion, HybridRetriever};
use clap::Args;
use ingest::chunk::{ChunkBudget, ChunkStrategy};

use super::{CommandError, ConfigFlag, print};
use crate::settings::{Chunking, Environment, Settings};
use crate::wiring;
pub(super) use collection::CollectionError;
use collection::{Collection, Split};
use knowledge_base::EvalKnowledgeBase;
use report::{EvalReport, MeasuredPart};

/// Measures retrieval on questions whose answers are known
#[derive(Args, Debug)]
#[command(after_help = "\
The folder holds a collection in BEIR form: corpus.jsonl (_id, title, text, or a file instead of the two), queries.jsonl
(_id, text) and qrels.tsv (query-id, corpus-id, score, below a header line). Every question with a judgement is searched
for; a document ranks where its best chunk does.")]
pub(super) struct Eval {
    #[command(flatten)]
    config: ConfigFlag,
    /// The folder of the collection
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Prints JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Also measures the parts alone: lexical, dense, and both fused by rank or by weight
    #[arg(long)]
    parts: bool,
    /// Which questions: dev takes dev_queries.jsonl and dev_qrels.tsv
    #[arg(long, value_enum, default_value_t)]
    split: Split,
}

/// Measures, and prints the report.
pub(super) fn run(eval: &Eval, environment: &Environment) -> Result<(), CommandError> {
    let settings = eval.config.settings(environment)?;
    let collection = Collection::read(&eval.folder, eval.split)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(measure(&settings, &collection, eval.parts))?;
    print(&if eval.json { report.json() } else { report.table() })
}

async fn measure(
    settings: &Settings,
    collection: &Collection,
    with_parts: bool,
) -> Result<EvalReport, CommandError> {
    let embedder = wiring::embedder(settings)?;
    let strategy = match settings.ingest.chunking {
        Chunking::Structure => ChunkStrategy::Structure(ChunkBudget::default()),
        Chunking::Words => ChunkStrategy::Words,
    };
    let knowledge = EvalKnowledgeBase::fill(&collection.documents, strategy, Arc::clone(&embedder)).await?;
    let measure = async |fusion| {
        let retriever =
            HybridRetriever::new(knowledge.catalog(), knowledge.index(), Arc::clone(&embedder), fusion);
        retrieval::measure(collection, &retriever).await
    };
    let whole = measure(wiring::fusion(settings)).await?;
    let mut parts = Vec::new();
    if with_parts {
        for (name, fusion) in [
            ("lexical", Fusion::LexicalOnly),
            ("dense", Fusion::DenseOnly),
            ("reciprocal_rank", Fusion::ReciprocalRank),
            ("weighted", Fusion::Weighted),
        ] {
            parts.push(MeasuredPart { name, measured: measure(fusion).await? });
        }
    }
    Ok(EvalReport {
        collection: collection.name.clone(),
        model: embedder.model().to_owned(),
        documents: collection.documents.len(),
        chunks: knowledge.chunks,
        ingest: knowledge.took,
        whole,
        parts,
    })
}
