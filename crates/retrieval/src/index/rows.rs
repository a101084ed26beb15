//! What a segment keeps of its chunks beside their words: whose they are, and their vectors. It is a file of
//! the segment like tantivy's own, so one commit covers both and a merge rewrites both. A row is a chunk's
//! number in its segment. The file is mapped, not read: opening it costs next to nothing, whatever its size.

mod layout;
mod plugin;

use domain::{ChunkId, DocumentId};
use tantivy::SegmentReader;
use tantivy::directory::OwnedBytes;
use tantivy::index::SegmentComponent;
use uuid::Uuid;

use super::quantized::{Precision, exact_dot};
use layout::{Cursor, ID_BYTES, NUMBER_BYTES};
pub(crate) use plugin::RowsPlugin;

/// A chunk, to be kept.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) tenant: String,
    pub(crate) document: DocumentId,
    pub(crate) chunk: ChunkId,
    pub(crate) is_code: bool,
    pub(crate) vector: Option<Vec<f32>>,
}

/// A tenant's document; its number in a segment is its place in a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owned {
    pub(crate) tenant: String,
    pub(crate) document: DocumentId,
}

/// The rows of a segment.
pub(crate) struct Rows {
    documents: Vec<Owned>,
    document_of_row: Vec<u32>,
    chunks: OwnedBytes,
    code: OwnedBytes,
    precisions: Vec<Precision>,
    /// 0 if no row has a vector.
    dimension: usize,
    quantized: OwnedBytes,
    exact: OwnedBytes,
}

impl Rows {
    /// Opens the rows of a segment.
    pub(crate) fn open(segment: &SegmentReader) -> tantivy::Result<Self> {
        let file = segment.open_read(SegmentComponent::Custom(layout::EXTENSION.to_owned()))?;
        let rows = Cursor::new(file.read_bytes()?).rows()?;
        if rows.len() == segment.max_doc() as usize {
            return Ok(rows);
        }
        Err(layout::damaged("it has not as many rows as its segment"))
    }

    pub(crate) fn len(&self) -> usize {
        self.document_of_row.len()
    }

    /// The documents of this segment, each once.
    pub(crate) fn documents(&self) -> &[Owned] {
        &self.documents
    }

    /// The number of a row's document.
    pub(crate) fn document(&self, row: usize) -> usize {
        self.document_of_row[row] as usize
    }

    pub(crate) fn chunk(&self, row: usize) -> ChunkId {
        let bytes = &self.chunks[row * ID_BYTES..][..ID_BYTES];
        ChunkId(Uuid::from_slice(bytes).expect("an id has this many bytes"))
    }

    pub(crate) fn is_code(&self, row: usize) -> bool {
        self.code[row] != 0
    }

    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    /// None for a row without a vector.
    pub(crate) fn precision(&self, row: usize) -> Option<Precision> {
        self.precisions.get(row).copied().filter(|precision| precision.scale > 0.0)
    }

    /// The quantized vectors of some rows, one after the other.
    pub(crate) fn quantized(&self, rows: std::ops::Range<usize>) -> &[u8] {
        &self.quantized[rows.start * self.dimension..rows.end * self.dimension]
    }

    /// The exact dot product of a row's vector with another; none if the row has no vector.
    pub(crate) fn dot(&self, row: usize, vector: &[f32]) -> Option<f32> {
        self.precision(row)?;
        Some(exact_dot(vector, self.exact(row)))
    }

    /// The exact vector of a row, as bytes.
    fn exact(&self, row: usize) -> &[u8] {
        let length = self.dimension * NUMBER_BYTES;
        &self.exact[row * length..][..length]
    }
}
