//! One prompt asked in every dialect gives the same text, the same sources in the same order and the same outcome.
//! What differs is only what the contract lets them differ in.

use std::time::Duration;

use domain::WhenNothingFound;
use serde_json::{Value, json};
use testing::{ScriptedRetriever, fake_text, passage};

use crate::client::{Answer, Call};
use crate::deltas::text_of;
use crate::harness::Setup;
use crate::talk::{CHAT, CHAT_STREAM, text};
use crate::world::{STREAM, World, time_passes};

const NOTHING: &str = "Nothing was found in the documents for this question.";

/// A dialect, and whether it streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Generation,
    Chat,
    ChatStream,
    Staged,
}

const WAYS: [Way; 4] = [Way::Generation, Way::Chat, Way::ChatStream, Way::Staged];

/// What a client learns. Where its dialect does not tell something, it is none.
#[derive(Debug, PartialEq)]
struct Told {
    text: Option<String>,
    /// Titles and texts.
    sources: Option<Vec<(String, String)>>,
    outcome: &'static str,
}

impl Way {
    fn call(self, session: &str, question: &str) -> Call {
        match self {
            Self::Generation => Call::post_json(STREAM, &json!({"sessionId": session, "prompt": question})),
            Self::Chat => Call::post_json(CHAT, &json!({"query": question, "session_id": session})),
            Self::ChatStream => {
                Call::post_json(CHAT_STREAM, &json!({"query": question, "session_id": session}))
            }
            Self::Staged => {
                Call::post_json(CHAT_STREAM, &json!({"message": question, "session_id": session}))
            }
        }
    }

    async fn read(self, answer: Answer) -> Told {
        if answer.status != 200 || self == Self::Chat {
            let status = answer.status;
            return plain(&answer.json(status).await, status);
        }
        let body = String::from_utf8(answer.body().await).expect("a stream is UTF-8");
        let events: Vec<Value> = body
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_str(line.strip_prefix("data: ").unwrap_or(line)).expect("JSON"))
            .collect();
        let last = events.last().expect("a stream has a terminal event");
        let sources = events.iter().find_map(|event| event.get("sources"));
        match self {
            Self::Generation => {
                let metadata = &last["metadata"];
                Told {
                    text: Some(text_of(&events)),
                    sources: metadata.get("sources").map(|list| sources_of(list, "title", "excerpt")),
                    outcome: row(metadata.get("code").unwrap_or(&metadata["finishReason"])),
                }
            }
            Self::ChatStream | Self::Chat => Told {
                text: Some(text(&events)),
                sources: sources.map(|list| sources_of(list, "page_title", "chunk_text")),
                outcome: row(last.get("error_code").unwrap_or(&last["type"])),
            },
            Self::Staged => Told {
                text: Some(text(&events)),
                sources: None,
                outcome: row(last["content"].get("code").unwrap_or(&last["type"])),
            },
        }
    }
}

/// An answer that is no stream.
fn plain(body: &Value, status: u16) -> Told {
    let code = body.get("error_code").or(body.get("code")).cloned();
    let code = code.unwrap_or(json!("done"));
    assert!(code != "agent_unavailable" || status == 502, "{status}: it was never there, and did not die");
    Told {
        text: body.get("answer").and_then(Value::as_str).map(str::to_owned),
        sources: body.get("sources").map(|list| sources_of(list, "page_title", "chunk_text")),
        outcome: row(&code),
    }
}

/// The row of the contract that a code stands for.
fn row(code: &Value) -> &'static str {
    match code.as_str().expect("a code is a text") {
        "done" | "stop" => "done",
        "cancelled" => "cancelled",
        // The chat dialect has one code for a provider that died and for one that was never there. The status of a call
        // that was not streamed tells them apart, and in a stream what came before.
        "provider_error" | "PROVIDER_ERROR" | "agent_unavailable" => "died",
        "provider_timeout" | "agent_timeout" | "PROVIDER_TIMEOUT" => "silent",
        "invalid_request" | "validation_error" => "invalid",
        other => panic!("{other}"),
    }
}

fn sources_of(list: &Value, title: &str, text: &str) -> Vec<(String, String)> {
    let field = |source: &Value, name: &str| source[name].as_str().expect("a source has it").to_owned();
    let cut = |text: String| text.chars().take(500).collect();
    let list = list.as_array().expect("sources are a list");
    list.iter().map(|source| (field(source, title), cut(field(source, text)))).collect()
}

