//! Quantized matrix products with AVX-512 VNNI: a line of weights fills one register, and one instruction
//! multiplies it with a pair and adds to the sums. Tiles of eight rows by two panels keep sixteen sums in
//! registers, enough to hide the instruction's latency.

use std::arch::asm;
use std::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_prefetch, _mm512_cvtepi32_ps, _mm512_load_si512, _mm512_set1_epi32,
    _mm512_setzero_si512, _mm512_storeu_ps,
};

use super::quantized_matrix::{Pair, QuantizedMatrix, QuantizedRows, WeightLine};
use super::{Epilogue, PANEL};

/// Rows of a tile.
const BLOCK: usize = 8;

/// Panels of a tile.
const SPAN: usize = 2;

/// The sums of a tile, by row and panel.
type Sums = [[[f32; PANEL]; SPAN]; BLOCK];

/// The loops are ordered by depth block, panels (stay in the L1 cache), rows (stay in the L2 cache).
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn multiply(rows: &QuantizedRows, matrix: &QuantizedMatrix, epilogue: Epilogue, out: &mut [f32]) {
    for (depth, epilogue) in matrix.depth_blocks(epilogue) {
        for first in (0..matrix.panels()).step_by(SPAN) {
            let span = SPAN.min(matrix.panels() - first);
            let lines = matrix.lines(&depth, first..first + span);
            // The first rows also prefetch the next panels: the matrix is read once from front to back, in a
            // pattern that the processor's own prefetcher misses.
            let mut prefetch = lines.as_ptr_range().end;
            for start in (0..rows.count()).step_by(BLOCK) {
                let taken = BLOCK.min(rows.count() - start);
                let mut sums = [[[0.0; PANEL]; SPAN]; BLOCK];
                let block = &rows.rows_from(start)[depth.start..];
                tile_of(taken, span, block, rows.pairs(), lines, prefetch, &mut sums);
                prefetch = std::ptr::null();
                for (row, sums) in (start..).zip(&sums[..taken]) {
                    let out = &mut out[row * matrix.columns()..][..matrix.columns()];
                    for (panel, sums) in (first..).zip(&sums[..span]) {
                        matrix.write_row::<true>(sums, rows.scale(row), panel, epilogue, out);
                    }
                }
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
#[inline]
fn tile_of(
    count: usize,
    span: usize,
    rows: &[Pair],
    stride: usize,
    lines: &[WeightLine],
    prefetch: *const WeightLine,
    out: &mut Sums,
) {
    macro_rules! tile {
        ($($rows:literal)*) => {
            match (count, span) {
                $(($rows, 1) => tile::<$rows, 1>(rows, stride, lines, prefetch, out),
                ($rows, 2) => tile::<$rows, 2>(rows, stride, lines, prefetch, out),)*
                _ => unreachable!("a tile has one to eight rows and one or two panels"),
            }
        };
    }
    tile!(1 2 3 4 5 6 7 8);
}

/// Up to eight rows, `stride` pairs apart, times the columns of one or two panels.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
#[inline]
fn tile<const ROWS: usize, const PANELS: usize>(
    rows: &[Pair],
    stride: usize,
    lines: &[WeightLine],
    prefetch: *const WeightLine,
    out: &mut Sums,
) {
    let depth = lines.len() / PANELS;
    assert!((ROWS - 1) * stride + depth <= rows.len(), "the rows are as deep as the matrix");
    let mut sums = [[_mm512_setzero_si512(); PANELS]; ROWS];
    for step in 0..depth {
        if !prefetch.is_null() {
            for panel in 0..PANELS {
                _mm_prefetch::<_MM_HINT_T0>(prefetch.wrapping_add(panel * depth + step).cast());
            }
        }
        let mut weights = [_mm512_setzero_si512(); PANELS];
        for (panel, weights) in weights.iter_mut().enumerate() {
            // SAFETY: each panel has `depth` lines, and a line is 64 bytes long and aligned to 64.
            *weights = unsafe { _mm512_load_si512(lines.as_ptr().add(panel * depth + step).cast()) };
        }
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the assertion above, for steps below the depth.
            let pair = _mm512_set1_epi32(unsafe { *rows.as_ptr().add(row * stride + step) }.bits());
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = plus_products(*sum, pair, weights);
            }
        }
    }
    for (out, sums) in out.iter_mut().zip(sums) {
        for (out, sum) in out.iter_mut().zip(sums) {
            // SAFETY: there is room for sixteen numbers.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), _mm512_cvtepi32_ps(sum)) };
        }
    }
}

/// The sum plus the products of a pair, in one instruction. The compiler's intrinsic is not used because it
/// is compiled to two instructions, which halves the throughput.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
#[inline]
fn plus_products(mut sum: __m512i, pair: __m512i, weights: __m512i) -> __m512i {
    // SAFETY: the instruction changes nothing but its first register, and the processor has it.
    unsafe {
        asm!(
            "vpdpwssd {sum}, {pair}, {weights}",
            sum = inout(zmm_reg) sum,
            pair = in(zmm_reg) pair,
            weights = in(zmm_reg) weights,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}
