//! What a Docusaurus site's settings say about its routes. They are a program, which is never run: what is not
//! written plainly, as `name: 'value'`, keeps its default.

use super::Site;

impl Site {
    /// The site with these settings, the text of its `docusaurus.config.*`.
    pub fn with_settings(settings: &str) -> Self {
        let settings: String =
            settings.lines().filter(|line| !is_comment(line)).collect::<Vec<_>>().join("\n");
        let base = value(&settings, "baseUrl").unwrap_or("/");
        let docs = block(&settings, "docs").unwrap_or_default();
        let route = value(docs, "routeBasePath").unwrap_or("docs");
        let folder = value(docs, "path").unwrap_or("docs");
        Self {
            folder: folder.trim_start_matches("./").trim_matches('/').to_owned(),
            route_base: format!("/{}/{}", base.trim_matches('/'), route.trim_matches('/')),
        }
    }
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") || line.starts_with('*') || line.starts_with("/*")
}

/// The text in quotes that belongs to a name.
fn value<'a>(settings: &'a str, name: &str) -> Option<&'a str> {
    after(settings, name).find_map(|rest| {
        let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"' | '`'))?;
        let (value, _) = rest[1..].split_once(quote)?;
        (!value.contains(['\n', '$'])).then_some(value)
    })
}

/// What stands between the braces that belong to a name.
fn block<'a>(settings: &'a str, name: &str) -> Option<&'a str> {
    after(settings, name).find_map(|rest| {
        let inside = rest.strip_prefix('{')?;
        let mut open = 1;
        let end = inside.find(|character| {
            open += i32::from(character == '{') - i32::from(character == '}');
            open == 0
        })?;
        Some(&inside[..end])
    })
}

/// What follows each `name:`, without white space before it.
fn after<'a>(settings: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    settings.match_indices(name).filter_map(move |(at, found)| {
        let is_part = settings[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let rest = settings[at + found.len()..].trim_start_matches(['\'', '"']).trim_start();
        rest.strip_prefix(':').filter(|_| !is_part).map(str::trim_start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: &str, folder: &str, route_base: &str) {
        let site = Site::with_settings(settings);
        assert_eq!((site.folder.as_str(), site.route_base.as_str()), (folder, route_base), "{settings}");
    }

    #[test]
    fn what_is_not_written_plainly_keeps_its_default() {
        for settings in
            ["", "export default {};", "docs: makeDocs({ path: 'a' })", "baseUrl: `/${project}/`,"]
        {
            check(settings, "docs", "//docs");
        }
        check("docs: { routeBasePath: 'unfinished", "docs", "//docs");
    }

    #[test]
    fn the_base_and_the_docs_own_route_are_read() {
        let settings = "module.exports = {\n  baseUrl: '/handbook/',\n  // baseUrl: '/old/',\n  presets: [['classic', {\n\
             docs: { sidebar: { path: {} }, routeBasePath: \"/guide\", 'path': './pages/' },\n\
             blog: { routeBasePath: 'news', path: 'blog' },\n  }]],\n};\n";
        check(settings, "pages", "/handbook/guide");
        check("docs: {\n  routeBasePath: '/',\n}", "docs", "//");
    }

    #[test]
    fn routes_follow_what_was_read() {
        let front_matter = crate::parse("docs/intro.md", "# Intro").front_matter().clone();
        for (settings, expected) in [
            ("", "/docs/intro"),
            ("baseUrl: '/it/'", "/it/docs/intro"),
            ("docs: { routeBasePath: '/' }", "/intro"),
        ] {
            let route = Site::with_settings(settings).route("docs/intro.md", &front_matter, None);
            assert_eq!(route.as_deref(), Some(expected), "{settings}");
        }
    }
}
