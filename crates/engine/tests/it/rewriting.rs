//! Stories of questions that go on from earlier ones.

use std::sync::Arc;

use domain::{Event, Scope, Stage, StageName, Step};
use engine::{Answering, Rewriting};
use testing::{ScriptedRetriever, passage};

use crate::world::{Store, World, answering, ask, limits, read_all};

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
    rewriting: Rewriting,
    questions: &[&str],
    scope: Scope,
) -> Told {
    let retriever = Arc::new(retriever);
    let behaviour = Answering { rewriting, ..answering() };
    let mut world = World::answering(Store::memory().finding(&retriever), limits(), behaviour);
    let session = world.session().await;
    let mut told = None;
    for (number, question) in questions.iter().enumerate() {
        let mut asked = ask(session, question, None);
        if number + 1 == questions.len() {
            asked.question.scope = scope.clone();
        }
        let mut reader = world.engine.submit(&world.who, asked).await.unwrap();
        let call = world.calls.next().await;
        let asked = (call.request().question.clone(), call.request().history.len());
        call.text("With a call.");
        call.finish();
        let log = read_all(&mut reader).await;
        let query = retriever.queries().last().unwrap().text.clone();
        told = Some(Told { log, query, asked });
    }
    told.expect("something was asked")
}

fn finding() -> ScriptedRetriever {
    ScriptedRetriever::finding(vec![passage("cancel", "A prompt is cancelled with a call.")])
}

#[tokio::test(start_paused = true)]
async fn what_a_question_goes_on_from_is_looked_for_too_and_the_log_tells() {
    let told = converse(finding(), Rewriting::Rule, &[FIRST, SECOND], Scope::default()).await;
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
    let selection = || Scope::Selection("A selection.".into());
    for (what, retriever, rewriting, questions, scope) in [
        ("it stands alone", finding(), Rewriting::Rule, &[FIRST, "What is a log?"][..], Scope::default()),
        ("there is no conversation", finding(), Rewriting::Rule, &[SECOND], Scope::default()),
        (
            "nothing could be found",
            ScriptedRetriever::nothing(),
            Rewriting::Rule,
            &[FIRST, SECOND],
            Scope::default(),
        ),
        ("a selection is asked about", finding(), Rewriting::Rule, &[FIRST, SECOND], selection()),
        ("it is switched off", finding(), Rewriting::Off, &[FIRST, SECOND], Scope::default()),
    ] {
        let told = converse(retriever, rewriting, questions, scope).await;
        assert_eq!((told.rewritten(), told.has_stage()), (None, false), "{what}");
        assert_eq!(&told.query, questions.last().unwrap(), "{what}");
    }
}
