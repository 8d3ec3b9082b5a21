//! Rows that begin anywhere in memory: loops over columns walk each from the aligned chunk in which it begins, so that every block of
//! columns is read and written by whole chunks, as it lies.
//!
//! ```text
//! for j in N { y[(i, j)] = f(x[(i, j)]) }
//! ```
//! becomes, where all rows that are walked together lie alike, as the launch sees by addresses and strides,
//! ```text
//! skew = elements from a multiple of a vector to where x[i] begins, different from row to row
//! for j0 in -skew..N { the body, for the columns that exist }
//! ```
//! A thread holds elements of one row, and a row's warps take as many steps as each other.

use super::analysis::{Facts, axes_in, depends_on, is_tiled};
use super::{Lowering, columns, in_turn};
use crate::nest::{AxisId, Extent, Int, Loop, Nest, Op, Predicate, Stmt as NestStmt, TensorId};
use crate::program::layout::{LayoutId, LayoutKind};
use crate::program::{Access, AccessForm, IntText, Program, Skew, Stmt, Units, WholeRows};

/// What is walked so.
pub struct SkewedRows {
    /// The axis of the rows, and those of the loops over their columns.
    pub rows: AxisId,
    pub columns: Vec<AxisId>,
    /// Tensors whose rows these are, and where in each of them.
    pub tensors: Vec<TensorId>,
    leading: Vec<Int>,
    /// Whether they share a slice.
    share: bool,
}

/// Where a kernel is nothing but loops over the columns of rows, all of the same length, that are in no tensor found at other places; or
/// where it takes `whole` rows along this axis.
pub fn find(nest: &Nest, facts: &Facts, whole: Option<AxisId>) -> Option<SkewedRows> {
    let mut tiled = nest.grid.iter().copied().filter(|axis| is_tiled(nest, *axis));
    let (rows, None) = (tiled.next()?, tiled.next()) else { return None };
    let columns = whole.into_iter().collect();
    let mut found = SkewedRows { rows, columns, tensors: Vec::new(), leading: Vec::new(), share: false };
    for stmt in &nest.body.stmts {
        if let NestStmt::Loop(inner) = stmt {
            let flat = inner.body.stmts.iter().all(|stmt| !matches!(stmt, NestStmt::Loop(_)));
            let alike =
                found.columns.first().is_none_or(|first| nest.axis(*first).extent == nest.axis(inner.axis).extent);
            let is_dim = matches!(nest.axis(inner.axis).extent, Extent::Dim(_));
            if !flat
                || !alike
                || !is_dim
                || !is_tiled(nest, inner.axis)
                || inner.from.is_some()
                || inner.until.is_some()
            {
                return None;
            }
            found.columns.push(inner.axis);
        }
    }
    let values = facts.order.iter().map(|id| nest.value(*id)).all(|value| match &value.op {
        Op::Dot { .. } | Op::Transpose(_) => false,
        // A slice has no rows whose ends its elements could be masked by.
        Op::Reduce(_, input, axis) => !found.columns.contains(axis) || nest.value(*input).ty.axes.len() == 2,
        Op::Load { tensor, index } => found.takes(nest, *tensor, index, &value.ty.axes),
        Op::Int(int) => !found.is_bound(int),
        Op::Predicate(predicate) => !found.is_bound_in(predicate),
        _ => true,
    });
    let stores = found.takes_stores(nest, &nest.body.stmts);
    (values && stores && !found.tensors.is_empty() && facts.dots.is_empty()).then_some(found)
}

impl SkewedRows {
    /// Whether the access is to one of the rows, to a slice that they share, or has nothing to do with columns.
    fn takes(&mut self, nest: &Nest, tensor: TensorId, index: &[Int], axes: &[AxisId]) -> bool {
        let Some((last, leading)) = index.split_last() else { return true };
        let columns = |int: &Int| self.columns.iter().any(|axis| depends_on(int, *axis));
        if leading.iter().any(columns) {
            return false;
        }
        if !columns(last) {
            return true;
        }
        let Int::Axis(column) = last else { return false };
        if !columns::are_whole(nest, tensor, index, *column) {
            return false;
        }
        if axes == [*column] {
            let mut apart = true;
            leading.iter().for_each(|int| axes_in(int, &mut |axis| apart &= !is_tiled(nest, axis)));
            self.share |= apart;
            return apart;
        }
        if axes != [self.rows, *column] || (!self.tensors.is_empty() && leading != self.leading) {
            return false;
        }
        self.leading = leading.to_vec();
        if !self.tensors.contains(&tensor) {
            self.tensors.push(tensor);
        }
        true
    }

