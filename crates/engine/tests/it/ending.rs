//! How a prompt ends: by a cancel, a timeout, a failure, the disconnect of its readers, or a shutdown.

use std::sync::Arc;
use std::time::Duration;

use domain::{CancelReason, EndCause, FailureKind, FinishReason, Outcome, Rejection, SessionStatus};
use testing::{FailingJournal, SlowJournal};
use tokio::time::{Instant, sleep};

use crate::harness::{Harness, RESUME, STALL, StorePorts, TOTAL, end_of, failed, limits, read_all, text_of};

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_the_prompt_and_closes_the_providers_call() {
    let mut harness = Harness::new();
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "why?", Some("k")).await.unwrap();
    let call = harness.calls.next().await;
    call.text("be");
    let other_session = harness.start_session().await;
    let cancel = |session| {
        harness.engine.cancel(&harness.principal, session, reader.prompt(), CancelReason::UserInitiated)
    };
    assert!(matches!(cancel(other_session).await, Err(Rejection::PromptNotFound)));
    cancel(session).await.unwrap();
    assert!(call.is_aborted());
    assert!(matches!(cancel(session).await, Err(Rejection::PromptNotFound)), "it has ended");
    call.text("cause");
    let log = read_all(&mut reader).await;
    assert!(text_of(&log).len() <= 2, "no token follows a cancel");
    assert_eq!(end_of(&log).cause, EndCause::Client(CancelReason::UserInitiated));
    let again = harness.ask(session, "why?", Some("k")).await.unwrap();
    assert_eq!(again.prompt(), reader.prompt(), "a client's cancel is replayed");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_after_the_end_finds_no_prompt() {
    let store = StorePorts::memory();
    let journal = Arc::new(SlowJournal::new(store.journal.clone(), Duration::from_millis(7)));
    let mut harness = Harness::with(StorePorts { journal, ..store }, limits());
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "why?", None).await.unwrap();
    let call = harness.calls.next().await;
    call.text("because");
    call.finish();
    let cancel =
        harness.engine.cancel(&harness.principal, session, reader.prompt(), CancelReason::UserInitiated);
    let (log, cancelled) = tokio::join!(read_all(&mut reader), async {
        // The terminal event is being written to the journal.
        sleep(Duration::from_millis(20)).await;
        cancel.await
    });
    assert_eq!(end_of(&log).outcome, Outcome::Done(FinishReason::Stop));
    assert!(matches!(cancelled, Err(Rejection::PromptNotFound)));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_answer_fails_after_the_stall_timeout() {
    let mut harness = Harness::new();
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "why?", None).await.unwrap();
    let call = harness.calls.next().await;
    let begun = Instant::now();
    call.text("be");
    sleep(STALL - Duration::from_secs(1)).await;
    call.text("cause");
    let log = read_all(&mut reader).await;
    assert_eq!(end_of(&log).outcome, failed(FailureKind::Stalled, &log));
    assert_eq!(text_of(&log), "because");
    let waited = begun.elapsed();
    assert!(waited > STALL * 2 - Duration::from_secs(2) && waited < STALL * 2, "{waited:?}");
    assert!(call.is_aborted());
}

#[tokio::test(start_paused = true)]
async fn the_total_timeout_ends_an_answer() {
    let mut harness = Harness::new();
    let session = harness.start_session().await;
    let mut silent = harness.ask(session, "why?", None).await.unwrap();
    let log = read_all(&mut silent).await;
    assert_eq!(end_of(&log).outcome, failed(FailureKind::SilentAtStart, &log));
    drop(harness.calls.next().await);

    let mut reader = harness.ask(session, "why?", None).await.unwrap();
    let call = harness.calls.next().await;
    let provider = tokio::spawn(async move {
        while !call.is_aborted() {
            call.text("x");
            sleep(Duration::from_secs(20)).await;
        }
    });
    let log = read_all(&mut reader).await;
    assert_eq!(end_of(&log).outcome, Outcome::Done(FinishReason::Length));
    let taken = log.last().unwrap().at.since(log[0].at);
    assert!(taken >= TOTAL && taken < TOTAL + Duration::from_secs(1), "{taken:?}");
    provider.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_task_is_an_internal_failure_and_frees_slot_and_session() {
    let mut harness =
        Harness::with(StorePorts::memory(), engine::Limits { concurrent_streams: 1, ..limits() });
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "why?", None).await.unwrap();
    let call = harness.calls.next().await;
    call.text("be");
    call.panic();
    let log = read_all(&mut reader).await;
    assert_eq!(end_of(&log).outcome, failed(FailureKind::Internal, &log));
    harness.ask(session, "why?", None).await.expect("slot and session are free");
}

