//! The contract of the generation dialect and of the knowledge base, over real sockets: the general rules and every
//! call but sockets.

mod bad_input;
mod cancel;
mod client;
mod connections;
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
mod metrics;
mod passages;
mod prompts;
mod providers_in_order;
mod rate;
mod resume;
mod sessions;
mod stopping;
mod streams;
mod world;
