//! Matrix products in 16-bit integers with 32-bit sums. Weights are scaled by column to ±8191. A row is
//! scaled so that, by Cauchy–Schwarz, no sum of its products overflows, whatever its numbers are.

use std::ops::Range;

use super::arithmetic::{ROUNDING, TileEpilogue, largest_magnitude, sum_of_squares, write_tile_row};
use super::{Epilogue, PANEL, Rows};

/// Depth of a block in pairs: its panel of sixteen columns takes 24 KiB, which leaves room in the L1 cache.
const BLOCK_PAIRS: usize = 384;

const WEIGHT_LIMIT: f32 = 8191.0;
const ROW_LIMIT: f32 = 32_700.0;

/// A row or column whose numbers are all smaller counts as zero, so that no scale overflows.
pub(super) const NEGLIGIBLE: f32 = 1e-30;

/// Two consecutive numbers of a row, which one instruction multiplies and adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Pair(i32);

impl Pair {
    #[inline(always)]
    fn new(first: i16, second: i16) -> Self {
        Self(i32::from(second) << 16 | i32::from(first.cast_unsigned()))
    }

    #[inline(always)]
    pub(super) fn bits(self) -> i32 {
        self.0
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low sixteen bits are the first number")]
    fn numbers(self) -> [i32; 2] {
        [i32::from(self.0 as i16), self.0 >> 16]
    }
}

/// Two rows of a panel, sixteen columns of a matrix: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct WeightLine([[i16; 2]; PANEL]);

/// A matrix and its bias, packed in lines ordered by depth block, panel and depth.
#[derive(Debug)]
pub(crate) struct QuantizedMatrix {
    depth: usize,
    columns: usize,
    lines: Vec<WeightLine>,
    scales: Vec<[f32; PANEL]>,
    bias: Vec<[f32; PANEL]>,
    /// The largest Euclidean norm of a quantized column.
    largest_norm: f32,
}

impl QuantizedMatrix {
    /// Packs a matrix given column by column.
    pub(crate) fn pack(weights: &[f32], bias: &[f32]) -> Self {
        let columns = bias.len();
        let depth = weights.len() / columns;
        let panels = columns.div_ceil(PANEL);
        let mut packed = Self {
            depth,
            columns,
            lines: vec![WeightLine([[0; 2]; PANEL]); depth.div_ceil(2) * panels],
            scales: vec![[0.0; PANEL]; panels],
            bias: vec![[0.0; PANEL]; panels],
            largest_norm: 0.0,
        };
        for (index, (column, bias)) in weights.chunks_exact(depth).zip(bias).enumerate() {
            packed.bias[index / PANEL][index % PANEL] = *bias;
            packed.pack_column(index, column);
        }
        packed
    }

