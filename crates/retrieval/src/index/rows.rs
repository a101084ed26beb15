//! The rows of a segment: tenant, document, chunk id and vectors of each of its chunks. They are a file of
//! the segment like tantivy's own, so a commit and a merge cover both. A row's number is the chunk's number
//! in its segment. The file is memory-mapped, so opening it is cheap whatever its size.

mod file_format;
mod tantivy_plugin;

use std::ops::Range;

use domain::{ChunkId, DocumentId};
use tantivy::SegmentReader;
use tantivy::directory::OwnedBytes;
use tantivy::index::SegmentComponent;
use uuid::Uuid;

use super::quantization::{Quantization, exact_dot_product};
use file_format::{F32_BYTES, ID_BYTES, RowsParser};
pub(crate) use tantivy_plugin::RowsPlugin;

/// The row of a chunk, before it is written.
#[derive(Clone, Debug)]
pub(crate) struct ChunkRow {
    pub(crate) tenant: String,
    pub(crate) document: DocumentId,
    pub(crate) chunk: ChunkId,
    pub(crate) is_code: bool,
    pub(crate) vector: Option<Vec<f32>>,
}

/// A document of a tenant. Rows refer to it by its number in the segment's list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TenantDocument {
    pub(crate) tenant: String,
    pub(crate) document: DocumentId,
}

/// The rows of a segment, as columns.
pub(crate) struct SegmentRows {
    documents: Vec<TenantDocument>,
    document_numbers: Vec<u32>,
    chunks: OwnedBytes,
    code: OwnedBytes,
    /// Empty, as are both vector columns, if no row has a vector.
    quantizations: Vec<Quantization>,
    /// 0 if no row has a vector.
    dimension: usize,
    quantized: OwnedBytes,
    exact: OwnedBytes,
}

impl SegmentRows {
    pub(crate) fn open(segment: &SegmentReader) -> tantivy::Result<Self> {
        let file = segment.open_read(SegmentComponent::Custom(file_format::EXTENSION.to_owned()))?;
        let rows = RowsParser::new(file.read_bytes()?).parse()?;
        if rows.len() == segment.max_doc() as usize {
            return Ok(rows);
        }
        Err(file_format::damaged("its number of rows differs from the segment's"))
    }

    pub(crate) fn len(&self) -> usize {
        self.document_numbers.len()
    }

    /// The documents of the segment, each once.
    pub(crate) fn documents(&self) -> &[TenantDocument] {
        &self.documents
    }

    /// The position of a row's document in [`documents`](Self::documents).
    pub(crate) fn document_number(&self, row: usize) -> usize {
        self.document_numbers[row] as usize
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
    pub(crate) fn quantization(&self, row: usize) -> Option<Quantization> {
        self.quantizations.get(row).copied().filter(|quantization| quantization.scale > 0.0)
    }

    /// The quantized vectors of consecutive rows.
    pub(crate) fn quantized(&self, rows: Range<usize>) -> &[u8] {
        &self.quantized[rows.start * self.dimension..rows.end * self.dimension]
    }

    /// The exact dot product of a row's vector with another; none if the row has no vector.
    pub(crate) fn dot_product(&self, row: usize, vector: &[f32]) -> Option<f32> {
        self.quantization(row)?;
        Some(exact_dot_product(vector, self.exact(row)))
    }

    /// The exact vector of a row as little-endian bytes.
    fn exact(&self, row: usize) -> &[u8] {
        let length = self.dimension * F32_BYTES;
        &self.exact[row * length..][..length]
    }
}
