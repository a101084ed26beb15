//! Anchors of headings by the rules of GitHub and Docusaurus.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

/// The characters that an anchor omits.
static PUNCTUATION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[^\p{Alphabetic}\p{Mark}\p{Decimal_Number}\p{Connector_Punctuation} -]")
        .expect("the pattern is a constant and is compiled in the tests")
});

/// The anchors of one page, which are unique.
#[derive(Default)]
pub(super) struct Anchors {
    /// The anchors in use, each with the number of later headings that repeat its text.
    used: HashMap<String, usize>,
}

impl Anchors {
    /// The text of a heading without `{#anchor}`, and its anchor: the explicit one, or else one derived from
    /// the text.
    pub(super) fn of<'a>(&mut self, heading: &'a str) -> (&'a str, String) {
        let heading = heading.trim();
        if let Some((text, anchor)) = explicit(heading) {
            return (text, anchor.to_owned());
        }
        (heading, self.unique(&slug(heading)))
    }

    fn unique(&mut self, slug: &str) -> String {
        let mut anchor = slug.to_owned();
        while self.used.contains_key(&anchor) {
            let repeats = self.used.entry(slug.to_owned()).or_default();
            *repeats += 1;
            anchor = format!("{slug}-{repeats}");
        }
        self.used.insert(anchor.clone(), 0);
        anchor
    }
}

fn explicit(heading: &str) -> Option<(&str, &str)> {
    let (text, anchor) = heading.strip_suffix('}')?.rsplit_once("{#")?;
    let is_anchor = !anchor.is_empty() && !anchor.contains('}');
    is_anchor.then_some((text.trim_end(), anchor))
}

fn slug(heading: &str) -> String {
    PUNCTUATION.replace_all(&heading.to_lowercase(), "").replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headings: &[&str], expected: &[&str]) {
        let mut anchors_of_page = Anchors::default();
        let anchors: Vec<String> = headings.iter().map(|heading| anchors_of_page.of(heading).1).collect();
        assert_eq!(anchors, expected);
    }

    #[test]
    fn punctuation_is_dropped_and_every_space_is_a_hyphen() {
        check(
            &[
                "Getting started",
                "What's new in 2.0?",
                "`foo_bar()` & more",
                "Grüße, Zoë!",
                "日本語 の見出し",
                "H₂O²",
            ],
            &["getting-started", "whats-new-in-20", "foo_bar--more", "grüße-zoë", "日本語-の見出し", "ho"],
        );
    }

    #[test]
    fn equal_headings_get_unique_numbers() {
        check(&["Usage", "Usage", "Usage-1", "Usage"], &["usage", "usage-1", "usage-1-1", "usage-2"]);
        check(&["?", "!"], &["", "-1"]);
    }

    #[test]
    fn an_explicit_anchor_is_used_unchanged() {
        let mut anchors = Anchors::default();
        assert_eq!(anchors.of("Install it {#Setup}"), ("Install it", "Setup".to_owned()));
        assert_eq!(anchors.of("Set {#a} up"), ("Set {#a} up", "set-a-up".to_owned()));
        assert_eq!(anchors.of("Empty {#}"), ("Empty {#}", "empty-".to_owned()));
    }
}
