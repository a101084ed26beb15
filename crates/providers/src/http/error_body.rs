//! Error bodies of model servers. Every server has its own shape.

use serde_json::Value;

/// Upper bound in characters on a server's own message.
const MAX_MESSAGE_CHARS: usize = 300;

/// Marks the end of a message that was cut.
pub(crate) const ELLIPSIS: char = '…';

/// An error as a server described it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorBody {
    /// The server's message, on one line.
    pub(crate) message: String,
    /// The `code`, or else the `type`.
    pub(crate) code: Option<String>,
    /// The parameter that is wrong.
    pub(crate) param: Option<String>,
}

impl ErrorBody {
    /// Parses a body or a frame: `{"error": "…"}`, `{"error": {"message": …}}`, `{"detail": …}`, `{"message": …}`, any
    /// of them in a list, or plain text.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        match serde_json::from_slice(bytes) {
            Ok(value) => Self::from_json(&value),
            Err(_) => Self::from_text(&String::from_utf8_lossy(bytes)),
        }
    }

    /// Whether the error is that the request is larger than the model's window.
    pub(crate) fn is_too_long(&self) -> bool {
        const CODES: [&str; 2] = ["context_length_exceeded", "exceed_context_size_error"];
        const WORDS: [&str; 6] = [
            "maximum context length",
            "exceeds the context length",
            "context window",
            "context size",
            "input token count",
            "too large to process",
        ];
        self.code.as_ref().is_some_and(|code| CODES.contains(&code.as_str()))
            || WORDS.iter().any(|words| self.message.contains(words))
    }

    fn from_json(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let value = value.get("error").unwrap_or(value);
        let text = |key| value.get(key).and_then(Value::as_str);
        let message = value.as_str().or_else(|| text("message")).or_else(|| text("detail"));
        Self {
            code: text("code").or_else(|| text("type")).map(str::to_owned),
            param: text("param").map(str::to_owned),
            ..message.map_or_else(|| Self::from_text(&value.to_string()), Self::from_text)
        }
    }

    fn from_text(text: &str) -> Self {
        if text.trim_start().starts_with('<') {
            return Self { message: "a web page".to_owned(), ..Self::default() };
        }
        let mut message = String::new();
        for word in text.split_whitespace() {
            if !message.is_empty() {
                message.push(' ');
            }
            message.push_str(word);
        }
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE_CHARS) {
            message.truncate(end);
            message.push(ELLIPSIS);
        }
        Self { message, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use testing::fuzz;

    use super::*;

    fn check(body: &str, expected: &str) {
        assert_eq!(ErrorBody::parse(body.as_bytes()).message, expected, "{body}");
    }

    #[test]
    fn error_bodies_of_every_server_are_understood() {
        check(r#"{"error":"model 'x' not found"}"#, "model 'x' not found");
        check(r#"{"error":{"message":"no\n such key","type":"auth"}}"#, "no such key");
        check(r#"[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]"#, "bad");
        check(r#"{"object":"error","message":"too many","code":429}"#, "too many");
        check(r#"{"detail":"Not Found"}"#, "Not Found");
        check(r#"{"detail":[{"loc":["body"]}]}"#, r#"{"detail":[{"loc":["body"]}]}"#);
        check("upstream connect error", "upstream connect error");
        check("<html><body>502</body></html>", "a web page");
        check("", "");
    }

    #[test]
    fn a_body_names_the_parameter_and_the_code() {
        let body = r#"{"error":{"message":"m","type":"t","param":"temperature","code":"unsupported_value"}}"#;
        let error = ErrorBody::parse(body.as_bytes());
        assert_eq!(error.param.as_deref(), Some("temperature"));
        assert_eq!(error.code.as_deref(), Some("unsupported_value"));
        assert!(!error.is_too_long());
    }

    #[test]
    fn a_context_length_error_is_recognized() {
        for body in [
            r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#,
            r#"{"error":{"message":"m","code":400,"type":"exceed_context_size_error"}}"#,
            r#"{"message":"This model's maximum context length is 4096 tokens."}"#,
            r#"{"error":"the input length exceeds the context length"}"#,
            r#"{"error":{"code":500,"message":"input (600 tokens) is too large to process."}}"#,
        ] {
            assert!(ErrorBody::parse(body.as_bytes()).is_too_long(), "{body}");
        }
    }

    #[test]
    fn a_long_message_is_cut() {
        let message = ErrorBody::parse("é".repeat(9000).as_bytes()).message;
        assert_eq!(message.chars().count(), MAX_MESSAGE_CHARS + 1);
    }

    #[test]
    fn fuzz_nearly_right_error_bodies() {
        let bodies: [&[u8]; 6] = [
            br#"{"error":"model not found"}"#,
            br#"{"error":{"message":"too long","type":"invalid","code":"context_length_exceeded","param":"messages"}}"#,
            br#"[{"error":{"message":"quota"}}]"#,
            br#"{"detail":[{"loc":["body"],"msg":"wrong"}]}"#,
            b"<html><body>502 Bad Gateway</body></html>",
            "\u{fc}berlastet".as_bytes(),
        ];
        fuzz(&bodies, &["\"error\":", "{\"message\":", "null", "[]", "<", "\\u0000", "\\n"], |body| {
            let error = ErrorBody::parse(body);
            assert!(error.message.chars().count() <= MAX_MESSAGE_CHARS + 1, "{error:?}");
            assert!(!error.message.contains(['\n', '\r']), "{error:?}");
        });
    }
}
