//! One prompt in every dialect gives the same text, the same sources in the same order and the same outcome,
//! except where the contract lets the dialects differ.

use std::time::Duration;

use domain::WhenNothingFound;
use serde_json::{Value, json};
use testing::{ScriptedRetriever, fake_text, passage};

use crate::support::builder::TestServerBuilder;
use crate::support::chat_client::{CHAT, CHAT_STREAM, text};
use crate::support::delta_stream::text_of;
use crate::support::http::{Request, Response};
use crate::support::test_server::{STREAM, TestServer, advance_time};

const NOTHING: &str = "Nothing was found in the documents for this question.";

/// A dialect, with or without a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Generation,
    Chat,
    ChatStream,
    Staged,
}

const ENDPOINTS: [Endpoint; 4] =
    [Endpoint::Generation, Endpoint::Chat, Endpoint::ChatStream, Endpoint::Staged];

/// What a client receives; `None` where its dialect does not have it.
#[derive(Debug, PartialEq)]
struct Reply {
    text: Option<String>,
    /// Titles and texts.
    sources: Option<Vec<(String, String)>>,
    outcome: &'static str,
}

impl Endpoint {
    fn call(self, session: &str, question: &str) -> Request {
        match self {
            Self::Generation => {
                Request::post_json(STREAM, &json!({"sessionId": session, "prompt": question}))
            }
            Self::Chat => Request::post_json(CHAT, &json!({"query": question, "session_id": session})),
            Self::ChatStream => {
                Request::post_json(CHAT_STREAM, &json!({"query": question, "session_id": session}))
            }
            Self::Staged => {
                Request::post_json(CHAT_STREAM, &json!({"message": question, "session_id": session}))
            }
        }
    }

    async fn read(self, answer: Response) -> Reply {
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
                Reply {
                    text: Some(text_of(&events)),
                    sources: metadata.get("sources").map(|list| sources_of(list, "title", "excerpt")),
                    outcome: outcome_of(metadata.get("code").unwrap_or(&metadata["finishReason"])),
                }
            }
            Self::ChatStream | Self::Chat => Reply {
                text: Some(text(&events)),
                sources: sources.map(|list| sources_of(list, "page_title", "chunk_text")),
                outcome: outcome_of(last.get("error_code").unwrap_or(&last["type"])),
            },
            Self::Staged => Reply {
                text: Some(text(&events)),
                sources: None,
                outcome: outcome_of(last["content"].get("code").unwrap_or(&last["type"])),
            },
        }
    }
}

/// The reply in a response that is not a stream.
fn plain(body: &Value, status: u16) -> Reply {
    let code = body.get("error_code").or(body.get("code")).cloned();
    let code = code.unwrap_or(json!("done"));
    assert!(code != "agent_unavailable" || status == 502, "{status}: it was unreachable and did not die");
    Reply {
        text: body.get("answer").and_then(Value::as_str).map(str::to_owned),
        sources: body.get("sources").map(|list| sources_of(list, "page_title", "chunk_text")),
        outcome: outcome_of(&code),
    }
}

