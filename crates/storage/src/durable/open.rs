//! Opening a data folder: one process at a time, tables up to date, and what a dead process left behind
//! brought to its end.

use std::collections::{HashMap, HashSet};
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;

use domain::{Batch, EndCause, Ended, Event, Principal, PromptId, Step, StorageError, Timestamp};
use rusqlite::Connection;
use tracing::{error, info};

use super::segments::{self, Segments};
use super::sync::Syncer;
use super::unfinished::Unfinished;
use super::{Cache, Durability, Durable, DurableSettings, HISTORY, codec, ends, prompts};
use crate::folder;
use crate::sqlite::{self, Database, Fault};

/// A recovered log is kept in batches of this size.
const BATCH: usize = 64;

impl Durable {
    /// Opens the store in a folder. Prompts that ran when the last process died end with `interrupted`.
    pub fn open(settings: &DurableSettings, now: Timestamp) -> Result<Self, StorageError> {
        let failed = |reason: &dyn std::fmt::Display| {
            StorageError::other(format!("{}: {reason}", settings.folder.display()))
        };
        folder::make(&settings.folder, settings.durability).map_err(|error| failed(&error))?;
        let lock = lock(&settings.folder)?;
        let mut database = open_history(settings, now);
        if let Err(Fault::Damaged(reason)) = &database {
            set_all_aside(settings, reason, now).map_err(|error| failed(&error))?;
            database = open_history(settings, now);
        }
        let database = database.map_err(|fault| failed(&fault))?;
        let journal = settings.folder.join("journal");
        let segments = Segments::create(&journal, settings.journal, settings.durability);
        let segments = Arc::new(segments.map_err(|error| failed(&error))?);
        Ok(Self {
            database,
            syncer: (settings.durability == Durability::Power).then(|| Syncer::new(segments.clone())),
            segments,
            unfinished: Unfinished::default(),
            cache: Cache::new(settings.cache_bytes),
            _lock: lock,
        })
    }
}

/// Takes the folder's lock, which the system gives back when the process ends, however it ends.
fn lock(folder: &Path) -> Result<File, StorageError> {
    let path = folder.join("lock");
    let opened = File::options().create(true).truncate(false).write(true).open(&path);
    let file = opened.map_err(|error| StorageError::other(format!("{}: {error}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StorageError::other(format!(
            "{} is in use by another server or command: stop it, or give this one a folder of its own (data_dir)",
            folder.display()
        ))),
        Err(TryLockError::Error(error)) => Err(StorageError::other(format!("{}: {error}", path.display()))),
    }
}

/// Opens the history, and ends in it what ran. The journal is cleared away once the history has all of it.
fn open_history(settings: &DurableSettings, now: Timestamp) -> Result<Database, Fault> {
    let is_new = !settings.folder.join(HISTORY.file).exists();
    let database = Database::open(&HISTORY, &settings.folder, settings.durability)?;
    let ran = database.write_now(prompts::in_flight)?;
    let wanted: HashSet<PromptId> = ran.iter().map(|(_, prompt, _)| *prompt).collect();
    let recovered = segments::recover(&settings.folder.join("journal"), |prompt| wanted.contains(&prompt))?;
    if is_new {
        // Somebody took the history away, and the journal is all there is of what ran.
        recovered.set_aside(now)?;
        return Ok(database);
    }
    database.write_now(|db| end_what_ran(db, ran, &recovered.logs, now))?;
    recovered.clear_away(now)?;
    Ok(database)
}

/// Sets a damaged history aside, and the journal with it, whose prompts only the history knows.
fn set_all_aside(settings: &DurableSettings, reason: &str, now: Timestamp) -> std::io::Result<()> {
    // The database last, so that a process that dies in between does it again.
    segments::recover(&settings.folder.join("journal"), |_| false)?.set_aside(now)?;
    sqlite::set_aside(&settings.folder.join(HISTORY.file), reason, now)
}

fn end_what_ran(
    db: &Connection,
    ran: Vec<(Principal, PromptId, Vec<u8>)>,
    journal: &HashMap<PromptId, Vec<Vec<u8>>>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    for (who, prompt, beginning) in ran {
        let appended = journal.get(&prompt).map_or(&[][..], Vec::as_slice);
        let Some(log) = ended_log(&beginning, appended, now) else {
            error!(%prompt, "the beginning of a prompt's log cannot be read: it has ended without a log, and its session with it");
            ends::give_up(db, &who, prompt)?;
            continue;
        };
        ends::fold(db, &who, prompt, &log)?;
        info!(%prompt, "a prompt that was running when the server died was ended");
    }
    Ok(())
}

