//! The token embeddings, the largest matrix of a small model, in quantized form.

use super::tensor_file::{Groups, TensorFile};
use crate::embedder::invalid_model::{InvalidModel, UnsupportedModel};

/// One vector for each token of the vocabulary, as integers with a scale for each group of them.
#[derive(Debug)]
pub(crate) struct TokenEmbeddings {
    width: usize,
    group: usize,
    scales: Vec<f32>,
    numbers: QuantizedNumbers,
}

#[derive(Debug)]
enum QuantizedNumbers {
    Int8(Vec<i8>),
    Int16(Vec<i16>),
}

impl TokenEmbeddings {
    /// Reads a tensor of groups as it is stored, and quantizes any other to 16 bits.
    pub(super) fn read(
        tensors: &mut TensorFile,
        name: &str,
        shape: [usize; 2],
    ) -> Result<Self, InvalidModel> {
        let width = shape[1];
        if !tensors.is_grouped(name) {
            return Ok(Self::quantize(&tensors.read(name, &shape)?, width));
        }
        let Groups { values, scales, group } = tensors.read_groups(name, &shape)?;
        if !width.is_multiple_of(group) {
            let unsupported = UnsupportedModel::Groups { name: name.to_owned(), group, width };
            return Err(InvalidModel::new(tensors.path(), unsupported));
        }
        Ok(Self { width, group, scales, numbers: QuantizedNumbers::Int8(values) })
    }

    fn quantize(table: &[f32], width: usize) -> Self {
        let mut scales = Vec::with_capacity(table.len() / width);
        let mut numbers = Vec::with_capacity(table.len());
        for row in table.chunks_exact(width) {
            let largest = row.iter().fold(f32::MIN_POSITIVE, |largest, number| largest.max(number.abs()));
            let scale = f32::from(i16::MAX) / largest;
            scales.push(largest / f32::from(i16::MAX));
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the largest number becomes the largest integer"
            )]
            numbers.extend(row.iter().map(|number| (number * scale).round() as i16));
        }
        Self { width, group: width, scales, numbers: QuantizedNumbers::Int16(numbers) }
    }

    /// Writes the vector of a token.
    pub(crate) fn write(&self, token: u32, out: &mut [f32]) {
        let start = token as usize * self.width;
        let scales = &self.scales[start / self.group..];
        for ((group, out), scale) in (0..).zip(out.chunks_exact_mut(self.group)).zip(scales) {
            let from = start + group * self.group;
            match &self.numbers {
                QuantizedNumbers::Int8(numbers) => dequantize(&numbers[from..], *scale, out),
                QuantizedNumbers::Int16(numbers) => dequantize(&numbers[from..], *scale, out),
            }
        }
    }
}

fn dequantize<N: Copy + Into<f32>>(numbers: &[N], scale: f32, out: &mut [f32]) {
    for (out, number) in out.iter_mut().zip(numbers) {
        *out = (*number).into() * scale;
    }
}
