//! The order in which blocks visit a matrix of tiles.

use super::Schedule;
use crate::nest::{AxisId, AxisKind, Nest, Op, Value};

/// About as many as the largest devices have.
const MULTIPROCESSORS: u32 = 128;

impl Schedule {
    /// Blocks along the outer of the grid's two innermost axes that are visited together, where both are tiled: as many as let a
    /// wave of blocks read the fewest rows and columns, so that L2 holds what they share.
    pub fn raster(&self, nest: &Nest) -> Option<u32> {
        let [.., outer, inner] = nest.grid[..] else { return None };
        if [outer, inner].iter().any(|axis| nest.axis(*axis).kind != AxisKind::Tiled) {
            return None;
        }
        // Of all operands that lie along one of them, and not along both.
        let lines = |axis: AxisId, other: AxisId| {
            let mut operands: Vec<&Op> = Vec::new();
            for Value { op, ty, .. } in &nest.values {
                let lies_along = ty.axes.len() > 1 && ty.axes.contains(&axis) && !ty.axes.contains(&other);
                if lies_along && matches!(op, Op::Load { .. }) && !operands.contains(&op) {
                    operands.push(op);
                }
            }
            operands.len().max(1) as u32 * self.blocks[axis.index()].unwrap_or(1)
        };
        let wave = MULTIPROCESSORS * self.resident;
        let read = |rows: &u32| rows * lines(outer, inner) + wave / rows * lines(inner, outer);
        let squarest = || (0..=wave.ilog2()).rev().map(|power| 1 << power).min_by_key(read);
        self.raster.or_else(squarest).filter(|rows| *rows > 1)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{gated, gemm, program};
    use proc_macro2::Literal;
    use quote::quote;

    /// 16 × 8 blocks of 64 × 128 are a wave that reads 1024 rows and as many columns.
    #[test]
    fn blocks_that_run_together_read_few_rows_and_columns() {
        let raster = |rows: u32, columns: u32, resident: u32| {
            let [i, j, resident] = [rows, columns, resident].map(Literal::u32_unsuffixed);
            program(gemm(quote!(sm_90a, i = #i, j = #j, k = 64, stages = 2, consumers = 1, resident = #resident)))
                .raster
        };
        assert_eq!([raster(64, 128, 1), raster(64, 256, 1), raster(64, 64, 2)], [Some(16), Some(32), Some(16)]);
    }

    /// Of the columns of two products side by side, twice as many.
    #[test]
    fn columns_of_two_operands_count_twice() {
        let raster = |columns: u32| {
            let columns = Literal::u32_unsuffixed(columns);
            program(gated(quote!(sm_90a, i = 128, j = #columns, k = 64, stages = 3, consumers = 2))).raster
        };
        assert_eq!([raster(64), raster(96), raster(128)], [Some(16), Some(16), Some(16)]);
    }
}
