//! Opening a folder again: after a clean end, and after a crash.

use domain::{
    Claim, EndCause, Ended, Event, FailureKind, History, Journal, PromptFilter, PromptId, PromptStatus,
    SessionEnd, Sessions, Step, StorageErrorKind,
};
use storage::{Durability, DurableStore, JournalLimits};

use crate::data_folder::DataFolder;
use crate::harness::{
    Store, ask, at, claim, done, failed, find, keyed, log_of, new_prompt, prompt_of, session, start, who,
};

/// The log that recovery makes of a running one.
fn interrupted(mut log: Vec<Event>, seconds: u64) -> Vec<Event> {
    let step = Step::Ended(Box::new(Ended::interrupted(EndCause::Recovery)));
    log.push(Event { position: log.len() as u64, at: at(seconds), step });
    log
}

async fn status(store: &impl Store, prompt: PromptId) -> PromptStatus {
    store.prompt(&who(), prompt).await.unwrap().unwrap().status
}

#[tokio::test]
async fn ended_prompts_are_the_same_after_a_restart() {
    let folder = DataFolder::new();
    let store = folder.open(0);
    let session = session(&store, 0).await;
    let answered = ask(&store, keyed(session, "why?", "a", 1), "because of 🙂", done()).await;
    let failed = ask(&store, keyed(session, "what?", "b", 2), "thi", failed(FailureKind::Died)).await;
    store.end(&who(), session).await.unwrap();
    let before = find(&store, session).await;
    drop(store);
    assert_eq!(
        folder.names(),
        ["history.db", "journal/000000000001.log", "lock"],
        "the write-ahead log was checkpointed"
    );

    for seconds in [3, 4] {
        let store = folder.open(seconds);
        assert_eq!(find(&store, session).await, before);
        assert_eq!(before.ended, Some(SessionEnd::Completed));
        for log in [&answered, &failed] {
            assert_eq!(log_of(&store, prompt_of(log)).await.as_ref(), Some(log));
        }
        assert_eq!(store.thread(&who(), prompt_of(&failed), 9).await.unwrap().len(), 2);
        let outcome = claim(&store, keyed(session, "why?", "a", seconds)).await;
        assert!(matches!(outcome, Claim::Joined(id) if id == prompt_of(&answered)), "{outcome:?}");
        let outcome = claim(&store, keyed(session, "something else?", "b", seconds)).await;
        assert!(matches!(outcome, Claim::KeyReused), "{outcome:?}");
        assert_eq!(folder.segments(), Vec::<std::path::PathBuf>::new(), "the journal was cleared");
    }
}

#[tokio::test]
async fn a_running_prompt_ends_as_interrupted_after_its_last_event() {
    let folder = DataFolder::new();
    let store = folder.open(0);
    let (talking, silent) = (session(&store, 0).await, session(&store, 0).await);
    let mut running = start(&store, keyed(talking, "why?", "key", 1)).await;
    running.append(&store, "because of ").await;
    running.append(&store, "this").await;
    let unheard = start(&store, new_prompt(silent, "what?", 1)).await;
    drop(store);

    let store = folder.open(5);
    let (id, log) = (running.id(), interrupted(running.log, 5));
    assert_eq!(log_of(&store, id).await.as_ref(), Some(&log));
    assert_eq!(log_of(&store, unheard.id()).await, Some(interrupted(unheard.log, 5)));
    assert_eq!(status(&store, id).await, PromptStatus::Error);
    let in_flight = PromptFilter { session: None, status: Some(PromptStatus::InFlight) };
    assert_eq!(store.prompts(&who(), in_flight, 9).await, Ok(vec![]));
    let free = find(&store, talking).await;
    assert_eq!((free.running, free.token_count, free.last_active_at), (None, 3, at(5)));

    let retry = start(&store, keyed(talking, "why?", "key", 6)).await;
    assert_ne!(retry.id(), id, "a retry after a crash is a new prompt");
    let Step::Accepted(accepted) = &retry.log[0].step else { panic!("a log begins with its acceptance") };
    assert_eq!(accepted.follows, Some(id), "its partial answer is a turn");
    drop(store);
    let store = folder.open(100);
    assert_eq!(log_of(&store, id).await, Some(log), "a log that has ended does not change");
}

