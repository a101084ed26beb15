//! Follow-up questions and how they are rewritten for retrieval.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    Ask, Event, Failure, FailureKind, ModelEvent, OnDisconnect, SearchScope, Stage, StageName, Step, Usage,
};
use engine::{AnswerSettings, RewriteMode};
use testing::{ManualCall, ScriptedRetriever, passage};
use tokio::time::Instant;

use crate::harness::{Harness, StorePorts, answering, ask, limits, read_all, text_of};

const FIRST: &str = "How do I cancel a prompt?";
const SECOND: &str = "And how do I undo that?";
const REWRITTEN: &str = "And how do I undo that? How do I cancel a prompt? With a call.";

struct RewrittenPrompt {
    log: Vec<Event>,
    /// The retrieval query.
    query: String,
    /// The question of the model's request, and the number of turns in its history.
    asked: (String, usize),
}

impl RewrittenPrompt {
    fn rewritten(&self) -> Option<&str> {
        self.log.iter().find_map(|event| match &event.step {
            Step::Rewritten(query) => Some(&**query),
            _ => None,
        })
    }

    fn has_stage(&self) -> bool {
        self.log.iter().any(|event| matches!(event.step, Step::Stage(Stage::Began(StageName::Rewriting))))
    }
}

/// Asks questions in one session, the last of them in a scope, and returns what the last became.
async fn converse(
    retriever: ScriptedRetriever,
    rewrite_mode: RewriteMode,
    questions: &[&str],
    scope: SearchScope,
) -> RewrittenPrompt {
    let retriever = Arc::new(retriever);
    let behaviour = AnswerSettings { rewrite_mode, ..answering() };
    let mut harness = Harness::answering(StorePorts::memory().finding(&retriever), limits(), behaviour);
    let session = harness.start_session().await;
    let mut prompt = None;
    for (number, question) in questions.iter().enumerate() {
        let mut asked = ask(session, question, None);
        if number + 1 == questions.len() {
            asked.question.scope = scope.clone();
        }
        let mut reader = harness.submit(asked).await.expect("it is admitted");
        let call = harness.calls.next().await;
        let asked = (call.request().question.clone(), call.request().history.len());
        call.text("With a call.");
        call.finish();
        let log = read_all(&mut reader).await;
        let query = retriever.queries().last().expect("the retriever was called").text.clone();
        prompt = Some(RewrittenPrompt { log, query, asked });
    }
    prompt.expect("there is a question")
}

fn finding() -> ScriptedRetriever {
    ScriptedRetriever::finding(vec![passage("cancel", "A prompt is cancelled with a call.")])
}

