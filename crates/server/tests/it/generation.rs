//! The generation dialect: `/api/generation`.

mod cancel;
mod disconnects;
mod encodings;
mod idempotency;
mod invalid_requests;
mod limits;
mod prompts;
mod provider_failures;
mod provider_order;
mod resume;
mod sessions;
mod sources;
mod streaming;
