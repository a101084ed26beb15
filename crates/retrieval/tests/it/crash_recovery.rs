//! An index whose writer is killed opens at the last committed revision.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use domain::Index;
use retrieval::EmbeddedIndex;

use crate::fixtures::{MODEL, apply, chunk, query, search};

/// Makes the test run as the writing process, in this folder.
const FOLDER: &str = "WELLSPRING_TEST_CRASH_FOLDER";

/// Chunks of a revision. Each revision replaces all of them.
const CHUNKS: u32 = 50;

#[tokio::test]
async fn an_index_whose_writer_is_killed_opens_at_one_whole_revision() {
    if let Some(folder) = env::var_os(FOLDER) {
        return write_until_killed(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut before = 0;
    for lines in [1, 2, 3, 5, 8] {
        let mut writer = WriterProcess::start(folder.path());
        writer.wait_for(lines);
        drop(writer);

        let index = EmbeddedIndex::open(folder.path(), MODEL).unwrap();
        let revision = index.revision();
        assert!(revision >= before + lines, "{revision} after {before}");
        let candidates = search(&index, query(&text(revision))).await;
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
    let index = EmbeddedIndex::open(folder, MODEL).expect("the index opens");
    loop {
        let text = text(index.revision() + 1);
        apply(&index, vec![], (0..CHUNKS).map(|number| chunk(number, &text)).collect()).await;
        println!("\nrevision");
    }
}

/// A process that runs this test as the writer. It is killed on drop.
struct WriterProcess {
    process: Child,
}

impl WriterProcess {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(env::current_exe().expect("the test's executable"));
        command.args([
            "crash_recovery::an_index_whose_writer_is_killed_opens_at_one_whole_revision",
            "--exact",
            "--nocapture",
        ]);
        command.env(FOLDER, folder).stdout(Stdio::piped());
        Self { process: command.spawn().expect("the test can be started") }
    }

    /// Waits until the process has committed this many revisions. It continues with the next one meanwhile.
    fn wait_for(&mut self, revisions: u64) {
        let lines = BufReader::new(self.process.stdout.as_mut().expect("stdout is piped")).lines();
        let reported = lines.map_while(Result::ok).filter(|line| line == "revision");
        let committed = reported.zip(1..=revisions).last();
        assert_eq!(committed.map(|(_, count)| count), Some(revisions), "the writer ended by itself");
    }
}

impl Drop for WriterProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
