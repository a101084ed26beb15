//! The log of llama.cpp. It has one callback for the whole process; errors are also collected per thread, since its
//! functions return no reasons.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Once;

use llama_cpp_sys_2 as sys;

/// Upper bound on the collected errors of a thread, in bytes.
const MAX_BYTES: usize = 1_000;

thread_local! {
    static ERRORS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Initializes the library, once.
pub(super) fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        // SAFETY: the function that is handed over lives as long as the process and takes any text.
        unsafe {
            sys::llama_log_set(Some(on_log), ptr::null_mut());
            sys::llama_backend_init();
        }
    });
}

/// The errors of this thread since the last call, on one line.
pub(super) fn take_errors() -> String {
    let errors = ERRORS.take();
    let lines: Vec<&str> = errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

unsafe extern "C" fn on_log(level: sys::ggml_log_level, text: *const c_char, _: *mut c_void) {
    if text.is_null() {
        return;
    }
    // SAFETY: llama.cpp gives a text that ends with a zero and lives until this returns.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let line = text.trim_end();
    if line.is_empty() {
        return;
    }
    if level != sys::GGML_LOG_LEVEL_ERROR {
        tracing::trace!(target: "llama", "{line}");
        return;
    }
    tracing::debug!(target: "llama", "{line}");
    ERRORS.with_borrow_mut(|errors| {
        if errors.len() + line.len() < MAX_BYTES {
            errors.push_str(line);
            errors.push('\n');
        }
    });
}
