//! Routes of pages by the rules of Docusaurus.

use crate::FrontMatter;

/// A Docusaurus site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocusaurusSite {
    /// The folder of its pages, relative to the root of the documents' paths.
    pub folder: String,
    /// The common prefix of its routes: the site's base URL and the route base of its docs.
    pub route_base: String,
}

impl Default for DocusaurusSite {
    fn default() -> Self {
        Self { folder: "docs".to_owned(), route_base: "/docs".to_owned() }
    }
}

impl DocusaurusSite {
    /// The route of the page at this path, with the fragment of a heading; `None` for a file that is no page.
    pub fn route(&self, path: &str, front_matter: &FrontMatter, anchor: Option<&str>) -> Option<String> {
        let page = Page::of(path, &self.folder)?;
        let mut route = Route::default();
        route.push_path(&self.route_base);
        route.base = route.segments.len();
        page.add_to(&mut route, front_matter);
        Some(route.finish(anchor))
    }
}

/// A page by its path below the site's folder.
struct Page<'a> {
    folders: &'a str,
    name: &'a str,
}

impl<'a> Page<'a> {
    fn of(path: &'a str, site_folder: &str) -> Option<Self> {
        let path = path.trim_start_matches("./");
        let below = match site_folder.trim_matches('/') {
            "" | "." => path,
            folder => path.strip_prefix(folder)?.strip_prefix('/')?,
        };
        let (folders, file) = below.rsplit_once('/').unwrap_or(("", below));
        let name = file.strip_suffix(".md").or_else(|| file.strip_suffix(".mdx"))?;
        // A name with a leading underscore is a partial, which other pages include.
        let is_partial = below.split('/').any(|name| name.starts_with('_'));
        (!is_partial).then_some(Self { folders, name })
    }

    fn add_to(&self, route: &mut Route, front_matter: &FrontMatter) {
        let slug = front_matter.text("slug");
        if let Some(absolute) = slug.filter(|slug| slug.starts_with('/')) {
            route.push_path(absolute);
            return;
        }
        for folder in self.folders.split('/') {
            route.push(without_number(folder));
        }
        route.ends_with_slash = true;
        match slug {
            Some(slug) => route.push_path(slug),
            None if self.is_index() => {}
            None => route.push_path(front_matter.text("id").unwrap_or(without_number(self.name))),
        }
    }

    fn is_index(&self) -> bool {
        let name = self.name.to_lowercase();
        let folder = self.folders.rsplit('/').next().unwrap_or_default().to_lowercase();
        name == "index" || name == "readme" || name == folder
    }
}

/// A route under construction. Its segments neither leave the site nor start a query or a fragment.
#[derive(Default)]
struct Route {
    /// Number of leading segments that belong to the site.
    base: usize,
    segments: Vec<String>,
    ends_with_slash: bool,
}

impl Route {
    fn push_path(&mut self, path: &str) {
        for segment in path.split('/') {
            self.push(segment);
        }
        self.ends_with_slash = path.ends_with('/');
    }

    fn push(&mut self, segment: &str) {
        match segment {
            "" | "." => {}
            ".." => self.segments.truncate(self.base.max(self.segments.len().saturating_sub(1))),
            _ => self.segments.push(escaped(segment)),
        }
    }

    fn finish(mut self, anchor: Option<&str>) -> String {
        if self.ends_with_slash {
            self.segments.push(String::new());
        }
        let fragment = anchor.map(|anchor| format!("#{}", escaped(anchor))).unwrap_or_default();
        format!("/{}{fragment}", self.segments.join("/"))
    }
}

/// Escapes the characters that would end the path. Others stay readable, as browsers show them.
fn escaped(segment: &str) -> String {
    let mut escaped = String::with_capacity(segment.len());
    for character in segment.chars() {
        if character.is_whitespace() || character.is_control() || "#?<>\"\\".contains(character) {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                escaped.push_str(&format!("%{byte:02X}"));
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Removes a prefix such as `01-` or `2. `, but not a date or a version.
fn without_number(name: &str) -> &str {
    let is_separator = |character: char| matches!(character, '-' | '_' | '.');
    let rest = name.trim_start_matches(|character: char| character.is_ascii_digit());
    let is_date_or_version = rest
        .strip_prefix(is_separator)
        .is_some_and(|rest| rest.starts_with(|character: char| character.is_ascii_digit()));
    let separated = rest.trim_start();
    let suffix = separated.trim_start_matches(is_separator).trim_start();
    let has_number = rest.len() < name.len() && separated.starts_with(is_separator);
    if has_number && !is_date_or_version && !suffix.is_empty() { suffix } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn route(path: &str, text: &str) -> String {
        DocusaurusSite::default().route(path, parse(path, text).front_matter(), None).unwrap()
    }

    #[test]
    fn a_route_is_the_path_without_numbers_and_extension() {
        assert_eq!(route("docs/intro.md", ""), "/docs/intro");
        assert_eq!(route("docs/01-guide/02_setup.mdx", ""), "/docs/guide/setup");
        assert_eq!(route("docs/3. Deep/a/b.md", ""), "/docs/Deep/a/b");
        assert_eq!(route("docs/2024-01-05-news.md", ""), "/docs/2024-01-05-news");
        assert_eq!(route("docs/7.1-release.md", ""), "/docs/7.1-release");
        assert_eq!(route("docs/my page?.md", ""), "/docs/my%20page%3F");
    }

    #[test]
    fn an_index_page_has_the_route_of_its_folder() {
        assert_eq!(route("docs/index.md", ""), "/docs/");
        assert_eq!(route("docs/guide/README.md", ""), "/docs/guide/");
        assert_eq!(route("docs/01-x/Guide/guide.md", ""), "/docs/x/Guide/");
        assert_eq!(route("docs/guide/index.md", "---\nid: other\n---\n"), "/docs/guide/");
    }

    #[test]
    fn front_matter_may_set_another_route() {
        assert_eq!(route("docs/guide/a.md", "---\nslug: /start\n---\n"), "/docs/start");
        assert_eq!(route("docs/guide/a.md", "---\nslug: /\n---\n"), "/docs/");
        assert_eq!(route("docs/guide/a.md", "---\nslug: ../b/c\n---\n"), "/docs/b/c");
        assert_eq!(route("docs/1-guide/a.md", "---\nid: named\n---\n"), "/docs/guide/named");
        assert_eq!(route("docs/a.md", "---\nid: named\nslug: called\n---\n"), "/docs/called");
        assert_eq!(route("docs/a.md", "---\nslug: ../../../etc\n---\n"), "/docs/etc");
    }

    #[test]
    fn the_sites_base_comes_first_and_the_anchor_last() {
        let page = FrontMatter::default();
        let site = DocusaurusSite { folder: ".".to_owned(), route_base: "/".to_owned() };
        assert_eq!(site.route("a/b.md", &page, Some("setup-1")), Some("/a/b#setup-1".to_owned()));
        let site =
            DocusaurusSite { folder: "website/docs/".to_owned(), route_base: "handbook/api/".to_owned() };
        assert_eq!(site.route("website/docs/b.md", &page, None), Some("/handbook/api/b".to_owned()));
    }

    #[test]
    fn a_file_that_is_no_page_has_no_route() {
        let page = FrontMatter::default();
        for path in ["README.md", "docs/a.rs", "docs/_partial.mdx", "docs/_parts/a.md", "docs2/a.md"] {
            assert_eq!(DocusaurusSite::default().route(path, &page, None), None, "{path}");
        }
    }
}
