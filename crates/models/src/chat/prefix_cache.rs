//! The prefix cache: KV states of system prefixes and of single passages, so that a prompt about known passages starts
//! without prefill of them.
//!
//! A prompt is `system prefix · passage · passage · … · earlier turns · question`. Prefill of its passages takes most of
//! the time to the first token, and the same passages come up in question after question, in other orders.
//!
//! **What is cached.** The KV state of each system prefix, and of each passage, computed right after its prefix and
//! without any other passage. One state per passage serves all its positions: keys carry a rotary position embedding, so
//! `rotation` moves a state by rotating its keys on. The first passage of a joined prompt is exactly what prefill would
//! compute; a later one lacks attention to the passages before it, which costs little quality (`docs/models.md`).
//!
//! **Key.** The SHA-256 of everything a state depends on (`key`): format, llama.cpp version, CPU features, weights, the
//! prefix's tokens, and the passage's own. Whatever changes is another entry; nothing is invalidated.
//!
//! **Lookup.** `restore` looks up the prefix and all passages of a prompt. If every one is cached, their states are joined
//! (`kv_state`) and imported into the prompt's sequence; only turns and question are prefilled. If any is missing, the
//! prompt is prefilled as a whole, after the cached prefix or the common prefix with a running or idle conversation,
//! whichever is longer; states of passages are not mixed with prefill. The missing passages are queued.
//!
//! **Bounds and eviction.** A memory tier and a disk tier (`memory`, `disk`, both in `store`) evict the least recently
//! used states beyond `memory_bytes` and `disk_bytes`. Files have checksums and are written atomically: a crash loses at
//! most the passage that is being computed, and a damaged file is deleted and counts as a miss. The queue of missing
//! passages is bounded; the oldest are dropped. A prefix with its passage has at most `MAX_PREFILL_TOKENS` tokens; a
//! longer passage is never cached.
//!
//! **Warm-up.** While no prompt is queued or running, the worker computes one passage at a time, in one sequence of its
//! own: first the queued ones, those of the last prompt first, then the one that `warm` asks for, with which the caller
//! walks the catalog. A prompt that arrives aborts the batch; what earlier batches computed stays.
//!
//! **Probe.** At load, `probe` compares a moved state with one computed in place. A model that fails it (another position
//! embedding, a recurrent state) has no prefix cache.

mod disk;
mod key;
mod kv_state;
mod memory;
mod probe;
mod rotation;
mod store;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use domain::Failure;
use tokio::sync::oneshot;

use super::llama::{Batch, Context, DecodeOutcome, Sequence, Token};
use super::prompt::{Prompt, common_prefix};
use super::worker::BATCH_TOKENS;
pub(super) use key::CacheKey;
use kv_state::{KvLayout, KvState};
pub(super) use probe::probe;
pub(super) use rotation::{RotatedPairs, Rotation};
pub(super) use store::{Counters, Store};

/// Upper bound on the tokens of a prefix with a passage, and so on the context's tokens for warm-up.
pub(super) const MAX_PREFILL_TOKENS: usize = 2_048;

/// A passage as the prefix cache has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassageLookup {
    /// Whether it is cached.
    pub is_cached: bool,
    /// Bytes of its KV state; none if it is too long to be cached.
    pub bytes: Option<u64>,
    /// Upper bound on the bytes of all passages with its system prefix.
    pub capacity: u64,
}

/// The channel to the caller of `warm`.
pub(super) type WarmReply = oneshot::Sender<Result<PassageLookup, Failure>>;

/// The prefix cache of a model.
pub(super) struct PrefixCache {
    layout: KvLayout,
    model: CacheKey,
    store: Store,
    /// Passages that prompts lacked; the next one to compute comes first.
    pending: VecDeque<Prefill>,
    max_pending: usize,
    /// The passage that `warm` asks for.
    warmup: Option<(Prefill, WarmReply)>,
    current: Option<(Prefill, Option<WarmReply>)>,
    /// Where passages are computed, and the tokens that it holds.
    sequence: Sequence,
    held: Vec<Token>,
}

/// A prefix, or a passage after its prefix, that is to be computed.
struct Prefill {
    key: CacheKey,
    prefix_key: CacheKey,
    /// Tokens of the prefix, which come first.
    prefix: usize,
    tokens: Vec<Token>,
}

/// A range of a prompt that has a cache entry.
struct Span {
    key: CacheKey,
    range: Range<usize>,
}

impl PrefixCache {
    /// A cache that computes in `sequence` and queues up to `max_pending` missing passages.
    pub(super) fn new(
        layout: KvLayout,
        model: CacheKey,
        store: Store,
        sequence: Sequence,
        max_pending: usize,
    ) -> Self {
        let (pending, held) = (VecDeque::new(), Vec::new());
        Self { layout, model, store, pending, max_pending, warmup: None, current: None, sequence, held }
    }

