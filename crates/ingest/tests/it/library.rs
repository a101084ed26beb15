//! The fixture of the pipeline's tests: a real catalog, a fake embedder that records its texts, and a
//! temporary folder to ingest.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use domain::{Catalog, Principal, StoredDocument};
use ingest::sources::{FileSource, Folder, Repository, SourceLimits};
use ingest::{IngestError, IngestProgress, Pipeline, PipelinePorts, PipelineSettings, SourceReport};
use storage::SqliteCatalog;
use tempfile::TempDir;
use testing::{FakeEmbedder, PausedClock};

pub(crate) const COLLECTION: &str = "default";

/// A catalog, a pipeline into it and a folder to ingest.
pub(crate) struct Library {
    pub(crate) knowledge: Arc<SqliteCatalog>,
    pub(crate) embedder: Arc<FakeEmbedder>,
    pub(crate) pipeline: Pipeline,
    folder: TempDir,
}

impl Library {
    pub(crate) fn new() -> Self {
        Self::with(Arc::new(SqliteCatalog::in_memory()))
    }

    pub(crate) fn with(knowledge: Arc<SqliteCatalog>) -> Self {
        let embedder = Arc::new(FakeEmbedder::new());
        let ports = PipelinePorts {
            catalog: knowledge.clone(),
            embedder: embedder.clone(),
            clock: Arc::new(PausedClock::new()),
            index_sync: None,
        };
        let pipeline = Pipeline::new(ports, PipelineSettings::default());
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        Self { knowledge, embedder, pipeline, folder }
    }

    /// A path next to the ingested folder.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The ingested folder.
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
        Folder { path: self.root(), site: None, limits: SourceLimits::default() }
    }

    pub(crate) fn repository(&self, address: &str) -> Repository {
        let limits = SourceLimits::default();
        Repository { address: address.to_owned(), cache: self.beside("cache"), site: None, limits }
    }

    pub(crate) async fn try_to_read(
        &self,
        source: impl FileSource + 'static,
    ) -> Result<SourceReport, IngestError> {
        self.pipeline
            .ingest_source(&Principal::local(), Arc::new(source), COLLECTION, &|_: IngestProgress| {})
            .await
    }

    pub(crate) async fn read(&self, source: impl FileSource + 'static) -> SourceReport {
        self.try_to_read(source).await.unwrap()
    }

    /// The documents of the catalog by path.
    pub(crate) async fn documents(&self) -> BTreeMap<String, StoredDocument> {
        let who = Principal::local();
        let (documents, _) = self.knowledge.documents(&who, None, 0, 100_000).await.unwrap();
        documents.into_iter().map(|stored| (stored.document.place.file_path.clone(), stored)).collect()
    }

    pub(crate) async fn paths(&self) -> Vec<String> {
        self.documents().await.into_keys().collect()
    }

    pub(crate) async fn unembedded(&self) -> usize {
        self.knowledge.unembedded(FakeEmbedder::MODEL, 100_000).await.unwrap().len()
    }
}

/// Runs git in a folder, without the user's configuration.
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

/// Commits all files of a folder.
pub(crate) fn commit(folder: &Path) -> String {
    if !folder.join(".git").exists() {
        git(folder, &["init", "--quiet"]);
    }
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "--quiet", "--allow-empty", "--message", "a change"]);
    git(folder, &["rev-parse", "HEAD"])
}
