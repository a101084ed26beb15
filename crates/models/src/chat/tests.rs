//! Answers of the real model against a bare loop over llama.cpp.

use domain::{FinishReason, Usage};
use testing::models_folder;

use super::prompt::Prompt;
use super::template::Template;
use super::*;
use crate::files::{Manifest, ModelStore};

const SMOLLM: &str = "smollm2-135m-instruct";

/// One thread: under CPU contention, as in tests, several would wait for each other.
const LIMITS: Limits = Limits {
    window: 8_192,
    answers: 4,
    waiting: 8,
    threads: 1,
    seed: None,
    conversation_bytes: 32 << 20,
    prefix_cache: Some(PrefixCacheLimits { memory_bytes: 32 << 20, disk_bytes: 0, pending: 0 }),
};

/// The small model's file.
pub(super) fn path() -> PathBuf {
    let model = Manifest::committed().find(SMOLLM).unwrap();
    ModelStore::new(models_folder()).locate(model).unwrap_or_else(|problem| panic!("{problem}"))
}

pub(super) fn weights() -> Arc<Weights> {
    Arc::new(Weights::load(&path(), &|| true).unwrap())
}

pub(super) fn request(question: &str, max_tokens: u32) -> Arc<Request> {
    Arc::new(Request {
        system: "You answer questions about software in one or two sentences.".to_owned(),
        question: question.to_owned(),
        max_tokens,
        ..Request::default()
    })
}

/// The greedy answer of a bare loop: prefill of the whole prompt, then token after token.
pub(super) fn greedy(weights: &Arc<Weights>, request: &Request) -> Vec<u8> {
    let mut bare = BareLoop::new(weights.clone(), 1).unwrap();
    let template = Template::of(weights).unwrap();
    let prompt = Prompt::new(request, weights.vocabulary(), &template, 8_192).unwrap();
    let mut token = bare.read(&prompt.tokens).unwrap();
    let mut text = Vec::new();
    for _ in 0..prompt.answer_tokens {
        if weights.vocabulary().ends_turn(token) {
            break;
        }
        text.extend(weights.vocabulary().bytes(token));
        token = bare.read(&[token]).unwrap();
    }
    text
}

fn provider(limits: Limits) -> LlamaProvider {
    let model = ModelId { provider: "local".into(), model: SMOLLM.into() };
    LlamaProvider::open(model, path(), limits)
}

/// The text of an answer, and what was counted.
async fn read(stream: ModelStream) -> (String, Usage) {
    let events: Vec<_> = stream.map(Result::unwrap).collect().await;
    assert!(matches!(events.last(), Some(ModelEvent::Finish(FinishReason::Stop | FinishReason::Length))));
    let mut usage = None;
    let mut text = String::new();
    for event in events {
        match event {
            ModelEvent::Text(piece) => text.push_str(&piece),
            ModelEvent::Usage(counted) => usage = Some(counted),
            _ => {}
        }
    }
    (text, usage.expect("it counts"))
}

#[tokio::test]
async fn the_first_answer_equals_that_of_a_greedy_bare_loop() {
    let weights = weights();
    let long = format!("Summarize this: {}", "A prompt is a log of events that clients read. ".repeat(50));
    for question in ["What is a mutex?", "Explain TCP keep-alive.", &long] {
        let request = request(question, 40);
        let bare = greedy(&weights, &request);
        let (text, usage) = read(provider(LIMITS).stream(request)).await;
        assert_eq!(text.as_bytes(), bare, "{question}");
        assert_eq!(usage.cached, Some(0));
    }
}
