//! Fakes and helpers for tests.
//!
//! | to test | use |
//! | --- | --- |
//! | an HTTP client of a model server | [`FakeModel`]: OpenAI's and Ollama's API; the model's name selects faults |
//! | a connection that is never accepted | [`HangingServer`] |
//! | each step of an answer, on paused time | [`ManualProvider`]: the test sends every event of every call |
//! | fallback, circuit breaker, health checks | [`SwitchableProvider`]: the test switches its [`Behaviour`] |
//! | answers over given passages | [`ScriptedRetriever`] and [`passage`] |
//! | ingest and search | [`FakeEmbedder`]: vectors of word counts; words in the texts select faults |
//! | errors and delays of storage | [`FailingCatalog`], [`FailingJournal`], [`SlowJournal`] |
//! | time | [`PausedClock`], which stands still while tokio's clock is paused |
//! | a parser | [`fuzz`] and [`fuzz_text`]: mutations of valid inputs |
//!
//! [`FakeModel`] and [`HangingServer`] use real sockets, so they need tokio's real clock. The binary `fake-model`
//! serves a [`FakeModel`] for trying Wellspring without a model.

mod failing_catalog;
mod fake_embedder;
mod fake_model;
mod fuzz;
mod hanging_server;
mod journals;
mod manual_provider;
mod models_folder;
mod paused_clock;
mod scripted_retriever;
mod switchable_provider;

pub use failing_catalog::FailingCatalog;
pub use fake_embedder::FakeEmbedder;
pub use fake_model::{
    FakeModel, RecordedRequest, RequestEnding, fake_text, fake_token, fake_vector, model_name_grammar,
};
pub use fuzz::{fuzz, fuzz_text};
pub use hanging_server::HangingServer;
pub use journals::{FailingJournal, SlowJournal};
pub use manual_provider::{ManualCall, ManualCalls, ManualProvider};
pub use models_folder::models_folder;
pub use paused_clock::PausedClock;
pub use scripted_retriever::{ScriptedRetriever, passage};
pub use switchable_provider::{Behaviour, SwitchableProvider};
