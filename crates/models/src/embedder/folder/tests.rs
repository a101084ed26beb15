use std::fs;

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::super::invalid::Problem;
use super::super::model::{Model, Workspace};
use super::*;

/// A folder with a model of one layer, two heads and four numbers a token; a test may change it.
struct Small {
    folder: TempDir,
    config: Value,
    pooling: Value,
    prefix: &'static str,
    encode: fn(f32) -> Vec<u8>,
    dtype: &'static str,
}

impl Small {
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

    fn load(&self) -> Result<Model, InvalidModel> {
        Model::load(&mut Folder::open(self.folder.path())?)
    }

    fn vectors(&self) -> Vec<Vec<f32>> {
        self.write();
        self.load().unwrap().embed(&[&[0, 1, 2], &[4]], &mut Workspace::default())
    }
}

#[test]
fn a_small_model_is_read_whatever_its_numbers_and_names_are_written_in() {
    let expected = Small::new().vectors();
    // The numbers are those that 16 bits hold exactly.
    let upper_half = |number: f32| number.to_le_bytes()[2..].to_vec();
    let half = |number: f32| {
        let bits = number.to_bits();
        let exponent = (bits >> 23 & 0xff).saturating_sub(112) << 10;
        let half = bits >> 16 & 0x8000 | exponent | bits >> 13 & 0x3ff;
        u16::try_from(if number == 0.0 { 0 } else { half }).unwrap().to_le_bytes().to_vec()
    };
    assert_eq!(Small { encode: upper_half, dtype: "BF16", ..Small::new() }.vectors(), expected);
    assert_eq!(Small { encode: half, dtype: "F16", ..Small::new() }.vectors(), expected);
    assert_eq!(Small { prefix: "bert.", ..Small::new() }.vectors(), expected);
}

#[test]
fn roberta_begins_behind_its_padding_and_pooling_matters() {
    let expected = Small::new().vectors();
    let mut roberta = Small::new();
    roberta.config["model_type"] = json!("roberta");
    assert_ne!(roberta.vectors(), expected);
    assert_eq!(Folder::open(roberta.folder.path()).unwrap().architecture().token_limit, 4);
    let first = Small { pooling: json!({"pooling_mode_cls_token": true}), ..Small::new() }.vectors();
    assert_ne!(first[0], expected[0]);
    assert_eq!(first[1], expected[1], "a text of one token is its own mean");
}

#[test]
fn the_token_limit_is_the_smaller_one_of_the_two_that_are_told() {
    let small = Small::new();
    small.write();
    for (told, expected) in [(3, 3), (600, 6)] {
        let told = json!({ "max_seq_length": told }).to_string();
        fs::write(small.folder.path().join("sentence_bert_config.json"), told).unwrap();
        assert_eq!(Folder::open(small.folder.path()).unwrap().architecture().token_limit, expected);
    }
}

#[test]
fn a_file_that_is_missing_is_told_by_name() {
    for name in ["config.json", "1_Pooling/config.json", "model.safetensors"] {
        let small = Small::new();
        small.write();
        fs::remove_file(small.folder.path().join(name)).unwrap();
        let invalid = small.load().unwrap_err();
        assert!(matches!(invalid.problem, Problem::Unreadable(_)), "{invalid}");
        assert!(invalid.to_string().contains(name), "{invalid}");
    }
}

#[test]
fn weights_that_are_cut_off_anywhere_are_told() {
    let small = Small::new();
    small.write();
    let bytes = small.weights();
    for length in 0..bytes.len() {
        fs::write(small.folder.path().join("model.safetensors"), &bytes[..length]).unwrap();
        let invalid = small.load().unwrap_err();
        assert!(matches!(invalid.problem, Problem::Short { .. }), "{length}: {invalid}");
    }
}

#[test]
fn what_cannot_be_run_is_told() {
    let wrong = [
        ("model_type", json!("t5")),
        ("hidden_act", json!("relu")),
        ("position_embedding_type", json!("relative_key")),
        ("num_attention_heads", json!(3)),
        ("max_position_embeddings", json!(1)),
    ];
    for (name, value) in wrong {
        let mut small = Small::new();
        small.config[name] = value;
        small.write();
        let invalid = small.load().unwrap_err();
        assert!(matches!(invalid.problem, Problem::Unsupported(_)), "{invalid}");
    }
    let small = Small { pooling: json!({"pooling_mode_max_tokens": true}), ..Small::new() };
    small.write();
    assert!(matches!(small.load().unwrap_err().problem, Problem::Unsupported(_)));
}

#[test]
fn a_tensor_of_another_shape_is_told() {
    let mut small = Small::new();
    small.config["intermediate_size"] = json!(16);
    small.write();
    assert!(matches!(small.load().unwrap_err().problem, Problem::TensorShape { .. }));
}

#[test]
fn fuzz_nearly_right_weights() {
    let small = Small::new();
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
    let small = Small::new();
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
