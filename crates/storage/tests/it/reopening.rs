//! A folder that is opened again: after a clean end, and after a process that just died.

use domain::History;
use domain::{
    Claim, EndCause, Ended, Event, FailureKind, Journal, PromptFilter, PromptId, PromptStatus, SessionEnd,
    Sessions, Step,
};
use storage::{Durability, Durable, JournalLimits};

use crate::folder::Folder;
use crate::world::{
    Store, ask, at, claim, done, failed, find, keyed, log_of, new_prompt, prompt_of, session, start, who,
};

/// What recovery makes of a log that ran.
fn interrupted(mut log: Vec<Event>, seconds: u64) -> Vec<Event> {
    let step = Step::Ended(Box::new(Ended::interrupted(EndCause::Recovery)));
    log.push(Event { position: log.len() as u64, at: at(seconds), step });
    log
}

async fn status(store: &impl Store, prompt: PromptId) -> PromptStatus {
    store.prompt(&who(), prompt).await.unwrap().unwrap().status
}

#[tokio::test]
async fn what_has_ended_is_there_again_as_it_was() {
    let folder = Folder::new();
    let store = folder.open(0);
    let session = session(&store, 0).await;
    let answered = ask(&store, keyed(session, "why?", "a", 1), "because of 🙂", done()).await;
    let failed = ask(&store, keyed(session, "what?", "b", 2), "thi", failed(FailureKind::Died)).await;
    store.end(&who(), session).await.unwrap();
    let before = find(&store, session).await;
    drop(store);
    assert_eq!(folder.names(), ["history.db", "journal/000000000001.log", "lock"], "nothing waits in a wal");

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
        assert_eq!(folder.segments(), Vec::<std::path::PathBuf>::new(), "the journal was cleared away");
    }
}

#[tokio::test]
async fn a_prompt_that_ran_ends_with_interrupted_behind_its_last_event() {
    let folder = Folder::new();
    let store = folder.open(0);
    let (talking, silent) = (session(&store, 0).await, session(&store, 0).await);
    let mut running = start(&store, keyed(talking, "why?", "key", 1)).await;
    running.say(&store, "because of ").await;
    running.say(&store, "this").await;
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
    assert_eq!(accepted.follows, Some(id), "what it had said is a turn");
    drop(store);
    let store = folder.open(100);
    assert_eq!(log_of(&store, id).await, Some(log), "once ended, it stays so");
}

/// Plays two prompts on a store, and looks after every step at what a process that is killed then leaves.
async fn check_that_every_moment_survives(folder: &Folder) {
    let store = folder.open(0);
    let sessions = [session(&store, 0).await, session(&store, 0).await];
    let mut running = [
        start(&store, new_prompt(sessions[0], "one?", 1)).await,
        start(&store, new_prompt(sessions[1], "two?", 1)).await,
    ];
    for step in 0..16 {
        running[step % 2].say(&store, "some words ").await;
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
async fn whatever_was_appended_survives_a_process_that_is_killed() {
    check_that_every_moment_survives(&Folder::new()).await;
}

#[tokio::test]
async fn so_it_does_when_segments_are_tiny_and_logs_are_copied_forward() {
    let mut folder = Folder::new();
    folder.settings.journal = JournalLimits { segment_bytes: 150, journal_bytes: 600 };
    check_that_every_moment_survives(&folder).await;
}

#[tokio::test]
async fn so_it_does_at_the_level_power() {
    let mut folder = Folder::new();
    folder.settings.durability = Durability::Power;
    folder.settings.journal = JournalLimits { segment_bytes: 150, journal_bytes: 600 };
    check_that_every_moment_survives(&folder).await;
}

#[tokio::test]
async fn one_folder_has_one_store_at_a_time() {
    let folder = Folder::new();
    let store = folder.open(0);
    let Err(error) = Durable::open(&folder.settings, at(0)) else { panic!("it is taken") };
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
async fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
    let mut folder = Folder::new();
    let file = folder.settings.folder.join("file");
    std::fs::write(&file, "no folder").unwrap();
    folder.settings.folder = file.join("data");
    let Err(error) = Durable::open(&folder.settings, at(0)) else { panic!("it cannot be") };
    let message = error.to_string();
    assert!(message.starts_with(&folder.settings.folder.display().to_string()), "{message}");
}

#[tokio::test]
async fn the_folder_of_a_newer_release_is_left_alone() {
    let folder = Folder::new();
    let store = folder.open(0);
    start(&store, new_prompt(session(&store, 0).await, "why?", 0)).await.say(&store, "because").await;
    drop(store);
    folder.connect().pragma_update(None, "user_version", 1_000).unwrap();
    let before = folder.names();
    let Err(error) = Durable::open(&folder.settings, at(1)) else { panic!("it is newer") };
    let message = error.to_string();
    assert!(message.contains("history.db: a newer release has written it"), "{message}");
    assert_eq!(folder.names(), before, "its journal is still there");
}

#[tokio::test]
async fn a_stored_log_of_a_newer_format_or_with_another_checksum_is_an_error() {
    let folder = Folder::new();
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
    let message = store.read(&who(), flipped).await.unwrap_err().to_string();
    assert!(message.contains("damaged") && message.contains(&flipped.to_string()), "{message}");
}
