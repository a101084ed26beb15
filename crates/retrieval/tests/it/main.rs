//! The index, the retriever and the follower, with the real catalog and embedders.

mod crash;
mod exactness;
mod follower;
mod index;
mod library;
mod retriever;
mod world;
