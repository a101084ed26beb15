//! Files that are damaged between two runs: the store opens with what is undamaged, sets damaged files aside and names
//! them in its log.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use domain::{
    Claim, EndCause, Ended, Event, History, Journal, PromptStatus, SessionEnd, SessionId, Step,
    StorageErrorKind,
};
use rusqlite::Connection;
use storage::DurableStore;
use tracing_subscriber::fmt::MakeWriter;

use crate::data_folder::DataFolder;
use crate::harness::{
    RunningPrompt, ask, claim, done, find, log_of, new_prompt, prompt_of, session, start, who,
};

/// A capture of log lines.
#[derive(Clone, Default)]
pub(crate) struct LogCapture(Arc<Mutex<Vec<u8>>>);

impl LogCapture {
    /// Captures the log lines that `work` writes on this thread.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        // Without a global subscriber, a callsite that another thread reaches first stays disabled for this one.
        let _ = tracing_subscriber::fmt().with_writer(std::io::sink).try_init();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(self.clone()).finish();
        tracing::subscriber::with_default(subscriber, work)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for LogCapture {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogCapture {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn open(folder: &DataFolder, seconds: u64) -> (DurableStore, String) {
    let log = LogCapture::default();
    let store = log.during(|| folder.open(seconds));
    (store, log.text())
}

/// The folder of a process that died while two prompts ran, and the prompts.
async fn crashed_folder() -> (DataFolder, [RunningPrompt; 2]) {
    let folder = DataFolder::new();
    let store = folder.open(0);
    let mut running = [
        start(&store, new_prompt(session(&store, 0).await, "one?", 0)).await,
        start(&store, new_prompt(session(&store, 0).await, "two?", 0)).await,
    ];
    for round in 0..4 {
        for running in &mut running {
            running.append(&store, &format!("words of round {round} ")).await;
        }
    }
    (folder, running)
}

/// Checks that recovery ended a log after a prefix of its events, and returns the length of the prefix.
async fn recovered_events(store: &DurableStore, running: &RunningPrompt) -> usize {
    let log = log_of(store, running.id()).await.expect("the prompt has ended");
    let (last, prefix) = log.split_last().expect("a log has an end");
    assert_eq!(prefix, &running.log[..prefix.len()], "only events that were appended");
    let interrupted = Step::Ended(Box::new(Ended::interrupted(EndCause::Recovery)));
    assert_eq!(*last, Event { position: prefix.len() as u64, at: last.at, step: interrupted });
    prefix.len()
}

fn aside(folder: &DataFolder, prefix: &str) -> Vec<PathBuf> {
    let names =
        folder.names().into_iter().filter(|name| name.starts_with(prefix) && name.contains(".corrupt-"));
    names.map(|name| folder.settings.folder.join(name)).collect()
}

#[tokio::test]
async fn a_segment_cut_anywhere_in_its_last_frame_loses_that_frame_alone() {
    let (folder, running) = crashed_folder().await;
    let segment = fs::read(&folder.segments()[0]).unwrap();
    // After the header there are eight frames of one size.
    let last_frame = (segment.len() - 8) / 8;
    for length in segment.len() - last_frame..segment.len() {
        let folder = folder.copy();
        fs::write(&folder.segments()[0], &segment[..length]).unwrap();
        let (store, log) = open(&folder, 9);
        assert_eq!(recovered_events(&store, &running[0]).await, running[0].log.len());
        assert_eq!(recovered_events(&store, &running[1]).await, running[1].log.len() - 4);
        assert!(!log.contains("damaged"), "cut at {length}: {log}");
        assert_eq!(aside(&folder, "journal/"), [] as [PathBuf; 0]);
    }
}

#[tokio::test]
async fn a_segment_with_random_bytes_loses_the_frames_they_hit_and_is_set_aside() {
    let (folder, running) = crashed_folder().await;
    let segment = fs::read(&folder.segments()[0]).unwrap();
    let mut rng = Rng(7);
    for _ in 0..20 {
        let folder = folder.copy();
        let mut damaged = segment.clone();
        let at = rng.below(segment.len() - 100);
        for byte in &mut damaged[at..at + 1 + at % 20] {
            *byte ^= 1 + u8::try_from(rng.below(255)).unwrap();
        }
        fs::write(&folder.segments()[0], &damaged).unwrap();
        let (store, log) = open(&folder, 9);
        for running in &running {
            recovered_events(&store, running).await;
        }
        let [aside] = &aside(&folder, "journal/")[..] else { panic!("{:?}", folder.names()) };
        assert_eq!(fs::read(aside).unwrap(), damaged);
        assert!(log.contains("ERROR") && log.contains(aside.to_str().unwrap()), "{log}");
        drop(store);
        let (_, log) = open(&folder, 10);
        assert!(!log.contains("damaged"), "damage is logged once: {log}");
    }
}

/// A linear congruential generator, the same in every run.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_set_aside_with_the_journal() {
    for damage in [&b"this is not a database, although its name ends in .db. "[..], &[0xff; 100]] {
        let (folder, _) = crashed_folder().await;
        let mut damaged = fs::read(folder.database()).unwrap();
        damaged[..damage.len()].copy_from_slice(damage);
        fs::write(folder.database(), &damaged).unwrap();
        let segment = fs::read(&folder.segments()[0]).unwrap();

        let (store, log) = open(&folder, 9);
        let [database] = &aside(&folder, "history.db")[..] else { panic!("{:?}", folder.names()) };
        let [journal] = &aside(&folder, "journal/")[..] else { panic!("{:?}", folder.names()) };
        assert_eq!((fs::read(database).unwrap(), fs::read(journal).unwrap()), (damaged, segment));
        assert!(log.contains(database.to_str().unwrap()) && log.contains(journal.to_str().unwrap()), "{log}");
        let log = ask(&store, new_prompt(session(&store, 9).await, "why?", 9), "because", done()).await;
        assert_eq!(log_of(&store, prompt_of(&log)).await, Some(log));
    }
}

#[tokio::test]
async fn a_truncated_database_is_set_aside() {
    let (folder, _) = crashed_folder().await;
    let bytes = fs::read(folder.database()).unwrap();
    fs::write(folder.database(), &bytes[..bytes.len() / 2]).unwrap();
    let (store, log) = open(&folder, 9);
    let [database] = &aside(&folder, "history.db")[..] else { panic!("{:?}", folder.names()) };
    assert!(log.contains(database.to_str().unwrap()), "{log}");
    session(&store, 9).await;
}

#[tokio::test]
async fn damage_found_while_running_is_an_error_and_the_next_start_sets_the_database_aside() {
    let folder = DataFolder::new();
    let store = folder.open(0);
    let session = session(&store, 0).await;
    let log = ask(&store, new_prompt(session, "why?", 0), "because", done()).await;
    drop(store);
    damage_table(&folder, "logs");

    let store = folder.open(1);
    let error = store.read(&who(), prompt_of(&log)).await.unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Damaged, "{error}");
    assert!(error.to_string().contains("malformed"), "{error}");
    assert_eq!(find(&store, session).await.prompt_count, 1, "other tables can be read");
    drop(store);
    let (store, log) = open(&folder, 2);
    let [database] = &aside(&folder, "history.db")[..] else { panic!("{:?}", folder.names()) };
    assert!(log.contains(database.to_str().unwrap()), "{log}");
    drop(store);
    let (_, log) = open(&folder, 3);
    assert!(!log.contains("damaged"), "{log}");
}

/// Overwrites the first page of a table.
fn damage_table(folder: &DataFolder, table: &str) {
    let database = Connection::open(folder.database()).unwrap();
    let page = "SELECT rootpage FROM sqlite_schema WHERE name = ?";
    let page: usize = database.query_row(page, [table], |row| row.get(0)).unwrap();
    drop(database);
    let mut bytes = fs::read(folder.database()).unwrap();
    bytes[(page - 1) * 4096..page * 4096].fill(0xaa);
    fs::write(folder.database(), bytes).unwrap();
}

#[tokio::test]
async fn a_running_prompt_with_an_unreadable_beginning_does_not_prevent_the_start() {
    let (folder, [hit, other]) = crashed_folder().await;
    let damage = "UPDATE prompts SET accepted = x'0102' WHERE id = ?";
    folder.connect().execute(damage, [hit.id().0.as_bytes()]).unwrap();
    let session_of = "SELECT session FROM prompts WHERE id = ?";
    let [lost, unharmed] = [&hit, &other].map(|running| {
        let id = running.id().0;
        let session = folder.connect().query_row(session_of, [id.as_bytes()], |row| row.get(0));
        SessionId(uuid::Uuid::from_bytes(session.unwrap()))
    });
    let (store, log) = open(&folder, 9);
    assert!(log.contains("ERROR") && log.contains(&hit.id().to_string()), "{log}");
    assert_eq!(log_of(&store, hit.id()).await, None);
    assert_eq!(recovered_events(&store, &other).await, other.log.len());
    let in_flight = "SELECT count(*) FROM prompts WHERE status = 'in-flight'";
    assert_eq!(folder.connect().query_row(in_flight, [], |row| row.get(0)), Ok(0));

    let ended = async |session| find(&store, session).await.ended;
    assert_eq!((ended(lost).await, ended(unharmed).await), (Some(SessionEnd::Lost), None));
    assert_eq!(store.prompt(&who(), hit.id()).await.unwrap().unwrap().status, PromptStatus::Error);
    let outcome = claim(&store, new_prompt(lost, "and now?", 9)).await;
    assert!(matches!(outcome, Claim::SessionEnded), "{outcome:?}");
}
