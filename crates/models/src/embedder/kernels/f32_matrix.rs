//! Matrix products in 32-bit floats: for attention, for all products on processors without AVX2, and as the
//! reference of the quantized ones.

use std::ops::Range;

use super::arithmetic::{TileEpilogue, multiply_add, write_tile_row};
use super::{BLOCK, Epilogue, PANEL};

/// Depth of a block: its panel of sixteen columns takes 24 KiB, which leaves room in the L1 cache.
const BLOCK_DEPTH: usize = 384;

/// A view of rows of `depth` numbers that begin `stride` apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    values: &'a [f32],
    depth: usize,
    stride: usize,
    count: usize,
}

impl<'a> Rows<'a> {
    /// Consecutive rows.
    pub(crate) fn new(values: &'a [f32], depth: usize) -> Self {
        Self::strided(values, depth, depth, values.len() / depth)
    }

    /// Rows with a gap between them.
    pub(crate) fn strided(values: &'a [f32], depth: usize, stride: usize, count: usize) -> Self {
        assert!(count == 0 || (count - 1) * stride + depth <= values.len(), "the rows lie within the values");
        Self { values, depth, stride, count }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    #[inline(always)]
    pub(super) fn row(&self, index: usize) -> &'a [f32] {
        &self.values[index * self.stride..][..self.depth]
    }
}

/// One row of a panel, sixteen columns of a matrix: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(super) [f32; PANEL]);

impl Line {
    pub(super) const ZERO: Self = Self([0.0; PANEL]);
}

/// A matrix and its bias, packed in lines ordered by depth block, panel and depth.
#[derive(Debug)]
pub(crate) struct F32Matrix {
    depth: usize,
    columns: usize,
    lines: Vec<Line>,
    bias: Vec<[f32; PANEL]>,
}

impl F32Matrix {
    /// Packs a matrix given column by column.
    pub(crate) fn pack(weights: &[f32], bias: &[f32]) -> Self {
        let columns = bias.len();
        let depth = weights.len() / columns;
        let panels = columns.div_ceil(PANEL);
        let mut packed = Self {
            depth,
            columns,
            lines: vec![Line::ZERO; depth * panels],
            bias: vec![[0.0; PANEL]; panels],
        };
        for (index, (column, bias)) in weights.chunks_exact(depth).zip(bias).enumerate() {
            let (panel, lane) = (index / PANEL, index % PANEL);
            packed.bias[panel][lane] = *bias;
            for (row, weight) in column.iter().enumerate() {
                let line = packed.line_of(row, panel);
                packed.lines[line].0[lane] = *weight;
            }
        }
        packed
    }

    fn line_of(&self, row: usize, panel: usize) -> usize {
        let start = row / BLOCK_DEPTH * BLOCK_DEPTH;
        let length = BLOCK_DEPTH.min(self.depth - start);
        start * self.bias.len() + panel * length + (row - start)
    }

    fn lines(&self, depth: &Range<usize>, panel: usize) -> &[Line] {
        let start = self.line_of(depth.start, panel);
        &self.lines[start..start + depth.len()]
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }
}

#[inline(always)]
pub(super) fn multiply<const FUSED: bool>(
    rows: Rows<'_>,
    matrix: &F32Matrix,
    epilogue: Epilogue,
    out: &mut [f32],
) {
    let columns = matrix.columns;
    assert_eq!(rows.depth, matrix.depth, "rows and matrix have one depth");
    assert_eq!(out.len(), rows.count * columns, "the output has one number for each row and column");
    for start in (0..matrix.depth).step_by(BLOCK_DEPTH) {
        let depth = start..matrix.depth.min(start + BLOCK_DEPTH);
        let epilogue = TileEpilogue::of_block(&depth, matrix.depth, epilogue);
        let block = Rows::strided(&rows.values[start..], depth.len(), rows.stride, rows.count);
        for (panel, bias) in matrix.bias.iter().enumerate() {
            let width = PANEL.min(columns - panel * PANEL);
            multiply_panel::<FUSED>(block, matrix.lines(&depth, panel), |row, sums| {
                write_tile_row::<FUSED>(
                    sums,
                    bias,
                    epilogue,
                    &mut out[row * columns + panel * PANEL..][..width],
                );
            });
        }
    }
}

/// Multiplies all rows with the columns of a panel, and passes each row's sums to `take`.
#[inline(always)]
pub(super) fn multiply_panel<const FUSED: bool>(
    rows: Rows<'_>,
    lines: &[Line],
    mut take: impl FnMut(usize, [f32; PANEL]),
) {
    for start in (0..rows.count).step_by(BLOCK) {
        let taken = BLOCK.min(rows.count - start);
        let mut sums = [[0.0; PANEL]; BLOCK];
        macro_rules! tile {
            ($($rows:literal)*) => {
                match taken {
                    $($rows => {
                        let block = std::array::from_fn(|row| rows.row(start + row));
                        sums[..$rows].copy_from_slice(&tile::<FUSED, $rows>(block, lines));
                    })*
                    _ => unreachable!("a block has one to six rows"),
                }
            };
        }
        tile!(1 2 3 4 5 6);
        for (row, sums) in (start..).zip(&sums[..taken]) {
            take(row, *sums);
        }
    }
}

#[inline(always)]
fn tile<const FUSED: bool, const ROWS: usize>(rows: [&[f32]; ROWS], lines: &[Line]) -> [[f32; PANEL]; ROWS] {
    for row in rows {
        assert!(row.len() >= lines.len(), "the rows are as deep as the matrix");
    }
    let mut sums = [[0.0; PANEL]; ROWS];
    for (step, Line(weights)) in lines.iter().enumerate() {
        let weights = *weights;
        for (row, sums) in rows.iter().zip(&mut sums) {
            let number = row[step];
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum = multiply_add::<FUSED>(number, weight, *sum);
            }
        }
    }
    sums
}
