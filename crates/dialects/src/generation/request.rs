//! Requests of the generation dialect.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Ask, CancelReason, FilterField, Filters, NewSession, PromptId, Question, Rejection, SessionId, TOP_K,
    TraceId,
};
use globset::GlobBuilder;
use serde::Deserialize;
use serde_json::Value;

use crate::json;

const DEFAULT_TOP_K: i64 = 5;

#[derive(Deserialize)]
struct SessionRequest {
    owner: Option<String>,
    context: Option<BTreeMap<String, String>>,
}

/// Reads `POST /api/generation/session`; no body at all is an empty one.
pub fn decode_session(body: &[u8]) -> Result<NewSession, Rejection> {
    let body = if body.trim_ascii().is_empty() { b"{}" } else { body };
    let request: SessionRequest = json::parse(body)?;
    Ok(NewSession { owner: request.owner, context: request.context.unwrap_or_default() })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptRequest {
    session_id: String,
    prompt: String,
    idempotency_key: Option<String>,
    #[serde(default, deserialize_with = "json::integer")]
    top_k: Option<i64>,
    filters: Option<BTreeMap<String, Value>>,
    provider: Option<String>,
}

/// Reads `POST /api/generation/stream`, with the `Idempotency-Key` header if there is one.
pub fn decode_prompt(body: &[u8], key_header: Option<&str>, trace: TraceId) -> Result<Ask, Rejection> {
    let request: PromptRequest = json::parse(body)?;
    let key = match (request.idempotency_key, key_header) {
        (Some(body), Some(header)) if body != header => {
            return Err(Rejection::Invalid(format!(
                "idempotencyKey is {body:?} and the Idempotency-Key header is {header:?}: send one, or the same in both"
            )));
        }
        (Some(key), _) => Some(key),
        (None, header) => header.map(str::to_owned),
    };
    let top_k = request.top_k.unwrap_or(DEFAULT_TOP_K);
    let top_k = u32::try_from(top_k).ok().filter(|top_k| TOP_K.contains(top_k)).ok_or_else(|| {
        Rejection::Invalid(format!("topK is {top_k}; it must be {} to {}", TOP_K.start(), TOP_K.end()))
    })?;
    let filters = decode_filters(request.filters.unwrap_or_default())?;
    let session = request.session_id.parse().map_err(|_| Rejection::SessionNotUsable)?;
    let question = Question { text: request.prompt, top_k, filters, provider: request.provider };
    Ok(Ask { session, question, key, trace })
}

fn decode_filters(filters: BTreeMap<String, Value>) -> Result<Filters, Rejection> {
    let mut decoded = Filters::new();
    for (name, value) in filters {
        let field = filter_field(&name)?;
        let values = match value {
            Value::Null => continue,
            Value::String(value) => BTreeSet::from([value]),
            Value::Array(values) => {
                values.into_iter().map(|value| filter_value(&name, value)).collect::<Result<_, _>>()?
            }
            other => return filter_value(&name, other).map(|_| decoded),
        };
        if values.is_empty() || values.contains("") {
            return Err(Rejection::Invalid(format!(
                "filters.{name} is empty: give a text, or leave the filter out"
            )));
        }
        if field == FilterField::FilePath {
            values.iter().try_for_each(|glob| check_glob(glob))?;
        }
        decoded.insert(field, values);
    }
    Ok(decoded)
}

fn filter_field(name: &str) -> Result<FilterField, Rejection> {
    Ok(match name {
        "repoUrl" => FilterField::RepoUrl,
        "filePath" => FilterField::FilePath,
        "language" => FilterField::Language,
        "collection" => FilterField::Collection,
        "title" => FilterField::Title,
        _ => match name.strip_prefix("metadata.").filter(|key| !key.is_empty()) {
            Some(key) => FilterField::Metadata(key.to_owned()),
            None => {
                return Err(Rejection::Invalid(format!(
                    "filters.{name} is not a filter; allowed: repoUrl, filePath, language, collection, title, metadata.KEY"
                )));
            }
        },
    })
}

fn filter_value(name: &str, value: Value) -> Result<String, Rejection> {
    match value {
        Value::String(value) => Ok(value),
        other => Err(Rejection::Invalid(format!(
            "filters.{name} is {other}; it must be a text or a list of texts"
        ))),
    }
}

fn check_glob(glob: &str) -> Result<(), Rejection> {
    let parsed = GlobBuilder::new(glob).literal_separator(true).build();
    parsed.map(drop).map_err(|error| Rejection::Invalid(format!("filters.filePath is not a glob: {error}")))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelRequest {
    session_id: String,
    prompt_id: String,
    reason: Option<String>,
}

/// What is to be cancelled, and why.
#[derive(Debug, PartialEq, Eq)]
pub struct Cancel {
    /// The session.
    pub session: SessionId,
    /// The prompt in it.
    pub prompt: PromptId,
    /// The client's reason.
    pub reason: CancelReason,
}

/// Reads `POST /api/generation/cancel`.
pub fn decode_cancel(body: &[u8]) -> Result<Cancel, Rejection> {
    let request: CancelRequest = json::parse(body)?;
    let reason = match request.reason.as_deref() {
        None | Some("user_initiated") => CancelReason::UserInitiated,
        Some("timeout") => CancelReason::Timeout,
        Some("error") => CancelReason::Error,
        Some(other) => {
            return Err(Rejection::Invalid(format!(
                "reason is {other:?}; allowed: user_initiated, timeout, error"
            )));
        }
    };
    let session = request.session_id.parse().map_err(|_| Rejection::PromptNotFound)?;
    let prompt = request.prompt_id.parse().map_err(|_| Rejection::PromptNotFound)?;
    Ok(Cancel { session, prompt, reason })
}

/// The last `seq` that the client has: from the `Last-Event-ID` header, else from `after`.
pub fn resume_position(last_event_id: Option<&str>, after: Option<&str>) -> Result<Option<u64>, Rejection> {
    let (name, given) = match (last_event_id, after) {
        (Some(id), _) => ("Last-Event-ID", id),
        (None, Some(after)) => ("after", after),
        (None, None) => return Ok(None),
    };
    given.parse().map(Some).map_err(|_| {
        Rejection::Invalid(format!(
            "{name} is {given:?}; it must be the seq of a delta, a whole number from 0"
        ))
    })
}
