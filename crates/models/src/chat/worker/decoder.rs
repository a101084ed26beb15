//! Runs batches with as many threads as CPU contention allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::chat::cpu_contention::{ComputeThreads, ContentionWatch};
use crate::chat::llama::{Batch, Context, DecodeOutcome};

/// The context, and the batch that it computes next.
pub(in crate::chat) struct Decoder {
    pub(super) context: Context,
    pub(super) batch: Batch,
    threads: ComputeThreads,
    stop: Arc<AtomicBool>,
}

impl Decoder {
    pub(in crate::chat) fn new(context: Context, threads: ComputeThreads, stop: Arc<AtomicBool>) -> Self {
        Self { context, batch: Batch::default(), threads, stop }
    }

    /// Computes the batch. It is aborted as soon as `is_obsolete` returns true, the worker is stopped, or other processes
    /// keep the threads from running.
    pub(super) fn run(&mut self, is_obsolete: &dyn Fn() -> bool) -> DecodeOutcome {
        let started = Instant::now();
        self.context.set_threads(self.threads.next(started));
        let watch = self.threads.watch(started);
        let should_abort = || {
            is_obsolete()
                || self.stop.load(Ordering::Relaxed)
                || watch.as_ref().is_some_and(ContentionWatch::should_restart)
        };
        let outcome = self.context.decode(&mut self.batch, &should_abort);
        match watch.is_some_and(ContentionWatch::was_contended) {
            true => self.threads.use_fewer(Instant::now()),
            false => self.threads.on_uncontended_batch(),
        }
        outcome
    }
}
