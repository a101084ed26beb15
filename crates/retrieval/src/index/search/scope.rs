//! The rows that a search may return: the tenant's, and of those the ones that pass the filters.

use std::collections::HashSet;

use domain::{ChunkId, DocumentId, FilterMatches, IndexQuery};

use crate::index::rows::TenantDocument;
use crate::index::snapshot::{Snapshot, SnapshotSegment, TenantStats};

/// A snapshot, restricted to the tenant and the filters of a query.
pub(super) struct SearchableRows<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// Statistics of all chunks of the tenant, so that filters do not change scores.
    pub(super) stats: TenantStats,
    /// The tenant's rows, by segment.
    pub(super) of_tenant: Vec<RowMask>,
    /// The tenant's rows that pass the filters, by segment; none without filters.
    filtered: Option<Vec<RowMask>>,
}

impl<'a> SearchableRows<'a> {
    /// None if the tenant has no chunks.
    pub(super) fn new(snapshot: &'a Snapshot, query: &IndexQuery) -> Option<Self> {
        let tenant = &query.who.tenant;
        let stats = snapshot.tenant_stats(tenant)?;
        let masks = |allowed: Option<&AllowedIds>| -> Vec<RowMask> {
            snapshot.segments.iter().map(|segment| RowMask::new(segment, tenant, allowed)).collect()
        };
        let filtered = query.within.as_ref().map(|matches| masks(Some(&AllowedIds::new(matches))));
        Some(Self { snapshot, stats, of_tenant: masks(None), filtered })
    }

    /// The rows of a segment that the search may return.
    pub(super) fn eligible(&self, segment: usize) -> &RowMask {
        &self.filtered.as_ref().unwrap_or(&self.of_tenant)[segment]
    }
}

/// What passed the filters, as sets.
struct AllowedIds {
    documents: HashSet<DocumentId>,
    /// None allows all chunks of these documents.
    chunks: Option<HashSet<ChunkId>>,
}

impl AllowedIds {
    fn new(matches: &FilterMatches) -> Self {
        let chunks = matches.chunks.as_ref().map(|chunks| chunks.iter().copied().collect());
        Self { documents: matches.documents.iter().copied().collect(), chunks }
    }
}

/// A set of rows of a segment; `None` contains all.
pub(super) struct RowMask(Option<Vec<bool>>);

impl RowMask {
    fn new(segment: &SnapshotSegment, tenant: &str, allowed: Option<&AllowedIds>) -> Self {
        let rows = &segment.rows;
        let is_allowed = |document: &TenantDocument| {
            document.tenant == tenant
                && allowed.is_none_or(|allowed| allowed.documents.contains(&document.document))
        };
        let documents: Vec<bool> = rows.documents().iter().map(is_allowed).collect();
        let chunks = allowed.and_then(|allowed| allowed.chunks.as_ref());
        let alive = segment.reader.alive_bitset();
        if alive.is_none() && chunks.is_none() && documents.iter().all(|&allowed| allowed) {
            return Self(None);
        }
        let contains = |id: u32| {
            let row = id as usize;
            documents[rows.document_number(row)]
                && alive.is_none_or(|alive| alive.is_alive(id))
                && chunks.is_none_or(|chunks| chunks.contains(&rows.chunk(row)))
        };
        Self(Some((0..segment.reader.max_doc()).map(contains).collect()))
    }

    pub(super) fn contains(&self, row: usize) -> bool {
        self.0.as_ref().is_none_or(|rows| rows[row])
    }

    pub(super) fn contains_all(&self) -> bool {
        self.0.is_none()
    }
}
