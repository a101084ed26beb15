//! What the contract says of every delta and of every complete stream, beyond the published schema.

use std::sync::LazyLock;

use jsonschema::{Draft, Validator};
use serde_json::Value;
use uuid::Uuid;

/// Checks a stream from its first delta to its last.
pub(crate) fn check_whole(deltas: &[Value]) {
    for (seq, delta) in deltas.iter().enumerate() {
        assert_eq!(delta["seq"], seq, "no gap: {deltas:?}");
        let is_last = seq + 1 == deltas.len();
        assert_eq!(delta["type"] != "token", is_last, "one terminal delta, the last: {deltas:?}");
    }
    let last = deltas.last().expect("a stream has a terminal delta");
    if last["type"] == "done" {
        assert_eq!(last["metadata"]["tokenCount"], deltas.len() - 1, "{last}");
    }
}

/// Checks one delta against the schema and the contract's rules for its type.
pub(crate) fn check_delta(delta: &Value) {
    assert!(schema().is_valid(delta), "the schema rejects {delta}");
    let fields = |value: &Value| -> Vec<String> {
        value.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
    };
    let check_fields = |value: &Value, required: &[&str], optional: &[&str]| {
        let given = fields(value);
        required
            .iter()
            .for_each(|name| assert!(given.iter().any(|field| field == name), "no {name}: {delta}"));
        let known = |field: &String| required.contains(&field.as_str()) || optional.contains(&field.as_str());
        assert!(given.iter().all(known), "{delta}");
        assert!(given.iter().all(|field| !value[field].is_null()), "{delta}");
    };
    match delta["type"].as_str().unwrap_or_default() {
        "token" => {
            check_fields(delta, &["promptId", "type", "seq", "text", "role"], &[]);
            assert_ne!(delta["text"], "", "{delta}");
            assert_eq!(delta["role"], "assistant", "{delta}");
        }
        "done" => {
            check_fields(delta, &["promptId", "type", "seq", "role", "metadata"], &[]);
            assert_eq!(delta["role"], "assistant", "{delta}");
            check_fields(&delta["metadata"], &DONE, &DONE_OPTIONAL);
            let cancelled = delta["metadata"]["finishReason"] == "cancelled";
            assert_eq!(delta["metadata"].get("cancelled").is_some(), cancelled, "{delta}");
        }
        "error" => {
            check_fields(delta, &["promptId", "type", "seq", "role", "metadata"], &[]);
            assert_eq!(delta["role"], "system", "{delta}");
            check_fields(
                &delta["metadata"],
                &["code", "message", "retryable"],
                &["retryAfterMs", "idempotencyKey"],
            );
        }
        other => panic!("{other}: {delta}"),
    }
}

const DONE: [&str; 7] =
    ["tokenCount", "finishReason", "provider", "model", "tokensPerSecond", "retrievalMs", "sources"];
/// An answer without a token has no time to its first one.
const DONE_OPTIONAL: [&str; 4] = ["timeToFirstTokenMs", "cachedTokens", "idempotencyKey", "cancelled"];

/// The published schema. Draft 7 has no format `uuid`, so it is defined here.
pub(crate) fn schema() -> &'static Validator {
    static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
        let schema = include_str!("../../../../../contracts/generation-delta.schema.json");
        let schema: Value = serde_json::from_str(schema).expect("the schema is JSON");
        let is_uuid = |text: &str| text.len() == 36 && Uuid::try_parse(text).is_ok();
        let options = jsonschema::options().with_draft(Draft::Draft7).should_validate_formats(true);
        options.with_format("uuid", is_uuid).build(&schema).expect("the schema is valid")
    });
    &SCHEMA
}
