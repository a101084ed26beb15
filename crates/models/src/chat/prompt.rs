//! A request as the tokens that the model is given: instructions, passages, turns so far, question, in this order,
//! so that what stays the same comes first. What people and documents say is made into tokens apart from the
//! template, as text and nothing else.

use std::mem;
use std::ops::Range;

use domain::{Failure, FailureKind, Passage, Request};

use super::llama::{Parse, Token, Vocabulary};
use super::template::{Role, Template};

/// An answer of fewer tokens is none.
const SHORTEST_ANSWER: usize = 16;

/// What stands before a question that passages come with.
const QUESTION: &str = "Answer this question from the passages:\n";

/// The last of what a passage is read behind, after its title and under its own heading. In a prompt, most passages come
/// after others from the same document, and what a model makes of them rests on that more than on anything else. So a
/// passage is read behind what stands before it there and then this, which states nothing and keeps the two apart;
/// `docs/models.md` tells what was tried.
const LEAD: &str = ": an overview, and what the other parts are about.";

/// What the model is given, and how long its answer may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) tokens: Vec<Token>,
    /// What was found, one passage right behind the other.
    pub(super) pieces: Vec<Piece>,
    pub(super) answer_tokens: usize,
}

/// A passage in a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Where it stands among the tokens.
    pub(super) place: Range<usize>,
    /// What it is read behind, where it is read by itself and is not the first one.
    pub(super) lead: Vec<Token>,
}

/// A passage as it is read by itself, after the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading<'a> {
    /// What is read before it and then left out: nothing for the first one of a prompt.
    pub(super) lead: &'a [Token],
    pub(super) tokens: &'a [Token],
}

/// Something that is said.
enum Text {
    Plain(String),
    /// The same in many prompts, though not at the same place, and its lead.
    Piece {
        words: String,
        lead: String,
    },
}

impl Reading<'_> {
    /// So many tokens have to be computed for it.
    pub(super) fn len(&self) -> usize {
        self.lead.len() + self.tokens.len()
    }
}

impl Prompt {
    /// What of a request fits into a window of so many tokens.
    pub(super) fn new(
        request: &Request,
        vocabulary: Vocabulary<'_>,
        template: &Template,
        window: usize,
    ) -> Result<Self, Failure> {
        let count =
            |text: &str| vocabulary.tokens(text, Parse::Plain).map_or(text.len(), |tokens| tokens.len());
        let turns = request.fit(window, count)?;
        let mut said = Vec::with_capacity(2 + 2 * turns.len());
        if !request.system.is_empty() {
            said.push((Role::System, vec![Text::Plain(request.system.clone())]));
        }
        // What was found stands before the first turn, though it was found for the last question: so it follows
        // the instructions, whatever was said since.
        let mut found: Vec<_> = request.passages.iter().map(quote).collect();
        let opening = (!found.is_empty()).then_some(QUESTION);
        let mut asked = |question: &String| {
            let opening = opening.map(|opening| Text::Plain(opening.to_owned()));
            let question = Text::Plain(question.clone());
            (Role::User, mem::take(&mut found).into_iter().chain(opening).chain([question]).collect())
        };
        for turn in turns {
            said.push(asked(&turn.question));
            said.push((Role::Assistant, vec![Text::Plain(turn.answer.clone())]));
        }
        said.push(asked(&request.question));
        let (tokens, pieces) = tokens(&said, vocabulary, template)?;
        let room = window.saturating_sub(tokens.len());
        if room < SHORTEST_ANSWER {
            return Err(Failure::new(
                FailureKind::TooLong,
                format!(
                    "the question takes {} tokens with what belongs to it, and the model's window has {window}: \
                     shorten it, or raise context_window",
                    tokens.len()
                ),
            ));
        }
        Ok(Self { tokens, pieces, answer_tokens: room.min(request.answer_tokens(window) as usize) })
    }

    /// What stands before the first piece; nothing if there is none.
    pub(super) fn base(&self) -> &[Token] {
        &self.tokens[..self.pieces.first().map_or(0, |piece| piece.place.start)]
    }

    /// Where the last piece ends that lies within the first tokens, so many of them; 0 if none does.
    pub(super) fn whole_pieces(&self, tokens: usize) -> usize {
        self.pieces.iter().map(|piece| piece.place.end).take_while(|&end| end <= tokens).last().unwrap_or(0)
    }

    /// Where what comes after the pieces begins.
    pub(super) fn after_pieces(&self) -> usize {
        self.pieces.last().map_or(0, |piece| piece.place.end)
    }

    /// How each piece is read by itself for this prompt.
    pub(super) fn readings(&self) -> impl Iterator<Item = Reading<'_>> {
        self.pieces.iter().enumerate().map(|(number, piece)| match number {
            0 => self.as_first(piece),
            _ => self.as_follower(piece),
        })
    }

    /// How a piece is read for prompts in which it is the first one: just as if such a prompt were read as a whole.
    pub(super) fn as_first(&self, piece: &Piece) -> Reading<'_> {
        Reading { lead: &[], tokens: &self.tokens[piece.place.clone()] }
    }

    /// How a piece is read for prompts in which it follows others.
    pub(super) fn as_follower<'a>(&'a self, piece: &'a Piece) -> Reading<'a> {
        Reading { lead: &piece.lead, tokens: &self.tokens[piece.place.clone()] }
    }
}

fn tokens(
    said: &[(Role, Vec<Text>)],
    vocabulary: Vocabulary<'_>,
    template: &Template,
) -> Result<(Vec<Token>, Vec<Piece>), Failure> {
    let roles: Vec<_> = said.iter().map(|(role, _)| *role).collect();
    let around = template.around(&roles).ok_or_else(|| {
        Failure::new(FailureKind::Internal, "the model's chat template cannot hold this conversation")
    })?;
    let mut tokens: Vec<Token> = vocabulary.beginning().into_iter().collect();
    let mut pieces = Vec::new();
    let mut texts = said.iter().map(|(_, texts)| texts);
    for control in &around {
        tokens.extend(vocabulary.tokens(control, Parse::Control).ok_or_else(unsayable)?);
        for text in texts.next().into_iter().flatten() {
            let (Text::Plain(words) | Text::Piece { words, .. }) = text;
            let place = tokens.len();
            tokens.extend(vocabulary.tokens(words, Parse::Plain).ok_or_else(unsayable)?);
            if let Text::Piece { lead, .. } = text {
                // What is not in the prompt does not fail it.
                let lead = vocabulary.tokens(lead, Parse::Plain).unwrap_or_default();
                pieces.push(Piece { place: place..tokens.len(), lead });
            }
        }
    }
    Ok((tokens, pieces))
}

fn unsayable() -> Failure {
    let message = "the model's vocabulary cannot say this text: use another model, or other words";
    Failure::new(FailureKind::Internal, message)
}

/// A passage without a number: it is the same in every prompt, and models of this size do not name passages by numbers.
fn quote(passage: &Passage) -> Text {
    let quoted = |passage: &Passage| format!("Passage{}", passage.quoted());
    let instead = |text: &str| quoted(&Passage { text: text.to_owned(), ..passage.clone() });
    let before = if passage.before.is_empty() { String::new() } else { instead(&passage.before) };
    let lead = before + &instead(&format!("{}{LEAD}", passage.title));
    Text::Piece { words: quoted(passage), lead }
}

#[cfg(test)]
mod tests;
