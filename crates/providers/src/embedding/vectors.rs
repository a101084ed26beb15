//! Checks the vectors of a response: one for each text, all of one dimension, finite and not zero; and normalizes them
//! to length one.

use thiserror::Error;

use super::api::IndexedVector;

/// Why the vectors of a response are unusable, and what to do about it.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum InvalidVectors {
    #[error(
        "it gave {got} vectors where {expected} were expected, one for each text: \
         update its server, or set batch_texts to 1"
    )]
    Count { got: usize, expected: usize },
    #[error(
        "it gave a vector the index {index} where each from 0 to {last} was expected once: \
         update its server, or set batch_texts to 1"
    )]
    Index { index: usize, last: usize },
    #[error(
        "it gave a vector of {got} numbers where {expected} were expected: \
         name the model that gave the others, or set dimension to what this one gives"
    )]
    Dimension { got: usize, expected: usize },
    #[error(
        "it gave a vector with a number that is not finite where all must be: \
         update its server, or take another quantization of the model"
    )]
    NotFinite,
    #[error("it gave a vector of zeros, which has no direction: check that the model is made for embeddings")]
    Zero,
}

/// Orders the vectors as their texts and normalizes each. Without a dimension the first vector sets it.
pub(super) fn unit_vectors(
    vectors: Vec<IndexedVector>,
    texts: usize,
    dimension: Option<usize>,
) -> Result<Vec<Vec<f32>>, InvalidVectors> {
    if vectors.len() != texts {
        return Err(InvalidVectors::Count { got: vectors.len(), expected: texts });
    }
    let mut ordered = vec![Vec::new(); texts];
    for (position, IndexedVector { index, vector }) in vectors.into_iter().enumerate() {
        let index = index.unwrap_or(position);
        match ordered.get_mut(index) {
            Some(slot) if slot.is_empty() => *slot = vector,
            _ => return Err(InvalidVectors::Index { index, last: texts - 1 }),
        }
    }
    let dimension = dimension.or_else(|| ordered.first().map(Vec::len)).unwrap_or_default();
    ordered.into_iter().map(|vector| unit_vector(vector, dimension)).collect()
}

fn unit_vector(vector: Vec<Option<f32>>, dimension: usize) -> Result<Vec<f32>, InvalidVectors> {
    if vector.len() != dimension || dimension == 0 {
        return Err(InvalidVectors::Dimension { got: vector.len(), expected: dimension });
    }
    // Servers write numbers that JSON cannot represent, such as NaN, as null.
    let vector: Vec<f32> = vector.into_iter().map(|number| number.unwrap_or(f32::NAN)).collect();
    // In double precision the square of a finite `f32` never overflows.
    let length = vector.iter().map(|&number| f64::from(number).powi(2)).sum::<f64>().sqrt();
    if !length.is_finite() {
        return Err(InvalidVectors::NotFinite);
    }
    if length == 0.0 {
        return Err(InvalidVectors::Zero);
    }
    Ok(vector.into_iter().map(|number| scaled(number, length)).collect())
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a number of a vector divided by its length is at most 1"
)]
fn scaled(number: f32, length: f64) -> f32 {
    (f64::from(number) / length) as f32
}

#[cfg(test)]
mod tests {
    use testing::fuzz;

    use super::super::api::EmbeddingApi;
    use super::super::ollama::OllamaEmbeddings;
    use super::super::openai::OpenAiEmbeddings;
    use super::*;

    fn indexed(index: Option<usize>, vector: &[f32]) -> IndexedVector {
        IndexedVector { index, vector: vector.iter().copied().map(Some).collect() }
    }

    #[track_caller]
    fn check_wrong(answer: Vec<IndexedVector>, texts: usize, expected: &str) {
        let why = unit_vectors(answer, texts, Some(2)).unwrap_err().to_string();
        assert!(why.contains(expected), "{why}");
    }

    #[test]
    fn vectors_are_ordered_by_their_index_and_normalized() {
        let answer = vec![indexed(Some(1), &[0.0, 2.0]), indexed(Some(0), &[3.0, 4.0])];
        assert_eq!(unit_vectors(answer, 2, None).unwrap(), [[0.6, 0.8], [0.0, 1.0]]);
    }

    #[test]
    fn vectors_without_an_index_keep_their_order() {
        let answer = vec![indexed(None, &[1.0, 0.0]), indexed(None, &[0.0, 1.0])];
        assert_eq!(unit_vectors(answer, 2, Some(2)).unwrap(), [[1.0, 0.0], [0.0, 1.0]]);
    }

    #[test]
    fn extreme_numbers_neither_overflow_nor_vanish() {
        for number in [f32::MAX, f32::MIN_POSITIVE, 1e-45] {
            let found = unit_vectors(vec![indexed(None, &[number, 0.0])], 1, None).unwrap();
            assert_eq!(found, [[1.0, 0.0]], "{number}");
        }
    }

    #[test]
    fn every_text_needs_its_own_vector() {
        let unit = |index| indexed(index, &[1.0, 0.0]);
        check_wrong(vec![unit(None)], 2, "it gave 1 vectors where 2 were expected");
        check_wrong(vec![unit(Some(1)), unit(Some(1))], 2, "the index 1");
        check_wrong(vec![unit(Some(0)), unit(Some(2))], 2, "the index 2");
    }

    #[test]
    fn vectors_without_a_direction_are_refused() {
        check_wrong(vec![indexed(None, &[1.0])], 1, "a vector of 1 numbers where 2 were expected");
        check_wrong(vec![indexed(None, &[f32::INFINITY, 0.0])], 1, "not finite");
        check_wrong(vec![IndexedVector { index: None, vector: vec![None, Some(1.0)] }], 1, "not finite");
        check_wrong(vec![indexed(None, &[0.0, 0.0])], 1, "a vector of zeros");
        let empty = unit_vectors(vec![indexed(None, &[])], 1, None);
        assert_eq!(empty.unwrap_err(), InvalidVectors::Dimension { got: 0, expected: 0 });
    }

    #[test]
    fn without_a_dimension_the_first_vector_sets_it() {
        let answer = vec![indexed(None, &[1.0, 0.0]), indexed(None, &[1.0])];
        let error = unit_vectors(answer, 2, None).unwrap_err();
        assert_eq!(error, InvalidVectors::Dimension { got: 1, expected: 2 });
    }

    #[test]
    fn fuzz_nearly_right_vectors() {
        let answers: [&[u8]; 3] = [
            br#"{"model":"m","embeddings":[[0.5,-1e-3,2],[1,0,0]]}"#,
            br#"{"data":[{"index":1,"embedding":[0.1,0.2]},{"index":0,"embedding":[3,4]}]}"#,
            br#"{"data":[{"embedding":[null,1]}]}"#,
        ];
        let words = ["1e39", "-0", "[[]]", "\"index\":18446744073709551615,", "NaN"];
        let apis: [&dyn EmbeddingApi; 2] = [&OllamaEmbeddings, &OpenAiEmbeddings];
        fuzz(&answers, &words, |body| {
            for answer in apis.into_iter().filter_map(|api| api.response(body).ok()) {
                for vector in unit_vectors(answer, 2, None).into_iter().flatten() {
                    let length: f64 = vector.iter().map(|number| f64::from(*number).powi(2)).sum();
                    assert!((length - 1.0).abs() < 1e-3, "{vector:?}");
                }
            }
        });
    }
}
