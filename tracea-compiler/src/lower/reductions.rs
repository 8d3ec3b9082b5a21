//! Reductions: what is masked before one, where its result lives, and what it passes through scratch memory.

use super::Lowering;
use super::analysis::untransposed;
use crate::nest::{AxisId, ReduceOp, ValueId};
use crate::program::{Along, Domain, Expr, Identity, Scalar, Stmt};
use crate::schedule::ScheduleError;

impl Lowering<'_> {
    pub fn reduce(&mut self, id: ValueId, op: ReduceOp, input: ValueId, axis: AxisId) -> Result<(), ScheduleError> {
        let input = untransposed(self.nest, input);
        let mut var = self.materialize(input)?;
        if matches!(self.program.var(var).ty, Scalar::F16 | Scalar::Bf16 | Scalar::Tf32) {
            // Sums and comparisons run in f32.
            let domain = self.program.var(var).domain;
            let wide = self.declare(&self.name(input), Scalar::Float, domain);
            self.map(wide, Expr::Convert(Scalar::Float, Box::new(Expr::Var(var))));
            var = wide;
        }
        let identity = match op {
            ReduceOp::Sum => Identity::Zero,
            ReduceOp::Max => Identity::NegInfinity,
            ReduceOp::Min => Identity::Infinity,
        };
        self.mask_edge(var, axis, identity);
        let (along, domain) = match self.program.var(var).domain {
            Domain::Tile(layout) => match self.program.layout(layout).row_axis {
                None => (Along::Cols, Domain::Once),
                Some(row) if row == axis => (Along::Rows, Domain::Cols(layout)),
                Some(_) => (Along::Cols, Domain::Rows(layout)),
            },
            Domain::Rows(_) | Domain::Cols(_) => (Along::Slice, Domain::Once),
            Domain::Once => {
                self.vars.insert(id, var);
                return Ok(());
            }
        };
        self.scratch = self.scratch.max(self.reduction_bytes(self.program.var(var).domain, along));
        let ty = self.program.var(var).ty;
        let target = self.declare(&self.name(id), ty, domain);
        self.out.push(Stmt::Reduce { op, value: var, target, along });
        self.vars.insert(id, target);
        Ok(())
    }

    /// Scratch for one partial result of each group of threads that shares a row or column with others.
    fn reduction_bytes(&self, domain: Domain, along: Along) -> u32 {
        let (Domain::Tile(id) | Domain::Rows(id) | Domain::Cols(id)) = domain else { return 0 };
        let layout = self.program.layout(id);
        let (across, down) = (layout.parts_along_cols(), layout.parts_along_rows());
        let (parts, results) = match (along, domain) {
            (Along::Rows, _) => (down, layout.cols),
            (Along::Cols, _) if layout.row_axis.is_some() => (across, layout.rows),
            (_, Domain::Rows(_)) => (down, 1),
            _ => (across, 1),
        };
        if parts > 1 { parts * results * 4 } else { 0 }
    }
}
