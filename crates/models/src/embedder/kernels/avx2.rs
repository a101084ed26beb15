//! Products of quantized numbers with AVX2: six rows by sixteen columns at once, twelve registers of sums.

use std::arch::asm;
use std::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_add_epi32, _mm256_cvtepi32_ps, _mm256_load_si256,
    _mm256_madd_epi16, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_storeu_ps,
};

use super::quantized::{Pair, QuantizedMatrix, QuantizedRows, WeightLine};
use super::{BLOCK, Finish, PANEL};

/// The loops: depth block, then panel (stays in the first cache), then rows (stay in the second).
#[target_feature(enable = "avx2,fma")]
pub(super) fn multiply(rows: &QuantizedRows, matrix: &QuantizedMatrix, finish: Finish, out: &mut [f32]) {
    for (depth, place) in matrix.depth_blocks(finish) {
        for panel in 0..matrix.panels() {
            let lines = matrix.lines(&depth, panel..panel + 1);
            // The first rows also fetch the panel that comes next: a matrix is read once from front to
            // back, and the processor does not see that by itself.
            let mut upcoming = lines.as_ptr_range().end;
            for start in (0..rows.count()).step_by(BLOCK) {
                let taken = BLOCK.min(rows.count() - start);
                let mut sums = [[0.0; PANEL]; BLOCK];
                let block = &rows.rows_from(start)[depth.start..];
                tile_of(taken, block, rows.pairs(), lines, upcoming, &mut sums);
                upcoming = std::ptr::null();
                for (row, sums) in (start..).zip(&sums[..taken]) {
                    let out = &mut out[row * matrix.columns()..][..matrix.columns()];
                    matrix.finish_row::<true>(sums, rows.scale(row), panel, place, out);
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
    upcoming: *const WeightLine,
    out: &mut [[f32; PANEL]; BLOCK],
) {
    macro_rules! tile {
        ($($rows:literal)*) => {
            match count {
                $($rows if upcoming.is_null() => tile::<$rows, false>(rows, stride, lines, upcoming, out),
                $rows => tile::<$rows, true>(rows, stride, lines, upcoming, out),)*
                _ => unreachable!("a block has one to six rows"),
            }
        };
    }
    tile!(1 2 3 4 5 6);
}

/// Up to six rows, `stride` pairs apart, times sixteen columns.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn tile<const ROWS: usize, const FETCHING: bool>(
    rows: &[Pair],
    stride: usize,
    lines: &[WeightLine],
    upcoming: *const WeightLine,
    out: &mut [[f32; PANEL]; BLOCK],
) {
    assert!((ROWS - 1) * stride + lines.len() <= rows.len(), "the rows are as deep as the matrix");
    let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
    // Two steps a turn: counting costs less, and with more the sums no longer fit into the registers.
    let (turns, rest) = lines.as_chunks::<2>();
    for (turn, lines) in turns.iter().enumerate() {
        for (step, line) in (2 * turn..).zip(lines) {
            if FETCHING {
                _mm_prefetch::<_MM_HINT_T0>(upcoming.wrapping_add(step).cast());
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

/// Adds a pair's products to the sums of every row.
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
        // SAFETY: what this function asks for.
        let pair = _mm256_set1_epi32(unsafe { *pairs.add(row * stride) }.bits());
        sums[0] = settled(_mm256_add_epi32(sums[0], _mm256_madd_epi16(pair, left)));
        sums[1] = settled(_mm256_add_epi32(sums[1], _mm256_madd_epi16(pair, right)));
    }
}

/// The sum itself, in a register. Without this the compiler may regroup the additions of several steps, and
/// then has more sums than registers: the same loop, less than half as fast.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn settled(mut sum: __m256i) -> __m256i {
    // SAFETY: there is no instruction in it.
    unsafe { asm!("/* {} */", inout(ymm_reg) sum, options(pure, nomem, nostack, preserves_flags)) };
    sum
}
