//! Stories of questions that go on from earlier ones.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    Ask, Event, Failure, FailureKind, ModelEvent, OnDisconnect, SearchScope, Stage, StageName, Step, Usage,
};
use engine::{AnswerSettings, RewriteMode};
use testing::{ManualCall, ScriptedRetriever, passage};
use tokio::time::Instant;

use crate::world::{Store, World, answering, ask, limits, read_all, text_of};

const FIRST: &str = "How do I cancel a prompt?";
const SECOND: &str = "And how do I undo that?";
const REWRITTEN: &str = "And how do I undo that? How do I cancel a prompt? With a call.";

struct Told {
    log: Vec<Event>,
    /// What was looked for.
    query: String,
    /// What the model was asked, and how many turns it was given.
    asked: (String, usize),
}

impl Told {
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

/// Asks questions in one session, the last of them in a scope, and tells of the last.
async fn converse(
    retriever: ScriptedRetriever,
    rewrite_mode: RewriteMode,
    questions: &[&str],
    scope: SearchScope,
) -> Told {
    let retriever = Arc::new(retriever);
    let behaviour = AnswerSettings { rewrite_mode, ..answering() };
    let mut world = World::answering(Store::memory().finding(&retriever), limits(), behaviour);
    let session = world.session().await;
    let mut told = None;
    for (number, question) in questions.iter().enumerate() {
        let mut asked = ask(session, question, None);
        if number + 1 == questions.len() {
            asked.question.scope = scope.clone();
        }
        let mut reader = world.engine.submit(&world.who, asked).await.expect("it is admitted");
        let call = world.calls.next().await;
        let asked = (call.request().question.clone(), call.request().history.len());
        call.text("With a call.");
        call.finish();
        let log = read_all(&mut reader).await;
        let query = retriever.queries().last().expect("it was looked for").text.clone();
        told = Some(Told { log, query, asked });
    }
    told.expect("something was asked")
}

fn finding() -> ScriptedRetriever {
    ScriptedRetriever::finding(vec![passage("cancel", "A prompt is cancelled with a call.")])
}

#[tokio::test(start_paused = true)]
async fn what_a_question_goes_on_from_is_looked_for_too_and_the_log_tells() {
    let told = converse(finding(), RewriteMode::Rule, &[FIRST, SECOND], SearchScope::default()).await;
    assert_eq!((told.query.as_str(), told.rewritten()), (REWRITTEN, Some(REWRITTEN)));
    assert_eq!(told.asked, (SECOND.to_owned(), 1), "the model is asked what was asked");
    let names: Vec<_> = told.log[1..5]
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
async fn the_sentences_that_are_kept_of_a_long_passage_are_about_what_it_goes_on_from() {
    let long =
        "Nothing of note is here. ".repeat(40) + "A prompt is cancelled so. " + &"Nor here. ".repeat(40);
    let retriever = Arc::new(ScriptedRetriever::finding(vec![passage("long", &long)]));
    let mut world = World::with(Store::memory().finding(&retriever), limits());
    let session = world.session().await;
    for question in [FIRST, "How exactly?"] {
        let mut reader = world.ask(session, question, None).await.unwrap();
        let call = world.calls.next().await;
        assert!(call.request().passages[0].text.contains("A prompt is cancelled so."), "{question}");
        call.text("So.");
        call.finish();
        read_all(&mut reader).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_rewritten_where_that_would_not_help() {
    let selection = || SearchScope::Selection("A selection.".into());
    for (what, retriever, rewrite_mode, questions, scope) in [
        (
            "it stands alone",
            finding(),
            RewriteMode::Rule,
            &[FIRST, "What is a log?"][..],
            SearchScope::default(),
        ),
        ("there is no conversation", finding(), RewriteMode::Rule, &[SECOND], SearchScope::default()),
        (
            "nothing could be found",
            ScriptedRetriever::nothing(),
            RewriteMode::Rule,
            &[FIRST, SECOND],
            SearchScope::default(),
        ),
        ("a selection is asked about", finding(), RewriteMode::Rule, &[FIRST, SECOND], selection()),
        ("it is switched off", finding(), RewriteMode::Off, &[FIRST, SECOND], SearchScope::default()),
    ] {
        let told = converse(retriever, rewrite_mode, questions, scope).await;
        assert_eq!((told.rewritten(), told.has_stage()), (None, false), "{what}");
        assert_eq!(&told.query, questions.last().unwrap(), "{what}");
    }
}

/// What is looked for when the model is to rewrite, and the test plays it.
async fn rewritten_by(play: impl FnOnce(ManualCall)) -> Told {
    let retriever = Arc::new(finding());
    let behaviour = AnswerSettings { rewrite_mode: RewriteMode::Model, ..answering() };
    let mut world = World::answering(Store::memory().finding(&retriever), limits(), behaviour);
    let session = world.session().await;
    let mut reader = world.ask(session, FIRST, None).await.expect("it is admitted");
    let call = world.calls.next().await;
    call.text("With a call.");
    call.finish();
    read_all(&mut reader).await;
    let mut reader = world.ask(session, SECOND, None).await.expect("it is admitted");
    let round = world.calls.next().await;
    assert!(round.request().question.contains(FIRST) && round.request().question.contains(SECOND));
    assert!(round.request().passages.is_empty());
    play(round);
    let call = world.calls.next().await;
    let asked = (call.request().question.clone(), call.request().history.len());
    call.text("So.");
    call.finish();
    let log = read_all(&mut reader).await;
    assert_eq!(text_of(&log), "So.", "nothing of the round is in the answer");
    assert!(!log.iter().any(|event| matches!(event.step, Step::Usage(_))), "nor what it took");
    Told { log, query: retriever.queries().last().expect("it was looked for").text.clone(), asked }
}

#[tokio::test(start_paused = true)]
async fn the_model_may_rewrite_in_a_round_of_its_own() {
    let told = rewritten_by(|round| {
        round.text("How do I undo ");
        round.text("the cancel of a prompt?");
        round.send(ModelEvent::Usage(Usage { input: Some(9), output: Some(9), cached: None }));
        round.finish();
    })
    .await;
    let expected = "How do I undo the cancel of a prompt?";
    assert_eq!((told.query.as_str(), told.rewritten()), (expected, Some(expected)));
    assert_eq!(told.asked, (SECOND.to_owned(), 1));
    assert!(told.has_stage());
}

#[tokio::test(start_paused = true)]
async fn where_the_model_does_not_rewrite_the_rule_does() {
    let fails = |round: ManualCall| round.fail(Failure::new(FailureKind::Died, "as the test says"));
    let echoes = |round: ManualCall| {
        round.text(SECOND);
        round.finish();
    };
    let is_silent = |round: ManualCall| drop(round);
    for told in [rewritten_by(fails).await, rewritten_by(echoes).await, rewritten_by(is_silent).await] {
        assert_eq!((told.query.as_str(), told.rewritten()), (REWRITTEN, Some(REWRITTEN)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_ends_the_round_too() {
    let retriever = Arc::new(finding());
    let behaviour = AnswerSettings { rewrite_mode: RewriteMode::Model, ..answering() };
    let mut world = World::answering(Store::memory().finding(&retriever), limits(), behaviour);
    let session = world.session().await;
    let mut reader = world.ask(session, FIRST, None).await.unwrap();
    let call = world.calls.next().await;
    call.text("With a call.");
    call.finish();
    read_all(&mut reader).await;
    let asked = Ask { on_disconnect: OnDisconnect::Cancel, ..ask(session, SECOND, None) };
    let reader = world.engine.submit(&world.who, asked).await.unwrap();
    let round = world.calls.next().await;
    let left = Instant::now();
    drop(reader);
    round.aborted().await;
    assert!(left.elapsed() < Duration::from_millis(200), "{:?}", left.elapsed());
}
