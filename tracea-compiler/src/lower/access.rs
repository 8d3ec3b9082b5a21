//! Index expressions → rows, columns and the bounds that must be checked.

use super::Lowering;
use super::analysis::{axes_in, is_tiled, mentions};
use crate::nest::{AxisId, Extent, Int, TensorId};
use crate::program::{Access, AccessForm};

impl Lowering<'_> {
    /// How a tile with these row and column axes lies in the tensor.
    pub fn access(&mut self, tensor: TensorId, index: &[Int], rows: Option<AxisId>, cols: Option<AxisId>) -> Access {
        let form = match cols {
            Some(cols) if self.runs_along(index, cols) => AccessForm::Contiguous { rows, cols },
            _ => AccessForm::Scattered { rows, cols },
        };
        if matches!(form, AccessForm::Contiguous { .. }) && !self.program.aligned.contains(&tensor) {
            self.program.aligned.push(tensor);
        }
        let dims = &self.nest.tensor(tensor).dims;
        let mut limits = Vec::new();
        let mut inside = Vec::new();
        for (at, int) in index.iter().enumerate() {
            let exact = match int {
                Int::Axis(axis) => self.nest.axis(*axis).extent == Extent::Dim(dims[at]),
                Int::FlatCoord(axis, part) => {
                    matches!(&self.nest.axis(*axis).extent, Extent::Flat(parts) if parts[*part] == dims[at])
                }
                _ => false,
            };
            if !exact && !self.provably_inside(int, self.nest.dim(dims[at]).known) {
                inside.push(at);
            }
            axes_in(int, &mut |axis| {
                let by_columns = matches!(form, AccessForm::Contiguous { cols, .. } if cols == axis);
                if is_tiled(self.nest, axis) && self.partial(axis) && !by_columns && !limits.contains(&axis) {
                    limits.push(axis);
                }
            });
        }
        // A tile may span an axis that its index does not name (a broadcast row); its edge is nobody's concern.
        Access { tensor, index: index.to_vec(), form, limits, inside }
    }

    /// Whether the tensor is contiguous along the axis, from the block's start on a multiple of the block.
    fn runs_along(&self, index: &[Int], axis: AxisId) -> bool {
        let Some((last, others)) = index.split_last() else { return false };
        *last == Int::Axis(axis) && !others.iter().any(|int| mentions(int, axis)) && !self.shifted.contains(&axis)
    }

    fn provably_inside(&self, int: &Int, size: Option<i64>) -> bool {
        match (int, size) {
            (Int::Const(at), Some(size)) => (0..size).contains(at),
            _ => false,
        }
    }
}
