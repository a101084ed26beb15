//! The one table of failures as the chat dialects tell it: a status where nothing was streamed, an error event where
//! something was.

use std::time::Duration;

use domain::{Failure, FailureKind};
use serde_json::{Value, json};
use testing::{ManualProvider, ScriptedRetriever, fake_text};

use crate::client::Call;
use crate::harness::{Kind, Setup};
use crate::talk::{CHAT, CHAT_STREAM, Dialect, finding, pages, text};
use crate::world::{World, time_passes};

/// How long a model may be silent here, at first or later: so short that a client waits longer.
const PATIENCE: Duration = Duration::from_secs(4);
const TOO_LONG: Duration = Duration::from_secs(5);

/// How a failure is told.
struct Row {
    status: u16,
    chat: &'static str,
    staged: &'static str,
    /// Tokens that come before it.
    tokens: u64,
}

const UNAVAILABLE: Row =
    Row { status: 503, chat: "agent_unavailable", staged: "PROVIDER_UNAVAILABLE", tokens: 0 };
const SILENT: Row = Row { status: 504, chat: "agent_timeout", staged: "PROVIDER_TIMEOUT", tokens: 0 };
const RETRIEVAL: Row =
    Row { status: 503, chat: "retrieval_unavailable", staged: "RETRIEVAL_ERROR", tokens: 0 };

/// Asks the same in all three ways, and checks how the failure is told in each.
async fn check_failure(world: &World, row: &Row) {
    let question = "why does water run down? ".repeat(8);
    let session = world.session().await;
    let asking =
        Call::post_json(CHAT, &json!({"query": question, "session_id": session})).send(world.address);
    let asking = tokio::spawn(asking);
    if row.status == SILENT.status {
        lose_patience(world, row).await;
    }
    let answer = asking.await.expect("the call does not panic");
    assert_eq!(answer.header("x-session-id"), Some(session.as_str()));
    assert!(answer.header("x-prompt-id").is_some());
    answer.chat_refusal(row.status, row.chat).await;
    for dialect in [Dialect::Chat, Dialect::Staged] {
        let body = json!({dialect.question(): question, "session_id": session});
        let stream = world.talk(dialect, &body).await;
        if row.status == SILENT.status {
            lose_patience(world, row).await;
        }
        let events = stream.all().await;
        assert_eq!(text(&events), fake_text(row.tokens), "{dialect:?}");
        let last = events.last().expect("a stream has a terminal event");
        let (code, expected) = match dialect {
            Dialect::Chat => (&last["error_code"], row.chat),
            Dialect::Staged => (&last["content"]["code"], row.staged),
        };
        assert_eq!((&last["type"], code), (&json!("error"), &json!(expected)), "{last}");
        assert!(!events.iter().any(|event| event["type"] == "sources"), "no sources: {events:?}");
    }
}

