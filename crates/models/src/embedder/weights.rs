//! What every file format is read into: the architecture of a BERT-like model, and its weights layer by layer.

use super::invalid::InvalidModel;
use super::tensors::{Groups, Tensors};

/// Reads a model's weights, whatever they are written in. Each is asked for once.
pub(crate) trait Checkpoint {
    /// What the model is like.
    fn architecture(&self) -> &Architecture;
    /// The vectors of all tokens.
    fn words(&mut self) -> Result<WordTable, InvalidModel>;
    /// The vectors of all positions, with the first token type's added, and the norm after them.
    fn positions(&mut self) -> Result<(Vec<f32>, Norm), InvalidModel>;
    /// One layer.
    fn layer(&mut self, index: usize) -> Result<LayerWeights, InvalidModel>;
    /// The tokenizer's description.
    fn tokenizer(&mut self) -> Result<Vec<u8>, InvalidModel>;
}

/// What a model is like.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Architecture {
    /// Numbers of a token.
    pub(crate) hidden: usize,
    /// Layers.
    pub(crate) layers: usize,
    /// Attention heads, which share the numbers of a token.
    pub(crate) heads: usize,
    /// Numbers of a token between the two feed-forward products.
    pub(crate) intermediate: usize,
    /// Tokens that have a vector.
    pub(crate) vocabulary: usize,
    /// Positions that have a vector.
    pub(crate) positions: usize,
    /// The position of the first token.
    pub(crate) position_offset: usize,
    /// Tokens of a text that count.
    pub(crate) token_limit: usize,
    /// What keeps a norm from dividing by zero.
    pub(crate) epsilon: f32,
    /// How the tokens' vectors become one.
    pub(crate) pooling: Pooling,
}

/// How the vectors of a text's tokens become the text's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// The first token's is the text's.
    First,
    /// Their mean.
    Mean,
}

/// A product and what is added to it; column by column.
pub(crate) struct Linear {
    pub(crate) weights: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

/// What follows a norm.
#[derive(Debug)]
pub(crate) struct Norm {
    pub(crate) gain: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

/// The weights of one layer. The queries come with 1/√(head size) in them.
pub(crate) struct LayerWeights {
    pub(crate) queries: Linear,
    pub(crate) keys_and_values: Linear,
    pub(crate) attended: Linear,
    pub(crate) attended_norm: Norm,
    pub(crate) widen: Linear,
    pub(crate) narrow: Linear,
    pub(crate) narrow_norm: Norm,
}

impl Architecture {
    /// Largest size of anything in a model, so that products of sizes cannot overflow.
    const MAX_SIZE: usize = 1 << 20;

    /// Whether its sizes fit each other; if not, why.
    pub(crate) fn check(&self) -> Result<(), String> {
        let sizes =
            [self.hidden, self.layers, self.heads, self.intermediate, self.vocabulary, self.positions];
        if sizes.iter().any(|size| *size == 0 || *size > Self::MAX_SIZE) {
            return Err(format!("sizes are from 1 to {}, these are {sizes:?}", Self::MAX_SIZE));
        }
        if !self.hidden.is_multiple_of(self.heads) {
            return Err(format!("{} heads cannot share {} numbers", self.heads, self.hidden));
        }
        if self.token_limit < 2 || self.token_limit + self.position_offset > self.positions {
            let (limit, offset) = (self.token_limit, self.position_offset);
            return Err(format!(
                "{limit} tokens from position {offset} on need {} positions",
                limit + offset
            ));
        }
        if !(self.epsilon > 0.0 && self.epsilon < 1.0) {
            return Err(format!("a norm's epsilon is between 0 and 1, this is {}", self.epsilon));
        }
        Ok(())
    }

    /// Puts 1/√(head size) into the queries' product.
    pub(crate) fn scale_queries(&self, queries: &mut Linear) {
        let scale = 1.0 / ((self.hidden / self.heads) as f32).sqrt();
        queries.weights.iter_mut().chain(&mut queries.bias).for_each(|number| *number *= scale);
    }
}

/// Adds the first row of `others` to every row; nothing if there is none.
pub(crate) fn add_to_rows(rows: &mut [f32], others: &[f32], width: usize) {
    for row in rows.chunks_exact_mut(width) {
        row.iter_mut().zip(others).for_each(|(number, other)| *number += other);
    }
}

/// The vectors of all tokens, small: whole numbers that share a scale group by group.
#[derive(Debug)]
pub(crate) struct WordTable {
    width: usize,
    group: usize,
    scales: Vec<f32>,
    numbers: Numbers,
}

#[derive(Debug)]
enum Numbers {
    Int8(Vec<i8>),
    Int16(Vec<i16>),
}

impl WordTable {
    /// Reads the table as it is written if that is small, else rounds it to 16 bits.
    pub(crate) fn read(tensors: &mut Tensors, name: &str, shape: [usize; 2]) -> Result<Self, InvalidModel> {
        let width = shape[1];
        if !tensors.is_grouped(name) {
            return Ok(Self::round(&tensors.read(name, &shape)?, width));
        }
        let Groups { values, scales, group } = tensors.read_groups(name, &shape)?;
        if !width.is_multiple_of(group) {
            let reason = format!("{name} has groups of {group} that do not divide its width {width}");
            return Err(InvalidModel::unsupported(tensors.path(), reason));
        }
        Ok(Self { width, group, scales, numbers: Numbers::Int8(values) })
    }

    fn round(table: &[f32], width: usize) -> Self {
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
        Self { width, group: width, scales, numbers: Numbers::Int16(numbers) }
    }

    /// Writes the vector of a token.
    pub(crate) fn write(&self, token: u32, out: &mut [f32]) {
        let start = token as usize * self.width;
        let scales = &self.scales[start / self.group..];
        for ((group, out), scale) in (0..).zip(out.chunks_exact_mut(self.group)).zip(scales) {
            let from = start + group * self.group;
            match &self.numbers {
                Numbers::Int8(numbers) => dequantize(&numbers[from..], *scale, out),
                Numbers::Int16(numbers) => dequantize(&numbers[from..], *scale, out),
            }
        }
    }
}

fn dequantize<N: Copy + Into<f32>>(numbers: &[N], scale: f32, out: &mut [f32]) {
    for (out, number) in out.iter_mut().zip(numbers) {
        *out = (*number).into() * scale;
    }
}
