use std::fs;

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::*;
use crate::embedder::bert::{BertModel, Workspace};
use crate::embedder::invalid_model::ModelProblem;

/// A folder with a model of one layer, two heads and hidden dimension 4, which a test may change.
struct SmallModel {
    folder: TempDir,
    config: Value,
    pooling: Value,
    prefix: &'static str,
    encode: fn(f32) -> Vec<u8>,
    dtype: &'static str,
}

impl SmallModel {
    fn new() -> Self {
        let config = json!({
            "model_type": "bert", "hidden_act": "gelu", "hidden_size": 4, "num_hidden_layers": 1,
            "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 5, "max_position_embeddings": 6,
            "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 1,
        });
        Self {
            folder: tempfile::tempdir().unwrap(),
            config,
            pooling: json!({"pooling_mode_mean_tokens": true}),
            prefix: "",
            encode: |number| number.to_le_bytes().to_vec(),
            dtype: "F32",
        }
    }

    fn write(&self) {
        let path = self.folder.path();
        fs::create_dir_all(path.join("1_Pooling")).unwrap();
        fs::write(path.join("config.json"), self.config.to_string()).unwrap();
        fs::write(path.join("1_Pooling/config.json"), self.pooling.to_string()).unwrap();
        fs::write(path.join("model.safetensors"), self.weights()).unwrap();
    }

    fn weights(&self) -> Vec<u8> {
        let layer = |name: &str| format!("encoder.layer.0.{name}");
        let mut shapes = vec![
            ("embeddings.word_embeddings.weight".to_owned(), vec![5, 4]),
            ("embeddings.position_embeddings.weight".to_owned(), vec![6, 4]),
            ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, 4]),
        ];
        let linear = [
            ("attention.self.query", 4, 4),
            ("attention.self.key", 4, 4),
            ("attention.self.value", 4, 4),
            ("attention.output.dense", 4, 4),
            ("intermediate.dense", 8, 4),
            ("output.dense", 4, 8),
        ];
        for (name, columns, depth) in linear {
            shapes.push((layer(&format!("{name}.weight")), vec![columns, depth]));
            shapes.push((layer(&format!("{name}.bias")), vec![columns]));
        }
        for norm in ["embeddings".to_owned(), layer("attention.output"), layer("output")] {
            shapes.push((format!("{norm}.LayerNorm.weight"), vec![4]));
            shapes.push((format!("{norm}.LayerNorm.bias"), vec![4]));
        }
        let (mut header, mut tensors) = (Map::new(), Vec::new());
        header.insert("__metadata__".to_owned(), json!({"format": "pt"}));
        header.insert("unused".to_owned(), json!({"dtype": "I64", "shape": [0], "data_offsets": [0, 0]}));
        for (name, shape) in shapes {
            let start = tensors.len();
            let numbers = (0..shape.iter().product()).map(|place: usize| (place % 7) as f32 / 4.0 - 0.5);
            numbers.for_each(|number| tensors.extend((self.encode)(number)));
            let entry = json!({"dtype": self.dtype, "shape": shape, "data_offsets": [start, tensors.len()]});
            header.insert(format!("{}{name}", self.prefix), entry);
        }
        let header = serde_json::to_vec(&header).unwrap();
        [&(header.len() as u64).to_le_bytes()[..], &header, &tensors].concat()
    }

    fn load(&self) -> Result<BertModel, InvalidModel> {
        BertModel::load(&mut FolderCheckpoint::open(self.folder.path())?)
    }

    fn vectors(&self) -> Vec<Vec<f32>> {
        self.write();
        self.load().unwrap().embed(&[&[0, 1, 2], &[4]], &mut Workspace::default())
    }
}

#[test]
fn a_small_model_is_loaded_in_every_number_format_and_with_a_name_prefix() {
    let expected = SmallModel::new().vectors();
    // 16 bits represent these numbers exactly.
    let upper_half = |number: f32| number.to_le_bytes()[2..].to_vec();
    let half = |number: f32| {
        let bits = number.to_bits();
        let exponent = (bits >> 23 & 0xff).saturating_sub(112) << 10;
        let half = bits >> 16 & 0x8000 | exponent | bits >> 13 & 0x3ff;
        u16::try_from(if number == 0.0 { 0 } else { half }).unwrap().to_le_bytes().to_vec()
    };
    assert_eq!(SmallModel { encode: upper_half, dtype: "BF16", ..SmallModel::new() }.vectors(), expected);
    assert_eq!(SmallModel { encode: half, dtype: "F16", ..SmallModel::new() }.vectors(), expected);
    assert_eq!(SmallModel { prefix: "bert.", ..SmallModel::new() }.vectors(), expected);
}

