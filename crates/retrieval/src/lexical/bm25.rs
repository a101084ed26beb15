//! BM25: the score of a chunk is the sum over the question's terms of
//! `idf · frequency in the question · (k1 + 1) · tf / (tf + length_norm)`.

use std::collections::BTreeMap;

use super::tokenizer::terms;

/// BM25's k1: how soon repetitions of a term stop counting. Fitted on SciFact's and CoSQA's development
/// questions.
const K1: f32 = 1.2;

/// BM25's b: how much the terms of a long chunk count less. Fitted likewise.
const B: f32 = 0.9;

/// Distinct terms of a question that are searched; further ones are ignored.
const MAX_QUERY_TERMS: usize = 256;

/// The terms of a question with their frequencies, in a fixed order so that sums are reproducible.
pub(crate) fn query_terms(text: &str) -> BTreeMap<String, f32> {
    let mut frequencies = BTreeMap::new();
    for term in terms(text) {
        if frequencies.len() < MAX_QUERY_TERMS || frequencies.contains_key(&term) {
            *frequencies.entry(term).or_insert(0.0) += 1.0;
        }
    }
    frequencies
}

/// Inverse document frequency of a term that `containing` of all `chunks` contain.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a weight need not be exact"
)]
pub(crate) fn idf(containing: u64, chunks: u64) -> f32 {
    let (containing, chunks) = (containing as f64, chunks as f64);
    (1.0 + (chunks - containing + 0.5) / (containing + 0.5)).ln() as f32
}

/// Weight of a term by its inverse document frequency and its frequency in the question.
pub(crate) fn term_weight(idf: f32, query_frequency: f32) -> f32 {
    idf * query_frequency * (K1 + 1.0)
}

/// Addend to the term frequency in a chunk of `length` terms.
pub(crate) fn length_norm(length: f32, average_length: f32) -> f32 {
    K1 * (1.0 - B + B * length / average_length)
}
