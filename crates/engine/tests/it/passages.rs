//! Prompts with passages: what is retrieved, what the model gets, and what the answer cites.

use std::sync::Arc;

use domain::{
    Ask, CancelReason, Citation, Failure, FailureKind, FinishReason, Outcome, Passage, RetrievedPassages,
    Stage, StageName, Step, WhenNothingFound,
};
use engine::{AnswerSettings, Reader};
use testing::{ScriptedRetriever, passage};

use crate::harness::{Harness, StorePorts, answering, ask, end_of, limits, read_all, text_of};

const JOURNAL: &str = "The journal keeps running logs. Each batch is one write to a segment file.";
const SESSIONS: &str = "A session expires when it was idle for an hour. Its history stays.";

fn harness(retriever: &Arc<ScriptedRetriever>) -> Harness {
    Harness::with(StorePorts::memory().finding(retriever), limits())
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
async fn the_log_has_the_passages_that_the_model_gets() {
    let retriever = two_passages();
    let mut harness = harness(&retriever);
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "What keeps running logs?", None).await.unwrap();
    let call = harness.calls.next().await;
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
async fn retrieval_stages_are_logged_before_the_provider_starts() {
    let mut harness = harness(&two_passages());
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "why?", None).await.unwrap();
    let call = harness.calls.next().await;
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
async fn passages_below_the_cosine_share_are_not_given_to_the_model() {
    assert_eq!(given_of_four(0.85).await, ["a", "b", "c"]);
    assert_eq!(given_of_four(0.0).await, ["a", "b", "c", "d"]);
}

/// The titles of those of four passages that the model gets.
async fn given_of_four(min_cosine_share: f32) -> Vec<String> {
    let scored = |title: &str, score| Passage { score, ..passage(title, SESSIONS) };
    let retriever = ScriptedRetriever::finding(vec![
        scored("a", 0.7),
        scored("b", 0.8),
        scored("c", 0.69),
        scored("d", 0.66),
    ]);
    let behaviour = AnswerSettings { min_cosine_share, ..answering() };
    let mut harness =
        Harness::answering(StorePorts::memory().finding(&Arc::new(retriever)), limits(), behaviour);
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "When does a session expire?", None).await.expect("it is admitted");
    let call = harness.calls.next().await;
    let given: Vec<_> = call.request().passages.iter().map(|passage| passage.title.clone()).collect();
    call.finish();
    let log = read_all(&mut reader).await;
    assert_eq!(passages_of(&log).map(|passages| passages.found), Some(4));
    given
}

#[tokio::test(start_paused = true)]
async fn passages_are_cut_to_the_token_budget() {
    let long = "Nothing of note is here. ".repeat(40) + "The port is 8080. " + &"Nor here. ".repeat(40);
    let retriever = Arc::new(ScriptedRetriever::finding(vec![passage("long", &long)]));
    let mut harness = harness(&retriever);
    let session = harness.start_session().await;
    let _reader = harness.ask(session, "Which port is it?", None).await.unwrap();
    let call = harness.calls.next().await;
    let [cut] = &call.request().passages[..] else { panic!("one passage is given") };
    assert!(cut.text.contains("The port is 8080.") && long.contains(&cut.text), "{}", cut.text);
    assert!(cut.tokens(str::len) <= answering().context_tokens);
}

#[tokio::test(start_paused = true)]
async fn the_system_prompt_says_that_nothing_was_found() {
    for (retriever, logged) in [
        (ScriptedRetriever::nothing(), None),
        (ScriptedRetriever::irrelevant(vec![passage("x", "y")]), Some(RetrievedPassages::default())),
    ] {
        let mut harness = harness(&Arc::new(retriever));
        let session = harness.start_session().await;
        let mut reader = harness.ask(session, "why?", None).await.unwrap();
        let call = harness.calls.next().await;
        assert!(call.request().system.contains("No passages"), "{}", call.request().system);
        assert_eq!(call.request().passages, []);
        call.text("I do not know.");
        call.finish();
        let log = read_all(&mut reader).await;
        assert_eq!((passages_of(&log).cloned(), citations_of(&log)), (logged, None));
        end_of(&log);
    }
}

#[tokio::test(start_paused = true)]
async fn the_fixed_answer_replaces_the_model_when_nothing_is_found() {
    for (dialect, setting, asks) in [
        (WhenNothingFound::SaySo, None, false),
        (WhenNothingFound::Answer, Some(WhenNothingFound::SaySo), false),
        (WhenNothingFound::SaySo, Some(WhenNothingFound::Answer), true),
        (WhenNothingFound::Answer, None, true),
    ] {
        let behaviour = AnswerSettings { when_nothing_found: setting, ..answering() };
        let mut harness = Harness::answering(StorePorts::memory(), limits(), behaviour);
        let session = harness.start_session().await;
        let asked = Ask { when_nothing_found: dialect, ..ask(session, "why?", None) };
        let mut reader: Reader = harness.submit(asked).await.unwrap();
        if asks {
            harness.calls.next().await.finish();
            continue;
        }
        let log = read_all(&mut reader).await;
        assert_eq!(text_of(&log), "Nothing was found in the documents for this question.");
        assert_eq!(end_of(&log).outcome, Outcome::Done(FinishReason::Stop));
        assert!(harness.calls.try_next().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_retrieval_failure_ends_the_prompt_with_its_reason() {
    for (kind, attributed) in [
        (FailureKind::Retrieval, FailureKind::Retrieval),
        (FailureKind::Unavailable, FailureKind::Embedding),
        (FailureKind::Overloaded, FailureKind::Embedding),
    ] {
        let failure = Failure::new(kind, "it is broken: mend it");
        let mut harness = harness(&Arc::new(ScriptedRetriever::failing(failure)));
        let session = harness.start_session().await;
        let mut reader = harness.ask(session, "why?", None).await.unwrap();
        let log = read_all(&mut reader).await;
        let Outcome::Failed(failure) = end_of(&log).outcome else { panic!("it fails") };
        assert_eq!((failure.kind, failure.message.as_str()), (attributed, "it is broken: mend it"));
        assert!(harness.calls.try_next().is_none(), "no model is asked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_prompt_can_be_cancelled_during_retrieval() {
    let harness = harness(&Arc::new(ScriptedRetriever::hanging()));
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "why?", None).await.unwrap();
    let prompt = reader.prompt();
    harness.engine.cancel(&harness.principal, session, prompt, CancelReason::UserInitiated).await.unwrap();
    let log = read_all(&mut reader).await;
    assert_eq!(end_of(&log).outcome, Outcome::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn the_partial_answer_of_a_cancelled_prompt_has_citations() {
    let mut harness = harness(&two_passages());
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, "why?", None).await.unwrap();
    let call = harness.calls.next().await;
    call.text("Idle sessions expire after an hour [2]");
    while !std::future::poll_fn(|cx| reader.poll_next(cx))
        .await
        .is_some_and(|batch| batch.iter().any(|event| matches!(event.step, Step::Text(_))))
    {}
    harness
        .engine
        .cancel(&harness.principal, session, reader.prompt(), CancelReason::UserInitiated)
        .await
        .unwrap();
    let mut again = harness.read(reader.prompt()).await.unwrap();
    let log = read_all(&mut again).await;
    assert_eq!(end_of(&log).outcome, Outcome::Cancelled);
    assert_eq!(citations_of(&log).unwrap()[0].number, 2);
}
