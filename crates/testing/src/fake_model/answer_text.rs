//! The text of answers: a cycle of tokens whose length is prime, so that a lost write changes the text
//! whatever its size. It contains what is difficult for decoders: repeated tokens, quotes, escapes, markup,
//! and characters of two to four bytes.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::api::ChatRequest;
use super::script::{AnswerScript, Wording};

const TOKENS: [&str; 31] = [
    "Water ",
    "runs ",
    "down",
    ", ",
    "ha ",
    "ha ",
    "ha ",
    "— ",
    "naïve ",
    "🙂 ",
    "日本",
    "語",
    ".\n",
    "`let ",
    "x = \"\\t\";` ",
    "ends. ",
    "Then ",
    "it ",
    "is ",
    "still",
    ": ",
    "fn ",
    "main() ",
    "{\r\n",
    "\t// ",
    "Ωμέγα ",
    "</b> ",
    "}\n",
    "👩\u{200d}🚀",
    "again",
    ". ",
];

/// Token `index` of the default text.
pub fn fake_token(index: u64) -> &'static str {
    TOKENS[cyclic_index(index)]
}

/// The first `tokens` tokens of the default text, joined.
pub fn fake_text(tokens: u64) -> String {
    (0..tokens).map(fake_token).collect()
}

/// The tokens of one answer.
pub(crate) struct AnswerText {
    wording: Wording,
    /// The words to echo, escaped for JSON.
    words: Vec<String>,
    /// Number of tokens.
    pub(crate) tokens: u64,
}

impl AnswerText {
    pub(crate) fn new(script: &AnswerScript, chat: &ChatRequest) -> Self {
        let words = match script.wording {
            Wording::Echo => chat.question.split_inclusive(char::is_whitespace).map(escaped).collect(),
            Wording::Sentences | Wording::Numbered => Vec::new(),
        };
        let tokens = match script.wording {
            Wording::Echo => script.tokens.unwrap_or(u64::MAX).min(words.len() as u64),
            Wording::Sentences | Wording::Numbered => script.text_tokens(),
        };
        Self { wording: script.wording, words, tokens }
    }

    /// Token `index`, escaped for a JSON string.
    pub(crate) fn token(&self, index: u64) -> Cow<'_, str> {
        match self.wording {
            Wording::Sentences => Cow::Borrowed(escaped_fake_token(index)),
            Wording::Numbered => Cow::Owned(format!("word{index} ")),
            Wording::Echo => Cow::Borrowed(
                usize::try_from(index)
                    .ok()
                    .and_then(|index| self.words.get(index))
                    .map_or("", String::as_str),
            ),
        }
    }
}

/// [`fake_token`], escaped for a JSON string.
pub(crate) fn escaped_fake_token(index: u64) -> &'static str {
    static ESCAPED: LazyLock<Vec<String>> = LazyLock::new(|| TOKENS.map(escaped).to_vec());
    &ESCAPED[cyclic_index(index)]
}

/// Splits an escaped text inside its first character beyond the basic multilingual plane, with one half of
/// the surrogate pair on each side.
pub(crate) fn split_surrogate_pair(escaped: &str) -> Option<(String, String)> {
    let (at, character) = escaped.char_indices().find(|(_, character)| character.len_utf16() == 2)?;
    let mut pair = [0; 2];
    character.encode_utf16(&mut pair);
    let (before, after) = (&escaped[..at], &escaped[at + character.len_utf8()..]);
    Some((format!("{before}\\u{:04x}", pair[0]), format!("\\u{:04x}{after}", pair[1])))
}

fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn cyclic_index(index: u64) -> usize {
    usize::try_from(index % TOKENS.len() as u64).expect("smaller than an array's length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_tokens_are_the_tokens() {
        for index in 0..40 {
            let json = format!("\"{}\"", escaped_fake_token(index));
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), fake_token(index));
        }
    }

    #[test]
    fn the_default_answer_contains_difficult_characters() {
        let text = fake_text(16);
        for difficult in ["ha ha ha", "ï", "日", "🙂", "\"", "\\", "\n"] {
            assert!(text.contains(difficult), "{difficult}");
        }
    }

    #[test]
    fn a_surrogate_pair_is_split_in_the_middle() {
        let expected = ("a\\ud83d".to_owned(), "\\ude42b🙂".to_owned());
        assert_eq!(split_surrogate_pair("a🙂b🙂"), Some(expected));
        assert_eq!(split_surrogate_pair("naïve 日本"), None);
    }
}
