//! Reductions: what is masked before one, where its result lives, and what it passes through scratch memory.

use super::Lowering;
use super::analysis::untransposed;
use crate::nest::{AxisId, ReduceOp, ValueId};
use crate::program::{Along, Domain, Expr, Identity, Scalar, Stmt, VarId};
use crate::schedule::ScheduleError;

impl Lowering<'_> {
    /// The value's registers, in f32: sums and comparisons run in it.
    pub fn wide(&mut self, input: ValueId) -> Result<VarId, ScheduleError> {
        let var = self.materialize(input)?;
        if !matches!(self.program.var(var).ty, Scalar::F16 | Scalar::Bf16 | Scalar::Tf32) {
            return Ok(var);
        }
        let domain = self.program.var(var).domain;
        let wide = self.declare(&self.name(input), Scalar::Float, domain);
        self.map(wide, Expr::Convert(Scalar::Float, Box::new(Expr::Var(var))));
        Ok(wide)
    }

    pub fn reduce(&mut self, id: ValueId, op: ReduceOp, input: ValueId, axis: AxisId) -> Result<(), ScheduleError> {
        let input = untransposed(self.nest, input);
        let var = self.wide(input)?;
        self.mask_edge(var, axis, identity(op));
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
    pub fn reduction_bytes(&self, domain: Domain, along: Along) -> u32 {
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

/// What a reduction makes no difference by.
pub fn identity(op: ReduceOp) -> Identity {
    match op {
        ReduceOp::Sum => Identity::Zero,
        ReduceOp::Max => Identity::NegInfinity,
        ReduceOp::Min => Identity::Infinity,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{lines, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// What is folded, reduced and spread.
    fn steps(update: TokenStream) -> Vec<String> {
        let program = program(quote! {
            #[schedule(sm_80, i = 4, j = 512)]
            fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
                tile!(for i in M {
                    let mut total = zeros::<f32>(i);
                    tile!(for j in N { #update });
                    y[i] = total;
                });
            }
        });
        let words = ["fold", "spread", "reduce"];
        lines(&program).into_iter().filter(|line| words.iter().any(|word| line.starts_with(word))).collect()
    }

    #[test]
    fn a_running_sum_is_spread_once() {
        let expected = [
            "fold total = Sum of x_tile along Cols",
            "fold total = Sum of x_tile_2 along Cols",
            "spread total (Sum along Cols)",
        ];
        assert_eq!(steps(quote!(total += x[(i, j)].row_sum();)), expected);
    }

    #[test]
    fn running_sums_of_several_loops_are_each_spread_once() {
        let program = program(quote! {
            #[schedule(sm_80, i = 4, j = 512)]
            fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
                tile!(for i in M {
                    let mut sum = zeros::<f32>(i);
                    tile!(for j in N { sum += x[(i, j)].row_sum(); });
                    let mut squares = zeros::<f32>(i);
                    tile!(for j in N { squares += ((x[(i, j)] - sum) * (x[(i, j)] - sum)).row_sum(); });
                    y[i] = squares;
                });
            }
        });
        let lines = lines(&program);
        assert_eq!(lines.iter().filter(|line| line.starts_with("spread")).count(), 2, "{lines:?}");
        assert!(!lines.iter().any(|line| line.starts_with("reduce")), "{lines:?}");
    }

    #[test]
    fn what_the_loop_reads_is_whole_at_each_step() {
        let steps = steps(quote!(total += (x[(i, j)] * total).row_sum();));
        assert!(!steps.is_empty() && steps.iter().all(|step| step.starts_with("reduce")), "{steps:?}");
    }
}
