//! The port to language models, and the request it takes.

mod decorator;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::{Failure, FailureKind, ModelId, Passage, Text, Turn};
pub use decorator::ProviderDecorator;

/// Generates answers with a language model. A new method is also forwarded in [`ProviderDecorator`].
#[async_trait]
pub trait Provider: Send + Sync {
    /// The configured names of the provider and its model.
    fn model(&self) -> ModelId;

    /// Answers a request: `Started`, then `Waiting` while the answer has not begun, then text, reasoning,
    /// tool calls and usage, then one `Finish` or one failure, and nothing after it. Dropping the stream
    /// aborts the call.
    fn stream(&self, request: Arc<Request>) -> ModelStream;

    /// Waits until [`room`](Self::room), [`count_tokens`](Self::count_tokens) and [`status`](Self::status)
    /// are exact, which takes an in-process model until it is loaded. Returns at once for other providers,
    /// and for a model that cannot be loaded.
    async fn ready(&self) {}

    /// Maximum tokens of passages that fit into the context window beside these instructions, this question
    /// and the answer; `None` if those alone are too long.
    fn room(&self, request: &Request) -> Option<usize>;

    /// Number of tokens of a text. May overestimate, never underestimates.
    fn count_tokens(&self, text: &str) -> usize;

    /// Whether the provider would answer now. The provider bounds the time itself.
    async fn health(&self) -> Result<(), Failure>;

    /// Whether it caches the KV states of passages. Prompts should then contain passages whole: one that is cut for its
    /// question is another passage to the cache. Known once `ready` has returned.
    fn caches_passages(&self) -> bool {
        false
    }

    /// The status, without a call to the provider.
    fn status(&self) -> ProviderStatus {
        ProviderStatus::default()
    }
}

/// What is known of a provider without a call to it. A diagnostic: no behaviour depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderStatus {
    /// The result of the last health check; none if none runs.
    pub health: Option<Result<(), Failure>>,
    /// The circuit breaker is open: only a probe now and then reaches the provider.
    pub breaker_open: bool,
    /// Time left until the provider is called again, after a `Retry-After` or a run of failures.
    pub skipped_for: Option<Duration>,
    /// Why the last call failed, if it did.
    pub last_failure: Option<Failure>,
    /// The prefix cache, if the provider has one.
    pub prefix_cache: Option<PrefixCacheStats>,
    /// The background prefill of the catalog, if the provider runs one.
    pub warmup: Option<WarmupProgress>,
}

/// Counters of a prefix cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixCacheStats {
    /// Prefixes and passages that were in the cache when a prompt needed them.
    pub hits: u64,
    /// Those that were not.
    pub misses: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Bytes in files.
    pub disk_bytes: u64,
    /// Passages queued for background prefill because a prompt lacked them.
    pub pending: u64,
}

/// Progress of the background prefill of a catalog's passages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmupProgress {
    /// Passages examined so far.
    pub done: u64,
    /// Passages in the catalog.
    pub total: u64,
    /// Passages of `done` that had to be computed; the others were cached, or cannot be.
    pub prefilled: u64,
    /// Why no further passage is prefilled, if something prevents it.
    pub paused: Option<WarmupPause>,
}

/// Why a warm-up prefills no further passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmupPause {
    /// It is retried: the model loads, or the catalog cannot be read. The text says which.
    Retrying(String),
    /// The cache has no room for the remaining passages.
    CacheFull,
    /// It has ended for good; the text says why.
    Failed(String),
}

impl ProviderStatus {
    /// Whether requests reach the provider.
    pub fn takes_requests(&self) -> bool {
        !self.breaker_open && self.skipped_for.is_none()
    }
}

/// The answer of a provider as it arrives.
pub type ModelStream = BoxStream<'static, Result<ModelEvent, Failure>>;

/// A step of a provider's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// The provider accepted the request.
    Started(ModelId),
    /// A sign of life before the answer begins, while the prompt is queued or prefilled. It resets the
    /// timeout of the first token and is not forwarded.
    Waiting,
    /// A token of the answer; never empty.
    Text(Text),
    /// A token of the model's reasoning; never empty.
    Reasoning(Text),
    /// A complete tool call.
    ToolCall(ToolCall),
    /// Token counts as the provider reports them.
    Usage(Usage),
    /// The end of the answer.
    Finish(FinishReason),
}

/// A tool call by the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id of the call; empty if it has none.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments: a JSON object, as text.
    pub arguments: String,
}

