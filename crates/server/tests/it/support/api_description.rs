//! Checks every response of the tests against the OpenAPI document: its status, its media type, and its body
//! by its schema. So the document also describes errors that only a test provokes.

use std::sync::LazyLock;

use serde_json::{Value, json};

/// The committed document, which is the served one.
static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../../contracts/openapi.json");
    serde_json::from_str(text).expect("the description is JSON")
});

/// The description of a response of one operation.
pub(crate) struct DescribedResponse {
    response: &'static Value,
    request: String,
}

impl DescribedResponse {
    /// Finds the description of a response; panics if this status is not described. `None` for unknown paths
    /// and methods.
    pub(crate) fn find(method: &str, target: &str, status: u16) -> Option<Self> {
        let path = target.split('?').next().unwrap_or_default();
        let paths = DESCRIPTION["paths"].as_object().expect("the document has paths");
        // Paths without parameters take precedence, as in the server.
        let mut matching: Vec<_> = paths.iter().filter(|(template, _)| matches(template, path)).collect();
        matching.sort_by_key(|(template, _)| template.contains('{'));
        let operation = matching.first()?.1.get(method.to_ascii_lowercase())?;
        let request = format!("{method} {target}: {status}");
        let response = operation["responses"].get(status.to_string());
        let response = response.unwrap_or_else(|| panic!("{request} is not described"));
        let response = match response["$ref"].as_str() {
            Some(reference) => DESCRIPTION.pointer(&reference[1..]).expect("references resolve"),
            None => response,
        };
        Some(Self { response, request })
    }

    /// Checks a complete body.
    pub(crate) fn check(&self, content_type: Option<&str>, body: &[u8]) {
        let Self { response, request } = self;
        let Some(content_type) = content_type else {
            assert!(
                body.is_empty() && response.get("content").is_none(),
                "{request}: it has no content type"
            );
            return;
        };
        let media_type = content_type.split(';').next().unwrap_or_default();
        let schema = &response["content"][media_type]["schema"];
        assert!(!schema.is_null(), "{request}: {media_type} is not described");
        let text = String::from_utf8_lossy(body);
        match media_type {
            "application/json" => check(schema, [&*text], request),
            "application/x-ndjson" => check(&schema["items"], text.lines(), request),
            "text/event-stream" => {
                let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
                check(&schema["properties"]["data"]["contentSchema"], data, request);
            }
            _ => {}
        }
    }
}

fn matches(template: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted == given || wanted.starts_with('{') => {}
            _ => return false,
        }
    }
}

fn check<'a>(schema: &Value, texts: impl IntoIterator<Item = &'a str>, request: &str) {
    let schema = json!({"allOf": [schema], "components": DESCRIPTION["components"]});
    let validator = jsonschema::draft202012::options().should_validate_formats(true).build(&schema);
    let validator = validator.expect("the schema is valid");
    for text in texts {
        let value: Value =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{request}: {error}: {text}"));
        let wrong: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{request}: {wrong:?}: {value}");
    }
}
