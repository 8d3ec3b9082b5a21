//! Rows that are taken whole, vector by vector: what threads compute of a row and do not hold until the end is there of one vector at a
//! time, and vectors past the row's end take no time.
//!
//! ```text
//! square = s * s                             for each vector { square = s * s;  fold total }
//! total = sum of square              →       spread total
//! y = s * rate * gain                        for each vector { gain from shared memory;  y = …;  store }
//! ```
//! Column slices that the last of this reads come first of all, into shared memory.

use super::Lowering;
use crate::nest::{AxisId, ReduceOp};
use crate::program::layout::LayoutId;
use crate::program::pressure::reads;
use crate::program::{AccessForm, Along, CHUNK_BYTES, Domain, Expr, Kept, Scalar, Stmt, StoreWay, VarId};
use std::collections::BTreeSet;

impl Lowering<'_> {
    /// The program so far, by vectors along the axis as far as each of them goes by itself.
    pub fn by_vectors(&mut self, axis: AxisId) {
        let mut rest = std::mem::take(&mut self.out).into_iter();
        while let Some(stmt) = rest.next() {
            match stmt {
                Stmt::Reduce { op, value, target, along: Along::Cols } if self.is_float_tile(value) => {
                    let read_later = rest.as_slice().iter().flat_map(reads).collect();
                    self.reduce_by_vectors(axis, op, value, target, &read_later);
                }
                stmt => self.out.push(stmt),
            }
        }
        self.end_by_vectors(axis);
    }

    fn is_float_tile(&self, var: VarId) -> bool {
        let var = self.program.var(var);
        var.ty == Scalar::Float && matches!(var.domain, Domain::Tile(_))
    }

    /// A reduction, with the statements before it that can go by vectors.
    fn reduce_by_vectors(
        &mut self,
        axis: AxisId,
        op: ReduceOp,
        value: VarId,
        target: VarId,
        read_later: &BTreeSet<VarId>,
    ) {
        let Domain::Tile(layout) = self.program.var(value).domain else { return };
        let (declared, taken) = self
            .taken_back(layout, |_, stmt| matches!(stmt, Stmt::Map { unless_all: None, .. } | Stmt::MaskEdge { .. }));
        // What a vector has for itself is declared with it.
        let apart = |stmt: &Stmt| matches!(stmt, Stmt::Declare(var) if *var != target && !read_later.contains(var));
        let (mut vectors, outside): (Vec<Stmt>, Vec<Stmt>) = declared.into_iter().partition(apart);
        vectors.extend(taken);
        self.out.extend(outside);
        let neutral = match op {
            ReduceOp::Sum => 0.0,
            ReduceOp::Max => f64::NEG_INFINITY,
            ReduceOp::Min => f64::INFINITY,
        };
        self.out.push(Stmt::Map { target, value: Expr::Number(neutral), unless_all: None });
        vectors.push(Stmt::Fold { op, value, target, along: Along::Cols });
        self.out.push(Stmt::ByVectors { axis, layout, body: vectors });
        self.out.push(Stmt::Spread { op, target, along: Along::Cols });
    }

    /// What the program ends with.
    fn end_by_vectors(&mut self, axis: AxisId) {
        let stored = self.out.iter().rev().find_map(|stmt| match stmt {
            Stmt::Store { value, .. } => Some(self.program.var(*value).domain),
            _ => None,
        });
        let Some(Domain::Tile(layout)) = stored else { return };
        let (declared, taken) = self.taken_back(layout, |this, stmt| match stmt {
            Stmt::Map { unless_all: None, .. } | Stmt::Store { way: StoreWay::Direct, .. } => true,
            Stmt::Load { kept: None, source, .. } => {
                let along = matches!(source.form, AccessForm::Contiguous { cols, .. } if this.is_skewed(cols));
                along && !this.nest.tensor(source.tensor).mutable
            }
            _ => false,
        });
        // Rows come as a whole, so that all of one is under way at a time.
        let is_row = |stmt: &Stmt| match stmt {
            Stmt::Load { target, .. } => matches!(self.program.var(*target).domain, Domain::Tile(_)),
            _ => false,
        };
        let (rows, taken): (Vec<Stmt>, Vec<Stmt>) = taken.into_iter().partition(is_row);
        let of_rows = |stmt: &Stmt| {
            let Stmt::Declare(var) = stmt else { return false };
            rows.iter().any(|row| matches!(row, Stmt::Load { target, .. } if target == var))
        };
        let (declared, mut vectors): (Vec<Stmt>, Vec<Stmt>) = declared.into_iter().partition(of_rows);
        vectors.extend(taken);
        let mut slices: Vec<Stmt> = vectors.iter_mut().filter_map(|stmt| self.kept_slice(stmt, layout)).collect();
        self.out.extend(declared.into_iter().chain(rows));
        if !slices.is_empty() {
            slices.push(Stmt::Commit);
            let first = self.out.iter().position(|stmt| matches!(stmt, Stmt::Line(_))).unwrap_or(0);
            self.out.splice(first..first, slices);
            self.out.push(Stmt::Wait(0));
        }
        self.out.push(Stmt::ByVectors { axis, layout, body: vectors });
    }

    /// Takes from the program's end the statements that write tiles of the layout or their column slices and that `goes` names: the
    /// variables' declarations, and the rest.
    fn taken_back(&mut self, layout: LayoutId, goes: impl Fn(&Self, &Stmt) -> bool) -> (Vec<Stmt>, Vec<Stmt>) {
        let of_columns = |var: VarId| matches!(self.program.var(var).domain, Domain::Tile(found) | Domain::Cols(found) if found == layout);
        let is_taken = |stmt: &Stmt| match stmt {
            Stmt::Line(_) | Stmt::Declare(_) => true,
            Stmt::Map { target: var, .. }
            | Stmt::MaskEdge { target: var, .. }
            | Stmt::Load { target: var, .. }
            | Stmt::Store { value: var, .. } => of_columns(*var) && goes(self, stmt),
            _ => false,
        };
        let begin = self.out.iter().rposition(|stmt| !is_taken(stmt)).map_or(0, |last| last + 1);
        self.out.split_off(begin).into_iter().partition(|stmt| matches!(stmt, Stmt::Declare(_)))
    }

    /// Has a slice loaded from shared memory, and says how it comes there.
    fn kept_slice(&mut self, stmt: &mut Stmt, layout: LayoutId) -> Option<Stmt> {
        let Stmt::Load { source, kept, .. } = stmt else { return None };
        let (tensor, tile) = (self.nest.tensor(source.tensor), self.program.layout(layout));
        let (rows, cols) = (tile.rows, tile.cols);
        let shared = self.shared(&format!("{}_kept", tensor.name), tensor.dtype, rows, cols, 1);
        // Vectors lie across chunks of memory, so that there is one more of these.
        let buffer = &mut self.program.shared[shared.0 as usize];
        buffer.pitch = buffer.tile_bytes() + rows * CHUNK_BYTES;
        let slice = Kept::Slice { shared, layout };
        *kept = Some(slice.clone());
        Some(Stmt::Keep { kept: slice, source: source.clone() })
    }
}