    /// Bytes that are read for each column of a row.
    pub fn read_bytes(&self, nest: &Nest) -> u32 {
        let read = self.tensors.iter().map(|tensor| nest.tensor(*tensor)).filter(|tensor| !tensor.mutable);
        read.map(|tensor| tensor.dtype.bytes()).sum()
    }

    /// Whether each block may take several rows: those of matrices, which several loops walk along. It pays where they share something, which a
    /// block then has once.
    pub fn in_turn(&self, nest: &Nest) -> bool {
        let of_matrices = matches!(self.leading[..], [Int::Axis(axis)] if axis == self.rows);
        of_matrices && self.share && nest.grid == [self.rows] && self.columns.len() > 1
    }

    fn takes_stores(&mut self, nest: &Nest, stmts: &[NestStmt]) -> bool {
        stmts.iter().all(|stmt| match stmt {
            NestStmt::Value(_) => true,
            NestStmt::Loop(inner) => self.takes_stores(nest, &inner.body.stmts),
            NestStmt::Store { tensor, index, value, .. } => {
                let axes = &nest.value(*value).ty.axes;
                let to_columns = axes.iter().any(|axis| self.columns.contains(axis));
                (!to_columns || axes.len() == 2) && self.takes(nest, *tensor, index, axes)
            }
        })
    }

    /// Whether the integer asks where a block of columns begins or ends.
    fn is_bound(&self, int: &Int) -> bool {
        int.any(&|part| matches!(part, Int::BlockStart(axis) | Int::BlockEnd(axis) if self.columns.contains(axis)))
    }

    fn is_bound_in(&self, predicate: &Predicate) -> bool {
        match predicate {
            Predicate::Const(_) => false,
            Predicate::Compare(_, a, b) => self.is_bound(a) || self.is_bound(b),
            Predicate::And(a, b) | Predicate::Or(a, b) => self.is_bound_in(a) || self.is_bound_in(b),
            Predicate::Not(a) => self.is_bound_in(a),
        }
    }
}

impl Lowering<'_> {
    /// Names the rows' skew, or what they consist of, before any loop.
    pub fn prepare_skew(&mut self) {
        let whole = self.schedule.whole;
        let Some(found) = find(self.nest, self.facts, whole).filter(|_| self.schedule.skewed) else { return };
        let layouts = self.program.layouts.iter();
        let Some(at) = layouts.clone().position(|layout| layout.row_axis == Some(found.rows)) else { return };
        let mut index = found.leading;
        index.push(Int::Const(0));
        let form = AccessForm::Scattered { rows: Some(found.rows), cols: None };
        let row = Access {
            tensor: found.tensors[0],
            index,
            form,
            limits: Vec::new(),
            inside: Vec::new(),
            whole_cols: false,
            alike: 1,
            held: None,
        };
        let layout = LayoutId(at as u32);
        match whole {
            None => {
                let name = self.names.fresh("skew");
                self.out.push(Stmt::FindSkew { layout, row });
                self.program.skew = Some(Skew { name, columns: found.columns, tensors: found.tensors });
            }
            Some(axis) => {
                let name = self.names.fresh("parts");
                if self.schedule.in_turn {
                    self.program.units = Units::Turns;
                    self.out.push(Stmt::Locate);
                }
                self.out.push(Stmt::FindParts { layout, row });
                let begin = format!("{}0", self.names.axis(axis));
                let field = if self.schedule.in_turn { "first" } else { "before" };
                self.out.push(Stmt::Let { name: begin, value: IntText::Name(format!("{name}.{field}")) });
                let tile = self.program.layout(layout);
                // Less than a vector more is at the ends, wherever a row begins.
                let at_ends = tile.vec() - 1;
                let passed_over = if self.schedule.in_turn { in_turn::MOST_PASSED_OVER * tile.vec() } else { 0 };
                let longest = tile.cols + at_ends - passed_over;
                self.program.whole = Some(WholeRows { name, axis, longest, tensors: found.tensors });
            }
        }
    }

    /// A step of a loop over columns for the threads that have some: the last block of a row is seldom whole, and often next to empty.
    /// All threads take part where they pass values to each other or count steps.
    pub fn where_columns_are(&mut self, inner: &Loop, step: Vec<Stmt>) -> Vec<Stmt> {
        let mut layouts = self.program.layouts.iter();
        let layout = layouts.position(|layout| layout.row_axis.is_some() && layout.col_axis == inner.axis);
        let Some(layout) = layout.filter(|_| self.is_skewed(inner.axis)) else { return step };
        let alone = inner.carried.iter().all(|carried| self.is_shared_out(carried.next));
        if !alone || holds(&step, &|stmt| matches!(stmt, Stmt::Reduce { .. })) {
            return step;
        }
        let (columns, layout) = (self.names.fresh("columns"), LayoutId(layout as u32));
        vec![Stmt::ByColumns { columns, axis: inner.axis, layout, body: step }]
    }

    pub fn is_skewed(&self, axis: AxisId) -> bool {
        self.program.skew.as_ref().is_some_and(|skew| skew.columns.contains(&axis))
    }

    pub fn is_whole(&self, axis: AxisId) -> bool {
        self.program.whole.as_ref().is_some_and(|whole| whole.axis == axis)
    }

    /// Where a loop over the axis begins.
    pub fn skewed_start(&self, axis: AxisId) -> Option<IntText> {
        let skew = self.program.skew.as_ref().filter(|skew| skew.columns.contains(&axis))?;
        Some(IntText::Name(format!("-{}", skew.name)))
    }
}

