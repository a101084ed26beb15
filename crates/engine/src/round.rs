//! A round of the model in which it rewrites a question that goes on from earlier ones. What it says is looked for and
//! nothing else: it is no part of the answer, nor is what it took. Whatever goes wrong, there is the rule.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use domain::{ModelEvent, Provider, Request, Turn};
use futures::StreamExt;
use tokio::time::timeout;

/// Whoever asked waits for it, so it may not take long.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

const MOST_TOKENS: u32 = 80;
const MOST_CHARS: usize = 400;

/// So much of each earlier answer tells what it was about.
const ANSWER_CHARS: usize = 400;

const INSTRUCTIONS: &str = "You rewrite the last question of a conversation so that it can be understood without the \
    conversation: name what words like it, that, they or one refer to. Reply with the question alone.";

/// The question as the model rewrites it; none if it does not come to anything.
pub(crate) async fn standalone(
    provider: &dyn Provider,
    question: &str,
    conversation: &[Turn],
) -> Option<String> {
    let request = Request {
        system: INSTRUCTIONS.to_owned(),
        history: examples(),
        question: told(conversation, question),
        max_tokens: MOST_TOKENS,
        ..Request::default()
    };
    let mut stream = provider.stream(Arc::new(request));
    let reading = async {
        let mut said = String::new();
        while let Some(event) = stream.next().await {
            match event {
                Ok(ModelEvent::Text(text)) => said.push_str(&text),
                Ok(ModelEvent::Finish(_)) => return Some(said),
                Ok(_) => {}
                Err(failure) => {
                    tracing::info!(%failure, "a question is rewritten by the rule: the model could not");
                    return None;
                }
            }
            // One line is enough.
            if said.trim_start().contains('\n') || said.len() > 4 * MOST_CHARS {
                return Some(said);
            }
        }
        None
    };
    let said = timeout(LONGEST_WAIT, reading).await.ok().flatten()?;
    sound(&said, question)
}

/// A conversation, as text.
fn told(conversation: &[Turn], question: &str) -> String {
    let mut text = "Conversation:\n".to_owned();
    for turn in conversation {
        let answer: String = turn.answer.chars().take(ANSWER_CHARS).collect();
        let _ = writeln!(text, "Question: {}\nAnswer: {}", turn.question.trim(), answer.trim());
    }
    let _ = write!(
        text,
        "Last question: {}\n\nThe last question, so that it can be understood alone:",
        question.trim()
    );
    text
}

/// How it is done, for models that learn best by example.
fn examples() -> Vec<Turn> {
    let turn =
        |question: &str, answer: &str| Turn { question: question.to_owned(), answer: answer.to_owned() };
    let client = [turn("How do I install the client?", "With the package manager.")];
    let port = [turn("Which database is used?", "PostgreSQL is used."), turn("What is its port?", "5432.")];
    vec![
        turn(&told(&client, "And how do I remove it?"), "How do I remove the client?"),
        turn(&told(&port, "Can I change that?"), "Can I change the port of the PostgreSQL database?"),
    ]
}

/// What a model said, if it can be looked for: one line, not too long, and not the question again.
fn sound(said: &str, question: &str) -> Option<String> {
    let line = said.trim().lines().next()?.trim_matches(|character: char| {
        character.is_whitespace() || matches!(character, '"' | '\'' | '`' | '*' | '“' | '”')
    });
    let fits = !line.is_empty() && line.chars().count() <= MOST_CHARS;
    (fits && !line.eq_ignore_ascii_case(question.trim())).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_said_is_looked_for_if_it_is_one_new_question() {
        let sound = |said: &str| sound(said, "And that?");
        assert_eq!(
            sound(" \"How do I undo a cancel?\"\nBecause …").as_deref(),
            Some("How do I undo a cancel?")
        );
        for said in ["", " \n", "and that?", "\"And that?\"", &"x".repeat(MOST_CHARS + 1)] {
            assert_eq!(sound(said), None, "{said}");
        }
    }

    #[test]
    fn a_conversation_is_told_with_the_beginnings_of_its_answers() {
        let turn = Turn { question: "Why?".to_owned(), answer: "ß".repeat(5000) };
        let text = told(&[turn], "And then?");
        assert!(text.starts_with("Conversation:\nQuestion: Why?\nAnswer: ß"), "{text}");
        assert!(text.contains("Last question: And then?") && text.chars().count() < 600);
    }
}
