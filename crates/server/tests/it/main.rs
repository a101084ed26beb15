//! The contract of the generation dialect, the chat dialects and the knowledge base, over real sockets: the general rules
//! and every call but sockets.

mod agreement;
mod bad_input;
mod cancel;
mod chat;
mod chat_door;
mod chat_failures;
mod chat_leaving;
mod chat_sessions;
mod chat_validation;
mod client;
mod contracts;
mod conversations;
mod delta_checks;
mod deltas;
mod dice;
mod door;
mod encodings;
mod failures;
mod harness;
mod health;
mod history;
mod idempotency;
mod knowledge;
mod leaving;
mod limits;
mod passages;
mod prompts;
mod providers_in_order;
mod resume;
mod sessions;
mod staged;
mod stopping;
mod streams;
mod talk;
mod world;
