//! llama.cpp, made safe: a model's weights and vocabulary, which may be shared, and a context, which one thread
//! owns. Beside the embedder's kernels this is the only place with `unsafe`. Whatever llama.cpp would answer by
//! ending the process (a batch too large, a sequence it does not have) cannot be asked for from outside.
#![expect(unsafe_code, reason = "llama.cpp is a library in C++")]

mod built;
#[cfg(test)]
mod changed;
mod context;
mod guard;
mod halves;
mod log;
mod quantized;
mod vocabulary;
mod weights;

pub(crate) use built::{Instructions, instructions, multiplies_tiles, version};
pub(crate) use context::{Batch, Context, ContextSize, Decoded, Sequence};
pub(crate) use halves::{from_halves, to_halves};
pub(crate) use quantized::{Form, convert, tensors};
pub(crate) use vocabulary::{Parse, Token, Vocabulary};
pub(crate) use weights::{Message, Weights};
