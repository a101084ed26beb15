//! Stories of a prompt with passages: what was found, what the model is given, what its answer rests on.

use std::sync::Arc;

use domain::{
    Ask, CancelReason, Citation, Failure, FailureKind, FinishReason, Outcome, Passage, RetrievedPassages,
    Stage, StageName, Step, WhenNothingFound,
};
use engine::{AnswerSettings, Reader};
use testing::{ScriptedRetriever, passage};

use crate::world::{Store, World, answering, ask, end_of, limits, read_all, text_of};

const JOURNAL: &str = "The journal keeps running logs. Each batch is one write to a segment file.";
const SESSIONS: &str = "A session expires when it was idle for an hour. Its history stays.";

fn world(retriever: &Arc<ScriptedRetriever>) -> World {
    World::with(Store::memory().finding(retriever), limits())
}

fn two_passages() -> Arc<ScriptedRetriever> {
    Arc::new(ScriptedRetriever::finding(vec![passage("journal", JOURNAL), passage("sessions", SESSIONS)]))
}

fn passages_of(log: &[domain::Event]) -> Option<&RetrievedPassages> {
    log.iter().find_map(|event| match &event.step {
        Step::Passages(passages) => Some(&**passages),
        _ => None,
    })
}

fn citations_of(log: &[domain::Event]) -> Option<&[Citation]> {
    log.iter().find_map(|event| match &event.step {
        Step::Citations(citations) => Some(&**citations),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn the_model_is_given_what_the_log_tells() {
    let retriever = two_passages();
    let mut world = world(&retriever);
    let session = world.session().await;
    let mut reader = world.ask(session, "What keeps running logs?", None).await.unwrap();
    let call = world.calls.next().await;
    let request = call.request().clone();
    call.text("The journal keeps running logs");
    call.text(" [1].");
    call.finish();
    let log = read_all(&mut reader).await;
    let passages = passages_of(&log).unwrap();
    assert_eq!((passages.found, &passages.in_prompt), (2, &request.passages));
    assert!(request.system.contains("in the words of the passages"), "{}", request.system);
    let quote = Some("The journal keeps running logs.".to_owned());
    assert_eq!(citations_of(&log), Some(&[Citation { number: 1, quote }][..]));
    assert_eq!(end_of(&log).outcome, Outcome::Done(FinishReason::Stop));
    let query = &retriever.queries()[0];
    assert_eq!((query.text.as_str(), query.limit), ("What keeps running logs?", 5));
}

#[tokio::test(start_paused = true)]
async fn stages_are_told_before_the_provider_is_asked() {
    let mut world = world(&two_passages());
    let session = world.session().await;
    let mut reader = world.ask(session, "why?", None).await.unwrap();
    let call = world.calls.next().await;
    call.text("because");
    call.finish();
    let log = read_all(&mut reader).await;
    let names = log.iter().map(|event| match &event.step {
        Step::Accepted(_) => "accepted",
        Step::Stage(Stage::Began(StageName::Retrieval)) => "retrieval",
        Step::Stage(Stage::Ended { name: StageName::Retrieval, count: 2, .. }) => "retrieval: 2",
        Step::Stage(Stage::Began(StageName::Reranking)) => "reranking",
        Step::Stage(Stage::Ended { name: StageName::Reranking, count: 2, .. }) => "reranking: 2",
        Step::Passages(_) => "passages",
        Step::Started(_) => "started",
        Step::Text(_) => "text",
        Step::Citations(_) => "citations",
        Step::Ended(_) => "ended",
        other => panic!("{other:?}"),
    });
    let expected = [
        "accepted",
        "retrieval",
        "retrieval: 2",
        "reranking",
        "reranking: 2",
        "passages",
        "started",
        "text",
        "citations",
        "ended",
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    end_of(&log);
}

#[tokio::test(start_paused = true)]
async fn passages_far_behind_the_best_one_are_found_and_not_given() {
    assert_eq!(given_of_four(0.85).await, ["a", "b", "c"]);
    assert_eq!(given_of_four(0.0).await, ["a", "b", "c", "d"]);
}

/// Which of four passages the model is given.
async fn given_of_four(min_cosine_share: f32) -> Vec<String> {
    let scored = |title: &str, score| Passage { score, ..passage(title, SESSIONS) };
    let retriever = ScriptedRetriever::finding(vec![
        scored("a", 0.7),
        scored("b", 0.8),
        scored("c", 0.69),
        scored("d", 0.66),
    ]);
    let behaviour = AnswerSettings { min_cosine_share, ..answering() };
    let mut world = World::answering(Store::memory().finding(&Arc::new(retriever)), limits(), behaviour);
    let session = world.session().await;
    let mut reader = world.ask(session, "When does a session expire?", None).await.expect("it is admitted");
    let call = world.calls.next().await;
    let given: Vec<_> = call.request().passages.iter().map(|passage| passage.title.clone()).collect();
    call.finish();
    let log = read_all(&mut reader).await;
    assert_eq!(passages_of(&log).map(|passages| passages.found), Some(4));
    given
}

#[tokio::test(start_paused = true)]
async fn what_stands_before_a_passage_is_told_to_the_model_and_to_nobody_else() {
    let found = Passage { before: "Sessions are kept.".to_owned(), ..passage("a", SESSIONS) };
    let mut world = world(&Arc::new(ScriptedRetriever::finding(vec![found.clone()])));
    let session = world.session().await;
    let mut reader = world.ask(session, "When does a session expire?", None).await.expect("it is admitted");
    let call = world.calls.next().await;
    assert_eq!(call.request().passages, std::slice::from_ref(&found));
    call.finish();
    let logged = passages_of(&read_all(&mut reader).await).map(|passages| passages.in_prompt.clone());
    assert_eq!(logged, Some(vec![Passage { before: String::new(), ..found }]));
}

#[tokio::test(start_paused = true)]
async fn passages_are_cut_to_the_budget() {
    let long = "Nothing of note is here. ".repeat(40) + "The port is 8080. " + &"Nor here. ".repeat(40);
    let retriever = Arc::new(ScriptedRetriever::finding(vec![passage("long", &long)]));
    let mut world = world(&retriever);
    let session = world.session().await;
    let _reader = world.ask(session, "Which port is it?", None).await.unwrap();
    let call = world.calls.next().await;
    let [cut] = &call.request().passages[..] else { panic!("one passage is given") };
    assert!(cut.text.contains("The port is 8080.") && long.contains(&cut.text), "{}", cut.text);
    assert!(cut.tokens(str::len) <= answering().context_tokens);
}

#[tokio::test(start_paused = true)]
async fn the_model_is_told_that_nothing_was_found() {
    for (retriever, told) in [
        (ScriptedRetriever::nothing(), None),
        (ScriptedRetriever::irrelevant(vec![passage("x", "y")]), Some(RetrievedPassages::default())),
    ] {
        let mut world = world(&Arc::new(retriever));
        let session = world.session().await;
        let mut reader = world.ask(session, "why?", None).await.unwrap();
        let call = world.calls.next().await;
        assert!(call.request().system.contains("No passages"), "{}", call.request().system);
        assert_eq!(call.request().passages, []);
        call.text("Nobody knows.");
        call.finish();
        let log = read_all(&mut reader).await;
        assert_eq!((passages_of(&log).cloned(), citations_of(&log)), (told, None));
        end_of(&log);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_wants_is_told_in_a_fixed_sentence_and_no_model_is_asked() {
    for (dialect, setting, asks) in [
        (WhenNothingFound::SaySo, None, false),
        (WhenNothingFound::Answer, Some(WhenNothingFound::SaySo), false),
        (WhenNothingFound::SaySo, Some(WhenNothingFound::Answer), true),
        (WhenNothingFound::Answer, None, true),
    ] {
        let behaviour = AnswerSettings { when_nothing_found: setting, ..answering() };
        let mut world = World::answering(Store::memory(), limits(), behaviour);
        let session = world.session().await;
        let asked = Ask { when_nothing_found: dialect, ..ask(session, "why?", None) };
        let mut reader: Reader = world.engine.submit(&world.who, asked).await.unwrap();
        if asks {
            world.calls.next().await.finish();
            continue;
        }
        let log = read_all(&mut reader).await;
        assert_eq!(text_of(&log), "Nothing was found in the documents for this question.");
        assert_eq!(end_of(&log).outcome, Outcome::Done(FinishReason::Stop));
        assert!(world.calls.try_next().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_retriever_that_fails_ends_the_prompt_with_its_reason() {
    for (kind, told) in [
        (FailureKind::Retrieval, FailureKind::Retrieval),
        (FailureKind::Unavailable, FailureKind::Embedding),
        (FailureKind::Overloaded, FailureKind::Embedding),
    ] {
        let failure = Failure::new(kind, "it is broken: mend it");
        let mut world = world(&Arc::new(ScriptedRetriever::failing(failure)));
        let session = world.session().await;
        let mut reader = world.ask(session, "why?", None).await.unwrap();
        let log = read_all(&mut reader).await;
        let Outcome::Failed(failure) = end_of(&log).outcome else { panic!("it fails") };
        assert_eq!((failure.kind, failure.message.as_str()), (told, "it is broken: mend it"));
        assert!(world.calls.try_next().is_none(), "no model is asked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_prompt_can_be_cancelled_while_passages_are_sought() {
    let world = world(&Arc::new(ScriptedRetriever::hanging()));
    let session = world.session().await;
    let mut reader = world.ask(session, "why?", None).await.unwrap();
    let prompt = reader.prompt();
    world.engine.cancel(&world.who, session, prompt, CancelReason::UserInitiated).await.unwrap();
    let log = read_all(&mut reader).await;
    assert_eq!(end_of(&log).outcome, Outcome::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn the_partial_answer_of_a_cancelled_prompt_is_cited_too() {
    let mut world = world(&two_passages());
    let session = world.session().await;
    let mut reader = world.ask(session, "why?", None).await.unwrap();
    let call = world.calls.next().await;
    call.text("Idle sessions expire after an hour [2]");
    while !std::future::poll_fn(|cx| reader.poll_next(cx))
        .await
        .is_some_and(|batch| batch.iter().any(|event| matches!(event.step, Step::Text(_))))
    {}
    world.engine.cancel(&world.who, session, reader.prompt(), CancelReason::UserInitiated).await.unwrap();
    let mut again = world.engine.read(&world.who, reader.prompt()).await.unwrap();
    let log = read_all(&mut again).await;
    assert_eq!(end_of(&log).outcome, Outcome::Cancelled);
    assert_eq!(citations_of(&log).unwrap()[0].number, 2);
}
