//! Front matter: the flat part of YAML, texts and lists of texts. Maps, block scalars and YAML anchors are
//! ignored, so no front matter makes a page invalid.

use std::collections::BTreeMap;

use crate::parse::lines;

/// The fields between two lines of `---` at the start of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontMatter {
    fields: BTreeMap<String, Vec<String>>,
}

impl FrontMatter {
    /// The text of a field; `None` for a list.
    pub fn text(&self, field: &str) -> Option<&str> {
        match self.fields.get(field)?.as_slice() {
            [text] if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The list of a field; a single text is a list of one.
    pub fn list(&self, field: &str) -> &[String] {
        self.fields.get(field).map_or(&[], Vec::as_slice)
    }

    /// The front matter of a page, and the start of the page's body.
    pub(super) fn parse(page: &str) -> (Self, usize) {
        let mut lines = lines::lines(page);
        let is_fence = |line: &str| line.trim_end() == "---";
        if !lines.next().is_some_and(|(_, line)| is_fence(line.trim_start_matches('\u{feff}'))) {
            return (Self::default(), 0);
        }
        let mut fields = FieldParser::default();
        for (start, line) in lines {
            if is_fence(line) {
                return (Self { fields: fields.parsed }, start + line.len());
            }
            fields.add_line(line.trim_end());
        }
        (Self::default(), 0)
    }
}

#[derive(Default)]
struct FieldParser {
    parsed: BTreeMap<String, Vec<String>>,
    /// The field whose list may follow, one `- item` per line.
    open: Option<String>,
}

impl FieldParser {
    fn add_line(&mut self, line: &str) {
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            return;
        }
        if let Some(item) = content.strip_prefix("- ") {
            self.add_item(item);
            return;
        }
        // An indented line belongs to a nested value.
        if content.len() < line.len() {
            return;
        }
        self.open = None;
        let Some((name, value)) = content.split_once(':') else { return };
        let name = unquoted(name.trim()).to_owned();
        if value.starts_with(|next: char| !next.is_whitespace()) {
            return;
        }
        match value.trim() {
            "" => self.open = Some(name),
            value if value.starts_with(['|', '>', '{', '&', '*', '!']) => {}
            value => {
                self.parsed.insert(name, values(value));
            }
        }
    }

    fn add_item(&mut self, item: &str) {
        let Some(name) = &self.open else { return };
        if let Some(value) = scalar(item.trim()) {
            self.parsed.entry(name.clone()).or_default().push(value);
        }
    }
}

fn values(value: &str) -> Vec<String> {
    let Some(list) = value.strip_prefix('[') else { return scalar(value).into_iter().collect() };
    let Some((list, _)) = list.rsplit_once(']') else { return Vec::new() };
    items(list).filter_map(|item| scalar(item.trim())).filter(|item| !item.is_empty()).collect()
}

/// The items of a list in brackets, split at commas outside of quotes.
fn items(list: &str) -> impl Iterator<Item = &str> {
    let mut quote = None;
    list.split(move |character| {
        match quote {
            Some(open) if open == character => quote = None,
            None if matches!(character, '"' | '\'') => quote = Some(character),
            _ => {}
        }
        quote.is_none() && character == ','
    })
}

/// A text without quotes or comment; `None` for a map.
fn scalar(value: &str) -> Option<String> {
    if let Some(rest) = value.strip_prefix('"') {
        return Some(double_quoted(rest));
    }
    if value.starts_with('\'') {
        return Some(unquoted(value).replace("''", "'"));
    }
    let value = value.split(" #").next().unwrap_or_default().trim_end();
    let is_map = value.starts_with('{') || value.contains(": ") || value.ends_with(':');
    (!is_map).then(|| value.to_owned())
}

fn double_quoted(rest: &str) -> String {
    let mut text = String::new();
    let mut characters = rest.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => match characters.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(escaped) => text.push(escaped),
                None => {}
            },
            _ => text.push(character),
        }
    }
    text
}

/// The text between the first and the last quote, if it begins with one.
fn unquoted(text: &str) -> &str {
    let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) else { return text };
    let inner = &text[1..];
    inner.rsplit_once(quote).map_or(inner, |(inner, _)| inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &str) -> FrontMatter {
        let page = format!("---\n{fields}\n---\nbody");
        let (front_matter, start) = FrontMatter::parse(&page);
        assert_eq!(&page[start..], "body");
        front_matter
    }

    #[test]
    fn a_text_may_be_plain_or_quoted() {
        let page =
            read("title: Getting started # here\nslug: \"/a \\\"b\\\"\"\nid: 'it''s'\nsidebar_position: 3");
        assert_eq!(page.text("title"), Some("Getting started"));
        assert_eq!(page.text("slug"), Some("/a \"b\""));
        assert_eq!(page.text("id"), Some("it's"));
        assert_eq!(page.text("sidebar_position"), Some("3"));
        assert_eq!(page.text("description"), None);
    }

    #[test]
    fn a_list_is_in_brackets_or_one_item_per_line() {
        let page =
            read("tags: [rust, \"a, b\", 'c']\nkeywords:\n  - one\n  - 'two'\nauthors:\n- me\nempty: []");
        assert_eq!(page.list("tags"), ["rust", "a, b", "c"]);
        assert_eq!(page.list("keywords"), ["one", "two"]);
        assert_eq!(page.list("authors"), ["me"]);
        assert!(page.list("empty").is_empty());
        assert_eq!(page.text("tags"), None);
    }

    #[test]
    fn nested_yaml_is_ignored() {
        let page = read(
            "last_update:\n  date: 2024\n  author: me\nnote: >\n  long: text\ntags:\n  - label: x\n  - plain\nhttp://x\n: \ntitle: T",
        );
        assert_eq!(page.text("title"), Some("T"));
        assert_eq!(page.list("tags"), ["plain"]);
        assert_eq!(page.text("date"), None);
        assert_eq!(page.text("long"), None);
        assert_eq!(page.text("note"), None);
    }

    #[test]
    fn a_title_may_contain_a_colon_when_it_is_quoted() {
        assert_eq!(read("title: \"Rust: the book\"").text("title"), Some("Rust: the book"));
    }

    #[test]
    fn front_matter_needs_both_fences_at_the_start_of_the_page() {
        for page in ["---\ntitle: T\n", "--- \n", "text\n---\na: b\n---\n", "----\na: b\n---\n", ""] {
            assert_eq!(FrontMatter::parse(page), (FrontMatter::default(), 0), "{page:?}");
        }
    }

    #[test]
    fn crlf_and_a_byte_order_mark_are_accepted() {
        let (front_matter, start) = FrontMatter::parse("\u{feff}---\r\ntitle: T\r\n---\r\nbody");
        assert_eq!(front_matter.text("title"), Some("T"));
        assert_eq!(start, "\u{feff}---\r\ntitle: T\r\n---\r\n".len());
    }
}
