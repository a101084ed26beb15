//! A request as the tokens of a prompt: system prefix, passages, earlier turns, question. What stays the same between
//! requests comes first. Texts of people and documents are tokenized apart from the chat template, as plain text.

use std::mem;
use std::ops::Range;

use domain::{Failure, FailureKind, Passage, Request};

use super::llama::{Parse, Token, Vocabulary};
use super::template::{Role, Template};

/// Lower bound on the tokens left for an answer; a prompt that leaves fewer is too long.
const MIN_ANSWER_TOKENS: usize = 16;

/// The line between the passages and the question about them.
const QUESTION: &str = "Answer this question from the passages:\n";

/// A prompt, and how long its answer may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) tokens: Vec<Token>,
    /// The ranges of the passages among the tokens; each begins where the one before ends.
    pub(super) passages: Vec<Range<usize>>,
    pub(super) answer_tokens: usize,
}

/// A part of a message.
enum Part {
    Text(String),
    Passage(String),
}

/// The number of first tokens that two token lists have in common.
pub(super) fn common_prefix(a: &[Token], b: &[Token]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Prompt {
    /// The prompt of a request. Leaves out old turns that do not fit into a window of `window` tokens.
    pub(super) fn new(
        request: &Request,
        vocabulary: Vocabulary<'_>,
        template: &Template,
        window: usize,
    ) -> Result<Self, Failure> {
        let count =
            |text: &str| vocabulary.tokens(text, Parse::Plain).map_or(text.len(), |tokens| tokens.len());
        let turns = request.fit(window, count)?;
        let mut messages = Vec::with_capacity(2 + 2 * turns.len());
        if !request.system.is_empty() {
            messages.push((Role::System, vec![Part::Text(request.system.clone())]));
        }
        // Passages are part of the first question, though they were found for the last one: so they follow the system
        // prefix, whatever turns there are.
        let mut passages: Vec<_> = request.passages.iter().map(quote).collect();
        let opening = (!passages.is_empty()).then_some(QUESTION);
        let mut question = |question: &String| {
            let opening = opening.map(|opening| Part::Text(opening.to_owned()));
            let question = Part::Text(question.clone());
            (Role::User, mem::take(&mut passages).into_iter().chain(opening).chain([question]).collect())
        };
        for turn in turns {
            messages.push(question(&turn.question));
            messages.push((Role::Assistant, vec![Part::Text(turn.answer.clone())]));
        }
        messages.push(question(&request.question));
        let (tokens, passages) = tokenize(&messages, vocabulary, template)?;
        let room = window.saturating_sub(tokens.len());
        if room < MIN_ANSWER_TOKENS {
            return Err(Failure::new(
                FailureKind::TooLong,
                format!(
                    "the question takes {} tokens with what belongs to it, and the model's window has {window}: \
                     shorten it, or raise context_window",
                    tokens.len()
                ),
            ));
        }
        Ok(Self { tokens, passages, answer_tokens: room.min(request.answer_tokens(window) as usize) })
    }

    /// The tokens before the first passage; none if there are no passages.
    pub(super) fn prefix(&self) -> &[Token] {
        &self.tokens[..self.passages.first().map_or(0, |passage| passage.start)]
    }

    /// Where the last passage ends; 0 if there are none.
    pub(super) fn passages_end(&self) -> usize {
        self.passages.last().map_or(0, |passage| passage.end)
    }

    /// How many of its first tokens are among those of a sequence. The last token always has to be computed: its logits
    /// give the first token of the answer.
    pub(super) fn common_prefix(&self, sequence: &[Token]) -> usize {
        common_prefix(sequence, &self.tokens[..self.tokens.len().saturating_sub(1)])
    }
}

fn tokenize(
    messages: &[(Role, Vec<Part>)],
    vocabulary: Vocabulary<'_>,
    template: &Template,
) -> Result<(Vec<Token>, Vec<Range<usize>>), Failure> {
    let roles: Vec<_> = messages.iter().map(|(role, _)| *role).collect();
    let around = template.around(&roles).ok_or_else(|| {
        Failure::new(FailureKind::Internal, "the model's chat template cannot hold this conversation")
    })?;
    let unencodable = || {
        let message = "the model's vocabulary cannot encode this text: use another model, or other words";
        Failure::new(FailureKind::Internal, message)
    };
    let mut tokens: Vec<Token> = vocabulary.bos().into_iter().collect();
    let mut passages = Vec::new();
    let mut messages = messages.iter().map(|(_, parts)| parts);
    for control in &around {
        tokens.extend(vocabulary.tokens(control, Parse::Control).ok_or_else(unencodable)?);
        for part in messages.next().into_iter().flatten() {
            let (Part::Text(text) | Part::Passage(text)) = part;
            let start = tokens.len();
            tokens.extend(vocabulary.tokens(text, Parse::Plain).ok_or_else(unencodable)?);
            if matches!(part, Part::Passage(_)) {
                passages.push(start..tokens.len());
            }
        }
    }
    Ok((tokens, passages))
}

/// A passage without a number: so it has the same tokens in every prompt. Models of this size do not cite numbers anyway.
fn quote(passage: &Passage) -> Part {
    Part::Passage(format!("Passage{}", passage.quoted()))
}

#[cfg(test)]
mod tests;
