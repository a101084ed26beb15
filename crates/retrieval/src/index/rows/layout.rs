//! The file of a segment's rows, column after column; all numbers are little-endian. How many rows, how many
//! numbers in a vector; the documents; then of every row its chunk, the number of its document, whether it is
//! code; then, if there are vectors, of every row scale and loss, the bytes, the exact numbers. A row without
//! a vector has zeros.

use std::io::{self, Write};

use domain::DocumentId;
use tantivy::TantivyError;
use tantivy::directory::OwnedBytes;
use tantivy::error::DataCorruption;
use uuid::Uuid;

use super::{Owned, Rows};
use crate::index::quantized::Precision;

pub(super) const EXTENSION: &str = "rows";
pub(super) const ID_BYTES: usize = 16;
pub(super) const NUMBER_BYTES: usize = 4;

/// A row, to be written.
pub(super) struct RowToWrite<'a> {
    pub(super) chunk: [u8; ID_BYTES],
    pub(super) document: u32,
    pub(super) is_code: bool,
    pub(super) vector: Option<VectorToWrite<'a>>,
}

/// A vector, to be written.
pub(super) struct VectorToWrite<'a> {
    pub(super) precision: Precision,
    pub(super) quantized: &'a [u8],
    /// As bytes.
    pub(super) exact: &'a [u8],
}

/// Writes the file. The rows are gone through once a column, so that none of them must be held.
pub(super) fn write<'a, I: Iterator<Item = RowToWrite<'a>>>(
    out: &mut impl Write,
    dimension: usize,
    documents: &[Owned],
    rows: impl Fn() -> I,
) -> io::Result<()> {
    write_count(out, rows().count())?;
    write_count(out, dimension)?;
    write_count(out, documents.len())?;
    for Owned { tenant, document } in documents {
        write_count(out, tenant.len())?;
        out.write_all(tenant.as_bytes())?;
        out.write_all(document.0.as_bytes())?;
    }
    for row in rows() {
        out.write_all(&row.chunk)?;
    }
    for row in rows() {
        out.write_all(&row.document.to_le_bytes())?;
    }
    for row in rows() {
        out.write_all(&[u8::from(row.is_code)])?;
    }
    if dimension == 0 {
        return Ok(());
    }
    let zeros = vec![0; dimension * NUMBER_BYTES];
    for row in rows() {
        let (scale, lost) = row.vector.map_or((0.0_f32, 0.0_f32), |vector| {
            let Precision { scale, lost } = vector.precision;
            (scale, lost)
        });
        out.write_all(&scale.to_le_bytes())?;
        out.write_all(&lost.to_le_bytes())?;
    }
    for row in rows() {
        out.write_all(row.vector.map_or(&zeros[..dimension], |vector| vector.quantized))?;
    }
    for row in rows() {
        out.write_all(row.vector.map_or(&zeros, |vector| vector.exact))?;
    }
    Ok(())
}

fn write_count(out: &mut impl Write, count: usize) -> io::Result<()> {
    let count = u32::try_from(count).map_err(|_| io::Error::other("a segment has at most 4 billion rows"))?;
    out.write_all(&count.to_le_bytes())
}

/// Reads the file from its start.
pub(super) struct Cursor {
    rest: OwnedBytes,
}

impl Cursor {
    pub(super) fn new(file: OwnedBytes) -> Self {
        Self { rest: file }
    }

    pub(super) fn rows(mut self) -> tantivy::Result<Rows> {
        let count = self.count()?;
        let dimension = self.count()?;
        let documents = self.documents()?;
        let chunks = self.take(count, ID_BYTES)?;
        let document_of_row = self.column(count, u32::from_le_bytes)?;
        let code = self.take(count, 1)?;
        if document_of_row.iter().any(|&document| document as usize >= documents.len()) {
            return Err(damaged("a row names a document that is not there"));
        }
        let vectors = if dimension == 0 { 0 } else { count };
        let precisions = self.column(vectors, |[a, b, c, d, e, f, g, h]| Precision {
            scale: f32::from_le_bytes([a, b, c, d]),
            lost: f32::from_le_bytes([e, f, g, h]),
        })?;
        let quantized = self.take(vectors, dimension)?;
        let exact = self.take(vectors, dimension * NUMBER_BYTES)?;
        if !self.rest.is_empty() {
            return Err(damaged("it is longer than its rows"));
        }
        Ok(Rows { documents, document_of_row, chunks, code, precisions, dimension, quantized, exact })
    }

    fn documents(&mut self) -> tantivy::Result<Vec<Owned>> {
        let count = self.count()?;
        let mut documents = Vec::new();
        for _ in 0..count {
            let length = self.count()?;
            let tenant = self.take(1, length)?;
            let tenant = std::str::from_utf8(&tenant).map_err(|_| damaged("a tenant's name is no text"))?;
            let id = self.take(1, ID_BYTES)?;
            let document = DocumentId(Uuid::from_slice(&id).map_err(|_| damaged("an id is too short"))?);
            documents.push(Owned { tenant: tenant.to_owned(), document });
        }
        Ok(documents)
    }

    fn count(&mut self) -> tantivy::Result<usize> {
        let counts = self.column(1, u32::from_le_bytes)?;
        Ok(counts[0] as usize)
    }

    fn column<T, const SIZE: usize>(
        &mut self,
        count: usize,
        value: impl Fn([u8; SIZE]) -> T,
    ) -> tantivy::Result<Vec<T>> {
        let bytes = self.take(count, SIZE)?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| value(*bytes)).collect())
    }

    fn take(&mut self, count: usize, size: usize) -> tantivy::Result<OwnedBytes> {
        let length = count.checked_mul(size).filter(|&length| length <= self.rest.len());
        let length = length.ok_or_else(|| damaged("it is shorter than its rows"))?;
        let (taken, rest) = self.rest.clone().split(length);
        self.rest = rest;
        Ok(taken)
    }
}

pub(super) fn damaged(what: &str) -> TantivyError {
    DataCorruption::comment_only(format!("the file of a segment's rows is damaged: {what}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_nearly_right_files() {
        let owned =
            |tenant: &str| Owned { tenant: tenant.to_owned(), document: DocumentId(Uuid::from_u128(7)) };
        let vector = || VectorToWrite {
            precision: Precision { scale: 0.5, lost: 0.1 },
            quantized: &[1, 2],
            exact: &[0, 0, 128, 63, 0, 0, 0, 0],
        };
        let row =
            |document, vector| RowToWrite { chunk: [9; ID_BYTES], document, is_code: document == 1, vector };
        let (mut with, mut without) = (Vec::new(), Vec::new());
        let rows = || [row(0, Some(vector())), row(1, None), row(1, Some(vector()))].into_iter();
        write(&mut with, 2, &[owned("local"), owned("\u{fc}")], rows).unwrap();
        write(&mut without, 0, &[owned("")], || [row(0, None)].into_iter()).unwrap();
        testing::fuzz(&[&with, &without], &["\u{1}\0\0\0", "\0\0\0\0", "\u{7f}"], |bytes| {
            let Ok(rows) = Cursor::new(OwnedBytes::new(bytes.to_vec())).rows() else { return };
            // Everything that a search looks at is there.
            for row in 0..rows.len() {
                let (_, _) = (rows.chunk(row), rows.is_code(row));
                assert!(rows.document(row) < rows.documents().len());
                rows.dot(row, &vec![1.0; rows.dimension()]);
            }
            assert_eq!(rows.quantized(0..rows.len()).len(), rows.len() * rows.dimension());
        });
    }
}
