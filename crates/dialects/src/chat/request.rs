//! Requests of the chat dialect.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use domain::{
    Ask, FilterField, OnDisconnect, Question, Rejection, SearchScope, SessionId, SessionPolicy, TOP_K,
    TraceId, WhenNothingFound,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::Value;

use super::provenance::ModeWire;
use crate::{fields, filters, json};

const QUERY_CHARS: usize = 2_000;
const SELECTION_CHARS: usize = 10_000;
const THRESHOLD: RangeInclusive<f64> = 0.0..=1.0;

/// Request body for /chat and /chat/stream endpoints.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "if" = {"required": ["mode"], "properties": {"mode": {"const": "selected_text"}}},
    "then" = {"required": ["selected_text"], "properties": {"selected_text": {"type": "string", "minLength": 1}}},
))]
pub struct ChatRequest {
    /// User's question
    #[schemars(
        length(min = 1, max = QUERY_CHARS),
        regex(pattern = fields::NOT_BLANK),
        extend("examples" = ["What is ROS 2?"])
    )]
    query: String,
    /// Client-generated UUID for conversation grouping
    #[schemars(regex(pattern = fields::LOWER_CASE_UUID))]
    session_id: Option<String>,
    /// Query mode
    #[schemars(with = "Option<ModeWire>", extend("default" = "general"))]
    mode: Option<String>,
    /// User-provided text for selected_text mode
    #[schemars(length(max = SELECTION_CHARS))]
    selected_text: Option<String>,
    /// Number of chunks to retrieve
    #[serde(default, deserialize_with = "json::integer")]
    #[schemars(range(min = *TOP_K.start(), max = *TOP_K.end()), extend("default" = fields::DEFAULT_TOP_K))]
    top_k: Option<i64>,
    /// Minimum similarity score
    #[schemars(range(min = *THRESHOLD.start(), max = *THRESHOLD.end()))]
    score_threshold: Option<f64>,
    /// Metadata filters (source_url, page_title, section_heading)
    #[serde(default)]
    #[schemars(schema_with = "filters_schema")]
    filters: Option<BTreeMap<String, Value>>,
}

/// Decodes `POST /chat` and this dialect's `POST /chat/stream`. Without a session id the question opens session `fresh`.
pub fn decode(body: &[u8], fresh: SessionId, trace: TraceId) -> Result<Ask, Rejection> {
    let request: ChatRequest = json::parse(body)?;
    let text = fields::question("query", request.query, QUERY_CHARS)?;
    let session = request.session_id.as_deref().map(fields::session_in_body).transpose()?;
    let top_k = fields::top_k("top_k", request.top_k)?;
    let threshold = request.score_threshold.map(threshold).transpose()?;
    let filters = filters::decode(request.filters.unwrap_or_default(), &FILTERS)?;
    let selection = request.selected_text.map(|text| fields::bounded("selected_text", text, SELECTION_CHARS));
    let selection = selection.transpose()?.filter(|text| !text.is_empty());
    let scope = match (request.mode.as_deref(), selection) {
        (None | Some("general"), _) => SearchScope::Knowledge(filters),
        (Some("selected_text"), Some(text)) => SearchScope::Selection(text.into()),
        (Some("selected_text"), None) => {
            return Err(Rejection::Invalid(
                "selected_text is required when mode is selected_text, and must not be empty".to_owned(),
            ));
        }
        (Some(other), _) => {
            return Err(Rejection::Invalid(format!("mode is {other:?}; allowed: general, selected_text")));
        }
    };
    Ok(Ask {
        session: session.unwrap_or(fresh),
        session_policy: SessionPolicy::CreateIfMissing,
        question: Question { text, top_k, scope, threshold, provider: None },
        when_nothing_found: WhenNothingFound::SaySo,
        on_disconnect: OnDisconnect::Cancel,
        key: None,
        trace,
    })
}

const FILTERS: [(&str, FilterField); 3] = [
    ("source_url", FilterField::SourceUrl),
    ("page_title", FilterField::Title),
    ("section_heading", FilterField::SectionHeading),
];

fn filters_schema(_: &mut SchemaGenerator) -> Schema {
    filters::schema(&FILTERS)
}

