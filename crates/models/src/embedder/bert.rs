//! The forward pass of a BERT-like model over ragged batches: the tokens of all texts are consecutive rows,
//! without padding. A text's vector is bit-identical whatever else is in its batch.

use super::checkpoint::{Architecture, Checkpoint, LayerWeights, Linear, Norm, Pooling, TokenEmbeddings};
use super::invalid_model::InvalidModel;
use super::kernels::{
    AttentionBuffers, Epilogue, F32Matrix, Heads, Instructions, QuantizedMatrix, QuantizedRows, Rows,
};

/// The precision of matrix products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// 16-bit integers: practically lossless, and fast on processors with the instructions for it.
    Quantized,
    /// 32-bit floats.
    Full,
}

impl Precision {
    /// The fastest precision with these instructions.
    pub(crate) fn preferred(instructions: Instructions) -> Self {
        if instructions.prefer_quantized() { Self::Quantized } else { Self::Full }
    }
}

/// A model in memory. All threads share it; each has a workspace of its own.
#[derive(Debug)]
pub(crate) struct BertModel {
    architecture: Architecture,
    instructions: Instructions,
    token_embeddings: TokenEmbeddings,
    position_embeddings: Vec<f32>,
    embedding_norm: Norm,
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Layer {
    queries: PackedLinear,
    keys_and_values: PackedLinear,
    attention_output: PackedLinear,
    attention_norm: Norm,
    up: PackedLinear,
    down: PackedLinear,
    output_norm: Norm,
}

/// A matrix in the layout of its kernel.
#[derive(Debug)]
enum PackedLinear {
    Quantized(QuantizedMatrix),
    Full(F32Matrix),
}

/// Buffers of a forward pass. They grow to the largest batch and are reused.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    hidden: Vec<f32>,
    queries: Vec<f32>,
    keys_and_values: Vec<f32>,
    attention_output: Vec<f32>,
    intermediate: Vec<f32>,
    quantized: QuantizedRows,
    attention: AttentionBuffers,
}

impl BertModel {
    /// Loads a model for this processor, in its preferred precision.
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
        let token_embeddings = checkpoint.token_embeddings()?;
        let (position_embeddings, embedding_norm) = checkpoint.position_embeddings()?;
        let layers = (0..architecture.layers)
            .map(|index| Ok(Layer::pack(checkpoint.layer(index)?, precision)))
            .collect::<Result<_, _>>()?;
        Ok(Self { architecture, instructions, token_embeddings, position_embeddings, embedding_norm, layers })
    }

    pub(crate) fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// One vector of length one for each text. A text is given by its tokens: at least one, and at most the
    /// token limit.
    pub(crate) fn embed(&self, texts: &[&[u32]], workspace: &mut Workspace) -> Vec<Vec<f32>> {
        self.embed_tokens(texts, workspace);
        let mut lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        for (index, layer) in self.layers.iter().enumerate() {
            let last = index + 1 == self.layers.len();
            let only_first = last && self.architecture.pooling == Pooling::First;
            self.run_layer(layer, &lengths, only_first, workspace);
            if only_first {
                lengths.fill(1);
            }
        }
        self.pool(&lengths, &workspace.hidden)
    }

    fn embed_tokens(&self, texts: &[&[u32]], workspace: &mut Workspace) {
        let width = self.architecture.hidden;
        let tokens: usize = texts.iter().map(|text| text.len()).sum();
        let hidden = &mut workspace.hidden;
        hidden.resize(tokens * width, 0.0);
        let positions = &self.position_embeddings[self.architecture.position_offset * width..];
        let tokens = texts.iter().flat_map(|text| text.iter().zip(positions.chunks_exact(width)));
        for (row, (token, position)) in hidden.chunks_exact_mut(width).zip(tokens) {
            self.token_embeddings.write(*token, row);
            row.iter_mut().zip(position).for_each(|(number, position)| *number += position);
        }
        self.normalize(hidden, &self.embedding_norm);
    }

    /// Runs one layer. With `only_first` only the first row of each text is computed from attention on: the
    /// steps after attention treat each token by itself, and CLS pooling uses no other row of the last layer.
    fn run_layer(&self, layer: &Layer, lengths: &[usize], only_first: bool, workspace: &mut Workspace) {
        let Workspace {
            hidden,
            queries,
            keys_and_values,
            attention_output,
            intermediate,
            quantized,
            attention,
        } = workspace;
        let mut apply = |linear: &PackedLinear, rows: &[f32], epilogue, out: &mut Vec<f32>| {
            linear.apply(self.instructions, rows, quantized, epilogue, out);
        };
        apply(&layer.keys_and_values, hidden, Epilogue::Store, keys_and_values);
        if only_first {
            keep_first(hidden, lengths, self.architecture.hidden);
        }
        apply(&layer.queries, hidden, Epilogue::Store, queries);
        self.attend(lengths, only_first, queries, keys_and_values, attention, attention_output);
        apply(&layer.attention_output, attention_output, Epilogue::Add, hidden);
        self.normalize(hidden, &layer.attention_norm);
        apply(&layer.up, hidden, Epilogue::Gelu, intermediate);
        apply(&layer.down, intermediate, Epilogue::Add, hidden);
        self.normalize(hidden, &layer.output_norm);
    }

    fn attend(
        &self,
        lengths: &[usize],
        only_first: bool,
        queries: &[f32],
        keys_and_values: &[f32],
        buffers: &mut AttentionBuffers,
        output: &mut Vec<f32>,
    ) {
        let width = self.architecture.hidden;
        output.resize(queries.len(), 0.0);
        let (mut queries, mut keys_and_values, mut out) = (queries, keys_and_values, output.as_mut_slice());
        for length in lengths {
            let query_rows = if only_first { 1 } else { *length };
            let heads = Heads {
                queries: queries.split_off(..query_rows * width).expect("there is a row for each query"),
                keys_and_values: keys_and_values
                    .split_off(..2 * length * width)
                    .expect("there is a row for each token"),
                width,
                count: self.architecture.heads,
            };
            let out = out.split_off_mut(..query_rows * width).expect("there is a row for each query");
            self.instructions.attend(heads, buffers, out);
        }
    }

    fn normalize(&self, rows: &mut [f32], norm: &Norm) {
        self.instructions.layer_norm(rows, &norm.gain, &norm.bias, self.architecture.epsilon);
    }

    fn pool(&self, lengths: &[usize], mut hidden: &[f32]) -> Vec<Vec<f32>> {
        let width = self.architecture.hidden;
        let pool = |length: &usize| {
            let rows = hidden.split_off(..length * width).expect("there is a row for each token");
            let pooled = match self.architecture.pooling {
                Pooling::First => rows[..width].to_vec(),
                Pooling::Mean => sum_rows(rows, width),
            };
            normalized(pooled)
        };
        lengths.iter().map(pool).collect()
    }
}

