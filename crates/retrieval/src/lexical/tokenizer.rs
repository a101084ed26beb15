//! Splits texts into terms, chunks and questions alike. An identifier is a term itself and so are its parts:
//! `parseHttpUrl` is found by `parseHttpUrl`, by `http` and by `urls`.

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

use super::stemmer::stem;

/// Characters of a word; a longer one gives no term.
const MAX_WORD_CHARS: usize = 64;

/// The terms of a text in order, with repetitions.
pub(crate) fn terms(text: &str) -> impl Iterator<Item = String> {
    text.split(|character: char| !is_in_word(character)).filter(|run| !run.is_empty()).flat_map(terms_of_run)
}

/// [`terms`] as a tokenizer of tantivy.
#[derive(Clone)]
pub(crate) struct TermTokenizer;

impl Tokenizer for TermTokenizer {
    type TokenStream<'a> = TermStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> TermStream<'a> {
        TermStream { terms: Box::new(terms(text)), token: Token::default() }
    }
}

pub(crate) struct TermStream<'a> {
    terms: Box<dyn Iterator<Item = String> + 'a>,
    token: Token,
}

impl TokenStream for TermStream<'_> {
    fn advance(&mut self) -> bool {
        let Some(term) = self.terms.next() else { return false };
        self.token.text = term;
        self.token.position = self.token.position.wrapping_add(1);
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

fn is_in_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Terms of a run of letters, digits and underscores: the whole run if it has several parts, then the parts.
fn terms_of_run(run: &str) -> Vec<String> {
    let parts = parts(run);
    let mut terms = Vec::with_capacity(parts.len() + 1);
    if parts.len() > 1 && !parts.iter().all(|part| is_unspaced(part)) {
        terms.extend(term(run));
    }
    terms.extend(parts.into_iter().filter_map(term));
    terms
}

/// A word in lower case, without its ending.
fn term(text: &str) -> Option<String> {
    if text.chars().nth(MAX_WORD_CHARS).is_some() {
        return None;
    }
    let mut term = text.to_lowercase();
    stem(&mut term);
    Some(term)
}

/// Splits at underscores, between `camelCase` words, between letters and digits, and at every character of a
/// script without spaces.
fn parts(run: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut before = None;
    let mut characters = run.char_indices();
    while let Some((at, character)) = characters.next() {
        let after = characters.clone().map(|(_, after)| after);
        if before.is_some_and(|before| is_boundary(before, character, after)) {
            parts.push(&run[start..at]);
            start = at;
        }
        before = Some(character);
    }
    parts.push(&run[start..]);
    parts.retain(|part| !part.starts_with('_'));
    parts
}

fn is_boundary(before: char, character: char, mut after: impl Iterator<Item = char>) -> bool {
    let kind = |character: char| (character == '_', character.is_numeric());
    if kind(before) != kind(character) || has_no_spaces(before) || has_no_spaces(character) {
        return true;
    }
    if !character.is_uppercase() {
        return false;
    }
    // `HTTPServer` is `HTTP` and `Server`, but `URLs` is the plural of `URL`.
    let is_plural = |last: char, end: Option<char>| last == 's' && !end.is_some_and(char::is_lowercase);
    let begins_word = after.next().is_some_and(|next| next.is_lowercase() && !is_plural(next, after.next()));
    !before.is_uppercase() || begins_word
}

fn is_unspaced(part: &str) -> bool {
    part.chars().all(has_no_spaces)
}

/// Chinese and Japanese are written without spaces, so each of their characters is a term.
fn has_no_spaces(character: char) -> bool {
    let kana = '\u{3040}'..='\u{30ff}';
    let ideographs = ['\u{3400}'..='\u{9fff}', '\u{f900}'..='\u{faff}', '\u{20000}'..='\u{3ffff}'];
    kana.contains(&character) || ideographs.iter().any(|range| range.contains(&character))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_identifier_and_its_parts_are_terms() {
        check("parseHttpUrl", &["parsehttpurl", "pars", "http", "url"]);
        check("HTTPServer2", &["httpserver2", "http", "server", "2"]);
        check("snake_case_name", &["snake_case_name", "snak", "case", "name"]);
        check("HTTPServers_URLs", &["httpservers_url", "http", "server", "url"]);
        check("os.path.join", &["os", "path", "join"]);
        check("__init__", &["init"]);
        check("BRCA1", &["brca1", "brca", "1"]);
        check("___", &[]);
    }

    #[test]
    fn prose_becomes_lower_case_stems() {
        check("The parsers, parsing: URLs!", &["the", "parser", "pars", "url"]);
        check("Größe_des Straßenschilds", &["größe_des", "größe", "des", "straßenschilds"]);
    }

    #[test]
    fn every_character_of_a_script_without_spaces_is_a_term() {
        check("日本語 parser", &["日", "本", "語", "parser"]);
    }

    #[test]
    fn an_overlong_identifier_gives_only_its_parts() {
        let name = "aVeryLongName".repeat(10);
        assert!(terms(&name).all(|term| term.len() <= 5));
        assert_eq!(terms(&"a".repeat(100_000)).count(), 0);
    }

    proptest! {
        #[test]
        fn terms_are_short_and_not_empty(text in "\\PC{0,200}") {
            for term in terms(&text) {
                prop_assert!(!term.is_empty());
                // Lower case may have more characters, as in `İ`.
                prop_assert!(term.chars().count() <= 3 * MAX_WORD_CHARS);
            }
        }
    }

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(terms(text).collect::<Vec<_>>(), expected, "{text}");
    }
}
