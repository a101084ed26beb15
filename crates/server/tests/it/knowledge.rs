//! The knowledge base: documents in, documents listed, passages out.

mod documents;
mod filters;
mod ingest;
mod query;
mod running;

use serde_json::{Value, json};

use crate::client::{Answer, Call};
use crate::world::World;

const INGEST: &str = "/api/documents/ingest";
const DOCUMENTS: &str = "/api/documents";
const QUERY: &str = "/api/query";

/// A document of the repository `https://git.example/wiki`.
fn document(path: &str, text: &str) -> Value {
    json!({"repoUrl": "https://git.example/wiki", "filePath": path, "text": text})
}

impl World {
    async fn try_ingest(&self, body: &Value) -> Answer {
        self.call(Call::post_json(INGEST, body)).await
    }

    /// Takes documents in, and tells their ids.
    async fn ingest(&self, documents: &[Value]) -> Vec<String> {
        let reply = self.try_ingest(&json!({"documents": documents})).await.json(200).await;
        assert_eq!(reply["failureCount"], 0, "{reply}");
        let ids = reply["ingestedDocumentIds"].as_array().expect("a list");
        ids.iter().map(|id| id.as_str().expect("an id is text").to_owned()).collect()
    }

    async fn try_query(&self, body: &Value) -> Answer {
        self.call(Call::post_json(QUERY, body)).await
    }

    /// The passages of a query.
    async fn query(&self, body: &Value) -> Vec<Value> {
        match self.try_query(body).await.json(200).await {
            Value::Array(hits) => hits,
            other => panic!("{other}"),
        }
    }

    /// The paths of what a query finds, in the order of their names.
    async fn paths(&self, body: &Value) -> Vec<String> {
        let hits = self.query(body).await;
        let mut paths: Vec<_> =
            hits.iter().map(|hit| hit["filePath"].as_str().expect("a path is text").to_owned()).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}
