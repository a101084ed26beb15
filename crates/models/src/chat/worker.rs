//! The thread that owns the model's state. Prompts take turns in it batch by batch: whoever writes gets a token in
//! each, and what is left goes to whoever is still read, one after the other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use domain::{Failure, FailureKind, Request};

use super::answer::{Answer, Listener};
use super::crowd::{Threads, Watch};
use super::kept::{Kept, choose, reserved, surplus};
use super::llama::{Batch, Context, Decoded, Sequence};
use super::prompt::Prompt;
use super::sampler::Sampler;
use super::template::Template;

/// Tokens that are computed together while nobody's answer waits for them.
pub(super) const BATCH: usize = 512;

/// Tokens of prompts that are computed together while answers are written, which wait for them that long.
const BATCH_BETWEEN_TOKENS: usize = 32;

/// How often those who wait get a sign of life.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// A request, and who waits for its answer.
pub(super) struct Job {
    pub(super) request: Arc<Request>,
    pub(super) listener: Listener,
}

/// What the thread works with.
pub(super) struct Worker {
    context: Context,
    template: Template,
    threads: Threads,
    limits: WorkerLimits,
    jobs: Receiver<Option<Job>>,
    stop: Arc<AtomicBool>,
    waiting: VecDeque<(Prompt, Answer)>,
    /// What sequences hold, and the answers in them; as many as there are sequences.
    kept: Vec<Kept>,
    answers: Vec<Option<Answer>>,
    sequences: Vec<Sequence>,
    batch: Batch,
    /// Whose prompt is read first in the next batch.
    turn: usize,
    prompts: u64,
    last_sign: Instant,
}

/// The bounds of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkerLimits {
    /// Tokens of a prompt and its answer.
    pub(super) window: usize,
    /// Tokens of all prompts and answers that are held.
    pub(super) tokens: usize,
    /// Answers that are written at once.
    pub(super) answers: usize,
    /// What chance is taken from.
    pub(super) seed: Option<u64>,
}

/// What one sequence has in a batch.
#[derive(Clone, Copy)]
struct Share {
    slot: usize,
    tokens: usize,
    /// The number of its last token, if an answer goes on from there.
    output: Option<usize>,
}

impl Worker {
    pub(super) fn new(
        context: Context,
        template: Template,
        threads: Threads,
        limits: WorkerLimits,
        jobs: Receiver<Option<Job>>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let sequences: Vec<_> = context.sequences().collect();
        Self {
            context,
            template,
            threads,
            limits,
            jobs,
            stop,
            waiting: VecDeque::new(),
            kept: vec![Kept::default(); sequences.len()],
            answers: sequences.iter().map(|_| None).collect(),
            sequences,
            batch: Batch::default(),
            turn: 0,
            prompts: 0,
            last_sign: Instant::now(),
        }
    }

    /// Works until it is stopped.
    pub(super) fn run(mut self) {
        while self.take_jobs().is_some() {
            self.let_go();
            self.admit();
            self.give_signs();
            self.compute();
        }
    }

    /// Takes what was sent, and waits for it if there is nothing else to do. None is the end.
    fn take_jobs(&mut self) -> Option<()> {
        if self.waiting.is_empty() && self.answers.iter().all(Option::is_none) {
            let job = self.jobs.recv().ok()??;
            self.take(job);
        }
        while let Ok(job) = self.jobs.try_recv() {
            self.take(job?);
        }
        Some(())
    }

    fn take(&mut self, Job { request, listener }: Job) {
        if listener.has_left() {
            return;
        }
        let vocabulary = self.context.weights().vocabulary();
        match Prompt::new(&request, vocabulary, &self.template, self.limits.window) {
            Ok(prompt) => {
                let sampler = Sampler::new(request.temperature, self.limits.seed);
                let answer = Answer::new(listener, sampler, prompt.answer_tokens);
                self.waiting.push_back((prompt, answer));
            }
            Err(failure) => listener.fail(failure),
        }
    }

    /// Forgets those who have left.
    fn let_go(&mut self) {
        self.waiting.retain(|(_, answer)| !answer.listener().has_left());
        for (answer, kept) in self.answers.iter_mut().zip(&mut self.kept) {
            if answer.as_ref().is_some_and(|answer| answer.listener().has_left()) {
                *answer = None;
                kept.rest();
            }
        }
    }

    /// Lets in those who wait, in their order, as long as there is room.
    fn admit(&mut self) {
        while let Some((prompt, _)) = self.waiting.front() {
            let needed = prompt.tokens.len() + prompt.answer_tokens;
            let answers = self.answers.iter().flatten().count();
            if answers >= self.limits.answers || reserved(&self.kept) + needed > self.limits.tokens {
                return;
            }
            let Some((prompt, answer)) = self.waiting.pop_front() else { return };
            self.begin(prompt, answer, needed);
        }
    }

