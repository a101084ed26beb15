//! Stores documents in short transactions, so that other writers of the catalog do not wait long.

use domain::{Catalog, NewDocument, Principal, PutOutcome, StorageError};

/// Maximum bytes of text in one transaction, unless a single document has more.
const BYTES_PER_TRANSACTION: usize = 4 << 20;

const DOCUMENTS_PER_TRANSACTION: usize = 64;

/// Consecutive errors after which the remaining documents of a transaction are not tried.
const MAX_CONSECUTIVE_ERRORS: usize = 3;

type PutResult = Result<PutOutcome, StorageError>;

/// Stores documents. The results are in the documents' order.
pub(super) async fn put_all(
    catalog: &dyn Catalog,
    who: &Principal,
    documents: Vec<NewDocument>,
) -> Vec<PutResult> {
    let mut results = Vec::with_capacity(documents.len());
    let mut group = Vec::new();
    let mut bytes = 0;
    for document in documents {
        let size = document.document.text.len();
        if bytes + size > BYTES_PER_TRANSACTION || group.len() == DOCUMENTS_PER_TRANSACTION {
            results.extend(put_in_one_transaction(catalog, who, std::mem::take(&mut group)).await);
            bytes = 0;
        }
        bytes += size;
        group.push(document);
    }
    results.extend(put_in_one_transaction(catalog, who, group).await);
    results
}

/// Stores documents in one transaction. If that fails, it stores each one separately, so that a document that the
/// catalog rejects does not affect the others.
async fn put_in_one_transaction(
    catalog: &dyn Catalog,
    who: &Principal,
    mut documents: Vec<NewDocument>,
) -> Vec<PutResult> {
    match documents.len() {
        0 => return Vec::new(),
        1 => return vec![put_one(catalog, who, documents.remove(0)).await],
        _ => {}
    }
    if let Ok(outcomes) = catalog.put(who, documents.clone()).await {
        return outcomes.into_iter().map(Ok).collect();
    }
    let mut results: Vec<PutResult> = Vec::with_capacity(documents.len());
    for document in documents {
        let latest = results.last_chunk::<MAX_CONSECUTIVE_ERRORS>();
        let result = match latest.filter(|latest| latest.iter().all(Result::is_err)) {
            Some([.., last]) => last.clone(),
            None => put_one(catalog, who, document).await,
        };
        results.push(result);
    }
    results
}

async fn put_one(catalog: &dyn Catalog, who: &Principal, document: NewDocument) -> PutResult {
    let outcomes = catalog.put(who, vec![document]).await?;
    let outcome = outcomes.into_iter().next();
    outcome.ok_or_else(|| StorageError::other("the catalog returned no outcome for a document"))
}
