//! Sessions: how they are created and expire, the conversation in them, and clients that disconnect.

use std::time::Duration;

use domain::{
    Ask, EndCause, OnDisconnect, Outcome, Passage, PromptStatus, Rejection, SearchScope, SessionId,
    SessionPolicy, SessionStatus, Step, Turn,
};
use proptest::prelude::*;
use testing::{ScriptedRetriever, passage};
use tokio::time::{Instant, sleep};

use crate::harness::{Harness, IDLE, StorePorts, ask, end_of, limits, read_all, text_of};

fn chat(session: SessionId, text: &str) -> Ask {
    Ask {
        session_policy: SessionPolicy::CreateIfMissing,
        on_disconnect: OnDisconnect::Cancel,
        ..ask(session, text, None)
    }
}

/// The id of a session that does not exist.
fn missing_session() -> SessionId {
    "5f0c1a52-3f0e-4c57-9a4e-0d8a7b1f2c3d".parse().expect("an id")
}

fn turn(question: &str, answer: &str) -> Turn {
    Turn { question: question.to_owned(), answer: answer.to_owned() }
}

impl Harness {
    /// Asks and answers a question. Returns the history of the model's request.
    async fn converse(&mut self, ask: Ask, answer: &str) -> Vec<Turn> {
        let mut reader = self.submit(ask).await.expect("it is admitted");
        let call = self.calls.next().await;
        let history = call.request().history.clone();
        call.text(answer);
        call.finish();
        read_all(&mut reader).await;
        history
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_create_policy_creates_a_missing_session() {
    let mut harness = Harness::new();
    let id = missing_session();
    for session_policy in [SessionPolicy::RequireActive, SessionPolicy::ReviveExpired] {
        let refused = harness.submit(Ask { session_policy, ..chat(id, "why?") }).await;
        assert!(matches!(refused, Err(Rejection::SessionNotUsable)));
        assert!(matches!(harness.stored_session(id).await, Err(Rejection::SessionNotFound)));
    }
    assert_eq!(harness.converse(chat(id, "why?"), "because").await, []);
    assert_eq!(harness.converse(chat(id, "and?"), "so").await, [turn("why?", "because")]);
    let created = harness.stored_session(id).await.unwrap();
    assert_eq!((created.prompt_count, created.title.as_deref()), (2, Some("why?")));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_question_creates_no_session() {
    let harness = Harness::new();
    let id = missing_session();
    for text in ["", " ", &"x".repeat(101)] {
        assert!(matches!(harness.submit(chat(id, text)).await, Err(Rejection::Invalid(_))));
    }
    for selection in ["", " \n", &"x".repeat(101)] {
        let mut asked = chat(id, "why?");
        asked.question.scope = SearchScope::Selection(selection.into());
        assert!(matches!(harness.submit(asked).await, Err(Rejection::Invalid(_))));
    }
    assert!(matches!(harness.stored_session(id).await, Err(Rejection::SessionNotFound)));
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_is_revived_with_its_history() {
    let mut harness = Harness::new();
    let id = harness.start_session().await;
    harness.converse(ask(id, "why?", None), "because").await;
    sleep(IDLE * 2).await;
    let refused = harness.ask(id, "and?", None).await;
    assert!(matches!(refused, Err(Rejection::SessionNotUsable)));
    for session_policy in [SessionPolicy::ReviveExpired, SessionPolicy::CreateIfMissing] {
        sleep(IDLE * 2).await;
        let history = harness.converse(Ask { session_policy, ..chat(id, "and?") }, "so").await;
        assert_eq!(history[0], turn("why?", "because"));
        let revived = harness.stored_session(id).await.unwrap();
        assert_eq!(harness.engine.status_of(&revived).0, SessionStatus::Active);
    }
    assert!(harness.ask(id, "still?", None).await.is_ok(), "every session policy accepts it again");
}

#[tokio::test(start_paused = true)]
async fn an_ended_session_stays_ended() {
    let mut harness = Harness::new();
    let id = harness.start_session().await;
    harness.converse(chat(id, "why?"), "because").await;
    harness.engine.end_session(&harness.principal, id).await.unwrap();
    for session_policy in
        [SessionPolicy::RequireActive, SessionPolicy::ReviveExpired, SessionPolicy::CreateIfMissing]
    {
        let refused = harness.submit(Ask { session_policy, ..chat(id, "and?") }).await;
        assert!(matches!(refused, Err(Rejection::SessionNotUsable)), "{session_policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_first_questions_create_one_session() {
    let mut harness = Harness::new();
    let id = missing_session();
    let asks = (0..10).map(|number| harness.submit(chat(id, &format!("{number}?"))));
    let admitted = futures::future::join_all(asks).await;
    assert_eq!(admitted.iter().filter(|admitted| admitted.is_ok()).count(), 1);
    let busy = admitted.iter().filter(|admitted| matches!(admitted, Err(Rejection::PromptInFlight(_))));
    assert_eq!(busy.count(), 9);
    harness.calls.next().await;
}

#[tokio::test(start_paused = true)]
async fn a_disconnect_cancels_the_prompt_and_frees_the_session_at_once() {
    let mut harness = Harness::new();
    let id = harness.start_session().await;
    let reader = harness.submit(chat(id, "why?")).await.unwrap();
    let first = reader.prompt();
    let call = harness.calls.next().await;
    call.text("bec");
    tokio::task::yield_now().await;
    let left = Instant::now();
    drop(reader);
    call.aborted().await;
    assert!(left.elapsed() < Duration::from_millis(200), "{:?}", left.elapsed());
    let history = harness.converse(chat(id, "and?"), "so").await;
    assert!(left.elapsed() < Duration::from_millis(200), "{:?}", left.elapsed());
    assert_eq!(history, [turn("why?", "bec")], "the partial answer is in the history");
    let prompt = harness.engine.prompt(&harness.principal, first).await.unwrap();
    assert_eq!(prompt.status, PromptStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn the_partial_answer_of_a_cancelled_turn_is_in_the_conversation() {
    let store = StorePorts::memory();
    let history = store.history.clone();
    let mut harness = Harness::with(store, limits());
    let id = harness.start_session().await;
    let reader = harness.submit(chat(id, "why?")).await.unwrap();
    let prompt = reader.prompt();
    let call = harness.calls.next().await;
    call.text("bec");
    tokio::task::yield_now().await;
    drop(reader);
    call.aborted().await;
    let mut again = harness.engine.observe(&harness.principal, prompt).await.unwrap();
    let log = read_all(&mut again).await;
    assert_eq!((end_of(&log).outcome, end_of(&log).cause), (Outcome::Cancelled, EndCause::Abandoned));
    let exchanges = history.conversation(&harness.principal, id, 9).await.unwrap();
    assert_eq!(exchanges.len(), 1);
    assert_eq!((exchanges[0].prompt, &exchanges[0].turn), (prompt, &turn("why?", "bec")));
}

#[tokio::test(start_paused = true)]
async fn a_joining_request_sets_its_own_disconnect_policy() {
    for (on_disconnect, continues) in [(OnDisconnect::Cancel, false), (OnDisconnect::Continue, true)] {
        let mut harness = Harness::new();
        let id = harness.start_session().await;
        let keyed = |on_disconnect| Ask { on_disconnect, key: Some("k".to_owned()), ..chat(id, "why?") };
        let first = harness.submit(keyed(OnDisconnect::Cancel)).await.unwrap();
        let call = harness.calls.next().await;
        let joined = harness.submit(keyed(on_disconnect)).await.unwrap();
        assert_eq!(joined.prompt(), first.prompt());
        drop(first);
        sleep(Duration::from_millis(100)).await;
        assert!(!call.is_aborted(), "another reader is connected");
        drop(joined);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(!call.is_aborted(), continues, "{on_disconnect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_reader_has_the_disconnect_policy_of_the_first_request() {
    for (on_disconnect, continues) in [(OnDisconnect::Cancel, false), (OnDisconnect::Continue, true)] {
        let mut harness = Harness::new();
        let id = harness.start_session().await;
        let asked = harness.submit(Ask { on_disconnect, ..chat(id, "why?") }).await.unwrap();
        let call = harness.calls.next().await;
        let reader = harness.read(asked.prompt()).await.unwrap();
        drop(asked);
        sleep(Duration::from_millis(100)).await;
        assert!(!call.is_aborted(), "another reader is connected");
        drop(reader);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(!call.is_aborted(), continues, "{on_disconnect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn history_is_the_last_ten_messages_and_empty_for_a_selection() {
    let mut harness = Harness::new();
    let id = harness.start_session().await;
    for number in 0..8 {
        harness.converse(chat(id, &format!("{number}?")), &format!("answer {number}")).await;
    }
    let expected: Vec<Turn> =
        (3..8).map(|number| turn(&format!("{number}?"), &format!("answer {number}"))).collect();
    assert_eq!(harness.converse(chat(id, "last?"), "answer").await, expected);
    let mut selecting = chat(id, "and here?");
    selecting.question.scope = SearchScope::Selection("some words".into());
    assert_eq!(harness.converse(selecting, "answer").await, []);
}

#[tokio::test(start_paused = true)]
async fn the_retriever_gets_the_selection_and_the_model_its_passages() {
    let selected = Passage { chars: Some((0, 10)), ..passage("User Selection", "some words") };
    let retriever = std::sync::Arc::new(ScriptedRetriever::finding(vec![selected.clone()]));
    let mut harness = Harness::with(StorePorts::memory().finding(&retriever), limits());
    let id = harness.start_session().await;
    let mut asked = chat(id, "why?");
    asked.question.scope = SearchScope::Selection("some words".into());
    let mut reader = harness.submit(asked.clone()).await.unwrap();
    let call = harness.calls.next().await;
    assert_eq!(call.request().passages, [selected]);
    call.text("Some words.");
    call.finish();
    let log = read_all(&mut reader).await;
    assert_eq!(text_of(&log), "Some words.");
    assert_eq!(retriever.queries()[0].scope, asked.question.scope);
    assert!(log.iter().any(|event| matches!(&event.step, Step::Passages(_))));
}

#[tokio::test(start_paused = true)]
async fn a_session_expires_when_it_is_idle_but_not_while_a_prompt_runs() {
    let mut harness =
        Harness::with(StorePorts::memory(), engine::Limits { total: IDLE * 3, stall: IDLE * 3, ..limits() });
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "why?", Some("k")).await.unwrap();
    let call = harness.calls.next().await;
    sleep(IDLE * 2).await;
    let status = async || harness.engine.status_of(&harness.stored_session(session).await.unwrap()).0;
    assert_eq!(status().await, SessionStatus::Active);
    call.text("because");
    call.finish();
    read_all(&mut reader).await;
    sleep(IDLE - Duration::from_secs(1)).await;
    assert_eq!(status().await, SessionStatus::Active);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(status().await, SessionStatus::Completed);
    assert!(matches!(harness.ask(session, "more?", None).await, Err(Rejection::SessionNotUsable)));
    let replay =
        harness.ask(session, "why?", Some("k")).await.expect("a key is valid in an ended session too");
    assert_eq!(replay.prompt(), reader.prompt());
    assert_eq!(status().await, SessionStatus::Completed, "a replay revives nothing");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn ten_turns_fit_the_context_window(
        sizes in proptest::collection::vec((1_usize..100, 1_usize..6_000), 10),
        window in 1_200_usize..9_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let mut harness = Harness::new();
            let id = harness.start_session().await;
            for (question, answer) in sizes {
                let mut reader = harness.submit(chat(id, &"q".repeat(question))).await.unwrap();
                let call = harness.calls.next().await;
                let request = call.request().clone();
                call.text(&"a".repeat(answer));
                call.finish();
                read_all(&mut reader).await;
                // Every provider takes from a request what fits.
                let fitting = request.fit(window, str::len);
                let message = |text: &str| text.len() + 8;
                let fixed = message(&request.system) + message(&request.question)
                    + request.passages.iter().map(|passage| passage.tokens(str::len)).sum::<usize>()
                    + request.answer_tokens(window) as usize;
                let Ok(fitting) = fitting else {
                    assert!(fixed > window);
                    continue;
                };
                let turns: usize = fitting.iter().map(|turn| message(&turn.question) + message(&turn.answer)).sum();
                assert!(fixed + turns <= window, "{fixed} + {turns} > {window}");
                assert!(request.history.ends_with(fitting), "the newest turns stay");
                let dropped = &request.history[..request.history.len() - fitting.len()];
                if let Some(next) = dropped.last() {
                    let more = message(&next.question) + message(&next.answer);
                    assert!(fixed + turns + more > window, "no turn is dropped that fits");
                }
            }
        });
    }
}