#[test]
fn roberta_positions_start_behind_the_padding_id_and_pooling_changes_vectors() {
    let expected = SmallModel::new().vectors();
    let mut roberta = SmallModel::new();
    roberta.config["model_type"] = json!("roberta");
    assert_ne!(roberta.vectors(), expected);
    assert_eq!(FolderCheckpoint::open(roberta.folder.path()).unwrap().architecture().token_limit, 4);
    let first =
        SmallModel { pooling: json!({"pooling_mode_cls_token": true}), ..SmallModel::new() }.vectors();
    assert_ne!(first[0], expected[0]);
    assert_eq!(first[1], expected[1], "a text of one token is its own mean");
}

#[test]
fn the_token_limit_is_the_smaller_of_the_two_configured() {
    let small = SmallModel::new();
    small.write();
    for (limit, expected) in [(3, 3), (600, 6)] {
        let config = json!({ "max_seq_length": limit }).to_string();
        fs::write(small.folder.path().join("sentence_bert_config.json"), config).unwrap();
        assert_eq!(FolderCheckpoint::open(small.folder.path()).unwrap().architecture().token_limit, expected);
    }
}

#[test]
fn a_missing_file_is_named() {
    for name in ["config.json", "1_Pooling/config.json", "model.safetensors"] {
        let small = SmallModel::new();
        small.write();
        fs::remove_file(small.folder.path().join(name)).unwrap();
        let invalid = small.load().unwrap_err();
        assert!(matches!(invalid.problem, ModelProblem::Unreadable(_)), "{invalid}");
        assert!(invalid.to_string().contains(name), "{invalid}");
    }
}

#[test]
fn weights_truncated_at_any_byte_are_rejected() {
    let small = SmallModel::new();
    small.write();
    let bytes = small.weights();
    for length in 0..bytes.len() {
        fs::write(small.folder.path().join("model.safetensors"), &bytes[..length]).unwrap();
        let invalid = small.load().unwrap_err();
        assert!(matches!(invalid.problem, ModelProblem::Truncated { .. }), "{length}: {invalid}");
    }
}

#[test]
fn an_unsupported_model_is_rejected() {
    let wrong = [
        ("model_type", json!("t5")),
        ("hidden_act", json!("relu")),
        ("position_embedding_type", json!("relative_key")),
        ("num_attention_heads", json!(3)),
        ("max_position_embeddings", json!(1)),
    ];
    for (name, value) in wrong {
        let mut small = SmallModel::new();
        small.config[name] = value;
        small.write();
        let invalid = small.load().unwrap_err();
        assert!(matches!(invalid.problem, ModelProblem::Unsupported(_)), "{invalid}");
    }
    let small = SmallModel { pooling: json!({"pooling_mode_max_tokens": true}), ..SmallModel::new() };
    small.write();
    assert!(matches!(small.load().unwrap_err().problem, ModelProblem::Unsupported(_)));
}

#[test]
fn a_tensor_of_another_shape_is_rejected() {
    let mut small = SmallModel::new();
    small.config["intermediate_size"] = json!(16);
    small.write();
    assert!(matches!(small.load().unwrap_err().problem, ModelProblem::TensorShape { .. }));
}

#[test]
fn fuzz_nearly_right_weights() {
    let small = SmallModel::new();
    small.write();
    let whole = small.weights();
    let words = [
        "\"F32\"",
        "\"BF16\"",
        "\"data_offsets\":[",
        "null",
        "-1",
        "[]",
        "{}",
        "18446744073709551615",
        "\0\0\0\0",
    ];
    testing::fuzz(&[&whole], &words, |weights| {
        fs::write(small.folder.path().join("model.safetensors"), weights).unwrap();
        match small.load() {
            Ok(model) => assert_eq!(model.embed(&[&[0, 1, 2]], &mut Workspace::default()).len(), 1),
            Err(invalid) => assert!(!invalid.to_string().is_empty()),
        }
    });
}

#[test]
fn fuzz_nearly_right_descriptions() {
    let small = SmallModel::new();
    small.write();
    let (config, pooling) = (small.config.to_string(), small.pooling.to_string());
    let words =
        ["null", "-1", "0", "1e9", "[]", "{}", "\"roberta\"", "18446744073709551615", "true", "\"relu\""];
    testing::fuzz(&[config.as_bytes(), pooling.as_bytes()], &words, |description| {
        for (file, right) in [("config.json", &config), ("1_Pooling/config.json", &pooling)] {
            fs::write(small.folder.path().join(file), description).unwrap();
            match small.load() {
                Ok(model) => assert_eq!(model.embed(&[&[0, 1, 2]], &mut Workspace::default()).len(), 1),
                Err(invalid) => assert!(!invalid.to_string().is_empty()),
            }
            fs::write(small.folder.path().join(file), right).unwrap();
        }
    });
}
