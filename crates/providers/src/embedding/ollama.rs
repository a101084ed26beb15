//! Ollama's embedding API: `POST /api/embed`. The server truncates long texts itself.

use domain::Failure;
use futures::future::{BoxFuture, FutureExt};
use serde::{Deserialize, Serialize};

use super::api::{EmbeddingApi, IndexedVector};
use crate::http::{Advice, ModelServer};
use crate::ollama;

/// Ollama's embedding API.
pub(super) struct OllamaEmbeddings;

impl EmbeddingApi for OllamaEmbeddings {
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

    fn response(&self, body: &[u8]) -> serde_json::Result<Vec<IndexedVector>> {
        let response: ResponseWire = serde_json::from_slice(body)?;
        Ok(response.embeddings.into_iter().map(|vector| IndexedVector { index: None, vector }).collect())
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
struct ResponseWire {
    embeddings: Vec<Vec<Option<f32>>>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_request_has_the_shape_that_ollama_expects() {
        let sent: Value =
            serde_json::from_slice(&OllamaEmbeddings.request("minilm", &["one", "two"])).unwrap();
        assert_eq!(sent, json!({"model": "minilm", "input": ["one", "two"], "truncate": true}));
    }

    #[test]
    fn a_response_has_no_indexes() {
        let body = br#"{"model":"minilm","embeddings":[[0.5,1e-3]],"load_duration":1}"#;
        let expected = [IndexedVector { index: None, vector: vec![Some(0.5), Some(0.001)] }];
        assert_eq!(OllamaEmbeddings.response(body).unwrap(), expected);
    }
}
