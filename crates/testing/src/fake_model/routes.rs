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

use super::answer_body::AnswerBody;
use super::api::{ChatRequest, ModelApi};
use super::embeddings::embed;
use super::flush_socket::FlushSignal;
use super::ollama::{self, Ollama};
use super::openai::{self, OpenAi};
use super::recorded::{RecordedRequest, Recording, RequestEnding, RequestLog};
use super::script::{AnswerScript, FaultKind};

/// Model names that are always listed, as examples.
const EXAMPLES: [&str; 6] = [
    "fake",
    "fake,tokens=64,pace=20ms",
    "fake,reasoning=16,pace=20ms",
    "fake,echo",
    "fake,pace=20ms,die=8",
    "fake,pace=20ms,stall=8",
];

const MAX_BODY_BYTES: usize = 8 << 20;

/// The state that the routes share.
#[derive(Clone)]
pub(crate) struct ServerState {
    pub(crate) requests: RequestLog,
    /// Model names to list in addition to the examples.
    pub(crate) models: Arc<[String]>,
    pub(crate) stopped: watch::Receiver<()>,
}

pub(crate) fn router(state: ServerState) -> Router {
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
        .with_state(state)
}

/// The channel carries no values: it closes when the sender is dropped.
pub(crate) async fn until_stopped(mut stopped: watch::Receiver<()>) {
    let _ = stopped.changed().await;
}

impl ServerState {
    pub(crate) fn record(&self, uri: &Uri, headers: &HeaderMap, body: Value) -> Recording {
        let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        self.requests.add(RecordedRequest::new(uri.path(), authorization.map(str::to_owned), body))
    }

    /// The script of the model's name, after its delay; or the error response that the name asks for.
    pub(crate) async fn script<V: ModelApi>(
        &self,
        recording: &mut Recording,
        model: &str,
    ) -> Result<AnswerScript, Box<Response>> {
        let script = match AnswerScript::parse(model) {
            Ok(script) => script.at_request(self.requests.similar_before(recording)),
            Err(error) => return Err(Box::new(error_response::<V>(recording, 400, &error.to_string()))),
        };
        let wait = script.header_delay();
        // Even a sleep of zero takes a millisecond.
        if !wait.is_zero() {
            tokio::select! {
                () = sleep(wait) => {}
                // The body then breaks off at once.
                () = until_stopped(self.stopped.clone()) => {}
            }
        }
        let Some(status) = script.status else { return Ok(script) };
        let mut response = error_response::<V>(recording, status, "the model's name asks for this status");
        if let Some(seconds) = script.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        Err(Box::new(response))
    }

    /// The listed models: the examples, the configured ones and the requested ones.
    fn model_names(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<_> =
            EXAMPLES.into_iter().map(str::to_owned).chain(self.models.iter().cloned()).collect();
        self.requests.read(|requests| {
            let asked = requests.iter().filter_map(RecordedRequest::model);
            names.extend(asked.filter(|name| AnswerScript::parse(name).is_ok()).map(str::to_owned));
        });
        names
    }
}

async fn chat<V: ModelApi>(
    State(state): State<ServerState>,
    ConnectInfo(flushes): ConnectInfo<FlushSignal>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let chat = ChatRequest::decode::<V>(&body);
    let mut recording = state.record(&uri, &headers, body);
    let Some(mut chat) = chat else {
        return error_response::<V>(&mut recording, 400, "the body must be a JSON object with a `model`");
    };
    let script = match state.script::<V>(&mut recording, &chat.model).await {
        Ok(script) => script,
        Err(response) => return *response,
    };
    let fails = script.fault.is_some_and(|fault| fault.kind == FaultKind::Error);
    if fails && !chat.streams {
        return error_response::<V>(&mut recording, 500, "the model's name asks for an error");
    }
    chat.number = recording.number;
    chat.numbered = script.repeat_ids;
    let content_type = if chat.streams { V::STREAM_TYPE } else { "application/json" };
    let body = AnswerBody::new(script, &chat, V::frames(&chat), recording, flushes);
    ([(CONTENT_TYPE, content_type)], body.body(state.stopped)).into_response()
}

async fn models(State(state): State<ServerState>, uri: Uri, headers: HeaderMap) -> Response {
    state.record(&uri, &headers, Value::Null).end(RequestEnding::Completed);
    json_response(StatusCode::OK, &openai::models(state.model_names()))
}

async fn tags(State(state): State<ServerState>, uri: Uri, headers: HeaderMap) -> Response {
    state.record(&uri, &headers, Value::Null).end(RequestEnding::Completed);
    json_response(StatusCode::OK, &ollama::tags(state.model_names()))
}

/// Ollama's check for a model: every valid name exists.
async fn show(State(state): State<ServerState>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let name = body["model"].as_str().unwrap_or_default().to_owned();
    let mut recording = state.record(&uri, &headers, body);
    if let Err(error) = AnswerScript::parse(&name) {
        return error_response::<Ollama>(&mut recording, 404, &error.to_string());
    }
    recording.end(RequestEnding::Completed);
    json_response(
        StatusCode::OK,
        &json!({"details": {"family": "fake"}, "capabilities": ["completion", "embedding"]}),
    )
}

async fn version(State(state): State<ServerState>, uri: Uri, headers: HeaderMap) -> Response {
    state.record(&uri, &headers, Value::Null).end(RequestEnding::Completed);
    json_response(StatusCode::OK, &json!({"version": "0.12.6"}))
}

/// The recorded requests. This request is not recorded.
async fn requests(State(state): State<ServerState>) -> Response {
    json_response(StatusCode::OK, &state.requests.read(|requests| json!(requests)))
}

async fn unknown(State(state): State<ServerState>, uri: Uri, headers: HeaderMap) -> Response {
    let mut recording = state.record(&uri, &headers, Value::Null);
    let message = format!("the fake model has no {} with this method", uri.path());
    if uri.path().starts_with("/v1/") {
        return error_response::<OpenAi>(&mut recording, 404, &message);
    }
    error_response::<Ollama>(&mut recording, 404, &message)
}

pub(crate) fn error_response<V: ModelApi>(recording: &mut Recording, status: u16, message: &str) -> Response {
    recording.end(RequestEnding::Failed);
    let code = StatusCode::from_u16(status).expect("a script's status is from 400 to 599");
    json_response(code, &V::error(status, message))
}

pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], Body::from(body.to_string())).into_response()
}
