//! A prompt and what is there of it.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use super::key::Key;
use super::state::{Placed, State};
use crate::chat::prompt::{Piece, Prompt, Reading};

/// A state, or the place for one.
type Found = (Key, Option<Arc<State>>);

/// A prompt whose pieces are gathered.
pub(crate) struct Gathering {
    pub(crate) prompt: Prompt,
    base: Found,
    pieces: Vec<Found>,
    /// So many of its tokens were there from the beginning.
    cached: usize,
}

/// What is kept of a prompt: its base or a piece.
#[derive(Clone)]
pub(crate) struct KeptPart {
    /// Where it stands in the prompt.
    pub(crate) place: Range<usize>,
    pub(super) state: Arc<State>,
    /// The place of its first token when it was computed.
    pub(super) computed_at: usize,
    /// The piece, if it follows others.
    pub(crate) follower: Option<Piece>,
}

impl KeptPart {
    /// One that has nothing in it.
    #[cfg(test)]
    pub(crate) fn blank(place: Range<usize>) -> Self {
        let state = Arc::new(State { tokens: 0, bytes: Vec::new() });
        Self { place, state, computed_at: 0, follower: None }
    }

    pub(super) fn placed(&self) -> Placed<'_> {
        Placed { state: &self.state, computed_at: self.computed_at }
    }
}

impl Gathering {
    /// Looks for the pieces of a prompt.
    pub(super) fn new(prompt: Prompt, model: Key, mut get: impl FnMut(Key) -> Option<Arc<State>>) -> Self {
        let base = model.followed_by(prompt.base());
        let keys = prompt.readings().map(|reading| base.of_reading(reading));
        let mut pieces: Vec<_> = keys.map(|key| (key, get(key))).collect();
        let base = (base, get(base));
        // Without the base nothing can be joined. It comes with any piece that is computed, such as the shortest.
        let shortest = prompt.readings().enumerate().min_by_key(|(_, reading)| reading.len());
        if let (None, Some((shortest, _))) = (&base.1, shortest) {
            pieces[shortest].1 = None;
        }
        let there =
            |(reading, (_, state)): (Reading<'_>, &Found)| state.as_ref().map_or(0, |_| reading.tokens.len());
        let cached = prompt.readings().zip(&pieces).map(there).sum::<usize>();
        let cached = cached + base.1.as_ref().map_or(0, |_| prompt.base().len());
        Self { prompt, base, pieces, cached }
    }

    /// So many of its tokens were there from the beginning.
    pub(crate) fn cached(&self) -> usize {
        self.cached
    }

    /// So many tokens have to be computed before it can be joined.
    pub(crate) fn anew(&self) -> usize {
        let base = if self.base.1.is_none() { self.prompt.base().len() } else { 0 };
        base + self.missing().map(|(_, reading)| reading.len()).sum::<usize>()
    }

    /// So many tokens before the question have to be computed if it is read as a whole around what is there of it, where
    /// so many of its first tokens are known.
    pub(crate) fn between(&self, known: usize) -> usize {
        let missing = self.places().zip(self.found()).filter(|(_, (_, state))| state.is_none());
        missing.map(|(place, _)| place.end.saturating_sub(place.start.max(known))).sum()
    }

    /// So many of its first tokens are there just as if it were read as a whole.
    pub(crate) fn exact(&self) -> usize {
        let there = self.places().zip(self.found()).take(2).take_while(|(_, (_, state))| state.is_some());
        there.map(|(place, _)| place.end).last().unwrap_or(0)
    }

    /// The keys of the pieces that are missing, and how these are read.
    pub(super) fn missing(&self) -> impl Iterator<Item = (Key, Reading<'_>)> {
        let pieces = self.prompt.readings().zip(&self.pieces).filter(|(_, (_, state))| state.is_none());
        pieces.map(|(reading, (key, _))| (*key, reading))
    }

    /// Whether it waits for a piece.
    pub(crate) fn wants(&self, key: Key) -> bool {
        self.pieces.iter().any(|(own, state)| *own == key && state.is_none())
    }

    /// Whether something that it waits for is not computed by anybody. The base is computed before any piece.
    pub(crate) fn is_stuck(&self, is_computing: impl Fn(Key) -> bool) -> bool {
        let mut missing = self.pieces.iter().filter(|(_, state)| state.is_none()).peekable();
        let base_alone = self.base.1.is_none() && missing.peek().is_none();
        base_alone || missing.any(|(key, _)| !is_computing(*key))
    }

    /// Takes in a piece that was computed, if it is one of its own.
    pub(crate) fn take(&mut self, key: Key, state: &Arc<State>) {
        let own = self
            .pieces
            .iter_mut()
            .chain([&mut self.base])
            .filter(|(own, state)| *own == key && state.is_none());
        own.for_each(|(_, place)| *place = Some(state.clone()));
    }

    /// Whether all of it is there.
    pub(crate) fn is_whole(&self) -> bool {
        self.found().all(|(_, state)| state.is_some())
    }

    /// What is there of it, in its order.
    pub(crate) fn parts(&self) -> Vec<KeptPart> {
        let after_base = self.prompt.base().len();
        let pieces = self.prompt.readings().map(|reading| after_base + reading.lead.len());
        let computed_at = iter::once(0).chain(pieces);
        // The base and the first piece follow no other piece.
        let followers = [None, None].into_iter().chain(self.prompt.pieces.iter().skip(1).map(Some));
        let all = self.places().zip(self.found()).zip(computed_at.zip(followers));
        let part = |((place, (_, state)), (computed_at, follower)): ((_, &Found), (_, Option<&Piece>))| {
            Some(KeptPart { place, state: state.clone()?, computed_at, follower: follower.cloned() })
        };
        all.filter_map(part).collect()
    }

    /// The base, and then the pieces.
    fn found(&self) -> impl Iterator<Item = &Found> {
        iter::once(&self.base).chain(&self.pieces)
    }

    fn places(&self) -> impl Iterator<Item = Range<usize>> {
        let pieces = self.prompt.pieces.iter().map(|piece| piece.place.clone());
        iter::once(0..self.prompt.base().len()).chain(pieces)
    }
}