#[tokio::test(start_paused = true)]
async fn a_follow_up_is_rewritten_for_retrieval_and_the_log_has_the_query() {
    let prompt = converse(finding(), RewriteMode::Rule, &[FIRST, SECOND], SearchScope::default()).await;
    assert_eq!((prompt.query.as_str(), prompt.rewritten()), (REWRITTEN, Some(REWRITTEN)));
    assert_eq!(prompt.asked, (SECOND.to_owned(), 1), "the model is asked the question itself");
    let names: Vec<_> = prompt.log[1..5]
        .iter()
        .map(|event| match &event.step {
            Step::Stage(Stage::Began(StageName::Rewriting)) => "began",
            Step::Rewritten(_) => "rewritten",
            Step::Stage(Stage::Ended { name: StageName::Rewriting, .. }) => "ended",
            Step::Stage(Stage::Began(StageName::Retrieval)) => "retrieval",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["began", "rewritten", "ended", "retrieval"]);
}

#[tokio::test(start_paused = true)]
async fn a_long_passage_is_cut_to_the_rewritten_query() {
    let long =
        "Nothing of note is here. ".repeat(40) + "A prompt is cancelled so. " + &"Nor here. ".repeat(40);
    let retriever = Arc::new(ScriptedRetriever::finding(vec![passage("long", &long)]));
    let mut harness = Harness::with(StorePorts::memory().finding(&retriever), limits());
    let session = harness.start_session().await;
    for question in [FIRST, "How exactly?"] {
        let mut reader = harness.ask(session, question, None).await.unwrap();
        let call = harness.calls.next().await;
        assert!(call.request().passages[0].text.contains("A prompt is cancelled so."), "{question}");
        call.text("So.");
        call.finish();
        read_all(&mut reader).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_is_not_rewritten_where_that_cannot_help() {
    let selection = || SearchScope::Selection("A selection.".into());
    for (what, retriever, rewrite_mode, questions, scope) in [
        (
            "the question stands alone",
            finding(),
            RewriteMode::Rule,
            &[FIRST, "What is a log?"][..],
            SearchScope::default(),
        ),
        ("there is no conversation", finding(), RewriteMode::Rule, &[SECOND], SearchScope::default()),
        (
            "the knowledge base is empty",
            ScriptedRetriever::nothing(),
            RewriteMode::Rule,
            &[FIRST, SECOND],
            SearchScope::default(),
        ),
        ("the question is about a selection", finding(), RewriteMode::Rule, &[FIRST, SECOND], selection()),
        ("rewriting is off", finding(), RewriteMode::Off, &[FIRST, SECOND], SearchScope::default()),
    ] {
        let prompt = converse(retriever, rewrite_mode, questions, scope).await;
        assert_eq!((prompt.rewritten(), prompt.has_stage()), (None, false), "{what}");
        assert_eq!(&prompt.query, questions.last().unwrap(), "{what}");
    }
}

/// Asks a follow-up with the model as the rewriter, which `script` plays.
async fn rewritten_by(script: impl FnOnce(ManualCall)) -> RewrittenPrompt {
    let retriever = Arc::new(finding());
    let behaviour = AnswerSettings { rewrite_mode: RewriteMode::Model, ..answering() };
    let mut harness = Harness::answering(StorePorts::memory().finding(&retriever), limits(), behaviour);
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, FIRST, None).await.expect("it is admitted");
    let call = harness.calls.next().await;
    call.text("With a call.");
    call.finish();
    read_all(&mut reader).await;
    let mut reader = harness.ask(session, SECOND, None).await.expect("it is admitted");
    let round = harness.calls.next().await;
    assert!(round.request().question.contains(FIRST) && round.request().question.contains(SECOND));
    assert!(round.request().passages.is_empty());
    script(round);
    let call = harness.calls.next().await;
    let asked = (call.request().question.clone(), call.request().history.len());
    call.text("So.");
    call.finish();
    let log = read_all(&mut reader).await;
    assert_eq!(text_of(&log), "So.", "the answer has nothing of the round");
    assert!(
        !log.iter().any(|event| matches!(event.step, Step::Usage(_))),
        "the log has nothing of its usage"
    );
    RewrittenPrompt {
        log,
        query: retriever.queries().last().expect("the retriever was called").text.clone(),
        asked,
    }
}

#[tokio::test(start_paused = true)]
async fn the_model_rewrites_in_a_round_of_its_own() {
    let prompt = rewritten_by(|round| {
        round.text("How do I undo ");
        round.text("the cancel of a prompt?");
        round.send(ModelEvent::Usage(Usage { input: Some(9), output: Some(9), cached: None }));
        round.finish();
    })
    .await;
    let expected = "How do I undo the cancel of a prompt?";
    assert_eq!((prompt.query.as_str(), prompt.rewritten()), (expected, Some(expected)));
    assert_eq!(prompt.asked, (SECOND.to_owned(), 1));
    assert!(prompt.has_stage());
}

#[tokio::test(start_paused = true)]
async fn the_rule_is_the_fallback_of_the_model() {
    let fails = |round: ManualCall| round.fail(Failure::new(FailureKind::Died, "as the test says"));
    let echoes = |round: ManualCall| {
        round.text(SECOND);
        round.finish();
    };
    let is_silent = |round: ManualCall| drop(round);
    for prompt in [rewritten_by(fails).await, rewritten_by(echoes).await, rewritten_by(is_silent).await] {
        assert_eq!((prompt.query.as_str(), prompt.rewritten()), (REWRITTEN, Some(REWRITTEN)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_disconnect_aborts_the_rewriting_round() {
    let retriever = Arc::new(finding());
    let behaviour = AnswerSettings { rewrite_mode: RewriteMode::Model, ..answering() };
    let mut harness = Harness::answering(StorePorts::memory().finding(&retriever), limits(), behaviour);
    let session = harness.start_session().await;
    let mut reader = harness.ask(session, FIRST, None).await.unwrap();
    let call = harness.calls.next().await;
    call.text("With a call.");
    call.finish();
    read_all(&mut reader).await;
    let asked = Ask { on_disconnect: OnDisconnect::Cancel, ..ask(session, SECOND, None) };
    let reader = harness.submit(asked).await.unwrap();
    let round = harness.calls.next().await;
    let left = Instant::now();
    drop(reader);
    round.aborted().await;
    assert!(left.elapsed() < Duration::from_millis(200), "{:?}", left.elapsed());
}
