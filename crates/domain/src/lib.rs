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
    FinishReason, ModelEvent, ModelStream, PrefixCacheStats, Provider, ProviderStatus, Request, ToolCall,
    Usage, WarmupProgress,
};
pub use retriever::{
    Candidate, Hit, Index, IndexQuery, RetrievalQuery, Retrieved, Retriever, Stage, StageName,
};
pub use session::{EndedSession, NewSession, Session, SessionEnd, SessionStatus, Sessions};
pub use storage_error::{StorageError, StorageErrorKind};
pub use text::Text;
pub use time::{Clock, Timestamp};
