//! Rewrites a follow-up question in a round of the model. The reply is the retrieval query and nothing else:
//! neither its text nor its token usage is part of the answer. On any failure the caller uses the rule's
//! rewrite.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use domain::{ModelEvent, Provider, Request, Turn};
use futures::StreamExt;
use tokio::time::timeout;

/// Upper bound on the round: it delays the first token of the answer.
const ROUND_TIMEOUT: Duration = Duration::from_secs(10);

const MAX_REPLY_TOKENS: u32 = 80;
const MAX_QUERY_CHARS: usize = 400;

/// Upper bound on the characters of each earlier answer in the request; its beginning says what it was about.
const ANSWER_CHARS: usize = 400;

const SYSTEM_PROMPT: &str = "You rewrite the last question of a conversation so that it can be understood without the \
    conversation: name what words like it, that, they or one refer to. Reply with the question alone.";

/// The question as the model rewrites it. None if the model fails, takes longer than [`ROUND_TIMEOUT`], or
/// replies with something that is no new question of one line.
pub(super) async fn rewrite_by_model(
    provider: &dyn Provider,
    question: &str,
    conversation: &[Turn],
) -> Option<String> {
    let request = Request {
        system: SYSTEM_PROMPT.to_owned(),
        history: examples(),
        question: transcript(conversation, question),
        max_tokens: MAX_REPLY_TOKENS,
        ..Request::default()
    };
    let reply = timeout(ROUND_TIMEOUT, first_line(provider, request)).await.ok().flatten()?;
    as_query(&reply, question)
}

/// The model's reply, up to the end of its first line or a little more. None if the model fails.
async fn first_line(provider: &dyn Provider, request: Request) -> Option<String> {
    let mut stream = provider.stream(Arc::new(request));
    let mut reply = String::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(ModelEvent::Text(text)) => reply.push_str(&text),
            Ok(ModelEvent::Finish(_)) => return Some(reply),
            Ok(_) => {}
            Err(failure) => {
                tracing::info!(%failure, "the model failed to rewrite a question; the rule rewrites it");
                return None;
            }
        }
        if reply.trim_start().contains('\n') || reply.len() > 4 * MAX_QUERY_CHARS {
            return Some(reply);
        }
    }
    None
}

/// The conversation and its last question as text for the model.
fn transcript(conversation: &[Turn], question: &str) -> String {
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

/// Two examples (few-shot prompting), as earlier turns.
fn examples() -> Vec<Turn> {
    let turn =
        |question: &str, answer: &str| Turn { question: question.to_owned(), answer: answer.to_owned() };
    let client = [turn("How do I install the client?", "With the package manager.")];
    let port = [turn("Which database is used?", "PostgreSQL is used."), turn("What is its port?", "5432.")];
    vec![
        turn(&transcript(&client, "And how do I remove it?"), "How do I remove the client?"),
        turn(&transcript(&port, "Can I change that?"), "Can I change the port of the PostgreSQL database?"),
    ]
}

/// The first line of a reply without quotation marks. None if it is empty, too long, or the question again.
fn as_query(reply: &str, question: &str) -> Option<String> {
    let line = reply.trim().lines().next()?.trim_matches(|character: char| {
        character.is_whitespace() || matches!(character, '"' | '\'' | '`' | '*' | '“' | '”')
    });
    let fits = !line.is_empty() && line.chars().count() <= MAX_QUERY_CHARS;
    (fits && !line.eq_ignore_ascii_case(question.trim())).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_a_query_if_it_is_one_new_question() {
        let as_query = |reply: &str| as_query(reply, "And that?");
        assert_eq!(
            as_query(" \"How do I undo a cancel?\"\nBecause …").as_deref(),
            Some("How do I undo a cancel?")
        );
        for reply in ["", " \n", "and that?", "\"And that?\"", &"x".repeat(MAX_QUERY_CHARS + 1)] {
            assert_eq!(as_query(reply), None, "{reply}");
        }
    }

    #[test]
    fn a_transcript_has_only_the_beginning_of_each_answer() {
        let turn = Turn { question: "Why?".to_owned(), answer: "ß".repeat(5000) };
        let text = transcript(&[turn], "And then?");
        assert!(text.starts_with("Conversation:\nQuestion: Why?\nAnswer: ß"), "{text}");
        assert!(text.contains("Last question: And then?") && text.chars().count() < 600);
    }
}
