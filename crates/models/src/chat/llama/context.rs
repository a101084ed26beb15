//! The state in which a model computes: for each sequence of tokens what the model keeps of them. One thread owns
//! it.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use llama_cpp_sys_2 as sys;

use super::guard::wellspring_decode;
use super::log;
use super::vocabulary::Token;
use super::weights::Weights;

/// How large a context is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextSize {
    /// Tokens of all sequences together; those that sequences share count once.
    pub(crate) tokens: u32,
    /// Tokens of one batch.
    pub(crate) batch: u32,
    /// Sequences.
    pub(crate) sequences: u32,
    /// Threads that compute.
    pub(crate) threads: i32,
}

/// The state of some sequences.
pub(crate) struct Context {
    context: NonNull<sys::llama_context>,
    threads: NonNull<sys::ggml_threadpool>,
    size: ContextSize,
    weights: Arc<Weights>,
}

// SAFETY: a context belongs to no thread in particular; it is only never used by two at once.
unsafe impl Send for Context {}

/// A sequence of a context. Only a context makes them, so there is none that it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequence(sys::llama_seq_id);

/// What came of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// All of it was computed.
    Done,
    /// It was given up because the caller wanted so. Sequences may have some of it.
    GivenUp,
    /// It failed, with llama.cpp's number for why. Sequences may have some of it.
    Failed(i32),
}

/// Tokens that are computed together.
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

    /// Adds a token at its place in a sequence. If `output` is set, what may follow it can be asked for by the
    /// number that this returns.
    pub(crate) fn push(&mut self, sequence: Sequence, place: usize, token: Token, output: bool) -> usize {
        self.tokens.push(token);
        self.positions.push(position(place));
        self.sequences.push(sequence.0);
        self.outputs.push(i8::from(output));
        self.tokens.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }
}

