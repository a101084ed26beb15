//! A writer of HTML.

use serde_json::Value;

/// An HTML page under construction.
#[derive(Default)]
pub(super) struct Html(String);

impl Html {
    /// Appends markup unchanged.
    pub(super) fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    /// Appends an element with this markup in it, unless that is empty.
    pub(super) fn element(&mut self, name: &str, markup: &str) {
        if !markup.is_empty() {
            self.0.push_str(&format!("<{name}>{markup}</{name}>"));
        }
    }

    /// Appends a row of a table.
    pub(super) fn row(&mut self, cells: &[String]) {
        self.0.push_str("<tr>");
        for cell in cells {
            self.0.push_str(&format!("<td>{cell}</td>"));
        }
        self.0.push_str("</tr>");
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// Escapes text for HTML.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A JSON string as escaped text; empty for any other value.
pub(super) fn text(value: &Value) -> String {
    escape(value.as_str().unwrap_or_default())
}

/// A description as markup: backticks become code, and an empty line becomes a line break.
pub(super) fn prose(value: &Value) -> String {
    let escaped = text(value).replace("\n\n", "<br>");
    let mut parts = escaped.split('`');
    let mut markup = parts.next().unwrap_or_default().to_owned();
    while let (Some(code), rest) = (parts.next(), parts.next()) {
        markup.push_str(&format!("<code>{code}</code>{}", rest.unwrap_or_default()));
    }
    markup
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn backticks_become_code_and_the_rest_is_escaped() {
        for (given, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("`a` and `b<c`", "<code>a</code> and <code>b&lt;c</code>"),
            ("one\n\ntwo", "one<br>two"),
            ("\"<script>\"", "&quot;&lt;script&gt;&quot;"),
            ("half `open", "half <code>open</code>"),
        ] {
            assert_eq!(prose(&json!(given)), expected);
        }
    }
}
