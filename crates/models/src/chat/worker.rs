//! The thread that owns the model's context. It runs answers in batches (`batch`): each answer that is being generated
//! gets a token per batch, and prompts in prefill share the rest. While there are none, it warms the prefix cache.

mod batch;
mod decoder;
mod slot;

use std::cell::Cell;
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use domain::{Failure, FailureKind, Request};

use super::conversation_cache::{ConversationCache, IdleConversation};
use super::llama::Sequence;
use super::prefix_cache::{PassageLookup, PrefixCache, WarmReply};
use super::prompt::Prompt;
use super::running_answer::{AnswerSink, RunningAnswer};
use super::sampler::Sampler;
use super::template::Template;
pub(super) use batch::BATCH_TOKENS;
pub(super) use decoder::Decoder;
use slot::Slot;

/// Interval of the keep-alives to clients that have no token yet.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// A job for the worker.
pub(super) enum Job {
    /// Answer a request.
    Answer(Arc<Request>, AnswerSink),
    /// Look up the only passage of a request in the prefix cache; if it is missing and `compute` is set, compute it when
    /// no prompt is queued or running.
    Warm { request: Arc<Request>, compute: bool, reply: WarmReply },
}

/// The state of the thread.
pub(super) struct Worker {
    decoder: Decoder,
    template: Template,
    limits: WorkerLimits,
    jobs: JobReceiver,
    /// Prompts that wait for a slot.
    queue: VecDeque<(Prompt, RunningAnswer)>,
    slots: Vec<Slot>,
    conversations: ConversationCache,
    prefix_cache: Option<PrefixCache>,
    /// The slot whose prompt comes first in the next batch.
    first_slot: usize,
    last_keep_alive: Cell<Instant>,
}

/// The limits of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkerLimits {
    /// Upper bound on the tokens of a prompt and its answer.
    pub(super) window: usize,
    /// Upper bound on the reserved tokens of all slots.
    pub(super) tokens: usize,
    /// Upper bound on the bytes of idle conversations.
    pub(super) conversation_bytes: usize,
    /// The seed of each answer's sampler.
    pub(super) seed: Option<u64>,
}

/// The receiving end of the job queue.
pub(super) struct JobReceiver {
    /// `None` stops the worker.
    pub(super) jobs: Receiver<Option<Job>>,
    /// Requests that were sent and not received yet.
    pub(super) unreceived_requests: Arc<AtomicUsize>,
}

impl Worker {
    /// A worker with a slot for each sequence.
    pub(super) fn new(
        decoder: Decoder,
        sequences: Vec<Sequence>,
        prefix_cache: Option<PrefixCache>,
        template: Template,
        limits: WorkerLimits,
        jobs: JobReceiver,
    ) -> Self {
        let (slots, queue) = (sequences.into_iter().map(Slot::new).collect(), VecDeque::new());
        let conversations = ConversationCache::new(limits.conversation_bytes);
        let last_keep_alive = Cell::new(Instant::now());
        let first_slot = 0;
        Self {
            decoder,
            template,
            limits,
            jobs,
            queue,
            slots,
            conversations,
            prefix_cache,
            first_slot,
            last_keep_alive,
        }
    }

    /// Runs until it is stopped.
    pub(super) fn run(mut self) {
        while self.receive_jobs().is_some() {
            self.drop_disconnected();
            self.admit();
            // Restoring a prompt takes a while, too.
            self.drop_disconnected();
            keep_alive(&self.last_keep_alive, &self.queue, &self.slots);
            if self.is_idle() { self.warm() } else { self.compute() }
        }
    }

