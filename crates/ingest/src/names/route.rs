//! The routes of a Docusaurus site's pages, by its own rules.

use crate::FrontMatter;

/// A Docusaurus site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The folder its pages lie in, relative to the folder that documents' paths are relative to.
    pub folder: String,
    /// What all routes begin with: the site's base and its route base.
    pub route_base: String,
}

impl Default for Site {
    fn default() -> Self {
        Self { folder: "docs".to_owned(), route_base: "/docs".to_owned() }
    }
}

impl Site {
    /// The route of the page at this path, and of one of its headings. Nothing for what is no page.
    pub fn route(&self, path: &str, front_matter: &FrontMatter, anchor: Option<&str>) -> Option<String> {
        let page = Page::at(path, &self.folder)?;
        let mut route = Route::default();
        route.follow(&self.route_base);
        route.base = route.segments.len();
        page.follow(&mut route, front_matter);
        Some(route.finish(anchor))
    }
}

/// Where a page lies below its site's folder.
struct Page<'a> {
    folders: &'a str,
    name: &'a str,
}

impl<'a> Page<'a> {
    fn at(path: &'a str, site_folder: &str) -> Option<Self> {
        let path = path.trim_start_matches("./");
        let below = match site_folder.trim_matches('/') {
            "" | "." => path,
            folder => path.strip_prefix(folder)?.strip_prefix('/')?,
        };
        let (folders, file) = below.rsplit_once('/').unwrap_or(("", below));
        let name = file.strip_suffix(".md").or_else(|| file.strip_suffix(".mdx"))?;
        // A name that begins with an underscore is a partial, which other pages include.
        let is_partial = below.split('/').any(|name| name.starts_with('_'));
        (!is_partial).then_some(Self { folders, name })
    }

    fn follow(&self, route: &mut Route, front_matter: &FrontMatter) {
        let slug = front_matter.text("slug");
        if let Some(absolute) = slug.filter(|slug| slug.starts_with('/')) {
            route.follow(absolute);
            return;
        }
        for folder in self.folders.split('/') {
            route.enter(without_number(folder));
        }
        route.ends_with_slash = true;
        match slug {
            Some(slug) => route.follow(slug),
            None if self.is_index() => {}
            None => route.follow(front_matter.text("id").unwrap_or(without_number(self.name))),
        }
    }

    fn is_index(&self) -> bool {
        let name = self.name.to_lowercase();
        let folder = self.folders.rsplit('/').next().unwrap_or_default().to_lowercase();
        name == "index" || name == "readme" || name == folder
    }
}

/// A route in the making: segments that neither climb out of the site nor name a query or a fragment.
#[derive(Default)]
struct Route {
    /// How many of the segments are the site's own.
    base: usize,
    segments: Vec<String>,
    ends_with_slash: bool,
}

impl Route {
    fn follow(&mut self, path: &str) {
        for segment in path.split('/') {
            self.enter(segment);
        }
        self.ends_with_slash = path.ends_with('/');
    }

    fn enter(&mut self, segment: &str) {
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

/// Escapes what would end the path. Other characters stay readable, as browsers show them.
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

/// Drops `01-` or `2. ` before a name. A date or a version is no such number.
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
        Site::default().route(path, parse(path, text).front_matter(), None).unwrap()
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
    fn an_index_is_its_folder() {
        assert_eq!(route("docs/index.md", ""), "/docs/");
        assert_eq!(route("docs/guide/README.md", ""), "/docs/guide/");
        assert_eq!(route("docs/01-x/Guide/guide.md", ""), "/docs/x/Guide/");
        assert_eq!(route("docs/guide/index.md", "---\nid: other\n---\n"), "/docs/guide/");
    }

    #[test]
    fn the_front_matter_may_say_another_route() {
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
        let site = Site { folder: ".".to_owned(), route_base: "/".to_owned() };
        assert_eq!(site.route("a/b.md", &page, Some("setup-1")), Some("/a/b#setup-1".to_owned()));
        let site = Site { folder: "website/docs/".to_owned(), route_base: "handbook/api/".to_owned() };
        assert_eq!(site.route("website/docs/b.md", &page, None), Some("/handbook/api/b".to_owned()));
    }

    #[test]
    fn what_is_no_page_of_the_site_has_no_route() {
        let page = FrontMatter::default();
        for path in ["README.md", "docs/a.rs", "docs/_partial.mdx", "docs/_parts/a.md", "docs2/a.md"] {
            assert_eq!(Site::default().route(path, &page, None), None, "{path}");
        }
    }
}
