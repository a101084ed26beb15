//! An immutable view of one revision. A search that starts on a snapshot ends on it.

use std::collections::HashMap;
use std::sync::Arc;

use tantivy::directory::error::OpenReadError;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::SegmentId;
use tantivy::{IndexReader, Searcher, SegmentReader, TantivyError};

use super::rows::SegmentRows;
use super::schema::Fields;

/// Attempts to open the latest revision. An attempt fails if a merge deletes a segment's files meanwhile.
const OPEN_ATTEMPTS: usize = 10;

/// All chunks of one revision.
pub(crate) struct Snapshot {
    pub(crate) revision: u64,
    pub(crate) segments: Vec<SnapshotSegment>,
    tenants: HashMap<String, TenantStats>,
}

/// A segment with its rows and the lengths of its chunks.
pub(crate) struct SnapshotSegment {
    pub(crate) reader: SegmentReader,
    pub(crate) rows: Arc<SegmentRows>,
    pub(crate) lengths: FieldNormReader,
}

/// Collection statistics of a tenant, for BM25.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TenantStats {
    pub(crate) chunks: u64,
    /// Terms of all chunks, by tantivy's rounded lengths.
    pub(crate) terms: u64,
}

impl Snapshot {
    /// A snapshot of what `searcher` sees. It shares the open rows of `earlier`.
    pub(crate) fn new(
        revision: u64,
        searcher: &Searcher,
        fields: Fields,
        earlier: Option<&Self>,
    ) -> tantivy::Result<Self> {
        let opened: HashMap<SegmentId, &Arc<SegmentRows>> = earlier
            .into_iter()
            .flat_map(|snapshot| &snapshot.segments)
            .map(|segment| (segment.reader.segment_id(), &segment.rows))
            .collect();
        let mut segments = Vec::new();
        for reader in searcher.segment_readers() {
            let rows = match opened.get(&reader.segment_id()) {
                Some(&rows) => Arc::clone(rows),
                None => Arc::new(SegmentRows::open(reader)?),
            };
            let lengths = reader.get_fieldnorms_reader(fields.terms)?;
            segments.push(SnapshotSegment { reader: reader.clone(), rows, lengths });
        }
        let tenants = tenant_stats(&segments);
        Ok(Self { revision, segments, tenants })
    }

    /// A snapshot of the last commit. Rows are opened after tantivy's own files: if a merge deletes a segment
    /// in between, a newer set of segments exists and is tried.
    pub(crate) fn latest(
        revision: u64,
        reader: &IndexReader,
        fields: Fields,
        earlier: &Self,
    ) -> tantivy::Result<Self> {
        let open = || {
            reader.reload()?;
            Self::new(revision, &reader.searcher(), fields, Some(earlier))
        };
        let is_merged_away = |opened: &tantivy::Result<Self>| {
            matches!(opened, Err(TantivyError::OpenReadError(OpenReadError::FileDoesNotExist(_))))
        };
        let mut attempts = (1..OPEN_ATTEMPTS).map(|_| open());
        attempts.find(|opened| !is_merged_away(opened)).unwrap_or_else(open)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// None if the tenant has no chunks.
    pub(crate) fn tenant_stats(&self, tenant: &str) -> Option<TenantStats> {
        self.tenants.get(tenant).copied()
    }

    /// Rows of all segments and tenants, deleted ones included.
    pub(crate) fn row_count(&self) -> usize {
        self.segments.iter().map(|segment| segment.rows.len()).sum()
    }

    /// Dimension of the vectors; none if there are no vectors.
    pub(crate) fn dimension(&self) -> Option<usize> {
        self.segments.iter().map(|segment| segment.rows.dimension()).find(|&dimension| dimension > 0)
    }
}

fn tenant_stats(segments: &[SnapshotSegment]) -> HashMap<String, TenantStats> {
    let mut tenants = HashMap::new();
    for segment in segments {
        let mut documents = vec![TenantStats::default(); segment.rows.documents().len()];
        for row in segment.reader.doc_ids_alive() {
            let stats = &mut documents[segment.rows.document_number(row as usize)];
            stats.chunks += 1;
            stats.terms += u64::from(segment.lengths.fieldnorm(row));
        }
        for (document, stats) in segment.rows.documents().iter().zip(documents) {
            if stats.chunks > 0 {
                let sum: &mut TenantStats = tenants.entry(document.tenant.clone()).or_default();
                sum.chunks += stats.chunks;
                sum.terms += stats.terms;
            }
        }
    }
    tenants
}