/// What happens while the prompt runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    Cancel,
    TimePasses,
}

/// Asks in one way.
async fn told(world: &World, way: Way, question: &str, meanwhile: Meanwhile) -> Told {
    let session = world.session().await;
    let asking = tokio::spawn(way.call(&session, question).send(world.address));
    if meanwhile != Meanwhile::Nothing {
        let prompt = loop {
            let prompts = world.get(&format!("/api/sessions/{session}/prompts")).await.json(200).await;
            if let Some(prompt) = prompts["prompts"][0]["promptId"].as_str() {
                break prompt.to_owned();
            }
        };
        world.until_said(&prompt, 5).await;
        match meanwhile {
            Meanwhile::Cancel => world.cancel(&session, &prompt).await.no_content(),
            _ => time_passes(Duration::from_secs(31)).await,
        }
    }
    way.read(asking.await.expect("the call does not panic")).await
}

/// Two passages, in the order in which they are found; one is long.
fn found() -> ScriptedRetriever {
    let long = "Lakes are still, and some of them are deep. ".repeat(20);
    ScriptedRetriever::finding(vec![passage("Rivers", "Rivers run down."), passage("Lakes", &long)])
}

#[tokio::test]
async fn one_prompt_is_answered_alike_in_every_dialect() {
    let question = "why does water run down?";
    for (model, meanwhile, outcome, tokens) in [
        ("fake,tokens=20", Meanwhile::Nothing, "done", 20),
        ("fake,stall=5", Meanwhile::Cancel, "cancelled", 5),
        ("fake,die=5", Meanwhile::Nothing, "died", 5),
        ("fake,stall=5", Meanwhile::TimePasses, "silent", 5),
    ] {
        let world = Setup::of(model).retriever(found()).start().await;
        let reference = told(&world, Way::Generation, question, meanwhile).await;
        assert_eq!(
            (reference.outcome, reference.text.clone()),
            (outcome, Some(fake_text(tokens))),
            "{model}"
        );
        for way in WAYS {
            let told = told(&world, way, question, meanwhile).await;
            assert_eq!(told.outcome, outcome, "{way:?} {model}");
            let (told_text, told_sources) = (told.text.is_some(), told.sources.clone());
            if let Some(text) = told.text {
                assert_eq!(Some(text), reference.text, "{way:?} {model}");
            }
            if let Some(sources) = told.sources {
                assert_eq!(Some(sources), reference.sources, "{way:?} {model}");
            }
            if outcome == "done" {
                assert!(told_text, "{way:?} {model}");
                let titles: Vec<_> = told_sources.iter().flatten().map(|(title, _)| title.as_str()).collect();
                let expected: &[&str] = if way == Way::Staged { &[] } else { &["Rivers", "Lakes"] };
                assert_eq!(titles, expected, "{way:?} {model}");
            }
        }
        let requests: Vec<_> = world.fake.chats().iter().map(|seen| seen.body.clone()).collect();
        assert!(
            requests.iter().all(|body| *body == requests[0]),
            "the model is asked the same: {requests:?}"
        );
    }
}

#[tokio::test]
async fn where_nothing_is_found_the_dialects_differ_only_in_their_policy() {
    let model = "fake,tokens=5";
    for policy in [None, Some(WhenNothingFound::Answer), Some(WhenNothingFound::SaySo)] {
        let setup = Setup::of(model);
        let setup = policy.into_iter().fold(setup, Setup::when_nothing_found);
        let world = setup.start().await;
        for way in WAYS {
            let says_so = match policy {
                Some(policy) => policy == WhenNothingFound::SaySo,
                None => matches!(way, Way::Chat | Way::ChatStream),
            };
            let expected = if says_so { NOTHING.to_owned() } else { fake_text(5) };
            let told = told(&world, way, "why?", Meanwhile::Nothing).await;
            assert_eq!((told.outcome, told.text), ("done", Some(expected)), "{way:?}");
            assert!(told.sources.unwrap_or_default().is_empty(), "{way:?}");
        }
    }
}

#[tokio::test]
async fn a_question_of_nothing_is_invalid_in_every_dialect() {
    let world = Setup::of("fake").start().await;
    for way in WAYS {
        for question in ["", " \n"] {
            let told = told(&world, way, question, Meanwhile::Nothing).await;
            assert_eq!((told.outcome, told.text), ("invalid", None), "{way:?}");
        }
    }
    assert_eq!(world.fake.chats(), []);
}
