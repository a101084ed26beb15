//! A model that is loaded: its weights, and what its file says of it. Nothing changes it any more.

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};

use llama_cpp_sys_2 as sys;

use super::log;
use super::vocabulary::Vocabulary;
use crate::chat::passages::{Pairs, Rotation};

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
    /// Who speaks.
    pub(crate) role: &'static CStr,
    /// What is said.
    pub(crate) content: CString,
}

impl Weights {
    /// Reads a GGUF file. It gives up as soon as `go_on` says no.
    pub(crate) fn load(path: &Path, go_on: &dyn Fn() -> bool) -> Result<Self, String> {
        log::start();
        log::take_errors();
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| "its path has a zero in it")?;
        // SAFETY: the path and `go_on` outlive the call; `tell_progress` is given a pointer to the latter.
        let model = unsafe {
            let mut params = sys::llama_model_default_params();
            params.progress_callback = Some(tell_progress);
            params.progress_callback_user_data = ptr::from_ref(&go_on).cast_mut().cast();
            sys::llama_model_load_from_file(name.as_ptr(), params)
        };
        let model = NonNull::new(model);
        model.map(|model| Self { model }).ok_or_else(|| match log::take_errors() {
            reason if reason.is_empty() => "llama.cpp cannot read it and does not say why".to_owned(),
            reason => reason,
        })
    }

    /// What turns texts into tokens and back.
    pub(crate) fn vocabulary(&self) -> Vocabulary<'_> {
        // SAFETY: the model is alive, and its vocabulary lives as long as it does.
        unsafe { Vocabulary::new(sys::llama_model_get_vocab(self.as_ptr())) }
    }

    /// How many tokens it was trained to look at.
    pub(crate) fn trained_window(&self) -> usize {
        // SAFETY: the model is alive.
        let tokens = unsafe { sys::llama_model_n_ctx_train(self.as_ptr()) };
        usize::try_from(tokens).unwrap_or(0)
    }

    /// Whether it turns tokens into tokens, with a state that can be cut at any of them.
    pub(crate) fn keeps_every_token(&self) -> bool {
        let model = self.as_ptr();
        // SAFETY: the model is alive.
        unsafe { !sys::llama_model_is_recurrent(model) && !sys::llama_model_is_hybrid(model) }
    }

    /// How it rotates keys, as far as its file tells; none if it does so in a way that is not known.
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
            sys::LLAMA_ROPE_TYPE_NORM => Pairs::Neighbours,
            sys::LLAMA_ROPE_TYPE_NEOX => Pairs::Halves,
            _ => return None,
        };
        let kind = self.tells("general.architecture")?;
        let number =
            |name: &str| self.tells(&format!("{kind}.{name}")).and_then(|text| text.parse::<f32>().ok());
        let size =
            |name: &str| self.tells(&format!("{kind}.{name}")).and_then(|text| text.parse::<usize>().ok());
        let even = usize::try_from(width).ok()?.checked_div(usize::try_from(heads).ok()?)?;
        let head = size("attention.key_length").unwrap_or(even);
        let rotated = size("rope.dimension_count").unwrap_or(head);
        Some(Rotation { pairs, head, rotated, base: number("rope.freq_base").unwrap_or(10_000.0), scale })
    }

    /// What its file says under a name.
    fn tells(&self, name: &str) -> Option<String> {
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

    /// Whether it writes texts; others only embed them, or have no words.
    pub(crate) fn writes(&self) -> bool {
        let model = self.as_ptr();
        // SAFETY: the model is alive, and its vocabulary with it.
        unsafe {
            let vocabulary = sys::llama_vocab_type(sys::llama_model_get_vocab(model));
            let has_words = vocabulary != sys::LLAMA_VOCAB_TYPE_NONE;
            has_words && sys::llama_model_has_decoder(model) && !sys::llama_model_has_encoder(model)
        }
    }

    /// The chat template that its file has.
    pub(crate) fn chat_template(&self) -> Option<CString> {
        // SAFETY: the model is alive, and so is its template, which ends with a zero.
        unsafe {
            let template = sys::llama_model_chat_template(self.as_ptr(), ptr::null());
            (!template.is_null()).then(|| CStr::from_ptr(template).to_owned())
        }
    }

    /// Messages in a template, up to where the model speaks; none if llama.cpp does not know the template.
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
        // SAFETY: contexts keep their weights alive, so nobody uses the model any more.
        unsafe { sys::llama_model_free(self.model.as_ptr()) }
    }
}

unsafe extern "C" fn tell_progress(_: f32, go_on: *mut c_void) -> bool {
    // SAFETY: `load` handed over a pointer to its `go_on`, which lives until loading ends.
    let go_on = unsafe { &*go_on.cast::<&dyn Fn() -> bool>() };
    go_on()
}
