//! A slot: a sequence of the context in which one answer at a time is computed.

use crate::chat::llama::{Sequence, Token};
use crate::chat::prompt::Prompt;
use crate::chat::running_answer::RunningAnswer;

/// A sequence, its tokens, and its answer. Without an answer it is empty.
pub(super) struct Slot {
    pub(super) sequence: Sequence,
    /// The tokens of the prompt and of the answer so far.
    pub(super) tokens: Vec<Token>,
    /// How many of them are in the KV cache.
    pub(super) computed: usize,
    /// Upper bound on the tokens: prompt plus maximum answer.
    pub(super) reserved: usize,
    pub(super) answer: Option<RunningAnswer>,
}

impl Slot {
    pub(super) fn new(sequence: Sequence) -> Self {
        Self { sequence, tokens: Vec::new(), computed: 0, reserved: 0, answer: None }
    }

    /// The tokens that are computed next.
    pub(super) fn pending(&self) -> &[Token] {
        &self.tokens[self.computed..]
    }

    /// Whether its answer is being generated: the next batch gives the next token.
    pub(super) fn is_generating(&self) -> bool {
        self.pending().len() == 1
    }

    /// Whether the client of its answer disconnected.
    pub(super) fn is_abandoned(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.sink().is_closed())
    }

    /// How many of a prompt's first tokens are in its KV cache.
    pub(super) fn common_prefix(&self, prompt: &Prompt) -> usize {
        prompt.common_prefix(&self.tokens[..self.computed])
    }
}
