//! Vectors quantized to signed bytes, a quarter of their size, for a fast scan. Every estimated dot product
//! comes with a bound of its error, so a scan can rule out rows for certain.

mod dot_product;

use dot_product::MAX_BYTE;

/// How a vector was quantized.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Quantization {
    /// Factor from the bytes to the vector; 0 for a vector of zeros, which counts as no vector.
    pub(crate) scale: f32,
    /// Length of the difference between the vector and its quantized form.
    pub(crate) rounding_error: f32,
}

/// Quantizes a vector and appends its bytes.
pub(crate) fn quantize(vector: &[f32], bytes: &mut Vec<u8>) -> Quantization {
    let scale = largest_magnitude(vector) / f32::from(MAX_BYTE);
    let mut squared_error = 0.0;
    for &number in vector {
        let rounded = if scale > 0.0 { (number / scale).round() } else { 0.0 };
        squared_error += (number - rounded * scale).powi(2);
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_BYTE, by its scale")]
        bytes.push((rounded as i8).cast_unsigned());
    }
    Quantization { scale, rounding_error: squared_error.sqrt() }
}

/// A query vector, quantized to 16 bits.
pub(crate) struct QuantizedQuery {
    numbers: Vec<i16>,
    scale: f32,
    length: f32,
    /// Bound of the error by rounding the query and by float arithmetic, for a vector of scale 1.
    error_per_scale: f32,
}

impl QuantizedQuery {
    pub(crate) fn new(vector: &[f32]) -> Self {
        let scale = largest_magnitude(vector) / f32::from(dot_product::max_query_number(vector.len()));
        let mut squared_error = 0.0;
        let numbers = vector.iter().map(|&number| {
            let rounded = if scale > 0.0 { (number / scale).round() } else { 0.0 };
            squared_error += (number - rounded * scale).powi(2);
            #[expect(clippy::cast_possible_truncation, reason = "within i16, by its scale")]
            let rounded = rounded as i16;
            rounded
        });
        let numbers = numbers.collect();
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        #[expect(clippy::cast_precision_loss, reason = "a dimension is a small number")]
        let max_length = f32::from(MAX_BYTE) * (vector.len() as f32).sqrt();
        let error_per_scale = (squared_error.sqrt() + 1e-5 * length) * max_length;
        Self { numbers, scale, length, error_per_scale }
    }

    /// Integer dot products with consecutive quantized rows, to be turned into estimates one by one.
    pub(crate) fn dot_products(&self, rows: &[u8], products: &mut [i32]) {
        dot_product::dot_products(&self.numbers, rows, products);
    }

    /// The estimated dot product of the exact vectors.
    pub(crate) fn estimate(&self, product: i32, quantization: Quantization) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "the margin covers it")]
        let product = product as f32;
        product * (self.scale * quantization.scale)
    }

    /// Bound of the estimate's error, by Cauchy–Schwarz: the rounding error of the one vector times the
    /// length of the other.
    pub(crate) fn margin(&self, quantization: Quantization) -> f32 {
        self.length * quantization.rounding_error + self.error_per_scale * quantization.scale
    }
}

/// The exact dot product of a vector with one stored as little-endian bytes, always summed in the same order.
pub(crate) fn exact_dot_product(vector: &[f32], bytes: &[u8]) -> f32 {
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

fn largest_magnitude(vector: &[f32]) -> f32 {
    vector.iter().fold(0.0, |largest, number| number.abs().max(largest))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_error_of_an_estimate_is_within_its_margin((query, vector) in vectors()) {
            let mut bytes = Vec::new();
            let quantization = quantize(&vector, &mut bytes);
            let quantized = QuantizedQuery::new(&query);
            let mut products = [0];
            quantized.dot_products(&bytes, &mut products);
            let stored: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
            let exact = exact_dot_product(&query, &stored);
            let error = (quantized.estimate(products[0], quantization) - exact).abs();
            prop_assert!(error <= quantized.margin(quantization), "{error} of {exact}");
        }
    }

    #[test]
    fn a_vector_of_zeros_has_scale_zero() {
        let mut bytes = Vec::new();
        assert_eq!(quantize(&[0.0; 4], &mut bytes), Quantization { scale: 0.0, rounding_error: 0.0 });
        assert_eq!(bytes, [0; 4]);
    }

    fn vectors() -> impl Strategy<Value = (Vec<f32>, Vec<f32>)> {
        (1_usize..400).prop_flat_map(|dimension| {
            let number = || prop_oneof![9 => -1.0_f32..1.0, 1 => -30.0_f32..30.0];
            (vec(number(), dimension), vec(number(), dimension))
        })
    }
}
