//! The thread that owns the model's state. Prompts take turns in it batch by batch (`batch`): whoever writes gets a
//! token in each, and what is left goes to whoever is still read. Here is who comes in, where it goes, and who leaves.

mod batch;

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use domain::{Failure, FailureKind, Request};
use tokio::sync::oneshot::Sender;

use super::answer::{Answer, Listener};
use super::conversations::{Conversations, Resting};
use super::crowd::Threads;
use super::kept::{Kept, alike, reserved};
use super::llama::{Batch, Context, Sequence};
use super::passages::{Gathering, KeptPart, Passages};
use super::prompt::{Piece, Prompt};
use super::sampler::Sampler;
use super::template::Template;
pub(super) use batch::BATCH;

/// How often those who wait get a sign of life.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// What is to be done.
pub(super) enum Job {
    /// A request, and who waits for its answer.
    Answer(Arc<Request>, Listener),
    /// Passages that may be asked about, to be read when there is time, and who wants to know what came of it.
    Ahead(Arc<Request>, Room, Sender<Ahead>),
}

/// Where what is read ahead goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Where nothing is yet.
    Left,
    /// There, or in place of what was used longest ago.
    Made,
}

/// What came of passages that may be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// All of them are kept.
    Kept(Read),
    /// There is no room to keep all of them.
    Full,
    /// They are too long for the model's window.
    TooLong,
    /// This model does not keep what it reads.
    Never,
}

/// What had to be read for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// So many of them.
    pub passages: usize,
    /// What is kept of them.
    pub bytes: u64,
    /// What was kept of them and of the others before.
    pub held: u64,
    /// So many are too long to be kept, and were not read.
    pub too_long: usize,
}

/// What the thread works with.
pub(super) struct Worker {
    context: Context,
    template: Template,
    threads: Threads,
    limits: WorkerLimits,
    jobs: Jobs,
    stop: Arc<AtomicBool>,
    waiting: VecDeque<(Prompt, Answer)>,
    /// The answers that are written, and what their sequences hold. One without an answer is empty.
    kept: Vec<Kept>,
    answers: Vec<Option<Answer>>,
    sequences: Vec<Sequence>,
    conversations: Conversations,
    /// The prompts of answers whose passages are not all there yet.
    gathering: Vec<Option<Gathering>>,
    passages: Option<Passages>,
    /// Those who wait until what is read ahead is read, and for how much.
    ahead: Vec<(Read, Sender<Ahead>)>,
    batch: Batch,
    /// Whose prompt is read first in the next batch.
    turn: usize,
    last_sign: Instant,
}

/// What a worker is made of.
pub(super) struct Parts {
    pub(super) context: Context,
    /// The sequences that prompts and answers are in, one each.
    pub(super) sequences: Vec<Sequence>,
    /// What keeps passages, in sequences of its own; without it prompts are read as a whole.
    pub(super) passages: Option<Passages>,
    pub(super) template: Template,
    pub(super) threads: Threads,
    pub(super) limits: WorkerLimits,
    pub(super) jobs: Jobs,
    pub(super) stop: Arc<AtomicBool>,
}

/// The bounds of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkerLimits {
    /// Tokens of a prompt and its answer.
    pub(super) window: usize,
    /// Tokens of all prompts and answers that are held.
    pub(super) tokens: usize,
    /// Bytes of conversations that nobody waits for.
    pub(super) conversation_bytes: usize,
    /// Whether passages that a prompt lacks may be read by themselves later.
    pub(super) puts_off: bool,
    /// What chance is taken from.
    pub(super) seed: Option<u64>,
}

/// What comes in.
pub(super) struct Jobs {
    /// None is the end.
    pub(super) received: Receiver<Option<Job>>,
    /// How many who ask were sent and not taken yet.
    pub(super) asking: Arc<AtomicUsize>,
}

