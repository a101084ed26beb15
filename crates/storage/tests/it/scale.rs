//! Many sessions and prompts: memory and files stay bounded, and durations are printed. `WELLSPRING_SOAK` makes it
//! ten times as many.

use std::env;
use std::fs;
use std::time::{Duration, Instant};

use domain::{History, Journal, PromptFilter, PromptId, PromptStatus, SessionId, Sessions};
use rusqlite::{Connection, params};
use storage::DurableStore;
use uuid::Uuid;

use crate::data_folder::DataFolder;
use crate::harness::{ask, at, done, log_of, new_prompt, prompt_of, session, start, who};

const GROWTH_MIB: u64 = 64;

/// Obsolete segments are deleted within this time even on a busy machine.
const DELETION_DEADLINE: Duration = Duration::from_secs(30);

const TURNS: u64 = 20;

fn scaled(number: u64) -> u64 {
    if env::var_os("WELLSPRING_SOAK").is_some() { number } else { number / 10 }
}

#[tokio::test]
async fn ten_thousand_sessions_are_opened_listed_and_read_in_bounded_memory() {
    let folder = DataFolder::new();
    let sessions = scaled(10_000);
    write_sessions(&folder, sessions).await;
    let bytes = fs::metadata(folder.database()).unwrap().len();
    println!("{sessions} sessions of {TURNS} turns: {} MiB", bytes >> 20);

    let resident = resident_mebibytes();
    let began = Instant::now();
    let store = folder.open(1_000_000);
    println!("opened in {:?}", began.elapsed());
    check_reads(&folder, &store).await;
    let growth = resident_mebibytes().saturating_sub(resident);
    println!("memory grew by {growth} MiB");
    assert!(growth < GROWTH_MIB, "{growth} MiB");
    delete_a_tenth(&store, sessions).await;
}

async fn check_reads(folder: &DataFolder, store: &DurableStore) {
    let ids = |query| -> Vec<Uuid> {
        let database = folder.connect();
        let mut statement = database.prepare(query).unwrap();
        let ids = statement.query_map([], |row| row.get(0).map(Uuid::from_bytes));
        ids.unwrap().collect::<Result<_, _>>().unwrap()
    };
    let sessions: Vec<_> = ids("SELECT id FROM sessions ORDER BY random() LIMIT 500");
    let prompts: Vec<_> = ids("SELECT id FROM prompts ORDER BY random() LIMIT 500");
    let (mut listing, mut finding, mut turning) = (Times::default(), Times::default(), Times::default());
    let (mut describing, mut replaying) = (Times::default(), Times::default());
    for id in sessions.into_iter().map(SessionId) {
        let page = listing.time(store.sessions(&who(), Some(id), 20)).await.unwrap();
        assert!(page.iter().all(|session| session.prompt_count == TURNS));
        finding.time(store.find(&who(), id)).await.unwrap().expect("the session exists");
        let which = PromptFilter { session: Some(id), status: None };
        let listed = describing.time(store.prompts(&who(), which, 100)).await.unwrap();
        assert_eq!(listed.len() as u64, TURNS);
    }
    for id in prompts.into_iter().map(PromptId) {
        let thread = turning.time(store.thread(&who(), id, 100)).await.unwrap();
        assert!((1..=TURNS).contains(&(thread.len() as u64)));
        replaying.time(store.read(&who(), id)).await.unwrap().expect("it has ended");
    }
    let mut by_status = Times::default();
    for status in [PromptStatus::InFlight, PromptStatus::Error, PromptStatus::Done] {
        let which = PromptFilter { session: None, status: Some(status) };
        by_status.time(store.prompts(&who(), which, 100)).await.unwrap();
    }
    listing.print("a page of sessions");
    finding.print("a session");
    describing.print("the prompts of a session");
    turning.print("a thread");
    replaying.print("a log");
    by_status.print("the newest prompts with a status");
}

/// Deletes the oldest sessions, and prints how long the slices took.
async fn delete_a_tenth(store: &DurableStore, sessions: u64) {
    let mut slices = Times::default();
    let before = at(sessions / 10);
    while slices.time(store.delete_older_than(before)).await.unwrap().more {}
    println!("deleted in {} slices", slices.0.len());
    slices.print("a slice");
    let oldest = store.sessions(&who(), None, usize::MAX >> 1).await.unwrap().pop().unwrap();
    assert!(oldest.last_active_at >= before);
}

#[derive(Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) async fn time<T>(&mut self, call: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let done = call.await;
        self.0.push(began.elapsed());
        done
    }

    pub(crate) fn print(mut self, what: &str) {
        self.0.sort_unstable();
        let (p50, p99) = (self.0[self.0.len() / 2], self.0[self.0.len() * 99 / 100]);
        println!("{what}: p50 {p50:?}, p99 {p99:?}");
    }
}

