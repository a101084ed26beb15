//! Hybrid retrieval: finds the passages of a knowledge base, or of a text that came with the question, that
//! answer a question.
//!
//! The parts, in the order in which a document and then a question pass through them:
//!
//! 1. [`IndexFollower`] copies every revision of the catalog into the index.
//! 2. [`EmbeddedIndex`] is the index in this process: BM25 postings in tantivy, and vectors beside them in
//!    the same segments. It answers a query with candidates: the best by BM25 and the best by cosine.
//! 3. `lexical` splits texts into terms and weighs them. The index and selected texts share it.
//! 4. `selected_text` makes candidates of a text that came with the question, without an index.
//! 5. [`Fusion`] puts the candidates of both rankings into one order.
//! 6. `relevance_gate` decides whether any candidate is likely to answer the question at all.
//! 7. [`HybridRetriever`] runs these steps for one question, and loads the texts of the passages.
//! 8. [`ranking_metrics`] measures the quality of rankings, for evaluations.
//!
//! Invariants:
//!
//! * The index is derived from the catalog and can be rebuilt from it at any time; it stores no texts.
//! * One revision is one commit and one snapshot. A search sees exactly one revision, also after a crash.
//! * Dense search is exact: quantized vectors only rule out rows that cannot be among the best.
//! * Scores depend on the question and the tenant's own chunks alone. Filters, other tenants and the order in
//!   which chunks were indexed change no score, and ties are broken by chunk id.

mod follower;
mod fusion;
mod index;
mod lexical;
pub mod ranking_metrics;
mod relevance_gate;
mod retriever;
mod selected_text;

pub use follower::IndexFollower;
pub use fusion::Fusion;
pub use index::{EmbeddedIndex, OpenIndexError};
pub use retriever::HybridRetriever;
