//! Tantivy's schema of the index, and a chunk as a document of it.

use domain::{ChunkId, IndexedChunk, Principal};
use tantivy::Term;
use tantivy::schema::{
    BytesOptions, Document, Field, IndexRecordOption, OwnedValue, Schema, TextFieldIndexing, TextOptions,
};

use super::rows::ChunkRow;

/// The name under which the tokenizer is registered.
pub(crate) const TOKENIZER: &str = "words";

/// The fields of the index.
#[derive(Clone, Copy)]
pub(crate) struct Fields {
    /// Tenant and chunk id, to delete a chunk by.
    pub(crate) key: Field,
    /// The terms of a chunk: of its title, path, context and text.
    pub(crate) terms: Field,
}

impl Fields {
    pub(crate) fn schema() -> (Schema, Self) {
        let mut schema = Schema::builder();
        let key = schema.add_bytes_field("key", BytesOptions::default().set_indexed());
        let with_frequencies = TextFieldIndexing::default()
            .set_tokenizer(TOKENIZER)
            .set_index_option(IndexRecordOption::WithFreqs)
            .set_fieldnorms(true);
        let options = TextOptions::default().set_indexing_options(with_frequencies);
        let terms = schema.add_text_field("words", options);
        (schema.build(), Self { key, terms })
    }

    /// The tantivy term that deletes a chunk.
    pub(crate) fn chunk_key(self, who: &Principal, chunk: ChunkId) -> Term {
        Term::from_field_bytes(self.key, &chunk_key(&who.tenant, chunk))
    }

    /// The tantivy term whose postings are the chunks that contain `term`.
    pub(crate) fn term(self, term: &str) -> Term {
        Term::from_field_text(self.terms, term)
    }
}

/// A chunk as a document of tantivy, with the row that the segment stores for it.
pub(crate) struct ChunkDocument {
    values: Vec<(Field, OwnedValue)>,
    row: ChunkRow,
}

impl ChunkDocument {
    pub(crate) fn new(fields: Fields, chunk: IndexedChunk) -> Self {
        let row = ChunkRow {
            tenant: chunk.who.tenant,
            document: chunk.document,
            chunk: chunk.chunk,
            is_code: chunk.is_code,
            vector: chunk.vector,
        };
        let key = OwnedValue::Bytes(chunk_key(&row.tenant, row.chunk));
        let texts = [chunk.title, chunk.file_path, chunk.context, chunk.text];
        let texts = texts.into_iter().map(|text| (fields.terms, OwnedValue::Str(text)));
        Self { values: [(fields.key, key)].into_iter().chain(texts).collect(), row }
    }

    pub(crate) fn row(&self) -> &ChunkRow {
        &self.row
    }
}

impl Document for ChunkDocument {
    type Value<'a> = &'a OwnedValue;
    type FieldsValuesIter<'a> = Box<dyn Iterator<Item = (Field, &'a OwnedValue)> + 'a>;

    fn iter_fields_and_values(&self) -> Self::FieldsValuesIter<'_> {
        Box::new(self.values.iter().map(|(field, value)| (*field, value)))
    }
}

/// The id comes first and has a fixed length, so that keys are unique whatever a tenant's name is.
fn chunk_key(tenant: &str, chunk: ChunkId) -> Vec<u8> {
    [chunk.0.as_bytes(), tenant.as_bytes()].concat()
}
