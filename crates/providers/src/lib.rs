//! Model servers over HTTP, the last resort when none answers, and the order in which they are asked. Settings
//! come in as plain structs: nothing in here reads the environment.

mod answer;
mod breaker;
mod characters;
mod client;
mod embedding;
mod events;
#[cfg(test)]
mod fixture;
mod lines;
mod messages;
mod model_server;
mod ollama;
mod openai;
mod order;
mod problem;
mod quotes;
mod refusal;
mod settings;
mod sse;
mod watched;

pub use breaker::{Breaker, BreakerRules, Patience};
pub use embedding::{Batches, HttpEmbedder, RemoteEmbedder, Retries};
pub use ollama::Ollama;
pub use openai::OpenAi;
pub use order::Order;
pub use quotes::Quotes;
pub use settings::{HttpProvider, InvalidSettings, Secret};
pub use watched::Watched;
