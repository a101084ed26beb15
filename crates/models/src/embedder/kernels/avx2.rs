//! Quantized matrix products with AVX2, in tiles of six rows by sixteen columns: twelve registers of sums.

use std::arch::asm;
use std::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_add_epi32, _mm256_cvtepi32_ps, _mm256_load_si256,
    _mm256_madd_epi16, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_storeu_ps,
};

use super::quantized_matrix::{Pair, QuantizedMatrix, QuantizedRows, WeightLine};
use super::{BLOCK, Epilogue, PANEL};

/// The loops are ordered by depth block, panel (stays in the L1 cache), rows (stay in the L2 cache).
#[target_feature(enable = "avx2,fma")]
pub(super) fn multiply(rows: &QuantizedRows, matrix: &QuantizedMatrix, epilogue: Epilogue, out: &mut [f32]) {
    for (depth, epilogue) in matrix.depth_blocks(epilogue) {
        for panel in 0..matrix.panels() {
            let lines = matrix.lines(&depth, panel..panel + 1);
            // The first rows also prefetch the next panel: the matrix is read once from front to back, in a
            // pattern that the processor's own prefetcher misses.
            let mut prefetch = lines.as_ptr_range().end;
            for start in (0..rows.count()).step_by(BLOCK) {
                let taken = BLOCK.min(rows.count() - start);
                let mut sums = [[0.0; PANEL]; BLOCK];
                let block = &rows.rows_from(start)[depth.start..];
                tile_of(taken, block, rows.pairs(), lines, prefetch, &mut sums);
                prefetch = std::ptr::null();
                for (row, sums) in (start..).zip(&sums[..taken]) {
                    let out = &mut out[row * matrix.columns()..][..matrix.columns()];
                    matrix.write_row::<true>(sums, rows.scale(row), panel, epilogue, out);
                }
            }
        }
    }
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn tile_of(
    count: usize,
    rows: &[Pair],
    stride: usize,
    lines: &[WeightLine],
    prefetch: *const WeightLine,
    out: &mut [[f32; PANEL]; BLOCK],
) {
    macro_rules! tile {
        ($($rows:literal)*) => {
            match count {
                $($rows if prefetch.is_null() => tile::<$rows, false>(rows, stride, lines, prefetch, out),
                $rows => tile::<$rows, true>(rows, stride, lines, prefetch, out),)*
                _ => unreachable!("a block has one to six rows"),
            }
        };
    }
    tile!(1 2 3 4 5 6);
}

/// Up to six rows, `stride` pairs apart, times the columns of a panel.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn tile<const ROWS: usize, const FETCHING: bool>(
    rows: &[Pair],
    stride: usize,
    lines: &[WeightLine],
    prefetch: *const WeightLine,
    out: &mut [[f32; PANEL]; BLOCK],
) {
    assert!((ROWS - 1) * stride + lines.len() <= rows.len(), "the rows are as deep as the matrix");
    let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
    // Two steps for each iteration halve the cost of counting; with more, the sums no longer fit into
    // registers.
    let (turns, rest) = lines.as_chunks::<2>();
    for (turn, lines) in turns.iter().enumerate() {
        for (step, line) in (2 * turn..).zip(lines) {
            if FETCHING {
                _mm_prefetch::<_MM_HINT_T0>(prefetch.wrapping_add(step).cast());
            }
            // SAFETY: the assertion above, for steps below the number of lines.
            unsafe { add_products(&mut sums, rows.as_ptr().add(step), stride, line) };
        }
    }
    for (step, line) in (2 * turns.len()..).zip(rest) {
        // SAFETY: the assertion above, for steps below the number of lines.
        unsafe { add_products(&mut sums, rows.as_ptr().add(step), stride, line) };
    }
    for (out, [left, right]) in out.iter_mut().zip(sums) {
        let (low, high) = out.split_at_mut(PANEL / 2);
        // SAFETY: each half has room for eight numbers.
        unsafe {
            _mm256_storeu_ps(low.as_mut_ptr(), _mm256_cvtepi32_ps(left));
            _mm256_storeu_ps(high.as_mut_ptr(), _mm256_cvtepi32_ps(right));
        }
    }
}

/// Adds the products of one pair to the sums of every row.
///
/// # Safety
/// There is a pair to read at `pairs` and at each of the `ROWS - 1` places `stride` pairs apart after it.
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn add_products<const ROWS: usize>(
    sums: &mut [[__m256i; 2]; ROWS],
    pairs: *const Pair,
    stride: usize,
    line: &WeightLine,
) {
    let registers: *const __m256i = std::ptr::from_ref(line).cast();
    // SAFETY: a line is 64 bytes long and aligned to 64.
    let (left, right) = unsafe { (_mm256_load_si256(registers), _mm256_load_si256(registers.add(1))) };
    for (row, sums) in sums.iter_mut().enumerate() {
        // SAFETY: the caller guarantees it.
        let pair = _mm256_set1_epi32(unsafe { *pairs.add(row * stride) }.bits());
        sums[0] = in_register(_mm256_add_epi32(sums[0], _mm256_madd_epi16(pair, left)));
        sums[1] = in_register(_mm256_add_epi32(sums[1], _mm256_madd_epi16(pair, right)));
    }
}

/// An optimization barrier that returns the sum. Without it the compiler may regroup the additions of several
/// steps, and then has more sums than registers, which is less than half as fast.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn in_register(mut sum: __m256i) -> __m256i {
    // SAFETY: the assembly contains no instruction.
    unsafe { asm!("/* {} */", inout(ymm_reg) sum, options(pure, nomem, nostack, preserves_flags)) };
    sum
}
