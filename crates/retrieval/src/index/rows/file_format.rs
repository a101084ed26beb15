//! The file of a segment's rows, column by column, with little-endian numbers:
//!
//! * number of rows, dimension of the vectors, number of documents;
//! * each document: length of the tenant's name, the name, the document's id;
//! * columns of all rows: chunk id, number of its document, whether it is code;
//! * with vectors, columns of all rows: scale and rounding error, quantized vector, exact vector. A row
//!   without a vector has zeros.

use std::io::{self, Write};

use domain::DocumentId;
use tantivy::TantivyError;
use tantivy::directory::OwnedBytes;
use tantivy::error::DataCorruption;
use uuid::Uuid;

use super::{SegmentRows, TenantDocument};
use crate::index::quantization::Quantization;

pub(super) const EXTENSION: &str = "rows";
pub(super) const ID_BYTES: usize = 16;
pub(super) const F32_BYTES: usize = 4;

/// A row to write.
pub(super) struct EncodedRow<'a> {
    pub(super) chunk: [u8; ID_BYTES],
    pub(super) document_number: u32,
    pub(super) is_code: bool,
    pub(super) vector: Option<EncodedVector<'a>>,
}

/// A vector to write.
pub(super) struct EncodedVector<'a> {
    pub(super) quantization: Quantization,
    pub(super) quantized: &'a [u8],
    pub(super) exact: &'a [u8],
}

/// Writes the file. `rows` is iterated once for each column, so that the rows need not be in memory.
pub(super) fn write<'a, I: Iterator<Item = EncodedRow<'a>>>(
    out: &mut impl Write,
    dimension: usize,
    documents: &[TenantDocument],
    rows: impl Fn() -> I,
) -> io::Result<()> {
    write_count(out, rows().count())?;
    write_count(out, dimension)?;
    write_count(out, documents.len())?;
    for TenantDocument { tenant, document } in documents {
        write_count(out, tenant.len())?;
        out.write_all(tenant.as_bytes())?;
        out.write_all(document.0.as_bytes())?;
    }
    for row in rows() {
        out.write_all(&row.chunk)?;
    }
    for row in rows() {
        out.write_all(&row.document_number.to_le_bytes())?;
    }
    for row in rows() {
        out.write_all(&[u8::from(row.is_code)])?;
    }
    if dimension == 0 {
        return Ok(());
    }
    let zeros = vec![0; dimension * F32_BYTES];
    for row in rows() {
        let Quantization { scale, rounding_error } =
            row.vector.map_or(Quantization::default(), |vector| vector.quantization);
        out.write_all(&scale.to_le_bytes())?;
        out.write_all(&rounding_error.to_le_bytes())?;
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

/// Parses the file from front to back. Lengths are checked, so any bytes give rows or an error.
pub(super) struct RowsParser {
    rest: OwnedBytes,
}

impl RowsParser {
    pub(super) fn new(file: OwnedBytes) -> Self {
        Self { rest: file }
    }

    pub(super) fn parse(mut self) -> tantivy::Result<SegmentRows> {
        let count = self.count()?;
        let dimension = self.count()?;
        let documents = self.documents()?;
        let chunks = self.take(count, ID_BYTES)?;
        let document_numbers = self.column(count, u32::from_le_bytes)?;
        let code = self.take(count, 1)?;
        if document_numbers.iter().any(|&number| number as usize >= documents.len()) {
            return Err(damaged("a row refers to a document that is not listed"));
        }
        let vectors = if dimension == 0 { 0 } else { count };
        let quantizations = self.column(vectors, |[a, b, c, d, e, f, g, h]| Quantization {
            scale: f32::from_le_bytes([a, b, c, d]),
            rounding_error: f32::from_le_bytes([e, f, g, h]),
        })?;
        let quantized = self.take(vectors, dimension)?;
        let exact = self.take(vectors, dimension * F32_BYTES)?;
        if !self.rest.is_empty() {
            return Err(damaged("it is longer than its rows"));
        }
        Ok(SegmentRows {
            documents,
            document_numbers,
            chunks,
            code,
            quantizations,
            dimension,
            quantized,
            exact,
        })
    }

    fn documents(&mut self) -> tantivy::Result<Vec<TenantDocument>> {
        let count = self.count()?;
        let mut documents = Vec::new();
        for _ in 0..count {
            let length = self.count()?;
            let tenant = self.take(1, length)?;
            let tenant = std::str::from_utf8(&tenant).map_err(|_| damaged("a tenant's name is not UTF-8"))?;
            let id = self.take(1, ID_BYTES)?;
            let document = DocumentId(Uuid::from_slice(&id).map_err(|_| damaged("an id is too short"))?);
            documents.push(TenantDocument { tenant: tenant.to_owned(), document });
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

pub(super) fn damaged(reason: &str) -> TantivyError {
    DataCorruption::comment_only(format!("the file of a segment's rows is damaged: {reason}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_nearly_right_files() {
        let of_tenant = |tenant: &str| TenantDocument {
            tenant: tenant.to_owned(),
            document: DocumentId(Uuid::from_u128(7)),
        };
        let vector = || EncodedVector {
            quantization: Quantization { scale: 0.5, rounding_error: 0.1 },
            quantized: &[1, 2],
            exact: &[0, 0, 128, 63, 0, 0, 0, 0],
        };
        let row = |document_number, vector| EncodedRow {
            chunk: [9; ID_BYTES],
            document_number,
            is_code: document_number == 1,
            vector,
        };
        let (mut with, mut without) = (Vec::new(), Vec::new());
        let rows = || [row(0, Some(vector())), row(1, None), row(1, Some(vector()))].into_iter();
        write(&mut with, 2, &[of_tenant("local"), of_tenant("\u{fc}")], rows).unwrap();
        write(&mut without, 0, &[of_tenant("")], || [row(0, None)].into_iter()).unwrap();
        testing::fuzz(&[&with, &without], &["\u{1}\0\0\0", "\0\0\0\0", "\u{7f}"], |bytes| {
            let Ok(rows) = RowsParser::new(OwnedBytes::new(bytes.to_vec())).parse() else { return };
            // Everything that a search reads is within bounds.
            for row in 0..rows.len() {
                let (_, _) = (rows.chunk(row), rows.is_code(row));
                assert!(rows.document_number(row) < rows.documents().len());
                rows.dot_product(row, &vec![1.0; rows.dimension()]);
            }
            assert_eq!(rows.quantized(0..rows.len()).len(), rows.len() * rows.dimension());
        });
    }
}
