//! What model servers say when something is wrong. Each has its own shape; never on the hot path.

use serde_json::Value;

/// More than this of a server's words is not told.
const MAX_MESSAGE_CHARS: usize = 300;

/// Stands where words were cut.
pub(crate) const ELLIPSIS: char = '…';

/// An error as a server described it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Problem {
    /// In words, on one line.
    pub(crate) message: String,
    /// By name, as `code` or else `type`.
    pub(crate) code: Option<String>,
    /// The parameter it is about.
    pub(crate) param: Option<String>,
}

impl Problem {
    /// Reads a body or a frame: `{"error": "…"}`, `{"error": {"message": …}}`, `{"detail": …}`,
    /// `{"message": …}`, any of them in a list, or mere text.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        match serde_json::from_slice(bytes) {
            Ok(value) => Self::of(&value),
            Err(_) => Self::in_words(&String::from_utf8_lossy(bytes)),
        }
    }

    /// Whether the request was larger than the model's window.
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

    fn of(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let value = value.get("error").unwrap_or(value);
        let text = |key| value.get(key).and_then(Value::as_str);
        let words = value.as_str().or_else(|| text("message")).or_else(|| text("detail"));
        Self {
            code: text("code").or_else(|| text("type")).map(str::to_owned),
            param: text("param").map(str::to_owned),
            ..words.map_or_else(|| Self::in_words(&value.to_string()), Self::in_words)
        }
    }

    fn in_words(text: &str) -> Self {
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
        assert_eq!(Problem::read(body.as_bytes()).message, expected, "{body}");
    }

    #[test]
    fn every_server_is_understood() {
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
    fn the_parameter_and_the_code_are_found() {
        let body = r#"{"error":{"message":"m","type":"t","param":"temperature","code":"unsupported_value"}}"#;
        let problem = Problem::read(body.as_bytes());
        assert_eq!(problem.param.as_deref(), Some("temperature"));
        assert_eq!(problem.code.as_deref(), Some("unsupported_value"));
        assert!(!problem.is_too_long());
    }

    #[test]
    fn a_request_larger_than_the_window_is_recognized() {
        for body in [
            r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#,
            r#"{"error":{"message":"m","code":400,"type":"exceed_context_size_error"}}"#,
            r#"{"message":"This model's maximum context length is 4096 tokens."}"#,
            r#"{"error":"the input length exceeds the context length"}"#,
            r#"{"error":{"code":500,"message":"input (600 tokens) is too large to process."}}"#,
        ] {
            assert!(Problem::read(body.as_bytes()).is_too_long(), "{body}");
        }
    }

    #[test]
    fn long_words_are_cut() {
        let message = Problem::read("é".repeat(9000).as_bytes()).message;
        assert_eq!(message.chars().count(), MAX_MESSAGE_CHARS + 1);
    }

    #[test]
    fn fuzz_nearly_right_problems() {
        let bodies: [&[u8]; 6] = [
            br#"{"error":"model not found"}"#,
            br#"{"error":{"message":"too long","type":"invalid","code":"context_length_exceeded","param":"messages"}}"#,
            br#"[{"error":{"message":"quota"}}]"#,
            br#"{"detail":[{"loc":["body"],"msg":"wrong"}]}"#,
            b"<html><body>502 Bad Gateway</body></html>",
            "\u{fc}berlastet".as_bytes(),
        ];
        fuzz(&bodies, &["\"error\":", "{\"message\":", "null", "[]", "<", "\\u0000", "\\n"], |body| {
            let problem = Problem::read(body);
            assert!(problem.message.chars().count() <= MAX_MESSAGE_CHARS + 1, "{problem:?}");
            assert!(!problem.message.contains(['\n', '\r']), "{problem:?}");
        });
    }
}
