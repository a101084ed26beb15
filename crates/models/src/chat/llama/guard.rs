//! The calls that may throw, as `guard.cpp` has them.

use std::ffi::c_char;

use llama_cpp_sys_2 as sys;

/// What they return when something was thrown; its text is in the log.
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
    use std::ffi::CString;
    use std::fs::{self, File};
    use std::os::unix::ffi::OsStrExt;
    use std::ptr;

    use super::super::vocabulary::Vocabulary;
    use super::super::{Parse, log};
    use super::*;
    use crate::chat::tests::path;

    #[test]
    fn a_vocabulary_that_throws_ends_nothing() {
        log::start();
        let folder = tempfile::tempdir().unwrap();
        let c = |path: &std::path::Path| CString::new(path.as_os_str().as_bytes()).unwrap();
        let (from, to) = (c(&path()), c(&folder.path().join("odd.gguf")));
        // SAFETY: all texts end with zeros and outlive the calls; what was made is freed at the end.
        unsafe {
            // A vocabulary whose pieces are merged in another way than it was made for lacks single bytes.
            let params = sys::gguf_init_params { no_alloc: true, ctx: ptr::null_mut() };
            let head = sys::gguf_init_from_file(from.as_ptr(), params);
            sys::gguf_set_val_str(head, c"tokenizer.ggml.model".as_ptr(), c"llama".as_ptr());
            assert!(sys::gguf_write_to_file(head, to.as_ptr(), true));
            sys::gguf_free(head);
            // Its weights are nothing but a hole.
            let file = File::options().append(true).open(folder.path().join("odd.gguf")).unwrap();
            file.set_len(fs::metadata(path()).unwrap().len() + (1 << 20)).unwrap();
            let mut params = sys::llama_model_default_params();
            params.vocab_only = true;
            let model = sys::llama_model_load_from_file(to.as_ptr(), params);
            assert!(!model.is_null(), "{}", log::take_errors());
            let vocabulary = Vocabulary::new(sys::llama_model_get_vocab(model));
            log::take_errors();
            assert_eq!(vocabulary.tokens("\u{1f600} \u{4}", Parse::Plain), None);
            assert!(!log::take_errors().is_empty());
            sys::llama_model_free(model);
        }
    }
}