/// Token counts as the provider reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input: Option<u64>,
    /// Tokens of the answer.
    pub output: Option<u64>,
    /// Tokens of the prompt that came from a prefix cache.
    pub cached: Option<u64>,
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The answer is complete.
    Stop,
    /// The answer reached a length limit.
    Length,
    /// The model calls tools.
    ToolCalls,
    /// The provider's content filter stopped it.
    Filtered,
}

/// The prompt for a provider. Instructions, passages, history and question stay separate until the provider
/// renders them, so that text of a document cannot pass for an instruction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The instructions.
    pub system: String,
    /// The passages, best first. All of them fit: the caller selects them within [`Provider::room`].
    pub passages: Vec<Passage>,
    /// The conversation so far, the oldest turn first.
    pub history: Vec<Turn>,
    /// The user's question.
    pub question: String,
    /// Maximum tokens of the answer.
    pub max_tokens: u32,
    /// Sampling temperature; 0 picks the most likely token.
    pub temperature: f32,
}

/// Upper bound on the tokens that a chat template adds to each message.
const TOKENS_PER_MESSAGE: usize = 8;

impl Request {
    /// Maximum tokens of the answer in a context window of `window` tokens: at most half of it.
    pub fn answer_tokens(&self, window: usize) -> u32 {
        self.max_tokens.min(u32::try_from(window / 2).unwrap_or(u32::MAX))
    }

    /// Tokens that a context window of `window` tokens leaves for passages, beside instructions, question and
    /// answer; `None` if those alone are too long.
    pub fn room(&self, window: usize, count: impl Fn(&str) -> usize) -> Option<usize> {
        let needed = message(&self.system, &count) + message(&self.question, &count);
        (window - self.answer_tokens(window) as usize).checked_sub(needed)
    }

    /// The newest turns of the history that fit into a context window of `window` tokens beside everything
    /// else. Fails with `TooLong` if instructions, passages, question and answer do not fit.
    pub fn fit(&self, window: usize, count: impl Fn(&str) -> usize) -> Result<&[Turn], Failure> {
        let passages: usize = self.passages.iter().map(|passage| passage.tokens(&count)).sum();
        let room = self.room(window, &count).and_then(|room| room.checked_sub(passages));
        let mut room = room.ok_or_else(|| {
            let needed = message(&self.system, &count) + message(&self.question, &count) + passages;
            let room = window - self.answer_tokens(window) as usize;
            Failure::new(
                FailureKind::TooLong,
                format!(
                    "the question takes about {needed} tokens and the model's window has room for {room}: \
                     shorten it, or use a model with a larger window (context_window)",
                ),
            )
        })?;
        let mut take = |cost: usize| room.checked_sub(cost).map(|left| room = left).is_some();
        let turns = self.history.iter().rev();
        let turns =
            turns.take_while(|turn| take(message(&turn.question, &count) + message(&turn.answer, &count)));
        Ok(&self.history[self.history.len() - turns.count()..])
    }
}

impl Passage {
    /// Number of tokens that the passage takes in a prompt, with its number, title and location.
    pub fn tokens(&self, count: impl Fn(&str) -> usize) -> usize {
        let place = self.file_path.as_deref().or(self.url.as_deref());
        count(&self.title) + place.map_or(0, &count) + message(&self.text, &count)
    }
}

fn message(text: &str, count: impl Fn(&str) -> usize) -> usize {
    count(text) + TOKENS_PER_MESSAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(words: &str) -> Turn {
        Turn { question: words.to_owned(), answer: words.to_owned() }
    }

    #[test]
    fn the_newest_turns_stay_when_the_window_is_small() {
        let request = Request {
            question: "q".repeat(10),
            history: vec![turn("old"), turn("newer"), turn("newest")],
            max_tokens: 20,
            ..Request::default()
        };
        let all = request.fit(200, str::len).unwrap();
        assert_eq!(all.len(), 3);
        let two = request.fit(100, str::len).unwrap();
        assert_eq!(two, [turn("newer"), turn("newest")]);
    }

    #[test]
    fn a_question_larger_than_the_window_is_too_long() {
        let request = Request { question: "q".repeat(100), max_tokens: 2048, ..Request::default() };
        let failure = request.fit(100, str::len).unwrap_err();
        assert_eq!(failure.kind, FailureKind::TooLong);
        assert!(failure.message.contains("room for 50"), "{}", failure.message);
        assert_eq!((request.answer_tokens(100), request.answer_tokens(8192)), (50, 2048));
    }
}
