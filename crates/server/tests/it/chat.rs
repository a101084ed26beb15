//! The chat dialect and the staged dialect: `/chat`, `/chat/stream`, `/conversations`.

mod answers;
mod conversations;
mod disconnects;
mod errors;
mod failures;
mod filters;
mod selected_text;
mod sessions;
mod staged;
mod validation;