impl Context {
    pub(crate) fn new(weights: Arc<Weights>, size: ContextSize) -> Result<Self, String> {
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
            // Sequences that begin alike share what they have in common.
            params.kv_unified = true;
            params.no_perf = true;
            let context = NonNull::new(sys::llama_init_from_model(weights.as_ptr(), params))
                .ok_or_else(|| format!("there is no memory for its state: {}", log::take_errors()))?;
            let mut threads = sys::ggml_threadpool_params_default(size.threads);
            // Between batches they sleep: to be woken takes microseconds, and others may want the processors.
            threads.poll = 0;
            let Some(threads) = NonNull::new(sys::ggml_threadpool_new(&raw mut threads)) else {
                sys::llama_free(context.as_ptr());
                return Err("its threads cannot be started".to_owned());
            };
            sys::llama_attach_threadpool(context.as_ptr(), threads.as_ptr(), threads.as_ptr());
            Ok(Self { context, threads, size, weights })
        }
    }

    /// How many of its threads compute from now on.
    pub(crate) fn set_threads(&mut self, threads: usize) {
        let threads = i32::try_from(threads).unwrap_or(i32::MAX).clamp(1, self.size.threads);
        // SAFETY: the context is alive.
        unsafe { sys::llama_set_n_threads(self.context.as_ptr(), threads, threads) }
    }

    pub(crate) fn weights(&self) -> &Arc<Weights> {
        &self.weights
    }

    /// All sequences that there are.
    pub(crate) fn sequences(&self) -> impl Iterator<Item = Sequence> + use<> {
        (0..i32::try_from(self.size.sequences).unwrap_or(0)).map(Sequence)
    }

    /// Computes a batch. Between any two steps of it, which are short, `give_up` is asked.
    pub(crate) fn decode(&mut self, batch: &mut Batch, give_up: &dyn Fn() -> bool) -> Decoded {
        if batch.len() == 0 || batch.len() > self.size.batch as usize {
            return Decoded::Failed(-1);
        }
        let Ok(count) = i32::try_from(batch.len()) else { return Decoded::Failed(-1) };
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
        // SAFETY: every list has as many items as there are tokens; they and `give_up` outlive the call, which is
        // the only one in which `ask` is called, on this thread.
        let result = unsafe {
            let context = self.context.as_ptr();
            let data = ptr::from_ref(&give_up).cast_mut().cast();
            sys::llama_set_abort_callback(context, Some(ask), data);
            let result = wellspring_decode(context, &raw const raw);
            sys::llama_set_abort_callback(context, None, ptr::null_mut());
            result
        };
        match result {
            0 => Decoded::Done,
            2 => Decoded::GivenUp,
            code => Decoded::Failed(code),
        }
    }

    /// How likely each token of the vocabulary is after a token of the last batch: the logits.
    pub(crate) fn logits(&self, number: usize) -> Option<&[f32]> {
        let number = i32::try_from(number).ok()?;
        // SAFETY: llama.cpp gives as many numbers as the vocabulary has tokens, or none, and leaves them alone
        // until the next batch, which needs this context for itself.
        unsafe {
            let logits = sys::llama_get_logits_ith(self.context.as_ptr(), number);
            let size = self.weights.vocabulary().size();
            (!logits.is_null()).then(|| slice::from_raw_parts(logits, size))
        }
    }

    /// Forgets what a sequence has from a place on. If the model cannot do that, the sequence forgets everything
    /// and this says no.
    pub(crate) fn cut(&mut self, sequence: Sequence, place: usize) -> bool {
        // SAFETY: the context is alive and has the sequence.
        unsafe {
            let memory = sys::llama_get_memory(self.context.as_ptr());
            let cut = place == 0 || self.weights.keeps_every_token();
            let cut = cut && sys::llama_memory_seq_rm(memory, sequence.0, position(place), -1);
            if !cut {
                sys::llama_memory_seq_rm(memory, sequence.0, -1, -1);
            }
            cut
        }
    }

    /// Forgets what a sequence has before a place.
    pub(crate) fn cut_front(&mut self, sequence: Sequence, place: usize) {
        if place > 0 {
            // SAFETY: the context is alive and has the sequence.
            unsafe {
                let memory = sys::llama_get_memory(self.context.as_ptr());
                sys::llama_memory_seq_rm(memory, sequence.0, 0, position(place));
            }
        }
    }

    /// So many bytes what the model keeps of a sequence has.
    pub(crate) fn state_bytes(&mut self, sequence: Sequence) -> usize {
        // SAFETY: the context is alive and has the sequence.
        unsafe { sys::llama_state_seq_get_size(self.context.as_ptr(), sequence.0) }
    }

    /// What the model keeps of a sequence, in llama.cpp's own form.
    pub(crate) fn state(&mut self, sequence: Sequence) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.state_bytes(sequence)];
        // SAFETY: the context is alive and has the sequence; no more is written than there is room.
        let written = unsafe {
            let context = self.context.as_ptr();
            sys::llama_state_seq_get_data(context, bytes.as_mut_ptr(), bytes.len(), sequence.0)
        };
        (written > 0 && written == bytes.len()).then_some(bytes)
    }

    /// Gives a sequence a state in place of what it has. If that fails, it has nothing.
    pub(crate) fn restore(&mut self, sequence: Sequence, state: &[u8]) -> bool {
        // SAFETY: the context is alive and has the sequence; llama.cpp reads no further than the bytes go, and takes
        // nothing whose sizes are not those of this context.
        let read = unsafe {
            sys::llama_state_seq_set_data(self.context.as_ptr(), state.as_ptr(), state.len(), sequence.0)
        };
        let restored = read == state.len();
        if !restored {
            self.cut(sequence, 0);
        }
        restored
    }

    /// Lets a sequence, which must have nothing at their places, have the first tokens of another too.
    pub(crate) fn share(&mut self, from: Sequence, to: Sequence, tokens: usize) {
        // SAFETY: the context is alive and has both sequences.
        unsafe {
            let memory = sys::llama_get_memory(self.context.as_ptr());
            sys::llama_memory_seq_cp(memory, from.0, to.0, 0, position(tokens));
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: nobody uses the context any more; its threads are let go after it.
        unsafe {
            sys::llama_free(self.context.as_ptr());
            sys::ggml_threadpool_free(self.threads.as_ptr());
        }
    }
}

fn position(place: usize) -> sys::llama_pos {
    sys::llama_pos::try_from(place).unwrap_or(sys::llama_pos::MAX)
}

unsafe extern "C" fn ask(give_up: *mut c_void) -> bool {
    // SAFETY: `decode` handed over a pointer to its `give_up`, which lives until the batch ends.
    let give_up = unsafe { &*give_up.cast::<&dyn Fn() -> bool>() };
    give_up()
}
