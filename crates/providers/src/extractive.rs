//! The extractive provider: quotes, without a model, the sentences of the passages that share most words with the
//! question, verbatim and with their numbers. It is the last resort when no model answers, and its answers say so.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Failure, FinishReason, ModelEvent, ModelId, ModelStream, Passage, Provider, Request, Text, Usage,
};
use futures::stream::{self, StreamExt};

use crate::cl100k::count_tokens;

/// Upper bound on the sentences of an answer.
const MAX_QUOTES: usize = 3;

/// Tokens of passages that are searched.
const WINDOW: usize = 32_768;

/// Upper bound on a quote, in bytes. A longer sentence is cut into several.
const MAX_QUOTE_BYTES: usize = 400;

/// A provider that quotes passages and asks no model.
pub struct ExtractiveProvider {
    name: Arc<str>,
}

/// A sentence of a passage.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Quote<'a> {
    /// The passage's number, from 1.
    number: usize,
    text: &'a str,
    score: f64,
}

impl ExtractiveProvider {
    /// Takes the name under which the provider is configured.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into() }
    }
}

#[async_trait]
impl Provider for ExtractiveProvider {
    fn model(&self) -> ModelId {
        ModelId { provider: self.name.clone(), model: Arc::from("quotes") }
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        let texts = answer(&request.passages, &request.question);
        let output = count_tokens(&texts.concat()) as u64;
        let usage = Usage { input: Some(0), output: Some(output), cached: None };
        let texts = texts.into_iter().map(|text| ModelEvent::Text(Text::from(text.as_str())));
        let events = [ModelEvent::Started(self.model())].into_iter().chain(texts);
        let events = events.chain([ModelEvent::Usage(usage), ModelEvent::Finish(FinishReason::Stop)]).map(Ok);
        stream::iter(events.collect::<Vec<_>>()).boxed()
    }

    fn room(&self, request: &Request) -> Option<usize> {
        request.room(WINDOW, count_tokens)
    }

    fn count_tokens(&self, text: &str) -> usize {
        count_tokens(text)
    }

    async fn health(&self) -> Result<(), Failure> {
        Ok(())
    }
}

fn answer(passages: &[Passage], question: &str) -> Vec<String> {
    if passages.is_empty() {
        return vec!["No model was asked, and no passage was found that could be quoted.".to_owned()];
    }
    let quotes = best(passages, question);
    let quoted = quotes.iter().map(|quote| format!("\n\n“{}” [{}]", quote.text, quote.number));
    ["No model was asked. This is what the passages say:".to_owned()].into_iter().chain(quoted).collect()
}

/// The best sentences, in the order of their passages. A word of the question scores the inverse square root of the
/// number of sentences that have it. Without any common word the first sentence stands for all.
fn best<'a>(passages: &'a [Passage], question: &str) -> Vec<Quote<'a>> {
    let of =
        |(number, passage): (usize, &'a Passage)| sentences(&passage.text).map(move |text| (number, text));
    let all: Vec<(usize, &str)> = (1..).zip(passages).flat_map(of).collect();
    let asked = words(question);
    let known: Vec<BTreeSet<String>> =
        all.iter().map(|(_, text)| words(text).intersection(&asked).cloned().collect()).collect();
    let mut rarity: BTreeMap<&str, f64> = BTreeMap::new();
    for word in known.iter().flatten() {
        *rarity.entry(word).or_default() += 1.0;
    }
    let score = |words: &BTreeSet<String>| words.iter().map(|word| 1.0 / rarity[word.as_str()].sqrt()).sum();
    let mut quotes: Vec<_> = (all.iter().zip(&known))
        .map(|(&(number, text), words)| Quote { number, text, score: score(words) })
        .collect();
    // The sort is stable: of sentences with equal scores that of the better passage stays first.
    quotes.sort_by(|a, b| b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal));
    let matching = quotes.iter().take(MAX_QUOTES).filter(|quote| quote.score > 0.0).count();
    quotes.truncate(matching.max(1));
    quotes.sort_by_key(|quote| quote.number);
    quotes
}

/// Sentences end with a full stop and a space, or with their line; none is empty.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(sentences_of_line).flat_map(split_long)
}

fn sentences_of_line(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let is_end = |&(at, mark): &(usize, char)| {
            matches!(mark, '.' | '!' | '?') && rest[at + 1..].starts_with(char::is_whitespace)
        };
        let end = rest.char_indices().find(is_end).map_or(rest.len(), |(at, _)| at + 1);
        let (sentence, left) = rest.split_at(end);
        rest = left;
        Some(sentence).filter(|sentence| !sentence.is_empty())
    })
}

fn split_long(sentence: &str) -> impl Iterator<Item = &str> {
    let mut rest = sentence.trim();
    std::iter::from_fn(move || {
        let end = rest.floor_char_boundary(MAX_QUOTE_BYTES);
        let (piece, left) = rest.split_at(end);
        rest = left.trim_start();
        Some(piece.trim_end()).filter(|piece| !piece.is_empty())
    })
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !character.is_alphanumeric());
    words.filter(|word| word.chars().count() > 2).map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn passage(text: &str) -> Passage {
        testing::passage("Notes", text)
    }

    fn quoted(texts: &[&str], question: &str) -> Vec<String> {
        let passages: Vec<_> = texts.iter().map(|text| passage(text)).collect();
        best(&passages, question).iter().map(|quote| format!("[{}] {}", quote.number, quote.text)).collect()
    }

    #[test]
    fn sentences_with_words_of_the_question_are_quoted_verbatim() {
        let first = "Journals are kept. A segment is deleted when its prompts have ended. Version 1.5 does.";
        let second = "Segments grow.\nUsers never delete a segment by hand!";
        let quotes = quoted(&[first, second], "When is a segment deleted?");
        assert_eq!(
            quotes,
            [
                "[1] A segment is deleted when its prompts have ended.",
                "[2] Users never delete a segment by hand!"
            ]
        );
    }

    #[test]
    fn without_a_common_word_the_first_sentence_is_quoted() {
        assert_eq!(quoted(&["\n\nOne. Two.", "Three."], "¿?"), ["[1] One."]);
        assert!(quoted(&["", " \n"], "anything").is_empty());
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let line = "é".repeat(1_000);
        let quotes = quoted(&[&line], "anything");
        assert_eq!(quotes, [format!("[1] {}", "é".repeat(MAX_QUOTE_BYTES / 2))]);
    }

    #[test]
    fn an_answer_says_that_no_model_was_asked() {
        let ask = |passages: Vec<Passage>| {
            let request = Request { passages, question: "logs".to_owned(), ..Request::default() };
            let events =
                ExtractiveProvider::new("spare").stream(Arc::new(request)).collect::<Vec<_>>().now_or_never();
            let events: Vec<_> = events.unwrap().into_iter().map(Result::unwrap).collect();
            assert!(matches!(&events[0], ModelEvent::Started(model) if &*model.provider == "spare"));
            assert_eq!(events.last(), Some(&ModelEvent::Finish(FinishReason::Stop)));
            let texts = events.iter().filter_map(|event| match event {
                ModelEvent::Text(text) => Some(&**text),
                _ => None,
            });
            texts.collect::<String>()
        };
        assert_eq!(
            ask(vec![passage("Logs end.")]),
            "No model was asked. This is what the passages say:\n\n“Logs end.” [1]"
        );
        assert_eq!(ask(Vec::new()), "No model was asked, and no passage was found that could be quoted.");
    }
}
