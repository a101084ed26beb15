//! Providers and embedders that call model servers over HTTP, the fallback and circuit breaker over providers, and
//! token counting.
//!
//! - [`OllamaProvider`], [`OpenAiProvider`]: the two chat APIs. `messages` renders a request, `http` calls the server,
//!   `decode` and each API's decoder turn the response into events, `usage` counts tokens that the server did not.
//! - [`ExtractiveProvider`]: quotes passages without a model, as the last resort.
//! - [`FallbackProvider`], [`CircuitBreaker`], [`HealthCheckedProvider`]: decorators of any
//!   [`Provider`](domain::Provider). They override what they change and forward everything else through
//!   [`ProviderDecorator`](domain::ProviderDecorator).
//! - [`RemoteEmbedder`]: embeddings from either API, in batches, with retries.
//! - [`count_tokens`]: the `cl100k_base` tokenizer, for models whose own tokenizer is unknown.
//!
//! Invariants: nothing in here reads the environment, settings come in as plain structs. Decoders are pure, and their
//! events do not depend on how the bytes are cut. A key never appears in a message or log. A provider never changes
//! after its first content. Every embedding that leaves is finite and of length one.

mod circuit_breaker;
mod cl100k;
mod decode;
mod embedding;
mod extractive;
mod fallback;
mod health_check;
mod http;
mod messages;
mod ollama;
mod openai;
mod settings;
mod usage;

pub use circuit_breaker::{BreakerRules, CircuitBreaker, SilenceLimits};
pub use cl100k::count_tokens;
pub use embedding::{BatchLimits, HttpEmbedderSettings, RemoteEmbedder, RetryLimits};
pub use extractive::ExtractiveProvider;
pub use fallback::FallbackProvider;
pub use health_check::HealthCheckedProvider;
pub use ollama::OllamaProvider;
pub use openai::OpenAiProvider;
pub use settings::{HttpProviderSettings, InvalidSettings, Secret};
