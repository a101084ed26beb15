//! One search of a snapshot: the best chunks by BM25 and by cosine, merged into candidates.

mod dense;
mod lexical;
mod scope;
mod top_k;

use std::collections::HashMap;
use std::io;

use domain::{Candidate, Failure, FailureKind, IndexQuery};

use super::schema::Fields;
use super::snapshot::Snapshot;
use scope::SearchableRows;
use top_k::Scored;

/// A row of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RowPosition {
    segment: usize,
    row: usize,
}

/// The candidates: first those of the lexical ranking in its order, then those of the dense ranking alone.
pub(crate) fn search(
    snapshot: &Snapshot,
    fields: Fields,
    query: &IndexQuery,
) -> Result<Vec<Candidate>, Failure> {
    let Some(searchable) = SearchableRows::new(snapshot, query) else { return Ok(Vec::new()) };
    check_dimension(snapshot, query)?;
    let limit = query.limit.min(snapshot.row_count());
    let lexical = || lexical::search(&searchable, fields, &query.text, limit);
    let dense = || query.vector.as_ref().map(|vector| dense::search(&searchable, vector, limit));
    let (lexical, dense) = rayon::join(lexical, dense);
    let lexical = lexical.map_err(|error| unreadable(&error))?;
    Ok(merge(snapshot, query, lexical, dense.unwrap_or_default()))
}

fn merge(
    snapshot: &Snapshot,
    query: &IndexQuery,
    lexical: Vec<Scored<RowPosition>>,
    dense: Vec<Scored<RowPosition>>,
) -> Vec<Candidate> {
    let mut dense_ranks: HashMap<_, _> =
        dense.iter().enumerate().map(|(rank, scored)| (scored.item, rank)).collect();
    let candidate = |position: RowPosition, lexical, dense| {
        let (rows, row) = (&snapshot.segments[position.segment].rows, position.row);
        Candidate {
            chunk: rows.chunk(row),
            document: rows.documents()[rows.document_number(row)].document,
            is_code: rows.is_code(row),
            lexical,
            dense,
            cosine: query.vector.as_ref().and_then(|vector| rows.dot_product(row, vector)),
        }
    };
    let mut candidates = Vec::with_capacity(lexical.len() + dense.len());
    for (rank, Scored { item, score, .. }) in lexical.into_iter().enumerate() {
        candidates.push(candidate(item, Some((rank, score)), dense_ranks.remove(&item)));
    }
    for Scored { item, .. } in dense {
        if let Some(rank) = dense_ranks.remove(&item) {
            candidates.push(candidate(item, None, Some(rank)));
        }
    }
    candidates
}

fn check_dimension(snapshot: &Snapshot, query: &IndexQuery) -> Result<(), Failure> {
    match (&query.vector, snapshot.dimension()) {
        (Some(vector), Some(dimension)) if vector.len() != dimension => {
            let message = format!(
                "the question's vector has {} numbers and those of the index have {dimension}: \
                 run `wellspring reindex`",
                vector.len(),
            );
            Err(Failure::new(FailureKind::Retrieval, message))
        }
        _ => Ok(()),
    }
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::new(FailureKind::Retrieval, format!("the index cannot be read: {error}"))
}
