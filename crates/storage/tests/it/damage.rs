//! Files that were damaged while nobody ran: what is sound is kept, what is not is set aside and named in the
//! log, and the store opens.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use domain::{Claim, EndCause, Ended, Event, History, Journal, PromptStatus, SessionEnd, SessionId, Step};
use rusqlite::Connection;
use storage::Durable;
use tracing_subscriber::fmt::MakeWriter;

use crate::folder::Folder;
use crate::world::{Running, ask, claim, done, find, log_of, new_prompt, prompt_of, session, start, who};

/// What a store says when it opens.
#[derive(Clone, Default)]
pub(crate) struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    /// Hears what is said meanwhile.
    pub(crate) fn hear<T>(&self, work: impl FnOnce() -> T) -> T {
        // With nobody else to hear it, what another thread says first would not be heard here either.
        let _ = tracing_subscriber::fmt().with_writer(std::io::sink).try_init();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(self.clone()).finish();
        tracing::subscriber::with_default(subscriber, work)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Said {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn open(folder: &Folder, seconds: u64) -> (Durable, String) {
    let said = Said::default();
    let store = said.hear(|| folder.open(seconds));
    (store, said.text())
}

/// A folder of a process that died while two prompts ran, and what their readers had seen.
async fn left_behind() -> (Folder, [Running; 2]) {
    let folder = Folder::new();
    let store = folder.open(0);
    let mut running = [
        start(&store, new_prompt(session(&store, 0).await, "one?", 0)).await,
        start(&store, new_prompt(session(&store, 0).await, "two?", 0)).await,
    ];
    for round in 0..4 {
        for running in &mut running {
            running.say(&store, &format!("words of round {round} ")).await;
        }
    }
    (folder, running)
}

/// Checks that a log was ended behind some of its events, and tells how many.
async fn check_that_a_part_is_kept(store: &Durable, running: &Running) -> usize {
    let log = log_of(store, running.id()).await.expect("it has ended");
    let (last, kept) = log.split_last().expect("a log has an end");
    assert_eq!(kept, &running.log[..kept.len()], "nothing but what was there");
    let interrupted = Step::Ended(Box::new(Ended::interrupted(EndCause::Recovery)));
    assert_eq!(*last, Event { position: kept.len() as u64, at: last.at, step: interrupted });
    kept.len()
}

fn aside(folder: &Folder, prefix: &str) -> Vec<PathBuf> {
    let names =
        folder.names().into_iter().filter(|name| name.starts_with(prefix) && name.contains(".corrupt-"));
    names.map(|name| folder.settings.folder.join(name)).collect()
}

#[tokio::test]
async fn a_segment_that_is_cut_anywhere_in_its_last_record_loses_that_record_alone() {
    let (folder, running) = left_behind().await;
    let segment = fs::read(&folder.segments()[0]).unwrap();
    // Behind the header there are eight records of one size.
    let last_record = (segment.len() - 8) / 8;
    for length in segment.len() - last_record..segment.len() {
        let folder = folder.copy();
        fs::write(&folder.segments()[0], &segment[..length]).unwrap();
        let (store, said) = open(&folder, 9);
        assert_eq!(check_that_a_part_is_kept(&store, &running[0]).await, running[0].log.len());
        assert_eq!(check_that_a_part_is_kept(&store, &running[1]).await, running[1].log.len() - 4);
        assert!(!said.contains("damaged"), "cut at {length}: {said}");
        assert_eq!(aside(&folder, "journal/"), [] as [PathBuf; 0]);
    }
}

#[tokio::test]
async fn a_segment_with_random_bytes_in_it_costs_what_was_hit_and_is_set_aside() {
    let (folder, running) = left_behind().await;
    let segment = fs::read(&folder.segments()[0]).unwrap();
    let mut dice = Dice(7);
    for _ in 0..20 {
        let folder = folder.copy();
        let mut damaged = segment.clone();
        let at = dice.below(segment.len() - 100);
        for byte in &mut damaged[at..at + 1 + at % 20] {
            *byte ^= 1 + u8::try_from(dice.below(255)).unwrap();
        }
        fs::write(&folder.segments()[0], &damaged).unwrap();
        let (store, said) = open(&folder, 9);
        for running in &running {
            check_that_a_part_is_kept(&store, running).await;
        }
        let [aside] = &aside(&folder, "journal/")[..] else { panic!("{:?}", folder.names()) };
        assert_eq!(fs::read(aside).unwrap(), damaged);
        assert!(said.contains("ERROR") && said.contains(aside.to_str().unwrap()), "{said}");
        drop(store);
        let (_, said) = open(&folder, 10);
        assert!(!said.contains("damaged"), "it is told once: {said}");
    }
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_set_aside_with_the_journal_and_a_new_one_begun() {
    for damage in [&b"this is no database, whatever its name says. "[..], &[0xff; 100]] {
        let (folder, _) = left_behind().await;
        let mut damaged = fs::read(folder.database()).unwrap();
        damaged[..damage.len()].copy_from_slice(damage);
        fs::write(folder.database(), &damaged).unwrap();
        let segment = fs::read(&folder.segments()[0]).unwrap();

        let (store, said) = open(&folder, 9);
        let [database] = &aside(&folder, "history.db")[..] else { panic!("{:?}", folder.names()) };
        let [journal] = &aside(&folder, "journal/")[..] else { panic!("{:?}", folder.names()) };
        assert_eq!((fs::read(database).unwrap(), fs::read(journal).unwrap()), (damaged, segment));
        assert!(
            said.contains(database.to_str().unwrap()) && said.contains(journal.to_str().unwrap()),
            "{said}"
        );
        let log = ask(&store, new_prompt(session(&store, 9).await, "why?", 9), "because", done()).await;
        assert_eq!(log_of(&store, prompt_of(&log)).await, Some(log));
    }
}

#[tokio::test]
async fn a_database_that_was_cut_is_set_aside() {
    let (folder, _) = left_behind().await;
    let bytes = fs::read(folder.database()).unwrap();
    fs::write(folder.database(), &bytes[..bytes.len() / 2]).unwrap();
    let (store, said) = open(&folder, 9);
    let [database] = &aside(&folder, "history.db")[..] else { panic!("{:?}", folder.names()) };
    assert!(said.contains(database.to_str().unwrap()), "{said}");
    session(&store, 9).await;
}

#[tokio::test]
async fn damage_that_shows_later_is_an_error_and_the_next_start_sets_the_database_aside() {
    let folder = Folder::new();
    let store = folder.open(0);
    let session = session(&store, 0).await;
    let log = ask(&store, new_prompt(session, "why?", 0), "because", done()).await;
    drop(store);
    damage_table(&folder, "logs");

    let store = folder.open(1);
    let error = store.read(&who(), prompt_of(&log)).await.unwrap_err();
    assert!(error.to_string().contains("malformed"), "{error}");
    assert_eq!(find(&store, session).await.prompt_count, 1, "the rest goes on");
    drop(store);
    let (store, said) = open(&folder, 2);
    let [database] = &aside(&folder, "history.db")[..] else { panic!("{:?}", folder.names()) };
    assert!(said.contains(database.to_str().unwrap()), "{said}");
    drop(store);
    let (_, said) = open(&folder, 3);
    assert!(!said.contains("damaged"), "{said}");
}

/// Writes nonsense over the first page of a table.
fn damage_table(folder: &Folder, table: &str) {
    let database = Connection::open(folder.database()).unwrap();
    let page = "SELECT rootpage FROM sqlite_schema WHERE name = ?";
    let page: usize = database.query_row(page, [table], |row| row.get(0)).unwrap();
    drop(database);
    let mut bytes = fs::read(folder.database()).unwrap();
    bytes[(page - 1) * 4096..page * 4096].fill(0xaa);
    fs::write(folder.database(), bytes).unwrap();
}

#[tokio::test]
async fn a_running_prompt_whose_beginning_is_damaged_does_not_stop_the_start() {
    let (folder, [hit, other]) = left_behind().await;
    let damage = "UPDATE prompts SET accepted = x'0102' WHERE id = ?";
    folder.connect().execute(damage, [hit.id().0.as_bytes()]).unwrap();
    let session_of = "SELECT session FROM prompts WHERE id = ?";
    let [lost, unharmed] = [&hit, &other].map(|running| {
        let id = running.id().0;
        let session = folder.connect().query_row(session_of, [id.as_bytes()], |row| row.get(0));
        SessionId(uuid::Uuid::from_bytes(session.unwrap()))
    });
    let (store, said) = open(&folder, 9);
    assert!(said.contains("ERROR") && said.contains(&hit.id().to_string()), "{said}");
    assert_eq!(log_of(&store, hit.id()).await, None);
    assert_eq!(check_that_a_part_is_kept(&store, &other).await, other.log.len());
    let in_flight = "SELECT count(*) FROM prompts WHERE status = 'in-flight'";
    assert_eq!(folder.connect().query_row(in_flight, [], |row| row.get(0)), Ok(0));

    let ended = async |session| find(&store, session).await.ended;
    assert_eq!((ended(lost).await, ended(unharmed).await), (Some(SessionEnd::Lost), None));
    assert_eq!(store.prompt(&who(), hit.id()).await.unwrap().unwrap().status, PromptStatus::Error);
    let outcome = claim(&store, new_prompt(lost, "and now?", 9)).await;
    assert!(matches!(outcome, Claim::SessionEnded), "{outcome:?}");
}