/// Lets the prompt that runs wait in vain, once its model has said all it will say.
async fn lose_patience(world: &World, row: &Row) {
    let running = async || {
        let prompts = world.get("/api/prompts?status=in-flight").await.json(200).await;
        prompts["prompts"][0]["promptId"].as_str().map(str::to_owned)
    };
    let prompt = loop {
        if let Some(prompt) = running().await {
            break prompt;
        }
    };
    world.until_said(&prompt, usize::try_from(row.tokens).expect("a few")).await;
    // The head of an answer is no silence either, and it may come as late as this.
    while running().await.is_some() {
        time_passes(TOO_LONG).await;
    }
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_or_refuses_is_unavailable() {
    check_failure(
        &Setup::new().unreachable("local", Kind::Ollama).retriever(pages(1)).start().await,
        &UNAVAILABLE,
    )
    .await;
    for model in ["fake,status=401", "fake,status=404", "fake,status=500", "fake,status=429", "fake,die=0"] {
        check_failure(&finding(model, 1).start().await, &UNAVAILABLE).await;
    }
}

#[tokio::test]
async fn when_to_ask_again_is_told_if_the_provider_said_so() {
    let world = finding("fake,status=429,retry-after=7", 1).start().await;
    let answer = world.call(Call::post_json(CHAT, &json!({"query": "why?"}))).await;
    assert_eq!(answer.header("retry-after"), Some("7"));
    answer.chat_refusal(503, "agent_unavailable").await;
}

#[tokio::test]
async fn a_provider_that_is_silent_times_out() {
    for (model, row) in [("fake,silence=3600s", SILENT), ("fake,stall=5", Row { tokens: 5, ..SILENT })] {
        let setup = finding(model, 1).first_token(PATIENCE).limits(|limits| limits.stall = PATIENCE);
        check_failure(&setup.start().await, &row).await;
    }
}

#[tokio::test]
async fn a_provider_that_dies_midway_is_told_from_one_that_was_never_there() {
    let row = Row { status: 502, chat: "agent_unavailable", staged: "PROVIDER_ERROR", tokens: 5 };
    for model in ["fake,die=5", "fake,error=5"] {
        check_failure(&finding(model, 1).start().await, &row).await;
    }
}

#[tokio::test]
async fn an_answer_without_a_word_is_empty() {
    let row = Row { status: 502, chat: "empty_answer", staged: "EMPTY_ANSWER", tokens: 0 };
    check_failure(&finding("fake,empty", 1).start().await, &row).await;
}

#[tokio::test]
async fn a_question_that_is_larger_than_the_model_s_window_is_too_long() {
    let row = Row { status: 422, chat: "prompt_too_long", staged: "PROMPT_TOO_LONG", tokens: 0 };
    check_failure(&finding("fake", 1).context_window(20).start().await, &row).await;
}

#[tokio::test]
async fn retrieval_that_fails_is_told_before_any_model_is_asked() {
    let failure = Failure::new(FailureKind::Retrieval, "the index is gone");
    let world = Setup::of("fake").retriever(ScriptedRetriever::failing(failure)).start().await;
    check_failure(&world, &RETRIEVAL).await;
    assert_eq!(world.fake.chats(), []);
}

#[tokio::test]
async fn an_embedder_that_fails_is_told_from_an_index_that_does() {
    let world = Setup::of("fake").embedding_model("fake,status=500").answers_from_documents().start().await;
    let document = json!({"repoUrl": "https://r", "filePath": "water.md", "text": "Water runs down."});
    let ingest = Call::post_json("/api/documents/ingest", &json!({"documents": [document]}));
    // Its words are soon there; its vectors never come. In an empty index nothing is looked for.
    let ingesting = tokio::spawn(ingest.send(world.address));
    let search = Call::post_json("/api/query", &json!({"query": "water"}));
    while world.call(search.clone()).await.status == 200 {
        tokio::task::yield_now().await;
    }
    let row = Row { chat: "embedding_failed", ..RETRIEVAL };
    check_failure(&world, &row).await;
    ingesting.abort();
}

#[tokio::test]
async fn what_only_a_provider_in_the_process_can_say_has_its_row_too() {
    for (kind, row) in [
        (FailureKind::Overloaded, Row { status: 503, chat: "overloaded", staged: "OVERLOADED", tokens: 0 }),
        (
            FailureKind::Internal,
            Row { status: 500, chat: "internal_error", staged: "INTERNAL_ERROR", tokens: 0 },
        ),
    ] {
        let (provider, mut calls) = ManualProvider::new("local", "scripted");
        let world = Setup::new().given("local", provider).retriever(pages(1)).start().await;
        let failing = tokio::spawn(async move {
            for _ in 0..3 {
                calls.next().await.fail(Failure::new(kind, "no room"));
            }
        });
        check_failure(&world, &row).await;
        failing.await.expect("three calls are made");
    }
}

#[tokio::test]
async fn a_journal_that_fails_interrupts_and_then_refuses() {
    let (provider, mut calls) = ManualProvider::new("local", "scripted");
    let world = Setup::new().given("local", provider).retriever(pages(1)).start().await;
    let session = world.session().await;
    let asking = tokio::spawn(Call::post_json(CHAT, &json!({"query": "why?"})).send(world.address));
    let first = calls.next().await;
    let chat = world.talk(Dialect::Chat, &json!({"query": "why?"})).await;
    let second = calls.next().await;
    let staged = world.talk(Dialect::Staged, &Dialect::Staged.body(&session)).await;
    let third = calls.next().await;
    world.journal.fail_appends(true);
    for call in [&first, &second, &third] {
        call.text("lost");
    }
    asking.await.expect("the call does not panic").chat_refusal(503, "interrupted").await;
    assert_eq!(chat.all().await[0]["error_code"], "interrupted");
    let last = staged.all().await.pop().expect("a terminal event comes");
    assert_eq!(last["content"]["code"], "INTERRUPTED");
    world.journal.fail_appends(false);
    world.journal.fail_claims(true);
    for path in [CHAT, CHAT_STREAM] {
        let refused = world.call(Call::post_json(path, &json!({"query": "why?"}))).await;
        refused.chat_refusal(503, "storage_unavailable").await;
    }
}

#[tokio::test]
async fn a_server_that_stops_interrupts_what_runs_and_takes_no_more() {
    let world = finding("fake,stall=3", 1).start().await;
    let session = world.session().await;
    let address = world.address;
    let asking = Call::post_json(CHAT, &json!({"query": "why?"})).send(address);
    let asking = tokio::spawn(asking);
    let mut chat = world.talk(Dialect::Chat, &json!({"query": "why?"})).await;
    let mut staged = world.talk(Dialect::Staged, &Dialect::Staged.body(&session)).await;
    world.fake.wait_until(|seen| seen.len() == 3 && seen.iter().all(|seen| seen.tokens == 3)).await;
    let stopped = world.stop();
    let code = |events: Vec<Value>, name: &str| events.last().map(|last| last.pointer(name).cloned());
    assert_eq!(code(chat.rest().await, "/error_code"), Some(Some(json!("interrupted"))));
    assert_eq!(code(staged.rest().await, "/content/code"), Some(Some(json!("INTERRUPTED"))));
    asking.await.expect("the call does not panic").chat_refusal(503, "interrupted").await;
    stopped.await;
}
