//! OpenAI's embedding API: `POST /embeddings`, which vLLM, llama.cpp, TEI and many others implement too.

use domain::Failure;
use futures::future::{BoxFuture, FutureExt};
use serde::{Deserialize, Serialize};

use super::api::{EmbeddingApi, IndexedVector};
use crate::http::{Advice, ModelServer};
use crate::openai;

/// OpenAI's embedding API. Requests have no optional parameters, which some servers would reject: without them vectors
/// are numbers in the model's own dimension.
pub(super) struct OpenAiEmbeddings;

impl EmbeddingApi for OpenAiEmbeddings {
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

    fn response(&self, body: &[u8]) -> serde_json::Result<Vec<IndexedVector>> {
        let response: ResponseWire = serde_json::from_slice(body)?;
        let indexed = |wire: VectorWire| IndexedVector { index: wire.index, vector: wire.embedding };
        Ok(response.data.into_iter().map(indexed).collect())
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
struct ResponseWire {
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
    fn a_request_has_the_shape_that_openai_expects() {
        let sent: Value =
            serde_json::from_slice(&OpenAiEmbeddings.request("small", &["one", "two"])).unwrap();
        assert_eq!(sent, json!({"model": "small", "input": ["one", "two"]}));
    }

    #[test]
    fn a_response_may_have_indexes() {
        let body = br#"{"object":"list","data":[{"index":1,"embedding":[0.5,null]},{"embedding":[1]}]}"#;
        let expected = [
            IndexedVector { index: Some(1), vector: vec![Some(0.5), None] },
            IndexedVector { index: None, vector: vec![Some(1.0)] },
        ];
        assert_eq!(OpenAiEmbeddings.response(body).unwrap(), expected);
    }
}
