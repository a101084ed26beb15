//! Checkpoints in the folder of a sentence-transformers model, BERT or RoBERTa: `model.safetensors`,
//! `config.json`, `tokenizer.json` and the config of its pooling. Only absolute positions and the exact GELU
//! are supported.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::tensor_file::{BoundedFile, TensorFile};
use super::{
    Architecture, Checkpoint, LayerWeights, Linear, Norm, Pooling, TokenEmbeddings, add_to_rows, safetensors,
};
use crate::embedder::invalid_model::{InvalidModel, UnsupportedModel};

/// An open folder.
pub(super) struct FolderCheckpoint {
    path: PathBuf,
    architecture: Architecture,
    token_types: usize,
    tensors: TensorFile,
    /// Prefix of all tensor names, which some models have.
    prefix: &'static str,
}

#[derive(Deserialize)]
struct ModelConfig {
    model_type: String,
    hidden_act: String,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    layer_norm_eps: f32,
    #[serde(default)]
    pad_token_id: usize,
    #[serde(default)]
    position_embedding_type: Option<String>,
}

#[derive(Deserialize)]
struct PoolingConfig {
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
}

#[derive(Deserialize)]
struct SentenceConfig {
    max_seq_length: Option<usize>,
}

impl FolderCheckpoint {
    pub(super) fn open(path: &Path) -> Result<Self, InvalidModel> {
        let config_path = path.join("config.json");
        let config: ModelConfig = read_json(&config_path, "description")?;
        let pooling = pooling(&path.join("1_Pooling").join("config.json"))?;
        let limit = token_limit(&path.join("sentence_bert_config.json"))?;
        let architecture =
            architecture(&config, pooling, limit).map_err(|error| InvalidModel::new(&config_path, error))?;
        let tensors = safetensors::open(&path.join("model.safetensors"))?;
        let prefix = ["", "bert.", "roberta."]
            .into_iter()
            .find(|prefix| tensors.contains(&format!("{prefix}embeddings.word_embeddings.weight")))
            .unwrap_or_default();
        Ok(Self { path: path.to_owned(), architecture, token_types: config.type_vocab_size, tensors, prefix })
    }

    fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, InvalidModel> {
        self.tensors.read(&format!("{}{name}", self.prefix), shape)
    }

    fn linear(&mut self, name: &str, depth: usize, columns: usize) -> Result<Linear, InvalidModel> {
        let weights = self.read(&format!("{name}.weight"), &[columns, depth])?;
        Ok(Linear { weights, bias: self.read(&format!("{name}.bias"), &[columns])? })
    }

    fn norm(&mut self, name: &str) -> Result<Norm, InvalidModel> {
        let shape = [self.architecture.hidden];
        let gain = self.read(&format!("{name}.LayerNorm.weight"), &shape)?;
        Ok(Norm { gain, bias: self.read(&format!("{name}.LayerNorm.bias"), &shape)? })
    }
}

fn architecture(
    config: &ModelConfig,
    pooling: Pooling,
    limit: Option<usize>,
) -> Result<Architecture, UnsupportedModel> {
    // RoBERTa's positions start behind the id of its padding token.
    let position_offset = match config.model_type.as_str() {
        "bert" => 0,
        "roberta" | "xlm-roberta" => config.pad_token_id + 1,
        other => return Err(UnsupportedModel::ModelType(other.to_owned())),
    };
    if config.hidden_act != "gelu" {
        return Err(UnsupportedModel::Activation(config.hidden_act.clone()));
    }
    if config.position_embedding_type.as_deref().is_some_and(|kind| kind != "absolute") {
        return Err(UnsupportedModel::RelativePositions);
    }
    let positions = config.max_position_embeddings;
    let max_tokens = positions.saturating_sub(position_offset);
    let architecture = Architecture {
        hidden: config.hidden_size,
        layers: config.num_hidden_layers,
        heads: config.num_attention_heads,
        intermediate: config.intermediate_size,
        vocabulary: config.vocab_size,
        positions,
        position_offset,
        token_limit: limit.map_or(max_tokens, |limit| limit.min(max_tokens)),
        epsilon: config.layer_norm_eps,
        pooling,
    };
    architecture.check().map(|()| architecture)
}

fn pooling(path: &Path) -> Result<Pooling, InvalidModel> {
    let PoolingConfig { pooling_mode_cls_token, pooling_mode_mean_tokens } = read_json(path, "description")?;
    match (pooling_mode_cls_token, pooling_mode_mean_tokens) {
        (true, false) => Ok(Pooling::First),
        (false, true) => Ok(Pooling::Mean),
        _ => Err(InvalidModel::new(path, UnsupportedModel::CombinedPooling)),
    }
}

/// The token limit that the model was trained for, if it is given.
fn token_limit(path: &Path) -> Result<Option<usize>, InvalidModel> {
    if !path.exists() {
        return Ok(None);
    }
    Ok(read_json::<SentenceConfig>(path, "description")?.max_seq_length)
}

fn read_json<T: DeserializeOwned>(path: &Path, part: &'static str) -> Result<T, InvalidModel> {
    serde_json::from_slice(&read_file(path, part)?)
        .map_err(|error| InvalidModel::malformed(path, part, error))
}

fn read_file(path: &Path, part: &'static str) -> Result<Vec<u8>, InvalidModel> {
    let mut file = BoundedFile::open(path)?;
    let length = file.length();
    file.read_description(0, length, part)
}

impl Checkpoint for FolderCheckpoint {
    fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    fn token_embeddings(&mut self) -> Result<TokenEmbeddings, InvalidModel> {
        let shape = [self.architecture.vocabulary, self.architecture.hidden];
        TokenEmbeddings::read(
            &mut self.tensors,
            &format!("{}embeddings.word_embeddings.weight", self.prefix),
            shape,
        )
    }

    fn position_embeddings(&mut self) -> Result<(Vec<f32>, Norm), InvalidModel> {
        let hidden = self.architecture.hidden;
        let shape = [self.architecture.positions, hidden];
        let mut positions = self.read("embeddings.position_embeddings.weight", &shape)?;
        let types = self.read("embeddings.token_type_embeddings.weight", &[self.token_types, hidden])?;
        add_to_rows(&mut positions, &types, hidden);
        Ok((positions, self.norm("embeddings")?))
    }

    fn layer(&mut self, index: usize) -> Result<LayerWeights, InvalidModel> {
        let (hidden, intermediate) = (self.architecture.hidden, self.architecture.intermediate);
        let layer = format!("encoder.layer.{index}");
        let mut queries = self.linear(&format!("{layer}.attention.self.query"), hidden, hidden)?;
        self.architecture.scale_queries(&mut queries);
        let mut keys_and_values = self.linear(&format!("{layer}.attention.self.key"), hidden, hidden)?;
        let values = self.linear(&format!("{layer}.attention.self.value"), hidden, hidden)?;
        keys_and_values.weights.extend(values.weights);
        keys_and_values.bias.extend(values.bias);
        Ok(LayerWeights {
            queries,
            keys_and_values,
            attention_output: self.linear(&format!("{layer}.attention.output.dense"), hidden, hidden)?,
            attention_norm: self.norm(&format!("{layer}.attention.output"))?,
            up: self.linear(&format!("{layer}.intermediate.dense"), hidden, intermediate)?,
            down: self.linear(&format!("{layer}.output.dense"), intermediate, hidden)?,
            output_norm: self.norm(&format!("{layer}.output"))?,
        })
    }

    fn tokenizer(&mut self) -> Result<Vec<u8>, InvalidModel> {
        read_file(&self.path.join("tokenizer.json"), "tokenizer")
    }
}
