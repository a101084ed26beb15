//! A prompt and what is there of it.

use std::sync::Arc;

use super::key::Key;
use super::state::{Placed, State};
use crate::chat::prompt::{Prompt, Reading};

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

    /// So many of its first tokens are there just as if it were read as a whole.
    pub(crate) fn exact(&self) -> usize {
        self.beginning().iter().map(|placed| placed.state.tokens).sum()
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

    /// What it is joined from, if all of it is there.
    pub(crate) fn whole(&self) -> Option<Vec<Placed<'_>>> {
        self.placed().collect()
    }

    /// What is there of the base and the first piece, which nothing stands before that it was not computed after.
    pub(crate) fn beginning(&self) -> Vec<Placed<'_>> {
        self.placed().take(2).map_while(|placed| placed).collect()
    }

    fn placed(&self) -> impl Iterator<Item = Option<Placed<'_>>> {
        let after_base = self.prompt.base().len();
        let base = self.base.1.as_deref().map(|state| Placed { state, computed_at: 0 });
        let pieces = self.prompt.readings().zip(&self.pieces).map(move |(reading, (_, state))| {
            Some(Placed { state: state.as_deref()?, computed_at: after_base + reading.lead.len() })
        });
        [base].into_iter().chain(pieces)
    }
}
