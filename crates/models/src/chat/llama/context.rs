//! A llama.cpp context: the KV cache of a number of sequences, and the threads that compute. One thread owns it.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use llama_cpp_sys_2 as sys;

use super::exceptions::wellspring_decode;
use super::log;
use super::vocabulary::Token;
use super::weights::Weights;
use crate::chat::load_error::ModelError;

/// The size of a context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextSize {
    /// Upper bound on the tokens of all sequences together; tokens that sequences share count once.
    pub(crate) tokens: u32,
    /// Upper bound on the tokens of a batch.
    pub(crate) batch: u32,
    /// Number of sequences.
    pub(crate) sequences: u32,
    /// Compute threads.
    pub(crate) threads: i32,
}

/// The KV cache of a number of sequences.
pub(crate) struct Context {
    context: NonNull<sys::llama_context>,
    threads: NonNull<sys::ggml_threadpool>,
    size: ContextSize,
    weights: Arc<Weights>,
}

// SAFETY: a context belongs to no thread in particular; it is only never used by two at once.
unsafe impl Send for Context {}

/// A sequence of a context. Only the context creates them, so every one exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequence(sys::llama_seq_id);

/// The outcome of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeOutcome {
    /// All of it was computed.
    Done,
    /// `should_abort` returned true. Sequences may hold part of the batch.
    Aborted,
    /// llama.cpp failed with this code. Sequences may hold part of the batch.
    Failed(i32),
}

/// Tokens that are computed together, each at a position of a sequence.
#[derive(Default)]
pub(crate) struct Batch {
    tokens: Vec<Token>,
    positions: Vec<sys::llama_pos>,
    sequences: Vec<sys::llama_seq_id>,
    outputs: Vec<i8>,
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.sequences.clear();
        self.outputs.clear();
    }

    /// Adds a token and returns its index. If `output` is set, the batch computes its logits.
    pub(crate) fn push(&mut self, sequence: Sequence, at: usize, token: Token, output: bool) -> usize {
        self.tokens.push(token);
        self.positions.push(position(at));
        self.sequences.push(sequence.0);
        self.outputs.push(i8::from(output));
        self.tokens.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }
}

impl Context {
    pub(crate) fn new(weights: Arc<Weights>, size: ContextSize) -> Result<Self, ModelError> {
        log::take_errors();
        // SAFETY: the weights are alive, and the context keeps them so.
        unsafe {
            let mut params = sys::llama_context_default_params();
            params.n_ctx = size.tokens;
            params.n_batch = size.batch;
            params.n_ubatch = size.batch;
            params.n_seq_max = size.sequences;
            params.n_threads = size.threads;
            params.n_threads_batch = size.threads;
            // One buffer for all sequences, so that they can share a common prefix.
            params.kv_unified = true;
            params.no_perf = true;
            let context = NonNull::new(sys::llama_init_from_model(weights.as_ptr(), params))
                .ok_or_else(|| ModelError::OutOfMemory(log::take_errors()))?;
            let mut threads = sys::ggml_threadpool_params_default(size.threads);
            // Sleep between batches instead of spinning: waking takes microseconds, and the embedder needs the CPUs.
            threads.poll = 0;
            let Some(threads) = NonNull::new(sys::ggml_threadpool_new(&raw mut threads)) else {
                sys::llama_free(context.as_ptr());
                return Err(ModelError::NoThreads);
            };
            sys::llama_attach_threadpool(context.as_ptr(), threads.as_ptr(), threads.as_ptr());
            Ok(Self { context, threads, size, weights })
        }
    }

    /// Sets how many of the threads compute.
    pub(crate) fn set_threads(&mut self, threads: usize) {
        let threads = i32::try_from(threads).unwrap_or(i32::MAX).clamp(1, self.size.threads);
        // SAFETY: the context is alive.
        unsafe { sys::llama_set_n_threads(self.context.as_ptr(), threads, threads) }
    }

    pub(crate) fn weights(&self) -> &Arc<Weights> {
        &self.weights
    }

    pub(crate) fn sequences(&self) -> impl Iterator<Item = Sequence> + use<> {
        (0..i32::try_from(self.size.sequences).unwrap_or(0)).map(Sequence)
    }

