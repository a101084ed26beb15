//! Prompts read piece by piece. Instructions come first and stay the same; each passage after them is computed by
//! itself and kept: as the first one of a prompt, and as one that follows others, for which it is read behind a lead. A
//! prompt whose passages are kept is joined from them, with their keys turned to where they stand, so that only what was
//! said and asked has to be read.
//!
//! What is missing is computed in sequences of its own (strands), all after the same beginning (the base).

mod check;
mod disk;
mod gathering;
mod key;
mod memory;
mod rotation;
mod state;
mod store;

use std::collections::VecDeque;
use std::sync::Arc;

use super::llama::{Batch, Context, Sequence, Token};
use super::prompt::{Prompt, Reading};
use super::worker::{Read, Room};
pub(super) use check::shape_of;
pub(super) use gathering::{Gathering, KeptPart};
pub(super) use key::Key;
pub(super) use rotation::{Pairs, Rotation};
use state::{Placed, Shape, State};
pub(super) use store::{Counts, Store};

/// Sequences of the context for the base, the strands that are computed at once, and what is joined.
pub(super) const SEQUENCES: usize = 18;

/// Tokens of the context for the base and the strands.
pub(super) const TOKENS: usize = 2_048;

/// Strands beyond which nothing is put off.
const MOST_PUT_OFF: usize = 128;

/// What was computed before, and what is being computed.
pub(super) struct Passages {
    shape: Shape,
    model: Key,
    store: Store,
    base: Base,
    /// Where what is kept is put in before it becomes part of another sequence.
    landing: Sequence,
    /// In the order in which they are computed.
    strands: VecDeque<Strand>,
    idle: Vec<Sequence>,
    /// The latest turn that a strand was computed in.
    turn: usize,
}

/// What all strands of the moment come after.
struct Base {
    sequence: Sequence,
    tokens: Arc<[Token]>,
    computed: usize,
    /// What was kept of it, once it is computed.
    state: Option<Arc<State>>,
}

/// A piece that is computed, or waits for that.
struct Strand {
    key: Key,
    base: Arc<[Token]>,
    /// Its lead, and then what is kept.
    tokens: Vec<Token>,
    lead: usize,
    computed: usize,
    /// Where it is computed; none while it waits.
    sequence: Option<Sequence>,
    /// Somebody waits for it.
    wanted: bool,
    /// It is to be computed whether somebody waits for it or not.
    ahead: bool,
    /// Whose turn it is: prompts get one piece each, then the next one each.
    turn: usize,
}

/// A part of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Of the base.
    Base,
    /// Of the strand with this key.
    Strand(Key),
}

impl Passages {
    /// None without sequences to compute in.
    pub(super) fn new(shape: Shape, model: Key, store: Store, mut sequences: Vec<Sequence>) -> Option<Self> {
        let base = Base { sequence: sequences.pop()?, tokens: Arc::from([]), computed: 0, state: None };
        let landing = sequences.pop()?;
        Some(Self { shape, model, store, base, landing, strands: VecDeque::new(), idle: sequences, turn: 0 })
    }

    /// Looks for what is there of a prompt, as long as that is wanted. It comes back if it has no pieces, or some that
    /// are too long.
    pub(super) fn look(&mut self, prompt: Prompt, is_wanted: impl Fn() -> bool) -> Result<Gathering, Prompt> {
        let base = prompt.base();
        let longest = prompt.readings().map(|reading| reading.len()).max().unwrap_or(0);
        if base.is_empty() || longest == 0 || base.len() + longest > TOKENS {
            return Err(prompt);
        }
        let resident =
            self.base.state.clone().map(|state| (self.model.followed_by(&self.base.tokens), state));
        Ok(Gathering::new(prompt, self.model, |key| match &resident {
            _ if !is_wanted() => None,
            Some((base, state)) if *base == key => {
                self.store.note_used(key);
                Some(state.clone())
            }
            _ => self.store.get(key),
        }))
    }

