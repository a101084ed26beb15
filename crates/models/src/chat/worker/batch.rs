//! One batch of running answers: what goes into it, and what its outcome means for each slot.

use domain::{Failure, FailureKind};

use super::{Worker, keep_alive};
use crate::chat::llama::DecodeOutcome;

/// Upper bound on the tokens of a batch.
pub(in crate::chat) const BATCH_TOKENS: usize = 512;

/// The same while answers are generated, whose next tokens wait for the batch. AMX tiles have rows for 32; a few more
/// tokens would take as long as twice as many.
const BATCH_TOKENS_WHILE_GENERATING: usize = 32;

/// The part of a slot in a batch.
#[derive(Clone, Copy)]
struct Share {
    slot: usize,
    tokens: usize,
    /// The index in the batch of its last token, if the next token of the answer is sampled from there.
    output: Option<usize>,
}

impl Worker {
    /// Computes a batch and advances the answers in it.
    pub(super) fn compute(&mut self) {
        let shares = self.fill_batch();
        if shares.is_empty() {
            return;
        }
        let all: usize = shares.iter().map(|share| share.tokens).sum();
        let is_obsolete = || {
            keep_alive(&self.last_keep_alive, &self.queue, &self.slots);
            // An abort discards everyone's tokens, so it is worth it only if most belong to disconnected clients.
            let abandoned = shares.iter().filter(|share| self.slots[share.slot].is_abandoned());
            2 * abandoned.map(|share| share.tokens).sum::<usize>() > all
        };
        let outcome = self.decoder.run(&is_obsolete);
        for share in shares {
            match outcome {
                DecodeOutcome::Done => self.advance(share),
                DecodeOutcome::Aborted => self.discard_aborted(share.slot),
                DecodeOutcome::Failed(code) => self.fail(share.slot, code),
            }
        }
    }

    /// One token of each answer that is being generated; then the prompts in prefill, each batch beginning with the next
    /// one.
    fn fill_batch(&mut self) -> Vec<Share> {
        self.decoder.batch.clear();
        let count = self.slots.len();
        let generating: Vec<_> = (0..count).filter(|&slot| self.slots[slot].is_generating()).collect();
        let max = if generating.is_empty() { BATCH_TOKENS } else { BATCH_TOKENS_WHILE_GENERATING };
        let mut room = max.saturating_sub(generating.len());
        let mut shares: Vec<_> = generating.iter().map(|&slot| self.add(slot, 1)).collect();
        let (start, mut first) = (self.first_slot, None);
        for slot in (0..count).map(|step| (start + step) % count) {
            let tokens = self.slots[slot].pending().len().min(room);
            if tokens > 0 && !generating.contains(&slot) {
                shares.push(self.add(slot, tokens));
                room -= tokens;
                first = first.or(Some(slot));
            }
        }
        self.first_slot = first.map_or(start, |first| first + 1);
        shares
    }

    fn add(&mut self, index: usize, tokens: usize) -> Share {
        let slot = &self.slots[index];
        let is_complete = slot.pending().len() == tokens;
        let mut output = None;
        for (offset, &token) in slot.pending()[..tokens].iter().enumerate() {
            let is_last = is_complete && offset + 1 == tokens;
            let pushed = self.decoder.batch.push(slot.sequence, slot.computed + offset, token, is_last);
            output = is_last.then_some(pushed);
        }
        Share { slot: index, tokens, output }
    }

    fn advance(&mut self, share: Share) {
        let slot = &mut self.slots[share.slot];
        slot.computed += share.tokens;
        let (Some(output), Some(answer)) = (share.output, &mut slot.answer) else { return };
        let context = &self.decoder.context;
        match answer.next_token(context.logits(output), context.weights().vocabulary()) {
            Some(token) => slot.tokens.push(token),
            None => self.release(share.slot),
        }
    }

    /// Removes what an aborted batch left in a sequence.
    fn discard_aborted(&mut self, slot: usize) {
        let slot = &mut self.slots[slot];
        if !self.decoder.context.truncate(slot.sequence, slot.computed) {
            slot.computed = 0;
        }
    }

    fn fail(&mut self, index: usize, code: i32) {
        tracing::error!(code, "llama.cpp could not compute a batch");
        let slot = &mut self.slots[index];
        slot.computed = 0;
        if let Some(answer) = slot.answer.take() {
            let message = format!("the model could not compute this prompt (llama.cpp: {code})");
            answer.into_sink().fail(Failure::new(FailureKind::Internal, message));
        }
        self.release(index);
    }
}
