//! Answers: how they are batched, bounded and remembered.

use std::sync::Arc;
use std::time::Duration;

use domain::{Failure, FailureKind, FinishReason, ModelEvent, Outcome, PromptStatus, Step, Turn};
use testing::SlowJournal;

use crate::harness::{Harness, StorePorts, end_of, failed, limits, read_all, text_of};

#[tokio::test(start_paused = true)]
async fn an_answer_is_streamed_to_its_reader() {
    let mut harness = Harness::new();
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "why?", None).await.unwrap();
    let call = harness.calls.next().await;
    assert_eq!(call.request().question, "why?");
    call.text("be");
    call.text("cause");
    call.finish();
    let log = read_all(&mut reader).await;
    assert_eq!(text_of(&log), "because");
    assert_eq!(end_of(&log).outcome, Outcome::Done(FinishReason::Stop));
    let started = log.iter().position(|event| matches!(event.step, Step::Started(_)));
    assert_eq!(started, Some(3), "the provider is named before its first token");
    let prompt = harness.engine.prompt(&harness.principal, reader.prompt()).await.unwrap();
    assert_eq!((prompt.status, prompt.token_count), (PromptStatus::Done, 2));
}

#[tokio::test(start_paused = true)]
async fn ready_tokens_are_batched() {
    let mut harness = Harness::new();
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "why?", None).await.unwrap();
    let call = harness.calls.next().await;
    (0..200).for_each(|_| call.text("x"));
    call.finish();
    let mut sizes = Vec::new();
    while let Some(batch) = std::future::poll_fn(|cx| reader.poll_next(cx)).await {
        sizes.push(batch.len());
    }
    assert_eq!(sizes.iter().sum::<usize>(), 205, "acceptance, two retrieval stages, start, 200 tokens, end");
    assert!(sizes.len() <= 8 && sizes.iter().all(|size| *size <= 64), "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn slot_and_session_are_free_before_the_end_is_visible() {
    let (store, delay) = (StorePorts::memory(), Duration::from_millis(7));
    let journal = Arc::new(SlowJournal::new(store.journal.clone(), delay));
    let sessions = store.sessions.clone();
    let limits = engine::Limits { concurrent_streams: 1, ..limits() };
    let mut harness = Harness::with(StorePorts { journal, ..store }, limits);
    let session = harness.start_session().await;
    let mut readers = Vec::new();
    for _ in 0..5 {
        let mut reader = harness.ask(session, "again?", None).await.expect("slot and session are free");
        let call = harness.calls.next().await;
        call.text("yes");
        call.finish();
        read_all(&mut reader).await;
        let stored = sessions.find(&harness.principal, session).await.unwrap().unwrap();
        assert_eq!(stored.running, None, "the session was free before the end was visible");
        let log = harness.read(reader.prompt()).await.unwrap();
        assert!(log.ended_log().is_some(), "the end is stored before it is visible");
        readers.push(reader);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_ends_at_the_token_and_byte_limits() {
    for (max_tokens, answer_bytes, expected) in [(3, 1_000, "aa aa aa "), (1_000, 7, "aa aa ")] {
        let mut harness =
            Harness::with(StorePorts::memory(), engine::Limits { max_tokens, answer_bytes, ..limits() });
        let session = harness.start_session().await;
        let mut reader = harness.ask(session, "why?", None).await.unwrap();
        let call = harness.calls.next().await;
        assert_eq!(call.request().max_tokens, max_tokens);
        (0..10).for_each(|_| call.text("aa "));
        let log = read_all(&mut reader).await;
        assert_eq!(text_of(&log), expected);
        assert_eq!(end_of(&log).outcome, Outcome::Done(FinishReason::Length));
        assert!(call.is_aborted());
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_text_is_a_failure() {
    let mut harness = Harness::new();
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "why?", None).await.unwrap();
    let call = harness.calls.next().await;
    call.send(ModelEvent::Reasoning("hm".into()));
    call.finish();
    let log = read_all(&mut reader).await;
    assert_eq!(end_of(&log).outcome, failed(FailureKind::EmptyAnswer, &log));
}

#[tokio::test(start_paused = true)]
async fn the_model_gets_the_last_turns_of_the_conversation() {
    let mut harness = Harness::new();
    let session = harness.start_session().await;
    for n in 0..7 {
        let mut reader = harness.ask(session, &format!("q{n}"), None).await.unwrap();
        let call = harness.calls.next().await;
        let expected: Vec<Turn> = (0..n)
            .filter(|earlier| *earlier != 3)
            .map(|n| Turn { question: format!("q{n}"), answer: format!("a{n}") })
            .collect();
        assert_eq!(call.request().history, expected[expected.len().saturating_sub(5)..]);
        if n == 3 {
            call.fail(Failure::new(FailureKind::Unavailable, "no text, no turn"));
        } else {
            call.text(&format!("a{n}"));
            call.finish();
        }
        read_all(&mut reader).await;
    }
}
