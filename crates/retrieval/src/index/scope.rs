//! What a search may find in a snapshot: the chunks of a tenant, and only those that passed filters.

use std::collections::HashSet;

use domain::{ChunkId, DocumentId, FilterMatches, IndexQuery};

use super::rows::Owned;
use super::snapshot::{Extent, Part, Snapshot};

/// What a search may find.
pub(crate) struct Scope<'a> {
    pub(crate) snapshot: &'a Snapshot,
    /// How much the tenant has, whatever is filtered.
    pub(crate) extent: Extent,
    /// The tenant's rows of each part.
    pub(crate) ours: Vec<Mask>,
    narrowed: Option<Vec<Mask>>,
}

impl<'a> Scope<'a> {
    /// None if the tenant has nothing.
    pub(crate) fn new(snapshot: &'a Snapshot, search: &IndexQuery) -> Option<Self> {
        let tenant = &search.who.tenant;
        let extent = snapshot.extent(tenant)?;
        let masks = |within: Option<&Within>| -> Vec<Mask> {
            snapshot.parts.iter().map(|part| Mask::new(part, tenant, within)).collect()
        };
        let within = search.within.as_ref().map(Within::new);
        Some(Self {
            snapshot,
            extent,
            ours: masks(None),
            narrowed: within.as_ref().map(|within| masks(Some(within))),
        })
    }

    /// The rows of a part that may be found.
    pub(crate) fn eligible(&self, part: usize) -> &Mask {
        &self.narrowed.as_ref().unwrap_or(&self.ours)[part]
    }
}

/// What passed filters, to be looked up.
struct Within {
    documents: HashSet<DocumentId>,
    chunks: Option<HashSet<ChunkId>>,
}

impl Within {
    fn new(matching: &FilterMatches) -> Self {
        let chunks = matching.chunks.as_ref().map(|chunks| chunks.iter().copied().collect());
        Self { documents: matching.documents.iter().copied().collect(), chunks }
    }
}

/// Which rows of a part count; without a list, all.
pub(crate) struct Mask(Option<Vec<bool>>);

impl Mask {
    fn new(part: &Part, tenant: &str, within: Option<&Within>) -> Self {
        let is_allowed = |owned: &Owned| {
            owned.tenant == tenant && within.is_none_or(|within| within.documents.contains(&owned.document))
        };
        let chunks = within.and_then(|within| within.chunks.as_ref());
        let allowed: Vec<bool> = part.rows.documents().iter().map(is_allowed).collect();
        let alive = part.segment.alive_bitset();
        if alive.is_none() && chunks.is_none() && allowed.iter().all(|&allowed| allowed) {
            return Self(None);
        }
        let is_set = |row: u32| {
            allowed[part.rows.document(row as usize)]
                && alive.is_none_or(|alive| alive.is_alive(row))
                && chunks.is_none_or(|chunks| chunks.contains(&part.rows.chunk(row as usize)))
        };
        Self(Some((0..part.segment.max_doc()).map(is_set).collect()))
    }

    pub(crate) fn allows(&self, row: usize) -> bool {
        self.0.as_ref().is_none_or(|rows| rows[row])
    }

    pub(crate) fn allows_all(&self) -> bool {
        self.0.is_none()
    }
}
