//! What a model keeps of some tokens: a key and a value in each of its layers. Read from the form in which llama.cpp
//! gives away a sequence, and put together, at any places, into the form in which it takes one in. Pure.

use super::rotation::Rotation;
use crate::chat::llama::{from_halves, to_halves};

/// The form of 16-bit floats, by llama.cpp's number for it.
const HALF: u32 = 1;

/// What a model keeps of some tokens.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// So many tokens.
    pub(super) tokens: usize,
    /// The keys of each layer, then the values of each layer, one after the other.
    pub(super) bytes: Vec<u8>,
}

/// What states of a model look like.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    /// The first four bytes that llama.cpp writes.
    mark: u32,
    /// Bytes of a token's key and value in each layer.
    layers: Vec<Row>,
    rotation: Rotation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    key: usize,
    value: usize,
}

/// A state, and where it was computed.
#[derive(Clone, Copy)]
pub(crate) struct Placed<'a> {
    pub(crate) state: &'a State,
    /// The place of its first token when it was computed.
    pub(crate) computed_at: usize,
}

impl Shape {
    /// What the states of a model look like, seen from one of them. None if it is not keys and values of 16 bits
    /// for each token.
    pub(crate) fn of(sequence: &[u8], rotation: Rotation) -> Option<Self> {
        let (mark, layers, _) = read(sequence)?;
        let whole_heads = layers.iter().all(|row| row.key > 0 && row.key.is_multiple_of(2 * rotation.head));
        let whole_heads = whole_heads && !layers.is_empty();
        (rotation.is_sound() && whole_heads).then_some(Self { mark, layers, rotation })
    }

    /// The state in what llama.cpp gives away; none if that has another shape.
    pub(crate) fn read(&self, sequence: &[u8]) -> Option<State> {
        let (mark, layers, state) = read(sequence)?;
        (mark == self.mark && layers == self.layers).then_some(state)
    }

    /// So many bytes a state of so many tokens has.
    pub(crate) fn bytes(&self, tokens: usize) -> usize {
        tokens * self.layers.iter().map(|row| row.key + row.value).sum::<usize>()
    }

    /// What llama.cpp takes in for a sequence: states one behind the other, from a place on. None if it is not wanted any
    /// more: of a long prompt it takes a while.
    pub(crate) fn join(
        &self,
        states: &[Placed<'_>],
        first: usize,
        is_wanted: impl Fn() -> bool,
    ) -> Option<Vec<u8>> {
        let tokens: usize = states.iter().map(|placed| placed.state.tokens).sum();
        let mut out = Vec::with_capacity(self.bytes(tokens) + 12 * tokens + 24 * self.layers.len() + 64);
        for number in [self.mark, 0, 1, number(tokens)] {
            out.extend(number.to_le_bytes());
        }
        for place in first..first + tokens {
            // The place, and one sequence, whose number llama.cpp replaces.
            for number in [number(place), 1, 0] {
                out.extend(number.to_le_bytes());
            }
        }
        for number in [0, number(self.layers.len()), 0, 0] {
            out.extend(number.to_le_bytes());
        }
        for (layer, row) in self.layers.iter().enumerate() {
            if !is_wanted() {
                return None;
            }
            head(&mut out, row.key);
            let mut place = first;
            for placed in states {
                self.move_keys(placed, layer, place, &mut out);
                place += placed.state.tokens;
            }
        }
        for (layer, row) in self.layers.iter().enumerate() {
            head(&mut out, row.value);
            for placed in states {
                out.extend(self.values(placed.state, layer));
            }
        }
        Some(out)
    }

    fn move_keys(&self, placed: &Placed<'_>, layer: usize, place: usize, out: &mut Vec<u8>) {
        let keys = self.keys(placed.state, layer);
        let Some(places) = way(place, placed.computed_at) else {
            out.extend(keys);
            return;
        };
        let mut floats = from_halves(keys);
        self.rotation.turn(places).apply(&mut floats);
        to_halves(&floats, out);
    }

    /// How much each layer of a state differs from that of another one, of as many tokens, that was computed so many
    /// places further on, once that is made good.
    pub(crate) fn differences(&self, from: &State, to: &State, places: i32) -> Vec<f32> {
        let turn = self.rotation.turn(places);
        let layer = |layer| {
            let mut turned = from_halves(self.keys(from, layer));
            turn.apply(&mut turned);
            let keys = difference_of(&turned, &from_halves(self.keys(to, layer)));
            let values = [self.values(from, layer), self.values(to, layer)].map(from_halves);
            keys.max(difference_of(&values[0], &values[1]))
        };
        (0..self.layers.len()).map(layer).collect()
    }

    fn keys<'a>(&self, state: &'a State, layer: usize) -> &'a [u8] {
        let before: usize = self.layers[..layer].iter().map(|row| row.key).sum();
        &state.bytes[before * state.tokens..][..self.layers[layer].key * state.tokens]
    }

    fn values<'a>(&self, state: &'a State, layer: usize) -> &'a [u8] {
        let keys: usize = self.layers.iter().map(|row| row.key).sum();
        let before: usize = keys + self.layers[..layer].iter().map(|row| row.value).sum::<usize>();
        &state.bytes[before * state.tokens..][..self.layers[layer].value * state.tokens]
    }
}