/// The beginning of a log with what the journal has of it, each event once, and its end. None if there is no
/// beginning.
fn ended_log(beginning: &[u8], journal: &[Vec<u8>], now: Timestamp) -> Option<Vec<Batch>> {
    let beginning = codec::decode(beginning).ok()?;
    let mut log: Vec<Event> = beginning.iter().flat_map(|batch| batch.iter().cloned()).collect();
    let Step::Accepted(_) = log.first()?.step else { return None };
    for batch in journal.iter().flat_map(|record| codec::batches(record).map_while(Result::ok)) {
        // A batch takes the place of what was there: a log that was copied forward comes again from its
        // first batch, and one that was taken back is followed by what came instead. Behind a gap nothing
        // counts, until the log comes again.
        let Some(first) = batch.first().and_then(|first| usize::try_from(first.position).ok()) else {
            continue;
        };
        if (1..=log.len()).contains(&first) {
            log.truncate(first);
            log.extend(batch.iter().cloned());
        }
    }
    let last = log.last()?;
    if !matches!(last.step, Step::Ended(_)) {
        let step = Step::Ended(Box::new(Ended::interrupted(EndCause::Recovery)));
        log.push(Event { position: last.position + 1, at: last.at.max(now), step });
    }
    Some(log.chunks(BATCH).map(Batch::from).collect())
}

#[cfg(test)]
mod tests {
    use domain::{Accepted, MessageId, ModelId, Question, SessionId, TraceId};

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000);

    fn beginning() -> Vec<u8> {
        let accepted = Accepted {
            prompt: PromptId::new(NOW),
            session: SessionId::new(NOW),
            answer: MessageId::new(NOW),
            question: Question {
                text: "why?".to_owned(),
                top_k: 5,
                scope: Default::default(),
                threshold: None,
                provider: None,
            },
            key: None,
            follows: None,
            first_choice: ModelId { provider: "p".into(), model: "m".into() },
            trace: TraceId::random(),
        };
        encoded(&[Box::new(accepted).event(Timestamp::from_micros(1))])
    }

    fn encoded(batch: &[Event]) -> Vec<u8> {
        let mut bytes = Vec::new();
        codec::encode(batch, &mut bytes);
        bytes
    }

    /// A batch of texts, one a character, from a position on.
    fn texts(first: u64, texts: &str) -> Vec<u8> {
        let text = |(position, text): (u64, char)| Event {
            position,
            at: Timestamp::from_micros(position.cast_signed() + 1),
            step: Step::Text(text.to_string().as_str().into()),
        };
        encoded(&(first..).zip(texts.chars()).map(text).collect::<Vec<_>>())
    }

    /// What a log tells that had these batches in the journal.
    fn check(journal: &[Vec<u8>], expected: &str) -> Event {
        let log = ended_log(&beginning(), journal, NOW).unwrap();
        let events: Vec<_> = log.iter().flat_map(|batch| batch.iter()).collect();
        assert!((0..).zip(&events).all(|(position, event)| event.position == position), "{events:?}");
        assert!(events.is_sorted_by_key(|event| event.at));
        assert_eq!(
            domain::Turn::of(events.iter().copied()).map_or(String::new(), |turn| turn.answer),
            expected
        );
        let is_end = |event: &&&Event| matches!(event.step, Step::Ended(_));
        assert_eq!(events.iter().filter(is_end).count(), 1);
        (**events.last().unwrap()).clone()
    }

    #[test]
    fn a_log_goes_on_where_the_claim_left_it_and_ends_now() {
        let ended = check(&[texts(1, "ab"), texts(3, "c")], "abc");
        let expected = Step::Ended(Box::new(Ended::interrupted(EndCause::Recovery)));
        assert_eq!(ended, Event { position: 4, at: NOW, step: expected });
        assert_eq!(check(&[], "").position, 1);
    }

    #[test]
    fn a_log_that_was_copied_forward_is_there_once() {
        check(&[texts(1, "ab"), texts(3, "c"), texts(1, "abc"), texts(4, "d")], "abcd");
    }

    #[test]
    fn what_was_taken_back_gives_way_to_what_came_instead() {
        check(&[texts(1, "ab"), texts(3, "lost"), texts(3, "c")], "abc");
    }

    #[test]
    fn behind_a_gap_nothing_counts_until_the_log_comes_again() {
        check(&[texts(1, "ab"), texts(5, "ef")], "ab");
        check(&[texts(1, "ab"), texts(5, "ef"), texts(1, "abcdef"), texts(7, "g")], "abcdefg");
        check(&[texts(2, "b")], "");
    }

    #[test]
    fn an_end_that_readers_were_told_is_kept() {
        let told = Step::Ended(Box::new(Ended::interrupted(EndCause::Journal)));
        let told = Event { position: 3, at: Timestamp::from_micros(5), step: told };
        assert_eq!(check(&[texts(1, "ab"), encoded(std::slice::from_ref(&told))], "ab"), told);
    }

    #[test]
    fn a_record_that_cannot_be_read_costs_no_other() {
        check(&[texts(1, "ab"), vec![1, 2, 3]], "ab");
        check(&[texts(1, "ab"), vec![1, 2, 3], texts(3, "c")], "abc");
    }

    #[test]
    fn without_a_beginning_there_is_no_log() {
        assert_eq!(ended_log(&[], &[texts(1, "ab")], NOW), None);
        assert_eq!(ended_log(b"damaged", &[texts(1, "ab")], NOW), None);
        assert_eq!(ended_log(&texts(0, "a"), &[texts(1, "ab")], NOW), None);
    }

    #[test]
    fn a_long_log_is_kept_in_batches() {
        let log = ended_log(&beginning(), &[texts(1, &"x".repeat(200))], NOW).unwrap();
        assert_eq!(log.iter().map(|batch| batch.len()).max(), Some(BATCH));
    }
}
