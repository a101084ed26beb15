//! The answers of the real model against a bare loop over llama.cpp, and what can go wrong on the way.

use domain::{FinishReason, Usage};
use testing::models_folder;

use super::llama::{Batch, Decoded, Token};
use super::prompt::Prompt;
use super::*;
use crate::files::{Files, Manifest};

const SMOLLM: &str = "smollm2-135m-instruct";

/// One thread: others that share the processors with tests would have two of them wait for each other.
const LIMITS: Limits = Limits { window: 8_192, answers: 4, waiting: 8, threads: 1 };

/// The small model's file.
fn path() -> PathBuf {
    let model = Manifest::committed().find(SMOLLM).unwrap();
    Files::new(models_folder()).locate(model).unwrap_or_else(|problem| panic!("{problem}"))
}

pub(super) fn weights() -> Arc<Weights> {
    Arc::new(Weights::load(&path(), &|| true).unwrap())
}

fn request(question: &str, max_tokens: u32) -> Arc<Request> {
    Arc::new(Request {
        system: "You answer questions about software in one or two sentences.".to_owned(),
        question: question.to_owned(),
        max_tokens,
        ..Request::default()
    })
}

/// What a loop gives that does nothing but to call llama.cpp: the whole prompt in batches, then token after token.
fn bare_loop(weights: &Arc<Weights>, request: &Request) -> Vec<u8> {
    let size = ContextSize { tokens: 8_192, batch: 512, sequences: 1, threads: 1 };
    let mut context = Context::new(weights.clone(), size).unwrap();
    let sequence = context.sequences().next().unwrap();
    let template = Template::of(weights).unwrap();
    let prompt = Prompt::new(request, weights.vocabulary(), &template, 8_192).unwrap();
    let mut pending = prompt.tokens;
    let (mut computed, mut batch, mut text) = (0, Batch::default(), Vec::new());
    for _ in 0..prompt.answer_tokens {
        let mut last = 0;
        for tokens in pending.chunks(512) {
            batch.clear();
            for &token in tokens {
                last = batch.push(sequence, computed, token, computed + 1 >= pending.len());
                computed += 1;
            }
            assert_eq!(context.decode(&mut batch, &|| false), Decoded::Done);
        }
        let logits = context.logits(last).unwrap();
        let best = (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        let token = Token::try_from(best).unwrap();
        if weights.vocabulary().ends_turn(token) {
            break;
        }
        text.extend(weights.vocabulary().bytes(token));
        pending = vec![token];
    }
    text
}

fn provider(limits: Limits) -> LlamaProvider {
    let model = Model { provider: "local".into(), model: SMOLLM.into() };
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
async fn alone_and_cold_an_answer_equals_that_of_a_bare_loop() {
    let weights = weights();
    let long = format!("Summarize this: {}", "A prompt is a log of events that clients read. ".repeat(50));
    for question in ["What is a mutex?", "Explain TCP keep-alive.", &long] {
        let request = request(question, 40);
        let bare = bare_loop(&weights, &request);
        let (text, usage) = read(provider(LIMITS).stream(request)).await;
        assert_eq!(text.as_bytes(), bare, "{question}");
        assert_eq!(usage.cached, Some(0));
    }
}
