//! Derives the names of a document: title, module, tags and its route on a Docusaurus site.

mod docusaurus_config;
mod route;

pub use route::DocusaurusSite;

use crate::ParsedDocument;

/// The title: the given one, or else that of the front matter, the first level-1 heading, or the file name.
pub fn title(given: Option<&str>, document: &ParsedDocument<'_>, path: &str) -> String {
    let file_name = path.rsplit('/').next().unwrap_or(path);
    let candidates = [given, document.front_matter().text("title"), document.first_heading()];
    let title = candidates.into_iter().flatten().map(str::trim).find(|title| !title.is_empty());
    title.unwrap_or(file_name).to_owned()
}

/// The module: the given one, or else the first folder of the path other than `docs/`, or the collection. The
/// path is relative to the root of the documentation.
pub fn module(given: Option<&str>, path: &str, collection: &str) -> String {
    if let Some(given) = given.map(str::trim).filter(|given| !given.is_empty()) {
        return given.to_owned();
    }
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    let mut folders = folders.split('/').filter(|folder| !folder.is_empty() && *folder != ".").peekable();
    folders.next_if_eq(&"docs");
    folders.next().unwrap_or(collection).to_owned()
}

/// The tags of the front matter.
pub fn tags<'a>(document: &'a ParsedDocument<'_>) -> &'a [String] {
    document.front_matter().list("tags")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn a_title_is_given_or_written_or_the_file_name() {
        let page = "---\ntitle: Written\n---\n# Heading\n";
        let title = |given, text| title(given, &parse("guide/page.md", text), "guide/page.md");
        assert_eq!(title(Some("Given"), page), "Given");
        assert_eq!(title(Some(" "), page), "Written");
        assert_eq!(title(None, page), "Written");
        assert_eq!(title(None, "## Second\n# *First* `one`\n# Other"), "First one");
        assert_eq!(title(None, "no heading"), "page.md");
        assert_eq!(title(None, "#\n\ntext"), "page.md");
    }

    #[test]
    fn a_module_is_the_first_folder_that_is_not_docs() {
        let module = |path| module(None, path, "handbook");
        assert_eq!(module("docs/control/intro.md"), "control");
        assert_eq!(module("docs/intro.md"), "handbook");
        assert_eq!(module("guide/deep/intro.md"), "guide");
        assert_eq!(module("./guide/docs/intro.md"), "guide");
        assert_eq!(module("intro.md"), "handbook");
        assert_eq!(super::module(Some("mine"), "guide/intro.md", "handbook"), "mine");
    }

    #[test]
    fn tags_are_those_of_the_front_matter() {
        assert_eq!(tags(&parse("a.md", "---\ntags: [a, b]\n---\n")), ["a", "b"]);
        assert!(tags(&parse("a.rs", "---\ntags: [a, b]\n---\n")).is_empty());
    }
}
