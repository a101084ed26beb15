//! The plugin by which tantivy writes a segment's rows with the segment: chunk by chunk for a new segment,
//! and from the rows of others for a merged one.

use std::any::Any;
use std::collections::HashMap;
use std::io::Write;

use tantivy::directory::TerminatingWrite;
use tantivy::index::SegmentComponent;
use tantivy::indexer::DocIdMapping;
use tantivy::schema::Schema;
use tantivy::schema::document::ErasedDocument;
use tantivy::{
    DocId, PluginMergeContext, PluginWriter, PluginWriterContext, Segment, SegmentPlugin, TantivyError,
};

use super::file_format::{self, EXTENSION, EncodedRow, EncodedVector, F32_BYTES};
use super::{ChunkRow, SegmentRows, TenantDocument};
use crate::index::quantization::{Quantization, quantize};
use crate::index::schema::ChunkDocument;

/// Registers the file of rows with tantivy.
pub(crate) struct RowsPlugin;

impl SegmentPlugin for RowsPlugin {
    fn extensions(&self) -> &[&str] {
        &[EXTENSION]
    }

    fn create_writer(&self, _: &PluginWriterContext<'_>) -> tantivy::Result<Box<dyn PluginWriter>> {
        Ok(Box::new(RowsWriter::default()))
    }

    /// Concatenates the segments' rows without the deleted ones. That is tantivy's order of a merged segment,
    /// as long as the index is not sorted.
    fn merge(&self, merge: PluginMergeContext<'_>) -> tantivy::Result<()> {
        let sources = merge.readers.iter().map(SegmentRows::open).collect::<tantivy::Result<Vec<_>>>()?;
        let mut documents = DocumentNumbers::default();
        let mut merged = Vec::new();
        for (reader, source) in merge.readers.iter().zip(&sources) {
            for row in reader.doc_ids_alive() {
                let row = row as usize;
                let number = documents.number(&source.documents()[source.document_number(row)]);
                merged.push((source, row, number));
            }
        }
        let dimension = sources.iter().map(SegmentRows::dimension).max().unwrap_or(0);
        write_file(merge.target_segment, dimension, &documents.list, || {
            merged.iter().map(|&(source, row, number)| source.encoded_row(row, number))
        })
    }
}

impl SegmentRows {
    fn encoded_row(&self, row: usize, document_number: u32) -> EncodedRow<'_> {
        let vector = self.quantization(row).map(|quantization| EncodedVector {
            quantization,
            quantized: self.quantized(row..row + 1),
            exact: self.exact(row),
        });
        let (chunk, is_code) = (self.chunk(row).0.into_bytes(), self.is_code(row));
        EncodedRow { chunk, document_number, is_code, vector }
    }
}

/// Collects the rows of a new segment.
#[derive(Default)]
struct RowsWriter {
    documents: DocumentNumbers,
    rows: Vec<NewRow>,
    dimension: usize,
    quantized: Vec<u8>,
    exact: Vec<u8>,
}

/// A row whose vector is moved to the columns of the writer.
struct NewRow {
    row: ChunkRow,
    document_number: u32,
    /// The vector's position among the collected vectors.
    vector: Option<(usize, Quantization)>,
}

impl RowsWriter {
    fn add(&mut self, mut row: ChunkRow) -> tantivy::Result<()> {
        let document = TenantDocument { tenant: row.tenant.clone(), document: row.document };
        let document_number = self.documents.number(&document);
        let vector = row.vector.take().map(|vector| self.add_vector(&vector)).transpose()?;
        self.rows.push(NewRow { row, document_number, vector });
        Ok(())
    }

    fn add_vector(&mut self, vector: &[f32]) -> tantivy::Result<(usize, Quantization)> {
        if self.dimension != vector.len() && self.dimension != 0 {
            return Err(TantivyError::InvalidArgument("all vectors must have one dimension".to_owned()));
        }
        self.dimension = vector.len();
        let position = self.quantized.len() / self.dimension;
        let quantization = quantize(vector, &mut self.quantized);
        self.exact.extend(vector.iter().flat_map(|number| number.to_le_bytes()));
        Ok((position, quantization))
    }

    fn encoded_row(&self, new: &NewRow) -> EncodedRow<'_> {
        let vector = new.vector.map(|(position, quantization)| EncodedVector {
            quantization,
            quantized: &self.quantized[position * self.dimension..][..self.dimension],
            exact: &self.exact[position * self.dimension * F32_BYTES..][..self.dimension * F32_BYTES],
        });
        let ChunkRow { chunk, is_code, .. } = new.row;
        EncodedRow { chunk: chunk.0.into_bytes(), document_number: new.document_number, is_code, vector }
    }
}

impl PluginWriter for RowsWriter {
    fn add_document(&mut self, _: DocId, document: &dyn ErasedDocument, _: &Schema) -> tantivy::Result<()> {
        let document = document.as_any().downcast_ref::<ChunkDocument>();
        self.add(document.expect("the index writes chunk documents only").row().clone())
    }

    fn serialize(self: Box<Self>, segment: &Segment, _: Option<&DocIdMapping>) -> tantivy::Result<()> {
        write_file(segment, self.dimension, &self.documents.list, || {
            self.rows.iter().map(|new| self.encoded_row(new))
        })
    }

    fn mem_usage(&self) -> usize {
        let documents = self.documents.list.len() * size_of::<(TenantDocument, TenantDocument)>();
        self.rows.len() * size_of::<NewRow>() + self.quantized.len() + self.exact.len() + documents
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn write_file<'a, I: Iterator<Item = EncodedRow<'a>>>(
    segment: &Segment,
    dimension: usize,
    documents: &[TenantDocument],
    rows: impl Fn() -> I,
) -> tantivy::Result<()> {
    let mut file = segment.open_write(SegmentComponent::Custom(EXTENSION.to_owned()))?;
    file_format::write(&mut file, dimension, documents, rows)?;
    file.flush()?;
    file.terminate()?;
    Ok(())
}

/// Numbers the documents of a segment in the order of their first rows.
#[derive(Default)]
struct DocumentNumbers {
    list: Vec<TenantDocument>,
    numbers: HashMap<TenantDocument, u32>,
}

impl DocumentNumbers {
    fn number(&mut self, document: &TenantDocument) -> u32 {
        if let Some(&number) = self.numbers.get(document) {
            return number;
        }
        let number = u32::try_from(self.list.len()).expect("a segment has fewer documents than rows");
        self.list.push(document.clone());
        self.numbers.insert(document.clone(), number);
        number
    }
}