/// Runs two prompts, and recovers after every step what a process that is killed then leaves behind.
async fn check_recovery_after_every_step(folder: &DataFolder) {
    let store = folder.open(0);
    let sessions = [session(&store, 0).await, session(&store, 0).await];
    let mut running = [
        start(&store, new_prompt(sessions[0], "one?", 1)).await,
        start(&store, new_prompt(sessions[1], "two?", 1)).await,
    ];
    for step in 0..16 {
        running[step % 2].append(&store, "some words ").await;
        let copy = folder.copy();
        let left = copy.open(2);
        for running in &running {
            let expected = interrupted(running.log.clone(), 2);
            assert_eq!(log_of(&left, running.id()).await, Some(expected), "after step {step}");
        }
    }
    let [one, two] = running;
    let id = one.id();
    let ended = one.end(&store, done(), 2).await;
    let copy = folder.copy();
    let left = copy.open(3);
    assert_eq!(log_of(&left, id).await, Some(ended));
    assert_eq!(log_of(&left, two.id()).await, Some(interrupted(two.log, 3)));
}

#[tokio::test]
async fn appended_batches_survive_a_killed_process() {
    check_recovery_after_every_step(&DataFolder::new()).await;
}

#[tokio::test]
async fn appended_batches_survive_when_logs_are_copied_forward() {
    let mut folder = DataFolder::new();
    folder.settings.journal = JournalLimits { segment_bytes: 150, journal_bytes: 600 };
    check_recovery_after_every_step(&folder).await;
}

#[tokio::test]
async fn appended_batches_survive_with_power_durability() {
    let mut folder = DataFolder::new();
    folder.settings.durability = Durability::Power;
    folder.settings.journal = JournalLimits { segment_bytes: 150, journal_bytes: 600 };
    check_recovery_after_every_step(&folder).await;
}

#[tokio::test]
async fn a_folder_is_open_in_one_store_at_a_time() {
    let folder = DataFolder::new();
    let store = folder.open(0);
    let Err(error) = DurableStore::open(&folder.settings, at(0)) else { panic!("the folder is locked") };
    assert_eq!(error.kind(), StorageErrorKind::Locked);
    let message = error.to_string();
    let path = folder.settings.folder.display();
    assert_eq!(
        message,
        format!(
            "{path} is in use by another server or command: stop it, or give this one a folder of its own (data_dir)"
        )
    );
    session(&store, 0).await;
    drop(store);
    folder.open(1);
}

#[tokio::test]
async fn a_folder_that_cannot_be_created_is_named_in_the_error() {
    let mut folder = DataFolder::new();
    let file = folder.settings.folder.join("file");
    std::fs::write(&file, "no folder").unwrap();
    folder.settings.folder = file.join("data");
    let Err(error) = DurableStore::open(&folder.settings, at(0)) else { panic!("the path is a file") };
    let message = error.to_string();
    assert!(message.starts_with(&folder.settings.folder.display().to_string()), "{message}");
}

#[tokio::test]
async fn the_folder_of_a_newer_release_is_not_touched() {
    let folder = DataFolder::new();
    let store = folder.open(0);
    start(&store, new_prompt(session(&store, 0).await, "why?", 0)).await.append(&store, "because").await;
    drop(store);
    folder.connect().pragma_update(None, "user_version", 1_000).unwrap();
    let before = folder.names();
    let Err(error) = DurableStore::open(&folder.settings, at(1)) else {
        panic!("a newer release has written it")
    };
    let message = error.to_string();
    assert!(message.contains("history.db: a newer release has written it"), "{message}");
    assert_eq!(folder.names(), before, "its journal is still there");
}

#[tokio::test]
async fn a_stored_log_of_a_newer_format_or_with_a_wrong_checksum_is_an_error() {
    let folder = DataFolder::new();
    let store = folder.open(0);
    let session = session(&store, 0).await;
    let newer = prompt_of(&ask(&store, new_prompt(session, "why?", 0), "because", done()).await);
    let flipped = prompt_of(&ask(&store, new_prompt(session, "what?", 0), "this", done()).await);
    let other = folder.connect();
    other.execute("UPDATE logs SET format = 9 WHERE prompt = ?", [newer.0.as_bytes()]).unwrap();
    let flip = "UPDATE logs SET body = CAST(replace(body, 'this', 'that') AS BLOB) WHERE prompt = ?";
    assert_eq!(other.execute(flip, [flipped.0.as_bytes()]).unwrap(), 1);
    let message = store.read(&who(), newer).await.unwrap_err().to_string();
    assert!(message.contains("newer release") && message.contains(&newer.to_string()), "{message}");
    let error = store.read(&who(), flipped).await.unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Damaged);
    let message = error.to_string();
    assert!(message.contains("damaged") && message.contains(&flipped.to_string()), "{message}");
}
