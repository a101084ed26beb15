//! What tests and first tries need instead of the real thing: a fake model server whose faults are in the
//! model's name, and in-process pieces that a test drives by hand on paused time.

mod black_hole;
mod catalog;
mod clock;
mod embedder;
mod embeddings;
mod fake_model;
mod fuzz;
mod journal;
mod models;
mod moody;
mod ollama;
mod openai;
mod playback;
mod retriever;
mod routes;
mod script;
mod scripted;
mod seen;
mod socket;
mod speech;
mod vectors;
mod vendor;

pub use black_hole::BlackHole;
pub use catalog::FailingCatalog;
pub use clock::PausedClock;
pub use embedder::FakeEmbedder;
pub use fake_model::FakeModel;
pub use fuzz::{fuzz, fuzz_text};
pub use journal::{FailingJournal, SlowJournal};
pub use models::models_folder;
pub use moody::{Mood, MoodyProvider};
pub use retriever::{ScriptedRetriever, passage};
pub use script::grammar;
pub use scripted::{ScriptedCall, ScriptedCalls, ScriptedProvider};
pub use seen::{Ending, Seen};
pub use speech::{fake_text, fake_token};
pub use vectors::fake_vector;
