//! A rule that recognises follow-up questions in English ("and how do I undo that?") and completes them with
//! what they refer to. A question in which it recognises nothing stands alone. docs/retrieval.md has its
//! figures.

use std::collections::HashSet;
use std::sync::LazyLock;

use domain::Turn;

use crate::pipeline::NOTHING_FOUND;
use crate::text::word_list::section;
use crate::text::{sentences, words};

/// Upper bound on the characters that a rewritten query takes from one earlier question or answer.
const MAX_CHARS: usize = 300;

static WORDS: LazyLock<FollowUpWords> =
    LazyLock::new(|| FollowUpWords::new(include_str!("follow_up_words.txt")));

/// Rewrites a follow-up question into a query that stands alone; none if the question stands alone already,
/// or if `conversation` is empty.
///
/// The query is the question, the last question before it that stood alone, the question just before it, and
/// the first sentence of the answer to that one; the earlier texts are cut after 300 characters each.
pub fn rewrite_by_rule(question: &str, conversation: &[Turn]) -> Option<String> {
    let last = conversation.last().filter(|_| is_follow_up(question))?;
    let topic = conversation.iter().rfind(|turn| !is_follow_up(&turn.question)).or(conversation.first())?;
    let mut parts = vec![question.trim(), beginning(&topic.question)];
    if last.question != topic.question {
        parts.push(beginning(&last.question));
    }
    let answer = sentences::split(&last.answer).into_iter().next().map(|first| &last.answer[first]);
    parts.extend(answer.map(beginning).filter(|sentence| *sentence != NOTHING_FOUND));
    Some(parts.join(" "))
}

fn beginning(text: &str) -> &str {
    let text = text.trim();
    text.char_indices().nth(MAX_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// Whether a question cannot be understood without what was said before it.
fn is_follow_up(question: &str) -> bool {
    let words = lower_case_words(question);
    let words = without_expletive(&words);
    begins_as_continuation(words)
        || (0..words.len()).any(|at| refers_back(words, at))
        || words.iter().all(|word| words::is_stop_word(word) || WORDS.generic.contains(&**word))
}

fn lower_case_words(text: &str) -> Vec<String> {
    let is_between = |character: char| character.is_whitespace() || character == '/';
    text.split(is_between)
        .map(|word| word.trim_matches(|character: char| !character.is_alphanumeric()).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect()
}

/// The words behind an expletive beginning such as "is it possible", whose "it" refers to nothing.
fn without_expletive(words: &[String]) -> &[String] {
    match words {
        [verb, it, state, rest @ ..]
            if ["is", "was", "would"].contains(&verb.as_str())
                && it == "it"
                && WORDS.expletive_states.contains(&**state) =>
        {
            rest
        }
        _ => words,
    }
}

fn begins_as_continuation(words: &[String]) -> bool {
    WORDS.openers.iter().any(|opener| {
        let mut words = words.iter();
        opener.split(' ').all(|word| words.next().is_some_and(|other| other == word))
    })
}

/// Whether the word at this position stands for something that was named before the question.
fn refers_back(words: &[String], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| words[before].as_str());
    let after = words.get(at + 1).map(String::as_str);
    let is_small = |word: Option<&str>| word.is_none_or(words::is_stop_word);
    match words[at].as_str() {
        // Behind a noun, "that" begins a relative clause of that noun.
        "that" => is_small(before) || at + 2 >= words.len(),
        "this" => is_small(after),
        "there" => after.is_none() && !matches!(before, Some("is" | "are")),
        // Before a noun, "one" is a number.
        "one" | "ones" => is_small(after) || before.is_some_and(|before| WORDS.ordinals.contains(before)),
        word => {
            WORDS.pronouns.contains(word)
                || after.is_none() && WORDS.closing_adverbs.contains(word)
                || before == Some("the") && WORDS.after_the.contains(word)
        }
    }
}

/// The sections of `follow_up_words.txt`, which explains them.
struct FollowUpWords {
    openers: HashSet<&'static str>,
    pronouns: HashSet<&'static str>,
    expletive_states: HashSet<&'static str>,
    closing_adverbs: HashSet<&'static str>,
    ordinals: HashSet<&'static str>,
    after_the: HashSet<&'static str>,
    generic: HashSet<&'static str>,
}

impl FollowUpWords {
    fn new(list: &'static str) -> Self {
        Self {
            openers: section(list, "openers"),
            pronouns: section(list, "pronouns"),
            expletive_states: section(list, "expletive states"),
            closing_adverbs: section(list, "closing adverbs"),
            ordinals: section(list, "ordinals"),
            after_the: section(list, "after the"),
            generic: section(list, "generic"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(question: &str, answer: &str) -> Turn {
        Turn { question: question.to_owned(), answer: answer.to_owned() }
    }

    #[test]
    fn a_question_that_refers_back_is_a_follow_up() {
        for question in [
            "And how do I undo that?",
            "What about vLLM?",
            "How large may it be?",
            "Which setting changes that?",
            "Where do I find that id?",
            "Is that safe?",
            "How do I remove them?",
            "Do I need one for that server?",
            "Which one is better?",
            "What does the second one tell?",
            "Does the same happen over HTTP?",
            "How does the stream end then?",
            "Can I use Ollama instead?",
            "Why?",
            "What is the default?",
            "How often?",
            "and?",
        ] {
            assert!(is_follow_up(question), "{question}");
        }
    }

    #[test]
    fn a_question_that_names_its_topic_stands_alone() {
        for question in [
            "What is chunking?",
            "What happens to a prompt that has no reader any more?",
            "Is it possible to use several providers?",
            "How do I cancel a prompt?",
            "Does a session run one prompt at a time?",
            "Which port is the default of the server?",
            "Is there a limit on questions?",
            "Wo werden Sitzungen gespeichert?",
            "日本語で質問できますか",
        ] {
            assert!(!is_follow_up(question), "{question}");
        }
    }

    #[test]
    fn the_query_names_the_topic() {
        let conversation = [
            turn("How do I start a session?", "Post to its address. Then ask."),
            turn("And how do I end it?", "Delete it."),
        ];
        let expected = "What happens then? How do I start a session? And how do I end it? Delete it.";
        assert_eq!(rewrite_by_rule("What happens then?", &conversation).as_deref(), Some(expected));
        let expected = "And then? How do I start a session? Post to its address.";
        assert_eq!(rewrite_by_rule(" And then? ", &conversation[..1]).as_deref(), Some(expected));
    }

    #[test]
    fn only_a_follow_up_in_a_conversation_is_rewritten() {
        assert_eq!(rewrite_by_rule("And how do I undo that?", &[]), None);
        assert_eq!(rewrite_by_rule("How do I cancel a prompt?", &[turn("Why?", "So.")]), None);
    }

    #[test]
    fn in_a_conversation_of_follow_ups_the_first_is_the_topic() {
        let conversation = [turn("Why?", "So it is."), turn("And then?", "")];
        assert_eq!(rewrite_by_rule("And?", &conversation).as_deref(), Some("And? Why? And then?"));
    }

    #[test]
    fn the_query_is_bounded_at_character_boundaries() {
        let conversation = [turn(&"ß🙂".repeat(5000), &"あ".repeat(5000))];
        let query = rewrite_by_rule("And then?", &conversation).unwrap();
        assert_eq!(query.chars().count(), 9 + 1 + MAX_CHARS + 1 + MAX_CHARS);
    }
}
