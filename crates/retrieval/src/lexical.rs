//! Lexical scoring, shared by the index and selected texts: texts become terms, and BM25 weighs them.

pub(crate) mod bm25;
mod stemmer;
pub(crate) mod tokenizer;
