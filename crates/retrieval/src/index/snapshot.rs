//! One state of the index: all chunks of one revision, and nothing of another. It never changes, so a search
//! that began on it ends on it.

use std::collections::HashMap;
use std::sync::Arc;

use tantivy::directory::error::OpenReadError;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::SegmentId;
use tantivy::{IndexReader, Searcher, SegmentReader, TantivyError};

use super::entry::Fields;
use super::rows::Rows;

/// How often a snapshot is tried. Each try but the last fails only if a merge ended during it.
const TRIES: usize = 10;

/// One state of the index.
pub(crate) struct Snapshot {
    pub(crate) revision: u64,
    pub(crate) parts: Vec<Part>,
    tenants: HashMap<String, Extent>,
}

/// How much a tenant has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Extent {
    /// Chunks.
    pub(crate) chunks: u64,
    /// Words in them, as far as tantivy keeps their numbers.
    pub(crate) words: u64,
}

/// A segment of a snapshot.
pub(crate) struct Part {
    pub(crate) segment: SegmentReader,
    pub(crate) rows: Arc<Rows>,
    pub(crate) lengths: FieldNormReader,
}

impl Snapshot {
    /// What `searcher` sees. Rows that `earlier` has open are shared with it.
    pub(crate) fn new(
        revision: u64,
        searcher: &Searcher,
        fields: Fields,
        earlier: Option<&Self>,
    ) -> tantivy::Result<Self> {
        let opened: HashMap<SegmentId, &Arc<Rows>> = earlier
            .into_iter()
            .flat_map(|snapshot| &snapshot.parts)
            .map(|part| (part.segment.segment_id(), &part.rows))
            .collect();
        let mut parts = Vec::new();
        for segment in searcher.segment_readers() {
            let rows = match opened.get(&segment.segment_id()) {
                Some(&rows) => Arc::clone(rows),
                None => Arc::new(Rows::open(segment)?),
            };
            let lengths = segment.get_fieldnorms_reader(fields.words)?;
            parts.push(Part { segment: segment.clone(), rows, lengths });
        }
        let tenants = extents(&parts);
        Ok(Self { revision, parts, tenants })
    }

    /// What was committed last. Rows are opened after tantivy's own files: a merge that ends in between takes away
    /// those that it replaced, and then there is something newer to see.
    pub(crate) fn latest(
        revision: u64,
        reader: &IndexReader,
        fields: Fields,
        earlier: &Self,
    ) -> tantivy::Result<Self> {
        let look = || {
            reader.reload()?;
            Self::new(revision, &reader.searcher(), fields, Some(earlier))
        };
        let is_gone = |seen: &tantivy::Result<Self>| {
            matches!(seen, Err(TantivyError::OpenReadError(OpenReadError::FileDoesNotExist(_))))
        };
        let mut looks = (1..TRIES).map(|_| look());
        looks.find(|seen| !is_gone(seen)).unwrap_or_else(look)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// None if the tenant has nothing.
    pub(crate) fn extent(&self, tenant: &str) -> Option<Extent> {
        self.tenants.get(tenant).copied()
    }

    pub(crate) fn row_count(&self) -> usize {
        self.parts.iter().map(|part| part.rows.len()).sum()
    }

    /// How many numbers a vector has; none if there are no vectors.
    pub(crate) fn dimension(&self) -> Option<usize> {
        self.parts.iter().map(|part| part.rows.dimension()).find(|&dimension| dimension > 0)
    }
}

fn extents(parts: &[Part]) -> HashMap<String, Extent> {
    let mut tenants = HashMap::new();
    for part in parts {
        let mut documents = vec![Extent::default(); part.rows.documents().len()];
        for row in part.segment.doc_ids_alive() {
            let extent = &mut documents[part.rows.document(row as usize)];
            extent.chunks += 1;
            extent.words += u64::from(part.lengths.fieldnorm(row));
        }
        for (owned, extent) in part.rows.documents().iter().zip(documents) {
            if extent.chunks > 0 {
                let sum: &mut Extent = tenants.entry(owned.tenant.clone()).or_default();
                sum.chunks += extent.chunks;
                sum.words += extent.words;
            }
        }
    }
    tenants
}
