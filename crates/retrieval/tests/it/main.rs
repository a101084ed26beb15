//! The index, the follower and the retriever, with the real catalog and a fake embedding model.

mod catalog;
mod crash_recovery;
mod exactness;
mod fixtures;
mod follower;
mod index;
mod retriever;