    /// Imports the cached part of a prompt into its sequence, which must be empty, and returns its number of tokens: the
    /// prefix and all passages if all of them are cached; otherwise the prefix, if it is longer than `shared`, the part
    /// that the caller can reuse; otherwise nothing. Returns early once the prompt is no longer needed.
    pub(super) fn restore(
        &mut self,
        context: &mut Context,
        sequence: Sequence,
        prompt: &Prompt,
        shared: usize,
        is_needed: impl Fn() -> bool,
    ) -> usize {
        let spans = self.spans(prompt);
        let states = self.get_all(&spans, &is_needed).or_else(|| {
            if !is_needed() {
                return None;
            }
            self.queue_missing(prompt, &spans);
            let prefix = spans.first().filter(|prefix| prefix.range.end > shared)?;
            Some(vec![self.store.get(prefix.key)?])
        });
        let Some((prefix, passages)) = states.as_deref().and_then(<[_]>::split_first) else { return 0 };
        let Some(joined) = self.layout.join(prefix, passages, &is_needed) else { return 0 };
        if !context.import(sequence, &joined) {
            tracing::warn!("cached KV states cannot be imported; the prompt is prefilled as a whole");
            return 0;
        }
        spans[passages.len()].range.end
    }

    /// The states of all spans, if all are cached.
    fn get_all(&mut self, spans: &[Span], is_needed: &impl Fn() -> bool) -> Option<Vec<Arc<KvState>>> {
        let hits = spans.iter().filter(|span| self.store.contains(span.key)).count();
        if hits < spans.len() {
            self.store.counters().update(|stats| {
                stats.hits += hits as u64;
                stats.misses += (spans.len() - hits) as u64;
            });
            return None;
        }
        let get = |span: &Span| {
            let state = if is_needed() { self.store.get(span.key) } else { None };
            self.store.counters().update(|stats| stats.hits += u64::from(state.is_some()));
            state
        };
        spans.iter().map(get).collect()
    }

    /// The prefix and the passages of a prompt.
    fn spans(&self, prompt: &Prompt) -> Vec<Span> {
        let prefix = Span { key: self.model.followed_by(prompt.prefix()), range: 0..prompt.prefix().len() };
        let passages = prompt.passages.iter().map(|range| Span {
            key: prefix.key.followed_by(&prompt.tokens[range.clone()]),
            range: range.clone(),
        });
        let passages: Vec<_> = passages.collect();
        [prefix].into_iter().chain(passages).collect()
    }

    /// Queues the spans that are not cached, in front of those of earlier prompts.
    fn queue_missing(&mut self, prompt: &Prompt, spans: &[Span]) {
        for span in spans.iter().rev().filter(|span| !self.store.contains(span.key)) {
            self.pending.retain(|other| other.key != span.key);
            let prefill = Prefill::new(prompt, span, spans[0].key);
            if self.lookup(&prefill).is_cacheable() {
                self.pending.push_front(prefill);
            }
        }
        self.pending.truncate(self.max_pending);
        self.count_pending();
    }

    /// Looks up the passage of a prompt that has one, and marks it as used. If it is missing, cacheable and `compute` is
    /// set, replies once it was computed. One caller at a time: another one before the reply displaces the first.
    pub(super) fn warm(&mut self, prompt: &Prompt, compute: bool, reply: WarmReply) {
        let spans = self.spans(prompt);
        let prefill = Prefill::new(prompt, &spans[spans.len() - 1], spans[0].key);
        let lookup = self.lookup(&prefill);
        if lookup.is_cached {
            self.store.touch(prefill.key);
            self.store.touch(prefill.prefix_key);
        }
        if compute && !lookup.is_cached && lookup.is_cacheable() {
            self.warmup = Some((prefill, reply));
        } else {
            // The caller may be gone.
            let _ = reply.send(Ok(lookup));
        }
    }

    fn lookup(&self, prefill: &Prefill) -> PassageLookup {
        let stored_bytes = |tokens| self.store.stored_bytes(self.layout.bytes(tokens));
        let is_short = prefill.tokens.len() <= MAX_PREFILL_TOKENS;
        PassageLookup {
            is_cached: self.store.contains(prefill.key) && self.store.contains(prefill.prefix_key),
            bytes: is_short.then(|| stored_bytes(prefill.tokens.len() - prefill.prefix)),
            capacity: self.store.capacity().saturating_sub(stored_bytes(prefill.prefix)),
        }
    }

    /// Whether something is to be computed.
    pub(super) fn has_work(&self) -> bool {
        self.current.is_some() || !self.pending.is_empty() || self.warmup.is_some()
    }

