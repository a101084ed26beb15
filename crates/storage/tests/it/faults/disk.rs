//! Disks that are full or read-only.

use domain::{History, Journal, PromptFilter, PromptStatus, StorageErrorKind};
use rusqlite::Connection;
use storage::{Durability, DurableStore};

use super::mounts::{Disk, may_mount};
use crate::data_folder::DataFolder;
use crate::harness::{
    RunningPrompt, ask, at, done, find, keyed, log_of, new_prompt, prompt_of, session, start, who,
};

const KIBIBYTES: u32 = 1024;

async fn check_a_disk_that_fills_up(durability: Durability) {
    let disk = Disk::new(KIBIBYTES);
    let mut folder = DataFolder::at(disk.path());
    folder.settings.durability = durability;
    let store = folder.open(0);
    let before = ask(&store, new_prompt(session(&store, 0).await, "before?", 0), "well", done()).await;
    let idle = session(&store, 0).await;
    let mut running: Vec<RunningPrompt> = Vec::new();
    for number in 0..8 {
        let key = format!("key {number}");
        running.push(start(&store, keyed(session(&store, 0).await, "why?", &key, 0)).await);
    }

    disk.fill();
    let mut ended = Vec::new();
    for mut prompt in running {
        let long = "word ".repeat(2_000);
        let refused = prompt.try_append(&store, &long).await.unwrap_err();
        assert_eq!(refused.kind(), StorageErrorKind::Full);
        assert!(refused.to_string().starts_with("the journal cannot be written: No space left"), "{refused}");
        let (log, _) = prompt.try_end(&store, done(), 1).await;
        assert_eq!(
            log_of(&store, prompt_of(&log)).await.as_ref(),
            Some(&log),
            "the log is the one that readers saw"
        );
        ended.push(log);
    }
    for _ in 0..3 {
        let refused = store.claim(&who(), new_prompt(idle, "now?", 1)).await.unwrap_err();
        assert_eq!(refused.kind(), StorageErrorKind::Full);
        assert!(
            refused.to_string().contains("full") || refused.to_string().contains("No space left"),
            "{refused}"
        );
    }
    assert_eq!(log_of(&store, prompt_of(&before)).await.as_ref(), Some(&before), "logs can still be read");

    disk.free();
    let after = ask(&store, new_prompt(idle, "and now?", 2), "fine", done()).await;
    let in_flight = PromptFilter { session: None, status: Some(PromptStatus::InFlight) };
    assert_eq!(store.prompts(&who(), in_flight, 9).await, Ok(vec![]), "every end was stored");
    drop(store);
    let store = folder.open(3);
    for log in ended.iter().chain([&before, &after]) {
        assert_eq!(log_of(&store, prompt_of(log)).await.as_ref(), Some(log));
    }
    check_integrity(&folder.connect());
}

fn check_integrity(database: &Connection) {
    let found: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
}

#[tokio::test]
async fn a_full_disk_ends_running_prompts_and_refuses_new_ones_until_there_is_room() {
    if may_mount("faults::disk::a_full_disk_ends_running_prompts_and_refuses_new_ones_until_there_is_room") {
        check_a_disk_that_fills_up(Durability::Process).await;
    }
}

#[tokio::test]
async fn a_full_disk_does_the_same_with_power_durability() {
    if may_mount("faults::disk::a_full_disk_does_the_same_with_power_durability") {
        check_a_disk_that_fills_up(Durability::Power).await;
    }
}

#[tokio::test]
async fn a_process_that_dies_on_a_full_disk_loses_no_visible_event() {
    if !may_mount("faults::disk::a_process_that_dies_on_a_full_disk_loses_no_visible_event") {
        return;
    }
    let disk = Disk::new(KIBIBYTES);
    let folder = DataFolder::at(disk.path());
    let store = folder.open(0);
    let mut running = start(&store, new_prompt(session(&store, 0).await, "why?", 0)).await;
    running.append(&store, "seen by readers").await;
    disk.fill();
    running.try_append(&store, &"word ".repeat(2_000)).await.unwrap_err();
    drop(store);
    match DurableStore::open(&folder.settings, at(1)) {
        Ok(store) => drop(store),
        Err(error) => assert!(error.to_string().contains("full"), "{error}"),
    }
    disk.free();
    let log = log_of(&folder.open(2), running.id()).await.unwrap();
    assert!(log.starts_with(&running.log));
    assert_eq!(log.len(), running.log.len() + 1);
}

#[tokio::test]
async fn a_read_only_folder_does_not_open_until_it_is_writable() {
    if !may_mount("faults::disk::a_read_only_folder_does_not_open_until_it_is_writable") {
        return;
    }
    let disk = Disk::new(KIBIBYTES);
    let folder = DataFolder::at(disk.path());
    let store = folder.open(0);
    let session = session(&store, 0).await;
    let mut running = start(&store, new_prompt(session, "why?", 0)).await;
    running.append(&store, "because").await;
    drop(store);
    let before = folder.names();

    disk.set_read_only(true);
    let Err(error) = DurableStore::open(&folder.settings, at(1)) else { panic!("it is read-only") };
    assert_eq!(error.kind(), StorageErrorKind::ReadOnly);
    let message = error.to_string();
    assert!(message.contains(disk.path().to_str().unwrap()), "{message}");
    assert!(message.contains("Read-only file system"), "{message}");
    assert_eq!(folder.names(), before);

    disk.set_read_only(false);
    let store = folder.open(2);
    assert!(log_of(&store, running.id()).await.unwrap().starts_with(&running.log));
    assert_eq!(find(&store, session).await.running, None);
}
