//! Questions that go on from earlier ones ("and how do I undo that?"), and what to look for instead of them. A rule for
//! English: what it does not know stands alone. Pure; docs/retrieval.md tells how good it is.

use domain::Turn;

use crate::sentences;
use crate::way::NOTHING_FOUND;
use crate::words::is_stop_word;

/// No more of an earlier question or answer is looked for than this.
const MOST_CHARS: usize = 300;

/// What to look for instead of a question that goes on from a conversation; none if the question stands alone. It is
/// the question with what it goes on from: the last question that stood alone, the last one, and how its answer began.
pub fn standalone(question: &str, conversation: &[Turn]) -> Option<String> {
    let last = conversation.last().filter(|_| goes_on(question))?;
    let topic = conversation.iter().rfind(|turn| !goes_on(&turn.question)).or(conversation.first())?;
    let mut parts = vec![question.trim(), beginning(&topic.question)];
    if last.question != topic.question {
        parts.push(beginning(&last.question));
    }
    let answer = sentences::pieces(&last.answer).into_iter().next().map(|first| &last.answer[first]);
    parts.extend(answer.map(beginning).filter(|said| *said != NOTHING_FOUND));
    Some(parts.join(" "))
}

fn beginning(text: &str) -> &str {
    let text = text.trim();
    text.char_indices().nth(MOST_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// Whether a question cannot be understood alone.
fn goes_on(question: &str) -> bool {
    let words = words(question);
    let words = without_expletive(&words);
    begins_as_continuation(words)
        || (0..words.len()).any(|at| points_back(words, at))
        || words.iter().all(|word| is_stop_word(word) || GENERIC.contains(&word.as_str()))
}

fn words(text: &str) -> Vec<String> {
    let is_between = |character: char| character.is_whitespace() || character == '/';
    text.split(is_between)
        .map(|word| word.trim_matches(|character: char| !character.is_alphanumeric()).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect()
}

/// In "is it possible to …" the `it` means nothing that came before.
fn without_expletive(words: &[String]) -> &[String] {
    match words {
        [verb, it, state, rest @ ..]
            if ["is", "was", "would"].contains(&verb.as_str())
                && it == "it"
                && ["possible", "necessary", "safe", "enough", "allowed", "true", "worth"]
                    .contains(&state.as_str()) =>
        {
            rest
        }
        _ => words,
    }
}

fn begins_as_continuation(words: &[String]) -> bool {
    let begins = |beginning: &str| {
        let mut words = words.iter();
        beginning.split(' ').all(|word| words.next().is_some_and(|other| other == word))
    };
    BEGINNINGS.iter().any(|beginning| begins(beginning))
}

/// Whether a word stands for something that was named before.
fn points_back(words: &[String], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| words[before].as_str());
    let after = words.get(at + 1).map(String::as_str);
    let is_small = |word: Option<&str>| word.is_none_or(is_stop_word);
    match words[at].as_str() {
        "it" | "its" | "they" | "them" | "their" | "theirs" | "him" | "her" | "these" | "those" | "such" => {
            true
        }
        // Behind a noun it begins what tells more of that noun.
        "that" => is_small(before) || at + 2 >= words.len(),
        "this" => is_small(after),
        "then" | "too" | "also" | "again" | "instead" | "otherwise" | "else" => after.is_none(),
        "there" => after.is_none() && !matches!(before, Some("is" | "are")),
        // Before a noun it is a number.
        "one" | "ones" => is_small(after) || before.is_some_and(|before| ORDINALS.contains(&before)),
        "same" | "other" | "others" | "former" | "latter" => before == Some("the"),
        _ => false,
    }
}

const BEGINNINGS: [&str; 13] = [
    "and",
    "but",
    "or",
    "so",
    "then",
    "also",
    "what about",
    "how about",
    "what if",
    "why not",
    "how so",
    "otherwise",
    "instead",
];

const ORDINALS: [&str; 8] = ["first", "second", "third", "last", "next", "other", "better", "which"];

/// Words that say what is asked about something, and not about what.
const GENERIC: [&str; 74] = [
    "again",
    "another",
    "anything",
    "better",
    "big",
    "change",
    "changes",
    "compare",
    "cost",
    "costs",
    "default",
    "different",
    "done",
    "else",
    "end",
    "ends",
    "exactly",
    "example",
    "fast",
    "find",
    "first",
    "force",
    "get",
    "go",
    "goes",
    "happen",
    "happens",
    "high",
    "higher",
    "instead",
    "keep",
    "kept",
    "kind",
    "large",
    "last",
    "late",
    "later",
    "limit",
    "long",
    "low",
    "lower",
    "many",
    "mean",
    "means",
    "measured",
    "move",
    "much",
    "name",
    "need",
    "new",
    "often",
    "possible",
    "print",
    "reason",
    "remove",
    "same",
    "second",
    "send",
    "set",
    "setting",
    "size",
    "slow",
    "start",
    "stored",
    "switch",
    "tell",
    "time",
    "try",
    "use",
    "value",
    "way",
    "why",
    "work",
    "wrong",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(question: &str, answer: &str) -> Turn {
        Turn { question: question.to_owned(), answer: answer.to_owned() }
    }

    #[test]
    fn a_question_that_points_back_goes_on() {
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
            assert!(goes_on(question), "{question}");
        }
    }

    #[test]
    fn a_question_that_names_what_it_is_about_stands_alone() {
        for question in [
            "What is chunking?",
            "What happens to a prompt that nobody reads any more?",
            "Is it possible to use several providers?",
            "How do I cancel a prompt?",
            "Does a session run one prompt at a time?",
            "Which port is the default of the server?",
            "Is there a limit on questions?",
            "Wo werden Sitzungen gespeichert?",
            "日本語で質問できますか",
        ] {
            assert!(!goes_on(question), "{question}");
        }
    }

    #[test]
    fn what_is_looked_for_names_the_topic() {
        let conversation = [
            turn("How do I start a session?", "Post to its address. Then ask."),
            turn("And how do I end it?", "Delete it."),
        ];
        let expected = "What happens then? How do I start a session? And how do I end it? Delete it.";
        assert_eq!(standalone("What happens then?", &conversation).as_deref(), Some(expected));
        let expected = "And then? How do I start a session? Post to its address.";
        assert_eq!(standalone(" And then? ", &conversation[..1]).as_deref(), Some(expected));
    }

    #[test]
    fn nothing_goes_on_without_a_conversation() {
        assert_eq!(standalone("And how do I undo that?", &[]), None);
        assert_eq!(standalone("How do I cancel a prompt?", &[turn("Why?", "So.")]), None);
    }

    #[test]
    fn a_conversation_of_follow_ups_alone_begins_somewhere() {
        let conversation = [turn("Why?", "So it is."), turn("And then?", "")];
        assert_eq!(standalone("And?", &conversation).as_deref(), Some("And? Why? And then?"));
    }

    #[test]
    fn what_is_looked_for_is_bounded_and_cuts_no_character() {
        let conversation = [turn(&"ß🙂".repeat(5000), &"あ".repeat(5000))];
        let query = standalone("And then?", &conversation).unwrap();
        assert_eq!(query.chars().count(), 9 + 1 + MOST_CHARS + 1 + MOST_CHARS);
    }
}
