//! Search by words: BM25. A score follows from the words of the question and the tenant's chunks alone:
//! neither from what else is in the index, nor from how it came there, nor from filters. So scores are summed
//! word by word over whole lists; tantivy's own way skips lists, and sums in an order that depends on what it
//! skipped.

use std::io;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::IndexRecordOption;

use super::best::{Best, Scored};
use super::bm25::{counted, norm, rarity, weight};
use super::entry::Fields;
use super::scope::{Mask, Scope};
use super::snapshot::{Extent, Part};

/// The best rows by words, each as (part, row).
pub(crate) fn search(
    scope: &Scope<'_>,
    fields: Fields,
    text: &str,
    limit: usize,
) -> io::Result<Vec<Scored<(usize, usize)>>> {
    let parts = &scope.snapshot.parts;
    let lengths = LengthNorms::new(scope.extent);
    let mut scores: Vec<Vec<f32>> = parts.iter().map(|part| vec![0.0; part.rows.len()]).collect();
    for (word, count) in counted(text) {
        let lists = parts.iter().map(|part| postings(part, fields, &word));
        let lists = lists.collect::<io::Result<Vec<_>>>()?;
        let having: u64 =
            lists.iter().zip(&scope.ours).map(|(list, ours)| count_rows(list.as_ref(), ours)).sum();
        let weight = weight(rarity(having, scope.extent.chunks), count);
        for ((list, part), scores) in lists.into_iter().zip(parts).zip(&mut scores) {
            if let Some(list) = list {
                add(list, &part.lengths, &lengths, weight, scores);
            }
        }
    }
    let mut best = Best::new(limit);
    for (number, (scores, part)) in scores.iter().zip(parts).enumerate() {
        let eligible = scope.eligible(number);
        for (row, &score) in scores.iter().enumerate() {
            if score > 0.0 && eligible.allows(row) {
                best.offer(score, || part.rows.chunk(row), (number, row));
            }
        }
    }
    Ok(best.into_sorted())
}

fn postings(part: &Part, fields: Fields, word: &str) -> io::Result<Option<BlockSegmentPostings>> {
    let lists = part.segment.inverted_index(fields.words).map_err(io::Error::other)?;
    lists.read_block_postings(&fields.word(word), IndexRecordOption::WithFreqs)
}

/// How many rows of a list count.
fn count_rows(list: Option<&BlockSegmentPostings>, mask: &Mask) -> u64 {
    let Some(list) = list else { return 0 };
    if mask.allows_all() {
        return list.doc_freq().into();
    }
    let mut list = list.clone();
    let mut count = 0;
    while !list.docs().is_empty() {
        count += list.docs().iter().filter(|&&row| mask.allows(row as usize)).count() as u64;
        list.advance();
    }
    count
}

fn add(
    mut list: BlockSegmentPostings,
    lengths_of_rows: &FieldNormReader,
    lengths: &LengthNorms,
    weight: f32,
    scores: &mut [f32],
) {
    while !list.docs().is_empty() {
        for (&row, &count) in list.docs().iter().zip(list.freqs()) {
            let norm = lengths.0[usize::from(lengths_of_rows.fieldnorm_id(row))];
            #[expect(clippy::cast_precision_loss, reason = "a chunk has few words")]
            let count = count as f32;
            scores[row as usize] += weight * count / (count + norm);
        }
        list.advance();
    }
}

/// What BM25 adds to a count, for each of the 256 lengths that tantivy tells apart.
struct LengthNorms([f32; 256]);

impl LengthNorms {
    #[expect(clippy::cast_precision_loss, reason = "a norm need not be exact")]
    fn new(tenant: Extent) -> Self {
        let average = tenant.words.max(1) as f32 / tenant.chunks.max(1) as f32;
        Self(std::array::from_fn(|id| {
            let length = FieldNormReader::id_to_fieldnorm(u8::try_from(id).unwrap_or(u8::MAX)) as f32;
            norm(length, average)
        }))
    }
}
