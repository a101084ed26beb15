//! Writing HTML.

use serde_json::Value;

/// A page that is being written.
#[derive(Default)]
pub(super) struct Html(String);

impl Html {
    /// Markup as it is.
    pub(super) fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    /// An element with this markup in it, unless there is none.
    pub(super) fn element(&mut self, name: &str, markup: &str) {
        if !markup.is_empty() {
            self.0.push_str(&format!("<{name}>{markup}</{name}>"));
        }
    }

    /// A row of a table.
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

/// Text, of which nothing is markup.
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

/// A string of a description as text; nothing, if it is none.
pub(super) fn text(value: &Value) -> String {
    escape(value.as_str().unwrap_or_default())
}

/// A description as markup: what is between backticks is code, and an empty line begins a new line.
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
    fn a_description_is_text_with_code_in_it() {
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
