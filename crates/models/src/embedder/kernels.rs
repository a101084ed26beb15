//! The arithmetic that the embedder spends its time in. This is the one file with `unsafe`: it picks the
//! instructions once, by what the processor has, and wraps the few that take raw addresses. What is computed
//! is plain code in the files beside it, compiled once for AVX2 and once for any processor.
#![expect(unsafe_code, reason = "wide instructions are only sound on processors that have them")]

mod arithmetic;
mod attention;
mod full;
mod quantized;

#[cfg(test)]
mod tests;

pub(crate) use attention::{AttentionSpace, Heads};
pub(crate) use full::{FullMatrix, Rows};
pub(crate) use quantized::{QuantizedMatrix, QuantizedRows};

/// Columns that a kernel computes at once: two registers of eight numbers.
pub(crate) const PANEL: usize = 16;

/// Rows that a kernel computes at once: with two registers a row, twelve sums stay in registers.
pub(crate) const BLOCK: usize = 6;

/// What happens to a product and its bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// It replaces what was there.
    Store,
    /// Its GELU replaces what was there.
    Gelu,
    /// It is added to what was there.
    Add,
}

/// The instructions that kernels may use. That only `detect` sets `avx2` is what makes them sound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instructions {
    avx2: bool,
}

/// A safe entry to a kernel that is plain code, generic over whether it may fuse multiplication and addition.
macro_rules! entry {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),* $(,)?) = $module:ident::$kernel:ident) => {
        $(#[$doc])*
        pub(crate) fn $name(self, $($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            if self.avx2 {
                #[target_feature(enable = "avx2,fma")]
                fn wide($($argument: $type),*) {
                    $module::$kernel::<true>($($argument),*);
                }
                // SAFETY: the processor has AVX2 and FMA, or `avx2` were not set.
                return unsafe { wide($($argument),*) };
            }
            $module::$kernel::<false>($($argument),*);
        }
    };
}

impl Instructions {
    /// Those that any processor has.
    pub(crate) const PORTABLE: Self = Self { avx2: false };

    /// The best ones of this processor.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return Self { avx2: true };
        }
        Self::PORTABLE
    }

    /// Whether products of quantized numbers are faster than others.
    pub(crate) fn prefer_quantized(self) -> bool {
        self.avx2
    }

    entry! {
        /// Brings each row of `width` numbers to mean zero and variance one, then to `gain` and `bias`.
        layer_norm(rows: &mut [f32], gain: &[f32], bias: &[f32], epsilon: f32) = arithmetic::layer_norm
    }

    entry! {
        /// Rounds rows to 16 bits, each by a scale of its own, so that no product with `matrix` can overflow.
        quantize(rows: Rows<'_>, matrix: &QuantizedMatrix, into: &mut QuantizedRows) = quantized::quantize
    }

    entry! {
        /// `out = finish(rows × matrix + bias)`.
        multiply_full(rows: Rows<'_>, matrix: &FullMatrix, finish: Finish, out: &mut [f32]) = full::multiply
    }

    entry! {
        /// Self-attention within one text.
        attend(heads: Heads<'_>, space: &mut AttentionSpace, out: &mut [f32]) = attention::attend
    }

    /// `out = finish(rows × matrix + bias)`.
    pub(crate) fn multiply_quantized(
        self,
        rows: &QuantizedRows,
        matrix: &QuantizedMatrix,
        finish: Finish,
        out: &mut [f32],
    ) {
        assert_eq!(rows.pairs(), matrix.pairs(), "rows and matrix have one depth");
        assert_eq!(out.len(), rows.count() * matrix.columns(), "there is one number a row and column");
        #[cfg(target_arch = "x86_64")]
        if self.avx2 {
            // SAFETY: the processor has AVX2 and FMA, or `avx2` were not set.
            return unsafe { avx2::multiply(rows, matrix, finish, out) };
        }
        quantized::multiply(rows, matrix, finish, out);
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
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
                let lines = matrix.lines(&depth, panel);
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
}
