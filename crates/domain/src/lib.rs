//! Wellspring's nouns and ports. No I/O, no wire formats: nothing in here is serializable, and every
//! trait is a port that an outer crate implements.

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
mod text;
mod time;

pub use ask::{
    Ask, CancelReason, FilterField, Filters, Leaving, MAX_KEY_CHARS, NothingFound, Opening, Question,
    Rejection, Scope, TOP_K,
};
pub use catalog::{
    Catalog, Changes, Filed, Filing, Indexed, Known, Matching, NewDocument, Piece, Published, Unembedded,
};
pub use document::{Chunk, ChunkKind, Document, Metadata, Place, Source};
pub use embedder::{Embedder, Shape, TokenCounter, Urgency};
pub use event::{Accepted, Batch, Cause, Ended, Event, Model, Outcome, Passages, Step};
pub use failure::{Failure, FailureKind};
pub use history::{Exchange, Forgotten, History, Prompt, PromptStatus, Turn, Which};
pub use ids::{ChunkId, DocumentId, MessageId, PromptId, SessionId, TraceId};
pub use ingest::{Ingest, IngestStage, Ingested, NotIngested, RawDocument};
pub use journal::{Claim, Journal, NewPrompt, Run, StorageError};
pub use passage::{Citation, Passage, char_count, line_ends};
pub use principal::Principal;
pub use provider::{
    AheadState, FinishReason, KeptPassages, ModelEvent, ModelStream, Provider, ReadingAhead, Request,
    Standing, ToolCall, Usage,
};
pub use retriever::{Candidate, Found, Hit, Index, Query, Retriever, Search, Stage, StageName};
pub use session::{Ending, NewSession, Session, SessionEnd, SessionStatus, Sessions};
pub use text::Text;
pub use time::{Clock, Timestamp};
