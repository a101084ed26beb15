//! Embedding requests.

use std::io;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde_json::Value;

use super::api::ModelApi;
use super::recorded::{RecordedRequest, RequestEnding};
use super::routes::{ServerState, error_response, json_response, until_stopped};
use super::script::{AnswerScript, FaultKind};

/// Responds with a vector per text, or with the fault of the script.
pub(crate) async fn embed<V: ModelApi>(
    State(state): State<ServerState>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let request = RecordedRequest::new(uri.path(), None, body.clone());
    let mut recording = state.record(&uri, &headers, body);
    let Some(model) = request.model() else {
        return error_response::<V>(&mut recording, 400, "the body must be a JSON object with a `model`");
    };
    let script = match state.script::<V>(&mut recording, model).await {
        Ok(script) => script,
        Err(response) => return *response,
    };
    let texts = request.texts();
    match fault(&script, texts.len()) {
        None => {}
        Some(FaultKind::Stall) => until_stopped(state.stopped).await,
        Some(FaultKind::Error) => {
            return error_response::<V>(&mut recording, 500, "the model's name asks for an error");
        }
        Some(FaultKind::Die) => {
            recording.end(RequestEnding::Failed);
            // Nothing was flushed before, so the client gets no headers either.
            return Body::from_stream(stream::iter([Err::<Bytes, _>(break_off())])).into_response();
        }
    }
    let max_words = script.vectors.longest.unwrap_or(usize::MAX);
    let is_too_long = |text: &&str| text.split_whitespace().count() > max_words;
    if texts.iter().any(is_too_long) && !V::truncates(&request.body) {
        return error_response::<V>(&mut recording, 400, &format!("a text has more than {max_words} words"));
    }
    let texts: Vec<_> = texts.into_iter().map(|text| first_words(text, max_words)).collect();
    let input_tokens = texts.iter().map(|text| text.split_whitespace().count() as u64).sum();
    let mut vectors = script.vectors.of(&texts);
    if script.vectors.reverse {
        vectors.reverse();
    }
    recording.end(RequestEnding::Completed);
    json_response(StatusCode::OK, &V::vectors(model, vectors, input_tokens))
}

/// The fault of the script, if there are more vectors than the script lets pass.
fn fault(script: &AnswerScript, vectors: usize) -> Option<FaultKind> {
    script.fault.filter(|fault| vectors as u64 > fault.after).map(|fault| fault.kind)
}

fn first_words(text: &str, words: usize) -> String {
    text.split_whitespace().take(words).collect::<Vec<_>>().join(" ")
}

fn break_off() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}
