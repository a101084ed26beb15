//! Requests of the generation dialect.

use std::collections::BTreeMap;

use domain::{
    Ask, CancelReason, MAX_KEY_CHARS, NewSession, OnDisconnect, PromptId, Question, Rejection, SearchScope,
    SessionId, SessionPolicy, TOP_K, TraceId, WhenNothingFound,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{fields, filters, json};

/// Client request to create a new session.
#[derive(Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"owner": "internal-dev", "context": {"environment": "dev"}}))]
pub struct SessionRequest {
    /// Owner of the session, such as an organization or a repository.
    owner: Option<String>,
    /// Context that the client wants to store with the session.
    context: Option<BTreeMap<String, String>>,
}

/// Decodes `POST /api/generation/session`. The body may be missing.
pub fn decode_session(body: &[u8]) -> Result<NewSession, Rejection> {
    let body = if body.trim_ascii().is_empty() { b"{}" } else { body };
    let request: SessionRequest = json::parse(body)?;
    Ok(NewSession { owner: request.owner, context: request.context.unwrap_or_default() })
}

/// Client request to submit a prompt within a session.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(example = serde_json::json!({
    "sessionId": "f47ac10b-58cc-4372-a567-0e02b2c3d479",
    "prompt": "Explain vector embeddings in C#",
    "idempotencyKey": "client-req-001",
    "topK": 10,
    "filters": {"repoUrl": "https://github.com/example/repo"}
}))]
pub struct PromptRequest {
    /// Target session ID. The session must be active.
    #[schemars(extend("format" = "uuid"))]
    session_id: String,
    /// User prompt text. At most `limits.question_chars` characters.
    #[schemars(length(min = 1), regex(pattern = fields::NOT_BLANK))]
    prompt: String,
    /// Retry-safe key: asking again with it returns the same answer. The `Idempotency-Key` header does the same.
    #[schemars(length(min = 1, max = MAX_KEY_CHARS))]
    idempotency_key: Option<String>,
    /// Number of passages to retrieve.
    #[serde(default, deserialize_with = "json::integer")]
    #[schemars(range(min = *TOP_K.start(), max = *TOP_K.end()), extend("default" = fields::DEFAULT_TOP_K))]
    top_k: Option<i64>,
    /// Restricts retrieval to matching documents: all fields must match, and of a list one value. A `filePath` is a glob.
    #[serde(default)]
    #[schemars(schema_with = "filters::document_schema")]
    filters: Option<BTreeMap<String, Value>>,
    /// Name of a configured provider. Without it the providers are tried in the configured order.
    provider: Option<String>,
}

/// Decodes `POST /api/generation/stream`, with the `Idempotency-Key` header if there is one.
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
    let top_k = fields::top_k("topK", request.top_k)?;
    let filters = filters::decode(request.filters.unwrap_or_default(), &filters::DOCUMENT)?;
    let session = request.session_id.parse().map_err(|_| Rejection::SessionNotUsable)?;
    let question = Question {
        text: request.prompt,
        top_k,
        scope: SearchScope::Knowledge(filters),
        threshold: None,
        provider: request.provider,
    };
    Ok(Ask {
        session,
        session_policy: SessionPolicy::RequireActive,
        question,
        when_nothing_found: WhenNothingFound::Answer,
        on_disconnect: OnDisconnect::Continue,
        key,
        trace,
    })
}

/// Client request to cancel an in-flight prompt.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(example = serde_json::json!({
    "sessionId": "f47ac10b-58cc-4372-a567-0e02b2c3d479",
    "promptId": "01a1e5fe-4c11-706b-a9a4-0b385122808c"
}))]
pub struct CancelRequest {
    /// The session that the prompt was asked in.
    #[schemars(extend("format" = "uuid"))]
    session_id: String,
    /// The prompt's id, from `X-Prompt-Id` or any delta.
    #[schemars(extend("format" = "uuid"))]
    prompt_id: String,
    /// Reason, for the server's records.
    #[schemars(extend("enum" = ["user_initiated", "timeout", "error", null], "default" = "user_initiated"))]
    reason: Option<String>,
}

