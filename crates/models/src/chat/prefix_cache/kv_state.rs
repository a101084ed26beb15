//! The KV state of a token range: a key and a value per token in each layer. Parsed from llama.cpp's serialized
//! sequences, and joined into one again at other positions. Pure.

use std::ops::Range;

use super::rotation::Rotation;
use crate::chat::llama::{f16_to_f32, f32_to_f16};

/// llama.cpp's code for 16-bit floats.
const F16: u32 = 1;

/// The KV state of a token range.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct KvState {
    /// Number of tokens.
    pub(super) tokens: usize,
    /// The keys of all layers, then the values of all layers.
    pub(super) bytes: Vec<u8>,
}

/// The dimensions of a model's KV states.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KvLayout {
    /// The first four bytes that llama.cpp writes.
    magic: u32,
    layers: Vec<RowBytes>,
    rotation: Rotation,
}

/// Bytes of a token's key and value in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowBytes {
    key: usize,
    value: usize,
}

impl KvLayout {
    /// The layout of a serialized sequence. None if that is not one 16-bit key and value per token and layer.
    pub(crate) fn of(sequence: &[u8], rotation: Rotation) -> Option<Self> {
        let (magic, layers, _) = parse(sequence)?;
        let whole_heads = layers.iter().all(|row| row.key > 0 && row.key.is_multiple_of(2 * rotation.head));
        (rotation.is_valid() && whole_heads && !layers.is_empty()).then_some(Self { magic, layers, rotation })
    }

    /// Parses a serialized sequence; none if it has another layout.
    pub(crate) fn parse(&self, sequence: &[u8]) -> Option<KvState> {
        let (magic, layers, state) = parse(sequence)?;
        (magic == self.magic && layers == self.layers).then_some(state)
    }

    /// The part of a state that belongs to a range of its tokens.
    pub(crate) fn slice(&self, state: &KvState, range: Range<usize>) -> KvState {
        let mut bytes = Vec::with_capacity(self.bytes(range.len()));
        for (layer, row) in self.layers.iter().enumerate() {
            bytes.extend(&self.keys(state, layer)[range.start * row.key..range.end * row.key]);
        }
        for (layer, row) in self.layers.iter().enumerate() {
            bytes.extend(&self.values(state, layer)[range.start * row.value..range.end * row.value]);
        }
        KvState { tokens: range.len(), bytes }
    }

    /// Bytes of the state of this many tokens.
    pub(crate) fn bytes(&self, tokens: usize) -> usize {
        tokens * self.layers.iter().map(|row| row.key + row.value).sum::<usize>()
    }

    /// Serializes a sequence for llama.cpp: a prefix, and passages one after the other, each of which was computed right
    /// after the prefix. Keys are rotated to their new positions. None as soon as it is no longer needed: with a long
    /// prompt it takes some 100 ms.
    pub(crate) fn join<S: AsRef<KvState>>(
        &self,
        prefix: &KvState,
        passages: &[S],
        is_needed: impl Fn() -> bool,
    ) -> Option<Vec<u8>> {
        let passages: Vec<&KvState> = passages.iter().map(AsRef::as_ref).collect();
        let tokens: usize = prefix.tokens + passages.iter().map(|state| state.tokens).sum::<usize>();
        let mut out = Vec::with_capacity(self.bytes(tokens) + 12 * tokens + 24 * self.layers.len() + 64);
        put_numbers(&mut out, &[self.magic, 0, 1, number(tokens)]);
        for position in 0..tokens {
            // One sequence, whose number llama.cpp replaces.
            put_numbers(&mut out, &[number(position), 1, 0]);
        }
        put_numbers(&mut out, &[0, number(self.layers.len()), 0, 0]);
        for (layer, row) in self.layers.iter().enumerate() {
            if !is_needed() {
                return None;
            }
            put_row_header(&mut out, row.key);
            out.extend(self.keys(prefix, layer));
            let mut shift = 0;
            for passage in &passages {
                self.put_shifted_keys(passage, layer, shift, &mut out);
                shift += passage.tokens;
            }
        }
        for (layer, row) in self.layers.iter().enumerate() {
            put_row_header(&mut out, row.value);
            out.extend(self.values(prefix, layer));
            passages.iter().for_each(|passage| out.extend(self.values(passage, layer)));
        }
        Some(out)
    }

    fn put_shifted_keys(&self, state: &KvState, layer: usize, shift: usize, out: &mut Vec<u8>) {
        let keys = self.keys(state, layer);
        match i32::try_from(shift) {
            Ok(0) | Err(_) => out.extend(keys),
            Ok(shift) => {
                let mut floats = f16_to_f32(keys);
                self.rotation.by(shift).apply(&mut floats);
                f32_to_f16(&floats, out);
            }
        }
    }

