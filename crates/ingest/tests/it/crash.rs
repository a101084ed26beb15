//! A process that is killed during an ingest leaves a consistent catalog, and the next ingest completes it.
//! Five kills, or fifty with `WELLSPRING_SOAK`.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use domain::{Catalog, Principal};
use storage::{Durability, SqliteCatalog};

use crate::library::{COLLECTION, Library};

/// Set in the process that ingests: the folder, and the path of the catalog.
const FOLDER: &str = "WELLSPRING_TEST_INGEST_FOLDER";
const CATALOG: &str = "WELLSPRING_TEST_INGEST_CATALOG";

const FILES: u64 = 150;

#[tokio::test]
async fn a_killed_run_leaves_a_sound_catalog_that_the_next_one_completes() {
    if let (Some(folder), Some(catalog)) = (env::var_os(FOLDER), env::var_os(CATALOG)) {
        return read_until_killed(Path::new(&folder), Path::new(&catalog)).await;
    }
    let rounds = if env::var_os("WELLSPRING_SOAK").is_some() { 50 } else { 5 };
    let place = tempfile::tempdir().unwrap();
    for round in 0..rounds {
        let knowledge = Arc::new(SqliteCatalog::open(place.path(), Durability::Process).unwrap());
        let library = Library::with(knowledge);
        for number in 0..FILES {
            let text = format!("# Page {number} of round {round}\n\n{}\n", "Some words. ".repeat(300));
            library.write(&format!("{number}.md"), text);
        }
        let mut reader = Reader::start(&library.root(), place.path());
        reader.wait_for(1 + round * 7 % 30);
        drop(reader);
        check(&library).await;
        let report = library.read(library.folder()).await;
        assert_eq!(report.added + report.unchanged, FILES);
        check(&library).await;
        let known = library.knowledge.known(&Principal::local(), COLLECTION, &report.repo_url).await.unwrap();
        assert_eq!(known.len() as u64, FILES);
        assert_eq!(library.unembedded().await, 0);
    }
}

/// Every document has all of its chunks.
async fn check(library: &Library) {
    let who = Principal::local();
    let changes = library.knowledge.changes_since(0, "", usize::MAX).await.unwrap();
    for stored in library.documents().await.into_values() {
        let id = stored.document.id;
        let chunks = changes.added.iter().filter(|chunk| chunk.document == id).count() as u64;
        assert_eq!(chunks, stored.chunk_count);
        assert!(chunks > 1);
        assert!(library.knowledge.document(&who, id).await.unwrap().is_some());
    }
}

async fn read_until_killed(folder: &Path, catalog: &Path) {
    let library = Library::with(Arc::new(SqliteCatalog::open(catalog, Durability::Process).unwrap()));
    let source = ingest::sources::Folder { path: folder.to_owned(), ..library.folder() };
    let on_progress = |_| println!("\nprogress");
    library
        .pipeline
        .ingest_source(&Principal::local(), Arc::new(source), COLLECTION, &on_progress)
        .await
        .unwrap();
}

/// This test in a child process, which ingests. It is killed on drop.
struct Reader {
    process: Child,
}

impl Reader {
    fn start(folder: &Path, catalog: &Path) -> Self {
        let mut command = Command::new(env::current_exe().expect("the test binary has a path"));
        let name = "crash::a_killed_run_leaves_a_sound_catalog_that_the_next_one_completes";
        command.args([name, "--exact", "--nocapture"]);
        command.env(FOLDER, folder).env(CATALOG, catalog).stdout(Stdio::piped());
        Self { process: command.spawn().expect("the test binary starts") }
    }

    /// Waits until the process has reported its progress this many times, or has ended.
    fn wait_for(&mut self, times: u64) {
        let lines = BufReader::new(self.process.stdout.as_mut().expect("stdout is piped")).lines();
        let progress = lines.map_while(Result::ok).filter(|line| line == "progress");
        assert!(progress.zip(0..times).count() > 0, "the reader ended before it began");
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
