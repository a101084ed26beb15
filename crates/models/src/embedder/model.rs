//! The forward pass of a BERT-like model over ragged batches: whole texts one after the other, without padding.
//! A text's vector is the same to the bit whatever else is in its batch.

use super::invalid::InvalidModel;
use super::kernels::{
    AttentionSpace, Finish, FullMatrix, Heads, Instructions, QuantizedMatrix, QuantizedRows, Rows,
};
use super::weights::{Architecture, Checkpoint, LayerWeights, Linear, Norm, Pooling, WordTable};

/// How exactly products are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// In 16 bits: practically lossless, and fast where the processor has the instructions.
    Quantized,
    /// In 32-bit floats.
    Full,
}

impl Precision {
    /// The one that is fast with these instructions.
    pub(crate) fn preferred(instructions: Instructions) -> Self {
        if instructions.prefer_quantized() { Self::Quantized } else { Self::Full }
    }
}

/// A model in memory. Shared by all threads; each brings its own workspace.
#[derive(Debug)]
pub(crate) struct Model {
    architecture: Architecture,
    instructions: Instructions,
    words: WordTable,
    positions: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Layer {
    queries: Product,
    keys_and_values: Product,
    attended: Product,
    attended_norm: Norm,
    widen: Product,
    narrow: Product,
    narrow_norm: Norm,
}

#[derive(Debug)]
enum Product {
    Quantized(QuantizedMatrix),
    Full(FullMatrix),
}

/// What a forward pass needs room for. Grows to the largest batch and is reused.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    hidden: Vec<f32>,
    queries: Vec<f32>,
    keys_and_values: Vec<f32>,
    attended: Vec<f32>,
    wide: Vec<f32>,
    quantized: QuantizedRows,
    attention: AttentionSpace,
}

impl Model {
    /// Reads a model for the instructions of this processor, in the precision that suits them.
    pub(crate) fn load(checkpoint: &mut dyn Checkpoint) -> Result<Self, InvalidModel> {
        let instructions = Instructions::detect();
        let precision = Precision::preferred(instructions);
        Self::load_as(checkpoint, instructions, precision)
    }

    pub(crate) fn load_as(
        checkpoint: &mut dyn Checkpoint,
        instructions: Instructions,
        precision: Precision,
    ) -> Result<Self, InvalidModel> {
        let architecture = checkpoint.architecture().clone();
        let words = checkpoint.words()?;
        let (positions, norm) = checkpoint.positions()?;
        let layers = (0..architecture.layers)
            .map(|index| Ok(Layer::pack(checkpoint.layer(index)?, precision)))
            .collect::<Result<_, _>>()?;
        Ok(Self { architecture, instructions, words, positions, norm, layers })
    }

    pub(crate) fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// One vector of length one a text. A text is its tokens, at least one and at most the token limit.
    pub(crate) fn embed(&self, texts: &[&[u32]], space: &mut Workspace) -> Vec<Vec<f32>> {
        self.look_up(texts, space);
        let mut lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        for (index, layer) in self.layers.iter().enumerate() {
            let last = index + 1 == self.layers.len();
            let only_first = last && self.architecture.pooling == Pooling::First;
            self.run(layer, &lengths, only_first, space);
            if only_first {
                lengths.fill(1);
            }
        }
        self.pool(&lengths, &space.hidden)
    }

    fn look_up(&self, texts: &[&[u32]], space: &mut Workspace) {
        let width = self.architecture.hidden;
        let tokens: usize = texts.iter().map(|text| text.len()).sum();
        space.hidden.resize(tokens * width, 0.0);
        let positions = &self.positions[self.architecture.position_offset * width..];
        let placed = texts.iter().flat_map(|text| text.iter().zip(positions.chunks_exact(width)));
        for (row, (token, position)) in space.hidden.chunks_exact_mut(width).zip(placed) {
            self.words.write(*token, row);
            row.iter_mut().zip(position).for_each(|(number, position)| *number += position);
        }
        self.normalize(&mut space.hidden, &self.norm);
    }

    /// One layer. With `only_first` the hidden rows become the first ones of each text: what follows attention
    /// looks at one token at a time, so nobody would look at the others.
    fn run(&self, layer: &Layer, lengths: &[usize], only_first: bool, space: &mut Workspace) {
        let Workspace { hidden, queries, keys_and_values, attended, wide, quantized, attention } = space;
        let mut apply = |product: &Product, rows: &[f32], finish, out: &mut Vec<f32>| {
            product.apply(self.instructions, rows, quantized, finish, out);
        };
        apply(&layer.keys_and_values, hidden, Finish::Store, keys_and_values);
        if only_first {
            keep_first(hidden, lengths, self.architecture.hidden);
        }
        apply(&layer.queries, hidden, Finish::Store, queries);
        self.attend(lengths, only_first, queries, keys_and_values, attention, attended);
        apply(&layer.attended, attended, Finish::Add, hidden);
        self.normalize(hidden, &layer.attended_norm);
        apply(&layer.widen, hidden, Finish::Gelu, wide);
        apply(&layer.narrow, wide, Finish::Add, hidden);
        self.normalize(hidden, &layer.narrow_norm);
    }

