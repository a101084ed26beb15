//! The calls that ask for vectors.

use std::io;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde_json::Value;

use crate::routes::{Fake, json_response, refuse, until_stopped};
use crate::script::{FaultKind, Script};
use crate::seen::{Ending, Seen};
use crate::vendor::Vendor;

/// Answers with a vector for each text, or with the fault that the model's name asks for.
pub(crate) async fn embed<V: Vendor>(
    State(fake): State<Fake>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let request = Seen::new(uri.path(), None, body.clone());
    let mut entry = fake.note(&uri, &headers, body);
    let Some(model) = request.model() else {
        return refuse::<V>(&mut entry, 400, "the body must be a JSON object with a `model`");
    };
    let script = match fake.script::<V>(&mut entry, model).await {
        Ok(script) => script,
        Err(refused) => return *refused,
    };
    let texts = request.texts();
    match fault(&script, texts.len()) {
        None => {}
        Some(FaultKind::Stall) => until_stopped(fake.stopped).await,
        Some(FaultKind::Error) => return refuse::<V>(&mut entry, 500, "the model's name asks for an error"),
        Some(FaultKind::Die) => {
            entry.end(Ending::Failed);
            // Nothing was flushed yet, so not even the headers are sent.
            return Body::from_stream(stream::iter([Err::<Bytes, _>(cut())])).into_response();
        }
    }
    let longest = script.vectors.longest.unwrap_or(usize::MAX);
    let is_too_long = |text: &&str| text.split_whitespace().count() > longest;
    if texts.iter().any(is_too_long) && !V::cuts_texts(&request.body) {
        return refuse::<V>(&mut entry, 400, &format!("a text has more than {longest} words"));
    }
    let texts: Vec<_> = texts.into_iter().map(|text| first_words(text, longest)).collect();
    let input_tokens = texts.iter().map(|text| text.split_whitespace().count() as u64).sum();
    let mut vectors = script.vectors.of(&texts);
    if script.vectors.reverse {
        vectors.reverse();
    }
    entry.end(Ending::Completed);
    json_response(StatusCode::OK, &V::vectors(model, vectors, input_tokens))
}

/// What goes wrong after so many vectors, if there are more.
fn fault(script: &Script, vectors: usize) -> Option<FaultKind> {
    script.fault.filter(|fault| vectors as u64 > fault.after).map(|fault| fault.kind)
}

fn first_words(text: &str, words: usize) -> String {
    text.split_whitespace().take(words).collect::<Vec<_>>().join(" ")
}

fn cut() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}