    /// Fills a batch with the tokens that are computed next. False if there is nothing to compute.
    pub(super) fn fill_batch(&mut self, context: &mut Context, batch: &mut Batch) -> bool {
        batch.clear();
        while let Some((prefill, reply)) = self.current.take().or_else(|| self.next_prefill()) {
            // Prefill goes on from what the sequence has in common: the prefix, usually.
            let common = common_prefix(&self.held, &prefill.tokens);
            if common < self.held.len() {
                self.truncate(context, common);
            }
            let missing = &prefill.tokens[self.held.len()..];
            for (index, &token) in missing.iter().take(BATCH_TOKENS).enumerate() {
                batch.push(self.sequence, self.held.len() + index, token, false);
            }
            if missing.is_empty() {
                self.finish(context, &prefill, reply);
            } else {
                self.current = Some((prefill, reply));
                return true;
            }
        }
        false
    }

    fn next_prefill(&mut self) -> Option<(Prefill, Option<WarmReply>)> {
        let pending = self.pending.iter().position(|prefill| !self.store.contains(prefill.key));
        self.pending.drain(..pending.unwrap_or(self.pending.len()));
        self.count_pending();
        let missing = self.pending.pop_front().map(|prefill| (prefill, None));
        missing.or_else(|| self.warmup.take().map(|(prefill, reply)| (prefill, Some(reply))))
    }

    /// Takes the outcome of the batch: its tokens are computed, or are computed again, or the passage is dropped.
    pub(super) fn finish_batch(&mut self, context: &mut Context, batch: &Batch, outcome: DecodeOutcome) {
        let Some((prefill, reply)) = self.current.take() else { return };
        match outcome {
            DecodeOutcome::Done => {
                let computed = self.held.len() + batch.len();
                self.held.extend(&prefill.tokens[self.held.len()..computed]);
                if computed == prefill.tokens.len() {
                    return self.finish(context, &prefill, reply);
                }
                self.current = Some((prefill, reply));
            }
            DecodeOutcome::Aborted => {
                self.truncate(context, self.held.len());
                self.current = Some((prefill, reply));
            }
            DecodeOutcome::Failed(code) => {
                tracing::error!(
                    code,
                    "llama.cpp cannot compute a passage; its prompts are prefilled as a whole"
                );
                self.truncate(context, 0);
                self.reply(&prefill, reply);
            }
        }
    }

    /// Stores the states of a computed passage and of its prefix.
    fn finish(&mut self, context: &mut Context, prefill: &Prefill, reply: Option<WarmReply>) {
        let (prefix, end) = (prefill.prefix, prefill.tokens.len());
        let state = context.export(self.sequence).and_then(|exported| self.layout.parse(&exported));
        let state = state.filter(|state| state.tokens == end);
        for (key, range) in [(prefill.prefix_key, 0..prefix), (prefill.key, prefix..end)] {
            if self.store.contains(key) {
                // A passage does not evict its own prefix.
                self.store.touch(key);
            } else if let Some(state) = &state {
                self.store.put(key, self.layout.slice(state, range));
            }
        }
        // What is left in the context slows down attention for every other sequence.
        self.truncate(context, prefix);
        self.reply(prefill, reply);
    }

    fn reply(&self, prefill: &Prefill, reply: Option<WarmReply>) {
        if let Some(reply) = reply {
            // The caller may be gone.
            let _ = reply.send(Ok(self.lookup(prefill)));
        }
        self.count_pending();
    }

    /// Truncates the sequence. A model that cannot do that computes all of it again.
    fn truncate(&mut self, context: &mut Context, length: usize) {
        let is_truncated = context.truncate(self.sequence, length);
        self.held.truncate(if is_truncated { length } else { 0 });
    }

    fn count_pending(&self) {
        let current = self.current.iter().filter(|(_, reply)| reply.is_none()).count();
        self.store.counters().update(|stats| stats.pending = (self.pending.len() + current) as u64);
    }
}

impl Prefill {
    fn new(prompt: &Prompt, span: &Span, prefix_key: CacheKey) -> Self {
        let prefix = prompt.prefix();
        let passage = &prompt.tokens[span.range.start.max(prefix.len())..span.range.end.max(prefix.len())];
        let tokens = [prefix, passage].concat();
        Self { key: span.key, prefix_key, prefix: prefix.len(), tokens }
    }
}

impl PassageLookup {
    /// A passage that is too long to be cached.
    pub(super) const TOO_LONG: Self = Self { is_cached: false, bytes: None, capacity: 0 };

    fn is_cacheable(&self) -> bool {
        self.bytes.is_some_and(|bytes| bytes <= self.capacity)
    }
}

#[cfg(test)]
mod tests;
