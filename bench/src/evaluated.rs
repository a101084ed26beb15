//! A server to evaluate: it has the settings of the environment and a collection as its knowledge base.

use std::env;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{self, Response};
use crate::collection::CollectionDocument;
use crate::process::Process;

/// Documents in one request: below the bound of a request's body with any of the collections.
const BATCH: usize = 100;

/// Settings of an evaluation, unless the environment has others: answers may take as long as the machine needs, and
/// background prefill does not compete with them.
const SETTINGS: [(&str, &str); 5] = [
    ("WELLSPRING__STORAGE__KIND", "memory"),
    ("WELLSPRING__GENERATION__FIRST_TOKEN_SECONDS", "600"),
    ("WELLSPRING__GENERATION__STALL_SECONDS", "600"),
    ("WELLSPRING__MODELS__READ_AHEAD", "never"),
    ("RUST_LOG", "error"),
];

/// A server, until dropped.
pub struct EvaluatedServer {
    process: Process,
    _data: TempDir,
}

/// An answer as a client gets it.
#[derive(Debug, Default)]
pub struct Answer {
    /// The whole text.
    pub text: String,
    /// The name of the model.
    pub model: String,
    /// The passages in the prompt.
    pub sources: Vec<AnswerSource>,
    /// The time from the request to the first token.
    pub first_token: Duration,
}

/// A passage in the prompt.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerSource {
    /// The number that markers in the answer refer to.
    pub index: u32,
    /// The path of its document.
    pub file_path: String,
    /// The text.
    pub excerpt: String,
    /// Whether the answer rests on it.
    pub cited: bool,
}

/// A passage that a query found.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundPassage {
    /// The path of its document.
    pub file_path: String,
    /// The text.
    pub text: String,
}

impl EvaluatedServer {
    /// Starts a server and ingests the documents. `settings` overrule the environment.
    ///
    /// # Panics
    /// If the server does not start, or refuses a document.
    pub async fn start(documents: &[CollectionDocument], settings: &[(&str, &str)]) -> Self {
        let data = TempDir::new().expect("a temporary folder can be made");
        let mut variables = vec![("WELLSPRING__DATA_DIR", data.path().to_str().expect("a plain path"))];
        variables.extend(SETTINGS.into_iter().filter(|(name, _)| env::var_os(name).is_none()));
        variables.extend(settings);
        let process = Process::start("wellspring", &["serve", "--bind", "127.0.0.1:0"], &variables).await;
        for batch in documents.chunks(BATCH) {
            let documents: Vec<Value> = batch.iter().map(request).collect();
            let body = json!({ "collection": "eval", "documents": documents });
            let result = client::call(&process.address, "POST", "/api/documents/ingest", &body).await;
            assert_eq!(result["failureCount"], 0, "{result}");
        }
        Self { process, _data: data }
    }

    /// Asks a question in a session of its own.
    ///
    /// # Panics
    /// If the prompt fails.
    pub async fn ask(&self, question: &str) -> Answer {
        let address = &self.process.address;
        let session = client::session(address).await;
        let body = json!({ "sessionId": session, "prompt": question }).to_string();
        let began = Instant::now();
        let path = "/api/generation/stream";
        let mut response = Response::unchunked(address, "POST", path, "application/x-ndjson", &body).await;
        let (mut read, mut first_token) = (Vec::new(), None);
        loop {
            let more = response.more().await;
            if more.is_empty() {
                break;
            }
            read.extend_from_slice(more);
            if first_token.is_none() && String::from_utf8_lossy(&read).contains("\"type\":\"token\"") {
                first_token = Some(began.elapsed());
            }
        }
        let read = String::from_utf8(read).expect("a response is UTF-8");
        let (_, deltas) = read.split_once("\r\n\r\n").expect("a response has a body");
        let mut answer = Answer { first_token: first_token.unwrap_or_default(), ..Answer::default() };
        for delta in deltas.lines() {
            answer.add(serde_json::from_str(delta).expect("a delta is JSON"), question);
        }
        answer
    }

    /// Searches for a text.
    ///
    /// # Panics
    /// If the server refuses the query.
    pub async fn query(&self, text: &str, limit: usize) -> Vec<FoundPassage> {
        let body = json!({ "query": text, "k": limit });
        let found = client::call(&self.process.address, "POST", "/api/query", &body).await;
        serde_json::from_value(found).expect("passages have a path and a text")
    }
}

impl Answer {
    fn add(&mut self, mut delta: Value, question: &str) {
        assert_ne!(delta["type"], "error", "{question:?}: {delta}");
        self.text.push_str(delta["text"].as_str().unwrap_or_default());
        if delta["type"] == "done" {
            let metadata = &mut delta["metadata"];
            self.model = metadata["model"].as_str().unwrap_or_default().to_owned();
            self.sources = serde_json::from_value(metadata["sources"].take()).expect("sources are a list");
        }
    }
}

fn request(document: &CollectionDocument) -> Value {
    let CollectionDocument { file_path, title, text, .. } = document;
    json!({ "repoUrl": "eval", "filePath": file_path, "title": title, "text": text })
}
