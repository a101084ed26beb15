//! Calls of llama.cpp that may throw a C++ exception, wrapped by `exceptions.cpp`.

use std::ffi::c_char;

use llama_cpp_sys_2 as sys;

/// The result of a call that threw; the exception's text is in the log.
pub(super) const THROWN: i32 = i32::MIN;

unsafe extern "C" {
    /// As `llama_tokenize`, with nothing added.
    pub(super) fn wellspring_tokenize(
        vocabulary: *const sys::llama_vocab,
        text: *const c_char,
        length: i32,
        tokens: *mut sys::llama_token,
        room: i32,
        control: bool,
    ) -> i32;

    /// As `llama_token_to_piece`, with nothing cut off and no control tokens.
    pub(super) fn wellspring_token_to_piece(
        vocabulary: *const sys::llama_vocab,
        token: sys::llama_token,
        into: *mut c_char,
        room: i32,
    ) -> i32;

    /// As `llama_decode`.
    pub(super) fn wellspring_decode(context: *mut sys::llama_context, batch: *const sys::llama_batch) -> i32;
}

#[cfg(test)]
mod tests {
    use super::super::altered_vocabulary::with_altered_vocabulary;
    use super::super::{Parse, log};
    use super::*;

    #[test]
    fn an_exception_of_the_vocabulary_becomes_an_error() {
        // A byte-level vocabulary read as SentencePiece lacks tokens for single bytes.
        let as_sentencepiece = |head: *mut sys::gguf_context| {
            // SAFETY: the head is alive, and the texts end with zeros.
            unsafe { sys::gguf_set_val_str(head, c"tokenizer.ggml.model".as_ptr(), c"llama".as_ptr()) }
        };
        with_altered_vocabulary(as_sentencepiece, |vocabulary| {
            log::take_errors();
            assert_eq!(vocabulary.tokens("\u{1f600} \u{4}", Parse::Plain), None);
            assert!(!log::take_errors().is_empty());
        });
    }
}