    /// Computes a batch. Polls `should_abort` between the nodes of the compute graph.
    pub(crate) fn decode(&mut self, batch: &mut Batch, should_abort: &dyn Fn() -> bool) -> DecodeOutcome {
        if batch.len() == 0 || batch.len() > self.size.batch as usize {
            return DecodeOutcome::Failed(-1);
        }
        let Ok(count) = i32::try_from(batch.len()) else { return DecodeOutcome::Failed(-1) };
        let mut ones = vec![1; batch.len()];
        let mut each: Vec<_> = batch.sequences.iter_mut().map(ptr::from_mut).collect();
        let raw = sys::llama_batch {
            n_tokens: count,
            token: batch.tokens.as_mut_ptr(),
            embd: ptr::null_mut(),
            pos: batch.positions.as_mut_ptr(),
            n_seq_id: ones.as_mut_ptr(),
            seq_id: each.as_mut_ptr(),
            logits: batch.outputs.as_mut_ptr(),
        };
        // SAFETY: every list has as many items as there are tokens; they and `should_abort` outlive the
        // call, which is the only one in which `on_abort_check` is called, on this thread.
        let result = unsafe {
            let context = self.context.as_ptr();
            let data = ptr::from_ref(&should_abort).cast_mut().cast();
            sys::llama_set_abort_callback(context, Some(on_abort_check), data);
            let result = wellspring_decode(context, &raw const raw);
            sys::llama_set_abort_callback(context, None, ptr::null_mut());
            result
        };
        match result {
            0 => DecodeOutcome::Done,
            2 => DecodeOutcome::Aborted,
            code => DecodeOutcome::Failed(code),
        }
    }

    /// The logits after a token of the last batch, by its index.
    pub(crate) fn logits(&self, index: usize) -> Option<&[f32]> {
        let index = i32::try_from(index).ok()?;
        // SAFETY: llama.cpp gives as many numbers as the vocabulary has tokens, or none, and leaves them alone
        // until the next batch, which needs this context for itself.
        unsafe {
            let logits = sys::llama_get_logits_ith(self.context.as_ptr(), index);
            let size = self.weights.vocabulary().size();
            (!logits.is_null()).then(|| slice::from_raw_parts(logits, size))
        }
    }

    /// Truncates a sequence to its first `length` tokens. If the model cannot do that, the sequence becomes empty and
    /// this returns false.
    pub(crate) fn truncate(&mut self, sequence: Sequence, length: usize) -> bool {
        // SAFETY: the context is alive and has the sequence.
        unsafe {
            let memory = sys::llama_get_memory(self.context.as_ptr());
            let truncated = (length == 0 || self.weights.is_truncatable())
                && sys::llama_memory_seq_rm(memory, sequence.0, position(length), -1);
            if !truncated {
                sys::llama_memory_seq_rm(memory, sequence.0, -1, -1);
            }
            truncated
        }
    }

    /// Bytes that `export` would return.
    pub(crate) fn export_bytes(&mut self, sequence: Sequence) -> usize {
        // SAFETY: the context is alive and has the sequence.
        unsafe { sys::llama_state_seq_get_size(self.context.as_ptr(), sequence.0) }
    }

    /// The KV cache of a sequence, in llama.cpp's serialized form.
    pub(crate) fn export(&mut self, sequence: Sequence) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.export_bytes(sequence)];
        // SAFETY: the context is alive and has the sequence; the call writes within the given length.
        let written = unsafe {
            let context = self.context.as_ptr();
            sys::llama_state_seq_get_data(context, bytes.as_mut_ptr(), bytes.len(), sequence.0)
        };
        (written > 0 && written == bytes.len()).then_some(bytes)
    }

    /// Replaces a sequence by an exported one. If that fails, the sequence is empty.
    pub(crate) fn import(&mut self, sequence: Sequence, exported: &[u8]) -> bool {
        // SAFETY: the context is alive and has the sequence; llama.cpp reads within the given length, and rejects
        // dimensions other than this context's.
        let read = unsafe {
            let context = self.context.as_ptr();
            sys::llama_state_seq_set_data(context, exported.as_ptr(), exported.len(), sequence.0)
        };
        let imported = read == exported.len();
        if !imported {
            self.truncate(sequence, 0);
        }
        imported
    }

    /// Adds the first `length` tokens of a sequence to another one, which must be empty. Both share the entries.
    pub(crate) fn share_prefix(&mut self, from: Sequence, to: Sequence, length: usize) {
        // SAFETY: the context is alive and has both sequences.
        unsafe {
            let memory = sys::llama_get_memory(self.context.as_ptr());
            sys::llama_memory_seq_cp(memory, from.0, to.0, 0, position(length));
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: nothing uses the context any more; its threads end after it.
        unsafe {
            sys::llama_free(self.context.as_ptr());
            sys::ggml_threadpool_free(self.threads.as_ptr());
        }
    }
}

fn position(index: usize) -> sys::llama_pos {
    sys::llama_pos::try_from(index).unwrap_or(sys::llama_pos::MAX)
}

unsafe extern "C" fn on_abort_check(should_abort: *mut c_void) -> bool {
    // SAFETY: `decode` handed over a pointer to its `should_abort`, which lives until the batch ends.
    let should_abort = unsafe { &*should_abort.cast::<&dyn Fn() -> bool>() };
    should_abort()
}
