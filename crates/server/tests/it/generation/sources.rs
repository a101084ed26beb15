//! The sources of an answer in the generation dialect.

use domain::{Failure, FailureKind, WhenNothingFound};
use serde_json::{Value, json};
use testing::{ScriptedRetriever, passage};

use crate::support::builder::{PROVIDER_KINDS, TestServerBuilder};
use crate::support::delta_stream::{ENCODINGS, Encoding};
use crate::support::http::Request;
use crate::support::test_server::question;

const JOURNAL: &str = "The journal keeps running logs.\nEach batch is one write to a segment file.";
const SESSIONS: &str = "A session expires when it was idle for an hour.";

fn retriever() -> ScriptedRetriever {
    ScriptedRetriever::finding(vec![passage("journal", JOURNAL), passage("sessions", SESSIONS)])
}

#[tokio::test]
async fn the_sources_are_the_passages_that_the_provider_was_given() {
    for kind in PROVIDER_KINDS {
        let server = TestServerBuilder::new()
            .provider("local", kind, "fake,echo")
            .retriever(retriever())
            .start()
            .await;
        for encoding in ENCODINGS {
            let body = question(&server.session().await);
            let answer = server.stream(encoding, &body).await.all().await;
            let done = answer.done("stop");
            let sources = done["sources"].as_array().expect("sources are a list");
            assert_eq!(sources.len(), 2);
            let sent = server.fake.chats().last().expect("the model was called").body.to_string();
            for (index, source) in (1..).zip(sources) {
                assert_eq!(source["index"], index);
                let excerpt = source["excerpt"].as_str().expect("an excerpt is a text");
                let quoted = serde_json::to_string(excerpt).expect("a text is JSON");
                assert!(sent.contains(quoted.trim_matches('"')), "{sent}");
                assert_eq!(source["cited"], true, "the echoed prompt has its number");
            }
            assert_eq!((&sources[0]["lineStart"], &sources[0]["lineEnd"]), (&json!(1), &json!(2)));
            assert_eq!(sources[0]["filePath"], "journal.md");
            assert_eq!(done["retrievalMs"], 4);
        }
    }
}

#[tokio::test]
async fn passages_that_the_answer_does_not_use_are_not_cited() {
    let server = TestServerBuilder::with_model("fake,tokens=5").retriever(retriever()).start().await;
    let answer = server.ask(&server.session().await).await.all().await;
    let sources = answer.done("stop")["sources"].as_array().expect("sources are a list").clone();
    assert!(sources.len() == 2 && sources.iter().all(|source| source["cited"] == false), "{sources:?}");
}

#[tokio::test]
async fn a_replayed_answer_has_the_same_sources() {
    let server = TestServerBuilder::with_model("fake,echo").retriever(retriever()).start().await;
    for encoding in ENCODINGS {
        let body = question(&server.session().await);
        let first = server.stream(encoding, &body).await.all().await;
        let again = server.resume(encoding, &first.prompt, None).await.all().await;
        assert_eq!(again.done("stop"), first.done("stop"));
        let events = server.get(&format!("/api/prompts/{}/events", first.prompt)).await.body().await;
        let events = String::from_utf8(events).expect("events are UTF-8");
        for name in ["stage", "passages", "citations"] {
            assert!(events.contains(&format!("event: {name}\n")), "{events}");
        }
    }
}

#[tokio::test]
async fn a_failed_retrieval_is_a_retryable_error() {
    let failure = Failure::new(FailureKind::Unavailable, "the index cannot be read: mend it");
    let server =
        TestServerBuilder::with_model("fake").retriever(ScriptedRetriever::failing(failure)).start().await;
    for encoding in ENCODINGS {
        let answer = server.stream(encoding, &question(&server.session().await)).await.all().await;
        let error = answer.error("retrieval_unavailable", true);
        assert_eq!(error["message"], "the index cannot be read: mend it");
    }
    assert!(server.fake.chats().is_empty(), "no model is called");
}

#[tokio::test]
async fn without_passages_the_model_answers_unless_the_settings_say_otherwise() {
    let answers = TestServerBuilder::with_model("fake,tokens=3").start().await;
    answers.ask(&answers.session().await).await.all().await.done("stop");
    let system = |body: &Value| body["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
    assert!(system(&answers.fake.chats()[0].body).contains("No passages"));

    let fixed_text = TestServerBuilder::with_model("fake,tokens=3")
        .when_nothing_found(WhenNothingFound::SaySo)
        .start()
        .await;
    let answer =
        fixed_text.stream(Encoding::Ndjson, &question(&fixed_text.session().await)).await.all().await;
    assert_eq!(answer.text(), "Nothing was found in the documents for this question.");
    let done = answer.done("stop");
    assert_eq!((&done["sources"], &done["model"]), (&json!([]), &json!("fake,tokens=3")));
    assert!(fixed_text.fake.chats().is_empty(), "no model is called");
}

#[tokio::test]
async fn every_excerpt_is_at_its_lines_of_the_document() {
    let server = TestServerBuilder::with_model("fake,echo,tokens=20").with_document_retrieval().start().await;
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
    let ingest = Request::post_json("/api/documents/ingest", &json!({"documents": documents}));
    assert_eq!(server.call(ingest).await.json(200).await["successCount"], 3);

    let session = server.session().await;
    let body =
        json!({"sessionId": session, "prompt": "What does a part of lakes say about lakes?", "topK": 8});
    let done = server.stream(Encoding::Ndjson, &body).await.all().await.done("stop").clone();
    let sources = done["sources"].as_array().expect("sources are a list");
    assert!(sources.len() > 2, "{done}");
    let sent = server.fake.chats()[0].body["messages"].to_string();
    for source in sources {
        let id = source["documentId"].as_str().expect("a document has an id");
        let document = server.get(&format!("/api/documents/{id}")).await.json(200).await;
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
    let done = server.stream(Encoding::Ndjson, &elsewhere).await.all().await.done("stop").clone();
    let sources = done["sources"].as_array().expect("sources are a list");
    assert!(!sources.is_empty() && sources.iter().all(|source| source["filePath"] == "wells.md"), "{done}");
}
