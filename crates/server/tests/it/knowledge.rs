//! The knowledge base: ingest, documents, queries.

mod documents;
mod filters;
mod ingest;
mod ingest_tasks;
mod query;

use serde_json::{Value, json};

use crate::support::http::{Request, Response};
use crate::support::test_server::TestServer;

const INGEST: &str = "/api/documents/ingest";
const DOCUMENTS: &str = "/api/documents";
const QUERY: &str = "/api/query";

/// A document of the repository `https://git.example/wiki`.
fn document(path: &str, text: &str) -> Value {
    json!({"repoUrl": "https://git.example/wiki", "filePath": path, "text": text})
}

impl TestServer {
    async fn try_ingest(&self, body: &Value) -> Response {
        self.call(Request::post_json(INGEST, body)).await
    }

    /// Ingests documents and returns their ids.
    async fn ingest(&self, documents: &[Value]) -> Vec<String> {
        let reply = self.try_ingest(&json!({"documents": documents})).await.json(200).await;
        assert_eq!(reply["failureCount"], 0, "{reply}");
        let ids = reply["ingestedDocumentIds"].as_array().expect("a list");
        ids.iter().map(|id| id.as_str().expect("an id is text").to_owned()).collect()
    }

    async fn try_query(&self, body: &Value) -> Response {
        self.call(Request::post_json(QUERY, body)).await
    }

    /// The passages of a query.
    async fn query(&self, body: &Value) -> Vec<Value> {
        match self.try_query(body).await.json(200).await {
            Value::Array(hits) => hits,
            other => panic!("{other}"),
        }
    }

    /// The sorted paths of the documents that a query finds.
    async fn paths(&self, body: &Value) -> Vec<String> {
        let hits = self.query(body).await;
        let mut paths: Vec<_> =
            hits.iter().map(|hit| hit["filePath"].as_str().expect("a path is text").to_owned()).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}