    fn begin(&mut self, prompt: Prompt, mut answer: Answer, needed: usize) {
        let Some(choice) = choose(&self.kept, &prompt.tokens) else { return };
        let (target, from) = (self.sequences[choice.target], self.sequences[choice.from]);
        let mut shared = choice.shared;
        if choice.target == choice.from {
            shared = if self.context.cut(target, shared) { shared } else { 0 };
        } else {
            self.context.cut(target, 0);
            shared = if self.context.weights().keeps_every_token() { shared } else { 0 };
            self.context.share(from, target, shared);
        }
        self.prompts += 1;
        answer.count_prompt(prompt.tokens.len(), shared);
        self.kept[choice.target] =
            Kept { tokens: prompt.tokens, computed: shared, in_use: Some(needed), used: self.prompts };
        self.answers[choice.target] = Some(answer);
        while let Some(slot) = surplus(&self.kept, self.limits.tokens) {
            self.context.cut(self.sequences[slot], 0);
            self.kept[slot].clear();
        }
    }

    /// Tells those who have nothing to read yet that they are not forgotten.
    fn give_signs(&mut self) {
        if self.last_sign.elapsed() < SIGN_OF_LIFE {
            return;
        }
        self.last_sign = Instant::now();
        let in_queue = self.waiting.iter().map(|(_, answer)| answer);
        let running = self.answers.iter().flatten().filter(|answer| answer.is_empty());
        in_queue.chain(running).for_each(|answer| answer.listener().waits());
    }

    /// Computes a batch and lets answers go on from it.
    fn compute(&mut self) {
        let shares = self.fill_batch();
        if shares.is_empty() {
            return;
        }
        // Whoever writes is left alone: a token is over soon, and others would have to compute theirs again.
        let readers = shares.iter().filter(|share| share.tokens > 1);
        let readers: Vec<_> = readers.filter_map(|share| self.answers[share.slot].as_ref()).collect();
        let started = Instant::now();
        self.context.set_threads(self.threads.next(started));
        let watch = self.threads.watch(started);
        let give_up = || {
            self.stop.load(Ordering::Relaxed)
                || readers.iter().any(|answer| answer.listener().has_left())
                || watch.as_ref().is_some_and(Watch::is_crowded)
        };
        let decoded = self.context.decode(&mut self.batch, &give_up);
        let was_crowded = watch.is_some_and(Watch::was_crowded);
        match decoded {
            Decoded::Done => shares.into_iter().for_each(|share| self.go_on(share)),
            Decoded::GivenUp => shares.into_iter().for_each(|share| self.take_back(share)),
            Decoded::Failed(code) => shares.into_iter().for_each(|share| self.fail(share, code)),
        }
        match was_crowded {
            true => self.threads.give_way(Instant::now()),
            false => self.threads.went_well(),
        }
    }

    /// One token for each answer that is written; then prompts that are read, beginning with another one each time.
    fn fill_batch(&mut self) -> Vec<Share> {
        self.batch.clear();
        let slots = self.kept.len();
        let of = |worker: &Self, slot: usize| match &worker.answers[slot] {
            Some(_) => worker.kept[slot].pending().len(),
            None => 0,
        };
        let writing: Vec<_> = (0..slots).filter(|&slot| of(self, slot) == 1).collect();
        let reading: Vec<_> =
            (0..slots).map(|step| (self.turn + step) % slots).filter(|&slot| of(self, slot) > 1).collect();
        let mut room = if writing.is_empty() { BATCH } else { BATCH_BETWEEN_TOKENS };
        let mut shares: Vec<_> = writing.into_iter().map(|slot| self.add(slot, 1)).collect();
        if let Some(first) = reading.first() {
            self.turn = first + 1;
        }
        for slot in reading {
            let tokens = of(self, slot).min(room);
            if tokens > 0 {
                shares.push(self.add(slot, tokens));
                room -= tokens;
            }
        }
        shares
    }

    fn add(&mut self, slot: usize, tokens: usize) -> Share {
        let kept = &self.kept[slot];
        let is_whole = tokens == kept.pending().len();
        let mut output = None;
        for (number, &token) in kept.pending()[..tokens].iter().enumerate() {
            let is_last = is_whole && number + 1 == tokens;
            let place = self.batch.push(self.sequences[slot], kept.computed + number, token, is_last);
            output = is_last.then_some(place);
        }
        Share { slot, tokens, output }
    }

    fn go_on(&mut self, share: Share) {
        let kept = &mut self.kept[share.slot];
        kept.computed += share.tokens;
        let (Some(output), Some(answer)) = (share.output, &mut self.answers[share.slot]) else { return };
        let vocabulary = self.context.weights().vocabulary();
        match answer.go_on(self.context.logits(output), vocabulary) {
            Some(token) => kept.tokens.push(token),
            None => {
                kept.rest();
                self.answers[share.slot] = None;
            }
        }
    }

    /// What a batch that was given up has left behind is computed again.
    fn take_back(&mut self, share: Share) {
        let kept = &mut self.kept[share.slot];
        if !self.context.cut(self.sequences[share.slot], kept.computed) {
            kept.computed = 0;
        }
    }

    fn fail(&mut self, share: Share, code: i32) {
        tracing::error!(code, "llama.cpp could not compute a batch");
        self.context.cut(self.sequences[share.slot], 0);
        self.kept[share.slot].clear();
        if let Some(answer) = self.answers[share.slot].take() {
            let message = format!("the model could not compute this prompt (llama.cpp: {code})");
            answer.into_listener().fail(Failure::new(FailureKind::Internal, message));
        }
    }
}