fn threshold(given: f64) -> Result<f32, Rejection> {
    if !THRESHOLD.contains(&given) {
        let (least, most) = (THRESHOLD.start(), THRESHOLD.end());
        return Err(Rejection::Invalid(format!("score_threshold is {given}; it must be {least} to {most}")));
    }
    #[expect(clippy::cast_possible_truncation, reason = "scores are f32 too")]
    Ok(given as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "f47ac10b-58cc-4372-a567-0e02b2c3d479";

    fn fresh() -> SessionId {
        "0190a0b0-0000-7000-8000-000000000001".parse().unwrap()
    }

    fn decode_with(fields: &str) -> Result<Ask, Rejection> {
        decode(format!(r#"{{"query":"why?"{fields}}}"#).as_bytes(), fresh(), TraceId::random())
    }

    fn message(fields: &str) -> String {
        match decode_with(fields) {
            Err(Rejection::Invalid(message)) => message,
            other => panic!("{fields}: {other:?}"),
        }
    }

    #[test]
    fn a_question_needs_only_its_text_and_gets_a_fresh_session() {
        let ask = decode_with("").unwrap();
        assert_eq!((ask.session, ask.session_policy), (fresh(), SessionPolicy::CreateIfMissing));
        assert_eq!(
            (ask.when_nothing_found, ask.on_disconnect),
            (WhenNothingFound::SaySo, OnDisconnect::Cancel)
        );
        assert_eq!((ask.question.top_k, &ask.question.scope), (5, &SearchScope::default()));
        assert_eq!(
            decode_with(&format!(r#","session_id":"{SESSION}""#)).unwrap().session.to_string(),
            SESSION
        );
    }

    #[test]
    fn null_means_absent_and_unknown_fields_are_ignored() {
        let nulls = r#","session_id":null,"mode":null,"selected_text":null,"top_k":null,"score_threshold":null,"filters":null,"temperature":1"#;
        assert_eq!(decode_with(nulls).unwrap().question, decode_with("").unwrap().question);
    }

    #[test]
    fn filters_and_a_threshold_are_decoded() {
        let fields = r#","top_k":7.0,"score_threshold":0.25,"filters":{"source_url":"/a","page_title":["A","B"],"section_heading":"C","metadata.team":"core"}"#;
        let question = decode_with(fields).unwrap().question;
        assert_eq!(question.top_k, 7);
        assert_eq!(question.threshold, Some(0.25));
        let SearchScope::Knowledge(filters) = question.scope else { panic!() };
        let fields: Vec<_> = filters.keys().cloned().collect();
        let metadata = FilterField::Metadata("team".to_owned());
        assert_eq!(
            fields,
            [FilterField::Title, FilterField::SourceUrl, FilterField::SectionHeading, metadata]
        );
        assert_eq!(filters[&FilterField::Title].len(), 2);
    }

    #[test]
    fn a_selection_is_the_scope_only_in_its_mode() {
        let selected = r#","selected_text":"Water runs.""#;
        assert_eq!(decode_with(selected).unwrap().question.scope, SearchScope::default());
        let scope = decode_with(&format!(r#"{selected},"mode":"selected_text""#)).unwrap().question.scope;
        assert_eq!(scope, SearchScope::Selection("Water runs.".into()));
    }

    #[test]
    fn a_wrong_field_is_named() {
        for (fields, named) in [
            (r#","mode":"selected_text""#, "selected_text is required"),
            (r#","mode":"selected_text","selected_text":"""#, "selected_text is required"),
            (r#","mode":"Selected""#, "mode is \"Selected\"; allowed: general, selected_text"),
            (r#","mode":1"#, "mode:"),
            (r#","session_id":"F47AC10B-58CC-4372-A567-0E02B2C3D479""#, "session_id is"),
            (r#","session_id":"f47ac10b58cc4372a5670e02b2c3d479""#, "session_id is"),
            (r#","top_k":0"#, "top_k is 0; it must be 1 to 20"),
            (r#","top_k":"5""#, "top_k:"),
            (r#","score_threshold":1.01"#, "score_threshold is 1.01; it must be 0 to 1"),
            (r#","score_threshold":"0.5""#, "score_threshold:"),
            (
                r#","filters":{"repoUrl":"x"}"#,
                "allowed: source_url, page_title, section_heading, metadata.KEY",
            ),
            (r#","filters":["x"]"#, "filters:"),
        ] {
            let message = message(fields);
            assert!(message.contains(named), "{fields}: {message}");
        }
    }
}
