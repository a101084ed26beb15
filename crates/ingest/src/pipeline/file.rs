//! PutOutcome documents in short transactions, so that whoever else writes never waits for long.

use domain::{Catalog, NewDocument, Principal, PutOutcome, StorageError};

/// Bytes of text in one transaction, unless a single document has more.
const BYTES_AT_A_TIME: usize = 4 << 20;

/// Documents in one transaction.
const DOCUMENTS_AT_A_TIME: usize = 64;

/// Refusals in a row after which the catalog is not asked any more.
const PATIENCE: usize = 3;

/// What became of each document, in their order.
pub(super) async fn all(
    catalog: &dyn Catalog,
    who: &Principal,
    documents: Vec<NewDocument>,
) -> Vec<Result<PutOutcome, StorageError>> {
    let mut filings = Vec::with_capacity(documents.len());
    let mut group = Vec::new();
    let mut bytes = 0;
    for document in documents {
        let size = document.document.text.len();
        if bytes + size > BYTES_AT_A_TIME || group.len() == DOCUMENTS_AT_A_TIME {
            filings.extend(together(catalog, who, std::mem::take(&mut group)).await);
            bytes = 0;
        }
        bytes += size;
        group.push(document);
    }
    filings.extend(together(catalog, who, group).await);
    filings
}

/// Files documents in one transaction. If that is refused, each is filed alone, so that one stops no other.
async fn together(
    catalog: &dyn Catalog,
    who: &Principal,
    mut documents: Vec<NewDocument>,
) -> Vec<Result<PutOutcome, StorageError>> {
    match documents.len() {
        0 => return Vec::new(),
        1 => return vec![alone(catalog, who, documents.remove(0)).await],
        _ => {}
    }
    if let Ok(filings) = catalog.put(who, documents.clone()).await {
        return filings.into_iter().map(Ok).collect();
    }
    let mut filings: Vec<Result<PutOutcome, StorageError>> = Vec::with_capacity(documents.len());
    for document in documents {
        let lately = filings.last_chunk::<PATIENCE>();
        let filing = match lately.filter(|lately| lately.iter().all(Result::is_err)) {
            Some([.., last]) => last.clone(),
            None => alone(catalog, who, document).await,
        };
        filings.push(filing);
    }
    filings
}

async fn alone(
    catalog: &dyn Catalog,
    who: &Principal,
    document: NewDocument,
) -> Result<PutOutcome, StorageError> {
    let filings = catalog.put(who, vec![document]).await?;
    filings
        .into_iter()
        .next()
        .ok_or_else(|| StorageError::other("the catalog told nothing of a document".to_owned()))
}
