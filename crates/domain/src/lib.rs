//! The types and ports of Wellspring, which every other crate builds on.
//!
//! **Asking.** A dialect decodes a request into an [`Ask`]. The engine claims a [`Prompt`] of a [`Session`]
//! in the [`Journal`], or returns a [`Rejection`]. What then happens is a sequence of [`Event`]s, the
//! prompt's log: a [`Retriever`] finds [`Passage`]s, a [`Provider`] streams [`ModelEvent`]s for a
//! [`Request`], and `Ended` with an [`Outcome`] comes last. [`History`] reads and deletes ended prompts.
//!
//! **Knowing.** [`Ingest`] turns [`RawDocument`]s into [`Document`]s and [`Chunk`]s and stores them in the
//! [`Catalog`]. An [`Embedder`] adds vectors, and the [`Index`] follows the catalog by its revisions.
//!
//! | module | contents |
//! | --- | --- |
//! | `ask`, `session`, `principal`, `ids`, `time` | requests, conversations, tenants, identifiers, the clock |
//! | `event`, `failure`, `text` | the log of a prompt |
//! | `journal`, `history`, `storage_error` | the stores of running and of ended prompts, and their error |
//! | `retriever`, `passage` | search, ranking and citations |
//! | `provider` | language models |
//! | `document`, `catalog`, `embedder`, `ingest` | documents and how they become searchable |
//!
//! Invariants:
//! - No I/O. Every trait is a port that an outer crate implements; ports exchange only types of this crate.
//! - No wire formats. Nothing here is serializable; dialects and stores have types of their own.
//! - A log begins with `Accepted`, ends with `Ended`, and its positions have no gaps. [`Turn`], [`Exchange`]
//!   and [`PromptStatus`] are pure functions of it.
//! - Everything stored belongs to a [`Principal`], so an id alone grants no access.
//! - [`Provider::status`] is a diagnostic: no behaviour depends on it.

mod ask;
mod catalog;
mod document;
mod embedder;
mod event;
mod failure;
mod history;
mod ids;
mod ingest;
mod journal;
mod passage;
mod principal;
mod provider;
mod retriever;
mod session;
mod storage_error;
mod text;
mod time;

pub use ask::{
    Ask, CancelReason, FilterField, Filters, MAX_KEY_CHARS, OnDisconnect, Question, Rejection, SearchScope,
    SessionPolicy, TOP_K, WhenNothingFound,
};
pub use catalog::{
    Catalog, CatalogChanges, FilterMatches, IndexSync, IndexedChunk, KnownFile, NewDocument, PutOutcome,
    StoredChunk, StoredDocument, UnembeddedChunk,
};
pub use document::{Chunk, ChunkKind, Document, DocumentLocation, Metadata, SourceKind};
pub use embedder::{Embedder, EmbeddingPriority, EmbeddingShape, TokenCounter};
pub use event::{Accepted, Batch, EndCause, Ended, Event, ModelId, Outcome, RetrievedPassages, Step};
pub use failure::{Failure, FailureKind};
pub use history::{Exchange, History, Prompt, PromptFilter, PromptStatus, RetentionProgress, Turn};
pub use ids::{ChunkId, DocumentId, MessageId, PromptId, SessionId, TraceId};
pub use ingest::{Ingest, IngestFailure, IngestStage, IngestedDocument, RawDocument};
pub use journal::{Claim, Journal, NewPrompt, Run};
pub use passage::{Citation, Passage, char_count, line_ends};
pub use principal::Principal;
pub use provider::{
    FinishReason, ModelEvent, ModelStream, PrefixCacheStats, Provider, ProviderDecorator, ProviderStatus,
    Request, ToolCall, Usage, WarmupPause, WarmupProgress,
};
pub use retriever::{
    Candidate, Hit, Index, IndexQuery, RetrievalQuery, Retrieved, Retriever, Stage, StageName,
};
pub use session::{EndedSession, NewSession, Session, SessionEnd, SessionStatus, Sessions};
pub use storage_error::{StorageError, StorageErrorKind};
pub use text::Text;
pub use time::{Clock, Timestamp};