/// Whether each thread holds elements of one row, and nobody waits in a loop for threads of other rows.
pub fn is_carried_out(program: &Program) -> bool {
    let one_row_each = program.layouts.iter().filter(|layout| layout.row_axis.is_some()).all(|layout| {
        // Of rows that are taken whole there are no loops, whose steps all threads of a block take together.
        let by_warps = matches!(layout.kind, LayoutKind::WholeRows { threads_n, .. } if threads_n <= 32);
        layout.row_size() == 1 && (layout.rows == 1 || by_warps)
    });
    let found = program.skew.is_some() || program.whole.is_some();
    found && one_row_each && !holds(&program.body, &|stmt| matches!(stmt, Stmt::Exchange { .. }))
}

fn holds(body: &[Stmt], wanted: &dyn Fn(&Stmt) -> bool) -> bool {
    body.iter().any(|stmt| wanted(stmt) || stmt.bodies().into_iter().any(|inner| holds(inner, wanted)))
}

#[cfg(test)]
mod tests {
    use crate::emit::{emit, launch_plan};
    use crate::lower::lower_portfolio;
    use crate::plan::Variant;
    use crate::schedule::target::SM_80;
    use crate::testing;
    use proc_macro2::TokenStream;
    use quote::quote;

    /// The variants of a kernel over rows of x and y that walk them from their chunks.
    fn skewed(output: TokenStream, body: TokenStream) -> Vec<Variant> {
        let (nest, _) = testing::nest(quote! {
            fn f<M: Dim, N: Dim>(
                x: &Tensor<f16, (M, N)>, z: &Tensor<f32, (M, N)>, gain: &Tensor<f16, (N,)>, #output,
            ) {
                tile!(for i in M { #body });
            }
        });
        let portfolio = lower_portfolio(&nest, &SM_80).expect("a portfolio");
        let plans = portfolio.iter().map(|lowered| launch_plan(lowered, emit(&lowered.nest, &lowered.program)));
        plans.filter(|plan| !plan.skewed.is_empty() && plan.longest.is_none()).collect()
    }

    fn sums() -> TokenStream {
        quote!(sums: &mut Tensor<f32, (M,)>)
    }

    fn centred() -> Vec<Variant> {
        skewed(
            quote!(y: &mut Tensor<f16, (M, N)>),
            quote! {
                let mut sum = zeros::<f32>(i);
                tile!(for j in N { sum += x[(i, j)].to::<f32>().row_sum(); });
                tile!(for j in N { y[(i, j)] = ((x[(i, j)].to::<f32>() - sum) * gain[j].to::<f32>()).to(); });
            },
        )
    }

    #[test]
    fn rows_are_walked_from_the_chunks_in_which_they_begin() {
        let plans = centred();
        let schedules: Vec<&str> = plans.iter().map(|plan| plan.schedule.as_str()).collect();
        assert_eq!(
            schedules,
            [
                "sm_80, i = 1, j = 2048, j = 2048, warps = (1, 4), skewed rows",
                "sm_80, i = 1, j = 4096, j = 4096, warps = (1, 8), skewed rows",
                "sm_80, i = 1, j = 8192, j = 8192, warps = (1, 8), skewed rows",
                "sm_80, i = 1, j = 8192, j = 8192, warps = (1, 16), skewed rows",
            ]
        );
        for (Variant { source, skewed, aligned, whole_vectors, .. }, step) in plans.iter().zip([2048, 4096, 8192, 8192])
        {
            let walk = format!("walk_columns<IJTile2, {step}>(skew, N, [&](int j_20, auto columns_2) {{");
            assert_eq!((&skewed[..], &aligned[..], *whole_vectors), (&[0, 3][..], &[][..], false), "x and y lie alike");
            for line in [
                "const int skew = skew_of<IJTile>(",
                &walk,
                "}, [&](int j0, auto columns) {",
                "for (int j0 = -skew; j0 < j_kept - skew; j0 += ",
                "load_cols_skewed<IJTile2>(gain_tile, ",
                "store_skewed<IJTile2, f16>(y_tile, ",
                "}, columns_2);",
            ] {
                assert!(source.contains(line), "{line}\n{source}");
            }
        }
    }

    #[test]
    fn a_wide_block_is_not_alone_on_its_multiprocessor() {
        let widest = |slices: TokenStream| {
            let plans = skewed(
                quote!(beta: &Tensor<f16, (N,)>, more: &Tensor<f16, (N,)>, y: &mut Tensor<f16, (M, N)>),
                quote! {
                    let mut sum = zeros::<f32>(i);
                    tile!(for j in N { sum += x[(i, j)].to::<f32>().row_sum(); });
                    tile!(for j in N { y[(i, j)] = ((x[(i, j)].to::<f32>() - sum) #slices).to(); });
                },
            );
            plans.iter().map(|plan| plan.threads).max()
        };
        assert_eq!(widest(quote!(*gain[j].to::<f32>())), Some(512));
        let three = quote!(*gain[j].to::<f32>() * more[j].to::<f32>() + beta[j].to::<f32>());
        assert_eq!(widest(three), Some(256), "registers for one such block only");
    }

    #[test]
    fn columns_that_do_not_exist_are_masked_at_both_ends() {
        let plans = skewed(
            sums(),
            quote! {
                let mut sum = zeros::<f32>(i);
                tile!(for j in N { sum += (x[(i, j)].to::<f32>() + 1.0).row_sum(); });
                sums[i] = sum;
            },
        );
        assert_eq!(plans.len(), 4);
        assert!(plans[0].source.contains("mask_outside<IJTile>(value, columns, float{});"), "{}", plans[0].source);
        assert!(plans.iter().all(|plan| plan.split.is_none()), "parts would begin at other columns");
    }

    #[test]
    fn only_rows_that_are_read_as_they_lie_are_walked_so() {
        let count = |body| skewed(sums(), body).len();
        let loops = |item: TokenStream| {
            count(quote! { let mut sum = zeros::<f32>(i); tile!(for j in N { #item }); sums[i] = sum; })
        };
        assert_eq!(loops(quote!(sum += x[(i, j)].to::<f32>().row_sum();)), 4);
        assert_eq!(
            loops(quote!(sum += (x[(i, j)].to::<f32>() * z[(i, j)]).row_sum();)),
            3,
            "whatever their element types, though a wide block of so many registers would be alone"
        );
        assert_eq!(loops(quote!(sum += x[(i, j + 1)].to::<f32>().row_sum();)), 0, "a neighbour");
        assert_eq!(
            loops(quote!(sum += (x[(i, j)].to::<f32>() * x[(i - 1, j)].to::<f32>()).row_sum();)),
            0,
            "another row"
        );
        assert_eq!(
            loops(quote!(sum += x[(i, j)].to::<f32>().row_sum() + gain[j].to::<f32>().sum(j);)),
            0,
            "a sum of a slice"
        );
        let part = quote! {
            let mut sum = zeros::<f32>(i);
            tile!(for j in N.from(3) { sum += x[(i, j)].to::<f32>().row_sum(); });
            sums[i] = sum;
        };
        assert_eq!(count(part), 0, "rows from somewhere on");
    }
}
