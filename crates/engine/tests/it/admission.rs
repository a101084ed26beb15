//! Admission: which requests start a prompt, join one, or are rejected.

use std::sync::Arc;
use std::time::Duration;

use domain::Rejection;
use testing::SlowJournal;
use tokio::time::{Instant, sleep};

use crate::harness::{Harness, StorePorts, limits, read_all, text_of};

#[tokio::test(start_paused = true)]
async fn concurrent_requests_with_one_key_share_one_prompt_and_one_stream_slot() {
    let store = StorePorts::memory();
    let journal = Arc::new(SlowJournal::new(store.journal.clone(), Duration::from_millis(7)));
    let limits = engine::Limits { concurrent_streams: 1, ..limits() };
    let mut harness = Harness::with(StorePorts { journal, ..store }, limits);
    let session = harness.start_session().await;
    let asks = (0..20).map(|_| harness.ask(session, "why?", Some("k")));
    let readers: Vec<_> = futures::future::join_all(asks).await.into_iter().map(Result::unwrap).collect();
    assert!(readers.iter().all(|reader| reader.prompt() == readers[0].prompt()));
    drop(harness.calls.next().await);
    assert!(harness.calls.try_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_joining_or_rejected_request_takes_no_stream_slot() {
    let store = StorePorts::memory();
    let journal = Arc::new(SlowJournal::new(store.journal.clone(), Duration::from_millis(7)));
    let limits = engine::Limits { concurrent_streams: 1, ..limits() };
    let mut harness = Harness::with(StorePorts { journal, ..store }, limits);
    let (one, two) = (harness.start_session().await, harness.start_session().await);
    let mut reader = harness.ask(one, "why?", Some("k")).await.unwrap();
    let call = harness.calls.next().await;
    call.text("because");
    call.finish();
    read_all(&mut reader).await;
    let (joined, started) = tokio::join!(harness.ask(one, "why?", Some("k")), harness.ask(two, "new?", None));
    assert_eq!(joined.unwrap().prompt(), reader.prompt());
    assert!(started.is_ok(), "a replay holds no stream slot");
}

#[tokio::test(start_paused = true)]
async fn a_retry_never_joins_a_prompt_that_is_being_abandoned() {
    let store = StorePorts::memory();
    let journal = Arc::new(SlowJournal::new(store.journal.clone(), Duration::from_millis(7)));
    let mut harness = Harness::with(StorePorts { journal, ..store }, limits());
    let session = harness.start_session().await;
    let reader = harness.ask(session, "why?", Some("k")).await.unwrap();
    let first = reader.prompt();
    let call = harness.calls.next().await;
    drop(reader);
    call.aborted().await;
    let mut again = harness.ask(session, "why?", Some("k")).await.unwrap();
    assert_ne!(again.prompt(), first, "the key starts a new prompt");
    let call = harness.calls.next().await;
    call.text("because");
    call.finish();
    assert_eq!(text_of(&read_all(&mut again).await), "because");
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_for_a_prompt_that_is_about_to_end() {
    let mut harness = Harness::new();
    let session = harness.start_session().await;
    let _reader = harness.ask(session, "first?", None).await.unwrap();
    let call = harness.calls.next().await;
    call.text("yes");
    let (second, ()) = tokio::join!(harness.ask(session, "second?", None), async {
        sleep(Duration::from_millis(10)).await;
        call.finish();
    });
    assert!(second.is_ok(), "the first ended while the second waited");
}

#[tokio::test(start_paused = true)]
async fn an_unread_prompt_yields_to_its_session_at_once() {
    let mut harness = Harness::new();
    let session = harness.start_session().await;
    drop(harness.ask(session, "first?", None).await.unwrap());
    let first = harness.calls.next().await;
    let asked = Instant::now();
    let second = harness.ask(session, "second?", None).await.unwrap();
    assert!(asked.elapsed() < Duration::from_millis(10));
    assert!(first.is_aborted());
    let refused = harness.ask(session, "third?", None).await;
    assert!(matches!(refused, Err(Rejection::PromptInFlight(prompt)) if prompt == second.prompt()));
}

#[tokio::test(start_paused = true)]
async fn the_oldest_unread_prompt_yields_its_slot_and_a_read_one_never_does() {
    let mut harness =
        Harness::with(StorePorts::memory(), engine::Limits { concurrent_streams: 2, ..limits() });
    let (one, two, three) =
        (harness.start_session().await, harness.start_session().await, harness.start_session().await);
    let read = harness.ask(one, "read", None).await.unwrap();
    let unread = harness.ask(two, "unread", Some("k")).await.unwrap();
    let (continuing, yielding) = (harness.calls.next().await, harness.calls.next().await);
    let full = harness.ask(three, "full", None).await;
    assert!(matches!(full, Err(Rejection::Overloaded { .. })));
    let joined =
        harness.ask(two, "unread", Some("k")).await.expect("a key is looked up before any limit applies");
    assert_eq!(joined.prompt(), unread.prompt());
    drop((unread, joined));
    let third = harness.ask(three, "fits", None).await.unwrap();
    assert!(yielding.is_aborted() && !continuing.is_aborted());
    drop((read, third));
}

#[tokio::test(start_paused = true)]
async fn a_caller_dropped_during_admission_leaves_no_session_busy() {
    let mut harness = Harness::new();
    let session = harness.start_session().await;
    let admission = harness.ask(session, "why?", None);
    assert!(futures::FutureExt::now_or_never(admission).is_none(), "it was dropped before it was admitted");
    let call = harness.calls.next().await;
    call.aborted().await;
    harness.ask(session, "why?", None).await.expect("the session is free again");
}

#[tokio::test(start_paused = true)]
async fn readers_are_bounded() {
    let harness = Harness::with(StorePorts::memory(), engine::Limits { readers: 2, ..limits() });
    let session = harness.start_session().await;
    let first = harness.ask(session, "why?", Some("k")).await.unwrap();
    let second = harness.read(first.prompt()).await.unwrap();
    let joining = harness.ask(session, "why?", Some("k")).await;
    assert!(matches!(joining, Err(Rejection::Overloaded { .. })));
    let other = harness.start_session().await;
    assert!(matches!(harness.ask(other, "why?", None).await, Err(Rejection::Overloaded { .. })));
    drop(second);
    harness.ask(session, "why?", Some("k")).await.expect("a reader slot is free again");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_request_is_rejected_with_the_reason() {
    let harness = Harness::new();
    let session = harness.start_session().await;
    for (text, key, named) in [
        ("", None, "empty"),
        (" \n\t", None, "empty"),
        (&*"x".repeat(101), None, "at most 100"),
        ("why?", Some(""), "1 to 200"),
        ("why?", Some(&*"k".repeat(201)), "1 to 200"),
    ] {
        match harness.ask(session, text, key).await {
            Err(Rejection::Invalid(message)) => assert!(message.contains(named), "{message}"),
            Err(other) => panic!("{text:?} is refused as {other:?}"),
            Ok(_) => panic!("{text:?} is accepted"),
        }
    }
    assert!(
        harness.ask(session, &"ü".repeat(100), Some(&"ü".repeat(200))).await.is_ok(),
        "characters, not bytes"
    );
}