/// Writes one session through the store, and copies it inside the database, each copy a second later.
async fn write_sessions(folder: &DataFolder, sessions: u64) {
    let store = folder.open(0);
    let first = session(&store, 0).await;
    for turn in 0..TURNS {
        let question = format!("What about {turn}? {}", "Some more words. ".repeat(5));
        let answer = "Some words of an answer that goes on for a while. ".repeat(20);
        ask(&store, new_prompt(first, &question, 0), &answer, done()).await;
    }
    drop(store);
    let mut database = Connection::open(folder.database()).unwrap();
    let transaction = database.transaction().unwrap();
    // The first six bytes of an id are its time; as text it has hyphens after the fourth and the sixth.
    let shifted =
        |id: &str| format!("CAST(unhex(printf('%012x', ?1 + n * 1000)) || substr({id}, 7) AS BLOB)");
    let as_text = |id: &str| {
        let id = format!("lower(hex({id}))");
        let part = |from, length| format!("substr({id}, {from}, {length})");
        [part(1, 8), part(9, 4), part(13, 4), part(17, 4), part(21, 12)].join(" || '-' || ")
    };
    let (id, prompt, owner, follows) =
        (shifted("id"), shifted("prompt"), shifted("session"), shifted("follows"));
    let (id_text, session_text) = (as_text(&shifted("prompts.id")), as_text(&shifted("prompts.session")));
    let numbers = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2)";
    for copy in [
        format!(
            "INSERT INTO sessions SELECT tenant, {id}, owner, context, title, created_at + n * 1000000,
                    last_active_at + n * 1000000, ended, prompt_count, token_count, {}
             FROM numbers, sessions WHERE id = ?3",
            shifted("last_turn")
        ),
        format!(
            "INSERT INTO prompts SELECT tenant, {id}, {owner}, key, text, iif(follows IS NULL, NULL, {follows}),
                    accepted, status, retryable, token_count, created_at + n * 1000000
             FROM numbers, prompts WHERE session = ?3"
        ),
        format!(
            "INSERT INTO logs SELECT logs.tenant, {prompt}, format, checksum, body
             FROM numbers, logs JOIN prompts ON prompts.id = logs.prompt WHERE prompts.session = ?3"
        ),
        format!(
            "INSERT INTO conversations
             SELECT {id_text}, {session_text}, query, response, sources, mode, selected_text, chunks_retrieved,
                    latency_ms, prompts.created_at
             FROM numbers, prompts JOIN conversations ON conversations.id = {} WHERE prompts.session = ?3",
            as_text("prompts.id")
        ),
    ] {
        let milliseconds = at(0).micros() / 1_000;
        let copy = copy.replacen("SELECT", &format!("{numbers} SELECT"), 1);
        transaction.execute(&copy, params![milliseconds, sessions - 1, first.0.as_bytes()]).unwrap();
    }
    transaction.commit().unwrap();
}

/// The resident memory of this process.
fn resident_mebibytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn a_long_prompt_among_many_short_ones_keeps_the_journal_within_its_bound() {
    let folder = DataFolder::new();
    let store = folder.open(0);
    let (long_session, short_session) = (session(&store, 0).await, session(&store, 0).await);
    let mut long = start(&store, new_prompt(long_session, "What happened in this hour?", 0)).await;
    let shorts = scaled(100_000);
    let mut largest = 0;
    for number in 0..shorts {
        // An hour with one batch per second.
        if number % shorts.div_ceil(3_600) == 0 {
            long.append(&store, "and this ").await;
        }
        let mut short = start(&store, new_prompt(short_session, "Briefly?", 0)).await;
        short.append(&store, &"word ".repeat(50)).await;
        short.end(&store, done(), 0).await;
        if number % 100 == 0 {
            largest = largest.max(check_journal_size(&folder).await);
        }
    }
    println!("{shorts} prompts, and the journal had at most {} KiB", largest >> 10);
    assert!(largest > folder.settings.journal.segment_bytes, "the test fills segments");
    drop(store);
    let began = Instant::now();
    let store = folder.open(1);
    println!("recovered in {:?}", began.elapsed());
    let log = log_of(&store, long.id()).await.unwrap();
    assert!(log.starts_with(&long.log));
    assert_eq!((prompt_of(&log), log.len()), (long.id(), long.log.len() + 1));
}

/// The journal's size on disk, once obsolete segments have been deleted in the background.
async fn check_journal_size(folder: &DataFolder) -> u64 {
    let began = Instant::now();
    loop {
        let sizes = folder.segments().into_iter().filter_map(|path| fs::metadata(path).ok());
        let bytes: u64 = sizes.map(|file| file.len()).sum();
        if bytes <= folder.settings.journal.journal_bytes {
            return bytes;
        }
        assert!(began.elapsed() < DELETION_DEADLINE, "{bytes} bytes");
        tokio::task::yield_now().await;
    }
}
