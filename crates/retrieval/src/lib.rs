//! Finding passages: the index that is searched, the order of what it finds, and how good that order is.

mod follower;
mod fusion;
mod gate;
mod index;
pub mod metrics;
mod retriever;
mod selection;

pub use follower::Follower;
pub use fusion::Fusion;
pub use index::{EmbeddedIndex, Unusable};
pub use retriever::HybridRetriever;
