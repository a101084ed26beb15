//! The catalog.

mod change_feed;
mod concurrency;
mod contract;
mod damage;
mod filters;
mod fixtures;
mod released_formats;
mod scale;
