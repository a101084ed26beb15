//! Another process holds the database's lock.

use std::sync::Arc;
use std::time::Instant;

use domain::{Claim, History, Journal, PromptFilter, PromptStatus, Sessions, StorageError, StorageErrorKind};
use rusqlite::Connection;
use tokio::task::JoinSet;

use crate::data_folder::DataFolder;
use crate::harness::{ask, at, claim, done, find, keyed, log_of, new_prompt, prompt_of, session, start, who};

/// The message of the error.
const LOCKED: &str = "history.db: database is locked: another process has been writing to it for too long; \
    try again when it is done";

fn lock(folder: &DataFolder) -> Connection {
    let other = folder.connect();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    other
}

fn check_locked<T: std::fmt::Debug>(result: Result<T, StorageError>) {
    assert_eq!(result.unwrap_err(), StorageError::new(StorageErrorKind::Locked, LOCKED));
}

#[tokio::test]
async fn every_call_that_waits_for_the_lock_fails_in_time_and_says_why() {
    let folder = DataFolder::new();
    let store = Arc::new(folder.open(0));
    let session = session(&*store, 0).await;
    let _lock = lock(&folder);
    let began = Instant::now();
    check_locked(store.touch(&who(), session, at(1), at(0)).await);
    let (one, began) = (began.elapsed(), Instant::now());
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let (claiming, touching) = (store.clone(), store.clone());
        calls.spawn(async move { claiming.claim(&who(), new_prompt(session, "why?", 0)).await.map(|_| ()) });
        calls.spawn(async move { touching.touch(&who(), session, at(1), at(0)).await });
    }
    for result in calls.join_all().await {
        check_locked(result);
    }
    let all = began.elapsed();
    assert!(all < 20 * one, "40 calls waited for {all:?}, one alone for {one:?}");
}

#[tokio::test]
async fn reading_does_not_need_the_lock() {
    let folder = DataFolder::new();
    let store = folder.open(0);
    let session = session(&store, 0).await;
    let log = ask(&store, new_prompt(session, "why?", 0), "because", done()).await;
    let _lock = lock(&folder);
    assert_eq!(log_of(&store, prompt_of(&log)).await, Some(log));
    assert_eq!(find(&store, session).await.prompt_count, 1);
    assert_eq!(store.sessions(&who(), None, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_end_that_cannot_be_stored_is_stored_later_as_readers_saw_it() {
    let folder = DataFolder::new();
    let store = folder.open(0);
    let session = session(&store, 0).await;
    let mut running = start(&store, keyed(session, "why?", "key", 0)).await;
    let id = running.id();
    let lock = lock(&folder);
    running.append(&store, "tokens need no lock").await;
    let (seen, refused) = running.try_end(&store, done(), 1).await;
    check_locked(refused);

    assert_eq!(log_of(&store, id).await.as_ref(), Some(&seen), "the prompt has ended for its readers");
    assert_eq!(store.prompt(&who(), id).await.unwrap().unwrap().status, PromptStatus::Error);
    let listed =
        async |status| store.prompts(&who(), PromptFilter { session: None, status: Some(status) }, 9).await;
    assert_eq!(listed(PromptStatus::InFlight).await, Ok(vec![]));
    check_locked(store.write_unrecorded_ends().await);
    check_locked(store.claim(&who(), new_prompt(session, "what?", 1)).await);

    // A process that dies now leaves the same end in the journal.
    let crashed = folder.copy();
    assert_eq!(log_of(&crashed.open(2), id).await.as_ref(), Some(&seen));

    drop(lock);
    store.write_unrecorded_ends().await.unwrap();
    assert_eq!(log_of(&store, id).await.as_ref(), Some(&seen));
    assert_eq!(listed(PromptStatus::Error).await.unwrap()[0].token_count, 4);
    let free = find(&store, session).await;
    assert_eq!((free.running, free.token_count), (None, 4));
    let retry = start(&store, keyed(session, "why?", "key", 2)).await;
    assert_ne!(retry.id(), id);
    drop(store);
    assert_eq!(log_of(&folder.open(3), id).await, Some(seen));
}

#[tokio::test]
async fn a_claim_stores_unrecorded_ends_once_the_lock_is_gone() {
    let folder = DataFolder::new();
    let store = folder.open(0);
    let session = session(&store, 0).await;
    let running = start(&store, new_prompt(session, "why?", 0)).await;
    let lock = lock(&folder);
    let (seen, _) = running.try_end(&store, done(), 1).await;
    drop(lock);
    let outcome = claim(&store, new_prompt(session, "what?", 1)).await;
    assert!(matches!(outcome, Claim::Started(..)), "{outcome:?}");
    assert_eq!(log_of(&store, prompt_of(&seen)).await, Some(seen));
}

#[tokio::test]
async fn a_folder_with_a_locked_database_does_not_open_and_keeps_its_journal() {
    let folder = DataFolder::new();
    let store = folder.open(0);
    let mut running = start(&store, new_prompt(session(&store, 0).await, "why?", 0)).await;
    running.append(&store, "because").await;
    drop(store);
    let lock = lock(&folder);
    let before = folder.segments();
    let Err(error) = storage::DurableStore::open(&folder.settings, at(1)) else { panic!("locked") };
    let message = error.to_string();
    assert!(message.ends_with(LOCKED), "{message}");
    assert_eq!(folder.segments(), before);
    drop(lock);
    let log = log_of(&folder.open(2), running.id()).await.unwrap();
    assert!(log.starts_with(&running.log));
}
