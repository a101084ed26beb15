//! A chunk as tantivy takes it: its words, the key to remove it by, and the row that is kept beside.

use domain::{ChunkId, IndexedChunk, Principal};
use tantivy::Term;
use tantivy::schema::{
    BytesOptions, Document, Field, IndexRecordOption, OwnedValue, Schema, TextFieldIndexing, TextOptions,
};

use super::rows::Row;

/// The name under which tantivy knows how to cut words.
pub(crate) const TOKENIZER: &str = "words";

/// The fields of the index.
#[derive(Clone, Copy)]
pub(crate) struct Fields {
    /// Whose a chunk is and which: what it is removed by.
    pub(crate) key: Field,
    /// All its words.
    pub(crate) words: Field,
}

impl Fields {
    pub(crate) fn schema() -> (Schema, Self) {
        let mut schema = Schema::builder();
        let key = schema.add_bytes_field("key", BytesOptions::default().set_indexed());
        let counted = TextFieldIndexing::default()
            .set_tokenizer(TOKENIZER)
            .set_index_option(IndexRecordOption::WithFreqs)
            .set_fieldnorms(true);
        let words = schema.add_text_field("words", TextOptions::default().set_indexing_options(counted));
        (schema.build(), Self { key, words })
    }

    /// What a chunk is removed by.
    pub(crate) fn key(self, who: &Principal, chunk: ChunkId) -> Term {
        Term::from_field_bytes(self.key, &key(&who.tenant, chunk))
    }

    /// What chunks with this word have.
    pub(crate) fn word(self, word: &str) -> Term {
        Term::from_field_text(self.words, word)
    }
}

/// A chunk, to be taken into the index.
pub(crate) struct Entry {
    values: Vec<(Field, OwnedValue)>,
    row: Row,
}

impl Entry {
    /// What stands above a chunk counts as if it stood in it.
    pub(crate) fn new(fields: Fields, chunk: IndexedChunk) -> Self {
        let row = Row {
            tenant: chunk.who.tenant,
            document: chunk.document,
            chunk: chunk.chunk,
            is_code: chunk.is_code,
            vector: chunk.vector,
        };
        let key = OwnedValue::Bytes(key(&row.tenant, row.chunk));
        let words = [chunk.title, chunk.file_path, chunk.context, chunk.text];
        let words = words.into_iter().map(|text| (fields.words, OwnedValue::Str(text)));
        Self { values: [(fields.key, key)].into_iter().chain(words).collect(), row }
    }

    pub(crate) fn row(&self) -> &Row {
        &self.row
    }
}

impl Document for Entry {
    type Value<'a> = &'a OwnedValue;
    type FieldsValuesIter<'a> = Box<dyn Iterator<Item = (Field, &'a OwnedValue)> + 'a>;

    fn iter_fields_and_values(&self) -> Self::FieldsValuesIter<'_> {
        Box::new(self.values.iter().map(|(field, value)| (*field, value)))
    }
}

/// Ids have one length, so that no two keys are equal.
fn key(tenant: &str, chunk: ChunkId) -> Vec<u8> {
    [chunk.0.as_bytes(), tenant.as_bytes()].concat()
}
