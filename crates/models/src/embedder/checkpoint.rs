//! Checkpoints: the architecture of a BERT-like model and its weights, read layer by layer from either of two
//! file formats, a sentence-transformers folder or an `.hmsemb` file. Every size is checked against the file
//! before memory is allocated.

mod architecture;
mod hmsemb;
mod safetensors;
mod sentence_transformers;
mod tensor_file;
mod token_embeddings;

use std::path::Path;

use super::invalid_model::InvalidModel;
pub(crate) use architecture::{Architecture, Pooling};
use hmsemb::HmsembCheckpoint;
use sentence_transformers::FolderCheckpoint;
pub(crate) use token_embeddings::TokenEmbeddings;

/// A model's weights in a file format. Each part is read once, so that the model is never in memory twice.
pub(crate) trait Checkpoint {
    fn architecture(&self) -> &Architecture;
    fn token_embeddings(&mut self) -> Result<TokenEmbeddings, InvalidModel>;
    /// The position embeddings with the embedding of the first token type added, and the norm that follows.
    fn position_embeddings(&mut self) -> Result<(Vec<f32>, Norm), InvalidModel>;
    fn layer(&mut self, index: usize) -> Result<LayerWeights, InvalidModel>;
    /// The content of `tokenizer.json`.
    fn tokenizer(&mut self) -> Result<Vec<u8>, InvalidModel>;
}

/// Opens the folder of a sentence-transformers model, or an `.hmsemb` file.
pub(crate) fn open_checkpoint(path: &Path) -> Result<Box<dyn Checkpoint>, InvalidModel> {
    if path.is_dir() {
        return Ok(Box::new(FolderCheckpoint::open(path)?));
    }
    Ok(Box::new(HmsembCheckpoint::open(path)?))
}

/// A matrix, column by column, and its bias.
pub(crate) struct Linear {
    pub(crate) weights: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

/// The parameters of a layer norm.
#[derive(Debug)]
pub(crate) struct Norm {
    pub(crate) gain: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

/// The weights of one layer. The queries are already scaled by 1/√(head size).
pub(crate) struct LayerWeights {
    pub(crate) queries: Linear,
    pub(crate) keys_and_values: Linear,
    pub(crate) attention_output: Linear,
    pub(crate) attention_norm: Norm,
    /// The first feed-forward product, to the intermediate size.
    pub(crate) up: Linear,
    /// The second one, back to the hidden size.
    pub(crate) down: Linear,
    pub(crate) output_norm: Norm,
}

/// Adds the first row of `others` to every row of `rows`; nothing if `others` is empty.
fn add_to_rows(rows: &mut [f32], others: &[f32], width: usize) {
    for row in rows.chunks_exact_mut(width) {
        row.iter_mut().zip(others).for_each(|(number, other)| *number += other);
    }
}
