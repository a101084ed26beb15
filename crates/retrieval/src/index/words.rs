//! Texts as words, the same for chunks and questions. An identifier is one word and its parts too:
//! `parseHttpUrl` is found by `parseHttpUrl`, by `http` and by `urls`. A word is never longer than `LONGEST`.

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

use super::stem::stem;

/// What has more characters than this is no word anybody asks for.
const LONGEST: usize = 64;

/// The words of a text, in their order, with repetitions.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|character: char| !is_in_word(character)).filter(|run| !run.is_empty()).flat_map(of_run)
}

/// [`words`], as tantivy calls for them.
#[derive(Clone)]
pub(crate) struct Words;

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        WordStream { words: Box::new(words(text)), token: Token::default() }
    }
}

pub(crate) struct WordStream<'a> {
    words: Box<dyn Iterator<Item = String> + 'a>,
    token: Token,
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        let Some(word) = self.words.next() else { return false };
        self.token.text = word;
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

/// A run of letters, digits and underscores: its parts, before them the whole if it has several.
fn of_run(run: &str) -> Vec<String> {
    let parts = parts(run);
    let mut words = Vec::with_capacity(parts.len() + 1);
    if parts.len() > 1 && !parts.iter().all(|part| is_unspaced(part)) {
        words.extend(word(run));
    }
    words.extend(parts.into_iter().filter_map(word));
    words
}

/// A word as it is compared.
fn word(text: &str) -> Option<String> {
    if text.chars().nth(LONGEST).is_some() {
        return None;
    }
    let mut word = text.to_lowercase();
    stem(&mut word);
    Some(word)
}

/// Cuts at underscores, between `camelCase` words, between letters and digits, and at every character of a
/// script that has no spaces.
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
    // `HTTPServer` is `HTTP` and `Server`, but `URLs` is more than one `URL`.
    let is_plural = |last: char, end: Option<char>| last == 's' && !end.is_some_and(char::is_lowercase);
    let begins_word = after.next().is_some_and(|next| next.is_lowercase() && !is_plural(next, after.next()));
    !before.is_uppercase() || begins_word
}

fn is_unspaced(part: &str) -> bool {
    part.chars().all(has_no_spaces)
}

/// Chinese and Japanese are written without spaces, so each of their characters counts as a word.
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
    fn identifiers_are_words_and_so_are_their_parts() {
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
    fn prose_is_lower_case_words_without_endings() {
        check("The parsers, parsing: URLs!", &["the", "parser", "pars", "url"]);
        check("Größe_des Straßenschilds", &["größe_des", "größe", "des", "straßenschilds"]);
    }

    #[test]
    fn every_character_of_an_unspaced_script_is_a_word() {
        check("日本語 parser", &["日", "本", "語", "parser"]);
    }

    #[test]
    fn a_run_that_is_too_long_is_no_word_but_its_parts_are() {
        let name = "aVeryLongName".repeat(10);
        assert!(words(&name).all(|word| word.len() <= 5));
        assert_eq!(words(&"a".repeat(100_000)).count(), 0);
    }

    proptest! {
        #[test]
        fn words_of_any_text_are_short_and_not_empty(text in "\\PC{0,200}") {
            for word in words(&text) {
                prop_assert!(!word.is_empty());
                // Lower case may have more characters, as in `İ`.
                prop_assert!(word.chars().count() <= 3 * LONGEST);
            }
        }
    }

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(words(text).collect::<Vec<_>>(), expected, "{text}");
    }
}