impl Layer {
    fn pack(weights: LayerWeights, precision: Precision) -> Self {
        let pack = |linear: Linear| PackedLinear::pack(&linear, precision);
        Self {
            queries: pack(weights.queries),
            keys_and_values: pack(weights.keys_and_values),
            attention_output: pack(weights.attention_output),
            attention_norm: weights.attention_norm,
            up: pack(weights.up),
            down: pack(weights.down),
            output_norm: weights.output_norm,
        }
    }
}

impl PackedLinear {
    fn pack(linear: &Linear, precision: Precision) -> Self {
        match precision {
            Precision::Quantized => Self::Quantized(QuantizedMatrix::pack(&linear.weights, &linear.bias)),
            Precision::Full => Self::Full(F32Matrix::pack(&linear.weights, &linear.bias)),
        }
    }

    fn apply(
        &self,
        instructions: Instructions,
        rows: &[f32],
        quantized: &mut QuantizedRows,
        epilogue: Epilogue,
        out: &mut Vec<f32>,
    ) {
        match self {
            Self::Quantized(matrix) => {
                let rows = Rows::new(rows, matrix.depth());
                out.resize(rows.count() * matrix.columns(), 0.0);
                instructions.quantize(rows, matrix, quantized);
                instructions.multiply_quantized(quantized, matrix, epilogue, out);
            }
            Self::Full(matrix) => {
                let rows = Rows::new(rows, matrix.depth());
                out.resize(rows.count() * matrix.columns(), 0.0);
                instructions.multiply_f32(rows, matrix, epilogue, out);
            }
        }
    }
}

/// Moves the first row of each text to the front and drops the others.
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

/// The vector scaled to length one. A sum has the direction of the mean, so it needs no division before.
fn normalized(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
    #[expect(clippy::cast_possible_truncation, reason = "a factor of 32-bit floats")]
    let scale = (1.0 / length.max(f64::from(f32::MIN_POSITIVE))) as f32;
    vector.iter_mut().for_each(|number| *number *= scale);
    vector
}
