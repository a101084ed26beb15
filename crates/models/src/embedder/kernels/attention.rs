//! Self-attention of one text, head by head: scores of every query against every key, their softmax, and the
//! mean of the values by it. The queries come with 1/√(head size) in them.

use super::PANEL;
use super::arithmetic::{exponentials, padded, store};
use super::full::{Line, Rows, sweep};

/// What one text attends with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads<'a> {
    /// A row of `width` numbers for each token that attends: all of them, or the first ones.
    pub(crate) queries: &'a [f32],
    /// A row of twice `width` numbers for each token.
    pub(crate) keys_and_values: &'a [f32],
    /// Numbers of a token.
    pub(crate) width: usize,
    /// Heads, which share the numbers of a token.
    pub(crate) count: usize,
}

/// What attention needs room for. Reused from text to text.
#[derive(Debug, Default)]
pub(crate) struct AttentionSpace {
    keys: Vec<Line>,
    values: Vec<Line>,
    scores: Vec<f32>,
    shares: Vec<f32>,
}

/// Writes a row of `width` numbers for each query.
#[inline(always)]
pub(super) fn attend<const FUSED: bool>(heads: Heads<'_>, space: &mut AttentionSpace, out: &mut [f32]) {
    let Heads { width, count, .. } = heads;
    let (asking, tokens) = (heads.queries.len() / width, heads.keys_and_values.len() / (2 * width));
    assert_eq!(out.len(), asking * width, "there is one row a query");
    let size = width / count;
    space.scores.resize(asking * tokens, 0.0);
    space.shares.resize(asking, 0.0);
    for first in (0..width).step_by(size) {
        let token_rows = |from: usize| Rows::strided(&heads.keys_and_values[from..], size, 2 * width, tokens);
        pack_columns(token_rows(first), &mut space.keys);
        pack_rows(token_rows(width + first), &mut space.values);
        let queries = Rows::strided(&heads.queries[first..], size, width, asking);
        score::<FUSED>(queries, &space.keys, tokens, &mut space.scores);
        for (row, share) in space.scores.chunks_exact_mut(tokens).zip(&mut space.shares) {
            *share = 1.0 / exponentials::<FUSED>(row);
        }
        let weights = Rows::new(&space.scores, tokens);
        for (panel, lines) in space.values.chunks_exact(tokens).enumerate() {
            let taken = PANEL.min(size - panel * PANEL);
            sweep::<FUSED>(weights, lines, |row, sums| {
                let shared = sums.map(|sum| sum * space.shares[row]);
                store(shared, &mut out[row * width + first + panel * PANEL..][..taken]);
            });
        }
    }
}

#[inline(always)]
fn score<const FUSED: bool>(queries: Rows<'_>, keys: &[Line], tokens: usize, scores: &mut [f32]) {
    for (panel, lines) in keys.chunks_exact(queries.depth()).enumerate() {
        let width = PANEL.min(tokens - panel * PANEL);
        sweep::<FUSED>(queries, lines, |row, sums| {
            store(sums, &mut scores[row * tokens + panel * PANEL..][..width]);
        });
    }
}

/// Packs keys so that sixteen tokens are sixteen columns.
#[inline(always)]
fn pack_columns(keys: Rows<'_>, into: &mut Vec<Line>) {
    into.clear();
    into.resize(keys.count().div_ceil(PANEL) * keys.depth(), Line::ZERO);
    for token in 0..keys.count() {
        let panel = &mut into[token / PANEL * keys.depth()..][..keys.depth()];
        for (line, key) in panel.iter_mut().zip(keys.row(token)) {
            line.0[token % PANEL] = *key;
        }
    }
}

/// Packs values so that a panel's tokens follow each other: read at their own stride they would evict each other.
#[inline(always)]
fn pack_rows(values: Rows<'_>, into: &mut Vec<Line>) {
    into.clear();
    into.resize(values.depth().div_ceil(PANEL) * values.count(), Line::ZERO);
    for token in 0..values.count() {
        for (panel, part) in values.row(token).chunks(PANEL).enumerate() {
            into[panel * values.count() + token] = Line(padded(part));
        }
    }
}
