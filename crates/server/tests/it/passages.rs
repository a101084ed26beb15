//! Answers from passages, as the generation dialect tells of them.

use domain::{Failure, FailureKind, NothingFound};
use serde_json::{Value, json};
use testing::{ScriptedRetriever, passage};

use crate::deltas::{ENCODINGS, Encoding};
use crate::harness::{KINDS, Setup};
use crate::world::question;

const JOURNAL: &str = "The journal keeps running logs.\nEach batch is one write to a segment file.";
const SESSIONS: &str = "A session expires when it was idle for an hour.";

fn retriever() -> ScriptedRetriever {
    ScriptedRetriever::finding(vec![passage("journal", JOURNAL), passage("sessions", SESSIONS)])
}

#[tokio::test]
async fn the_sources_are_the_passages_that_the_provider_was_given() {
    for kind in KINDS {
        let world = Setup::new().provider("local", kind, "fake,echo").retriever(retriever()).start().await;
        for encoding in ENCODINGS {
            let body = question(&world.session().await);
            let answer = world.stream(encoding, &body).await.all().await;
            let done = answer.done("stop");
            let sources = done["sources"].as_array().expect("sources are a list");
            assert_eq!(sources.len(), 2);
            let sent = world.fake.chats().last().expect("the model was asked").body.to_string();
            for (index, source) in (1..).zip(sources) {
                assert_eq!(source["index"], index);
                let excerpt = source["excerpt"].as_str().expect("an excerpt is a text");
                let quoted = serde_json::to_string(excerpt).expect("a text is JSON");
                assert!(sent.contains(quoted.trim_matches('"')), "{sent}");
                assert_eq!(source["cited"], true, "the echo has its number");
            }
            assert_eq!((&sources[0]["lineStart"], &sources[0]["lineEnd"]), (&json!(1), &json!(2)));
            assert_eq!(sources[0]["filePath"], "journal.md");
            assert_eq!(done["retrievalMs"], 4);
        }
    }
}

#[tokio::test]
async fn passages_that_the_answer_does_not_rest_on_are_not_cited() {
    let world = Setup::of("fake,tokens=5").retriever(retriever()).start().await;
    let answer = world.ask(&world.session().await).await.all().await;
    let sources = answer.done("stop")["sources"].as_array().expect("sources are a list").clone();
    assert!(sources.len() == 2 && sources.iter().all(|source| source["cited"] == false), "{sources:?}");
}

#[tokio::test]
async fn a_replayed_answer_has_the_same_sources() {
    let world = Setup::of("fake,echo").retriever(retriever()).start().await;
    for encoding in ENCODINGS {
        let body = question(&world.session().await);
        let first = world.stream(encoding, &body).await.all().await;
        let again = world.resume(encoding, &first.prompt, None).await.all().await;
        assert_eq!(again.done("stop"), first.done("stop"));
        let events = world.get(&format!("/api/prompts/{}/events", first.prompt)).await.body().await;
        let events = String::from_utf8(events.to_vec()).expect("events are UTF-8");
        for name in ["stage", "passages", "citations"] {
            assert!(events.contains(&format!("event: {name}\n")), "{events}");
        }
    }
}

#[tokio::test]
async fn finding_that_fails_is_an_error_delta_that_may_be_retried() {
    let failure = Failure::new(FailureKind::Unavailable, "the index cannot be read: mend it");
    let world = Setup::of("fake").retriever(ScriptedRetriever::failing(failure)).start().await;
    for encoding in ENCODINGS {
        let answer = world.stream(encoding, &question(&world.session().await)).await.all().await;
        let error = answer.error("retrieval_unavailable", true);
        assert_eq!(error["message"], "the index cannot be read: mend it");
    }
    assert!(world.fake.chats().is_empty(), "no model is asked");
}

#[tokio::test]
async fn when_nothing_is_found_the_model_is_told_so_unless_the_settings_want_a_plain_word() {
    let asks = Setup::of("fake,tokens=3").start().await;
    asks.ask(&asks.session().await).await.all().await.done("stop");
    let system = |body: &Value| body["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
    assert!(system(&asks.fake.chats()[0].body).contains("No passages"));

    let says = Setup::of("fake,tokens=3").when_nothing_found(NothingFound::SaySo).start().await;
    let answer = says.stream(Encoding::Ndjson, &question(&says.session().await)).await.all().await;
    assert_eq!(answer.text(), "Nothing was found in the documents for this question.");
    let done = answer.done("stop");
    assert_eq!((&done["sources"], &done["model"]), (&json!([]), &json!("fake,tokens=3")));
    assert!(says.fake.chats().is_empty(), "no model is asked");
}