    fn pack_column(&mut self, index: usize, column: &[f32]) {
        let largest = largest_magnitude(column);
        if largest < NEGLIGIBLE {
            return;
        }
        let scale = WEIGHT_LIMIT / largest;
        let (panel, lane) = (index / PANEL, index % PANEL);
        self.scales[panel][lane] = largest / WEIGHT_LIMIT;
        let mut squares = 0.0;
        for (row, weight) in column.iter().enumerate() {
            let rounded = round(weight * scale);
            squares += f64::from(rounded) * f64::from(rounded);
            let line = self.line_of(row / 2, panel);
            self.lines[line].0[lane][row % 2] = rounded;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the norm of some thousand numbers up to 8191")]
        let norm = squares.sqrt() as f32;
        self.largest_norm = self.largest_norm.max(norm);
    }

    fn line_of(&self, pair: usize, panel: usize) -> usize {
        let start = pair / BLOCK_PAIRS * BLOCK_PAIRS;
        let length = BLOCK_PAIRS.min(self.pairs() - start);
        start * self.panels() + panel * length + (pair - start)
    }

    pub(super) fn pairs(&self) -> usize {
        self.depth.div_ceil(2)
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn panels(&self) -> usize {
        self.bias.len()
    }

    /// The pairs of each depth block, and the epilogue of its tiles.
    pub(super) fn depth_blocks(
        &self,
        epilogue: Epilogue,
    ) -> impl Iterator<Item = (Range<usize>, TileEpilogue)> + use<> {
        let pairs = self.pairs();
        (0..pairs).step_by(BLOCK_PAIRS).map(move |start| {
            let block = start..pairs.min(start + BLOCK_PAIRS);
            let epilogue = TileEpilogue::of_block(&block, pairs, epilogue);
            (block, epilogue)
        })
    }

    /// The lines of a depth block for consecutive panels, panel by panel.
    pub(super) fn lines(&self, depth: &Range<usize>, panels: Range<usize>) -> &[WeightLine] {
        let start = self.line_of(depth.start, panels.start);
        &self.lines[start..][..panels.len() * depth.len()]
    }

    /// Rescales a row's integer sums in a panel and writes them to the row of the output.
    #[inline(always)]
    pub(super) fn write_row<const FUSED: bool>(
        &self,
        sums: &[f32; PANEL],
        row_scale: f32,
        panel: usize,
        epilogue: TileEpilogue,
        out: &mut [f32],
    ) {
        let mut scaled = *sums;
        for (sum, column_scale) in scaled.iter_mut().zip(&self.scales[panel]) {
            *sum *= row_scale * column_scale;
        }
        let width = PANEL.min(self.columns - panel * PANEL);
        write_tile_row::<FUSED>(scaled, &self.bias[panel], epilogue, &mut out[panel * PANEL..][..width]);
    }
}

/// Rows quantized for one matrix, with a scale for each. Reused from product to product.
#[derive(Debug, Default)]
pub(crate) struct QuantizedRows {
    pairs: usize,
    values: Vec<Pair>,
    scales: Vec<f32>,
}

impl QuantizedRows {
    pub(super) fn count(&self) -> usize {
        self.scales.len()
    }

    pub(super) fn pairs(&self) -> usize {
        self.pairs
    }

    /// The pairs of a row and of all rows after it.
    #[inline(always)]
    pub(super) fn rows_from(&self, index: usize) -> &[Pair] {
        &self.values[index * self.pairs..]
    }

    /// Factor from a row's integers to its numbers.
    #[inline(always)]
    pub(super) fn scale(&self, index: usize) -> f32 {
        self.scales[index]
    }
}

/// The portable kernel. Its integer sums equal those of the AVX kernels.
pub(super) fn multiply(rows: &QuantizedRows, matrix: &QuantizedMatrix, epilogue: Epilogue, out: &mut [f32]) {
    for (depth, epilogue) in matrix.depth_blocks(epilogue) {
        for panel in 0..matrix.panels() {
            let lines = matrix.lines(&depth, panel..panel + 1);
            for (row, out) in out.chunks_exact_mut(matrix.columns).enumerate() {
                let mut sums = [0; PANEL];
                for (pair, line) in rows.rows_from(row)[depth.clone()].iter().zip(lines) {
                    let [first, second] = pair.numbers();
                    for (sum, weights) in sums.iter_mut().zip(line.0) {
                        *sum += first * i32::from(weights[0]) + second * i32::from(weights[1]);
                    }
                }
                let sums = sums.map(|sum| sum as f32);
                matrix.write_row::<false>(&sums, rows.scale(row), panel, epilogue, out);
            }
        }
    }
}

#[inline(always)]
pub(super) fn quantize<const FUSED: bool>(
    rows: Rows<'_>,
    matrix: &QuantizedMatrix,
    into: &mut QuantizedRows,
) {
    assert_eq!(rows.depth(), matrix.depth, "rows and matrix have one depth");
    into.pairs = matrix.pairs();
    into.values.resize(rows.count() * into.pairs, Pair::default());
    into.scales.resize(rows.count(), 0.0);
    for (index, scale) in into.scales.iter_mut().enumerate() {
        let pairs = &mut into.values[index * into.pairs..][..into.pairs];
        *scale = quantize_row::<FUSED>(rows.row(index), matrix.largest_norm, pairs);
    }
}

#[inline(always)]
fn quantize_row<const FUSED: bool>(row: &[f32], largest_norm: f32, into: &mut [Pair]) -> f32 {
    let largest = largest_magnitude(row);
    if largest < NEGLIGIBLE {
        into.fill(Pair::default());
        return 0.0;
    }
    // Relative to the largest number, so that no square overflows.
    let unit = 1.0 / largest;
    let norm = sum_of_squares::<FUSED>(row, unit).sqrt();
    let levels = ROW_LIMIT.min(norm_limit(row.len(), largest_norm) / norm);
    let scale = unit * levels;
    let (pairs, last) = row.as_chunks::<2>();
    for (pair, [first, second]) in into.iter_mut().zip(pairs) {
        *pair = Pair::new(round(first * scale), round(second * scale));
    }
    if let ([last], Some(pair)) = (last, into.last_mut()) {
        *pair = Pair::new(round(last * scale), 0);
    }
    largest / levels
}

/// The largest norm of a quantized row whose sums stay within 31 bits: the bound by Cauchy–Schwarz, less what
/// rounding each number by a half may add to the norm, less a margin for float arithmetic here.
fn norm_limit(depth: usize, largest_column_norm: f32) -> f32 {
    let rounding = 0.5 * (depth as f32).sqrt();
    let allowed = 0.999 * 2_147_483_648.0 / largest_column_norm.max(1.0) - rounding;
    allowed.max(1.0)
}

/// The nearest integer of a number within ±2²¹.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low sixteen bits are the number")]
fn round(value: f32) -> i16 {
    (value + ROUNDING).to_bits() as i16
}
