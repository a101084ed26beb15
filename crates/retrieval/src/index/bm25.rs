//! The arithmetic of BM25, the same for the index and for a selection.

use std::collections::BTreeMap;

use super::words::words;

/// How soon a word's repetitions stop counting. Fitted on the development questions of SciFact and CoSQA.
const SATURATION: f32 = 1.2;

/// How much a long chunk's words count less. Fitted likewise.
const LENGTH_PENALTY: f32 = 0.9;

/// More different words than this are not looked for.
const MOST_WORDS: usize = 256;

/// The words of a question, each with how often it is there, in an order that is always the same.
pub(crate) fn counted(text: &str) -> BTreeMap<String, f32> {
    let mut counted = BTreeMap::new();
    for word in words(text) {
        if counted.len() < MOST_WORDS || counted.contains_key(&word) {
            *counted.entry(word).or_insert(0.0) += 1.0;
        }
    }
    counted
}

/// A word that few chunks have tells more.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a weight need not be exact"
)]
pub(crate) fn rarity(having: u64, chunks: u64) -> f32 {
    let (having, chunks) = (having as f64, chunks as f64);
    (1.0 + (chunks - having + 0.5) / (having + 0.5)).ln() as f32
}

/// What a word of a question is worth, by its rarity and how often it is asked for.
pub(crate) fn weight(rarity: f32, asked: f32) -> f32 {
    rarity * asked * (SATURATION + 1.0)
}

/// What is added to a word's count in a chunk of some length, where chunks have some length on average.
pub(crate) fn norm(length: f32, average: f32) -> f32 {
    SATURATION * (1.0 - LENGTH_PENALTY + LENGTH_PENALTY * length / average)
}