#[cfg(test)]
mod tests {
    use crate::emit::{emit, launch_plan};
    use crate::lower::{Lowered, lower_portfolio};
    use crate::program::layout::LayoutKind;
    use crate::schedule::target::SM_80;
    use crate::testing::{self, lines};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// The portfolio's schedules that take rows whole.
    fn whole(body: TokenStream) -> Vec<Lowered> {
        let (nest, _) = testing::nest(quote! {
            fn f<M: Dim, N: Dim>(
                x: &Tensor<f16, (M, N)>, r: &Tensor<f16, (M, N)>, gain: &Tensor<f32, (N,)>, y: &mut Tensor<f16, (M, N)>,
            ) {
                tile!(for i in M { #body });
            }
        });
        let portfolio = lower_portfolio(&nest, &SM_80).expect("a portfolio");
        portfolio.into_iter().filter(|lowered| lowered.schedule.whole.is_some()).collect()
    }

    fn normed() -> Vec<Lowered> {
        whole(quote! {
            let mut squares = zeros::<f32>(i);
            tile!(for j in N { squares += (x[(i, j)].to::<f32>() * x[(i, j)].to::<f32>()).row_sum(); });
            let rate = squares.rsqrt();
            tile!(for j in N { y[(i, j)] = (x[(i, j)].to::<f32>() * rate * gain[j] + r[(i, j)].to::<f32>()).to(); });
        })
    }

    #[test]
    fn reductions_and_what_follows_them_go_by_vectors() {
        let all = normed();
        let lines = lines(&all[0].program);
        let at = |wanted: &str| {
            lines.iter().position(|line| line.starts_with(wanted)).unwrap_or_else(|| panic!("{wanted}: {lines:?}"))
        };
        let order = [
            "keep gain_kept",
            "load x_tile",
            "by vectors",
            "map value",
            "fold total",
            "spread total",
            "map rate",
            "load r_tile",
            "wait 0",
            "barrier",
            "load gain_tile",
            "map y_tile",
            "store y",
        ];
        assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{lines:?}");
        let count = |wanted: &str| lines.iter().filter(|line| line.starts_with(wanted)).count();
        assert_eq!((count("load x_tile"), count("by vectors"), count("reduce")), (1, 2, 0), "{lines:?}");
        assert_eq!(
            all[0].program.shared[0].pitch,
            4 * (1280 + 4) * 4,
            "a chunk behind the vectors of each row of threads"
        );
    }

    #[test]
    fn rows_may_be_as_long_as_vectors_hold() {
        let all = normed();
        let plans = all.iter().map(|lowered| launch_plan(lowered, emit(&lowered.nest, &lowered.program)));
        let longest: Vec<u32> = plans.filter_map(|plan| plan.longest.map(|longest| longest.block)).collect();
        assert_eq!(longest, [1280, 5120, 10240, 640, 320]);
    }

    #[test]
    fn short_rows_share_a_warp_and_have_a_slice_each() {
        let normed = normed();
        let layouts = normed.iter().map(|lowered| lowered.program.layouts[0].kind);
        let lanes: Vec<u32> = layouts
            .filter_map(|kind| if let LayoutKind::Blocked { threads_n, .. } = kind { Some(threads_n) } else { None })
            .collect();
        assert_eq!(lanes, [32, 128, 256, 16, 8]);
        assert_eq!(normed[4].program.shared[0].pitch, 16 * (320 + 4) * 4);
    }

    #[test]
    fn a_vector_takes_registers_for_itself() {
        let text = emit(&normed()[1].nest, &normed()[1].program);
        for line in [
            "if (!has_vector<IJTile>(Span{-j0, N - j0}, vector)) break;",
            "for (int reg = vector * 8; reg < (vector + 1) * 8; ++reg)",
            "fold_cols<Sum, IJTile, 8>(value, total, vector * 8);",
            "load_kept_cols_skewed<IJTile, 8>(gain_tile, gain_kept, ",
            "store_skewed<IJTile, f16, 8>(y_tile, ",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn what_a_later_vector_reads_is_there_for_all() {
        let text = |item| {
            let all = whole(item);
            emit(&all[0].nest, &all[0].program)
        };
        let kept = text(quote! {
            let mut sum = zeros::<f32>(i);
            tile!(for j in N { sum += x[(i, j)].to::<f32>().exp().row_sum(); });
            tile!(for j in N { y[(i, j)] = (x[(i, j)].to::<f32>().exp() / sum).to(); });
        });
        let (declared, loops) = (
            kept.find("float value[IJTile::size];").expect("the exponentials"),
            kept.find("int vector").expect("vectors"),
        );
        assert!(declared < loops, "{kept}");
    }
}
