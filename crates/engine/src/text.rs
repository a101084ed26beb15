//! Text as the pipeline's steps look at it: sentences, content words, and Markdown without its code. Pure
//! functions.

pub(crate) mod markdown;
pub(crate) mod sentences;
pub(crate) mod word_list;
pub(crate) mod words;
