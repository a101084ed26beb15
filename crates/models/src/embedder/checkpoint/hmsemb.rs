//! Checkpoints in `.hmsemb` files: a magic number, the length of a JSON header, the header, a
//! `tokenizer.json`, and the tensors in the header's order. Integers are grouped; queries, keys and values
//! are one matrix.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

use super::tensor_file::{BoundedFile, Encoding, TensorEntry, TensorFile};
use super::{Architecture, Checkpoint, LayerWeights, Linear, Norm, Pooling, TokenEmbeddings, add_to_rows};
use crate::embedder::invalid_model::{InvalidModel, ModelProblem, UnsupportedModel};

const MAGIC: &[u8; 8] = b"HMSEMB01";

/// An open `.hmsemb` file.
pub(super) struct HmsembCheckpoint {
    architecture: Architecture,
    tensors: TensorFile,
    token_types: usize,
    tokenizer: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    meta: Meta,
    arch: Arch,
    tokenizer_len: u64,
    tensors: Vec<TensorHeader>,
}

#[derive(Deserialize)]
struct Meta {
    pooling: String,
    #[serde(default)]
    query_prefix: String,
    #[serde(default)]
    passage_prefix: String,
    max_length: usize,
}

#[derive(Deserialize)]
struct Arch {
    hidden: usize,
    layers: usize,
    heads: usize,
    intermediate: usize,
    vocab: usize,
    max_positions: usize,
    type_vocab: usize,
    layer_norm_eps: f32,
    position_offset: usize,
}

#[derive(Deserialize)]
struct TensorHeader {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    len: u64,
    #[serde(default)]
    group: usize,
}

impl HmsembCheckpoint {
    pub(super) fn open(path: &Path) -> Result<Self, InvalidModel> {
        let mut file = BoundedFile::open(path)?;
        let start = file.read(0..16, "the header's length")?;
        let (magic, length) = start.split_at(8);
        if magic != MAGIC {
            return Err(InvalidModel::new(path, ModelProblem::WrongMagic));
        }
        let length = u64::from_le_bytes(length.try_into().expect("half of sixteen bytes"));
        let header = file.read_description(16, length, "header")?;
        let header: Header = serde_json::from_slice(&header)
            .map_err(|error| InvalidModel::malformed(path, "header", error))?;
        let architecture = architecture(&header).map_err(|error| InvalidModel::new(path, error))?;
        let tokenizer = file.read_description(16 + length, header.tokenizer_len, "tokenizer")?;
        let entries = index(header.tensors, 16 + length + header.tokenizer_len)
            .map_err(|reason| InvalidModel::malformed(path, "header", reason))?;
        let token_types = header.arch.type_vocab;
        Ok(Self { architecture, tensors: TensorFile::new(file, entries), token_types, tokenizer })
    }

    fn linear(&mut self, name: &str, depth: usize, columns: usize) -> Result<Linear, InvalidModel> {
        let weights = self.tensors.read(&format!("{name}.w"), &[columns, depth])?;
        Ok(Linear { weights, bias: self.tensors.read(&format!("{name}.b"), &[columns])? })
    }

    fn norm(&mut self, name: &str) -> Result<Norm, InvalidModel> {
        let shape = [self.architecture.hidden];
        let gain = self.tensors.read(&format!("{name}.w"), &shape)?;
        Ok(Norm { gain, bias: self.tensors.read(&format!("{name}.b"), &shape)? })
    }
}

fn architecture(header: &Header) -> Result<Architecture, UnsupportedModel> {
    let (meta, arch) = (&header.meta, &header.arch);
    if !meta.query_prefix.is_empty() || !meta.passage_prefix.is_empty() {
        return Err(UnsupportedModel::Prefix);
    }
    let pooling = match meta.pooling.as_str() {
        "cls" => Pooling::First,
        "mean" => Pooling::Mean,
        other => return Err(UnsupportedModel::Pooling(other.to_owned())),
    };
    let architecture = Architecture {
        hidden: arch.hidden,
        layers: arch.layers,
        heads: arch.heads,
        intermediate: arch.intermediate,
        vocabulary: arch.vocab,
        positions: arch.max_positions,
        position_offset: arch.position_offset,
        token_limit: meta.max_length,
        epsilon: arch.layer_norm_eps,
        pooling,
    };
    architecture.check().map(|()| architecture)
}

/// The tensors' positions: one after the other from `start` on. Fails with a reason if the header is wrong.
fn index(tensors: Vec<TensorHeader>, mut start: u64) -> Result<HashMap<String, TensorEntry>, String> {
    let mut entries = HashMap::with_capacity(tensors.len());
    for TensorHeader { name, dtype, shape, len, group } in tensors {
        let encoding = match dtype.as_str() {
            "f32" => Encoding::F32,
            "i8" if group > 0 => Encoding::Int8 { group },
            _ => return Err(format!("tensor {name} is of the unknown type {dtype}")),
        };
        let end = start.checked_add(len).ok_or_else(|| format!("tensor {name} has no end"))?;
        entries.insert(name, TensorEntry { encoding, shape, bytes: start..end });
        start = end;
    }
    Ok(entries)
}

impl Checkpoint for HmsembCheckpoint {
    fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    fn token_embeddings(&mut self) -> Result<TokenEmbeddings, InvalidModel> {
        let shape = [self.architecture.vocabulary, self.architecture.hidden];
        TokenEmbeddings::read(&mut self.tensors, "word_emb", shape)
    }

    fn position_embeddings(&mut self) -> Result<(Vec<f32>, Norm), InvalidModel> {
        let hidden = self.architecture.hidden;
        let mut positions = self.tensors.read("pos_emb", &[self.architecture.positions, hidden])?;
        let types = self.tensors.read("type_emb", &[self.token_types, hidden])?;
        add_to_rows(&mut positions, &types, hidden);
        Ok((positions, self.norm("emb_ln")?))
    }

    fn layer(&mut self, index: usize) -> Result<LayerWeights, InvalidModel> {
        let (hidden, intermediate) = (self.architecture.hidden, self.architecture.intermediate);
        let mut queries = self.linear(&format!("l{index}.qkv"), hidden, 3 * hidden)?;
        let keys_and_values = Linear {
            weights: queries.weights.split_off(hidden * hidden),
            bias: queries.bias.split_off(hidden),
        };
        self.architecture.scale_queries(&mut queries);
        Ok(LayerWeights {
            queries,
            keys_and_values,
            attention_output: self.linear(&format!("l{index}.ao"), hidden, hidden)?,
            attention_norm: self.norm(&format!("l{index}.aln"))?,
            up: self.linear(&format!("l{index}.f1"), hidden, intermediate)?,
            down: self.linear(&format!("l{index}.f2"), intermediate, hidden)?,
            output_norm: self.norm(&format!("l{index}.fln"))?,
        })
    }

    fn tokenizer(&mut self) -> Result<Vec<u8>, InvalidModel> {
        Ok(std::mem::take(&mut self.tokenizer))
    }
}
