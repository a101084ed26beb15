//! What an answer must be: a vector for each text, all of one dimension, finite and not zero. Only such
//! vectors leave, each of length one.

use super::api::Numbered;

/// Puts the vectors in their texts' order and makes each of length one. The error says what was expected,
/// what came, and what to do. Without a dimension the first vector's counts.
pub(super) fn checked(
    answer: Vec<Numbered>,
    texts: usize,
    dimension: Option<usize>,
) -> Result<Vec<Vec<f32>>, String> {
    let (got, expected) = (answer.len(), texts);
    if got != expected {
        return Err(format!(
            "it gave {got} vectors where {expected} were expected, one for each text: \
             update its server, or set batch_texts to 1"
        ));
    }
    let mut ordered = vec![Vec::new(); texts];
    for (position, Numbered { index, vector }) in answer.into_iter().enumerate() {
        let index = index.unwrap_or(position);
        match ordered.get_mut(index) {
            Some(place) if place.is_empty() => *place = vector,
            _ => return Err(wrong_index(index, texts)),
        }
    }
    let dimension = dimension.or_else(|| ordered.first().map(Vec::len)).unwrap_or_default();
    ordered.into_iter().map(|vector| unit(vector, dimension)).collect()
}

/// What is wrong with a vector that has another dimension than the others.
pub(super) fn wrong_dimension(got: usize, expected: usize) -> String {
    format!(
        "it gave a vector of {got} numbers where {expected} were expected: \
         name the model that gave the others, or set dimension to what this one gives"
    )
}

fn wrong_index(index: usize, texts: usize) -> String {
    format!(
        "it gave a vector the index {index} where each from 0 to {} was expected once: \
         update its server, or set batch_texts to 1",
        texts - 1
    )
}

/// The vector with length one.
fn unit(vector: Vec<Option<f32>>, dimension: usize) -> Result<Vec<f32>, String> {
    if vector.len() != dimension || dimension == 0 {
        return Err(wrong_dimension(vector.len(), dimension));
    }
    // A number that JSON has no word for, such as NaN, is written as null.
    let vector: Vec<f32> = vector.into_iter().map(|number| number.unwrap_or(f32::NAN)).collect();
    // In double precision the square of no finite number overflows.
    let length = vector.iter().map(|&number| f64::from(number).powi(2)).sum::<f64>().sqrt();
    if !length.is_finite() {
        return Err("it gave a vector with a number that is not finite where all must be: \
                    update its server, or take another quantization of the model"
            .to_owned());
    }
    if length == 0.0 {
        return Err("it gave a vector of zeros, which has no direction, where a meaning was expected: \
                    check that the model is made for embeddings"
            .to_owned());
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

    use super::super::api::Api;
    use super::super::ollama::Ollama;
    use super::super::openai::OpenAi;
    use super::*;

    fn numbered(index: Option<usize>, vector: &[f32]) -> Numbered {
        Numbered { index, vector: vector.iter().copied().map(Some).collect() }
    }

    #[track_caller]
    fn check_wrong(answer: Vec<Numbered>, texts: usize, expected: &str) {
        let why = checked(answer, texts, Some(2)).unwrap_err();
        assert!(why.contains(expected), "{why}");
    }

    #[test]
    fn vectors_are_ordered_by_their_index_and_have_length_one() {
        let answer = vec![numbered(Some(1), &[0.0, 2.0]), numbered(Some(0), &[3.0, 4.0])];
        assert_eq!(checked(answer, 2, None).unwrap(), [[0.6, 0.8], [0.0, 1.0]]);
    }

    #[test]
    fn vectors_without_an_index_are_in_order() {
        let answer = vec![numbered(None, &[1.0, 0.0]), numbered(None, &[0.0, 1.0])];
        assert_eq!(checked(answer, 2, Some(2)).unwrap(), [[1.0, 0.0], [0.0, 1.0]]);
    }

    #[test]
    fn extreme_numbers_neither_overflow_nor_vanish() {
        for number in [f32::MAX, f32::MIN_POSITIVE, 1e-45] {
            let found = checked(vec![numbered(None, &[number, 0.0])], 1, None).unwrap();
            assert_eq!(found, [[1.0, 0.0]], "{number}");
        }
    }

    #[test]
    fn every_text_needs_a_vector_of_its_own() {
        let unit = |index| numbered(index, &[1.0, 0.0]);
        check_wrong(vec![unit(None)], 2, "it gave 1 vectors where 2 were expected");
        check_wrong(vec![unit(Some(1)), unit(Some(1))], 2, "the index 1");
        check_wrong(vec![unit(Some(0)), unit(Some(2))], 2, "the index 2");
    }

    #[test]
    fn vectors_that_mean_nothing_are_refused() {
        check_wrong(vec![numbered(None, &[1.0])], 1, "a vector of 1 numbers where 2 were expected");
        check_wrong(vec![numbered(None, &[f32::INFINITY, 0.0])], 1, "not finite");
        check_wrong(vec![Numbered { index: None, vector: vec![None, Some(1.0)] }], 1, "not finite");
        check_wrong(vec![numbered(None, &[0.0, 0.0])], 1, "a vector of zeros");
        assert!(checked(vec![numbered(None, &[])], 1, None).unwrap_err().contains("0 numbers"));
    }

    #[test]
    fn without_a_dimension_the_first_vector_tells_it() {
        let answer = vec![numbered(None, &[1.0, 0.0]), numbered(None, &[1.0])];
        assert!(checked(answer, 2, None).unwrap_err().contains("2 were expected"));
    }

    #[test]
    fn fuzz_nearly_right_vectors() {
        let answers: [&[u8]; 3] = [
            br#"{"model":"m","embeddings":[[0.5,-1e-3,2],[1,0,0]]}"#,
            br#"{"data":[{"index":1,"embedding":[0.1,0.2]},{"index":0,"embedding":[3,4]}]}"#,
            br#"{"data":[{"embedding":[null,1]}]}"#,
        ];
        let words = ["1e39", "-0", "[[]]", "\"index\":18446744073709551615,", "NaN"];
        let apis: [&dyn Api; 2] = [&Ollama, &OpenAi];
        fuzz(&answers, &words, |body| {
            for answer in apis.into_iter().filter_map(|api| api.answer(body).ok()) {
                for vector in checked(answer, 2, None).into_iter().flatten() {
                    let length: f64 = vector.iter().map(|number| f64::from(*number).powi(2)).sum();
                    assert!((length - 1.0).abs() < 1e-3, "{vector:?}");
                }
            }
        });
    }
}
