//! Addresses that a filter names: of whole documents, and, with an anchor behind `#`, of chunks of them. An address
//! may have a `#` of its own, so each is taken both ways.

use std::collections::{BTreeSet, HashSet};

/// What a filter by address names.
pub(super) struct Addresses {
    documents: HashSet<String>,
    /// Each with the address of its document and its anchor.
    chunks: HashSet<(String, String)>,
}

impl Addresses {
    pub(super) fn new(values: &BTreeSet<String>) -> Self {
        let chunk =
            |value: &String| value.rsplit_once('#').map(|(page, anchor)| (page.into(), anchor.into()));
        Self {
            documents: values.iter().cloned().collect(),
            chunks: values.iter().filter_map(chunk).collect(),
        }
    }

    /// Every address that a document with something to find may have.
    pub(super) fn of_documents(&self) -> impl Iterator<Item = &str> {
        self.documents.iter().chain(self.chunks.iter().map(|(page, _)| page)).map(String::as_str)
    }

    /// Whether chunks of one document may have to be told apart.
    pub(super) fn name_chunks(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// Whether a chunk with this anchor, of a document at this address, is named.
    pub(super) fn name(&self, address: &str, anchor: &str) -> bool {
        self.documents.contains(address) || self.chunks.contains(&(address.to_owned(), anchor.to_owned()))
    }
}
