//! Tokens and vectors of the real models, compared with the reference in `fixtures/embedding`, which its
//! `make.py` generates.

use serde::Deserialize;

use super::bert::Precision;
use super::kernels::Instructions;
use super::*;

const GRANITE: &str = "granite-embedding-30m-english/granite-embedding-30m-english-int8.hmsemb";
const MINILM: &str = "all-MiniLM-L6-v2";

#[derive(Deserialize)]
struct Expected {
    piece: String,
    times: usize,
    tokens: Vec<u32>,
    vector: Vec<f32>,
}

fn fixture(name: &str) -> Vec<Expected> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/embedding");
    serde_json::from_slice(&std::fs::read(folder.join(format!("{name}.json"))).unwrap()).unwrap()
}

fn model_path(path: &str) -> PathBuf {
    let set = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let folder = set("WELLSPRING__MODELS__DIR").or_else(|| Some(cache()?.join("wellspring/models"))).unwrap();
    let path = folder.join(path);
    assert!(path.exists(), "{} is missing: run `wellspring models pull`", path.display());
    path
}

fn check_tokens(path: &str, fixture: &[Expected]) {
    let path = model_path(path);
    let mut checkpoint = open_checkpoint(&path).unwrap();
    let tokenizer =
        TextTokenizer::new(&checkpoint.tokenizer().unwrap(), checkpoint.architecture(), &path).unwrap();
    for expected in fixture {
        let text = expected.piece.repeat(expected.times);
        assert_eq!(tokenizer.tokenize(&text).unwrap(), expected.tokens, "{:?}", expected.piece);
    }
}

fn check_vectors(path: &str, fixture: &[Expected], instructions: Instructions, precision: Precision) {
    let model =
        BertModel::load_as(&mut *open_checkpoint(&model_path(path)).unwrap(), instructions, precision)
            .unwrap();
    let mut workspace = Workspace::default();
    for expected in fixture {
        let vector = model.embed(&[&expected.tokens], &mut workspace).remove(0);
        let cosine: f64 = vector.iter().zip(&expected.vector).map(|(a, b)| f64::from(a * b)).sum();
        assert!(cosine >= 0.9999, "{:?}: cosine {cosine}", expected.piece);
    }
}

#[test]
fn tokens_equal_those_of_the_reference() {
    check_tokens(GRANITE, &fixture("granite-embedding-30m-english"));
    check_tokens(MINILM, &fixture(MINILM));
}

#[test]
fn vectors_equal_those_of_the_reference_in_the_preferred_precision() {
    let instructions = Instructions::detect();
    let precision = Precision::preferred(instructions);
    check_vectors(GRANITE, &fixture("granite-embedding-30m-english"), instructions, precision);
    check_vectors(MINILM, &fixture(MINILM), instructions, precision);
}

#[test]
fn vectors_equal_those_of_the_reference_with_portable_instructions() {
    let mut granite = fixture("granite-embedding-30m-english");
    // The longest texts are slow without AVX and cover nothing that the others do not.
    granite.retain(|expected| expected.tokens.len() < 512);
    check_vectors(GRANITE, &granite, Instructions::PORTABLE, Precision::Full);
    check_vectors(MINILM, &fixture(MINILM), Instructions::PORTABLE, Precision::Full);
}

#[test]
fn vectors_equal_those_of_the_reference_in_full_precision() {
    let fixture = fixture("granite-embedding-30m-english");
    check_vectors(GRANITE, &fixture, Instructions::detect(), Precision::Full);
}
