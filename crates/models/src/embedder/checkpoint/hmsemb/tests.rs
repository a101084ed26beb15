use serde_json::{Value, json};

use super::*;
use crate::embedder::bert::{BertModel, Workspace};

/// A model of one layer, two heads and hidden dimension 4, as the parts of its file.
struct Parts {
    magic: Vec<u8>,
    header: Value,
    tensors: Vec<u8>,
}

impl Parts {
    fn new() -> Self {
        let shapes: [(&str, &[usize]); 17] = [
            ("word_emb", &[5, 4]),
            ("pos_emb", &[6, 4]),
            ("type_emb", &[2, 4]),
            ("emb_ln.w", &[4]),
            ("emb_ln.b", &[4]),
            ("l0.qkv.w", &[12, 4]),
            ("l0.qkv.b", &[12]),
            ("l0.ao.w", &[4, 4]),
            ("l0.ao.b", &[4]),
            ("l0.aln.w", &[4]),
            ("l0.aln.b", &[4]),
            ("l0.f1.w", &[8, 4]),
            ("l0.f1.b", &[8]),
            ("l0.f2.w", &[4, 8]),
            ("l0.f2.b", &[4]),
            ("l0.fln.w", &[4]),
            ("l0.fln.b", &[4]),
        ];
        let (mut listed, mut tensors) = (Vec::new(), Vec::new());
        for (name, shape) in shapes {
            let start = tensors.len();
            let count: usize = shape.iter().product();
            if name == "word_emb" {
                tensors.extend((0..count).map(|place| u8::try_from(place).unwrap()));
                (0..count / 2).for_each(|_| tensors.extend(0.25_f32.to_le_bytes()));
            } else {
                (0..count).for_each(|place| tensors.extend((place as f32 / 16.0 - 0.5).to_le_bytes()));
            }
            let (dtype, group) = if name == "word_emb" { ("i8", 2) } else { ("f32", 0) };
            let length = tensors.len() - start;
            listed.push(json!({"name": name, "dtype": dtype, "shape": shape, "len": length, "group": group}));
        }
        let header = json!({
            "meta": {"pooling": "cls", "max_length": 4},
            "arch": {
                "hidden": 4, "layers": 1, "heads": 2, "intermediate": 8, "vocab": 5, "max_positions": 6,
                "type_vocab": 2, "layer_norm_eps": 1e-12, "position_offset": 2,
            },
            "tokenizer_len": 2,
            "tensors": listed,
        });
        Self { magic: MAGIC.to_vec(), header, tensors }
    }

    fn bytes(&self) -> Vec<u8> {
        let header = serde_json::to_vec(&self.header).unwrap();
        let length = (header.len() as u64).to_le_bytes();
        [&self.magic[..], &length, &header, b"{}", &self.tensors].concat()
    }
}

/// Loads a model from a file of these bytes.
fn read(bytes: &[u8]) -> Result<BertModel, InvalidModel> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.hmsemb");
    std::fs::write(&path, bytes).unwrap();
    BertModel::load(&mut HmsembCheckpoint::open(&path)?)
}

#[track_caller]
fn check_problem(bytes: &[u8], expected: impl Fn(&ModelProblem) -> bool) {
    let invalid = read(bytes).unwrap_err();
    assert!(expected(&invalid.problem), "{invalid}");
    assert!(invalid.to_string().contains("model.hmsemb"), "{invalid}");
}

#[test]
fn a_small_model_is_loaded_and_run() {
    let model = read(&Parts::new().bytes()).unwrap();
    let vectors = model.embed(&[&[0, 1, 2], &[4]], &mut Workspace::default());
    assert_eq!(vectors.len(), 2);
    assert!(vectors.iter().flatten().all(|number| number.is_finite()));
}

#[test]
fn a_wrong_magic_number_is_rejected() {
    let mut parts = Parts::new();
    parts.magic = b"HMSEMB02".to_vec();
    check_problem(&parts.bytes(), |problem| matches!(problem, ModelProblem::WrongMagic));
    check_problem(b"GGUF and then some bytes", |problem| matches!(problem, ModelProblem::WrongMagic));
}

