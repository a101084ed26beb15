//! The engine's settings: the limits within which prompts run, and how questions are answered.

use std::time::Duration;

use domain::WhenNothingFound;

/// The limits within which prompts run.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Prompts that may run at once on this node.
    pub concurrent_streams: usize,
    /// Readers that may be open at once on this node.
    pub readers: usize,
    /// The longest question, and the longest selection, in characters.
    pub question_chars: usize,
    /// The largest answer, in bytes; reasoning and tool calls count.
    pub answer_bytes: usize,
    /// The longest answer, in tokens; reasoning counts.
    pub max_tokens: u32,
    /// The stall timeout: the longest silence of a model that has begun to answer.
    pub stall: Duration,
    /// The longest duration of a prompt, from the start of its pipeline to its end.
    pub total: Duration,
    /// The resume window: how long a prompt runs on after its last reader has disconnected.
    pub resume: Duration,
    /// How long a session may be idle before it expires.
    pub idle: Duration,
}

/// How questions are answered.
#[derive(Clone, Copy, Debug)]
pub struct AnswerSettings {
    /// The sampling temperature; 0 selects the most likely token.
    pub temperature: f32,
    /// The token budget of all passages of a prompt together.
    pub context_tokens: usize,
    /// The relevance gate of a passage, between 0 and 1: a passage whose cosine is less than this share of
    /// the best one's is not given to the model.
    pub min_cosine_share: f32,
    /// What happens when no passage is found. None leaves it to the dialect of the request.
    pub when_nothing_found: Option<WhenNothingFound>,
    /// How a follow-up question is rewritten before retrieval.
    pub rewrite_mode: RewriteMode,
}

/// How a follow-up question is rewritten into a query that stands alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteMode {
    /// The question is the query.
    Off,
    /// A rule adds the earlier questions that the follow-up refers to.
    Rule,
    /// The model rewrites the question in a round of its own; the rule is the fallback.
    Model,
}