impl Worker {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { context, sequences, passages, template, threads, limits, jobs, stop } = parts;
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
            gathering: sequences.iter().map(|_| None).collect(),
            sequences,
            conversations: Conversations::new(limits.conversation_bytes),
            passages,
            ahead: Vec::new(),
            batch: Batch::default(),
            turn: 0,
            last_sign: Instant::now(),
        }
    }

    /// Works until it is stopped.
    pub(super) fn run(mut self) {
        while self.take_jobs().is_some() {
            self.let_go();
            self.admit();
            // To let somebody in may take a while, too.
            self.let_go();
            self.give_signs();
            self.compute();
            self.tell_what_was_read_ahead();
        }
    }

    /// Whether nobody waits for anything.
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.answers.iter().all(Option::is_none)
    }

    /// Takes what was sent, and waits for it if there is nothing else to do. None is the end.
    fn take_jobs(&mut self) -> Option<()> {
        if self.is_idle() && !self.passages.as_ref().is_some_and(|passages| passages.has_work(true)) {
            let job = self.jobs.received.recv().ok()??;
            self.take(job);
        }
        while let Ok(job) = self.jobs.received.try_recv() {
            self.take(job?);
        }
        Some(())
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Answer(request, listener) => {
                self.jobs.asking.fetch_sub(1, Ordering::Relaxed);
                self.take_question(&request, listener);
            }
            Job::Ahead(request, room, told) => self.take_ahead(&request, room, told),
        }
    }

    fn take_question(&mut self, request: &Request, listener: Listener) {
        if listener.has_left() {
            return;
        }
        match self.prompt(request) {
            Ok(prompt) => {
                let sampler = Sampler::new(request.temperature, self.limits.seed);
                let answer = Answer::new(listener, sampler, prompt.answer_tokens);
                self.waiting.push_back((prompt, answer));
            }
            Err(failure) => listener.fail(failure),
        }
    }

    fn take_ahead(&mut self, request: &Request, room: Room, told: Sender<Ahead>) {
        let at_once = match (self.prompt(request), &mut self.passages) {
            (_, None) => Ahead::Never,
            (Err(_), _) => Ahead::TooLong,
            (Ok(prompt), Some(passages)) => match passages.want_ahead(&prompt, room) {
                Some(read) => return self.ahead.push((read, told)),
                None => Ahead::Full,
            },
        };
        // Whoever asked may have left.
        let _ = told.send(at_once);
    }

    fn tell_what_was_read_ahead(&mut self) {
        if !self.ahead.is_empty() && !self.passages.as_ref().is_some_and(|passages| passages.has_work(true)) {
            for (read, told) in self.ahead.drain(..) {
                let _ = told.send(Ahead::Kept(read));
            }
        }
    }

    fn prompt(&self, request: &Request) -> Result<Prompt, Failure> {
        Prompt::new(request, self.context.weights().vocabulary(), &self.template, self.limits.window)
    }

    /// Forgets those who have left.
    fn let_go(&mut self) {
        self.waiting.retain(|(_, answer)| !answer.listener().has_left());
        for slot in 0..self.answers.len() {
            if self.answers[slot].as_ref().is_some_and(|answer| answer.listener().has_left()) {
                self.gathering[slot] = None;
                self.rest(slot);
            }
        }
        if let Some(passages) = &mut self.passages {
            let gathering = &self.gathering;
            passages
                .retain(&mut self.context, |key| gathering.iter().flatten().any(|prompt| prompt.wants(key)));
        }
    }

    /// Lets in those who wait, in their order, as long as there is room.
    fn admit(&mut self) {
        while let Some((prompt, _)) = self.waiting.front() {
            let most = prompt.tokens.len() + prompt.answer_tokens;
            let slot = self.answers.iter().position(Option::is_none);
            let Some(slot) = slot.filter(|_| reserved(&self.kept) + most <= self.limits.tokens) else {
                return;
            };
            let Some((prompt, answer)) = self.waiting.pop_front() else { return };
            self.kept[slot].most = most;
            self.begin(slot, prompt, answer);
        }
    }

    /// Gathers a prompt's passages, or reads it as a whole from where it is not known yet. Whoever leaves while passages
    /// are looked for is forgotten at once.
    fn begin(&mut self, slot: usize, prompt: Prompt, answer: Answer) {
        let shared = alike(&self.kept, &prompt).1.max(self.conversations.shared(&prompt));
        let passages = self.passages.as_mut().filter(|_| shared < prompt.after_pieces());
        let Some(passages) = passages else { return self.continue_from(slot, prompt, answer) };
        let is_wanted = || !answer.listener().has_left();
        match passages.look(prompt, is_wanted) {
            _ if !is_wanted() => self.kept[slot] = Kept::default(),
            Ok(gathering) if is_worth_gathering(&gathering, shared, passages, self.limits.puts_off) => {
                self.gather(slot, gathering, answer);
            }
            Ok(gathering) => self.put_off(slot, gathering, shared, answer),
            Err(prompt) => self.continue_from(slot, prompt, answer),
        }
    }

    /// Reads a prompt as a whole around what is kept of it, from where it differs from all that were read before if that is
    /// more than what is kept of its beginning. What it lacks is computed by itself when there is time, so that it is there
    /// the next time.
    fn put_off(&mut self, slot: usize, gathering: Gathering, shared: usize, answer: Answer) {
        let Some(passages) = &mut self.passages else { return };
        if self.limits.puts_off {
            passages.want_later(&gathering);
        }
        let parts = gathering.parts();
        if gathering.exact() > shared {
            self.read(slot, gathering.prompt, (0, Vec::new()), answer);
        } else {
            self.continue_from(slot, gathering.prompt, answer);
        }
        self.read_around(slot, parts);
    }

    /// What of a prompt is kept further on is not computed. A passage of which only the beginning is there is taken as it is
    /// kept.
    fn read_around(&mut self, slot: usize, parts: Vec<KeptPart>) {
        let kept = &mut self.kept[slot];
        kept.further = parts.into_iter().filter(|part| part.place.end > kept.computed).collect();
        if let Some(next) = kept.further.front().filter(|next| next.place.start < kept.computed) {
            let is_cut = self.context.cut(self.sequences[slot], next.place.start);
            kept.computed = if is_cut { next.place.start } else { 0 };
        }
        if let Some(answer) = &mut self.answers[slot] {
            let further: usize = kept.further.iter().map(|part| part.place.len()).sum();
            answer.count_prompt(kept.tokens.len(), kept.computed + further);
        }
        self.join_next(slot);
    }

    /// Makes what is kept a part of its prompt where all before it is computed.
    fn join_next(&mut self, slot: usize) {
        let (kept, Some(passages)) = (&mut self.kept[slot], &self.passages) else { return };
        let (next, Some(answer)) = (kept.take_next(), &mut self.answers[slot]) else { return };
        let Some(end) = next.last().map(|part| part.place.end) else { return };
        let is_wanted = || !answer.listener().has_left();
        if passages.join(&mut self.context, &next, self.sequences[slot], is_wanted) {
            kept.computed = end;
            kept.gathered.extend(next.into_iter().filter_map(|part| part.follower));
        } else if is_wanted() {
            tracing::warn!("kept passages could not be joined; they are read as part of the prompt");
            answer.count_lost(end - kept.computed);
        }
    }

    /// Reads a prompt from where it differs from all that were read before.
    fn continue_from(&mut self, slot: usize, prompt: Prompt, answer: Answer) {
        let (running, shared) = alike(&self.kept, &prompt);
        let restored = if self.conversations.shared(&prompt) > shared {
            self.restore(slot, &prompt)
        } else if self.context.weights().keeps_every_token() {
            self.context.share(self.sequences[running], self.sequences[slot], shared);
            (shared, self.kept[running].gathered.clone())
        } else {
            (0, Vec::new())
        };
        self.read(slot, prompt, restored, answer);
    }

    /// Reads a prompt whose first tokens are in its sequence, so many of them; some come from where these passages were
    /// gathered.
    fn read(&mut self, slot: usize, prompt: Prompt, restored: (usize, Vec<Piece>), mut answer: Answer) {
        let (restored, mut gathered) = restored;
        gathered.retain(|piece| piece.place.start < restored);
        answer.count_prompt(prompt.tokens.len(), restored);
        self.kept[slot].computed = restored;
        self.kept[slot].gathered = gathered;
        self.kept[slot].tokens = prompt.tokens;
        self.answers[slot] = Some(answer);
    }

    /// Puts what a conversation has in common with a prompt into a sequence, and tells how many tokens that is, and which
    /// passages the conversation has gathered.
    fn restore(&mut self, slot: usize, prompt: &Prompt) -> (usize, Vec<Piece>) {
        let (context, sequence) = (&mut self.context, self.sequences[slot]);
        let mut restored = (0, Vec::new());
        self.conversations.take(prompt, |conversation| {
            let common = conversation.shared(prompt);
            let is_there = context.restore(sequence, &conversation.state);
            let is_cut = common == conversation.tokens.len() || is_there && context.cut(sequence, common);
            if is_there && is_cut {
                restored = (common, conversation.gathered.clone());
            }
        });
        restored
    }

    /// Nobody waits for what is in a sequence any more: it leaves the model's state, and may go on later.
    fn rest(&mut self, slot: usize) {
        self.answers[slot] = None;
        let mut kept = mem::take(&mut self.kept[slot]);
        kept.tokens.truncate(kept.computed);
        let bytes = self.context.state_bytes(self.sequences[slot]);
        if kept.computed > 0
            && self.conversations.may_have(bytes)
            && let Some(state) = self.context.state(self.sequences[slot])
        {
            self.conversations.put(Resting { tokens: kept.tokens, gathered: kept.gathered, state });
        }
        self.context.cut(self.sequences[slot], 0);
    }

    fn gather(&mut self, slot: usize, gathering: Gathering, mut answer: Answer) {
        let Some(passages) = &mut self.passages else { return };
        passages.want(&gathering);
        answer.count_prompt(gathering.prompt.tokens.len(), gathering.cached());
        self.answers[slot] = Some(answer);
        self.gathering[slot] = Some(gathering);
        self.join(slot);
    }

    /// Joins a prompt if all of it is there. One that waits for what nobody computes is read around what is there.
    fn join(&mut self, slot: usize) {
        let (Some(gathering), Some(passages)) = (&self.gathering[slot], &self.passages) else { return };
        if !gathering.is_whole() && !gathering.is_stuck(|key| passages.is_computing(key)) {
            return;
        }
        let Some(gathering) = self.gathering[slot].take() else { return };
        self.kept[slot].further = gathering.parts().into();
        self.kept[slot].tokens = gathering.prompt.tokens;
        self.join_next(slot);
    }

    fn give_signs(&mut self) {
        self.last_sign = give_signs(self.last_sign, &self.waiting, &self.answers);
    }

    fn fail(&mut self, slot: usize, code: i32) {
        tracing::error!(code, "llama.cpp could not compute a batch");
        self.context.cut(self.sequences[slot], 0);
        self.kept[slot] = Kept::default();
        if let Some(answer) = self.answers[slot].take() {
            let message = format!("the model could not compute this prompt (llama.cpp: {code})");
            answer.into_listener().fail(Failure::new(FailureKind::Internal, message));
        }
    }
}

