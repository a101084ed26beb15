//! The anchors of headings, as GitHub and Docusaurus make them.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

/// What an anchor has none of.
static DROPPED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[^\p{Alphabetic}\p{Mark}\p{Decimal_Number}\p{Connector_Punctuation} -]")
        .expect("the pattern is a constant and is compiled in the tests")
});

/// The anchors of one page: no two are equal.
#[derive(Default)]
pub(super) struct Anchors {
    /// Each anchor that was given, with how often its text came again.
    given: HashMap<String, usize>,
}

impl Anchors {
    /// A heading's text without `{#anchor}`, and its anchor: the one in braces, else one made from the text.
    pub(super) fn of<'a>(&mut self, heading: &'a str) -> (&'a str, String) {
        let heading = heading.trim();
        if let Some((text, anchor)) = explicit(heading) {
            return (text, anchor.to_owned());
        }
        (heading, self.unique(&slug(heading)))
    }

    fn unique(&mut self, slug: &str) -> String {
        let mut anchor = slug.to_owned();
        while self.given.contains_key(&anchor) {
            let again = self.given.entry(slug.to_owned()).or_default();
            *again += 1;
            anchor = format!("{slug}-{again}");
        }
        self.given.insert(anchor.clone(), 0);
        anchor
    }
}

fn explicit(heading: &str) -> Option<(&str, &str)> {
    let (text, anchor) = heading.strip_suffix('}')?.rsplit_once("{#")?;
    let anchor_is_whole = !anchor.is_empty() && !anchor.contains('}');
    anchor_is_whole.then_some((text.trim_end(), anchor))
}

fn slug(heading: &str) -> String {
    DROPPED.replace_all(&heading.to_lowercase(), "").replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headings: &[&str], expected: &[&str]) {
        let mut anchors = Anchors::default();
        let given: Vec<String> = headings.iter().map(|heading| anchors.of(heading).1).collect();
        assert_eq!(given, expected);
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
    fn equal_headings_get_numbers_that_nobody_else_has() {
        check(&["Usage", "Usage", "Usage-1", "Usage"], &["usage", "usage-1", "usage-1-1", "usage-2"]);
        check(&["?", "!"], &["", "-1"]);
    }

    #[test]
    fn an_anchor_in_braces_is_taken_as_it_is() {
        let mut anchors = Anchors::default();
        assert_eq!(anchors.of("Install it {#Setup}"), ("Install it", "Setup".to_owned()));
        assert_eq!(anchors.of("Set {#a} up"), ("Set {#a} up", "set-a-up".to_owned()));
        assert_eq!(anchors.of("Empty {#}"), ("Empty {#}", "empty-".to_owned()));
    }
}
