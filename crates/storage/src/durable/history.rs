//! The tables of `history.db`. Every function here runs inside a transaction of its caller.

pub(super) mod claims;
mod conversations;
pub(super) mod finish;
pub(super) mod prompts;
pub(super) mod retention;
pub(super) mod schema;
pub(super) mod sessions;