/// Whether a prompt's passages are gathered, where earlier prompts have so many of its first tokens in common with it.
/// They are if that takes no more tokens than to read it around what is kept. Else they are put off, if that is possible and
/// they were not put off before, or if to gather them takes much longer; and where nothing is ever put off, they are gathered
/// unless an earlier prompt has more of them. That two prompts begin alike within a passage does not count: the passage
/// itself is not known.
fn is_worth_gathering(gathering: &Gathering, shared: usize, passages: &Passages, puts_off: bool) -> bool {
    let (anew, prompt) = (gathering.anew(), &gathering.prompt);
    let shared_pieces = prompt.whole_pieces(shared);
    let between = gathering.between(shared_pieces.max(shared.min(prompt.base().len())));
    let anyway = if puts_off {
        anew <= 3 * between && !passages.can_put_off(gathering)
    } else {
        gathering.cached() >= shared_pieces
    };
    anew <= between || anyway
}

/// Tells those who have nothing to read yet that they are not forgotten, if the last sign of that was a while ago. Tells
/// when the last one was.
fn give_signs(last: Instant, waiting: &VecDeque<(Prompt, Answer)>, answers: &[Option<Answer>]) -> Instant {
    if last.elapsed() < SIGN_OF_LIFE {
        return last;
    }
    let in_queue = waiting.iter().map(|(_, answer)| answer);
    let running = answers.iter().flatten().filter(|answer| answer.is_empty());
    in_queue.chain(running).for_each(|answer| answer.listener().waits());
    Instant::now()
}
