//! A loaded model: its weights and metadata, immutable and shared between threads.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr::{self, NonNull};

use llama_cpp_sys_2 as sys;

use super::log;
use super::quantization::c_path;
use super::vocabulary::Vocabulary;
use crate::chat::load_error::ModelError;
use crate::chat::prefix_cache::{RotatedPairs, Rotation};

/// The weights and the vocabulary of a model.
pub(crate) struct Weights {
    model: NonNull<sys::llama_model>,
}

// SAFETY: once loaded, a model is only read, which llama.cpp allows from any thread.
unsafe impl Send for Weights {}
// SAFETY: the same.
unsafe impl Sync for Weights {}

/// A message as a chat template takes it.
pub(crate) struct Message {
    pub(crate) role: &'static CStr,
    pub(crate) content: CString,
}

impl Weights {
    /// Loads a GGUF file. Stops as soon as `go_on` returns false.
    pub(crate) fn load(path: &Path, go_on: &dyn Fn() -> bool) -> Result<Self, ModelError> {
        log::start();
        log::take_errors();
        let name = c_path(path)?;
        // SAFETY: the path and `go_on` outlive the call; `on_progress` gets a pointer to the latter.
        let model = unsafe {
            let mut params = sys::llama_model_default_params();
            params.progress_callback = Some(on_progress);
            params.progress_callback_user_data = ptr::from_ref(&go_on).cast_mut().cast();
            sys::llama_model_load_from_file(name.as_ptr(), params)
        };
        let model = NonNull::new(model);
        model.map(|model| Self { model }).ok_or_else(|| match log::take_errors() {
            reason if reason.is_empty() => {
                ModelError::Rejected("llama.cpp cannot read it and does not say why".to_owned())
            }
            reason => ModelError::Rejected(reason),
        })
    }

    /// The tokenizer.
    pub(crate) fn vocabulary(&self) -> Vocabulary<'_> {
        // SAFETY: the model is alive, and its vocabulary lives as long as it does.
        unsafe { Vocabulary::new(sys::llama_model_get_vocab(self.as_ptr())) }
    }

    /// The context window that the model was trained with, in tokens.
    pub(crate) fn trained_window(&self) -> usize {
        // SAFETY: the model is alive.
        let tokens = unsafe { sys::llama_model_n_ctx_train(self.as_ptr()) };
        usize::try_from(tokens).unwrap_or(0)
    }

    /// Whether its KV cache has an entry for each token, so that a sequence can be truncated anywhere. Recurrent models
    /// have a single state instead.
    pub(crate) fn is_truncatable(&self) -> bool {
        let model = self.as_ptr();
        // SAFETY: the model is alive.
        unsafe { !sys::llama_model_is_recurrent(model) && !sys::llama_model_is_hybrid(model) }
    }

    /// The rotary position embedding that the file's metadata describes; none if it is of an unsupported kind.
    pub(crate) fn rotation(&self) -> Option<Rotation> {
        let model = self.as_ptr();
        // SAFETY: the model is alive.
        let (kind, heads, width, scale) = unsafe {
            (
                sys::llama_model_rope_type(model),
                sys::llama_model_n_head(model),
                sys::llama_model_n_embd(model),
                sys::llama_model_rope_freq_scale_train(model),
            )
        };
        let pairs = match kind {
            sys::LLAMA_ROPE_TYPE_NORM => RotatedPairs::Neighbours,
            sys::LLAMA_ROPE_TYPE_NEOX => RotatedPairs::Halves,
            _ => return None,
        };
        let kind = self.metadata("general.architecture")?;
        let own = |name: &str| self.metadata(&format!("{kind}.{name}"));
        let number = |name: &str| own(name)?.parse::<f32>().ok();
        let size = |name: &str| own(name)?.parse::<usize>().ok();
        let even = usize::try_from(width).ok()?.checked_div(usize::try_from(heads).ok()?)?;
        let head = size("attention.key_length").unwrap_or(even);
        let rotated = size("rope.dimension_count").unwrap_or(head);
        Some(Rotation { pairs, head, rotated, base: number("rope.freq_base").unwrap_or(10_000.0), scale })
    }

    /// A value of the file's metadata, as text.
    fn metadata(&self, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        let mut text: Vec<u8> = vec![0; 256];
        // SAFETY: the model is alive, the name ends with a zero, and no more is written than there is room.
        let length = unsafe {
            let into = text.as_mut_ptr().cast::<c_char>();
            sys::llama_model_meta_val_str(self.as_ptr(), name.as_ptr(), into, text.len())
        };
        text.truncate(usize::try_from(length).ok().filter(|&length| length < text.len())?);
        String::from_utf8(text).ok()
    }

    /// Whether the model generates text; others only embed it, or have no vocabulary.
    pub(crate) fn generates_text(&self) -> bool {
        let model = self.as_ptr();
        // SAFETY: the model is alive, and its vocabulary with it.
        unsafe {
            let vocabulary = sys::llama_vocab_type(sys::llama_model_get_vocab(model));
            let has_words = vocabulary != sys::LLAMA_VOCAB_TYPE_NONE;
            has_words && sys::llama_model_has_decoder(model) && !sys::llama_model_has_encoder(model)
        }
    }

    /// The chat template in the file's metadata.
    pub(crate) fn chat_template(&self) -> Option<CString> {
        // SAFETY: the model is alive, and so is its template, which ends with a zero.
        unsafe {
            let template = sys::llama_model_chat_template(self.as_ptr(), ptr::null());
            (!template.is_null()).then(|| CStr::from_ptr(template).to_owned())
        }
    }

    /// Messages rendered up to the assistant's turn; none if llama.cpp does not know the template.
    pub(crate) fn apply_template(template: &CStr, messages: &[Message]) -> Option<String> {
        let as_c = |message: &Message| sys::llama_chat_message {
            role: message.role.as_ptr(),
            content: message.content.as_ptr(),
        };
        let chat: Vec<_> = messages.iter().map(as_c).collect();
        let mut buffer: Vec<u8> = vec![0; 4_096];
        loop {
            let room = i32::try_from(buffer.len()).ok()?;
            // SAFETY: all texts end with a zero and outlive the call, and it writes no more than there is room.
            let length = unsafe {
                let into = buffer.as_mut_ptr().cast::<c_char>();
                sys::llama_chat_apply_template(template.as_ptr(), chat.as_ptr(), chat.len(), true, into, room)
            };
            let length = usize::try_from(length).ok()?;
            if length <= buffer.len() {
                buffer.truncate(length);
                return String::from_utf8(buffer).ok();
            }
            buffer.resize(length, 0);
        }
    }

    pub(super) fn as_ptr(&self) -> *mut sys::llama_model {
        self.model.as_ptr()
    }
}

impl Drop for Weights {
    fn drop(&mut self) {
        // SAFETY: contexts keep their weights alive, so nothing uses the model any more.
        unsafe { sys::llama_model_free(self.model.as_ptr()) }
    }
}

unsafe extern "C" fn on_progress(_: f32, go_on: *mut c_void) -> bool {
    // SAFETY: `load` handed over a pointer to its `go_on`, which lives until loading ends.
    let go_on = unsafe { &*go_on.cast::<&dyn Fn() -> bool>() };
    go_on()
}