#[tokio::test(start_paused = true)]
async fn a_lost_journal_interrupts_readers_and_rejects_new_prompts() {
    let store = StorePorts::memory();
    let journal = Arc::new(FailingJournal::new(store.journal.clone()));
    let mut harness = Harness::with(StorePorts { journal: journal.clone(), ..store }, limits());
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "why?", None).await.unwrap();
    let call = harness.calls.next().await;
    journal.fail_appends(true);
    journal.fail_claims(true);
    call.text("be");
    let log = read_all(&mut reader).await;
    assert_eq!(text_of(&log), "", "what is not durable is not visible");
    assert_eq!(end_of(&log).outcome, failed(FailureKind::Interrupted, &log));
    let other = harness.start_session().await;
    assert!(matches!(harness.ask(other, "why?", None).await, Err(Rejection::StorageUnavailable(_))));
    journal.fail_appends(false);
    journal.fail_claims(false);
    harness.ask(session, "why?", None).await.expect("the session is free when the journal works again");
    let mut replay = harness.read(reader.prompt()).await.unwrap();
    assert_eq!(read_all(&mut replay).await, log, "readers saw what is stored");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_reconnects_within_the_resume_window_finds_its_prompt_running() {
    let mut harness = Harness::new();
    let session = harness.start_session().await;
    let reader = harness.ask(session, "why?", None).await.unwrap();
    let prompt = reader.prompt();
    let call = harness.calls.next().await;
    drop(reader);
    sleep(RESUME - Duration::from_millis(10)).await;
    let mut reader = harness.read(prompt).await.unwrap();
    sleep(RESUME * 2).await;
    call.text("because");
    call.finish();
    assert_eq!(text_of(&read_all(&mut reader).await), "because");
}

#[tokio::test(start_paused = true)]
async fn an_unread_prompt_is_abandoned_and_its_key_is_free_again() {
    let mut harness = Harness::new();
    let session = harness.start_session().await;
    let reader = harness.ask(session, "why?", Some("k")).await.unwrap();
    let prompt = reader.prompt();
    let call = harness.calls.next().await;
    let left = Instant::now();
    drop(reader);
    call.aborted().await;
    assert!(left.elapsed() >= RESUME && left.elapsed() < RESUME + Duration::from_millis(5));
    let mut replay = harness.read(prompt).await.unwrap();
    let ended = end_of(&read_all(&mut replay).await);
    assert_eq!((ended.outcome, ended.cause), (Outcome::Cancelled, EndCause::Abandoned));
    let again = harness.ask(session, "why?", Some("k")).await.unwrap();
    assert_ne!(again.prompt(), prompt);
}

#[tokio::test(start_paused = true)]
async fn ending_a_session_cancels_its_prompt() {
    let mut harness = Harness::new();
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "why?", None).await.unwrap();
    let call = harness.calls.next().await;
    harness.engine.end_session(&harness.principal, session).await.unwrap();
    assert!(call.is_aborted());
    let ended = end_of(&read_all(&mut reader).await);
    assert_eq!((ended.outcome, ended.cause), (Outcome::Cancelled, EndCause::SessionEnded));
    let session = harness.stored_session(session).await.unwrap();
    assert_eq!(harness.engine.status_of(&session).0, SessionStatus::Cancelled);
    assert!(matches!(harness.ask(session.id, "more?", None).await, Err(Rejection::SessionNotUsable)));
}

#[tokio::test(start_paused = true)]
async fn shutdown_interrupts_running_prompts_and_rejects_new_ones() {
    let mut harness = Harness::new();
    let (one, two) = (harness.start_session().await, harness.start_session().await);
    let mut reader = harness.ask(one, "why?", None).await.unwrap();
    let call = harness.calls.next().await;
    harness.engine.shutdown().await;
    assert!(call.is_aborted());
    let log = read_all(&mut reader).await;
    assert_eq!(end_of(&log).outcome, failed(FailureKind::Interrupted, &log));
    assert!(matches!(harness.ask(two, "why?", None).await, Err(Rejection::Stopping)));
}
