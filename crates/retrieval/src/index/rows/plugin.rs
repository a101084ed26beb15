//! How rows come into a segment's file: chunk by chunk when it is written, and from other segments when they
//! are merged.

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

use super::layout::{self, EXTENSION, NUMBER_BYTES, RowToWrite, VectorToWrite};
use super::{Owned, Row, Rows};
use crate::index::entry::Entry;
use crate::index::quantized::{Precision, quantize};

/// Makes tantivy keep rows.
pub(crate) struct RowsPlugin;

impl SegmentPlugin for RowsPlugin {
    fn extensions(&self) -> &[&str] {
        &[EXTENSION]
    }

    fn create_writer(&self, _: &PluginWriterContext<'_>) -> tantivy::Result<Box<dyn PluginWriter>> {
        Ok(Box::new(RowsWriter::default()))
    }

    /// Segments are stacked without what was deleted: tantivy would only put them in another order if the
    /// index were sorted.
    fn merge(&self, merge: PluginMergeContext<'_>) -> tantivy::Result<()> {
        let sources = merge.readers.iter().map(Rows::open).collect::<tantivy::Result<Vec<_>>>()?;
        let mut documents = Documents::default();
        let mut kept = Vec::new();
        for (reader, source) in merge.readers.iter().zip(&sources) {
            for row in reader.doc_ids_alive() {
                let row = row as usize;
                let document = documents.number(&source.documents()[source.document(row)]);
                kept.push((source, row, document));
            }
        }
        let dimension = sources.iter().map(Rows::dimension).max().unwrap_or(0);
        write(merge.target_segment, dimension, &documents.list, || {
            kept.iter().map(|&(source, row, document)| source.row_to_write(row, document))
        })
    }
}

impl Rows {
    fn row_to_write(&self, row: usize, document: u32) -> RowToWrite<'_> {
        let vector = self.precision(row).map(|precision| VectorToWrite {
            precision,
            quantized: self.quantized(row..row + 1),
            exact: self.exact(row),
        });
        RowToWrite { chunk: self.chunk(row).0.into_bytes(), document, is_code: self.is_code(row), vector }
    }
}

/// The rows of a segment that is being written.
#[derive(Default)]
struct RowsWriter {
    documents: Documents,
    rows: Vec<NewRow>,
    dimension: usize,
    quantized: Vec<u8>,
    exact: Vec<u8>,
}

struct NewRow {
    row: Row,
    document: u32,
    /// The number of its vector, and how it was quantized.
    vector: Option<(usize, Precision)>,
}

impl RowsWriter {
    fn add(&mut self, mut row: Row) -> tantivy::Result<()> {
        let document = self.documents.number(&Owned { tenant: row.tenant.clone(), document: row.document });
        let vector = row.vector.take().map(|vector| self.add_vector(&vector)).transpose()?;
        self.rows.push(NewRow { row, document, vector });
        Ok(())
    }

    fn add_vector(&mut self, vector: &[f32]) -> tantivy::Result<(usize, Precision)> {
        if self.dimension != vector.len() && self.dimension != 0 {
            return Err(TantivyError::InvalidArgument("vectors of one model have one length".to_owned()));
        }
        self.dimension = vector.len();
        let number = self.quantized.len() / self.dimension;
        let precision = quantize(vector, &mut self.quantized);
        self.exact.extend(vector.iter().flat_map(|number| number.to_le_bytes()));
        Ok((number, precision))
    }

    fn row_to_write(&self, new: &NewRow) -> RowToWrite<'_> {
        let vector = new.vector.map(|(number, precision)| VectorToWrite {
            precision,
            quantized: &self.quantized[number * self.dimension..][..self.dimension],
            exact: &self.exact[number * self.dimension * NUMBER_BYTES..][..self.dimension * NUMBER_BYTES],
        });
        let Row { chunk, is_code, .. } = new.row;
        RowToWrite { chunk: chunk.0.into_bytes(), document: new.document, is_code, vector }
    }
}

impl PluginWriter for RowsWriter {
    fn add_document(&mut self, _: DocId, document: &dyn ErasedDocument, _: &Schema) -> tantivy::Result<()> {
        let entry = document.as_any().downcast_ref::<Entry>().expect("the index takes entries only");
        self.add(entry.row().clone())
    }

    fn serialize(self: Box<Self>, segment: &Segment, _: Option<&DocIdMapping>) -> tantivy::Result<()> {
        write(segment, self.dimension, &self.documents.list, || {
            self.rows.iter().map(|new| self.row_to_write(new))
        })
    }

    fn mem_usage(&self) -> usize {
        let documents = self.documents.list.len() * size_of::<(Owned, Owned)>();
        self.rows.len() * size_of::<NewRow>() + self.quantized.len() + self.exact.len() + documents
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn write<'a, I: Iterator<Item = RowToWrite<'a>>>(
    segment: &Segment,
    dimension: usize,
    documents: &[Owned],
    rows: impl Fn() -> I,
) -> tantivy::Result<()> {
    let mut file = segment.open_write(SegmentComponent::Custom(EXTENSION.to_owned()))?;
    layout::write(&mut file, dimension, documents, rows)?;
    file.flush()?;
    file.terminate()?;
    Ok(())
}

/// Documents, numbered as they come.
#[derive(Default)]
struct Documents {
    list: Vec<Owned>,
    numbers: HashMap<Owned, u32>,
}

impl Documents {
    fn number(&mut self, owned: &Owned) -> u32 {
        if let Some(&number) = self.numbers.get(owned) {
            return number;
        }
        let number = u32::try_from(self.list.len()).expect("a segment has fewer documents than rows");
        self.list.push(owned.clone());
        self.numbers.insert(owned.clone(), number);
        number
    }
}
