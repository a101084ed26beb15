//! The routes of the fake model server.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::embeddings::embed;
use crate::ollama::{self, Ollama};
use crate::openai::{self, OpenAi};
use crate::playback::Playback;
use crate::script::{FaultKind, Script};
use crate::seen::{Ending, Entry, Requests, Seen};
use crate::socket::Flushes;
use crate::vendor::{Chat, Vendor};

/// Model names that are listed in any case, so that a client finds something to choose from.
const EXAMPLES: [&str; 6] = [
    "fake",
    "fake,tokens=64,pace=20ms",
    "fake,reasoning=16,pace=20ms",
    "fake,echo",
    "fake,pace=20ms,die=8",
    "fake,pace=20ms,stall=8",
];

const MAX_BODY_BYTES: usize = 8 << 20;

/// What the routes share.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) requests: Requests,
    /// Models to list beside the examples.
    pub(crate) models: Arc<[String]>,
    pub(crate) stopped: watch::Receiver<()>,
}

pub(crate) fn router(fake: Fake) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat::<OpenAi>))
        .route("/v1/embeddings", post(embed::<OpenAi>))
        .route("/v1/models", get(models))
        .route("/api/chat", post(chat::<Ollama>))
        .route("/api/embed", post(embed::<Ollama>))
        .route("/api/tags", get(tags))
        .route("/api/show", post(show))
        .route("/api/version", get(version))
        .route("/requests", get(requests))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(fake)
}

/// Nothing is ever sent on the channel: what happens is that its sender goes.
pub(crate) async fn until_stopped(mut stopped: watch::Receiver<()>) {
    let _ = stopped.changed().await;
}

impl Fake {
    pub(crate) fn note(&self, uri: &Uri, headers: &HeaderMap, body: Value) -> Entry {
        let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        self.requests.add(Seen::new(uri.path(), authorization.map(str::to_owned), body))
    }

    /// What the model's name asks for, once its headers are due; or the answer that says no.
    pub(crate) async fn script<V: Vendor>(
        &self,
        entry: &mut Entry,
        model: &str,
    ) -> Result<Script, Box<Response>> {
        let script = match Script::parse(model) {
            Ok(script) => script.after(self.requests.like_it_before(entry)),
            Err(error) => return Err(Box::new(refuse::<V>(entry, 400, &error.to_string()))),
        };
        let wait = script.wait_before_headers();
        // Even the shortest sleep takes a millisecond.
        if !wait.is_zero() {
            tokio::select! {
                () = sleep(wait) => {}
                // The body breaks off at once then.
                () = until_stopped(self.stopped.clone()) => {}
            }
        }
        let Some(status) = script.status else { return Ok(script) };
        let mut response = refuse::<V>(entry, status, "the model's name asks for this status");
        if let Some(seconds) = script.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        Err(Box::new(response))
    }

    /// The models that a client finds: examples, those the fake was told of, those it was asked for.
    fn model_names(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<_> =
            EXAMPLES.into_iter().map(str::to_owned).chain(self.models.iter().cloned()).collect();
        self.requests.look(|requests| {
            let asked = requests.iter().filter_map(Seen::model);
            names.extend(asked.filter(|name| Script::parse(name).is_ok()).map(str::to_owned));
        });
        names
    }
}

async fn chat<V: Vendor>(
    State(fake): State<Fake>,
    ConnectInfo(flushes): ConnectInfo<Flushes>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let chat = Chat::decode::<V>(&body);
    let mut entry = fake.note(&uri, &headers, body);
    let Some(mut chat) = chat else {
        return refuse::<V>(&mut entry, 400, "the body must be a JSON object with a `model`");
    };
    let script = match fake.script::<V>(&mut entry, &chat.model).await {
        Ok(script) => script,
        Err(refused) => return *refused,
    };
    let fails = script.fault.is_some_and(|fault| fault.kind == FaultKind::Error);
    if fails && !chat.streams {
        return refuse::<V>(&mut entry, 500, "the model's name asks for an error");
    }
    chat.number = entry.number;
    chat.numbered = script.repeat_ids;
    let content_type = if chat.streams { V::STREAM_TYPE } else { "application/json" };
    let playback = Playback::new(script, &chat, V::frames(&chat), entry, flushes);
    ([(CONTENT_TYPE, content_type)], playback.body(fake.stopped)).into_response()
}

async fn models(State(fake): State<Fake>, uri: Uri, headers: HeaderMap) -> Response {
    fake.note(&uri, &headers, Value::Null).end(Ending::Completed);
    json_response(StatusCode::OK, &openai::models(fake.model_names()))
}

async fn tags(State(fake): State<Fake>, uri: Uri, headers: HeaderMap) -> Response {
    fake.note(&uri, &headers, Value::Null).end(Ending::Completed);
    json_response(StatusCode::OK, &ollama::tags(fake.model_names()))
}

/// Whether there is such a model: every name that can be played is one.
async fn show(State(fake): State<Fake>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let name = body["model"].as_str().unwrap_or_default().to_owned();
    let mut entry = fake.note(&uri, &headers, body);
    if let Err(error) = Script::parse(&name) {
        return refuse::<Ollama>(&mut entry, 404, &error.to_string());
    }
    entry.end(Ending::Completed);
    json_response(
        StatusCode::OK,
        &json!({"details": {"family": "fake"}, "capabilities": ["completion", "embedding"]}),
    )
}

async fn version(State(fake): State<Fake>, uri: Uri, headers: HeaderMap) -> Response {
    fake.note(&uri, &headers, Value::Null).end(Ending::Completed);
    json_response(StatusCode::OK, &json!({"version": "0.12.6"}))
}

/// What was seen. Asking for it leaves no trace in it.
async fn requests(State(fake): State<Fake>) -> Response {
    json_response(StatusCode::OK, &fake.requests.look(|requests| json!(requests)))
}

async fn unknown(State(fake): State<Fake>, uri: Uri, headers: HeaderMap) -> Response {
    let mut entry = fake.note(&uri, &headers, Value::Null);
    let message = format!("the fake model has no {} with this method", uri.path());
    if uri.path().starts_with("/v1/") {
        return refuse::<OpenAi>(&mut entry, 404, &message);
    }
    refuse::<Ollama>(&mut entry, 404, &message)
}

pub(crate) fn refuse<V: Vendor>(entry: &mut Entry, status: u16, message: &str) -> Response {
    entry.end(Ending::Failed);
    let code = StatusCode::from_u16(status).expect("a script's status is from 400 to 599");
    json_response(code, &V::error(status, message))
}

pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], Body::from(body.to_string())).into_response()
}
