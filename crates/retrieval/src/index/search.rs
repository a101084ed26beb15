//! One search: the best by words and the best by meaning, of one snapshot, joined.

use std::collections::HashMap;
use std::io;

use domain::{Candidate, Failure, FailureKind, IndexQuery};

use super::best::Scored;
use super::entry::Fields;
use super::scope::Scope;
use super::snapshot::Snapshot;
use super::{dense, lexical};

/// The candidates: those found by words first, in their order, then the others.
pub(crate) fn search(
    snapshot: &Snapshot,
    fields: Fields,
    search: &IndexQuery,
) -> Result<Vec<Candidate>, Failure> {
    let Some(scope) = Scope::new(snapshot, search) else { return Ok(Vec::new()) };
    check_dimension(snapshot, search)?;
    let limit = search.limit.min(snapshot.row_count());
    let by_words = || lexical::search(&scope, fields, &search.text, limit);
    let by_meaning = || search.vector.as_ref().map(|vector| dense::search(&scope, vector, limit));
    let (lexical, dense) = rayon::join(by_words, by_meaning);
    let lexical = lexical.map_err(|error| unreadable(&error))?;
    Ok(join(snapshot, search, lexical, dense.unwrap_or_default()))
}

fn join(
    snapshot: &Snapshot,
    search: &IndexQuery,
    lexical: Vec<Scored<(usize, usize)>>,
    dense: Vec<Scored<(usize, usize)>>,
) -> Vec<Candidate> {
    let mut dense_ranks: HashMap<_, _> =
        dense.iter().enumerate().map(|(rank, found)| (found.what, rank)).collect();
    let candidate = |(part, row): (usize, usize), lexical, dense| {
        let rows = &snapshot.parts[part].rows;
        Candidate {
            chunk: rows.chunk(row),
            document: rows.documents()[rows.document(row)].document,
            is_code: rows.is_code(row),
            lexical,
            dense,
            cosine: search.vector.as_ref().and_then(|vector| rows.dot(row, vector)),
        }
    };
    let mut candidates = Vec::with_capacity(lexical.len() + dense.len());
    for (rank, found) in lexical.into_iter().enumerate() {
        candidates.push(candidate(found.what, Some((rank, found.score)), dense_ranks.remove(&found.what)));
    }
    for found in dense {
        if let Some(rank) = dense_ranks.remove(&found.what) {
            candidates.push(candidate(found.what, None, Some(rank)));
        }
    }
    candidates
}

fn check_dimension(snapshot: &Snapshot, search: &IndexQuery) -> Result<(), Failure> {
    match (&search.vector, snapshot.dimension()) {
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
