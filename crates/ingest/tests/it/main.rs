//! The public interface of the crate: chunks of real-looking, recorded, random and adversarial texts; folders
//! and repositories ingested into a real catalog.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

mod adversarial_texts;
mod client_documents;
mod crash;
mod folders;
mod fuzz;
mod golden;
mod hostile_folders;
mod library;
mod many_files;
mod properties;
mod repositories;
mod tokens;
mod word_windows;
