//! Dense search: exact nearest neighbours by cosine, without an approximate graph. Every quantized vector is
//! scanned, and bounds on the quantization error rule out most rows; the exact vectors of the rest decide.
//! The result equals a comparison of all exact vectors.

use std::ops::Range;

use rayon::prelude::*;

use super::RowPosition;
use super::scope::SearchableRows;
use super::top_k::{Scored, TopK, kth_largest};
use crate::index::quantization::QuantizedQuery;
use crate::index::snapshot::Snapshot;

/// Rows that one thread scans before it takes the next block.
const BLOCK_ROWS: usize = 8192;

/// Rows times dimension below which one thread scans everything: waking others would take longer.
const PARALLEL_THRESHOLD: usize = 1 << 21;

/// The best rows by cosine with `vector`.
pub(super) fn search(
    searchable: &SearchableRows<'_>,
    vector: &[f32],
    limit: usize,
) -> Vec<Scored<RowPosition>> {
    let snapshot = searchable.snapshot;
    let query = QuantizedQuery::new(vector);
    let blocks = blocks(snapshot, vector.len());
    let scan = |(segment, rows): &(usize, Range<usize>)| {
        scan_block(searchable, &query, *segment, rows.clone(), limit)
    };
    let bounded: Vec<Vec<BoundedRow>> = if snapshot.row_count() * vector.len() < PARALLEL_THRESHOLD {
        blocks.iter().map(scan).collect()
    } else {
        blocks.par_iter().map(scan).collect()
    };

    let floor = kth_largest(limit, bounded.iter().flatten().map(|row| row.lower_bound));
    let mut best = TopK::new(limit);
    for BoundedRow { position, .. } in bounded.iter().flatten().filter(|row| row.upper_bound >= floor) {
        let rows = &snapshot.segments[position.segment].rows;
        if let Some(cosine) = rows.dot_product(position.row, vector) {
            best.push(cosine, || rows.chunk(position.row), *position);
        }
    }
    best.into_sorted()
}

/// A row that may be among the best, with bounds of its cosine.
struct BoundedRow {
    position: RowPosition,
    lower_bound: f32,
    upper_bound: f32,
}

/// Blocks of rows as (segment, rows).
fn blocks(snapshot: &Snapshot, dimension: usize) -> Vec<(usize, Range<usize>)> {
    let segments = snapshot.segments.iter().enumerate();
    segments
        .filter(|(_, segment)| segment.rows.dimension() == dimension)
        .flat_map(|(number, segment)| {
            let rows = segment.rows.len();
            (0..rows).step_by(BLOCK_ROWS).map(move |start| (number, start..rows.min(start + BLOCK_ROWS)))
        })
        .collect()
}

/// The eligible rows of a block, without those that `limit` others of it surpass for certain.
fn scan_block(
    searchable: &SearchableRows<'_>,
    query: &QuantizedQuery,
    segment: usize,
    block: Range<usize>,
    limit: usize,
) -> Vec<BoundedRow> {
    let rows = &searchable.snapshot.segments[segment].rows;
    let eligible = searchable.eligible(segment);
    let mut products = vec![0; block.len()];
    query.dot_products(rows.quantized(block.clone()), &mut products);
    let bounded = || {
        let eligible = block.clone().zip(&products).filter(|(row, _)| eligible.contains(*row));
        eligible.filter_map(|(row, &product)| {
            let quantization = rows.quantization(row)?;
            let (estimate, margin) = (query.estimate(product, quantization), query.margin(quantization));
            let position = RowPosition { segment, row };
            Some(BoundedRow { position, lower_bound: estimate - margin, upper_bound: estimate + margin })
        })
    };
    let floor = kth_largest(limit, bounded().map(|row| row.lower_bound));
    bounded().filter(|row| row.upper_bound >= floor).collect()
}