    /// Whether no prompt is queued or running.
    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.slots.iter().all(|slot| slot.answer.is_none())
    }

    /// Takes all jobs that were sent, and waits for one if there is nothing else to do. None stops the worker.
    fn receive_jobs(&mut self) -> Option<()> {
        if self.is_idle() && !self.prefix_cache.as_ref().is_some_and(PrefixCache::has_work) {
            let job = self.jobs.jobs.recv().ok()??;
            self.take(job);
        }
        while let Ok(job) = self.jobs.jobs.try_recv() {
            self.take(job?);
        }
        Some(())
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Answer(request, sink) => {
                self.jobs.unreceived_requests.fetch_sub(1, Ordering::Relaxed);
                self.enqueue(&request, sink);
            }
            Job::Warm { request, compute, reply } => {
                let prompt = self.prompt(&request);
                let answer = match (&mut self.prefix_cache, prompt) {
                    (Some(cache), Ok(prompt)) => return cache.warm(&prompt, compute, reply),
                    (Some(_), Err(_)) => Ok(PassageLookup::TOO_LONG),
                    (None, _) => Err(Failure::new(FailureKind::Refused, "this model has no prefix cache")),
                };
                // The caller may be gone.
                let _ = reply.send(answer);
            }
        }
    }

    fn enqueue(&mut self, request: &Request, sink: AnswerSink) {
        if sink.is_closed() {
            return;
        }
        match self.prompt(request) {
            Ok(prompt) => {
                let sampler = Sampler::new(request.temperature, self.limits.seed);
                let answer = RunningAnswer::new(sink, sampler, prompt.answer_tokens);
                self.queue.push_back((prompt, answer));
            }
            Err(failure) => sink.fail(failure),
        }
    }

    fn prompt(&self, request: &Request) -> Result<Prompt, Failure> {
        let vocabulary = self.decoder.context.weights().vocabulary();
        Prompt::new(request, vocabulary, &self.template, self.limits.window)
    }

    /// Drops answers whose clients disconnected.
    fn drop_disconnected(&mut self) {
        self.queue.retain(|(_, answer)| !answer.sink().is_closed());
        for index in 0..self.slots.len() {
            if self.slots[index].is_abandoned() {
                self.release(index);
            }
        }
    }

    /// Starts queued prompts in their order, while there is a slot and room for their tokens.
    fn admit(&mut self) {
        while let Some((prompt, _)) = self.queue.front() {
            let needed = prompt.tokens.len() + prompt.answer_tokens;
            let reserved: usize = self.slots.iter().map(|slot| slot.reserved).sum();
            let free = self.slots.iter().position(|slot| slot.answer.is_none());
            let Some(index) = free.filter(|_| reserved + needed <= self.limits.tokens) else { return };
            let Some((prompt, answer)) = self.queue.pop_front() else { return };
            self.slots[index].reserved = needed;
            self.start(index, prompt, answer);
        }
    }

    /// Starts a prompt in a slot: from the prefix cache, or else from the longest common prefix with a running or idle
    /// conversation.
    fn start(&mut self, index: usize, prompt: Prompt, mut answer: RunningAnswer) {
        let sequence = self.slots[index].sequence;
        let (running, shared) = self.longest_common_prefix(&prompt);
        let idle = self.conversations.common_prefix(&prompt);
        let mut computed = 0;
        if let Some(cache) = &mut self.prefix_cache
            && shared.max(idle) < prompt.passages_end()
        {
            let is_needed = || !answer.sink().is_closed();
            computed =
                cache.restore(&mut self.decoder.context, sequence, &prompt, shared.max(idle), is_needed);
        }
        if answer.sink().is_closed() {
            return self.release(index);
        }
        if computed == 0 && idle > shared {
            computed = self.resume(sequence, &prompt);
        } else if computed == 0 && shared > 0 && self.decoder.context.weights().is_truncatable() {
            self.decoder.context.share_prefix(self.slots[running].sequence, sequence, shared);
            computed = shared;
        }
        answer.count_prompt(prompt.tokens.len(), computed);
        let slot = &mut self.slots[index];
        (slot.tokens, slot.computed, slot.answer) = (prompt.tokens, computed, Some(answer));
    }

    /// The slot that has most of a prompt's first tokens in its KV cache, and how many.
    fn longest_common_prefix(&self, prompt: &Prompt) -> (usize, usize) {
        let common = self.slots.iter().map(|slot| slot.common_prefix(prompt)).enumerate();
        common.rev().max_by_key(|(_, common)| *common).unwrap_or((0, 0))
    }

    /// Imports the common prefix with an idle conversation into a sequence, and returns its number of tokens.
    fn resume(&mut self, sequence: Sequence, prompt: &Prompt) -> usize {
        let (context, mut resumed) = (&mut self.decoder.context, 0);
        self.conversations.take(prompt, |idle| {
            let common = prompt.common_prefix(&idle.tokens);
            let is_imported = context.import(sequence, &idle.exported);
            if is_imported && (common == idle.tokens.len() || context.truncate(sequence, common)) {
                resumed = common;
            }
        });
        resumed
    }

    /// Empties a slot. Its conversation goes to the conversation cache.
    fn release(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let sequence = slot.sequence;
        let Slot { mut tokens, computed, .. } = mem::replace(slot, Slot::new(sequence));
        tokens.truncate(computed);
        let context = &mut self.decoder.context;
        if !tokens.is_empty()
            && self.conversations.can_hold(context.export_bytes(sequence))
            && let Some(exported) = context.export(sequence)
        {
            self.conversations.put(IdleConversation { tokens, exported });
        }
        context.truncate(sequence, 0);
    }

    /// Computes a batch for the prefix cache. A request that arrives aborts it.
    fn warm(&mut self) {
        let Some(cache) = &mut self.prefix_cache else { return };
        let Decoder { context, batch, .. } = &mut self.decoder;
        if cache.fill_batch(context, batch) {
            let unreceived = &self.jobs.unreceived_requests;
            let outcome = self.decoder.run(&|| unreceived.load(Ordering::Relaxed) > 0);
            cache.finish_batch(&mut self.decoder.context, &self.decoder.batch, outcome);
        }
    }
}

/// Sends keep-alives to clients that have no token yet, once per interval.
fn keep_alive(last: &Cell<Instant>, queue: &VecDeque<(Prompt, RunningAnswer)>, slots: &[Slot]) {
    if last.get().elapsed() >= KEEP_ALIVE {
        let running = slots.iter().filter_map(|slot| slot.answer.as_ref()).filter(|answer| answer.is_empty());
        queue.iter().map(|(_, answer)| answer).chain(running).for_each(|answer| answer.sink().keep_alive());
        last.set(Instant::now());
    }
}