#[test]
fn a_file_truncated_at_any_byte_is_rejected() {
    let bytes = Parts::new().bytes();
    for length in 0..bytes.len() {
        check_problem(&bytes[..length], |problem| matches!(problem, ModelProblem::Truncated { .. }));
    }
}

#[test]
fn a_header_longer_than_the_file_is_rejected() {
    for length in [1 << 20, 1 << 40, u64::MAX] {
        let mut bytes = Parts::new().bytes();
        bytes[8..16].copy_from_slice(&u64::to_le_bytes(length));
        check_problem(&bytes, |problem| matches!(problem, ModelProblem::Truncated { .. }));
    }
}

#[test]
fn a_malformed_header_is_rejected() {
    for header in [json!([]), json!({"meta": {}}), json!(null)] {
        let parts = Parts { header, ..Parts::new() };
        check_problem(&parts.bytes(), |problem| {
            matches!(problem, ModelProblem::Malformed { part: "header", .. })
        });
    }
}

#[test]
fn a_missing_tensor_is_named() {
    let mut parts = Parts::new();
    parts.header["tensors"][5]["name"] = json!("other");
    check_problem(
        &parts.bytes(),
        |problem| matches!(problem, ModelProblem::MissingTensor(name) if name == "l0.qkv.w"),
    );
}

#[test]
fn a_tensor_of_another_shape_is_named() {
    let mut parts = Parts::new();
    parts.header["tensors"][5]["shape"] = json!([4, 12]);
    check_problem(&parts.bytes(), |problem| {
        matches!(problem, ModelProblem::TensorShape { name, expected, found }
            if name == "l0.qkv.w" && expected == &[12, 4] && found == &[4, 12])
    });
}

#[test]
fn a_tensor_whose_length_contradicts_its_shape_is_rejected() {
    for length in [0, 3, 4 * 24 + 1, u64::MAX >> 1] {
        let mut parts = Parts::new();
        parts.header["tensors"][1]["len"] = json!(length);
        check_problem(&parts.bytes(), |problem| matches!(problem, ModelProblem::Malformed { .. }));
    }
}

#[test]
fn infinite_and_undefined_numbers_are_rejected() {
    for (place, number) in [(20, f32::NAN), (60, f32::INFINITY)] {
        let mut parts = Parts::new();
        parts.tensors[place..place + 4].copy_from_slice(&number.to_le_bytes());
        check_problem(&parts.bytes(), |problem| matches!(problem, ModelProblem::TensorNumbers(_)));
    }
}

#[test]
fn an_unsupported_model_is_rejected() {
    let wrong = [
        ("/meta/pooling", json!("last")),
        ("/meta/query_prefix", json!("query: ")),
        ("/meta/max_length", json!(5)),
        ("/arch/heads", json!(3)),
        ("/arch/hidden", json!(0)),
        ("/arch/vocab", json!(u64::MAX)),
        ("/arch/layer_norm_eps", json!(-1.0)),
    ];
    for (place, value) in wrong {
        let mut parts = Parts::new();
        parts.header["meta"]["query_prefix"] = json!("");
        *parts.header.pointer_mut(place).unwrap() = value;
        check_problem(&parts.bytes(), |problem| matches!(problem, ModelProblem::Unsupported(_)));
    }
}

#[test]
fn fuzz_nearly_right_models() {
    let whole = Parts::new().bytes();
    let words = ["\"shape\":[", "null", "-1", "[]", "{}", "18446744073709551615", "\0\0\0\0"];
    testing::fuzz(&[&whole], &words, |bytes| match read(bytes) {
        Ok(model) => assert_eq!(model.embed(&[&[0, 1, 2]], &mut Workspace::default()).len(), 1),
        Err(invalid) => assert!(!invalid.to_string().is_empty()),
    });
}
