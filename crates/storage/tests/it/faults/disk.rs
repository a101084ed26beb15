//! Disks that are full, or that cannot be written to.

use domain::{History, Journal, PromptFilter, PromptStatus};
use rusqlite::Connection;
use storage::{Durability, Durable};

use super::mounts::{Disk, may_mount};
use crate::folder::Folder;
use crate::world::{Running, ask, at, done, find, keyed, log_of, new_prompt, prompt_of, session, start, who};

const KIBIBYTES: u32 = 1024;

async fn check_a_disk_that_fills_up(durability: Durability) {
    let disk = Disk::new(KIBIBYTES);
    let mut folder = Folder::at(disk.path());
    folder.settings.durability = durability;
    let store = folder.open(0);
    let before = ask(&store, new_prompt(session(&store, 0).await, "before?", 0), "well", done()).await;
    let idle = session(&store, 0).await;
    let mut running: Vec<Running> = Vec::new();
    for number in 0..8 {
        let key = format!("key {number}");
        running.push(start(&store, keyed(session(&store, 0).await, "why?", &key, 0)).await);
    }

    disk.fill();
    let mut told = Vec::new();
    for mut prompt in running {
        let long = "word ".repeat(2_000);
        let refused = prompt.try_to_say(&store, &long).await.unwrap_err();
        assert!(refused.to_string().starts_with("the journal cannot be written: No space left"), "{refused}");
        let (log, _) = prompt.try_to_end(&store, done(), 1).await;
        assert_eq!(
            log_of(&store, prompt_of(&log)).await.as_ref(),
            Some(&log),
            "readers see what they were told"
        );
        told.push(log);
    }
    for _ in 0..3 {
        let refused = store.claim(&who(), new_prompt(idle, "now?", 1)).await.unwrap_err();
        assert!(
            refused.to_string().contains("full") || refused.to_string().contains("No space left"),
            "{refused}"
        );
    }
    assert_eq!(log_of(&store, prompt_of(&before)).await.as_ref(), Some(&before), "reading goes on");

    disk.free();
    let after = ask(&store, new_prompt(idle, "and now?", 2), "fine", done()).await;
    let in_flight = PromptFilter { session: None, status: Some(PromptStatus::InFlight) };
    assert_eq!(store.prompts(&who(), in_flight, 9).await, Ok(vec![]), "every end was taken");
    drop(store);
    let store = folder.open(3);
    for log in told.iter().chain([&before, &after]) {
        assert_eq!(log_of(&store, prompt_of(log)).await.as_ref(), Some(log));
    }
    check_integrity(&folder.connect());
}

fn check_integrity(database: &Connection) {
    let found: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
}

#[tokio::test]
async fn a_disk_that_is_full_ends_what_runs_and_refuses_what_is_new_until_there_is_room() {
    if may_mount(
        "faults::disk::a_disk_that_is_full_ends_what_runs_and_refuses_what_is_new_until_there_is_room",
    ) {
        check_a_disk_that_fills_up(Durability::Process).await;
    }
}

#[tokio::test]
async fn so_it_does_at_the_level_power() {
    if may_mount("faults::disk::so_it_does_at_the_level_power") {
        check_a_disk_that_fills_up(Durability::Power).await;
    }
}

#[tokio::test]
async fn a_process_that_dies_on_a_full_disk_loses_nothing_that_was_seen() {
    if !may_mount("faults::disk::a_process_that_dies_on_a_full_disk_loses_nothing_that_was_seen") {
        return;
    }
    let disk = Disk::new(KIBIBYTES);
    let folder = Folder::at(disk.path());
    let store = folder.open(0);
    let mut running = start(&store, new_prompt(session(&store, 0).await, "why?", 0)).await;
    running.say(&store, "seen by readers").await;
    disk.fill();
    running.try_to_say(&store, &"word ".repeat(2_000)).await.unwrap_err();
    drop(store);
    match Durable::open(&folder.settings, at(1)) {
        Ok(store) => drop(store),
        Err(error) => assert!(error.to_string().contains("full"), "{error}"),
    }
    disk.free();
    let log = log_of(&folder.open(2), running.id()).await.unwrap();
    assert!(log.starts_with(&running.log));
    assert_eq!(log.len(), running.log.len() + 1);
}

#[tokio::test]
async fn a_folder_that_is_read_only_does_not_open_says_why_and_opens_when_it_is_not() {
    if !may_mount("faults::disk::a_folder_that_is_read_only_does_not_open_says_why_and_opens_when_it_is_not")
    {
        return;
    }
    let disk = Disk::new(KIBIBYTES);
    let folder = Folder::at(disk.path());
    let store = folder.open(0);
    let session = session(&store, 0).await;
    let mut running = start(&store, new_prompt(session, "why?", 0)).await;
    running.say(&store, "because").await;
    drop(store);
    let before = folder.names();

    disk.set_read_only(true);
    let Err(error) = Durable::open(&folder.settings, at(1)) else { panic!("it is read-only") };
    let message = error.to_string();
    assert!(message.contains(disk.path().to_str().unwrap()), "{message}");
    assert!(message.contains("Read-only file system"), "{message}");
    assert_eq!(folder.names(), before);

    disk.set_read_only(false);
    let store = folder.open(2);
    assert!(log_of(&store, running.id()).await.unwrap().starts_with(&running.log));
    assert_eq!(find(&store, session).await.running, None);
}