/// The mark, the rows of each layer, and the state.
fn read(sequence: &[u8]) -> Option<(u32, Vec<Row>, State)> {
    let mut rest = Bytes(sequence);
    let mark = rest.number()?;
    let _sequence = rest.number()?;
    let streams = rest.number()?;
    let tokens = usize::try_from(rest.number()?).ok()?;
    let order = order(&mut rest, tokens)?;
    let transposed = rest.number()?;
    let layers = usize::try_from(rest.number()?).ok()?;
    let mixed = (rest.number()?, rest.number()?);
    if streams != 1 || transposed != 0 || mixed != (0, 0) {
        return None;
    }
    let mut bytes = Vec::with_capacity(rest.0.len());
    let mut rows = |rest: &mut Bytes<'_>| -> Option<Vec<usize>> {
        let row = |_| {
            let (form, row) = (rest.number()?, usize::try_from(rest.long()?).ok()?);
            if form != HALF {
                return None;
            }
            let given = rest.take(row.checked_mul(tokens)?)?;
            match &order {
                None => bytes.extend(given),
                Some(order) => order.iter().for_each(|at| bytes.extend(&given[at * row..][..row])),
            }
            Some(row)
        };
        (0..layers).map(row).collect()
    };
    let (keys, values) = (rows(&mut rest)?, rows(&mut rest)?);
    let rows = keys.into_iter().zip(values).map(|(key, value)| Row { key, value }).collect();
    rest.0.is_empty().then_some((mark, rows, State { tokens, bytes }))
}

/// The order of the tokens among what follows, if it is not that of their places: llama.cpp gives them away in the
/// order in which they lie in its memory. Their places must have no gap.
#[expect(clippy::option_option, reason = "none is what cannot be read")]
fn order(rest: &mut Bytes<'_>, tokens: usize) -> Option<Option<Vec<usize>>> {
    let mut places = Vec::new();
    for number in 0..tokens {
        let (place, sequences, _sequence) = (rest.number()?, rest.number()?, rest.number()?);
        if sequences != 1 {
            return None;
        }
        places.push((place, number));
    }
    let is_in_order = places.is_sorted();
    places.sort_unstable();
    let (first, _) = *places.first()?;
    let follows = |(place, expected): (&(u32, usize), u32)| place.0 == expected;
    let gapless = places.iter().zip(first..).all(follows);
    gapless.then(|| (!is_in_order).then(|| places.into_iter().map(|(_, number)| number).collect()))
}

/// Bytes that are read from their beginning.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}

/// What stands before the rows of a layer.
fn head(out: &mut Vec<u8>, row: usize) {
    out.extend(HALF.to_le_bytes());
    out.extend((row as u64).to_le_bytes());
}

/// How far it is from one place to another; none if it is nowhere.
fn way(to: usize, from: usize) -> Option<i32> {
    let places = i32::try_from(to).ok()? - i32::try_from(from).ok()?;
    (places != 0).then_some(places)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The length of the difference, measured by the length of the numbers themselves.
fn difference_of(a: &[f32], b: &[f32]) -> f32 {
    let square = |number: f32| number * number;
    let length: f32 = a.iter().copied().map(square).sum();
    let difference: f32 = a.iter().zip(b).map(|(a, b)| square(a - b)).sum();
    (difference / length.max(f32::MIN_POSITIVE)).sqrt()
}

#[cfg(test)]
mod tests;
