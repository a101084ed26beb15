//! `POST /embeddings` as OpenAI has it, and vLLM, llama.cpp, TEI and many others.

use domain::Failure;
use futures::future::{BoxFuture, FutureExt};
use serde::{Deserialize, Serialize};

use super::api::{Api, Numbered};
use crate::model_server::{Advice, ModelServer};
use crate::openai;

/// OpenAI's API. The request says nothing that a server might not know: vectors come as numbers, and in
/// the model's own dimension, when nothing else is asked for.
pub(super) struct OpenAi;

impl Api for OpenAi {
    fn path(&self) -> &'static [&'static str] {
        &["embeddings"]
    }

    fn advice(&self) -> Advice {
        openai::ADVICE
    }

    fn request(&self, model: &str, texts: &[&str]) -> Vec<u8> {
        let wire = RequestWire { model, input: texts };
        serde_json::to_vec(&wire).expect("strings can be written as JSON")
    }

    fn answer(&self, body: &[u8]) -> serde_json::Result<Vec<Numbered>> {
        let answer: AnswerWire = serde_json::from_slice(body)?;
        let numbered = |wire: VectorWire| Numbered { index: wire.index, vector: wire.embedding };
        Ok(answer.data.into_iter().map(numbered).collect())
    }

    fn health<'a>(&self, server: &'a ModelServer) -> BoxFuture<'a, Result<(), Failure>> {
        openai::is_reachable(server).boxed()
    }
}

#[derive(Serialize)]
struct RequestWire<'a> {
    model: &'a str,
    input: &'a [&'a str],
}

#[derive(Deserialize)]
struct AnswerWire {
    data: Vec<VectorWire>,
}

#[derive(Deserialize)]
struct VectorWire {
    index: Option<usize>,
    embedding: Vec<Option<f32>>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_request_is_what_openai_expects() {
        let sent: Value = serde_json::from_slice(&OpenAi.request("small", &["one", "two"])).unwrap();
        assert_eq!(sent, json!({"model": "small", "input": ["one", "two"]}));
    }

    #[test]
    fn an_answer_has_indexes_or_none() {
        let body = br#"{"object":"list","data":[{"index":1,"embedding":[0.5,null]},{"embedding":[1]}]}"#;
        let expected = [
            Numbered { index: Some(1), vector: vec![Some(0.5), None] },
            Numbered { index: None, vector: vec![Some(1.0)] },
        ];
        assert_eq!(OpenAi.answer(body).unwrap(), expected);
    }
}
