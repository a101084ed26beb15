//! Self-attention of one text, head by head: scores of every query with every key, their softmax, and the
//! mean of the values weighted by it. The queries are already scaled by 1/√(head size).

use super::PANEL;
use super::arithmetic::{exponentials, padded, store};
use super::f32_matrix::{Line, Rows, multiply_panel};

/// The input of attention for one text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads<'a> {
    /// A row of `width` numbers for each query: all tokens, or the first ones.
    pub(crate) queries: &'a [f32],
    /// A row of twice `width` numbers for each token: its keys, then its values.
    pub(crate) keys_and_values: &'a [f32],
    /// Dimension of a token.
    pub(crate) width: usize,
    /// Number of heads, which divide the dimension among them.
    pub(crate) count: usize,
}

/// Buffers of attention, reused from text to text.
#[derive(Debug, Default)]
pub(crate) struct AttentionBuffers {
    keys: Vec<Line>,
    values: Vec<Line>,
    scores: Vec<f32>,
    /// The factor of each query's softmax.
    factors: Vec<f32>,
}

/// Writes a row of `width` numbers for each query.
#[inline(always)]
pub(super) fn attend<const FUSED: bool>(heads: Heads<'_>, buffers: &mut AttentionBuffers, out: &mut [f32]) {
    let Heads { width, count, .. } = heads;
    let (query_rows, tokens) = (heads.queries.len() / width, heads.keys_and_values.len() / (2 * width));
    assert_eq!(out.len(), query_rows * width, "the output has one row for each query");
    let size = width / count;
    buffers.scores.resize(query_rows * tokens, 0.0);
    buffers.factors.resize(query_rows, 0.0);
    for first in (0..width).step_by(size) {
        let token_rows = |from: usize| Rows::strided(&heads.keys_and_values[from..], size, 2 * width, tokens);
        pack_columns(token_rows(first), &mut buffers.keys);
        pack_rows(token_rows(width + first), &mut buffers.values);
        let queries = Rows::strided(&heads.queries[first..], size, width, query_rows);
        score::<FUSED>(queries, &buffers.keys, tokens, &mut buffers.scores);
        for (row, factor) in buffers.scores.chunks_exact_mut(tokens).zip(&mut buffers.factors) {
            *factor = 1.0 / exponentials::<FUSED>(row);
        }
        let weights = Rows::new(&buffers.scores, tokens);
        for (panel, lines) in buffers.values.chunks_exact(tokens).enumerate() {
            let columns = PANEL.min(size - panel * PANEL);
            multiply_panel::<FUSED>(weights, lines, |row, sums| {
                let scaled = sums.map(|sum| sum * buffers.factors[row]);
                store(scaled, &mut out[row * width + first + panel * PANEL..][..columns]);
            });
        }
    }
}

#[inline(always)]
fn score<const FUSED: bool>(queries: Rows<'_>, keys: &[Line], tokens: usize, scores: &mut [f32]) {
    for (panel, lines) in keys.chunks_exact(queries.depth()).enumerate() {
        let width = PANEL.min(tokens - panel * PANEL);
        multiply_panel::<FUSED>(queries, lines, |row, sums| {
            store(sums, &mut scores[row * tokens + panel * PANEL..][..width]);
        });
    }
}

/// Packs keys so that sixteen tokens are the columns of a panel.
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

/// Packs values so that the tokens of a panel are consecutive: at their own stride they would evict each
/// other from the cache.
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
