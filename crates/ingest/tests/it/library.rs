//! What tests of the pipeline are written with: a real catalog, an embedder that tells what it was asked, and
//! folders that are written in place.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use domain::{Catalog, Principal, StoredDocument};
use ingest::sources::{Folder, Limits, Repository, Source};
use ingest::{Pipeline, Ports, Progress, Report, Settings, Stopped};
use storage::SqliteCatalog;
use tempfile::TempDir;
use testing::{FakeEmbedder, PausedClock};

/// The collection that everything is filed in.
pub(crate) const COLLECTION: &str = "default";

/// A knowledge base, and a folder to read into it.
pub(crate) struct Library {
    pub(crate) knowledge: Arc<SqliteCatalog>,
    pub(crate) embedder: Arc<FakeEmbedder>,
    pub(crate) pipeline: Pipeline,
    place: TempDir,
}

impl Library {
    pub(crate) fn new() -> Self {
        Self::with(Arc::new(SqliteCatalog::in_memory()))
    }

    pub(crate) fn with(knowledge: Arc<SqliteCatalog>) -> Self {
        let embedder = Arc::new(FakeEmbedder::new());
        let ports = Ports {
            catalog: knowledge.clone(),
            embedder: embedder.clone(),
            clock: Arc::new(PausedClock::new()),
            published: None,
        };
        let pipeline = Pipeline::new(ports, Settings::default());
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("root")).unwrap();
        Self { knowledge, embedder, pipeline, place }
    }

    /// Where everything of this test is: the folder that is read, and what lies beside it.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// The folder that is read.
    pub(crate) fn root(&self) -> PathBuf {
        self.beside("root")
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn delete(&self, path: &str) {
        fs::remove_file(self.root().join(path)).unwrap();
    }

    pub(crate) fn folder(&self) -> Folder {
        Folder { path: self.root(), site: None, limits: Limits::default() }
    }

    pub(crate) fn repository(&self, address: &str) -> Repository {
        let limits = Limits::default();
        Repository { address: address.to_owned(), cache: self.beside("cache"), site: None, limits }
    }

    /// Reads a source.
    pub(crate) async fn try_to_read(&self, source: impl Source + 'static) -> Result<Report, Stopped> {
        self.pipeline.read(&Principal::local(), Arc::new(source), COLLECTION, &|_: Progress| {}).await
    }

    pub(crate) async fn read(&self, source: impl Source + 'static) -> Report {
        self.try_to_read(source).await.unwrap()
    }

    /// The documents of the catalog by path.
    pub(crate) async fn documents(&self) -> BTreeMap<String, StoredDocument> {
        let who = Principal::local();
        let (documents, _) = self.knowledge.documents(&who, None, 0, 100_000).await.unwrap();
        documents.into_iter().map(|filed| (filed.document.place.file_path.clone(), filed)).collect()
    }

    pub(crate) async fn paths(&self) -> Vec<String> {
        self.documents().await.into_keys().collect()
    }

    pub(crate) async fn unembedded(&self) -> usize {
        self.knowledge.unembedded(FakeEmbedder::MODEL, 100_000).await.unwrap().len()
    }
}

/// Runs git in a folder, as nobody in particular.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args([
            "-c",
            "user.name=Test",
            "-c",
            "user.email=test@example.org",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(["-c", "init.defaultBranch=main"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Commits all that is in a folder.
pub(crate) fn commit(folder: &Path) -> String {
    if !folder.join(".git").exists() {
        git(folder, &["init", "--quiet"]);
    }
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--allow-empty", "--message", "a change"]);
    git(folder, &["rev-parse", "HEAD"])
}
