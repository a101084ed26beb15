//! Lexical search: BM25 over the tenant's chunks. A score depends on the question and the tenant's chunks
//! alone, not on the rest of the index, on segments or on filters. Tantivy's own scorer uses statistics of
//! the whole index, and skips postings, which makes the order of its sums depend on what it skipped. So all
//! postings of all terms are read, and summed term by term.

use std::io;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::IndexRecordOption;

use super::RowPosition;
use super::scope::{RowMask, SearchableRows};
use super::top_k::{Scored, TopK};
use crate::index::schema::Fields;
use crate::index::snapshot::{SnapshotSegment, TenantStats};
use crate::lexical::bm25::{idf, length_norm, query_terms, term_weight};

/// The best rows by BM25.
pub(super) fn search(
    searchable: &SearchableRows<'_>,
    fields: Fields,
    text: &str,
    limit: usize,
) -> io::Result<Vec<Scored<RowPosition>>> {
    let segments = &searchable.snapshot.segments;
    let norms = LengthNorms::new(searchable.stats);
    let mut scores: Vec<Vec<f32>> = segments.iter().map(|segment| vec![0.0; segment.rows.len()]).collect();
    for (term, query_frequency) in query_terms(text) {
        let postings = segments.iter().map(|segment| postings(segment, fields, &term));
        let postings = postings.collect::<io::Result<Vec<_>>>()?;
        let in_segments = postings.iter().zip(&searchable.of_tenant);
        let containing: u64 = in_segments.map(|(postings, mask)| count_rows(postings.as_ref(), mask)).sum();
        let weight = term_weight(idf(containing, searchable.stats.chunks), query_frequency);
        for ((postings, segment), scores) in postings.into_iter().zip(segments).zip(&mut scores) {
            if let Some(postings) = postings {
                add_scores(postings, &segment.lengths, &norms, weight, scores);
            }
        }
    }
    let mut best = TopK::new(limit);
    for (number, (scores, segment)) in scores.iter().zip(segments).enumerate() {
        let eligible = searchable.eligible(number);
        for (row, &score) in scores.iter().enumerate() {
            if score > 0.0 && eligible.contains(row) {
                best.push(score, || segment.rows.chunk(row), RowPosition { segment: number, row });
            }
        }
    }
    Ok(best.into_sorted())
}

fn postings(
    segment: &SnapshotSegment,
    fields: Fields,
    term: &str,
) -> io::Result<Option<BlockSegmentPostings>> {
    let inverted_index = segment.reader.inverted_index(fields.terms).map_err(io::Error::other)?;
    inverted_index.read_block_postings(&fields.term(term), IndexRecordOption::WithFreqs)
}

/// Postings whose row is in the mask.
fn count_rows(postings: Option<&BlockSegmentPostings>, mask: &RowMask) -> u64 {
    let Some(postings) = postings else { return 0 };
    if mask.contains_all() {
        return postings.doc_freq().into();
    }
    let mut postings = postings.clone();
    let mut count = 0;
    while !postings.docs().is_empty() {
        count += postings.docs().iter().filter(|&&row| mask.contains(row as usize)).count() as u64;
        postings.advance();
    }
    count
}

/// Adds the score of one term to the rows of its postings.
fn add_scores(
    mut postings: BlockSegmentPostings,
    lengths: &FieldNormReader,
    norms: &LengthNorms,
    weight: f32,
    scores: &mut [f32],
) {
    while !postings.docs().is_empty() {
        for (&row, &frequency) in postings.docs().iter().zip(postings.freqs()) {
            let norm = norms.0[usize::from(lengths.fieldnorm_id(row))];
            #[expect(clippy::cast_precision_loss, reason = "a chunk has few words")]
            let frequency = frequency as f32;
            scores[row as usize] += weight * frequency / (frequency + norm);
        }
        postings.advance();
    }
}

/// BM25's length norm for each of the 256 chunk lengths that tantivy distinguishes.
struct LengthNorms([f32; 256]);

impl LengthNorms {
    #[expect(clippy::cast_precision_loss, reason = "a norm need not be exact")]
    fn new(stats: TenantStats) -> Self {
        let average = stats.terms.max(1) as f32 / stats.chunks.max(1) as f32;
        Self(std::array::from_fn(|id| {
            let length = FieldNormReader::id_to_fieldnorm(u8::try_from(id).unwrap_or(u8::MAX)) as f32;
            length_norm(length, average)
        }))
    }
}
