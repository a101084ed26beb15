//! The way of documents into the knowledge base. From bytes to chunks: [`media`] says what a file is, [`parse`]
//! finds its structure, [`chunk`] cuts it along that structure, [`names`] says what people call it. No file,
//! network or clock in any of them: the same bytes give the same chunks. Around them [`sources`], where documents
//! come from, and the [`Pipeline`], which brings them into the catalog.

pub mod chunk;
mod code;
mod lines;
mod markdown;
pub mod media;
pub mod names;
mod outline;
mod parsed;
mod pipeline;
pub mod sources;

pub use markdown::FrontMatter;
pub use parsed::{Parsed, parse};
pub use pipeline::{Pipeline, Ports, Progress, Report, Settings, Stopped, Tell};
