//! Operations on rows of numbers, in plain code that the compiler vectorizes: sums run over eight lanes, and
//! no number needs a branch or a call. A row's result never depends on other rows, so batches are
//! bit-identical to single texts.

use std::ops::Range;

use super::{Epilogue, PANEL};

const LANES: usize = 8;

/// 1.5 · 2²³: adding it to a small number leaves the nearest integer in the low bits of the sum.
pub(super) const ROUNDING: f32 = 12_582_912.0;

/// The epilogue of a tile that covers one block of the product's depth. The blocks add up in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TileEpilogue {
    add_to_output: bool,
    add_bias: bool,
    gelu: bool,
}

impl TileEpilogue {
    pub(super) fn of_block(block: &Range<usize>, depth: usize, epilogue: Epilogue) -> Self {
        Self {
            add_to_output: block.start > 0 || epilogue == Epilogue::Add,
            add_bias: block.start == 0,
            gelu: block.end == depth && epilogue == Epilogue::Gelu,
        }
    }
}

/// Multiplies and adds; fused, with a single rounding, if the processor has FMA.
#[inline(always)]
pub(super) fn multiply_add<const FUSED: bool>(left: f32, right: f32, sum: f32) -> f32 {
    if FUSED { left.mul_add(right, sum) } else { left * right + sum }
}

/// Writes a row of a tile to the output, which is narrower than the tile at the end of a matrix.
#[inline(always)]
pub(super) fn write_tile_row<const FUSED: bool>(
    mut sums: [f32; PANEL],
    bias: &[f32; PANEL],
    epilogue: TileEpilogue,
    out: &mut [f32],
) {
    if epilogue.add_bias {
        add(&mut sums, bias);
    }
    if epilogue.add_to_output {
        add(&mut sums, &padded(out));
    }
    if epilogue.gelu {
        gelu::<FUSED>(&mut sums);
    }
    store(sums, out);
}

/// Writes as many sums as there is room for.
#[inline(always)]
pub(super) fn store(sums: [f32; PANEL], out: &mut [f32]) {
    match <&mut [f32; PANEL]>::try_from(&mut *out) {
        Ok(out) => *out = sums,
        Err(_) => store_part(&sums, out),
    }
}

/// Up to sixteen numbers and zeros after them.
#[inline(always)]
pub(super) fn padded(numbers: &[f32]) -> [f32; PANEL] {
    match <&[f32; PANEL]>::try_from(numbers) {
        Ok(numbers) => *numbers,
        Err(_) => padded_part(numbers),
    }
}

// Calls that are not inlined, so that full tiles do not pay for partial ones.
#[cold]
#[inline(never)]
fn store_part(sums: &[f32; PANEL], out: &mut [f32]) {
    out.copy_from_slice(&sums[..out.len()]);
}

#[cold]
#[inline(never)]
fn padded_part(numbers: &[f32]) -> [f32; PANEL] {
    let mut padded = [0.0; PANEL];
    padded[..numbers.len()].copy_from_slice(numbers);
    padded
}

#[inline(always)]
fn add(sums: &mut [f32; PANEL], others: &[f32; PANEL]) {
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum += other;
    }
}

/// x · Φ(x). The error function is x · p(x²) / q(x²) on [-4, 4], fitted to 4e-7, and constant outside.
#[inline(always)]
pub(super) fn gelu<const FUSED: bool>(values: &mut [f32; PANEL]) {
    const ABOVE: [f32; 5] = [1.128_376_4, 0.364_655_32, 0.074_762_73, 0.010_875_438, 0.000_385_183_87];
    const BELOW: [f32; 6] =
        [1.0, 0.656_469_94, 0.185_189_98, 0.029_352_838, 0.002_768_574, 0.000_021_918_086];
    for value in values {
        let x = (*value * std::f32::consts::FRAC_1_SQRT_2).clamp(-4.0, 4.0);
        let square = x * x;
        let erf = x * polynomial::<FUSED, 5>(&ABOVE, square) / polynomial::<FUSED, 6>(&BELOW, square);
        *value = 0.5 * multiply_add::<FUSED>(*value, erf, *value);
    }
}

