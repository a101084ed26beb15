//! Runs prompts: admits requests, answers questions from retrieved passages, and streams each prompt's log to
//! its readers.
//!
//! The parts, in the order in which a prompt meets them:
//!
//! 1. `admission` decides what a request becomes: it validates the request, chooses the provider and claims
//!    the session in the journal. The result is a new prompt, the running or ended prompt that has the same
//!    idempotency key, or a [`domain::Rejection`].
//! 2. `running` holds the prompts of this node. Each has one task, one writer that appends events to the
//!    prompt's log, and any number of [`Reader`]s that follow the log at their own pace.
//! 3. `pipeline` is what the task does: recall the conversation, rewrite a follow-up question, retrieve
//!    passages, compose the model's request, generate, cite.
//!
//! Beside them: `sessions`, `history` and `retention` (what is stored), `health` and `metrics` (what is
//! observed), `text` (sentences, words and Markdown for the steps that look at text).
//!
//! Invariants:
//!
//! - A batch of events is durable in the journal before a reader sees it.
//! - Every admitted prompt gets exactly one terminal event, also when its task panics or the journal fails.
//! - The session and the stream slot of a prompt are free before a reader sees the terminal event, so the
//!   client can ask again at once.
//! - Readers never slow a prompt down: a reader is a position in the log.
//! - The registry of running prompts and the limits are per node. Which prompt has a key and whether a
//!   session is busy is decided by the journal alone, so several nodes may share one.

mod admission;
mod engine;
mod health;
mod history;
mod metrics;
mod pipeline;
mod retention;
mod running;
mod sessions;
mod settings;
mod text;

pub use crate::admission::providers::{InvalidOwnerPattern, Providers};
pub use crate::engine::{Engine, Ports};
pub use crate::health::ProviderHealth;
pub use crate::metrics::{EngineMetrics, Histogram, ModelMetrics};
pub use crate::pipeline::compose::passages_request;
pub use crate::pipeline::rewrite::rule::rewrite_by_rule;
pub use crate::running::reader::Reader;
pub use crate::settings::{AnswerSettings, Limits, RewriteMode};
