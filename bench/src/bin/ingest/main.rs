//! The throughput of an ingest, with and without embedding, beside the embedder alone on the same chunks. The last line is
//! the ratio of chunks per second of CPU time, which other load on the machine hardly changes.

mod counting_embedder;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bench::{cpu_seconds, models_folder};
use clap::Parser;
use domain::{Catalog, Clock, Embedder, EmbeddingPriority, Principal, Timestamp};
use ingest::sources::{Folder, SourceLimits};
use ingest::{Pipeline, PipelinePorts, PipelineSettings, SourceReport};
use models::embedder::BertEmbedder;
use storage::{Durability, SqliteCatalog};

use counting_embedder::CountingEmbedder;

/// Measures the throughput of an ingest.
#[derive(Parser)]
struct Arguments {
    /// The folder of model files
    #[arg(long, default_value_os_t = models_folder())]
    models: PathBuf,
    /// A folder to read [default: synthetic files]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// The number of synthetic files
    #[arg(long, default_value_t = 5_000)]
    files: usize,
}

const MODEL: &str = "granite-embedding-30m-english";

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let place = tempfile::tempdir().expect("there is room for files");
    let folder = arguments.folder.unwrap_or_else(|| tree::grow(&place.path().join("tree"), arguments.files));
    let path = arguments.models.join(MODEL).join(format!("{MODEL}-int8.hmsemb"));
    let model = Arc::new(BertEmbedder::open(MODEL, path, models::embedder::WorkerLimits::default()));
    model.shape().await.expect("the model loads");

    let (filed, catalog) = (Arc::new(CountingEmbedder(model.clone())), open(&place.path().join("filed")));
    measure("without embedding", &read(&catalog, filed, &folder)).await;
    let texts = catalog.unembedded(MODEL, usize::MAX).await.expect("the catalog reads");
    let texts: Vec<String> = texts.into_iter().map(|chunk| chunk.text).collect();

    let catalog = open(&place.path().join("embedded"));
    let reading = read(&catalog, model.clone(), &folder);
    let whole = measure("with embedding", &reading).await;
    measure("once more", &reading).await;

    let (wall, cpu) = (Instant::now(), cpu_seconds());
    model.embed(texts.clone(), EmbeddingPriority::Bulk).await.expect("the texts are embedded");
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let (count, alone) = (texts.len() as f64, texts.len() as f64 / cpu);
    println!(
        "the embedder alone: {count} chunks in {wall:.1} s, {:.0} chunks/s, CPU {cpu:.1} s",
        count / wall
    );
    println!(
        "chunks per second of CPU time, with everything against the embedder alone: {:.3}",
        whole / alone
    );
}

/// Reads a folder into a catalog.
struct Reading {
    pipeline: Pipeline,
    folder: PathBuf,
}

fn read(catalog: &Arc<SqliteCatalog>, embedder: Arc<dyn Embedder>, folder: &Path) -> Reading {
    let ports =
        PipelinePorts { catalog: catalog.clone(), embedder, clock: Arc::new(WallClock), index_sync: None };
    Reading { pipeline: Pipeline::new(ports, PipelineSettings::default()), folder: folder.to_owned() }
}

/// Reads, prints the figures, and returns the chunks per second of CPU time.
async fn measure(how: &str, reading: &Reading) -> f64 {
    let source = Folder { path: reading.folder.clone(), site: None, limits: SourceLimits::default() };
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    let read =
        reading.pipeline.ingest_source(&Principal::local(), Arc::new(source), "default", &|_| {}).await;
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let SourceReport { added, unchanged, chunks, bytes, embedded, .. } = read.expect("the folder is read");
    let a_second = |count: u64| count as f64 / wall;
    println!(
        "{how}: {added} files read and {unchanged} unchanged in {wall:.1} s, {:.0} files/s, {:.0} chunks/s, {:.2} MB/s, \
         {embedded} embedded, CPU {cpu:.1} s",
        a_second(added + unchanged),
        a_second(chunks),
        a_second(bytes) / 1e6
    );
    chunks as f64 / cpu
}

fn open(folder: &Path) -> Arc<SqliteCatalog> {
    Arc::new(SqliteCatalog::open(folder, Durability::Process).expect("an empty folder opens"))
}

struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(0).plus(since_epoch)
    }
}