    /// Begins to compute what a prompt lacks.
    pub(super) fn want(&mut self, gathering: &Gathering) {
        let base: Arc<[Token]> = Arc::from(gathering.prompt.base());
        for (turn, (key, reading)) in (self.turn..).zip(gathering.missing()) {
            self.add(Strand::new(key, &base, reading, turn, true));
        }
    }

    /// The same when there is time, for a prompt that does without for now.
    pub(super) fn want_later(&mut self, gathering: &Gathering) {
        let base: Arc<[Token]> = Arc::from(gathering.prompt.base());
        for (turn, (key, reading)) in gathering.missing().enumerate() {
            // What cannot be kept would be read in vain.
            let can_be_kept = self.store.can_hold(self.shape.bytes(reading.tokens.len()) as u64);
            if self.strands.len() < MOST_PUT_OFF && can_be_kept {
                self.add(Strand::new(key, &base, reading, turn, false));
            }
        }
    }

    /// Whether what a prompt lacks can be put off: some of it was not yet, and there is room for that.
    pub(super) fn can_put_off(&self, gathering: &Gathering) -> bool {
        let new = gathering.missing().filter(|(key, _)| !self.is_computing(*key)).count();
        new > 0 && self.strands.len() + new <= MOST_PUT_OFF
    }

    /// Begins to compute, when there is time, what a prompt with these pieces in any order would lack; tells what that is,
    /// or none if there is no room to keep it.
    pub(super) fn want_ahead(&mut self, prompt: &Prompt, room: Room) -> Option<Read> {
        let base: Arc<[Token]> = Arc::from(prompt.base());
        let key = self.model.followed_by(&base);
        let mut wanted = Read::default();
        for piece in &prompt.pieces {
            if base.len() + piece.place.len() > TOKENS {
                wanted.too_long += 1;
                continue;
            }
            // Behind its lead it may be too long, and yet serve where it is the first one.
            let readings = [prompt.as_first(piece), prompt.as_follower(piece)].into_iter();
            let fitting = readings.filter(|reading| base.len() + reading.len() <= TOKENS);
            let fitting = fitting.map(|reading| (key.of_reading(reading), reading));
            let (held, missing): (Vec<_>, Vec<_>) = fitting.partition(|(key, _)| self.store.has(*key));
            let bytes_of = |readings: usize| (readings * self.shape.bytes(piece.place.len())) as u64;
            wanted.held += bytes_of(held.len());
            if missing.is_empty() {
                continue;
            }
            let bytes = bytes_of(missing.len());
            if room == Room::Left && !self.store.has_room(wanted.bytes + bytes) {
                return None;
            }
            for (key, reading) in &missing {
                self.add(Strand::new(*key, &base, *reading, wanted.passages, false));
            }
            wanted.passages += 1;
            wanted.bytes += bytes;
        }
        Some(wanted)
    }

    /// Puts a strand where its turn is. One that is there already may come to be wanted sooner.
    fn add(&mut self, mut strand: Strand) {
        if let Some(place) = self.strands.iter().position(|other| other.key == strand.key) {
            let known = &mut self.strands[place];
            known.ahead |= strand.ahead;
            if known.wanted || !strand.wanted {
                return;
            }
            let Some(known) = self.strands.remove(place) else { return };
            strand = Strand { wanted: true, turn: strand.turn, ..known };
        }
        self.insert(strand);
    }

    fn insert(&mut self, strand: Strand) {
        let before = |other: &&Strand| (!other.wanted, other.turn) <= (!strand.wanted, strand.turn);
        let place = self.strands.iter().take_while(before).count();
        self.strands.insert(place, strand);
        self.store.note_unread(self.strands.len());
    }

    /// Whether something is to be computed; what nobody waits for counts only `ahead`.
    pub(super) fn has_work(&self, ahead: bool) -> bool {
        self.strands.iter().any(|strand| ahead || strand.wanted)
    }

    /// Whether a piece is still to be computed.
    pub(super) fn is_computing(&self, key: Key) -> bool {
        self.strands.iter().any(|strand| strand.key == key)
    }

