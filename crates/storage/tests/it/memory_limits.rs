//! The bounds of the store in memory.

use domain::{History, NewSession, Session, SessionId, Sessions, StorageErrorKind};
use storage::{MemoryLimits, MemoryStore};

use crate::harness::{ask, at, done, keyed, log_of, new_prompt, prompt_of, session, start, who};

#[tokio::test]
async fn the_oldest_ended_logs_are_evicted_first_with_their_keys() {
    let store = MemoryStore::new(MemoryLimits { bytes: 10_000, sessions: 10 });
    let (busy, other) = (session(&store, 0).await, session(&store, 0).await);
    let first = start(&store, new_prompt(busy, "running?", 0)).await;
    let mut logs = Vec::new();
    for number in 0..20 {
        let key = format!("key {number}");
        logs.push(ask(&store, keyed(other, "why?", &key, 0), &"word ".repeat(20), done()).await);
    }
    let mut kept = 0;
    for log in &logs {
        match log_of(&store, prompt_of(log)).await {
            Some(read) => {
                assert_eq!(read, *log);
                kept += 1;
            }
            None => assert_eq!(kept, 0, "older logs are evicted first"),
        }
    }
    assert!(kept > 0 && kept < 20, "{kept}");
    start(&store, keyed(other, "something else?", "key 0", 1)).await;
    let id = first.id();
    let log = first.end(&store, done(), 1).await;
    assert_eq!(log_of(&store, id).await, Some(log), "a running prompt is never evicted");
}

#[tokio::test]
async fn the_longest_idle_session_is_evicted_for_a_new_one() {
    let store = MemoryStore::new(MemoryLimits { bytes: 10_000, sessions: 3 });
    let [busy, idle, touched] =
        [session(&store, 0).await, session(&store, 1).await, session(&store, 0).await];
    start(&store, new_prompt(busy, "running?", 0)).await;
    ask(&store, new_prompt(touched, "why?", 5), "because", done()).await;
    let new = session(&store, 6).await;
    assert_eq!(store.find(&who(), idle).await, Ok(None));
    for kept in [busy, touched, new] {
        assert!(store.find(&who(), kept).await.unwrap().is_some());
    }
    assert_eq!(store.sessions(&who(), None, 9).await.unwrap().len(), 3);
}

#[tokio::test]
async fn without_an_idle_session_there_is_no_room_for_another() {
    let store = MemoryStore::new(MemoryLimits { bytes: 10_000, sessions: 2 });
    for _ in 0..2 {
        let session = session(&store, 0).await;
        start(&store, new_prompt(session, "running?", 0)).await;
    }
    let session = Session::new(SessionId::new(at(1)), NewSession::default(), at(1));
    let error = store.create(&who(), session).await.unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Full);
    let message = error.to_string();
    assert!(message.contains("no room for another session"), "{message}");
}
