use proptest::prelude::*;

use super::arithmetic::{exponential, gelu};
use super::quantized_matrix::NEGLIGIBLE;
use super::*;

/// Every kernel is tested with all instruction sets of this processor.
fn all_instructions() -> impl Iterator<Item = Instructions> {
    Instructions::available()
}

/// A product to test. Its shapes go beyond a tile's rows, a panel's columns and a block's depth.
#[derive(Clone, Debug)]
struct Case {
    rows: Vec<f32>,
    weights: Vec<f32>,
    bias: Vec<f32>,
    depth: usize,
    epilogue: Epilogue,
}

impl Case {
    fn count(&self) -> usize {
        self.rows.len() / self.depth
    }

    /// The output before the product.
    fn output_before(&self) -> Vec<f32> {
        (0..self.count() * self.bias.len()).map(|index| (index % 7) as f32 - 3.0).collect()
    }

    /// The product by a plain loop, and the error of each number that rounding by `row_step` and
    /// `weight_step` may cause.
    fn expected(
        &self,
        row_step: impl Fn(usize) -> f64,
        weight_step: impl Fn(usize) -> f64,
    ) -> Vec<(f64, f64)> {
        let mut expected = Vec::new();
        for (index, row) in self.rows.chunks_exact(self.depth).enumerate() {
            for (column, weights) in self.weights.chunks_exact(self.depth).enumerate() {
                let (row_step, weight_step) = (row_step(index), weight_step(column));
                let (mut sum, mut error, mut size) = (f64::from(self.bias[column]), 0.0, 0.0);
                for (a, b) in row.iter().zip(weights).map(|(a, b)| (f64::from(*a), f64::from(*b))) {
                    sum += a * b;
                    size += (a * b).abs();
                    error += row_step * b.abs() + weight_step * a.abs() + row_step * weight_step;
                }
                expected.push((sum, error + 1e-5 * (size + sum.abs() + 1.0)));
            }
        }
        for ((sum, _), before) in expected.iter_mut().zip(self.output_before()) {
            match self.epilogue {
                Epilogue::Store => {}
                Epilogue::Gelu => *sum = exact_gelu(*sum),
                Epilogue::Add => *sum += f64::from(before),
            }
        }
        expected
    }

    fn check(&self, out: &[f32], expected: &[(f64, f64)]) {
        for (index, (found, (wanted, error))) in out.iter().zip(expected).enumerate() {
            // The slope of GELU is at most 1.13.
            let close = (f64::from(*found) - wanted).abs() <= 1.2 * error;
            assert!(close, "number {index}: {found} is not {wanted} ± {error}");
        }
    }
}