    /// Lets go of what nobody wants any more.
    pub(super) fn retain(&mut self, context: &mut Context, wanted: impl Fn(Key) -> bool) {
        let is_left = |strand: &Strand| strand.wanted && !wanted(strand.key);
        while let Some(place) = self.strands.iter().position(is_left) {
            if !self.strands[place].ahead {
                self.remove(context, place);
            } else if let Some(strand) = self.strands.remove(place) {
                self.insert(Strand { wanted: false, ..strand });
            }
        }
    }

    /// Adds to a batch what is computed next, at most so many tokens; what nobody waits for only `ahead`. All that are
    /// computed at once come after the same base.
    pub(super) fn fill(
        &mut self,
        context: &mut Context,
        batch: &mut Batch,
        mut room: usize,
        ahead: bool,
    ) -> Vec<(Part, usize)> {
        let Some(first) = self.strands.iter().find(|strand| ahead || strand.wanted) else {
            return Vec::new();
        };
        if first.base != self.base.tokens {
            let base = first.base.clone();
            self.change_base(context, base);
        }
        if self.base.is_pending() {
            let pending = &self.base.tokens[self.base.computed..];
            let tokens = pending.len().min(room);
            push(batch, self.base.sequence, self.base.computed, &pending[..tokens]);
            return vec![(Part::Base, tokens)];
        }
        let mut parts = Vec::new();
        for number in 0..self.strands.len() {
            if room == 0 || !ahead && !self.strands[number].wanted {
                break;
            }
            let mut sequence = self.sequence_of(context, number);
            if sequence.is_none() && !ahead && self.begin_anew(context, |strand| !strand.wanted) {
                sequence = self.sequence_of(context, number);
            }
            let Some(sequence) = sequence else { continue };
            let strand = &self.strands[number];
            let pending = &strand.tokens[strand.computed..];
            let tokens = pending.len().min(room);
            push(batch, sequence, strand.base.len() + strand.computed, &pending[..tokens]);
            parts.push((Part::Strand(strand.key), tokens));
            room -= tokens;
            if strand.wanted {
                self.turn = self.turn.max(strand.turn);
            }
        }
        parts
    }

    /// The sequence of a strand; one that has none gets one, if it fits and there is one.
    fn sequence_of(&mut self, context: &mut Context, number: usize) -> Option<Sequence> {
        let strand = &self.strands[number];
        if strand.sequence.is_some() || strand.base != self.base.tokens {
            return strand.sequence;
        }
        let running = self.strands.iter().filter(|strand| strand.sequence.is_some());
        let taken = self.base.tokens.len() + running.map(|strand| strand.tokens.len()).sum::<usize>();
        if taken + strand.tokens.len() > TOKENS {
            return None;
        }
        let sequence = self.idle.pop()?;
        context.share(self.base.sequence, sequence, strand.base.len());
        self.strands[number].sequence = Some(sequence);
        Some(sequence)
    }

    /// Strands after another base begin anew when it is their turn.
    fn change_base(&mut self, context: &mut Context, tokens: Arc<[Token]>) {
        self.begin_anew(context, |_| true);
        context.cut(self.base.sequence, 0);
        let restored = self.store.find(self.model.followed_by(&tokens)).filter(|state| {
            let joined = self.shape.join(&[Placed { state, computed_at: 0 }], 0, || true);
            joined.is_some_and(|joined| context.restore(self.base.sequence, &joined))
        });
        self.base.computed = restored.as_ref().map_or(0, |_| tokens.len());
        self.base.state = restored;
        self.base.tokens = tokens;
    }

    /// Some strands give up their places until it is their turn again; whether any had one.
    fn begin_anew(&mut self, context: &mut Context, which: impl Fn(&Strand) -> bool) -> bool {
        let mut any = false;
        for strand in self.strands.iter_mut().filter(|strand| which(strand)) {
            strand.computed = 0;
            if let Some(sequence) = strand.sequence.take() {
                context.cut(sequence, 0);
                self.idle.push(sequence);
                any = true;
            }
        }
        any
    }

