//! What people call a document and how they reach it: title, module, tags, and its route on a Docusaurus site.

mod route;
mod settings;

pub use route::Site;

use crate::Parsed;

/// A document's title: the one given, else its front matter's, else its first level-1 heading, else the
/// file's name.
pub fn title(given: Option<&str>, document: &Parsed<'_>, path: &str) -> String {
    let file_name = path.rsplit('/').next().unwrap_or(path);
    let candidates = [given, document.front_matter().text("title"), document.first_heading()];
    let title = candidates.into_iter().flatten().map(str::trim).find(|title| !title.is_empty());
    title.unwrap_or(file_name).to_owned()
}

/// A document's module: the one given, else the first folder below the documentation's root, where `docs/`
/// does not count, else the collection's name. The path is relative to that root.
pub fn module(given: Option<&str>, path: &str, collection: &str) -> String {
    if let Some(given) = given.map(str::trim).filter(|given| !given.is_empty()) {
        return given.to_owned();
    }
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    let mut folders = folders.split('/').filter(|folder| !folder.is_empty() && *folder != ".").peekable();
    folders.next_if_eq(&"docs");
    folders.next().unwrap_or(collection).to_owned()
}

/// A document's tags: those of its front matter.
pub fn tags<'a>(document: &'a Parsed<'_>) -> &'a [String] {
    document.front_matter().list("tags")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn a_title_is_given_or_written_or_the_files_name() {
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
