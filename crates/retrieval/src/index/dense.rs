//! Search by meaning: every vector is looked at. Quantized ones tell most rows apart from the best, for
//! certain; the exact ones put what is left in order. So the result is that of comparing all exact vectors.

use std::ops::Range;

use rayon::prelude::*;

use super::best::{Best, Scored, reached_by};
use super::quantized::QuantizedQuery;
use super::scope::Scope;
use super::snapshot::Snapshot;

/// Rows that one thread looks at before it takes the next.
const BLOCK: usize = 8192;

/// Indexes that take less than this (rows times numbers) are looked through by one thread: waking others
/// would take longer.
const SMALL: usize = 1 << 21;

/// The best rows by meaning, each as (part, row); scores are cosines.
pub(crate) fn search(scope: &Scope<'_>, vector: &[f32], limit: usize) -> Vec<Scored<(usize, usize)>> {
    let query = QuantizedQuery::new(vector);
    let blocks = blocks(scope.snapshot, vector.len());
    let look = |(part, rows): &(usize, Range<usize>)| look(scope, &query, *part, rows.clone(), limit);
    let seen: Vec<Vec<Seen>> = if scope.snapshot.row_count() * vector.len() < SMALL {
        blocks.iter().map(look).collect()
    } else {
        blocks.par_iter().map(look).collect()
    };

    let floor = reached_by(limit, seen.iter().flatten().map(|seen| seen.at_least));
    let mut best = Best::new(limit);
    for seen in seen.iter().flatten().filter(|seen| seen.at_most >= floor) {
        let rows = &scope.snapshot.parts[seen.part].rows;
        if let Some(cosine) = rows.dot(seen.row, vector) {
            best.offer(cosine, || rows.chunk(seen.row), (seen.part, seen.row));
        }
    }
    best.into_sorted()
}

/// A row that may be among the best.
struct Seen {
    part: usize,
    row: usize,
    at_least: f32,
    at_most: f32,
}

fn blocks(snapshot: &Snapshot, dimension: usize) -> Vec<(usize, Range<usize>)> {
    let parts = snapshot.parts.iter().enumerate().filter(|(_, part)| part.rows.dimension() == dimension);
    parts
        .flat_map(|(number, part)| {
            let rows = part.rows.len();
            (0..rows).step_by(BLOCK).map(move |start| (number, start..rows.min(start + BLOCK)))
        })
        .collect()
}

/// Leaves out the rows of a block that others of it surpass.
fn look(
    scope: &Scope<'_>,
    query: &QuantizedQuery,
    part: usize,
    block: Range<usize>,
    limit: usize,
) -> Vec<Seen> {
    let rows = &scope.snapshot.parts[part].rows;
    let eligible = scope.eligible(part);
    let mut products = vec![0; block.len()];
    query.products(rows.quantized(block.clone()), &mut products);
    let seen = || {
        block.clone().zip(&products).filter(|(row, _)| eligible.allows(*row)).filter_map(|(row, &product)| {
            let precision = rows.precision(row)?;
            let (estimate, margin) = (query.estimate(product, precision), query.margin(precision));
            Some(Seen { part, row, at_least: estimate - margin, at_most: estimate + margin })
        })
    };
    let floor = reached_by(limit, seen().map(|seen| seen.at_least));
    seen().filter(|seen| seen.at_most >= floor).collect()
}
