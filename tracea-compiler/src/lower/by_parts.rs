//! Rows that are taken whole, part by part, the elements at their ends and each vector: what threads compute of a row and do not hold until
//! the end is there of one part at a time, and vectors past the row's end take no time.
//!
//! ```text
//! square = s * s                             for each part { square = s * s;  fold total }
//! total = sum of square              →       spread total
//! y = s * rate * gain                        for each part { gain from shared memory;  y = …;  store }
//! ```
//! Column slices come first of all, into shared memory.

use super::Lowering;
use super::reductions::identity;
use crate::nest::{ReduceOp, TensorId};
use crate::program::layout::LayoutId;
use crate::program::pressure::reads;
use crate::program::shared::Shared;
use crate::program::{Access, AccessForm, Along, CHUNK_BYTES, Domain, Expr, Kept, Scalar, Stmt, StoreWay, VarId};
use std::collections::BTreeSet;

impl Lowering<'_> {
    /// The program so far, by the parts of rows as far as each of them goes by itself.
    pub fn by_parts(&mut self) {
        let keeps = self.keep_slices();
        let mut rest = std::mem::take(&mut self.out).into_iter();
        while let Some(stmt) = rest.next() {
            match stmt {
                Stmt::Reduce { op, value, target, along: Along::Cols } if self.is_float_tile(value) => {
                    let read_later = rest.as_slice().iter().flat_map(reads).collect();
                    self.reduce_by_parts(op, value, target, &read_later);
                }
                stmt => self.out.push(stmt),
            }
        }
        self.end_by_parts();
        if !keeps.is_empty() {
            self.bring_slices(keeps);
        }
    }

    fn is_float_tile(&self, var: VarId) -> bool {
        let var = self.program.var(var);
        var.ty == Scalar::Float && matches!(var.domain, Domain::Tile(_))
    }

    /// A reduction, with the statements before it that can go by parts.
    fn reduce_by_parts(&mut self, op: ReduceOp, value: VarId, target: VarId, read_later: &BTreeSet<VarId>) {
        let Domain::Tile(layout) = self.program.var(value).domain else { return };
        let (declared, taken) = self.taken_back(layout, |stmt| match stmt {
            Stmt::Map { unless_all: None, .. } | Stmt::MaskEdge { .. } => true,
            Stmt::Load { kept, .. } => matches!(kept, Some(Kept::Slice { .. })),
            _ => false,
        });
        // What a part has for itself is declared with it.
        let apart = |stmt: &Stmt| matches!(stmt, Stmt::Declare(var) if *var != target && !read_later.contains(var));
        let (mut parts, outside): (Vec<Stmt>, Vec<Stmt>) = declared.into_iter().partition(apart);
        parts.extend(taken);
        self.out.extend(outside);
        let neutral = identity(op).number();
        self.out.push(Stmt::Map { target, value: Expr::Number(neutral), unless_all: None });
        parts.push(Stmt::Fold { op, value, target, along: Along::Cols });
        self.out.push(Stmt::ByParts { layout, body: parts });
        self.out.push(Stmt::Spread { op, target, along: Along::Cols });
    }

    /// What the program ends with.
    fn end_by_parts(&mut self) {
        let stored = self.out.iter().rev().find_map(|stmt| match stmt {
            Stmt::Store { value, .. } => Some(self.program.var(*value).domain),
            _ => None,
        });
        let Some(Domain::Tile(layout)) = stored else { return };
        let (declared, taken) = self.taken_back(layout, |stmt| {
            let straight = matches!(stmt, Stmt::Map { unless_all: None, .. } | Stmt::Load { .. });
            straight || matches!(stmt, Stmt::Store { way: StoreWay::Direct, .. })
        });
        // Rows come as a whole, so that all of one is under way at a time.
        let is_row = |stmt: &Stmt| matches!(stmt, Stmt::Load { kept: None, .. });
        let (rows, taken): (Vec<Stmt>, Vec<Stmt>) = taken.into_iter().partition(is_row);
        let of_rows = |stmt: &Stmt| {
            let Stmt::Declare(var) = stmt else { return false };
            rows.iter().any(|row| matches!(row, Stmt::Load { target, .. } if target == var))
        };
        let (declared, mut parts): (Vec<Stmt>, Vec<Stmt>) = declared.into_iter().partition(of_rows);
        parts.extend(taken);
        self.out.extend(declared.into_iter().chain(rows));
        self.out.push(Stmt::ByParts { layout, body: parts });
    }

    /// Takes from the program's end the statements that write tiles of the layout or their column slices and that `goes` names: the
    /// variables' declarations, and the rest.
    fn taken_back(&mut self, layout: LayoutId, goes: impl Fn(&Stmt) -> bool) -> (Vec<Stmt>, Vec<Stmt>) {
        let of_columns = |var: VarId| matches!(self.program.var(var).domain, Domain::Tile(found) | Domain::Cols(found) if found == layout);
        let along = |source: &Access| {
            let whole = matches!(source.form, AccessForm::Contiguous { cols, .. } if self.is_whole(cols));
            whole && !self.nest.tensor(source.tensor).mutable
        };
        let is_taken = |stmt: &Stmt| match stmt {
            Stmt::Line(_) | Stmt::Declare(_) => true,
            Stmt::Load { target: var, source, .. } => of_columns(*var) && along(source) && goes(stmt),
            Stmt::Map { target: var, .. } | Stmt::MaskEdge { target: var, .. } | Stmt::Store { value: var, .. } => {
                of_columns(*var) && goes(stmt)
            }
            _ => false,
        };
        let begin = self.out.iter().rposition(|stmt| !is_taken(stmt)).map_or(0, |last| last + 1);
        self.out.split_off(begin).into_iter().partition(|stmt| matches!(stmt, Stmt::Declare(_)))
    }

    /// Has column slices loaded from shared memory, and says how they come there.
    fn keep_slices(&mut self) -> Vec<Stmt> {
        let mut keeps = Vec::new();
        let mut stmts = std::mem::take(&mut self.out);
        for stmt in &mut stmts {
            let Stmt::Load { target, source, kept } = stmt else { continue };
            let Domain::Cols(layout) = self.program.var(*target).domain else { continue };
            if !matches!(source.form, AccessForm::Contiguous { cols, .. } if self.is_whole(cols)) {
                continue;
            }
            let (slice, buffer) = self.kept_slice(source.tensor, layout);
            // Vectors lie across chunks of memory, so that there is one more of these.
            buffer.pitch = buffer.tile_bytes() + buffer.rows * CHUNK_BYTES;
            *kept = Some(slice.clone());
            keeps.push(Stmt::Keep { kept: slice, source: source.clone() });
        }
        self.out = stmts;
        keeps
    }

    /// A name and a buffer for a column slice that threads keep together.
    pub fn kept_slice(&mut self, tensor: TensorId, layout: LayoutId) -> (Kept, &mut Shared) {
        let (tensor, tile) = (self.nest.tensor(tensor), self.program.layout(layout));
        let (rows, cols) = (tile.rows, tile.cols);
        let name = self.names.fresh(&format!("{}_slice", tensor.name));
        let shared = self.shared(&format!("{}_kept", tensor.name), tensor.dtype, rows, cols, 1);
        (Kept::Slice { name, shared, layout }, &mut self.program.shared[shared.0 as usize])
    }

    /// Slices come first of all, and are waited for where the first of them is read.
    fn bring_slices(&mut self, keeps: Vec<Stmt>) {
        let loads_slice = |stmt: &Stmt| matches!(stmt, Stmt::Load { kept: Some(Kept::Slice { .. }), .. });
        let reads = |stmt: &Stmt| loads_slice(stmt) || stmt.bodies().into_iter().flatten().any(loads_slice);
        let read = self.out.iter().position(reads).unwrap_or(self.out.len());
        self.out.insert(read, Stmt::Wait(0));
        let found = self.out.iter().position(|stmt| matches!(stmt, Stmt::FindParts { .. }));
        // Behind what rows consist of, and where that lies.
        let first = found.map_or(0, |found| found + 2);
        self.out.splice(first..first, keeps.into_iter().chain([Stmt::Commit]));
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

    /// The portfolio's schedules that take rows whole, in registers.
    fn whole(body: TokenStream) -> Vec<Lowered> {
        let (nest, _) = testing::nest(quote! {
            fn f<M: Dim, N: Dim>(
                x: &Tensor<f16, (M, N)>, r: &Tensor<f16, (M, N)>, gain: &Tensor<f32, (N,)>, y: &mut Tensor<f16, (M, N)>,
            ) {
                tile!(for i in M { #body });
            }
        });
        let portfolio = lower_portfolio(&nest, &SM_80).expect("a portfolio");
        portfolio.into_iter().filter(|lowered| lowered.schedule.whole.is_some() && !lowered.schedule.in_turn).collect()
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
    fn reductions_and_what_follows_them_go_by_parts() {
        let all = normed();
        let lines = lines(&all[0].program);
        let at = |wanted: &str| {
            lines.iter().position(|line| line.starts_with(wanted)).unwrap_or_else(|| panic!("{wanted}: {lines:?}"))
        };
        let order = [
            "keep gain_kept",
            "load x_tile",
            "by parts",
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
        assert_eq!((count("load x_tile"), count("by parts"), count("reduce")), (1, 2, 0), "{lines:?}");
        assert_eq!(
            all[0].program.shared[0].pitch,
            4 * (1024 + 4) * 4,
            "a chunk behind the vectors of each row of threads"
        );
    }

    #[test]
    fn rows_may_be_as_long_as_vectors_hold_and_less_than_one_more() {
        let all = normed();
        let plans = all.iter().map(|lowered| launch_plan(lowered, emit(&lowered.nest, &lowered.program)));
        let longest: Vec<u32> = plans.filter_map(|plan| plan.longest.map(|longest| longest.block)).collect();
        assert_eq!(longest, [1031, 4103, 8199, 519, 263]);
    }

    #[test]
    fn short_rows_share_a_warp_and_have_a_slice_each() {
        let normed = normed();
        let layouts = normed.iter().map(|lowered| lowered.program.layouts[0].kind);
        let lanes: Vec<u32> = layouts
            .filter_map(|kind| if let LayoutKind::WholeRows { threads_n, .. } = kind { Some(threads_n) } else { None })
            .collect();
        assert_eq!(lanes, [32, 128, 256, 16, 8]);
        assert_eq!(normed[4].program.shared[0].pitch, 16 * (256 + 4) * 4);
    }

    #[test]
    fn a_part_takes_registers_for_itself() {
        let text = emit(&normed()[1].nest, &normed()[1].program);
        for line in [
            "using IJTile = WholeRows<BLOCK_I, BLOCK_J, 1, 128, 8>;",
            "const int j0 = parts.before;",
            "by_parts<IJTile>(parts, [&](auto slots) {",
            "for (int reg = slots.first; reg < slots.end; ++reg)",
            "fold_cols<Sum, IJTile>(value, total, slots);",
            "load_slice<IJTile>(gain_tile, gain_kept, gain_slice, parts, slots);",
            "}, parts, slots);",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn slices_are_waited_for_where_the_first_is_read() {
        let all = whole(quote! {
            let mut sum = zeros::<f32>(i);
            tile!(for j in N { sum += (x[(i, j)].to::<f32>() * gain[j]).row_sum(); });
            tile!(for j in N { y[(i, j)] = (x[(i, j)].to::<f32>() * gain[j] / sum).to(); });
        });
        let lines = lines(&all[1].program);
        let at = |wanted: &str| lines.iter().position(|line| line.starts_with(wanted)).expect(wanted);
        let order = [
            "keep gain_kept",
            "commit",
            "load x_tile",
            "wait 0",
            "barrier",
            "by parts",
            "load gain_tile",
            "fold total",
        ];
        assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{lines:?}");
        assert_eq!(lines.iter().filter(|line| line.starts_with("wait")).count(), 1, "{lines:?}");
    }

    #[test]
    fn columns_count_from_a_rows_first_vector() {
        let all = whole(quote! {
            tile!(for j in N {
                y[(i, j)] = x[(i, j)].to::<f32>().mask(|i, j| j <= i, 0.0).to();
            });
        });
        let text = emit(&all[1].nest, &all[1].program);
        assert!(text.contains("(j0 + IJTile::col(reg, parts))"), "{text}");
    }

    #[test]
    fn what_a_later_part_reads_is_there_for_all() {
        let text = |item| {
            let all = whole(item);
            emit(&all[0].nest, &all[0].program)
        };
        let kept = text(quote! {
            let mut sum = zeros::<f32>(i);
            tile!(for j in N { sum += x[(i, j)].to::<f32>().exp().row_sum(); });
            tile!(for j in N { y[(i, j)] = (x[(i, j)].to::<f32>().exp() / sum).to(); });
        });
        let (declared, loops) =
            (kept.find("float value[IJTile::size];").expect("the exponentials"), kept.find("by_parts").expect("parts"));
        assert!(declared < loops, "{kept}");
    }
}