/// The outcome that a code stands for.
fn outcome_of(code: &Value) -> &'static str {
    match code.as_str().expect("a code is a text") {
        "done" | "stop" => "done",
        "cancelled" => "cancelled",
        // The chat dialect has one code for a provider that died and for an unreachable one. They differ by
        // the status of a response that is not a stream, and in a stream by the tokens before.
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

/// Asks over one endpoint.
async fn ask(server: &TestServer, endpoint: Endpoint, question: &str, meanwhile: Meanwhile) -> Reply {
    let session = server.session().await;
    let asking = tokio::spawn(endpoint.call(&session, question).send(server.address));
    if meanwhile != Meanwhile::Nothing {
        let prompt = loop {
            let prompts = server.get(&format!("/api/sessions/{session}/prompts")).await.json(200).await;
            if let Some(prompt) = prompts["prompts"][0]["promptId"].as_str() {
                break prompt.to_owned();
            }
        };
        server.wait_until_generated(&prompt, 5).await;
        match meanwhile {
            Meanwhile::Cancel => server.cancel(&session, &prompt).await.assert_no_content(),
            _ => advance_time(Duration::from_secs(31)).await,
        }
    }
    endpoint.read(asking.await.expect("the request does not panic")).await
}

/// A retriever that finds two passages in this order; one is long.
fn two_passages() -> ScriptedRetriever {
    let long = "Lakes are still, and some of them are deep. ".repeat(20);
    ScriptedRetriever::finding(vec![passage("Rivers", "Rivers run down."), passage("Lakes", &long)])
}

#[tokio::test]
async fn one_prompt_gets_the_same_answer_in_every_dialect() {
    let question = "why does water run down?";
    for (model, meanwhile, outcome, tokens) in [
        ("fake,tokens=20", Meanwhile::Nothing, "done", 20),
        ("fake,stall=5", Meanwhile::Cancel, "cancelled", 5),
        ("fake,die=5", Meanwhile::Nothing, "died", 5),
        ("fake,stall=5", Meanwhile::TimePasses, "silent", 5),
    ] {
        let server = TestServerBuilder::with_model(model).retriever(two_passages()).start().await;
        let reference = ask(&server, Endpoint::Generation, question, meanwhile).await;
        assert_eq!(
            (reference.outcome, reference.text.clone()),
            (outcome, Some(fake_text(tokens))),
            "{model}"
        );
        for endpoint in ENDPOINTS {
            let reply = ask(&server, endpoint, question, meanwhile).await;
            assert_eq!(reply.outcome, outcome, "{endpoint:?} {model}");
            let (has_text, sources) = (reply.text.is_some(), reply.sources.clone());
            if let Some(text) = reply.text {
                assert_eq!(Some(text), reference.text, "{endpoint:?} {model}");
            }
            if let Some(sources) = reply.sources {
                assert_eq!(Some(sources), reference.sources, "{endpoint:?} {model}");
            }
            if outcome == "done" {
                assert!(has_text, "{endpoint:?} {model}");
                let titles: Vec<_> = sources.iter().flatten().map(|(title, _)| title.as_str()).collect();
                let expected: &[&str] = if endpoint == Endpoint::Staged { &[] } else { &["Rivers", "Lakes"] };
                assert_eq!(titles, expected, "{endpoint:?} {model}");
            }
        }
        let requests: Vec<_> = server.fake.chats().iter().map(|seen| seen.body.clone()).collect();
        assert!(
            requests.iter().all(|body| *body == requests[0]),
            "every request to the model is equal: {requests:?}"
        );
    }
}

#[tokio::test]
async fn without_passages_the_dialects_differ_only_in_their_policy() {
    let model = "fake,tokens=5";
    for policy in [None, Some(WhenNothingFound::Answer), Some(WhenNothingFound::SaySo)] {
        let builder = TestServerBuilder::with_model(model);
        let builder = policy.into_iter().fold(builder, TestServerBuilder::when_nothing_found);
        let server = builder.start().await;
        for endpoint in ENDPOINTS {
            let has_fixed_text = match policy {
                Some(policy) => policy == WhenNothingFound::SaySo,
                None => matches!(endpoint, Endpoint::Chat | Endpoint::ChatStream),
            };
            let expected = if has_fixed_text { NOTHING.to_owned() } else { fake_text(5) };
            let reply = ask(&server, endpoint, "why?", Meanwhile::Nothing).await;
            assert_eq!((reply.outcome, reply.text), ("done", Some(expected)), "{endpoint:?}");
            assert!(reply.sources.unwrap_or_default().is_empty(), "{endpoint:?}");
        }
    }
}

#[tokio::test]
async fn a_blank_question_is_invalid_in_every_dialect() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for endpoint in ENDPOINTS {
        for question in ["", " \n"] {
            let reply = ask(&server, endpoint, question, Meanwhile::Nothing).await;
            assert_eq!((reply.outcome, reply.text), ("invalid", None), "{endpoint:?}");
        }
    }
    assert_eq!(server.fake.chats(), []);
}
