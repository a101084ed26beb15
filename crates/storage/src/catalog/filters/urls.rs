//! The values of a filter by source URL: URLs of documents, and of chunks with an anchor after `#`. A document's URL may
//! contain a `#` itself, so each value is tried as both.

use std::collections::{BTreeSet, HashSet};

/// The documents and chunks that a filter by source URL selects.
pub(super) struct SourceUrls {
    documents: HashSet<String>,
    /// URL of the document, and anchor.
    chunks: HashSet<(String, String)>,
}

impl SourceUrls {
    pub(super) fn new(values: &BTreeSet<String>) -> Self {
        let chunk =
            |value: &String| value.rsplit_once('#').map(|(page, anchor)| (page.into(), anchor.into()));
        Self {
            documents: values.iter().cloned().collect(),
            chunks: values.iter().filter_map(chunk).collect(),
        }
    }

    /// The URLs of all documents that may have a selected chunk.
    pub(super) fn of_documents(&self) -> impl Iterator<Item = &str> {
        self.documents.iter().chain(self.chunks.iter().map(|(page, _)| page)).map(String::as_str)
    }

    /// Whether the filter may select some chunks of a document and not others.
    pub(super) fn has_anchors(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// Whether the filter selects a chunk with this anchor, of a document with this URL.
    pub(super) fn contains(&self, url: &str, anchor: &str) -> bool {
        self.documents.contains(url) || self.chunks.contains(&(url.to_owned(), anchor.to_owned()))
    }
}