fn exact_gelu(x: f64) -> f64 {
    // The error function by its series, and by its limit where that converges slowly.
    let y = x / std::f64::consts::SQRT_2;
    if y.abs() > 5.0 {
        return if y > 0.0 { x } else { 0.0 };
    }
    let (mut term, mut sum) = (y, y);
    for n in 1..200 {
        term *= -y * y / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    0.5 * x * (1.0 + sum * std::f64::consts::FRAC_2_SQRT_PI)
}

fn cases() -> impl Strategy<Value = Case> {
    let depths = prop_oneof![1_usize..40, 380_usize..390, 760_usize..780];
    let epilogues = prop_oneof![Just(Epilogue::Store), Just(Epilogue::Gelu), Just(Epilogue::Add)];
    (1_usize..15, depths, 1_usize..40, epilogues).prop_flat_map(|(count, depth, columns, epilogue)| {
        let numbers = |count, size: f32| prop::collection::vec(-size..size, count);
        (numbers(count * depth, 4.0), numbers(columns * depth, 0.5), numbers(columns, 1.0))
            .prop_map(move |(rows, weights, bias)| Case { rows, weights, bias, depth, epilogue })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn f32_products_equal_those_of_a_plain_loop(case in cases()) {
        let matrix = F32Matrix::pack(&case.weights, &case.bias);
        let expected = case.expected(|_| 0.0, |_| 0.0);
        for instructions in all_instructions() {
            let mut out = case.output_before();
            instructions.multiply_f32(Rows::new(&case.rows, case.depth), &matrix, case.epilogue, &mut out);
            case.check(&out, &expected);
        }
    }

    #[test]
    fn quantized_products_equal_those_of_a_plain_loop_within_rounding(case in cases()) {
        check_quantized(&case);
    }

    #[test]
    fn quantized_products_are_bit_identical_with_all_instructions(case in cases()) {
        let matrix = QuantizedMatrix::pack(&case.weights, &case.bias);
        let mut rows = QuantizedRows::default();
        Instructions::PORTABLE.quantize(Rows::new(&case.rows, case.depth), &matrix, &mut rows);
        // Only GELU uses floating-point multiply-add, whose rounding differs with FMA.
        let comparable = all_instructions().filter(|instructions| case.epilogue != Epilogue::Gelu || instructions.prefer_quantized());
        let products: Vec<Vec<u32>> = comparable
            .map(|instructions| {
                let mut out = case.output_before();
                instructions.multiply_quantized(&rows, &matrix, case.epilogue, &mut out);
                out.into_iter().map(f32::to_bits).collect()
            })
            .collect();
        prop_assert!(products.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn attention_equals_that_of_a_plain_loop(
        (tokens, query_rows, heads, size, numbers) in (1_usize..40, 1_usize..40, 1_usize..4, 1_usize..40)
            .prop_flat_map(|(tokens, query_rows, heads, size)| {
                let count = 3 * tokens * heads * size;
                let numbers = prop::collection::vec(-3.0_f32..3.0, count);
                (Just(tokens), Just(query_rows.min(tokens)), Just(heads), Just(size), numbers)
            }),
    ) {
        let width = heads * size;
        let (queries, keys_and_values) = numbers.split_at(tokens * width);
        let heads = Heads { queries: &queries[..query_rows * width], keys_and_values, width, count: heads };
        for instructions in all_instructions() {
            let mut out = vec![f32::NAN; query_rows * width];
            instructions.attend(heads, &mut AttentionBuffers::default(), &mut out);
            check_attention(heads, &out);
        }
    }

    #[test]
    fn a_layer_norm_equals_that_of_a_plain_loop(row in prop::collection::vec(-9.0_f32..9.0, 2..50)) {
        let gain: Vec<f32> = (0..row.len()).map(|index| 0.5 + index as f32 / 10.0).collect();
        let bias = vec![0.25; row.len()];
        let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / row.len() as f64;
        let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / row.len() as f64;
        for instructions in all_instructions() {
            let mut out = row.clone();
            instructions.layer_norm(&mut out, &gain, &bias, 1e-3);
            for ((found, x), gain) in out.iter().zip(&row).zip(&gain) {
                let wanted = (f64::from(*x) - mean) / (variance + 1e-3).sqrt() * f64::from(*gain) + 0.25;
                prop_assert!((f64::from(*found) - wanted).abs() < 1e-4, "{} is not {}", found, wanted);
            }
        }
    }

    #[test]
    fn gelu_is_exact_to_six_digits(x in -12.0_f32..12.0) {
        let (mut fused, mut plain) = ([x; PANEL], [x; PANEL]);
        gelu::<true>(&mut fused);
        gelu::<false>(&mut plain);
        let wanted = exact_gelu(f64::from(x));
        for found in [fused[3], plain[3]] {
            prop_assert!((f64::from(found) - wanted).abs() < 1e-6 * (1.0 + wanted.abs()) * 4.0);
        }
    }

    #[test]
    fn exponentials_are_exact_to_six_digits(x in -80.0_f32..0.0) {
        let wanted = f64::from(x).exp();
        for found in [exponential::<true>(x), exponential::<false>(x)] {
            prop_assert!((f64::from(found) - wanted).abs() <= wanted * 1e-6 * (1.0 + f64::from(x.abs())));
        }
    }
}

fn check_quantized(case: &Case) {
    let matrix = QuantizedMatrix::pack(&case.weights, &case.bias);
    for instructions in all_instructions() {
        let mut rows = QuantizedRows::default();
        let mut out = case.output_before();
        instructions.quantize(Rows::new(&case.rows, case.depth), &matrix, &mut rows);
        instructions.multiply_quantized(&rows, &matrix, case.epilogue, &mut out);
        // Negligible numbers count as zero.
        let row_step = |row| f64::from((0.5001 * rows.scale(row)).max(NEGLIGIBLE));
        let weight_step = |column: usize| {
            let weights = &case.weights[column * case.depth..][..case.depth];
            let largest = weights.iter().fold(0.0_f32, |largest, weight| largest.max(weight.abs()));
            f64::from((0.5001 * largest / 8191.0).max(NEGLIGIBLE))
        };
        case.check(&out, &case.expected(row_step, weight_step));
    }
}

fn check_attention(heads: Heads<'_>, out: &[f32]) {
    let (width, size) = (heads.width, heads.width / heads.count);
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    for (index, query) in heads.queries.chunks_exact(width).enumerate() {
        for first in (0..width).step_by(size) {
            let tokens = || heads.keys_and_values.chunks_exact(2 * width);
            let scores: Vec<f64> =
                tokens().map(|token| dot(&query[first..][..size], &token[first..][..size])).collect();
            let largest = scores.iter().copied().fold(f64::MIN, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for column in first..first + size {
                let values = tokens().map(|token| f64::from(token[width + column]));
                let wanted = values.zip(&weights).map(|(value, weight)| value * weight).sum::<f64>() / sum;
                let found = out[index * width + column];
                assert!((f64::from(found) - wanted).abs() < 1e-3, "{found} is not {wanted}");
            }
        }
    }
}

/// Rows with one or many extreme numbers.
fn extreme_rows(depth: usize) -> Vec<(&'static str, Vec<f32>)> {
    let one = |value: f32| {
        let mut row = vec![0.001; depth];
        row[depth / 2] = value;
        row
    };
    vec![
        ("all zero", vec![0.0; depth]),
        ("all largest", vec![1.0; depth]),
        ("one huge", one(1e6)),
        ("one of 1e30", one(-1e30)),
        ("all of 1e30", vec![1e30; depth]),
        ("all subnormal", vec![1e-40; depth]),
        ("all tiny", vec![2e-38; depth]),
        ("alternating", (0..depth).map(|index| if index % 2 == 0 { 3.0 } else { -3.0 }).collect()),
    ]
}

#[test]
fn products_of_extreme_rows_are_finite() {
    for depth in [2, 384, 1536, 4096] {
        for (what, row) in extreme_rows(depth) {
            for (kind, weights) in extreme_rows(depth).into_iter().filter(|(kind, _)| !kind.contains("1e30"))
            {
                let (bias, epilogue) = (vec![0.0; 3], Epilogue::Store);
                let case = Case { rows: row.clone(), weights: weights.repeat(3), bias, depth, epilogue };
                let matrix = F32Matrix::pack(&case.weights, &case.bias);
                let expected = case.expected(|_| 0.0, |_| 0.0);
                for instructions in all_instructions() {
                    let mut out = case.output_before();
                    instructions.multiply_f32(Rows::new(&case.rows, depth), &matrix, epilogue, &mut out);
                    assert!(
                        out.iter().all(|number| number.is_finite()),
                        "{what} × {kind} of {depth}: {out:?}"
                    );
                    case.check(&out, &expected);
                }
                check_quantized(&case);
            }
        }
    }
}

#[test]
fn norms_and_attention_of_extreme_rows_are_finite() {
    for (what, row) in extreme_rows(96) {
        for instructions in all_instructions() {
            let mut out = row.clone();
            instructions.layer_norm(&mut out, &[1.0; 96], &[0.5; 96], 1e-12);
            assert!(out.iter().all(|number| number.is_finite()), "the norm of {what}: {out:?}");
            if what.contains("1e30") {
                continue;
            }
            let heads = Heads { queries: &row[..32], keys_and_values: &row[32..], width: 32, count: 2 };
            let mut out = [f32::NAN; 32];
            instructions.attend(heads, &mut AttentionBuffers::default(), &mut out);
            assert!(out.iter().all(|number| number.is_finite()), "attention of {what}: {out:?}");
        }
    }
}

#[test]
#[should_panic(expected = "one number for each row and column")]
fn a_product_rejects_an_output_of_the_wrong_size() {
    let matrix = F32Matrix::pack(&[1.0; 32], &[0.0; 4]);
    Instructions::detect().multiply_f32(Rows::new(&[1.0; 16], 8), &matrix, Epilogue::Store, &mut [0.0; 7]);
}
