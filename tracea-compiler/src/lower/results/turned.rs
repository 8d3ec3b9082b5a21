//! Results that are what was loaded, with their axes in another order: copied as they lie, by way of shared memory
//! (`copy_turned.cuh`), whatever memory's rows are aligned to.

use crate::lower::Lowering;
use crate::lower::analysis::{Facts, untransposed};
use crate::nest::{AxisId, AxisKind, Dtype, Int, Nest, Op, TensorId, ValueId};
use crate::program::layout::LayoutId;
use crate::program::{Access, CHUNK_BYTES, Stmt, VarId};

/// The load that a stored value comes from, where the two tensors are contiguous along different axes of the grid and nothing else
/// reads it. A copy reads when it writes, and beyond its tile: nobody may write what it reads.
pub fn copied(nest: &Nest, facts: &Facts, tensor: TensorId, index: &[Int], value: ValueId) -> Option<ValueId> {
    let load = untransposed(nest, value);
    let Op::Load { tensor: from, index: place } = &nest.value(load).op else { return None };
    let alike = nest.tensor(*from).dtype == nest.tensor(tensor).dtype && moves(nest.tensor(tensor).dtype);
    let constant = !nest.tensor(*from).mutable;
    let along = |index: &[Int]| match index.last() {
        Some(Int::Axis(axis)) if nest.grid.contains(axis) && nest.axis(*axis).kind == AxisKind::Tiled => Some(*axis),
        _ => None,
    };
    let (read, written) = (along(place)?, along(index)?);
    let alone = facts.used_once(load) && facts.used_once(value);
    (alike && constant && alone && read != written).then_some(load)
}

fn moves(dtype: Dtype) -> bool {
    matches!(dtype.bytes(), 2 | 4) && dtype != Dtype::Tf32
}

/// Bytes of `TurnedRows` for a tile of so many rows and columns, where so many threads share them out evenly.
fn scratch_bytes(rows: u32, cols: u32, threads: u32, dtype: Dtype) -> Option<u32> {
    let count = CHUNK_BYTES / dtype.bytes();
    let chunks = cols / count;
    let read = cols.is_multiple_of(count) && threads.is_multiple_of(chunks) && rows.is_multiple_of(threads / chunks);
    let written =
        rows.is_multiple_of(8 * count) && cols.is_multiple_of(threads / 8) && (threads / 8).is_multiple_of(count);
    let step = count * (chunks + 1) * count + count;
    (read && written).then(|| (rows + 2 * count) / count * step * dtype.bytes())
}

impl Lowering<'_> {
    /// Instead of the load that has just been lowered, a copy: false where there is none, or threads could not share it.
    pub fn copy_turned(
        &mut self,
        (tensor, index): (TensorId, &[Int]),
        (value, var): (ValueId, VarId),
        layout: LayoutId,
        (rows, cols): (AxisId, AxisId),
    ) -> bool {
        let shape = self.program.layout(layout);
        let dtype = self.nest.tensor(tensor).dtype;
        let bytes = scratch_bytes(shape.rows, shape.cols, self.schedule.threads(), dtype);
        let (Some(bytes), Some(_)) = (bytes, copied(self.nest, self.facts, tensor, index, value)) else { return false };
        let is_load = |stmt: &Stmt| matches!(stmt, Stmt::Load { target, .. } if *target == var);
        let Some(at) = self.out.iter().rposition(is_load) else { return false };
        let Stmt::Load { source, kept: None, .. } = self.out[at].clone() else { return false };
        let target = self.access(tensor, index, Some(cols), Some(rows));
        let by_rows = |access: &Access| self.is_to_rows(access) && access.inside.is_empty();
        if !by_rows(&source) || !by_rows(&target) {
            return false;
        }
        self.out.remove(at);
        self.out.retain(|stmt| *stmt != Stmt::Declare(var));
        self.scratch = self.scratch.max(bytes);
        self.turns = true;
        self.out.push(Stmt::CopyTurned { source, target, rows, cols, layout });
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{lines, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn written(y: TokenStream, rest: TokenStream) -> Vec<String> {
        lines(&program(quote! {
            fn f<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, y: &mut Tensor<#y, (N, M)>, z: &mut Tensor<f16, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let tile = x[(i, j)];
                    #rest
                });
            }
        }))
    }

    #[test]
    fn what_is_stored_as_it_was_loaded_is_copied() {
        let copy = written(quote!(f16), quote!(y[(j, i)] = tile.t(); z[(i, j)] = x[(i, j)];));
        assert!(copy.contains(&"copy turned y by rows <- x by rows".to_string()), "{copy:?}");
        assert!(!copy.iter().any(|line| line.starts_with("transpose ")), "{copy:?}");
    }

    #[test]
    fn what_is_converted_computed_or_read_twice_is_not() {
        for (y, rest) in [
            (quote!(f32), quote!(y[(j, i)] = tile.t().to(); z[(i, j)] = x[(i, j)];)),
            (quote!(f16), quote!(y[(j, i)] = tile.t() + 1.0; z[(i, j)] = x[(i, j)];)),
            (quote!(f16), quote!(y[(j, i)] = tile.t(); z[(i, j)] = tile;)),
        ] {
            let lines = written(y, rest);
            assert!(lines.iter().any(|line| line.starts_with("transpose ")), "{lines:?}");
        }
    }

    #[test]
    fn what_the_kernel_writes_is_read_in_its_place() {
        let lines = lines(&program(quote! {
            fn f<M: Dim, N: Dim>(x: &mut Tensor<f16, (M, N)>, y: &mut Tensor<f16, (N, M)>, z: &Tensor<f16, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let tile = x[(i, j)];
                    x[(i, j)] = z[(i, j)];
                    y[(j, i)] = tile.t();
                });
            }
        }));
        assert!(!lines.iter().any(|line| line.starts_with("copy turned ")), "{lines:?}");
        let at = |wanted: &str| lines.iter().position(|line| line.starts_with(wanted)).expect(wanted);
        assert!(at("load tile <- x") < at("store x "), "{lines:?}");
    }

    /// Rows of 16 chunks and two sectors more, a chunk past each eight of them for the banks' sake.
    #[test]
    fn scratch_holds_rows_by_whole_chunks() {
        use super::scratch_bytes;
        use crate::nest::Dtype;
        assert_eq!(scratch_bytes(64, 128, 256, Dtype::F16), Some((64 + 16) / 8 * (8 * 17 + 1) * 16));
        assert_eq!(scratch_bytes(64, 64, 256, Dtype::F32), Some((64 + 8) / 4 * (4 * 17 + 1) * 16));
        assert_eq!(scratch_bytes(32, 128, 256, Dtype::F16), None);
        assert_eq!(scratch_bytes(64, 16, 256, Dtype::F16), None);
    }
}