/// e^x for x ≤ 0: two to an integer, which is shifted into the exponent, times two to a fraction.
#[inline(always)]
pub(super) fn exponential<const FUSED: bool>(x: f32) -> f32 {
    const FRACTION: [f32; 6] = [1.0, 0.693_146_95, 0.240_221_22, 0.055_507_426, 0.009_675_46, 0.001_326_697];
    let power = (x * std::f32::consts::LOG2_E).max(-126.0);
    let shifted = power + ROUNDING;
    let fraction = power - (shifted - ROUNDING);
    let exponent = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    polynomial::<FUSED, 6>(&FRACTION, fraction) * exponent
}

#[inline(always)]
fn polynomial<const FUSED: bool, const TERMS: usize>(terms: &[f32; TERMS], x: f32) -> f32 {
    let mut value = terms[TERMS - 1];
    for term in terms[..TERMS - 1].iter().rev() {
        value = multiply_add::<FUSED>(value, x, *term);
    }
    value
}

#[inline(always)]
pub(super) fn layer_norm<const FUSED: bool>(rows: &mut [f32], gain: &[f32], bias: &[f32], epsilon: f32) {
    let width = gain.len();
    assert_eq!(bias.len(), width, "a norm has one bias a gain");
    let share = 1.0 / width as f32;
    for row in rows.chunks_exact_mut(width) {
        let mean = fold(row, 0.0, |sum, value| sum + value, |left, right| left + right) * share;
        let squares = |sum, value: f32| multiply_add::<FUSED>(value - mean, value - mean, sum);
        let variance = fold(row, 0.0, squares, |left, right| left + right) * share;
        let scale = 1.0 / (variance + epsilon).sqrt();
        for ((value, gain), bias) in row.iter_mut().zip(gain).zip(bias) {
            *value = multiply_add::<FUSED>((*value - mean) * scale, *gain, *bias);
        }
    }
}

/// Replaces scores by the exponentials of their distance to the largest one, and returns the sum: a softmax
/// without its division.
#[inline(always)]
pub(super) fn exponentials<const FUSED: bool>(scores: &mut [f32]) -> f32 {
    let largest = fold(scores, f32::MIN, larger, larger);
    for score in scores.iter_mut() {
        *score = exponential::<FUSED>(*score - largest);
    }
    fold(scores, 0.0, |sum, value| sum + value, |left, right| left + right)
}

/// The largest absolute value.
#[inline(always)]
pub(super) fn largest_magnitude(row: &[f32]) -> f32 {
    fold(row, 0.0, |largest, value| larger(largest, value.abs()), larger)
}

/// The sum of the squares of a row's numbers times `scale`.
#[inline(always)]
pub(super) fn sum_of_squares<const FUSED: bool>(row: &[f32], scale: f32) -> f32 {
    let squares = |sum, value: f32| multiply_add::<FUSED>(value * scale, value * scale, sum);
    fold(row, 0.0, squares, |left, right| left + right)
}

#[inline(always)]
fn larger(left: f32, right: f32) -> f32 {
    if left > right { left } else { right }
}

/// Folds a row lane by lane, then its remainder, then the lanes, always in this order.
#[inline(always)]
fn fold(row: &[f32], start: f32, step: impl Fn(f32, f32) -> f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [[start; LANES]; 2];
    let (chunks, remainder) = row.as_chunks::<{ 2 * LANES }>();
    for chunk in chunks {
        let (halves, _) = chunk.as_chunks::<LANES>();
        for (lanes, values) in lanes.iter_mut().zip(halves) {
            for (lane, value) in lanes.iter_mut().zip(values) {
                *lane = step(*lane, *value);
            }
        }
    }
    let rest = remainder.iter().fold(start, |sum, value| step(sum, *value));
    lanes.as_flattened().iter().fold(rest, |sum, lane| join(sum, *lane))
}
