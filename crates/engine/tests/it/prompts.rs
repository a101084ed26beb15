//! Single stories of a prompt.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    CancelReason, EndCause, Failure, FailureKind, FinishReason, ModelEvent, Outcome, PromptStatus, Rejection,
    SessionStatus, Step, Turn,
};
use testing::{FailingJournal, SlowJournal};
use tokio::time::{Instant, sleep};

use crate::world::{IDLE, RESUME, STALL, Store, TOTAL, World, end_of, limits, read_all, text_of};

#[tokio::test(start_paused = true)]
async fn an_answer_is_read_as_it_is_made() {
    let mut world = World::new();
    let session = world.session().await;
    let mut reader = world.ask(session, "why?", None).await.unwrap();
    let call = world.calls.next().await;
    assert_eq!(call.request().question, "why?");
    call.text("be");
    call.text("cause");
    call.finish();
    let log = read_all(&mut reader).await;
    assert_eq!(text_of(&log), "because");
    assert_eq!(end_of(&log).outcome, Outcome::Done(FinishReason::Stop));
    let started = log.iter().position(|event| matches!(event.step, Step::Started(_)));
    assert_eq!(started, Some(3), "the provider is named before its first token");
    let prompt = world.engine.prompt(&world.who, reader.prompt()).await.unwrap();
    assert_eq!((prompt.status, prompt.token_count), (PromptStatus::Done, 2));
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_has_ready_becomes_one_batch() {
    let mut world = World::new();
    let session = world.session().await;
    let mut reader = world.ask(session, "why?", None).await.unwrap();
    let call = world.calls.next().await;
    (0..200).for_each(|_| call.text("x"));
    call.finish();
    let mut sizes = Vec::new();
    while let Some(batch) = std::future::poll_fn(|cx| reader.poll_next(cx)).await {
        sizes.push(batch.len());
    }
    assert_eq!(sizes.iter().sum::<usize>(), 205, "acceptance, two of finding, start, 200 tokens, end");
    assert!(sizes.len() <= 8 && sizes.iter().all(|size| *size <= 64), "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn the_slot_and_the_session_are_free_when_the_end_is_seen() {
    let (store, delay) = (Store::memory(), Duration::from_millis(7));
    let journal = Arc::new(SlowJournal::new(store.journal.clone(), delay));
    let sessions = store.sessions.clone();
    let limits = engine::Limits { concurrent_streams: 1, ..limits() };
    let mut world = World::with(Store { journal, ..store }, limits);
    let session = world.session().await;
    let mut readers = Vec::new();
    for _ in 0..5 {
        let mut reader = world.ask(session, "again?", None).await.expect("slot and session are free");
        let call = world.calls.next().await;
        call.text("yes");
        call.finish();
        read_all(&mut reader).await;
        let kept = sessions.find(&world.who, session).await.unwrap().unwrap();
        assert_eq!(kept.running, None, "the session was free before the end was seen");
        let log = world.engine.read(&world.who, reader.prompt()).await.unwrap();
        assert!(log.ended_log().is_some(), "the end is kept before it is seen");
        readers.push(reader);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_joins_or_is_refused_takes_no_stream() {
    let store = Store::memory();
    let journal = Arc::new(SlowJournal::new(store.journal.clone(), Duration::from_millis(7)));
    let limits = engine::Limits { concurrent_streams: 1, ..limits() };
    let mut world = World::with(Store { journal, ..store }, limits);
    let (one, two) = (world.session().await, world.session().await);
    let mut reader = world.ask(one, "why?", Some("k")).await.unwrap();
    let call = world.calls.next().await;
    call.text("because");
    call.finish();
    read_all(&mut reader).await;
    let (joined, started) = tokio::join!(world.ask(one, "why?", Some("k")), world.ask(two, "new?", None));
    assert_eq!(joined.unwrap().prompt(), reader.prompt());
    assert!(started.is_ok(), "a replay does not hold the one stream");
}

#[tokio::test(start_paused = true)]
async fn many_requests_with_one_key_are_one_prompt_also_when_one_stream_is_left() {
    let store = Store::memory();
    let journal = Arc::new(SlowJournal::new(store.journal.clone(), Duration::from_millis(7)));
    let limits = engine::Limits { concurrent_streams: 1, ..limits() };
    let mut world = World::with(Store { journal, ..store }, limits);
    let session = world.session().await;
    let asks = (0..20).map(|_| world.ask(session, "why?", Some("k")));
    let readers: Vec<_> = futures::future::join_all(asks).await.into_iter().map(Result::unwrap).collect();
    assert!(readers.iter().all(|reader| reader.prompt() == readers[0].prompt()));
    drop(world.calls.next().await);
    assert!(world.calls.try_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_retry_never_joins_a_prompt_that_is_being_abandoned() {
    let store = Store::memory();
    let journal = Arc::new(SlowJournal::new(store.journal.clone(), Duration::from_millis(7)));
    let mut world = World::with(Store { journal, ..store }, limits());
    let session = world.session().await;
    let reader = world.ask(session, "why?", Some("k")).await.unwrap();
    let first = reader.prompt();
    let call = world.calls.next().await;
    drop(reader);
    call.aborted().await;
    let mut again = world.ask(session, "why?", Some("k")).await.unwrap();
    assert_ne!(again.prompt(), first, "its key starts anew");
    let call = world.calls.next().await;
    call.text("because");
    call.finish();
    assert_eq!(text_of(&read_all(&mut again).await), "because");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_comes_too_late_is_told_so() {
    let store = Store::memory();
    let journal = Arc::new(SlowJournal::new(store.journal.clone(), Duration::from_millis(7)));
    let mut world = World::with(Store { journal, ..store }, limits());
    let session = world.session().await;
    let mut reader = world.ask(session, "why?", None).await.unwrap();
    let call = world.calls.next().await;
    call.text("because");
    call.finish();
    let cancel = world.engine.cancel(&world.who, session, reader.prompt(), CancelReason::UserInitiated);
    let (log, cancelled) = tokio::join!(read_all(&mut reader), async {
        // The answer's end is on its way to the journal.
        sleep(Duration::from_millis(20)).await;
        cancel.await
    });
    assert_eq!(end_of(&log).outcome, Outcome::Done(FinishReason::Stop));
    assert!(matches!(cancelled, Err(Rejection::PromptNotFound)));
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_ends_by_itself_does_not_refuse_the_next_question() {
    let mut world = World::new();
    let session = world.session().await;
    let _reader = world.ask(session, "first?", None).await.unwrap();
    let call = world.calls.next().await;
    call.text("yes");
    let (second, ()) = tokio::join!(world.ask(session, "second?", None), async {
        sleep(Duration::from_millis(10)).await;
        call.finish();
    });
    assert!(second.is_ok(), "the first has ended while the second waited");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_the_prompt_and_closes_the_providers_call() {
    let mut world = World::new();
    let session = world.session().await;
    let mut reader = world.ask(session, "why?", Some("k")).await.unwrap();
    let call = world.calls.next().await;
    call.text("be");
    let other_session = world.session().await;
    let cancel =
        |session| world.engine.cancel(&world.who, session, reader.prompt(), CancelReason::UserInitiated);
    assert!(matches!(cancel(other_session).await, Err(Rejection::PromptNotFound)));
    cancel(session).await.unwrap();
    assert!(call.is_aborted());
    assert!(matches!(cancel(session).await, Err(Rejection::PromptNotFound)), "it has ended");
    call.text("cause");
    let log = read_all(&mut reader).await;
    assert!(text_of(&log).len() <= 2, "no token follows a cancel");
    assert_eq!(end_of(&log).cause, EndCause::Client(CancelReason::UserInitiated));
    let again = world.ask(session, "why?", Some("k")).await.unwrap();
    assert_eq!(again.prompt(), reader.prompt(), "a client's cancel is replayed");
}

#[tokio::test(start_paused = true)]
async fn a_stalled_provider_is_given_up() {
    let mut world = World::new();
    let session = world.session().await;
    let mut reader = world.ask(session, "why?", None).await.unwrap();
    let call = world.calls.next().await;
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
async fn an_answer_ends_when_its_time_is_up() {
    let mut world = World::new();
    let session = world.session().await;
    let mut silent = world.ask(session, "why?", None).await.unwrap();
    let log = read_all(&mut silent).await;
    assert_eq!(end_of(&log).outcome, failed(FailureKind::SilentAtStart, &log));
    drop(world.calls.next().await);

    let mut reader = world.ask(session, "why?", None).await.unwrap();
    let call = world.calls.next().await;
    let talking = tokio::spawn(async move {
        while !call.is_aborted() {
            call.text("x");
            sleep(Duration::from_secs(20)).await;
        }
    });
    let log = read_all(&mut reader).await;
    assert_eq!(end_of(&log).outcome, Outcome::Done(FinishReason::Length));
    let taken = log.last().unwrap().at.since(log[0].at);
    assert!(taken >= TOTAL && taken < TOTAL + Duration::from_secs(1), "{taken:?}");
    talking.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_ends_at_its_bounds_of_tokens_and_bytes() {
    for (max_tokens, answer_bytes, expected) in [(3, 1_000, "aa aa aa "), (1_000, 7, "aa aa ")] {
        let mut world = World::with(Store::memory(), engine::Limits { max_tokens, answer_bytes, ..limits() });
        let session = world.session().await;
        let mut reader = world.ask(session, "why?", None).await.unwrap();
        let call = world.calls.next().await;
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
    let mut world = World::new();
    let session = world.session().await;
    let mut reader = world.ask(session, "why?", None).await.unwrap();
    let call = world.calls.next().await;
    call.send(ModelEvent::Reasoning("hm".into()));
    call.finish();
    let log = read_all(&mut reader).await;
    assert_eq!(end_of(&log).outcome, failed(FailureKind::EmptyAnswer, &log));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_task_is_an_internal_error_and_nothing_is_stuck() {
    let mut world = World::with(Store::memory(), engine::Limits { concurrent_streams: 1, ..limits() });
    let session = world.session().await;
    let mut reader = world.ask(session, "why?", None).await.unwrap();
    let call = world.calls.next().await;
    call.text("be");
    call.panic();
    let log = read_all(&mut reader).await;
    assert_eq!(end_of(&log).outcome, failed(FailureKind::Internal, &log));
    world.ask(session, "why?", None).await.expect("slot and session are free");
}

#[tokio::test(start_paused = true)]
async fn a_lost_journal_interrupts_the_readers_and_refuses_new_prompts() {
    let store = Store::memory();
    let journal = Arc::new(FailingJournal::new(store.journal.clone()));
    let mut world = World::with(Store { journal: journal.clone(), ..store }, limits());
    let session = world.session().await;
    let mut reader = world.ask(session, "why?", None).await.unwrap();
    let call = world.calls.next().await;
    journal.fail_appends(true);
    journal.fail_claims(true);
    call.text("be");
    let log = read_all(&mut reader).await;
    assert_eq!(text_of(&log), "", "what is not durable is not visible");
    assert_eq!(end_of(&log).outcome, failed(FailureKind::Interrupted, &log));
    let other = world.session().await;
    assert!(matches!(world.ask(other, "why?", None).await, Err(Rejection::StorageUnavailable(_))));
    journal.fail_appends(false);
    journal.fail_claims(false);
    world.ask(session, "why?", None).await.expect("the session is free when the journal works again");
    let mut replay = world.engine.read(&world.who, reader.prompt()).await.unwrap();
    assert_eq!(read_all(&mut replay).await, log, "what readers were told is what is kept");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_back_in_time_finds_its_prompt_running() {
    let mut world = World::new();
    let session = world.session().await;
    let reader = world.ask(session, "why?", None).await.unwrap();
    let prompt = reader.prompt();
    let call = world.calls.next().await;
    drop(reader);
    sleep(RESUME - Duration::from_millis(10)).await;
    let mut reader = world.engine.read(&world.who, prompt).await.unwrap();
    sleep(RESUME * 2).await;
    call.text("because");
    call.finish();
    assert_eq!(text_of(&read_all(&mut reader).await), "because");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_nobody_reads_is_abandoned_and_its_key_starts_anew() {
    let mut world = World::new();
    let session = world.session().await;
    let reader = world.ask(session, "why?", Some("k")).await.unwrap();
    let prompt = reader.prompt();
    let call = world.calls.next().await;
    let left = Instant::now();
    drop(reader);
    call.aborted().await;
    assert!(left.elapsed() >= RESUME && left.elapsed() < RESUME + Duration::from_millis(5));
    let mut replay = world.engine.read(&world.who, prompt).await.unwrap();
    let ended = end_of(&read_all(&mut replay).await);
    assert_eq!((ended.outcome, ended.cause), (Outcome::Cancelled, EndCause::Abandoned));
    let again = world.ask(session, "why?", Some("k")).await.unwrap();
    assert_ne!(again.prompt(), prompt);
}

#[tokio::test(start_paused = true)]
async fn an_unread_prompt_yields_to_its_session_at_once() {
    let mut world = World::new();
    let session = world.session().await;
    drop(world.ask(session, "first?", None).await.unwrap());
    let first = world.calls.next().await;
    let asked = Instant::now();
    let second = world.ask(session, "second?", None).await.unwrap();
    assert!(asked.elapsed() < Duration::from_millis(10));
    assert!(first.is_aborted());
    let refused = world.ask(session, "third?", None).await;
    assert!(matches!(refused, Err(Rejection::PromptInFlight(prompt)) if prompt == second.prompt()));
}

#[tokio::test(start_paused = true)]
async fn the_oldest_unread_prompt_makes_room_and_one_that_is_read_never_does() {
    let mut world = World::with(Store::memory(), engine::Limits { concurrent_streams: 2, ..limits() });
    let (one, two, three) = (world.session().await, world.session().await, world.session().await);
    let read = world.ask(one, "read", None).await.unwrap();
    let unread = world.ask(two, "unread", Some("k")).await.unwrap();
    let (kept, yielding) = (world.calls.next().await, world.calls.next().await);
    let full = world.ask(three, "full", None).await;
    assert!(matches!(full, Err(Rejection::Overloaded { .. })));
    let joined = world.ask(two, "unread", Some("k")).await.expect("a key is looked up before any limit");
    assert_eq!(joined.prompt(), unread.prompt());
    drop((unread, joined));
    let third = world.ask(three, "fits", None).await.unwrap();
    assert!(yielding.is_aborted() && !kept.is_aborted());
    drop((read, third));
}

#[tokio::test(start_paused = true)]
async fn the_conversation_so_far_is_the_models_memory() {
    let mut world = World::new();
    let session = world.session().await;
    for n in 0..7 {
        let mut reader = world.ask(session, &format!("q{n}"), None).await.unwrap();
        let call = world.calls.next().await;
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

#[tokio::test(start_paused = true)]
async fn a_session_expires_when_it_is_idle_but_not_while_a_prompt_runs() {
    let mut world =
        World::with(Store::memory(), engine::Limits { total: IDLE * 3, stall: IDLE * 3, ..limits() });
    let session = world.session().await;
    let mut reader = world.ask(session, "why?", Some("k")).await.unwrap();
    let call = world.calls.next().await;
    sleep(IDLE * 2).await;
    let status = async || world.engine.status_of(&world.engine.session(&world.who, session).await.unwrap()).0;
    assert_eq!(status().await, SessionStatus::Active);
    call.text("because");
    call.finish();
    read_all(&mut reader).await;
    sleep(IDLE - Duration::from_secs(1)).await;
    assert_eq!(status().await, SessionStatus::Active);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(status().await, SessionStatus::Completed);
    assert!(matches!(world.ask(session, "more?", None).await, Err(Rejection::SessionNotUsable)));
    let replay = world.ask(session, "why?", Some("k")).await.expect("a key is good in an ended session too");
    assert_eq!(replay.prompt(), reader.prompt());
    assert_eq!(status().await, SessionStatus::Completed, "a replay revives nothing");
}

#[tokio::test(start_paused = true)]
async fn ending_a_session_cancels_its_prompt() {
    let mut world = World::new();
    let session = world.session().await;
    let mut reader = world.ask(session, "why?", None).await.unwrap();
    let call = world.calls.next().await;
    world.engine.end_session(&world.who, session).await.unwrap();
    assert!(call.is_aborted());
    let ended = end_of(&read_all(&mut reader).await);
    assert_eq!((ended.outcome, ended.cause), (Outcome::Cancelled, EndCause::SessionEnded));
    let session = world.engine.session(&world.who, session).await.unwrap();
    assert_eq!(world.engine.status_of(&session).0, SessionStatus::Cancelled);
    assert!(matches!(world.ask(session.id, "more?", None).await, Err(Rejection::SessionNotUsable)));
}

#[tokio::test(start_paused = true)]
async fn shutting_down_interrupts_what_runs_and_takes_nothing_new() {
    let mut world = World::new();
    let (one, two) = (world.session().await, world.session().await);
    let mut reader = world.ask(one, "why?", None).await.unwrap();
    let call = world.calls.next().await;
    world.engine.shutdown().await;
    assert!(call.is_aborted());
    let log = read_all(&mut reader).await;
    assert_eq!(end_of(&log).outcome, failed(FailureKind::Interrupted, &log));
    assert!(matches!(world.ask(two, "why?", None).await, Err(Rejection::Stopping)));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_during_admission_leaves_nothing_behind() {
    let mut world = World::new();
    let session = world.session().await;
    let admission = world.ask(session, "why?", None);
    assert!(futures::FutureExt::now_or_never(admission).is_none(), "it was dropped before it was admitted");
    let call = world.calls.next().await;
    call.aborted().await;
    world.ask(session, "why?", None).await.expect("the session is free again");
}

#[tokio::test(start_paused = true)]
async fn readers_are_bounded() {
    let world = World::with(Store::memory(), engine::Limits { readers: 2, ..limits() });
    let session = world.session().await;
    let first = world.ask(session, "why?", Some("k")).await.unwrap();
    let second = world.engine.read(&world.who, first.prompt()).await.unwrap();
    let joining = world.ask(session, "why?", Some("k")).await;
    assert!(matches!(joining, Err(Rejection::Overloaded { .. })));
    let other = world.session().await;
    assert!(matches!(world.ask(other, "why?", None).await, Err(Rejection::Overloaded { .. })));
    drop(second);
    world.ask(session, "why?", Some("k")).await.expect("a place is free again");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_is_refused_with_the_reason() {
    let world = World::new();
    let session = world.session().await;
    for (text, key, named) in [
        ("", None, "empty"),
        (" \n\t", None, "empty"),
        (&*"x".repeat(101), None, "at most 100"),
        ("why?", Some(""), "1 to 200"),
        ("why?", Some(&*"k".repeat(201)), "1 to 200"),
    ] {
        match world.ask(session, text, key).await {
            Err(Rejection::Invalid(message)) => assert!(message.contains(named), "{message}"),
            Err(other) => panic!("{text:?} is refused as {other:?}"),
            Ok(_) => panic!("{text:?} is accepted"),
        }
    }
    assert!(
        world.ask(session, &"ü".repeat(100), Some(&"ü".repeat(200))).await.is_ok(),
        "characters, not bytes"
    );
}

/// A failed outcome of this kind, with the message that the log has.
fn failed(kind: FailureKind, log: &[domain::Event]) -> Outcome {
    match end_of(log).outcome {
        Outcome::Failed(failure) => Outcome::Failed(Failure { kind, ..failure }),
        other => other,
    }
}
