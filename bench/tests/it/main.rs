//! The evaluations, over a fake model server. They run the binary `wellspring` beside their own, which
//! `cargo build --workspace` builds.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

mod eval_answers;
mod eval_dialogues;
mod fixtures;

use std::fs;
use std::path::Path;
use std::process::Output;

use tempfile::TempDir;
use testing::FakeModel;
use tokio::process::Command;

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// Runs an evaluation in a folder. The fake model's vectors are counts of words.
async fn evaluate(binary: &str, folder: &Path, arguments: &[&str]) -> Output {
    let fake = FakeModel::start().await;
    let mut command = Command::new(binary);
    command.arg(".").args(arguments).current_dir(folder).env("XDG_CONFIG_HOME", folder).envs([
        ("WELLSPRING__EMBEDDING__KIND", "ollama"),
        ("WELLSPRING__EMBEDDING__MODEL", "fake,dimension=4096"),
        ("WELLSPRING__EMBEDDING__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__KIND", "ollama"),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake,words,tokens=3"),
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
    ]);
    command.kill_on_drop(true).output().await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
