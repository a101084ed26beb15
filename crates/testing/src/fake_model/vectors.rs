//! Vectors of word counts: texts that share words have a high cosine. They are not normalized.

use serde_json::Value;

/// Dimension of a vector, if the model name does not set it.
const DEFAULT_DIMENSION: usize = 64;

/// The vector of a text: each word, in lower case, adds one to the component that its hash selects.
pub fn fake_vector(text: &str, dimension: usize) -> Vec<f32> {
    let mut vector = vec![0.0; dimension];
    let words = text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    for word in words {
        vector[dimension_of(&word.to_lowercase(), dimension)] += 1.0;
    }
    if vector.iter().all(|&number| number == 0.0) {
        vector[0] = 1.0;
    }
    vector
}

/// The part of a script for vectors. A fault affects the vector with this index in every response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VectorScript {
    dimension: Option<usize>,
    /// Maximum words of a text.
    pub(crate) longest: Option<usize>,
    lacks: Option<usize>,
    short: Option<usize>,
    null: Option<usize>,
    zero: Option<usize>,
    pub(crate) reverse: bool,
}

impl VectorScript {
    /// Parses one part of a model name. Returns `Some(false)` if there is no such part and `None` if its
    /// value is invalid.
    pub(crate) fn parse_part(&mut self, key: &str, value: &str) -> Option<bool> {
        match (key, value) {
            ("reverse", "") => self.reverse = true,
            ("dimension", _) => self.dimension = Some(value.parse().ok().filter(|&numbers| numbers > 0)?),
            ("longest", _) => self.longest = Some(value.parse().ok()?),
            ("lacks", _) => self.lacks = Some(value.parse().ok()?),
            ("short", _) => self.short = Some(value.parse().ok()?),
            ("null", _) => self.null = Some(value.parse().ok()?),
            ("zero", _) => self.zero = Some(value.parse().ok()?),
            _ => return Some(false),
        }
        Some(true)
    }

    /// The vectors of these texts with their indexes, with the faults of the script.
    pub(crate) fn of(&self, texts: &[String]) -> Vec<(usize, Value)> {
        let indexes = (0..texts.len()).filter(|&index| self.lacks != Some(index));
        indexes.map(|index| (index, self.vector(index, &texts[index]))).collect()
    }

    fn vector(&self, index: usize, text: &str) -> Value {
        let mut vector = fake_vector(text, self.dimension.unwrap_or(DEFAULT_DIMENSION));
        if self.zero == Some(index) {
            vector.fill(0.0);
        }
        if self.short == Some(index) {
            vector.pop();
        }
        let mut vector = Value::from(vector);
        if self.null == Some(index) {
            vector[0] = Value::Null;
        }
        vector
    }
}

/// The component for a word: FNV-1a, which is stable across platforms.
fn dimension_of(word: &str, dimension: usize) -> usize {
    let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    usize::try_from(hash % dimension as u64).expect("smaller than a vector's length")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dot(one: &str, other: &str) -> f32 {
        fake_vector(one, 64).iter().zip(fake_vector(other, 64)).map(|(one, other)| one * other).sum()
    }

    #[test]
    fn texts_that_share_words_have_similar_vectors() {
        assert!(dot("Water runs, down!", "water runs up") > dot("water runs down", "cats sleep"));
    }

    #[test]
    fn no_text_has_a_zero_vector() {
        for text in ["", "  ", "?!", "word", "one two three"] {
            assert!(fake_vector(text, 1)[0] > 0.0, "{text:?}");
        }
    }

    #[test]
    fn faults_are_at_the_configured_indexes() {
        let mut vectors = VectorScript::default();
        for (key, value) in [("dimension", "2"), ("lacks", "0"), ("null", "1"), ("short", "2"), ("zero", "3")]
        {
            assert_eq!(vectors.parse_part(key, value), Some(true), "{key}");
        }
        let found = vectors.of(&[const { String::new() }; 4]);
        assert_eq!(found, [(1, json!([null, 0.0])), (2, json!([1.0])), (3, json!([0.0, 0.0]))]);
    }
}
