//! A batch: what goes into it, and what comes of it.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{Worker, give_signs};
use crate::chat::answer::Answer;
use crate::chat::crowd::Watch;
use crate::chat::llama::Decoded;
use crate::chat::passages::{Gathering, Part};

/// Tokens that are computed together while nobody's answer waits for them.
pub(in crate::chat) const BATCH: usize = 512;

/// Tokens that are computed together while answers are written, which wait for that long: theirs, and as many of prompts
/// as fill them up. Tiles have rows for 32; a few more tokens would take as long as twice as many.
const BATCH_WHILE_WRITING: usize = 32;

/// What somebody has in a batch.
#[derive(Clone, Copy)]
struct Share {
    of: Of,
    tokens: usize,
    /// The number of its last token, if an answer goes on from there.
    output: Option<usize>,
}

/// Whose it is.
#[derive(Clone, Copy)]
enum Of {
    /// A prompt or an answer, by the number of its sequence.
    Prompt(usize),
    /// A passage that prompts wait for, or may come to want.
    Passage(Part),
}

impl Worker {
    /// Computes a batch and lets answers go on from it.
    pub(super) fn compute(&mut self) {
        let shares = self.fill_batch();
        if shares.is_empty() {
            return;
        }
        let started = Instant::now();
        self.context.set_threads(self.threads.next(started));
        let watch = self.threads.watch(started);
        let is_ahead = self.is_idle();
        let (answers, gathering) = (&self.answers, &self.gathering);
        let waited_for: Vec<_> =
            shares.iter().map(|share| (share.tokens, waiting_for(share.of, answers, gathering))).collect();
        let all: usize = shares.iter().map(|share| share.tokens).sum();
        // What others have in the batch would have to be computed again, so that it is given up only where they have
        // less of it than those who left.
        let is_in_vain = || {
            let has_left = |(_, waiting): &&(usize, Vec<&Answer>)| {
                !waiting.is_empty() && waiting.iter().all(|answer| answer.listener().has_left())
            };
            2 * waited_for.iter().filter(has_left).map(|(tokens, _)| tokens).sum::<usize>() > all
        };
        // A batch may take long where others want the processors.
        let last_sign = Cell::new(self.last_sign);
        let give_up = || {
            last_sign.set(give_signs(last_sign.get(), &self.waiting, &self.answers));
            self.stop.load(Ordering::Relaxed)
                || is_in_vain()
                || is_ahead && self.jobs.asking.load(Ordering::Relaxed) > 0
                || watch.as_ref().is_some_and(Watch::is_crowded)
        };
        let decoded = self.context.decode(&mut self.batch, &give_up);
        self.last_sign = last_sign.get();
        let was_crowded = watch.is_some_and(Watch::was_crowded);
        for share in shares {
            match decoded {
                Decoded::Done => self.go_on(share),
                Decoded::GivenUp => self.take_back(share),
                Decoded::Failed(code) => self.failed(share, code),
            }
        }
        match was_crowded {
            true => self.threads.give_way(Instant::now()),
            false => self.threads.went_well(),
        }
    }

    /// One token for each answer that is written; then prompts that are read and passages that they wait for, beginning
    /// with another one each time.
    fn fill_batch(&mut self) -> Vec<Share> {
        self.batch.clear();
        let slots = self.kept.len();
        let pending = |worker: &Self, slot: usize| match &worker.answers[slot] {
            Some(_) => worker.kept[slot].pending().len(),
            None => 0,
        };
        let is_writing = |worker: &Self, slot| pending(worker, slot) == 1 && worker.kept[slot].ends_with(1);
        let writing: Vec<_> = (0..slots).filter(|&slot| is_writing(self, slot)).collect();
        let most = if writing.is_empty() { BATCH } else { BATCH_WHILE_WRITING };
        let mut room = most.saturating_sub(writing.len());
        let mut shares: Vec<_> = writing.into_iter().map(|slot| self.add(slot, 1)).collect();
        let mut first = None;
        for step in 0..=slots {
            // The last one stands for all passages.
            let reader = (self.turn + step) % (slots + 1);
            let added = if reader == slots {
                self.add_passages(room)
            } else {
                let tokens = pending(self, reader);
                let is_read = tokens > 0 && !is_writing(self, reader);
                if is_read && room > 0 { vec![self.add(reader, tokens.min(room))] } else { Vec::new() }
            };
            if !added.is_empty() {
                first = first.or(Some(reader));
            }
            room -= added.iter().map(|share| share.tokens).sum::<usize>();
            shares.extend(added);
        }
        self.turn = first.map_or(self.turn, |first| first + 1);
        shares
    }

