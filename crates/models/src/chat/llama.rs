//! Safe bindings to llama.cpp: a model's weights and vocabulary, which threads share, and a context, which one
//! thread owns. With the embedder's kernels this is the only `unsafe` code of the crate. llama.cpp aborts the process
//! on bad input (a batch that is too large, an unknown sequence); these types make such calls impossible.
#![expect(unsafe_code, reason = "llama.cpp is a library in C++")]

#[cfg(test)]
mod altered_vocabulary;
mod build_features;
mod context;
mod exceptions;
mod f16;
mod log;
mod quantization;
mod vocabulary;
mod weights;

pub(crate) use build_features::{has_amx, required_cpu_features, version};
pub(crate) use context::{Batch, Context, ContextSize, DecodeOutcome, Sequence};
pub(crate) use f16::{f16_to_f32, f32_to_f16};
pub(crate) use quantization::{Quantization, requantize, tensors};
pub(crate) use vocabulary::{Parse, Token, Vocabulary};
pub(crate) use weights::{Message, Weights};
