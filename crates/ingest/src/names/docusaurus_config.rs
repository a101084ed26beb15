//! Reads routes from the configuration of a Docusaurus site. The configuration is a program, which is never
//! run: an option that is not a literal, as in `name: 'value'`, keeps its default.

use super::DocusaurusSite;

impl DocusaurusSite {
    /// The site with this configuration, the text of its `docusaurus.config.*`.
    pub fn from_config(config: &str) -> Self {
        let config: String = config.lines().filter(|line| !is_comment(line)).collect::<Vec<_>>().join("\n");
        let base = value(&config, "baseUrl").unwrap_or("/");
        let docs = block(&config, "docs").unwrap_or_default();
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

/// The first quoted value of an option.
fn value<'a>(config: &'a str, name: &str) -> Option<&'a str> {
    values_of(config, name).find_map(|rest| {
        let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"' | '`'))?;
        let (value, _) = rest[1..].split_once(quote)?;
        (!value.contains(['\n', '$'])).then_some(value)
    })
}

/// The text between the braces of an option.
fn block<'a>(config: &'a str, name: &str) -> Option<&'a str> {
    values_of(config, name).find_map(|rest| {
        let inside = rest.strip_prefix('{')?;
        let mut open = 1;
        let end = inside.find(|character| {
            open += i32::from(character == '{') - i32::from(character == '}');
            open == 0
        })?;
        Some(&inside[..end])
    })
}

/// The text after each `name:`, without leading white space.
fn values_of<'a>(config: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    config.match_indices(name).filter_map(move |(at, found)| {
        let is_part = config[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let rest = config[at + found.len()..].trim_start_matches(['\'', '"']).trim_start();
        rest.strip_prefix(':').filter(|_| !is_part).map(str::trim_start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(config: &str, folder: &str, route_base: &str) {
        let site = DocusaurusSite::from_config(config);
        assert_eq!((site.folder.as_str(), site.route_base.as_str()), (folder, route_base), "{config}");
    }

    #[test]
    fn an_option_that_is_not_a_literal_keeps_its_default() {
        for config in ["", "export default {};", "docs: makeDocs({ path: 'a' })", "baseUrl: `/${project}/`,"]
        {
            check(config, "docs", "//docs");
        }
        check("docs: { routeBasePath: 'unfinished", "docs", "//docs");
    }

    #[test]
    fn the_base_url_and_the_route_of_the_docs_are_read() {
        let config = "module.exports = {\n  baseUrl: '/handbook/',\n  // baseUrl: '/old/',\n  presets: [['classic', {\n\
             docs: { sidebar: { path: {} }, routeBasePath: \"/guide\", 'path': './pages/' },\n\
             blog: { routeBasePath: 'news', path: 'blog' },\n  }]],\n};\n";
        check(config, "pages", "/handbook/guide");
        check("docs: {\n  routeBasePath: '/',\n}", "docs", "//");
    }

    #[test]
    fn routes_follow_the_configuration() {
        let front_matter = crate::parse("docs/intro.md", "# Intro").front_matter().clone();
        for (config, expected) in [
            ("", "/docs/intro"),
            ("baseUrl: '/it/'", "/it/docs/intro"),
            ("docs: { routeBasePath: '/' }", "/intro"),
        ] {
            let route = DocusaurusSite::from_config(config).route("docs/intro.md", &front_matter, None);
            assert_eq!(route.as_deref(), Some(expected), "{config}");
        }
    }
}
