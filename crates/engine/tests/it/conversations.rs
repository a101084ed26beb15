//! Stories of a conversation: how its session is opened, what is remembered of it, and a client that leaves.

use std::time::Duration;

use domain::{
    Ask, EndCause, OnDisconnect, Outcome, Passage, PromptStatus, Rejection, SearchScope, SessionId,
    SessionPolicy, SessionStatus, Step, Turn,
};
use proptest::prelude::*;
use testing::{ScriptedRetriever, passage};
use tokio::time::{Instant, sleep};

use crate::world::{IDLE, Store, World, ask, end_of, limits, read_all, text_of};

fn chat(session: SessionId, text: &str) -> Ask {
    Ask {
        session_policy: SessionPolicy::CreateIfMissing,
        on_disconnect: OnDisconnect::Cancel,
        ..ask(session, text, None)
    }
}

/// A session that nobody has made.
fn unknown() -> SessionId {
    "5f0c1a52-3f0e-4c57-9a4e-0d8a7b1f2c3d".parse().expect("an id")
}

fn turn(question: &str, answer: &str) -> Turn {
    Turn { question: question.to_owned(), answer: answer.to_owned() }
}

impl World {
    /// Asks, and answers it. Tells what of the conversation the model was given.
    async fn told(&mut self, ask: Ask, answer: &str) -> Vec<Turn> {
        let mut reader = self.engine.submit(&self.who, ask).await.expect("it is admitted");
        let call = self.calls.next().await;
        let history = call.request().history.clone();
        call.text(answer);
        call.finish();
        read_all(&mut reader).await;
        history
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_not_there_is_made_where_a_question_may_begin_one() {
    let mut world = World::new();
    let id = unknown();
    for session_policy in [SessionPolicy::RequireActive, SessionPolicy::ReviveExpired] {
        let refused = world.engine.submit(&world.who, Ask { session_policy, ..chat(id, "why?") }).await;
        assert!(matches!(refused, Err(Rejection::SessionNotUsable)));
        assert!(matches!(world.engine.session(&world.who, id).await, Err(Rejection::SessionNotFound)));
    }
    assert_eq!(world.told(chat(id, "why?"), "because").await, []);
    assert_eq!(world.told(chat(id, "and?"), "so").await, [turn("why?", "because")]);
    let made = world.engine.session(&world.who, id).await.unwrap();
    assert_eq!((made.prompt_count, made.title.as_deref()), (2, Some("why?")));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_refused_makes_no_session() {
    let world = World::new();
    let id = unknown();
    for text in ["", " ", &"x".repeat(101)] {
        assert!(matches!(world.engine.submit(&world.who, chat(id, text)).await, Err(Rejection::Invalid(_))));
    }
    for selection in ["", " \n", &"x".repeat(101)] {
        let mut asked = chat(id, "why?");
        asked.question.scope = SearchScope::Selection(selection.into());
        assert!(matches!(world.engine.submit(&world.who, asked).await, Err(Rejection::Invalid(_))));
    }
    assert!(matches!(world.engine.session(&world.who, id).await, Err(Rejection::SessionNotFound)));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_idle_too_long_goes_on_with_its_history() {
    let mut world = World::new();
    let id = world.session().await;
    world.told(ask(id, "why?", None), "because").await;
    sleep(IDLE * 2).await;
    let refused = world.ask(id, "and?", None).await;
    assert!(matches!(refused, Err(Rejection::SessionNotUsable)));
    for session_policy in [SessionPolicy::ReviveExpired, SessionPolicy::CreateIfMissing] {
        sleep(IDLE * 2).await;
        let history = world.told(Ask { session_policy, ..chat(id, "and?") }, "so").await;
        assert_eq!(history[0], turn("why?", "because"));
        let revived = world.engine.session(&world.who, id).await.unwrap();
        assert_eq!(world.engine.status_of(&revived).0, SessionStatus::Active);
    }
    assert!(world.ask(id, "still?", None).await.is_ok(), "it is alive for every dialect again");
}

#[tokio::test(start_paused = true)]
async fn an_ended_session_stays_ended() {
    let mut world = World::new();
    let id = world.session().await;
    world.told(chat(id, "why?"), "because").await;
    world.engine.end_session(&world.who, id).await.unwrap();
    for session_policy in
        [SessionPolicy::RequireActive, SessionPolicy::ReviveExpired, SessionPolicy::CreateIfMissing]
    {
        let refused = world.engine.submit(&world.who, Ask { session_policy, ..chat(id, "and?") }).await;
        assert!(matches!(refused, Err(Rejection::SessionNotUsable)), "{session_policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_first_questions_at_once_make_one_session() {
    let mut world = World::new();
    let id = unknown();
    let asks = (0..10).map(|number| world.engine.submit(&world.who, chat(id, &format!("{number}?"))));
    let admitted = futures::future::join_all(asks).await;
    assert_eq!(admitted.iter().filter(|admitted| admitted.is_ok()).count(), 1);
    let busy = admitted.iter().filter(|admitted| matches!(admitted, Err(Rejection::PromptInFlight(_))));
    assert_eq!(busy.count(), 9);
    world.calls.next().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_cancels_at_once_and_its_session_is_free_at_once() {
    let mut world = World::new();
    let id = world.session().await;
    let reader = world.engine.submit(&world.who, chat(id, "why?")).await.unwrap();
    let first = reader.prompt();
    let call = world.calls.next().await;
    call.text("bec");
    tokio::task::yield_now().await;
    let left = Instant::now();
    drop(reader);
    call.aborted().await;
    assert!(left.elapsed() < Duration::from_millis(200), "{:?}", left.elapsed());
    let history = world.told(chat(id, "and?"), "so").await;
    assert!(left.elapsed() < Duration::from_millis(200), "{:?}", left.elapsed());
    assert_eq!(history, [turn("why?", "bec")], "the partial answer is remembered");
    let prompt = world.engine.prompt(&world.who, first).await.unwrap();
    assert_eq!(prompt.status, PromptStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn the_partial_answer_of_a_cancelled_turn_is_in_the_conversation() {
    let store = Store::memory();
    let history = store.history.clone();
    let mut world = World::with(store, limits());
    let id = world.session().await;
    let reader = world.engine.submit(&world.who, chat(id, "why?")).await.unwrap();
    let prompt = reader.prompt();
    let call = world.calls.next().await;
    call.text("bec");
    tokio::task::yield_now().await;
    drop(reader);
    call.aborted().await;
    let mut again = world.engine.observe(&world.who, prompt).await.unwrap();
    let log = read_all(&mut again).await;
    assert_eq!((end_of(&log).outcome, end_of(&log).cause), (Outcome::Cancelled, EndCause::Abandoned));
    let exchanges = history.conversation(&world.who, id, 9).await.unwrap();
    assert_eq!(exchanges.len(), 1);
    assert_eq!((exchanges[0].prompt, &exchanges[0].turn), (prompt, &turn("why?", "bec")));
}

#[tokio::test(start_paused = true)]
async fn whoever_joins_by_key_leaves_as_its_own_request_says() {
    for (on_disconnect, lingers) in [(OnDisconnect::Cancel, false), (OnDisconnect::Continue, true)] {
        let mut world = World::new();
        let id = world.session().await;
        let keyed = |on_disconnect| Ask { on_disconnect, key: Some("k".to_owned()), ..chat(id, "why?") };
        let first = world.engine.submit(&world.who, keyed(OnDisconnect::Cancel)).await.unwrap();
        let call = world.calls.next().await;
        let joined = world.engine.submit(&world.who, keyed(on_disconnect)).await.unwrap();
        assert_eq!(joined.prompt(), first.prompt());
        drop(first);
        sleep(Duration::from_millis(100)).await;
        assert!(!call.is_aborted(), "somebody still reads");
        drop(joined);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(!call.is_aborted(), lingers, "{on_disconnect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_only_reads_leaves_as_the_one_who_asked_would() {
    for (on_disconnect, lingers) in [(OnDisconnect::Cancel, false), (OnDisconnect::Continue, true)] {
        let mut world = World::new();
        let id = world.session().await;
        let asked = world.engine.submit(&world.who, Ask { on_disconnect, ..chat(id, "why?") }).await.unwrap();
        let call = world.calls.next().await;
        let reader = world.engine.read(&world.who, asked.prompt()).await.unwrap();
        drop(asked);
        sleep(Duration::from_millis(100)).await;
        assert!(!call.is_aborted(), "somebody still reads");
        drop(reader);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(!call.is_aborted(), lingers, "{on_disconnect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn memory_is_the_last_ten_messages_and_nothing_in_a_selection() {
    let mut world = World::new();
    let id = world.session().await;
    for number in 0..8 {
        world.told(chat(id, &format!("{number}?")), &format!("answer {number}")).await;
    }
    let expected: Vec<Turn> =
        (3..8).map(|number| turn(&format!("{number}?"), &format!("answer {number}"))).collect();
    assert_eq!(world.told(chat(id, "last?"), "answer").await, expected);
    let mut selecting = chat(id, "and here?");
    selecting.question.scope = SearchScope::Selection("some words".into());
    assert_eq!(world.told(selecting, "answer").await, []);
}

#[tokio::test(start_paused = true)]
async fn the_selection_goes_to_the_retriever_and_its_passages_to_the_model() {
    let selected = Passage { chars: Some((0, 10)), ..passage("User Selection", "some words") };
    let retriever = std::sync::Arc::new(ScriptedRetriever::finding(vec![selected.clone()]));
    let mut world = World::with(Store::memory().finding(&retriever), limits());
    let id = world.session().await;
    let mut asked = chat(id, "why?");
    asked.question.scope = SearchScope::Selection("some words".into());
    let mut reader = world.engine.submit(&world.who, asked.clone()).await.unwrap();
    let call = world.calls.next().await;
    assert_eq!(call.request().passages, [selected]);
    call.text("Some words.");
    call.finish();
    let log = read_all(&mut reader).await;
    assert_eq!(text_of(&log), "Some words.");
    assert_eq!(retriever.queries()[0].scope, asked.question.scope);
    assert!(log.iter().any(|event| matches!(&event.step, Step::Passages(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn ten_turns_stay_within_the_window_of_the_model(
        sizes in proptest::collection::vec((1_usize..100, 1_usize..6_000), 10),
        window in 1_200_usize..9_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let mut world = World::new();
            let id = world.session().await;
            for (question, answer) in sizes {
                let mut reader = world.engine.submit(&world.who, chat(id, &"q".repeat(question))).await.unwrap();
                let call = world.calls.next().await;
                let request = call.request().clone();
                call.text(&"a".repeat(answer));
                call.finish();
                read_all(&mut reader).await;
                // As every provider takes from a request what fits.
                let kept = request.fit(window, str::len);
                let message = |text: &str| text.len() + 8;
                let fixed = message(&request.system) + message(&request.question)
                    + request.passages.iter().map(|passage| passage.tokens(str::len)).sum::<usize>()
                    + request.answer_tokens(window) as usize;
                let Ok(kept) = kept else {
                    assert!(fixed > window);
                    continue;
                };
                let turns: usize = kept.iter().map(|turn| message(&turn.question) + message(&turn.answer)).sum();
                assert!(fixed + turns <= window, "{fixed} + {turns} > {window}");
                assert!(request.history.ends_with(kept), "the newest stay");
                let dropped = &request.history[..request.history.len() - kept.len()];
                if let Some(next) = dropped.last() {
                    let more = message(&next.question) + message(&next.answer);
                    assert!(fixed + turns + more > window, "no more is dropped than must be");
                }
            }
        });
    }
}
