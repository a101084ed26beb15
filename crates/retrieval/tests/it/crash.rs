//! A process that is killed while it writes leaves an index of one whole revision.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use domain::Index;
use retrieval::EmbeddedIndex;

use crate::world::{MODEL, apply, chunk, found, question};

/// Says to a process that it is the one that writes, and where.
const FOLDER: &str = "WELLSPRING_TEST_CRASH_FOLDER";

/// Chunks of a revision; the next one replaces all of them.
const CHUNKS: u32 = 50;

#[tokio::test]
async fn a_killed_writer_leaves_one_whole_revision() {
    if let Some(folder) = env::var_os(FOLDER) {
        return write_until_killed(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut before = 0;
    for lines in [1, 2, 3, 5, 8] {
        let mut writer = Writer::start(folder.path());
        writer.wait_for(lines);
        drop(writer);

        let index = EmbeddedIndex::open(folder.path(), MODEL).unwrap();
        let revision = index.revision();
        assert!(revision >= before + lines, "{revision} after {before}");
        let candidates = found(&index, question(&text(revision))).await;
        assert_eq!(candidates.len(), usize::try_from(CHUNKS).unwrap().min(30));
        assert!(candidates.iter().all(|candidate| candidate.lexical.is_some()), "revisions are mixed");
        assert!((candidates[0].cosine.unwrap() - 1.0).abs() < 1e-6);
        before = revision;
    }
}

fn text(revision: u64) -> String {
    format!("revision{revision}")
}

async fn write_until_killed(folder: &Path) {
    let index = EmbeddedIndex::open(folder, MODEL).expect("a folder that was written to opens");
    loop {
        let text = text(index.revision() + 1);
        apply(&index, vec![], (0..CHUNKS).map(|number| chunk(number, &text)).collect()).await;
        println!("\nrevision");
    }
}

/// This test, in a process of its own, which writes. It is killed when this is dropped.
struct Writer {
    process: Child,
}

impl Writer {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(env::current_exe().expect("a test is a program"));
        command.args(["crash::a_killed_writer_leaves_one_whole_revision", "--exact", "--nocapture"]);
        command.env(FOLDER, folder).stdout(Stdio::piped());
        Self { process: command.spawn().expect("a test can be run") }
    }

    /// Waits until it has taken in so many revisions; it goes on with the next one meanwhile.
    fn wait_for(&mut self, revisions: u64) {
        let lines = BufReader::new(self.process.stdout.as_mut().expect("it is piped")).lines();
        let told = lines.map_while(Result::ok).filter(|line| line == "revision");
        let reached = told.zip(1..=revisions).last();
        assert_eq!(reached.map(|(_, count)| count), Some(revisions), "the writer ended by itself");
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
