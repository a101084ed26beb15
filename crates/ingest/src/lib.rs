//! The way of one document, from bytes to chunks: [`media`] says what a file is, [`parse`] finds its
//! structure, [`chunk`] cuts it along that structure, [`names`] says what people call it. No file, network or
//! clock in any of them: the same bytes give the same chunks.

pub mod chunk;
mod code;
mod lines;
mod markdown;
pub mod media;
pub mod names;
mod outline;
mod parsed;

pub use markdown::FrontMatter;
pub use parsed::{Parsed, parse};
