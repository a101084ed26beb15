//! The catalog.

mod contract;
mod damage;
mod filters;
mod following;
mod library;
mod released;
mod scale;
mod sharing;
