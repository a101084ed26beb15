//! Test support: the small model's vocabulary with altered metadata.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use llama_cpp_sys_2 as sys;

use super::log;
use super::vocabulary::Vocabulary;
use crate::chat::tests::path;

/// Alters the metadata of a copy of the small model's file, and passes the resulting vocabulary to `check`.
pub(super) fn with_altered_vocabulary(
    alter: impl FnOnce(*mut sys::gguf_context),
    check: impl FnOnce(Vocabulary<'_>),
) {
    log::start();
    let folder = tempfile::tempdir().unwrap();
    let c = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
    let (from, to) = (c(&path()), c(&folder.path().join("altered.gguf")));
    // SAFETY: all texts end with zeros and outlive the calls; what was made is freed at the end.
    unsafe {
        let params = sys::gguf_init_params { no_alloc: true, ctx: ptr::null_mut() };
        let head = sys::gguf_init_from_file(from.as_ptr(), params);
        alter(head);
        assert!(sys::gguf_write_to_file(head, to.as_ptr(), true));
        sys::gguf_free(head);
        // The weights are a hole in a sparse file.
        let file = File::options().append(true).open(folder.path().join("altered.gguf")).unwrap();
        file.set_len(fs::metadata(path()).unwrap().len() + (1 << 20)).unwrap();
        let mut params = sys::llama_model_default_params();
        params.vocab_only = true;
        let model = sys::llama_model_load_from_file(to.as_ptr(), params);
        assert!(!model.is_null(), "{}", log::take_errors());
        check(Vocabulary::new(sys::llama_model_get_vocab(model)));
        sys::llama_model_free(model);
    }
}