    /// So many tokens of a part were computed. If that was the last of it, its state is kept, and given.
    pub(super) fn go_on(
        &mut self,
        context: &mut Context,
        part: Part,
        tokens: usize,
    ) -> Option<(Key, Arc<State>)> {
        let (key, sequence, left_out) = match part {
            Part::Base => {
                self.base.computed += tokens;
                if self.base.is_pending() {
                    return None;
                }
                (self.model.followed_by(&self.base.tokens), self.base.sequence, 0)
            }
            Part::Strand(key) => {
                let strand = self.strands.iter_mut().find(|strand| strand.key == key)?;
                strand.computed += tokens;
                if strand.computed < strand.tokens.len() {
                    return None;
                }
                (key, strand.sequence?, strand.base.len() + strand.lead)
            }
        };
        context.cut_front(sequence, left_out);
        let state = context.state(sequence).and_then(|given| self.shape.read(&given));
        if let Part::Strand(key) = part {
            self.fail(context, key);
        }
        let state = Arc::new(state?);
        if part == Part::Base {
            self.base.state = Some(state.clone());
        }
        self.store.put(key, &state);
        // No passage takes the place of what it needs.
        self.store.note_used(self.model.followed_by(&self.base.tokens));
        Some((key, state))
    }

    /// A batch was given up: what it has left behind of a part is computed again.
    pub(super) fn take_back(&mut self, context: &mut Context, part: Part) {
        match part {
            Part::Base => {
                if !context.cut(self.base.sequence, self.base.computed) {
                    self.base.computed = 0;
                }
            }
            Part::Strand(key) => {
                let strand = self.strands.iter_mut().find(|strand| strand.key == key);
                let Some(strand) = strand else { return };
                let Some(sequence) = strand.sequence else { return };
                if !context.cut(sequence, strand.base.len() + strand.computed) {
                    strand.computed = 0;
                    context.share(self.base.sequence, sequence, strand.base.len());
                }
            }
        }
    }

    /// A part cannot be computed: whoever wants it has to do without.
    pub(super) fn give_up(&mut self, context: &mut Context, part: Part) {
        match part {
            Part::Strand(key) => self.fail(context, key),
            Part::Base => {
                context.cut(self.base.sequence, 0);
                self.base = Base { tokens: Arc::from([]), computed: 0, state: None, ..self.base };
                while !self.strands.is_empty() {
                    self.remove(context, 0);
                }
            }
        }
    }

    fn fail(&mut self, context: &mut Context, key: Key) {
        if let Some(place) = self.strands.iter().position(|strand| strand.key == key) {
            self.remove(context, place);
        }
    }

    fn remove(&mut self, context: &mut Context, place: usize) {
        let strand = self.strands.remove(place);
        self.store.note_unread(self.strands.len());
        if let Some(sequence) = strand.and_then(|strand| strand.sequence) {
            context.cut(sequence, 0);
            self.idle.push(sequence);
        }
    }

    /// Puts what is kept of a prompt behind what its sequence has, one part right behind the other, if it is wanted until
    /// then.
    pub(super) fn join(
        &self,
        context: &mut Context,
        parts: &[KeptPart],
        sequence: Sequence,
        is_wanted: impl Fn() -> bool,
    ) -> bool {
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return true };
        let placed: Vec<_> = parts.iter().map(KeptPart::placed).collect();
        let joined = self.shape.join(&placed, first.place.start, is_wanted);
        let is_there = joined.is_some_and(|joined| context.restore(self.landing, &joined));
        if is_there {
            context.share(self.landing, sequence, last.place.end);
            context.cut(self.landing, 0);
        }
        is_there
    }
}

impl Strand {
    fn new(key: Key, base: &Arc<[Token]>, reading: Reading<'_>, turn: usize, wanted: bool) -> Self {
        let tokens = [reading.lead, reading.tokens].concat();
        let (base, lead) = (base.clone(), reading.lead.len());
        Self { key, base, tokens, lead, computed: 0, sequence: None, wanted, ahead: !wanted, turn }
    }
}

impl Base {
    fn is_pending(&self) -> bool {
        self.computed < self.tokens.len()
    }
}

fn push(batch: &mut Batch, sequence: Sequence, place: usize, tokens: &[Token]) {
    for (number, &token) in tokens.iter().enumerate() {
        batch.push(sequence, place + number, token, false);
    }
}

#[cfg(test)]
mod tests;