    fn add(&mut self, slot: usize, tokens: usize) -> Share {
        let kept = &self.kept[slot];
        let is_whole = kept.ends_with(tokens);
        let mut output = None;
        for (number, &token) in kept.pending()[..tokens].iter().enumerate() {
            let is_last = is_whole && number + 1 == tokens;
            let place = self.batch.push(self.sequences[slot], kept.computed + number, token, is_last);
            output = is_last.then_some(place);
        }
        Share { of: Of::Prompt(slot), tokens, output }
    }

    fn add_passages(&mut self, room: usize) -> Vec<Share> {
        let ahead = self.is_idle();
        let Some(passages) = self.passages.as_mut().filter(|_| room > 0) else { return Vec::new() };
        let parts = passages.fill(&mut self.context, &mut self.batch, room, ahead);
        let share = |(part, tokens)| Share { of: Of::Passage(part), tokens, output: None };
        parts.into_iter().map(share).collect()
    }

    fn go_on(&mut self, share: Share) {
        let slot = match share.of {
            Of::Prompt(slot) => slot,
            Of::Passage(part) => return self.go_on_with_passage(part, share.tokens),
        };
        let kept = &mut self.kept[slot];
        kept.computed += share.tokens;
        let Some(output) = share.output else { return self.join_next(slot) };
        let Some(answer) = &mut self.answers[slot] else { return };
        let vocabulary = self.context.weights().vocabulary();
        match answer.go_on(self.context.logits(output), vocabulary) {
            Some(token) => kept.tokens.push(token),
            None => self.rest(slot),
        }
    }

    fn go_on_with_passage(&mut self, part: Part, tokens: usize) {
        let Some(passages) = &mut self.passages else { return };
        if let Some((key, state)) = passages.go_on(&mut self.context, part, tokens) {
            self.gathering.iter_mut().flatten().for_each(|gathering| gathering.take(key, &state));
        }
        (0..self.gathering.len()).for_each(|slot| self.join(slot));
    }

    /// What a batch that was given up has left behind is computed again.
    fn take_back(&mut self, share: Share) {
        match share.of {
            Of::Prompt(slot) => {
                let kept = &mut self.kept[slot];
                if !self.context.cut(self.sequences[slot], kept.computed) {
                    kept.computed = 0;
                }
            }
            Of::Passage(part) => {
                if let Some(passages) = &mut self.passages {
                    passages.take_back(&mut self.context, part);
                }
            }
        }
    }

    fn failed(&mut self, share: Share, code: i32) {
        match share.of {
            Of::Prompt(slot) => self.fail(slot, code),
            Of::Passage(part) => {
                tracing::error!(
                    code,
                    "llama.cpp could not compute a passage; prompts with it are read as a whole"
                );
                if let Some(passages) = &mut self.passages {
                    passages.give_up(&mut self.context, part);
                }
                (0..self.gathering.len()).for_each(|slot| self.join(slot));
            }
        }
    }
}

/// Those who wait for a part of a batch; nobody for what is read ahead.
fn waiting_for<'a>(
    of: Of,
    answers: &'a [Option<Answer>],
    gathering: &'a [Option<Gathering>],
) -> Vec<&'a Answer> {
    let part = match of {
        Of::Prompt(slot) => return answers[slot].iter().collect(),
        Of::Passage(part) => part,
    };
    let wants = |gathering: &Gathering| match part {
        Part::Base => true,
        Part::Strand(key) => gathering.wants(key),
    };
    let waiting =
        gathering.iter().zip(answers).filter(|(gathering, _)| gathering.as_ref().is_some_and(wants));
    waiting.filter_map(|(_, answer)| answer.as_ref()).collect()
}
