//! What a page says about itself before it begins: the flat part of YAML, strings and lists of strings. What
//! is not flat (maps, block scalars, anchors) is passed over: a page is never refused for its front matter.

use std::collections::BTreeMap;

use crate::lines;

/// Fields between two lines of `---` at the very beginning of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontMatter {
    fields: BTreeMap<String, Vec<String>>,
}

impl FrontMatter {
    /// A field's text. A list has none.
    pub fn text(&self, field: &str) -> Option<&str> {
        match self.fields.get(field)?.as_slice() {
            [text] if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// A field's list; a single text is a list of one.
    pub fn list(&self, field: &str) -> &[String] {
        self.fields.get(field).map_or(&[], Vec::as_slice)
    }

    /// The front matter of a page and where the page itself begins.
    pub(super) fn read(page: &str) -> (Self, usize) {
        let mut lines = lines::lines(page);
        let is_fence = |line: &str| line.trim_end() == "---";
        if !lines.next().is_some_and(|(_, line)| is_fence(line.trim_start_matches('\u{feff}'))) {
            return (Self::default(), 0);
        }
        let mut fields = Fields::default();
        for (start, line) in lines {
            if is_fence(line) {
                return (Self { fields: fields.done }, start + line.len());
            }
            fields.take(line.trim_end());
        }
        (Self::default(), 0)
    }
}

/// The fields read so far.
#[derive(Default)]
struct Fields {
    done: BTreeMap<String, Vec<String>>,
    /// The field whose list may follow, one `- item` a line.
    open: Option<String>,
}

impl Fields {
    fn take(&mut self, line: &str) {
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            return;
        }
        if let Some(item) = content.strip_prefix("- ") {
            self.take_item(item);
            return;
        }
        // What is indented belongs to something that is not flat.
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
                self.done.insert(name, values(value));
            }
        }
    }

    fn take_item(&mut self, item: &str) {
        let Some(name) = &self.open else { return };
        if let Some(value) = scalar(item.trim()) {
            self.done.entry(name.clone()).or_default().push(value);
        }
    }
}

fn values(value: &str) -> Vec<String> {
    let Some(list) = value.strip_prefix('[') else { return scalar(value).into_iter().collect() };
    let Some((list, _)) = list.rsplit_once(']') else { return Vec::new() };
    items(list).filter_map(|item| scalar(item.trim())).filter(|item| !item.is_empty()).collect()
}

/// The items of a list in brackets. A comma in quotes separates nothing.
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

/// A text without its quotes or its comment; nothing for a map.
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
        let (front_matter, start) = FrontMatter::read(&page);
        assert_eq!(&page[start..], "body");
        front_matter
    }

    #[test]
    fn texts_may_be_bare_or_in_quotes() {
        let page =
            read("title: Getting started # here\nslug: \"/a \\\"b\\\"\"\nid: 'it''s'\nsidebar_position: 3");
        assert_eq!(page.text("title"), Some("Getting started"));
        assert_eq!(page.text("slug"), Some("/a \"b\""));
        assert_eq!(page.text("id"), Some("it's"));
        assert_eq!(page.text("sidebar_position"), Some("3"));
        assert_eq!(page.text("description"), None);
    }

    #[test]
    fn lists_have_two_forms() {
        let page =
            read("tags: [rust, \"a, b\", 'c']\nkeywords:\n  - one\n  - 'two'\nauthors:\n- me\nempty: []");
        assert_eq!(page.list("tags"), ["rust", "a, b", "c"]);
        assert_eq!(page.list("keywords"), ["one", "two"]);
        assert_eq!(page.list("authors"), ["me"]);
        assert!(page.list("empty").is_empty());
        assert_eq!(page.text("tags"), None);
    }

    #[test]
    fn what_is_not_flat_is_passed_over() {
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
    fn a_page_without_a_closing_fence_has_no_front_matter() {
        for page in ["---\ntitle: T\n", "--- \n", "text\n---\na: b\n---\n", "----\na: b\n---\n", ""] {
            assert_eq!(FrontMatter::read(page), (FrontMatter::default(), 0), "{page:?}");
        }
    }

    #[test]
    fn line_ends_and_a_byte_order_mark_do_not_matter() {
        let (front_matter, start) = FrontMatter::read("\u{feff}---\r\ntitle: T\r\n---\r\nbody");
        assert_eq!(front_matter.text("title"), Some("T"));
        assert_eq!(start, "\u{feff}---\r\ntitle: T\r\n---\r\n".len());
    }
}
