//! Questions about a selected text: only the selection reaches the model, and every citation is at its
//! offset.

use serde_json::{Value, json};

use crate::support::builder::TestServerBuilder;
use crate::support::chat_client::{CHAT, Dialect, text};
use crate::support::http::Request;
use crate::support::seeded_random::{SeededRandom, soak};
use crate::support::test_server::TestServer;

/// The parts of a selection: characters of one to four bytes, combining ones, and every line ending.
const WORDS: [&str; 12] = [
    "water",
    "Größe",
    "日本語",
    "🙂",
    "👩\u{200d}🚀",
    "e\u{301}tage",
    "`x = 1;`",
    "spring",
    "→",
    "Ωμέγα",
    "runs",
    "down",
];
const SEAMS: [&str; 8] = [" ", " ", " ", ". ", "\n", "\r\n", "\n\n", "。"];

/// A word that only the documents have.
const SECRET: &str = "zanzibarium";

fn selection(random: &mut SeededRandom) -> String {
    let max_words = if random.below(4) == 0 { 900 } else { 60 };
    let words = 1 + random.below(max_words);
    let mut text: String = (0..words)
        .flat_map(|number| {
            let word = WORDS[random.below(WORDS.len())];
            [format!("{word}{number}"), SEAMS[random.below(SEAMS.len())].to_owned()]
        })
        .collect();
    if random.below(3) == 0 {
        text.insert_str(0, "\r\n \u{3000}");
    }
    text.chars().take(10_000).collect()
}

/// A server with documents that all match the question.
async fn with_documents() -> TestServer {
    let server = TestServerBuilder::with_model("fake,tokens=3").with_document_retrieval().start().await;
    let documents: Vec<_> = (0..5)
        .map(|number| {
            let text =
                format!("# Water {number}\n\nWater runs down, says {SECRET}, spring {number} and all.");
            json!({"repoUrl": "https://r", "filePath": format!("{number}.md"), "text": text})
        })
        .collect();
    let ingest = Request::post_json("/api/documents/ingest", &json!({"documents": documents}));
    assert_eq!(server.call(ingest).await.json(200).await["successCount"], 5);
    server
}

/// Checks that a source is in the selection at its offsets.
fn check_source(source: &Value, selection: &str) {
    let offset =
        |name: &str| usize::try_from(source[name].as_u64().expect("an offset is a number")).expect("it fits");
    let (start, end) = (offset("char_start"), offset("char_end"));
    let cut: String = selection.chars().skip(start).take(end - start).collect();
    assert_eq!(source["chunk_text"], cut, "{source}");
    assert!(!cut.is_empty() && cut.chars().count() <= 500, "{source}");
    let line = |chars: usize| {
        let before: String = selection.chars().take(chars).collect();
        before.matches('\n').count() + 1
    };
    assert_eq!(offset("line_start"), line(start), "{source}");
    let last = start + cut.trim_end().chars().count();
    assert_eq!(offset("line_end"), line(last), "{source}");
    assert_eq!(source["source_url"], "selected_text");
    assert_eq!(
        (&source["page_title"], &source["section_heading"]),
        (&json!("User Selection"), &json!("Selected Text"))
    );
}

/// Checks that all passages of a request are from the selection.
fn check_request(request: &Value, selection: &str, sources: &[Value]) {
    let sent = request["messages"].to_string();
    assert!(!sent.contains(SECRET), "a document is in the request: {sent}");
    let quoted = |text: &str| Value::from(text).to_string().trim_matches('"').to_owned();
    for source in sources {
        let cited = source["chunk_text"].as_str().expect("a text");
        assert!(sent.contains(&quoted(cited)), "a citation was in the request: {cited:?} {sent}");
    }
    // Every numbered word of the request is in the selection.
    let words = |text: &str| -> Vec<String> {
        text.split(|character: char| !character.is_ascii_alphanumeric())
            .filter(|word| word.ends_with(|digit: char| digit.is_ascii_digit()) && word.len() > 4)
            .map(str::to_owned)
            .collect()
    };
    let known = words(selection);
    for message in request["messages"].as_array().expect("messages are a list") {
        for word in words(message["content"].as_str().expect("a message is a text")) {
            assert!(known.contains(&word), "{word} is not of the selection");
        }
    }
}

#[tokio::test]
async fn only_the_selection_reaches_the_model_and_every_offset_is_exact() {
    let server = with_documents().await;
    for case in 0..soak(200, 5_000) {
        let mut random = SeededRandom::new(case as u64);
        let selection = selection(&mut random);
        let body = json!({
            "query": "Where does water run?",
            "mode": "selected_text",
            "selected_text": selection,
            "top_k": 1 + random.below(20),
        });
        let asked = server.fake.chats().len();
        let sources = if case % 2 == 0 {
            let answer = server.chat(&body).await;
            assert_eq!(answer["mode"], "selected_text");
            answer["sources"].clone()
        } else {
            let events = server.chat_stream(Dialect::Chat, &body).await.all().await;
            assert!(!text(&events).is_empty());
            events[events.len() - 2]["sources"].clone()
        };
        let sources = sources.as_array().expect("sources are a list").clone();
        assert!(!sources.is_empty(), "case {case}: {selection:?}");
        sources.iter().for_each(|source| check_source(source, &selection));
        let requests = server.fake.chats();
        assert_eq!(requests.len(), asked + 1, "case {case}");
        check_request(&requests[asked].body, &selection, &sources);
    }
    let stored = server.get("/api/documents").await.json(200).await;
    assert_eq!(stored["totalCount"], 5, "a selection is not stored in the knowledge base");
    let found = server
        .call(Request::post_json("/api/query", &json!({"query": "Größe Ωμέγα 日本語", "k": 100})))
        .await;
    let found = found.json(200).await;
    assert!(
        found.as_array().is_some_and(|hits| hits.iter().all(|hit| hit["repoUrl"] == "https://r")),
        "{found}"
    );
}

#[tokio::test]
async fn a_blank_selection_is_refused() {
    let server = with_documents().await;
    for selection in ["", " \r\n\t", "\u{3000}"] {
        let body =
            json!({"query": "Where does water run?", "mode": "selected_text", "selected_text": selection});
        server.call(Request::post_json(CHAT, &body)).await.chat_error(422, "validation_error").await;
    }
    assert!(server.fake.chats().is_empty());
}

#[tokio::test]
async fn a_conversation_marks_turns_about_a_selection() {
    let server = with_documents().await;
    let session = server.session().await;
    let selection = "Water runs down 🙂.\r\nIt never runs up.";
    server.chat(&json!({"query": "Where does water run?", "session_id": session})).await;
    let body = json!({"query": "Where does water run?", "session_id": session, "mode": "selected_text", "selected_text": selection});
    server.chat(&body).await;
    let conversation = server.get(&format!("/conversations/{session}")).await.json(200).await;
    let messages = conversation["messages"].as_array().expect("messages are a list");
    let modes: Vec<_> = messages.iter().map(|message| &message["mode"]).collect();
    assert_eq!(modes, ["general", "general", "selected_text", "selected_text"]);
    assert!(messages[1]["sources"][0].get("char_start").is_none());
    check_source(&messages[3]["sources"][0], selection);
}
