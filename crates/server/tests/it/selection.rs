//! Questions about a selected text: nothing but the selection reaches the model, and every offset cuts what is cited out
//! of it.

use serde_json::{Value, json};

use crate::client::Call;
use crate::dice::{Dice, soak};
use crate::harness::Setup;
use crate::talk::{CHAT, Dialect, text};
use crate::world::World;

/// What a selection is made of: characters of one to four bytes, some of them joined, and every end of a line.
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

/// A word that is nowhere but in the documents.
const SECRET: &str = "zanzibarium";

fn selection(dice: &mut Dice) -> String {
    let most = if dice.below(4) == 0 { 900 } else { 60 };
    let words = 1 + dice.below(most);
    let mut text: String = (0..words)
        .flat_map(|number| {
            let word = WORDS[dice.below(WORDS.len())];
            [format!("{word}{number}"), SEAMS[dice.below(SEAMS.len())].to_owned()]
        })
        .collect();
    if dice.below(3) == 0 {
        text.insert_str(0, "\r\n \u{3000}");
    }
    text.chars().take(10_000).collect()
}

/// A server with documents, all of which are about what is asked.
async fn with_documents() -> World {
    let world = Setup::of("fake,tokens=3").answers_from_documents().start().await;
    let documents: Vec<_> = (0..5)
        .map(|number| {
            let text =
                format!("# Water {number}\n\nWater runs down, says {SECRET}, spring {number} and all.");
            json!({"repoUrl": "https://r", "filePath": format!("{number}.md"), "text": text})
        })
        .collect();
    let ingest = Call::post_json("/api/documents/ingest", &json!({"documents": documents}));
    assert_eq!(world.call(ingest).await.json(200).await["successCount"], 5);
    world
}

/// Checks that a source is cut out of the selection where it says.
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

/// Checks that a request has nothing but the selection as passages.
fn check_request(request: &Value, selection: &str, sources: &[Value]) {
    let sent = request["messages"].to_string();
    assert!(!sent.contains(SECRET), "a document is in the request: {sent}");
    let quoted = |text: &str| Value::from(text).to_string().trim_matches('"').to_owned();
    for source in sources {
        let cited = source["chunk_text"].as_str().expect("a text");
        assert!(sent.contains(&quoted(cited)), "what is cited was in the request: {cited:?} {sent}");
    }
    // Every numbered word of the request is one of the selection.
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
async fn nothing_but_the_selection_reaches_the_model_and_every_offset_is_exact() {
    let world = with_documents().await;
    for case in 0..soak(200, 5_000) {
        let mut dice = Dice::new(case as u64);
        let selection = selection(&mut dice);
        let body = json!({
            "query": "Where does water run?",
            "mode": "selected_text",
            "selected_text": selection,
            "top_k": 1 + dice.below(20),
        });
        let asked = world.fake.chats().len();
        let sources = if case % 2 == 0 {
            let answer = world.chat(&body).await;
            assert_eq!(answer["mode"], "selected_text");
            answer["sources"].clone()
        } else {
            let events = world.talk(Dialect::Chat, &body).await.all().await;
            assert!(!text(&events).is_empty());
            events[events.len() - 2]["sources"].clone()
        };
        let sources = sources.as_array().expect("sources are a list").clone();
        assert!(!sources.is_empty(), "case {case}: {selection:?}");
        sources.iter().for_each(|source| check_source(source, &selection));
        let requests = world.fake.chats();
        assert_eq!(requests.len(), asked + 1, "case {case}");
        check_request(&requests[asked].body, &selection, &sources);
    }
    let kept = world.get("/api/documents").await.json(200).await;
    assert_eq!(kept["totalCount"], 5, "nothing of a selection is written to the knowledge base");
    let found =
        world.call(Call::post_json("/api/query", &json!({"query": "Größe Ωμέγα 日本語", "k": 100}))).await;
    let found = found.json(200).await;
    assert!(
        found.as_array().is_some_and(|hits| hits.iter().all(|hit| hit["repoUrl"] == "https://r")),
        "{found}"
    );
}

#[tokio::test]
async fn a_selection_of_nothing_but_white_space_is_refused() {
    let world = with_documents().await;
    for selection in ["", " \r\n\t", "\u{3000}"] {
        let body =
            json!({"query": "Where does water run?", "mode": "selected_text", "selected_text": selection});
        world.call(Call::post_json(CHAT, &body)).await.chat_refusal(422, "validation_error").await;
    }
    assert!(world.fake.chats().is_empty());
}

#[tokio::test]
async fn a_conversation_says_which_of_its_turns_were_about_a_selection() {
    let world = with_documents().await;
    let session = world.session().await;
    let selection = "Water runs down 🙂.\r\nIt never runs up.";
    world.chat(&json!({"query": "Where does water run?", "session_id": session})).await;
    let body = json!({"query": "Where does water run?", "session_id": session, "mode": "selected_text", "selected_text": selection});
    world.chat(&body).await;
    let told = world.get(&format!("/conversations/{session}")).await.json(200).await;
    let messages = told["messages"].as_array().expect("messages are a list");
    let modes: Vec<_> = messages.iter().map(|message| &message["mode"]).collect();
    assert_eq!(modes, ["general", "general", "selected_text", "selected_text"]);
    assert!(messages[1]["sources"][0].get("char_start").is_none());
    check_source(&messages[3]["sources"][0], selection);
}
