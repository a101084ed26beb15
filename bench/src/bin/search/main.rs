//! The latency of searches, whole and by part, in interleaved rounds over synthetic chunks in a real data folder; and the
//! time of a start with them. `make bench-search` runs it.

mod figures;
mod prepared;
mod synthetic;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use domain::{
    Catalog, CatalogChanges, ChunkId, Embedder, EmbeddingPriority, Failure, Index, IndexQuery, IndexSync,
    Principal, RetrievalQuery, Retrieved, Retriever, SearchScope,
};
use models::embedder::{BertEmbedder, WorkerLimits};
use retrieval::{EmbeddedIndex, Fusion, HybridRetriever, IndexFollower};
use storage::{Durability, SqliteCatalog};

use figures::Figures;
use prepared::Prepared;
use synthetic::Synthetic;

/// Measures searches.
#[derive(Parser)]
struct Arguments {
    /// The folder of model files
    #[arg(long, default_value_os_t = models_folder())]
    models: PathBuf,
    /// How many chunks are searched
    #[arg(long, default_value_t = 100_000)]
    chunks: usize,
    /// How many questions are asked in each round
    #[arg(long, default_value_t = 100)]
    questions: usize,
    /// How many rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Searches the index alone, without a catalog: for numbers of chunks that would take long to file
    #[arg(long)]
    index_only: bool,
}

const MODEL: &str = "granite-embedding-30m-english";

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let synthetic = Synthetic::new(arguments.chunks);
    if arguments.index_only {
        fill_index(folder.path(), &synthetic).await;
    } else {
        fill(folder.path(), &synthetic).await;
    }
    let (knowledge, index) = start(folder.path()).await;
    let embedder = BertEmbedder::open(MODEL, model_file(&arguments.models), WorkerLimits::default());
    embedder.shape().await.expect("the model loads");
    let bench = Bench { knowledge, index, embedder: Arc::new(embedder), with_catalog: !arguments.index_only };
    let mut figures = Figures::default();
    for round in 0..=arguments.rounds {
        // The first round warms the caches.
        let measured = if round == 0 { &mut Figures::default() } else { &mut figures };
        for number in 0..arguments.questions {
            bench.ask(&synthetic.question(number), measured).await;
        }
    }
    figures.report(arguments.chunks);
}

/// Files all chunks and their vectors, and indexes them as a server does.
async fn fill(folder: &Path, synthetic: &Synthetic) {
    let began = Instant::now();
    let knowledge =
        Arc::new(SqliteCatalog::open(folder, Durability::Process).expect("the folder is writable"));
    let index = Arc::new(EmbeddedIndex::open(&folder.join("index"), MODEL).expect("the folder is writable"));
    for documents in synthetic.documents() {
        knowledge.put(&Principal::local(), documents).await.expect("the catalog takes documents");
        let missing = knowledge.unembedded(MODEL, usize::MAX).await.expect("the catalog is read");
        let vectors = missing.into_iter().map(|chunk| {
            let vector = synthetic.vector_of(chunk.chunk);
            (chunk, vector)
        });
        knowledge.put_vectors(MODEL, vectors.collect()).await.expect("the catalog takes vectors");
    }
    eprintln!("filed in {:.1} s", began.elapsed().as_secs_f64());
    let follower = IndexFollower::start(knowledge, index, MODEL);
    follower.wait_until_searchable().await.expect("the index takes everything in");
    follower.stop().await;
    eprintln!("indexed after {:.1} s", began.elapsed().as_secs_f64());
}

/// Indexes all chunks without a catalog.
async fn fill_index(folder: &Path, synthetic: &Synthetic) {
    let began = Instant::now();
    SqliteCatalog::open(folder, Durability::Process).expect("the folder is writable");
    let index = EmbeddedIndex::open(&folder.join("index"), MODEL).expect("the folder is writable");
    for (revision, added) in (1..).zip(synthetic.indexed()) {
        let changes = CatalogChanges { revision, more: false, removed: Vec::new(), added };
        index.apply(changes).await.expect("the index takes everything in");
    }
    eprintln!("indexed after {:.1} s", began.elapsed().as_secs_f64());
}

/// Opens what a server opens at its start.
async fn start(folder: &Path) -> (Arc<SqliteCatalog>, Arc<EmbeddedIndex>) {
    let began = Instant::now();
    let knowledge = SqliteCatalog::open(folder, Durability::Process).expect("it was just written");
    let index = EmbeddedIndex::open(&folder.join("index"), MODEL).expect("it was just written");
    println!("start: catalog and index open after {:.1} ms", began.elapsed().as_secs_f64() * 1000.0);
    (Arc::new(knowledge), Arc::new(index))
}

struct Bench {
    knowledge: Arc<SqliteCatalog>,
    index: Arc<EmbeddedIndex>,
    embedder: Arc<BertEmbedder>,
    /// Whether there is a catalog with the passages.
    with_catalog: bool,
}

impl Bench {
    /// Searches for one question in every way.
    async fn ask(&self, question: &(String, Vec<f32>), figures: &mut Figures) {
        let (text, vector) = question;
        let search = |text: &str, vector: Option<&Vec<f32>>| IndexQuery {
            who: Principal::local(),
            text: text.to_owned(),
            vector: vector.cloned(),
            within: None,
            limit: 100,
        };
        figures.time("index, by words alone", self.index.search(search(text, None))).await;
        figures.time("index, by meaning alone", self.index.search(search("", Some(vector)))).await;
        let found = figures.time("index, both", self.index.search(search(text, Some(vector)))).await;
        let embedded = self.embedder.embed(vec![text.clone()], EmbeddingPriority::Interactive);
        figures.time("embedding the question alone", embedded).await;
        if !self.with_catalog {
            return;
        }
        let best: Vec<ChunkId> = found.iter().take(10).map(|candidate| candidate.chunk).collect();
        figures
            .time("ten passages from the catalog", self.knowledge.chunks(&Principal::local(), &best))
            .await;
        let prepared = Arc::new(Prepared(vector.clone()));
        figures.time("search without embedding", self.retrieve(prepared, text)).await;
        figures.time("search with embedding", self.retrieve(Arc::clone(&self.embedder) as _, text)).await;
    }

    async fn retrieve(&self, embedder: Arc<dyn Embedder>, text: &str) -> Result<Retrieved, Failure> {
        let (catalog, index) = (Arc::clone(&self.knowledge) as _, Arc::clone(&self.index) as _);
        let retriever = HybridRetriever::new(catalog, index, embedder, Fusion::Weighted);
        let query = RetrievalQuery {
            text: text.to_owned(),
            scope: SearchScope::default(),
            threshold: None,
            limit: 10,
        };
        retriever.retrieve(&Principal::local(), query, &|_| {}).await
    }
}

fn model_file(models: &Path) -> PathBuf {
    models.join(MODEL).join(format!("{MODEL}-int8.hmsemb"))
}

fn models_folder() -> PathBuf {
    let set = |name| std::env::var_os(name).map(PathBuf::from);
    if let Some(folder) = set("WELLSPRING__MODELS__DIR") {
        return folder;
    }
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache"))).unwrap_or_default();
    cache.join("wellspring").join("models")
}
