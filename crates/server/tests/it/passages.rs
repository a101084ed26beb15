//! Answers from passages, as the generation dialect tells of them.

use domain::{Failure, FailureKind, WhenNothingFound};
use serde_json::{Value, json};
use testing::{ScriptedRetriever, passage};

use crate::client::Call;
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
        let events = String::from_utf8(events).expect("events are UTF-8");
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

    let says = Setup::of("fake,tokens=3").when_nothing_found(WhenNothingFound::SaySo).start().await;
    let answer = says.stream(Encoding::Ndjson, &question(&says.session().await)).await.all().await;
    assert_eq!(answer.text(), "Nothing was found in the documents for this question.");
    let done = answer.done("stop");
    assert_eq!((&done["sources"], &done["model"]), (&json!([]), &json!("fake,tokens=3")));
    assert!(says.fake.chats().is_empty(), "no model is asked");
}

#[tokio::test]
async fn every_excerpt_is_in_its_document_at_the_lines_it_says() {
    let world = Setup::of("fake,echo,tokens=20").answers_from_documents().start().await;
    let page = |topic: &str| {
        let section = |number| {
            let sentence = format!("Part {number} of {topic} says something about {topic} {number}. ");
            format!("## {topic} {number}\n\n{}\n\n", sentence.repeat(12))
        };
        format!("# {topic}\n\n{}", (1..=6).map(section).collect::<String>())
    };
    let documents: Vec<_> = ["rivers", "lakes", "wells"]
        .iter()
        .map(|topic| json!({"repoUrl": "https://r", "filePath": format!("{topic}.md"), "text": page(topic)}))
        .collect();
    let ingest = Call::post_json("/api/documents/ingest", &json!({"documents": documents}));
    assert_eq!(world.call(ingest).await.json(200).await["successCount"], 3);

    let session = world.session().await;
    let body =
        json!({"sessionId": session, "prompt": "What does a part of lakes say about lakes?", "topK": 8});
    let done = world.stream(Encoding::Ndjson, &body).await.all().await.done("stop").clone();
    let sources = done["sources"].as_array().expect("sources are a list");
    assert!(sources.len() > 2, "{done}");
    let sent = world.fake.chats()[0].body["messages"].to_string();
    for source in sources {
        let id = source["documentId"].as_str().expect("a document has an id");
        let document = world.get(&format!("/api/documents/{id}")).await.json(200).await;
        let text = document["text"].as_str().expect("a document has a text");
        let line = |name: &str| usize::try_from(source[name].as_u64().expect("a line is a number"));
        let (first, last) = (line("lineStart").unwrap(), line("lineEnd").unwrap());
        let lines: Vec<_> = text.lines().skip(first - 1).take(last + 1 - first).collect();
        let excerpt = source["excerpt"].as_str().expect("an excerpt is a text");
        assert!(lines.join("\n").contains(excerpt.trim()), "{source}");
        let quoted = serde_json::to_string(excerpt.trim()).expect("a text is JSON");
        assert!(sent.contains(quoted.trim_matches('"')), "it was in the request: {source}");
    }

    let elsewhere = json!({"sessionId": session, "prompt": "lakes", "filters": {"filePath": "wells.md"}});
    let done = world.stream(Encoding::Ndjson, &elsewhere).await.all().await.done("stop").clone();
    let sources = done["sources"].as_array().expect("sources are a list");
    assert!(!sources.is_empty() && sources.iter().all(|source| source["filePath"] == "wells.md"), "{done}");
}
