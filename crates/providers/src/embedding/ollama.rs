//! `POST /api/embed` as Ollama has it, which cuts long texts itself.

use domain::Failure;
use futures::future::{BoxFuture, FutureExt};
use serde::{Deserialize, Serialize};

use super::api::{Api, Numbered};
use crate::model_server::{Advice, ModelServer};
use crate::ollama;

/// Ollama's API.
pub(super) struct Ollama;

impl Api for Ollama {
    fn path(&self) -> &'static [&'static str] {
        &["api", "embed"]
    }

    fn advice(&self) -> Advice {
        ollama::ADVICE
    }

    fn request(&self, model: &str, texts: &[&str]) -> Vec<u8> {
        let wire = RequestWire { model, input: texts, truncate: true };
        serde_json::to_vec(&wire).expect("strings can be written as JSON")
    }

    fn answer(&self, body: &[u8]) -> serde_json::Result<Vec<Numbered>> {
        let answer: AnswerWire = serde_json::from_slice(body)?;
        Ok(answer.embeddings.into_iter().map(|vector| Numbered { index: None, vector }).collect())
    }

    fn health<'a>(&self, server: &'a ModelServer) -> BoxFuture<'a, Result<(), Failure>> {
        ollama::has_model(server).boxed()
    }
}

#[derive(Serialize)]
struct RequestWire<'a> {
    model: &'a str,
    input: &'a [&'a str],
    truncate: bool,
}

#[derive(Deserialize)]
struct AnswerWire {
    embeddings: Vec<Vec<Option<f32>>>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_request_is_what_ollama_expects() {
        let sent: Value = serde_json::from_slice(&Ollama.request("minilm", &["one", "two"])).unwrap();
        assert_eq!(sent, json!({"model": "minilm", "input": ["one", "two"], "truncate": true}));
    }

    #[test]
    fn an_answer_has_no_indexes() {
        let body = br#"{"model":"minilm","embeddings":[[0.5,1e-3]],"load_duration":1}"#;
        let expected = [Numbered { index: None, vector: vec![Some(0.5), Some(0.001)] }];
        assert_eq!(Ollama.answer(body).unwrap(), expected);
    }
}