    /// The relative difference in each layer between a state shifted by `shift` positions and another one of the same
    /// tokens.
    pub(crate) fn differences(&self, from: &KvState, to: &KvState, shift: i32) -> Vec<f32> {
        let rotation = self.rotation.by(shift);
        let layer = |layer| {
            let mut shifted = f16_to_f32(self.keys(from, layer));
            rotation.apply(&mut shifted);
            let keys = relative_difference(&shifted, &f16_to_f32(self.keys(to, layer)));
            let values = [self.values(from, layer), self.values(to, layer)].map(f16_to_f32);
            keys.max(relative_difference(&values[0], &values[1]))
        };
        (0..self.layers.len()).map(layer).collect()
    }

    fn keys<'a>(&self, state: &'a KvState, layer: usize) -> &'a [u8] {
        let before: usize = self.layers[..layer].iter().map(|row| row.key).sum();
        &state.bytes[before * state.tokens..][..self.layers[layer].key * state.tokens]
    }

    fn values<'a>(&self, state: &'a KvState, layer: usize) -> &'a [u8] {
        let keys: usize = self.layers.iter().map(|row| row.key).sum();
        let before: usize = keys + self.layers[..layer].iter().map(|row| row.value).sum::<usize>();
        &state.bytes[before * state.tokens..][..self.layers[layer].value * state.tokens]
    }
}

/// The magic number, the row sizes of each layer, and the state.
fn parse(sequence: &[u8]) -> Option<(u32, Vec<RowBytes>, KvState)> {
    let mut rest = Reader(sequence);
    let [magic, _sequence, streams, tokens] = rest.numbers()?;
    let tokens = usize::try_from(tokens).ok()?;
    let order = token_order(&mut rest, tokens)?;
    let [transposed, layers, mixed_keys, mixed_values] = rest.numbers()?;
    if [streams, transposed, mixed_keys, mixed_values] != [1, 0, 0, 0] {
        return None;
    }
    let mut bytes = Vec::with_capacity(rest.0.len());
    let mut rows = |rest: &mut Reader<'_>| -> Option<Vec<usize>> {
        let row = |_| {
            let [format, row, high] = rest.numbers()?;
            if (format, high) != (F16, 0) {
                return None;
            }
            let row = usize::try_from(row).ok()?;
            let stored = rest.take(row.checked_mul(tokens)?)?;
            order.iter().for_each(|&index| bytes.extend(&stored[index * row..][..row]));
            Some(row)
        };
        (0..layers).map(row).collect()
    };
    let (keys, values) = (rows(&mut rest)?, rows(&mut rest)?);
    let rows = keys.into_iter().zip(values).map(|(key, value)| RowBytes { key, value }).collect();
    rest.0.is_empty().then_some((magic, rows, KvState { tokens, bytes }))
}

/// The indices of the tokens by their positions, which must be consecutive: llama.cpp serializes tokens in the order of
/// its memory cells.
fn token_order(rest: &mut Reader<'_>, tokens: usize) -> Option<Vec<usize>> {
    let mut positions = Vec::new();
    for index in 0..tokens {
        let [position, sequences, _sequence] = rest.numbers()?;
        if sequences != 1 {
            return None;
        }
        positions.push((position, index));
    }
    positions.sort_unstable();
    let (first, _) = *positions.first()?;
    let is_consecutive = positions.iter().zip(first..).all(|((position, _), expected)| *position == expected);
    is_consecutive.then(|| positions.into_iter().map(|(_, index)| index).collect())
}

/// Reads little-endian numbers.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn numbers<const N: usize>(&mut self) -> Option<[u32; N]> {
        let (words, []) = self.take(4 * N)?.as_chunks::<4>() else { return None };
        words.iter().map(|word| u32::from_le_bytes(*word)).collect::<Vec<_>>().try_into().ok()
    }
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
}

/// The header of a layer's rows: their format and size.
fn put_row_header(out: &mut Vec<u8>, row: usize) {
    put_numbers(out, &[F16, number(row), 0]);
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The length of the difference, relative to the length of the vector.
fn relative_difference(a: &[f32], b: &[f32]) -> f32 {
    let square = |number: f32| number * number;
    let length: f32 = a.iter().copied().map(square).sum();
    let difference: f32 = a.iter().zip(b).map(|(a, b)| square(a - b)).sum();
    (difference / length.max(f32::MIN_POSITIVE)).sqrt()
}

#[cfg(test)]
mod tests;