/// A request to cancel a prompt.
#[derive(Debug, PartialEq, Eq)]
pub struct CancelPrompt {
    /// The session.
    pub session: SessionId,
    /// The prompt in it.
    pub prompt: PromptId,
    /// The client's reason.
    pub reason: CancelReason,
}

/// Decodes `POST /api/generation/cancel`.
pub fn decode_cancel(body: &[u8]) -> Result<CancelPrompt, Rejection> {
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
    Ok(CancelPrompt { session, prompt, reason })
}

/// The last `seq` that the client has: from the `Last-Event-ID` header, else from `after`. Fails if either is malformed.
pub fn resume_position(last_event_id: Option<&str>, after: Option<&str>) -> Result<Option<u64>, Rejection> {
    let position = |name: &str, given: &str| {
        given.parse().map_err(|_| {
            Rejection::Invalid(format!(
                "{name} is {given:?}; it must be the seq of a delta, a whole number from 0"
            ))
        })
    };
    let last_event_id = last_event_id.map(|id| position("Last-Event-ID", id)).transpose()?;
    let after = after.map(|after| position("after", after)).transpose()?;
    Ok(last_event_id.or(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "f47ac10b-58cc-4372-a567-0e02b2c3d479";

    fn decode(fields: &str) -> Result<Ask, Rejection> {
        let body = format!(r#"{{"sessionId":"{SESSION}","prompt":"why?"{fields}}}"#);
        decode_prompt(body.as_bytes(), None, TraceId::random())
    }

    fn message<T>(result: Result<T, Rejection>) -> String {
        match result {
            Err(Rejection::Invalid(message)) => message,
            Err(other) => panic!("refused as {other:?}"),
            Ok(_) => panic!("accepted"),
        }
    }

    #[test]
    fn a_prompt_needs_only_its_session_and_its_text() {
        let ask = decode("").unwrap();
        assert_eq!(ask.session.to_string(), SESSION);
        assert_eq!(ask.question.text, "why?");
        assert_eq!(ask.question.top_k, 5);
        assert_eq!(ask.question.scope, SearchScope::default());
        assert!(ask.question.provider.is_none() && ask.key.is_none());
    }

    #[test]
    fn null_means_absent_and_unknown_fields_are_ignored() {
        let nulls = r#","topK":null,"filters":null,"idempotencyKey":null,"provider":null,"temperature":2"#;
        assert_eq!(decode(nulls).unwrap().question, decode("").unwrap().question);
    }

    #[test]
    fn an_integer_may_be_a_float_but_not_a_string() {
        assert_eq!(decode(r#","topK":7.0"#).unwrap().question.top_k, 7);
        for wrong in [r#""7""#, "7.5", "true", "[7]"] {
            let message = message(decode(&format!(r#","topK":{wrong}"#)));
            assert!(message.starts_with("topK:"), "{message}");
        }
        for outside in ["0", "21", "-1", "1e300", "99999999999999999999"] {
            let message = message(decode(&format!(r#","topK":{outside}"#)));
            assert!(message.contains("must be 1 to 20"), "{message}");
        }
    }

    #[test]
    fn the_key_comes_from_the_body_or_the_header() {
        let with_key = format!(r#"{{"sessionId":"{SESSION}","prompt":"p","idempotencyKey":"k"}}"#);
        let without = format!(r#"{{"sessionId":"{SESSION}","prompt":"p"}}"#);
        let key =
            |body: &str, header| decode_prompt(body.as_bytes(), header, TraceId::random()).map(|ask| ask.key);
        assert_eq!(key(&with_key, None).unwrap().as_deref(), Some("k"));
        assert_eq!(key(&with_key, Some("k")).unwrap().as_deref(), Some("k"));
        assert_eq!(key(&without, Some("h")).unwrap().as_deref(), Some("h"));
        assert!(message(key(&with_key, Some("h"))).contains("send one, or the same in both"));
    }

    #[test]
    fn a_malformed_request_is_rejected_with_its_location() {
        for (body, named) in [
            ("", "not a JSON object"),
            ("{", "not JSON"),
            (r#"["s","p",null,null,null,null]"#, "not a JSON object"),
            (r#"{"prompt":"\u12"}"#, "not JSON"),
            (r#"{"prompt":"p"}"#, "missing field `sessionId`"),
            (r#"{"sessionId":"s"}"#, "missing field `prompt`"),
            (r#"{"sessionId":"s","prompt":5}"#, "prompt:"),
            (r#"{"sessionId":"s","prompt":"p"} x"#, "goes on after"),
        ] {
            let message = message(decode_prompt(body.as_bytes(), None, TraceId::random()));
            assert!(message.contains(named), "{body}: {message}");
        }
    }

    #[test]
    fn an_id_that_is_not_a_uuid_is_unknown() {
        let ask = decode_prompt(br#"{"sessionId":"mine","prompt":"p"}"#, None, TraceId::random());
        assert!(matches!(ask, Err(Rejection::SessionNotUsable)));
        let cancel = decode_cancel(br#"{"sessionId":"mine","promptId":"p"}"#);
        assert!(matches!(cancel, Err(Rejection::PromptNotFound)));
    }

    #[test]
    fn a_cancel_may_give_one_of_three_reasons() {
        let decode = |reason: &str| {
            decode_cancel(format!(r#"{{"sessionId":"{SESSION}","promptId":"{SESSION}"{reason}}}"#).as_bytes())
        };
        assert_eq!(decode("").unwrap().reason, CancelReason::UserInitiated);
        assert_eq!(decode(r#","reason":"timeout""#).unwrap().reason, CancelReason::Timeout);
        assert!(message(decode(r#","reason":"bored""#)).contains("user_initiated, timeout, error"));
    }

    #[test]
    fn the_header_has_priority_over_the_query_when_resuming() {
        assert_eq!(resume_position(None, None).unwrap(), None);
        assert_eq!(resume_position(None, Some("3")).unwrap(), Some(3));
        assert_eq!(resume_position(Some("5"), Some("3")).unwrap(), Some(5));
        for bad in ["", "-1", "x", "1.5", "99999999999999999999999"] {
            assert!(message(resume_position(Some(bad), Some("3"))).contains("Last-Event-ID"));
            assert!(message(resume_position(None, Some(bad))).contains("after"));
            assert!(message(resume_position(Some("5"), Some(bad))).contains("after"));
        }
    }

    #[test]
    fn every_documented_reason_is_accepted() {
        let schema = schemars::schema_for!(CancelRequest).to_value();
        let reasons = schema["properties"]["reason"]["enum"].as_array().expect("they are listed");
        assert_eq!(reasons.len(), 4);
        for reason in reasons {
            let body = format!(r#"{{"sessionId":"{SESSION}","promptId":"{SESSION}","reason":{reason}}}"#);
            assert!(decode_cancel(body.as_bytes()).is_ok(), "{reason}");
        }
    }

    #[test]
    fn a_session_needs_no_fields() {
        assert_eq!(decode_session(b"").unwrap(), NewSession::default());
        assert_eq!(decode_session(b" {} ").unwrap(), NewSession::default());
        let session = decode_session(br#"{"owner":"acme/wiki","context":{"environment":"dev"}}"#).unwrap();
        assert_eq!(session.owner.as_deref(), Some("acme/wiki"));
        assert_eq!(session.context["environment"], "dev");
        assert!(message(decode_session(br#"{"context":{"a":1}}"#)).starts_with("context.a:"));
    }
}
