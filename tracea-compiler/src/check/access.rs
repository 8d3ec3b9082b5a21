//! Who reads and writes which elements: no two tiles write one element, and nothing is read after it is written.

use super::{Checker, int};
use crate::nest::{AxisId, AxisKind, Int, IntOp, TensorId};
use syn::ExprIndex;

#[derive(Clone)]
struct Access {
    tensor: TensorId,
    index: Vec<Int>,
    at: ExprIndex,
}

/// In program order.
#[derive(Default)]
pub struct Accesses {
    reads: Vec<Access>,
    writes: Vec<Access>,
    /// Reads that follow a write.
    late: Vec<Access>,
    /// Number of reads and writes before each open loop.
    loops: Vec<(usize, usize)>,
}

impl Accesses {
    pub fn read(&mut self, tensor: TensorId, index: &[Int], at: &ExprIndex) {
        let access = Access { tensor, index: index.to_vec(), at: at.clone() };
        if self.writes.iter().any(|write| write.tensor == tensor) {
            self.late.push(access.clone());
        }
        self.reads.push(access);
    }

    pub fn write(&mut self, tensor: TensorId, index: &[Int], at: &ExprIndex) {
        self.writes.push(Access { tensor, index: index.to_vec(), at: at.clone() });
    }

    pub fn enter(&mut self) {
        self.loops.push((self.reads.len(), self.writes.len()));
    }
}

const KEEP: &str = "keep the value in a variable, and write the tensor once";

impl Checker<'_> {
    /// The next iteration reads what this one wrote, or writes there again, unless it moves on along the loop's axis.
    pub fn leave_loop_accesses(&mut self, axis: AxisId) {
        let Some((reads, writes)) = self.accesses.loops.pop() else { return };
        self.refuse_rewriting(axis, reads, writes);
        let again: Vec<Access> = self.accesses.reads[reads..]
            .iter()
            .filter(|read| {
                self.accesses.writes[writes..].iter().any(|write| {
                    let moves_on =
                        write.index == read.index && write.index.iter().any(|component| self.mentions(component, axis));
                    write.tensor == read.tensor && !moves_on
                })
            })
            .cloned()
            .collect();
        for read in again {
            let name = &self.nest.tensor(read.tensor).name;
            let text = format!(
                "`{name}` is read here after the iteration before wrote it, which is not supported yet -- {KEEP}"
            );
            self.ours(&read.at, text);
        }
    }

    /// Of what the blocks of an axis write to one place, the last one would remain: what that is depends on the schedule.
    fn refuse_rewriting(&mut self, axis: AxisId, reads: usize, writes: usize) {
        if self.infer.kind(axis) != AxisKind::Tiled {
            return;
        }
        let is_read = |tensor: TensorId| self.accesses.reads[reads..].iter().any(|read| read.tensor == tensor);
        let stays = |write: &&Access| {
            !is_read(write.tensor) && !write.index.iter().any(|component| self.mentions(component, axis))
        };
        let again: Vec<Access> = self.accesses.writes[writes..].iter().filter(stays).cloned().collect();
        for write in again {
            let (name, axis) = (&self.nest.tensor(write.tensor).name, self.infer.name(axis));
            let text = format!("`{name}` is written here by each block along `{axis}`, to the same place -- {KEEP}");
            self.ours(&write.at, text);
        }
    }

    pub fn check_accesses(&mut self) {
        for read in self.accesses.late.clone() {
            let name = &self.nest.tensor(read.tensor).name;
            let text = format!("`{name}` is read here after it was written, which is not supported yet -- {KEEP}");
            self.ours(&read.at, text);
        }
        for read in self.accesses.reads.clone() {
            let mut writes = self.accesses.writes.iter().filter(|write| write.tensor == read.tensor).peekable();
            if writes.peek().is_some() && !writes.any(|write| write.index == read.index) {
                let name = &self.nest.tensor(read.tensor).name;
                let text = format!(
                    "`{name}` is read at another place than it is written, where another tile may write -- read \
                        from a tensor of its own"
                );
                self.ours(&read.at, text);
            }
        }
        if !self.failure.is_empty() {
            return;
        }
        for param in &self.kernel.params {
            let Some(tensor) = self.nest.tensors.iter().position(|tensor| param.name == tensor.name) else { continue };
            let written = self.accesses.writes.iter().any(|write| write.tensor.index() == tensor);
            // Another instance's flags may have it written.
            let ever = written || self.names.stored.contains(&param.name.to_string());
            if self.nest.tensors[tensor].mutable && !ever {
                let name = &param.name;
                self.ours(
                    name,
                    format!(
                        "`{name}` is `&mut` but never written -- write `{name}[…] = …`, or take it as `&Tensor<…>`"
                    ),
                );
            }
        }
    }

    /// Every parallel axis must pick other elements for each of its blocks.
    pub fn check_coverage(&mut self, at: &ExprIndex, tensor: TensorId, index: &[Int]) {
        let name = self.nest.tensor(tensor).name.clone();
        for axis in self.nest.grid.clone() {
            let coordinates: Vec<Int> = match self.infer.extent(axis) {
                Some(crate::nest::Extent::Flat(dims)) => {
                    (0..dims.len()).map(|part| Int::FlatCoord(axis, part)).collect()
                }
                _ => vec![Int::Axis(axis)],
            };
            let loop_name = self.infer.name(axis).to_string();
            let used = index.iter().any(|component| self.mentions(component, axis));
            let covered =
                coordinates.iter().all(|coordinate| index.iter().any(|component| is_injective(component, coordinate)));
            if covered {
                continue;
            }
            let text = if !used {
                format!(
                    "two tiles could write the same element of `{name}`: its index misses the parallel axis \
                        `{loop_name}` -- index with `{loop_name}`, or make it an inner loop that sums"
                )
            } else if coordinates.len() > 1 {
                format!(
                    "two tiles could write the same element of `{name}`: its index must hold every one of \
                        `{loop_name}.coords()`, each by itself"
                )
            } else {
                format!(
                    "two tiles could write the same element of `{name}`: the index folds `{loop_name}` -- index \
                        an output with the loop variables themselves"
                )
            };
            self.ours(&at.index, text);
        }
    }
}

/// The component is the coordinate, shifted by what no loop changes, or scaled by a constant.
fn is_injective(component: &Int, coordinate: &Int) -> bool {
    match component {
        leaf if leaf == coordinate => true,
        Int::Binary(IntOp::Add, left, right) => {
            (is_injective(left, coordinate) && int::is_uniform(right))
                || (int::is_uniform(left) && is_injective(right, coordinate))
        }
        Int::Binary(IntOp::Sub, left, right) => {
            (is_injective(left, coordinate) && int::is_uniform(right))
                || (int::is_uniform(left) && is_injective(right, coordinate))
        }
        Int::Binary(IntOp::Mul, left, right) => match (&**left, &**right) {
            (scaled, Int::Const(factor)) | (Int::Const(factor), scaled) => {
                *factor != 0 && is_injective(scaled, coordinate)
            }
            _ => false,
        },
        _ => false,
    }
}