    fn attend(
        &self,
        lengths: &[usize],
        only_first: bool,
        queries: &[f32],
        keys_and_values: &[f32],
        space: &mut AttentionSpace,
        attended: &mut Vec<f32>,
    ) {
        let width = self.architecture.hidden;
        attended.resize(queries.len(), 0.0);
        let (mut queries, mut keys_and_values, mut out) = (queries, keys_and_values, attended.as_mut_slice());
        for length in lengths {
            let asking = if only_first { 1 } else { *length };
            let heads = Heads {
                queries: queries.split_off(..asking * width).expect("there is a row a query"),
                keys_and_values: keys_and_values
                    .split_off(..2 * length * width)
                    .expect("there is a row a token"),
                width,
                count: self.architecture.heads,
            };
            let out = out.split_off_mut(..asking * width).expect("there is a row a query");
            self.instructions.attend(heads, space, out);
        }
    }

    fn normalize(&self, rows: &mut [f32], norm: &Norm) {
        self.instructions.layer_norm(rows, &norm.gain, &norm.bias, self.architecture.epsilon);
    }

    fn pool(&self, lengths: &[usize], mut hidden: &[f32]) -> Vec<Vec<f32>> {
        let width = self.architecture.hidden;
        let pool = |length: &usize| {
            let rows = hidden.split_off(..length * width).expect("there is a row a token");
            let pooled = match self.architecture.pooling {
                Pooling::First => rows[..width].to_vec(),
                Pooling::Mean => sum_rows(rows, width),
            };
            unit(pooled)
        };
        lengths.iter().map(pool).collect()
    }
}

impl Layer {
    fn pack(weights: LayerWeights, precision: Precision) -> Self {
        let pack = |linear: Linear| Product::pack(&linear, precision);
        Self {
            queries: pack(weights.queries),
            keys_and_values: pack(weights.keys_and_values),
            attended: pack(weights.attended),
            attended_norm: weights.attended_norm,
            widen: pack(weights.widen),
            narrow: pack(weights.narrow),
            narrow_norm: weights.narrow_norm,
        }
    }
}

impl Product {
    fn pack(linear: &Linear, precision: Precision) -> Self {
        match precision {
            Precision::Quantized => Self::Quantized(QuantizedMatrix::pack(&linear.weights, &linear.bias)),
            Precision::Full => Self::Full(FullMatrix::pack(&linear.weights, &linear.bias)),
        }
    }

    fn apply(
        &self,
        instructions: Instructions,
        rows: &[f32],
        quantized: &mut QuantizedRows,
        finish: Finish,
        out: &mut Vec<f32>,
    ) {
        match self {
            Self::Quantized(matrix) => {
                let rows = Rows::new(rows, matrix.depth());
                out.resize(rows.count() * matrix.columns(), 0.0);
                instructions.quantize(rows, matrix, quantized);
                instructions.multiply_quantized(quantized, matrix, finish, out);
            }
            Self::Full(matrix) => {
                let rows = Rows::new(rows, matrix.depth());
                out.resize(rows.count() * matrix.columns(), 0.0);
                instructions.multiply_full(rows, matrix, finish, out);
            }
        }
    }
}

/// Keeps the first row of each text.
fn keep_first(hidden: &mut Vec<f32>, lengths: &[usize], width: usize) {
    let mut start = 0;
    for (text, length) in lengths.iter().enumerate() {
        hidden.copy_within(start * width..(start + 1) * width, text * width);
        start += length;
    }
    hidden.truncate(lengths.len() * width);
}

fn sum_rows(rows: &[f32], width: usize) -> Vec<f32> {
    let mut sums = vec![0.0; width];
    for row in rows.chunks_exact(width) {
        sums.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
    }
    sums
}

/// The vector brought to length one; a mean and a sum have the same direction.
fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
    #[expect(clippy::cast_possible_truncation, reason = "a factor of 32-bit floats")]
    let scale = (1.0 / length.max(f64::from(f32::MIN_POSITIVE))) as f32;
    vector.iter_mut().for_each(|number| *number *= scale);
    vector
}
