//! Vectors in a quarter of their size, for a first look that leaves out most of them. What is left out is
//! left out for certain: with every estimate goes how far it may be off.

use super::kernel::{self, LARGEST};

/// What a vector needs beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Precision {
    /// What the bytes are multiplied with; 0 for a vector of zeros, which stands for none.
    pub(crate) scale: f32,
    /// The length of what rounding lost.
    pub(crate) lost: f32,
}

/// Rounds a vector to signed bytes, which are appended.
pub(crate) fn quantize(vector: &[f32], bytes: &mut Vec<u8>) -> Precision {
    let scale = largest(vector) / f32::from(LARGEST);
    let mut lost = 0.0;
    for &number in vector {
        let rounded = if scale > 0.0 { (number / scale).round() } else { 0.0 };
        lost += (number - rounded * scale).powi(2);
        #[expect(clippy::cast_possible_truncation, reason = "at most LARGEST, by its scale")]
        bytes.push((rounded as i8).cast_unsigned());
    }
    Precision { scale, lost: lost.sqrt() }
}

/// A query, to be compared with quantized vectors.
pub(crate) struct QuantizedQuery {
    numbers: Vec<i16>,
    scale: f32,
    length: f32,
    /// What rounding the query and float arithmetic may add, for each unit of a vector's scale.
    slack: f32,
}

impl QuantizedQuery {
    pub(crate) fn new(vector: &[f32]) -> Self {
        let scale = largest(vector) / f32::from(kernel::largest_in_query(vector.len()));
        let mut lost = 0.0;
        let numbers = vector.iter().map(|&number| {
            let rounded = if scale > 0.0 { (number / scale).round() } else { 0.0 };
            lost += (number - rounded * scale).powi(2);
            #[expect(clippy::cast_possible_truncation, reason = "within i16, by its scale")]
            let rounded = rounded as i16;
            rounded
        });
        let numbers = numbers.collect();
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        #[expect(clippy::cast_precision_loss, reason = "a dimension is a small number")]
        let longest = f32::from(LARGEST) * (vector.len() as f32).sqrt();
        Self { numbers, scale, length, slack: (lost.sqrt() + 1e-5 * length) * longest }
    }

    /// The products with rows of bytes, to be made into estimates one by one.
    pub(crate) fn products(&self, rows: &[u8], products: &mut [i32]) {
        kernel::dot_products(&self.numbers, rows, products);
    }

    /// The estimated dot product.
    pub(crate) fn estimate(&self, product: i32, precision: Precision) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "the margin covers it")]
        let product = product as f32;
        product * (self.scale * precision.scale)
    }

    /// How far the estimate may be off: what was lost of the one times the length of the other, by Cauchy and
    /// Schwarz.
    pub(crate) fn margin(&self, precision: Precision) -> f32 {
        self.length * precision.lost + self.slack * precision.scale
    }
}

/// The exact dot product of a vector with one that is kept as bytes, always summed in the same order.
pub(crate) fn exact_dot(vector: &[f32], bytes: &[u8]) -> f32 {
    const LANES: usize = 8;
    let (numbers, _) = bytes.as_chunks::<4>();
    let mut sums = [0.0; LANES];
    for (left, right) in vector.chunks(LANES).zip(numbers.chunks(LANES)) {
        for (sum, (left, right)) in sums.iter_mut().zip(left.iter().zip(right)) {
            *sum += left * f32::from_le_bytes(*right);
        }
    }
    sums.iter().sum()
}

fn largest(vector: &[f32]) -> f32 {
    vector.iter().fold(0.0, |largest, number| number.abs().max(largest))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_estimate_is_never_off_by_more_than_its_margin((query, vector) in pair()) {
            let mut bytes = Vec::new();
            let precision = quantize(&vector, &mut bytes);
            let quantized = QuantizedQuery::new(&query);
            let mut products = [0];
            quantized.products(&bytes, &mut products);
            let kept: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
            let exact = exact_dot(&query, &kept);
            let off = (quantized.estimate(products[0], precision) - exact).abs();
            prop_assert!(off <= quantized.margin(precision), "{off} of {exact}");
        }
    }

    #[test]
    fn a_vector_of_zeros_has_no_scale() {
        let mut bytes = Vec::new();
        assert_eq!(quantize(&[0.0; 4], &mut bytes), Precision { scale: 0.0, lost: 0.0 });
        assert_eq!(bytes, [0; 4]);
    }

    fn pair() -> impl Strategy<Value = (Vec<f32>, Vec<f32>)> {
        (1_usize..400).prop_flat_map(|dimension| {
            let number = || prop_oneof![9 => -1.0_f32..1.0, 1 => -30.0_f32..30.0];
            (vec(number(), dimension), vec(number(), dimension))
        })
    }
}
