//! Tiles that TMA can copy: boxes of a tensor, or windows of it.
//!
//! ```text
//! a[(b, i, k)]                                a box: rows along one tensor axis, columns along the last
//! x[(n, p * stride + r, q * stride + s, c)]   windows: (n, p, q) = i.coords(), rows along a flat axis over several
//! ```
//! A box's alignment and a window's numbers are known at launch only, so that such a copy stands beside one by threads. Where a sum runs along
//! several axes, boxes are no wider than the last of them: a tile's other columns are cleared once. Where one warpgroup multiplies rows, boxes are
//! no taller than the tensor either.

use super::Lowering;
use super::analysis::{inner_sum, mentions};
use super::loops::Resident;
use super::rings::Group;
use super::windows::{self, Along, folded};
use crate::nest::{AxisId, DimId, Extent, Int, IntOp, Op, TensorId};
use crate::plan;
use crate::program::{
    BulkCopy, BulkForm, BulkStore, ConditionId, IntText, Narrow, Param, ParamType, Premise, Short, Stmt, map_name,
};
use crate::schedule::{WARPGROUP, panel};

/// Elements of a tensor that make up the rows of a tile.
struct Source<'n> {
    tensor: TensorId,
    /// The index but for its last, which runs along the columns from so far past the tile's first.
    outer: &'n [Int],
    columns_past: Int,
    rows: u32,
    form: Form,
}

enum Form {
    /// Rows along this axis of the tensor, one after another from so far past the tile's first.
    Box { row_at: usize, past: Int },
    /// For each axis of the tensor but the first and the last, how rows lie along it.
    Window(Vec<Along>),
}

/// Whether boxes are no wider than a tensor's rows, and no taller than it.
#[derive(Clone, Copy, Default)]
pub struct Clip {
    narrow: bool,
    short: bool,
}

/// Where boxes of a tensor lie that make up a tile.
pub struct Boxes<'i> {
    /// So many leading axes of the tensor count as one.
    merged: usize,
    /// The axis, of those that then are left, along which rows run.
    row_at: usize,
    /// The index along those but for the last.
    outer: &'i [Int],
    rows: AxisId,
    cols: AxisId,
}

impl<'n> Lowering<'n> {
    /// What it takes for TMA to copy all of the group's operands; nothing where it cannot.
    pub fn bulk_premises(&self, group: &Group) -> Option<Vec<Premise>> {
        let premise = |operand: &Resident| {
            let source = self.bulk_source(operand)?;
            Some(match source.form {
                Form::Box { .. } => Premise::Aligned(source.tensor),
                Form::Window(_) => Premise::Windows(source.tensor),
            })
        };
        group.operands.iter().map(premise).collect()
    }

    /// The group's operands as TMA copies them; `axes` are those of the loop that they are copied in.
    pub fn bulk_copies(&mut self, group: &Group, axes: &[AxisId]) -> Vec<BulkCopy> {
        let Some(condition) = self.program.ring(group.ring).bulk else { return Vec::new() };
        let sourced = group.operands.iter().filter_map(|operand| Some((operand, self.bulk_source(operand)?)));
        let sourced: Vec<_> = sourced.collect();
        sourced
            .into_iter()
            .map(|(operand, source)| {
                let columns = self.columns(operand, condition);
                match source.form {
                    Form::Box { row_at, ref past } => {
                        let past = past.clone();
                        let rows = self.rows(operand, source.tensor);
                        self.box_copy(operand, &source, (row_at, past), columns, rows)
                    }
                    Form::Window(ref along) => self.window_copy(operand, &source, along, axes, columns),
                }
            })
            .collect()
    }

    fn bulk_source(&self, operand: &Resident) -> Option<Source<'n>> {
        let nest = self.nest;
        let Op::Load { tensor, index } = &nest.value(operand.load).op else { return None };
        let (last, outer) = index.split_last()?;
        let dims = &nest.tensor(*tensor).dims;
        let along = Int::Axis(operand.cols);
        let columns_past = windows::at_zero(last, &along);
        let whole = *last == along && nest.runs_over(operand.cols, *dims.last()?);
        let fits = windows::slope(last, &along) == Some(Int::Const(1))
            && (whole || !self.sums_along(operand, operand.cols) && !mentions(last, operand.rows))
            && !self.shifted.contains(&operand.cols)
            && !self.limited.contains(&operand.cols)
            && (!self.limited.contains(&operand.rows) || self.ignores_extra_rows(operand));
        if !fits || outer.iter().any(|int| mentions(int, operand.cols)) {
            return None;
        }
        let rows = self.schedule.blocks[operand.rows.index()]?;
        let form = match self.box_rows(operand, *tensor, outer, rows) {
            Some((row_at, past)) => Form::Box { row_at, past },
            None if whole => Form::Window(windows::find(nest, *tensor, outer, operand.rows, rows)?),
            None => return None,
        };
        Some(Source { tensor: *tensor, outer, columns_past, rows, form })
    }

    /// The tensor axis that the rows run along, all other indices fixed, and how far past its own coordinates. What a box has past the
    /// rows' end is zero where the tensor ends there too.
    fn box_rows(&self, operand: &Resident, tensor: TensorId, outer: &[Int], rows: u32) -> Option<(usize, Int)> {
        const MOST_AXES: usize = 5;
        const MOST_ROWS: u32 = 256;
        let along = Int::Axis(operand.rows);
        let row_at = outer.iter().position(|int| windows::slope(int, &along) == Some(Int::Const(1)))?;
        let past = windows::at_zero(&outer[row_at], &along);
        let end_together =
            past == Int::Const(0) && self.nest.runs_over(operand.rows, self.nest.tensor(tensor).dims[row_at]);
        let fits = outer.len() < MOST_AXES
            && rows <= MOST_ROWS
            && (end_together || self.ignores_extra_rows(operand))
            && outer.iter().enumerate().all(|(at, int)| at == row_at || !mentions(int, operand.rows));
        fits.then_some((row_at, past))
    }

    fn box_copy(
        &mut self,
        operand: &Resident,
        source: &Source,
        (row_at, past): (usize, Int),
        columns: Option<String>,
        clipped: Option<String>,
    ) -> BulkCopy {
        let cut = self.cut(operand);
        let rows = cut.map_or(source.rows, |cut| cut.rows);
        let boxes = Boxes { merged: 1, row_at, outer: source.outer, rows: operand.rows, cols: operand.cols };
        let no_larger = Clip { narrow: columns.is_some(), short: clipped.is_some() };
        let (map, mut at) = self.box_map(source.tensor, boxes, rows, no_larger);
        if past != Int::Const(0) {
            at[row_at] = IntText::Start(operand.rows).plus(IntText::Int(past));
        }
        if source.columns_past != Int::Const(0)
            && let Some(column) = at.last_mut()
        {
            *column = IntText::Start(operand.cols).plus(IntText::Int(source.columns_past.clone()));
        }
        let part = cut.map(|cut| self.part(cut, &mut at, row_at));
        BulkCopy {
            shared: operand.shared,
            slot: operand.slot.clone(),
            tensor: source.tensor,
            map,
            at,
            form: BulkForm::Box,
            part,
            columns,
            rows: clipped,
        }
    }

    fn window_copy(
        &mut self,
        operand: &Resident,
        source: &Source,
        along: &[Along],
        axes: &[AxisId],
        columns: Option<String>,
    ) -> BulkCopy {
        let tensor = self.names.tensor(source.tensor.index()).to_string();
        let window = self.program.windows.len();
        self.program.windows.push(plan::Window {
            tensor: source.tensor.index(),
            rows: source.rows,
            channels: self.panel(source.tensor),
            narrow: columns.is_some(),
            axes: along.iter().map(|along| along.plan.clone()).collect(),
        });
        let map = self.names.fresh(&format!("{tensor}_window"));
        let arg = plan::Arg::WindowMap(window);
        self.program.params.push(Param { name: map.clone(), ty: ParamType::TensorMap, arg });

        let part = |at: usize| Int::FlatCoord(operand.rows, at);
        let (mut at, mut offsets) = (vec![IntText::Int(part(0))], Vec::new());
        for (axis, along) in along.iter().enumerate() {
            let corner = self.names.fresh(&format!("{tensor}_corner{}", axis + 1));
            let arg = plan::Arg::WindowCorner(window, axis);
            self.program.params.push(Param { name: corner.clone(), ty: ParamType::Int, arg });
            let first = folded(IntOp::Mul, part(axis + 1), along.step.clone());
            at.push(IntText::Int(first).plus(IntText::name(&corner)));
            offsets.push(match along.moves {
                true => IntText::Sub(Box::new(IntText::Int(along.rest.clone())), Box::new(IntText::Name(corner))),
                false => IntText::Const(0),
            });
        }
        if !axes.contains(&operand.rows) {
            // The same at each step.
            for (axis, first) in at.iter_mut().enumerate() {
                let name = self.names.fresh(&format!("{tensor}_first{axis}"));
                let value = std::mem::replace(first, IntText::name(&name));
                self.out.push(Stmt::Let { name, value });
            }
        }
        at.push(IntText::Start(operand.cols));
        BulkCopy {
            shared: operand.shared,
            slot: operand.slot.clone(),
            tensor: source.tensor,
            map,
            at,
            form: BulkForm::Window { offsets },
            part: None,
            columns,
            rows: None,
        }
    }

    /// Where boxes are no wider than the tensor, the variable that says how many columns of a panel they hold: each step of other loops would
    /// bring what a short sum's tile has beside it. Nothing where results pass through the tile, which would not stay clear there.
    fn columns(&mut self, operand: &Resident, condition: ConditionId) -> Option<String> {
        let dim = inner_sum(self.nest, self.facts, operand.cols)?;
        if self.program.shared.iter().any(|shared| shared.host == Some(operand.shared)) {
            return None;
        }
        let dtype = |narrow: &Narrow| self.program.shared(narrow.shared).dtype;
        let alike = |narrow: &&Narrow| narrow.dim == dim && dtype(narrow) == self.program.shared(operand.shared).dtype;
        let columns = self.program.narrow.iter().find(alike).map(|narrow| narrow.columns.clone());
        let columns = columns.unwrap_or_else(|| {
            let axis = self.names.axes()[operand.cols.index()].clone();
            self.names.fresh(&format!("{axis}_columns"))
        });
        if self.program.narrow.iter().all(|narrow| narrow.shared != operand.shared) {
            let columns = columns.clone();
            self.program.narrow.push(Narrow { shared: operand.shared, condition, dim, columns });
        }
        Some(columns)
    }

    /// Where boxes are no taller than the tensor, the variable that says how many rows they hold.
    fn rows(&mut self, operand: &Resident, tensor: TensorId) -> Option<String> {
        let dim = self.short_along(operand)?;
        if self.program.shared.iter().any(|shared| shared.host == Some(operand.shared)) || self.cut(operand).is_some() {
            return None;
        }
        if let Some(known) = self.program.short.iter().find(|short| short.shared == operand.shared) {
            return Some(known.rows.clone());
        }
        let rows = self.names.fresh(&format!("{}_rows", self.names.tensor(tensor.index())));
        self.program.short.push(Short { shared: operand.shared, tensor, dim, rows: rows.clone() });
        Some(rows)
    }

    /// The dim that ends with the rows that one warpgroup multiplies, of which a product may have fewer: a row of zeros takes TMA longer than
    /// one of the tensor. What is left in the others' place reaches their own results alone, unless a product sums over them.
    pub fn short_along(&self, operand: &Resident) -> Option<DimId> {
        let Extent::Dim(dim) = self.nest.axis(operand.rows).extent else { return None };
        let rows = self.schedule.blocks[operand.rows.index()]?;
        let multiplied = self.facts.dots.iter().any(|dot| dot.m == operand.rows && self.reads(dot.value, operand));
        let may_be_few = self.nest.dim(dim).known.is_none_or(|known| known < i64::from(rows));
        let summed = self.facts.dots.iter().any(|dot| dot.k == operand.rows);
        let fits = self.schedule.threads() == WARPGROUP && multiplied && !summed && may_be_few;
        (fits && self.comes_by_boxes(operand) && !self.brings_extra_rows(operand)).then_some(dim)
    }

    /// Whether TMA, where it can, fetches rows from past the end of the loop over them that need not be zero.
    pub fn brings_extra_rows(&self, operand: &Resident) -> bool {
        let Some(Source { tensor, form: Form::Box { row_at, past }, .. }) = self.bulk_source(operand) else {
            return false;
        };
        let end_together =
            past == Int::Const(0) && self.nest.runs_over(operand.rows, self.nest.tensor(tensor).dims[row_at]);
        self.limited.contains(&operand.rows) || !end_together
    }

    /// Whether TMA fetches the operand by boxes, where it can.
    pub fn comes_by_boxes(&self, operand: &Resident) -> bool {
        matches!(self.bulk_source(operand), Some(Source { form: Form::Box { .. }, .. }))
    }

    /// A tile as boxes that TMA writes.
    pub fn bulk_store(
        &mut self,
        tensor: TensorId,
        index: &[Int],
        rows: AxisId,
        cols: AxisId,
        box_rows: u32,
    ) -> Option<BulkStore> {
        let boxes = self.boxes(tensor, index, rows, cols)?;
        let row_at = boxes.row_at;
        let (map, at) = self.box_map(tensor, boxes, box_rows, Clip::default());
        self.promise("UTMASTG");
        Some(BulkStore { map, at, row_at })
    }

    /// A tile's rows and columns as boxes: rows along one tensor axis, or all along the leading ones, merged.
    pub fn boxes<'i>(&self, tensor: TensorId, index: &'i [Int], rows: AxisId, cols: AxisId) -> Option<Boxes<'i>> {
        const MOST_AXES: usize = 5;
        let (last, outer) = index.split_last()?;
        let dims = &self.nest.tensor(tensor).dims;
        let whole = |axis: AxisId| !self.shifted.contains(&axis) && !self.limited.contains(&axis);
        let exact = |axis: AxisId, at: usize| self.nest.runs_over(axis, dims[at]);
        if *last != Int::Axis(cols) || !exact(cols, outer.len()) || !whole(rows) || !whole(cols) {
            return None;
        }
        let merged = match &self.nest.axis(rows).extent {
            Extent::Flat(parts) => {
                let leading = parts.len() <= outer.len()
                    && (0..parts.len()).all(|at| outer[at] == Int::FlatCoord(rows, at) && parts[at] == dims[at]);
                leading.then_some(parts.len())?
            }
            Extent::Dim(_) => 1,
        };
        let row_at = match merged {
            1 => outer.iter().position(|int| *int == Int::Axis(rows)).filter(|at| exact(rows, *at))?,
            _ => 0,
        };
        // The map's axes: the merged ones are one.
        let outer = &outer[merged - 1..];
        let fixed = |(at, int): (usize, &Int)| at == row_at || !(mentions(int, rows) || mentions(int, cols));
        let fits = outer.len() < MOST_AXES && outer.iter().enumerate().all(fixed);
        fits.then_some(Boxes { merged, row_at, outer, rows, cols })
    }

    /// The parameter that describes boxes of so many rows and one panel of columns, and where the tile begins, for each of its axes.
    pub fn box_map(&mut self, tensor: TensorId, boxes: Boxes, box_rows: u32, clip: Clip) -> (String, Vec<IntText>) {
        let Boxes { merged, row_at, outer, rows, cols } = boxes;
        let mut extents = vec![1; outer.len()];
        extents[row_at] = box_rows;
        extents.push(self.panel(tensor));
        let Clip { narrow, short } = clip;
        let arg = plan::Arg::TensorMap { tensor: tensor.index(), merged, boxes: extents, narrow, short };
        let params = &mut self.program.params;
        let map = match params.iter().find(|param| param.arg == arg) {
            Some(param) => param.name.clone(),
            None => {
                let name = map_name(self.names.tensor(tensor.index()), box_rows);
                let taken = params.iter().filter(|param| param.name.starts_with(&name)).count();
                let name = if taken == 0 { name } else { format!("{name}_{}", taken + 1) };
                params.push(Param { name: name.clone(), ty: ParamType::TensorMap, arg });
                name
            }
        };
        let start = |(at, int): (usize, &Int)| match int {
            _ if at == row_at => IntText::Start(rows),
            Int::Axis(axis) => IntText::Start(*axis),
            other => IntText::Int(other.clone()),
        };
        let mut at: Vec<IntText> = outer.iter().enumerate().map(start).collect();
        at.push(IntText::Start(cols));
        (map, at)
    }

    /// Elements of a row that lie together in shared memory.
    pub fn panel(&self, tensor: TensorId) -> u32 {
        panel(self.nest.tensor(tensor).dtype)
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::{Number, Window};
    use crate::program::Program;
    use crate::program::shared::SharedId;
    use crate::testing::{cuda, gemm, lines, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// A convolution whose window lies at this index; more arguments than most need.
    fn convolution(window: TokenStream) -> TokenStream {
        quote! {
            #[schedule(sm_90a, npq = 128, ko = 128, c = 64, stages = 4)]
            fn conv<N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, R: Dim, S: Dim, P: Dim, Q: Dim>(
                x: &Tensor<f16, (N, H, W, C)>, w: &Tensor<f16, (K, R, S, C)>, y: &mut Tensor<f16, (N, P, Q, K)>,
                stride: i32, pad: i32, dilation: i32,
            ) {
                tile!(for (npq, ko) in (flat(N, P, Q), K) {
                    let (n, p, q) = npq.coords();
                    let mut acc = zeros::<f32>((npq, ko));
                    tile!(for (r, s, c) in (each(R), each(S), C) {
                        acc += dot(x[#window], w[(ko, r, s, c)].t());
                    });
                    y[(n, p, q, ko)] = acc.to();
                });
            }
        }
    }

    /// How the producer fills its rings, where not by threads alone.
    fn filled(program: &Program) -> Vec<String> {
        lines(program).into_iter().filter(|line| line.starts_with("fill ")).collect()
    }

    fn is_windowed(window: TokenStream) -> bool {
        let program = program(convolution(window));
        match &filled(&program)[..] {
            [] => program.windows.is_empty(),
            [line] => {
                assert_eq!(line, "fill x_ready by windows of x and boxes of w");
                assert_eq!(program.windows.len(), 1);
                return true;
            }
            lines => panic!("{lines:?}"),
        };
        assert!(program.params.iter().all(|param| param.name != "w_map128"), "a ring of threads needs no map");
        false
    }

    /// `corner + reach * step`-like text of a number, dims as `d0`, scalars as `s0`.
    fn text(number: &Number) -> String {
        match number {
            Number::Const(value) => value.to_string(),
            Number::Dim(dim) => format!("d{dim}"),
            Number::Scalar(scalar) => format!("s{scalar}"),
            Number::Binary(op, a, b) => format!("{op:?}({}, {})", text(a), text(b)),
        }
    }

    #[test]
    fn rows_that_walk_a_tensor_by_steps_are_windows() {
        for window in [
            quote!((n, p * stride + r * dilation - pad, q * stride + s * dilation - pad, c)),
            quote!((n, p, q, c)),
            quote!((n, p + 1, q - s, c)),
            quote!((n, 2 * p + r - 3, (q + s) * stride, c)),
            quote!((n, p + (r + 1) * (dilation - 1), q * (stride * 2) + pad / 2, c)),
            quote!((n, p + r + s, q, c)),
        ] {
            assert!(is_windowed(window.clone()), "{window}");
        }
    }

    #[test]
    fn what_tma_cannot_walk_is_copied_by_threads() {
        for window in [
            // Steps that change from tile to tile, or from row to row.
            quote!((n, p * r, q, c)),
            quote!((n, p * q, q, c)),
            quote!((n, p * p, q, c)),
            quote!((n, p / 2, q, c)),
            // Not linear in a loop.
            quote!((n, p + r * s, q, c)),
            quote!((n, p + r % 2, q, c)),
            // Another part's axis, or none.
            quote!((n, q, p, c)),
            quote!((n, p + q, q, c)),
            // The first and the last axis are as they are.
            quote!((n + 1, p, q, c)),
            quote!((n, p, q, c + 1)),
            quote!((n, p, q, c * stride)),
            // An axis cut into blocks.
            quote!((n, p, q + c, c)),
        ] {
            assert!(!is_windowed(window.clone()), "{window}");
        }
    }

    #[test]
    fn corners_come_from_the_ends_of_loops() {
        let program = program(convolution(quote!((n, p * stride + r * dilation - pad, 2 * q - s, c))));
        let [Window { tensor: 0, rows: 128, channels: 64, narrow: true, axes }] = &program.windows[..] else {
            panic!("{:?}", program.windows)
        };
        // N, H, W, C, K, R, S, P, Q; stride, pad, dilation
        let far = "Mul(s2, Sub(d5, 1))";
        assert_eq!((axes[0].count, text(&axes[0].step)), (7, "s0".into()));
        assert_eq!(text(&axes[0].corner), format!("Add(Sub(0, s1), Min({far}, 0))"));
        assert_eq!(text(&axes[0].reach), format!("Sub(Max({far}, 0), Min({far}, 0))"));
        assert_eq!((axes[1].count, text(&axes[1].step)), (8, "2".into()));
        assert_eq!(text(&axes[1].corner), "Min(Mul(-1, Sub(d6, 1)), 0)");
    }

    /// The first coordinates of the boxes of `b` in `a · b`, where TMA brings it.
    fn box_of_b(dims: TokenStream, b: TokenStream) -> Option<String> {
        let text = cuda(quote! {
            #[schedule(sm_90a, i = 128, j = 64, k = 64, stages = 4)]
            fn f<M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (M, K)>, b: &Tensor<f16, #dims>, start: &Tensor<i32, (M,)>, c: &mut Tensor<f32, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], #b); });
                    c[(i, j)] = acc;
                });
            }
        });
        let copy = text.lines().map(str::trim).find(|line| line.starts_with("tma_load(b_ring "))?;
        Some(copy.split_once("+ slot, ").expect("a barrier").1.trim_end_matches(");").to_string())
    }

    #[test]
    fn rows_that_begin_further_on_are_boxes() {
        assert_eq!(box_of_b(quote!((N, K)), quote!(b[(j, k)].t())).as_deref(), Some("k0, j0"));
        assert_eq!(box_of_b(quote!((N, K)), quote!(b[(N + j, k)].t())).as_deref(), Some("k0, j0 + N"));
        assert_eq!(
            box_of_b(quote!((N, K)), quote!(b[(start[N] + j, k)].t())).as_deref(),
            Some("k0, j0 + element_or_zero(start, N, is_inside(N, M))")
        );
    }

    /// A sum over rows that begin further on would take in those past its end.
    #[test]
    fn rows_of_a_sum_begin_with_the_tensor() {
        assert_eq!(box_of_b(quote!((K, N)), quote!(b[(k, j)])).as_deref(), Some("j0, k0"));
        assert_eq!(box_of_b(quote!((K, N)), quote!(b[(k + 1, j)])), None);
        assert_eq!(box_of_b(quote!((N, K)), quote!(b[(j * 2, k)].t())), None);
    }

    #[test]
    fn the_first_row_is_found_once_a_block() {
        let text = cuda(convolution(quote!((n, p * stride + r * dilation - pad, q - pad, c))));
        let of = |start: &str| {
            let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with(start)).collect();
            assert_eq!(lines.len(), 1, "{start} in\n{text}");
            lines[0].to_string()
        };
        assert_eq!(of("const int x_first1"), "const int x_first1 = by_Q.div(by_P_Q.rem(npq0)) * stride + x_corner1;");
        assert_eq!(of("const int x_first2"), "const int x_first2 = by_Q.rem(npq0) + x_corner2;");
        assert!(text.find("x_first2 =") < text.find("for (int step"));
        let copy = of("tma_load_im2col(");
        assert!(copy.ends_with(", c0, x_first2, x_first1, x_first0, 0, r * dilation - pad - x_corner1);"), "{copy}");
        assert_eq!(
            of("constexpr bool X_READY_BULK"),
            "constexpr bool X_READY_BULK = TRACEA_WINDOW_X && ALIGN_W >= 16;"
        );
    }

    #[test]
    fn boxes_are_as_narrow_as_the_innermost_of_several_sums() {
        let item = convolution(quote!((n, p * stride + r * dilation - pad, q - pad, c)));
        let narrow = program(item.clone()).narrow;
        assert_eq!(narrow.iter().map(|narrow| narrow.shared).collect::<Vec<_>>(), [SharedId(0), SharedId(1)]);
        let text = cuda(item);
        let clear = |tile: &str, ring: &str| {
            format!("if constexpr (X_READY_BULK) clear_beside<{tile}, THREADS + PRODUCERS>({ring}, 32768, c_columns);")
        };
        for line in [
            "const int c_columns = XRingBuffer::columns_of(C);".to_string(),
            clear("XRingBuffer", "x_ring"),
            clear("WRingBuffer", "w_ring"),
            "XRingBuffer::bytes_of(c_columns) + WRingBuffer::bytes_of(c_columns));".to_string(),
        ] {
            assert_eq!(text.matches(&line).count(), 1, "{line} in\n{text}");
        }
        assert!(text.find("c_columns);") < text.find("__syncthreads();"), "all threads see the zeros");
    }

    #[test]
    fn boxes_of_a_sum_alone_or_of_known_length_are_whole() {
        let alone = program(gemm(quote!(sm_90a, i = 128, j = 128, k = 64)));
        let known = program(quote! {
            #[schedule(sm_90a, p = 128, ko = 128, c = 64, stages = 4)]
            fn conv<L: Dim, P: Dim, K: Dim, R: Dim>(
                x: &Tensor<f16, (L, Const<32>)>, w: &Tensor<f16, (K, R, Const<32>)>, y: &mut Tensor<f16, (P, K)>,
            ) {
                tile!(for (p, ko) in (P, K) {
                    let mut acc = zeros::<f32>((p, ko));
                    tile!(for (r, c) in (each(R), Const::<32>) { acc += dot(x[(p + r, c)], w[(ko, r, c)].t()); });
                    y[(p, ko)] = acc.to();
                });
            }
        });
        for program in [alone, known] {
            assert!(program.narrow.is_empty(), "{program}");
        }
    }

    #[test]
    fn boxes_of_one_warpgroup_are_as_short_as_the_tensor() {
        let short = |schedule: TokenStream| program(gemm(schedule)).short.len();
        assert_eq!(short(quote!(sm_90a, i = 64, j = 64, k = 64, stages = 4, consumers = 1)), 1, "rows, not columns");
        assert_eq!(short(quote!(sm_90a, i = 128, j = 64, k = 64, stages = 4, consumers = 2)), 0);
        assert_eq!(short(quote!(sm_90a, i = 64, j = 64, k = 64, stages = 4, consumers = 1, cluster = (1, 2))), 0);
        let text = cuda(gemm(quote!(sm_90a, i = 64, j = 64, k = 128, stages = 4, consumers = 1)));
        let at = [
            "const int a_rows = ARingBuffer::rows_of(M);",
            "__syncthreads();",
            "a_rows * ARingBuffer::row_bytes + BRingBuffer::bytes);",
        ]
        .map(|line| text.find(line));
        assert!(at[0].is_some() && at.is_sorted(), "{at:?}\n{text}");
    }

    /// What follows the tensor's rows is another sequence's.
    #[test]
    fn rows_that_end_within_a_tensor_come_whole() {
        let program = program(quote! {
            #[schedule(sm_90a, i = 64, j = 64, k = 64, stages = 4, consumers = 1)]
            fn f<L: Dim, M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (L, K)>, b: &Tensor<f16, (N, K)>, start: &Tensor<i32, (M,)>, c: &mut Tensor<f16, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i + start[0], k)], b[(j, k)].t()); });
                    c[(i, j)] = acc.to();
                });
            }
        });
        assert!(program.short.is_empty(), "{program}");
    }

    #[test]
    fn images_of_one_and_three_axes_are_walked_too() {
        let line = program(quote! {
            #[schedule(sm_90a, np = 128, ko = 64, c = 128, stages = 3)]
            fn conv1d<N: Dim, L: Dim, C: Dim, K: Dim, R: Dim, P: Dim>(
                x: &Tensor<bf16, (N, L, C)>, w: &Tensor<bf16, (K, R, C)>, y: &mut Tensor<bf16, (N, P, K)>, pad: i32,
            ) {
                tile!(for (np, ko) in (flat(N, P), K) {
                    let (n, p) = np.coords();
                    let mut acc = zeros::<f32>((np, ko));
                    tile!(for (r, c) in (each(R), C) { acc += dot(x[(n, p + r - pad, c)], w[(ko, r, c)].t()); });
                    y[(n, p, ko)] = acc.to();
                });
            }
        });
        assert_eq!(filled(&line), ["fill x_ready by windows of x and boxes of w"]);
        let volume = program(quote! {
            #[schedule(sm_90a, rows = 128, ko = 64, c = 64, stages = 3)]
            fn conv3d<N: Dim, D: Dim, H: Dim, W: Dim, C: Dim, K: Dim, O: Dim, P: Dim, Q: Dim>(
                x: &Tensor<f16, (N, D, H, W, C)>, w: &Tensor<f16, (K, Const<3>, Const<3>, C)>,
                y: &mut Tensor<f16, (N, O, P, Q, K)>,
            ) {
                tile!(for (rows, ko) in (flat(N, O, P, Q), K) {
                    let (n, o, p, q) = rows.coords();
                    let mut acc = zeros::<f32>((rows, ko));
                    tile!(for (rs, c) in (each(flat(Const::<3>, Const::<3>)), C) {
                        let (r, s) = rs.coords();
                        acc += dot(x[(n, o, p + r - 1, q + s - 1, c)], w[(ko, r, s, c)].t());
                    });
                    y[(n, o, p, q, ko)] = acc.to();
                });
            }
        });
        assert_eq!(filled(&volume), ["fill x_ready by windows of x and boxes of w"]);
        assert_eq!(text(&volume.windows[0].axes[1].corner), "-1");
    }

    #[test]
    fn rows_that_the_sum_runs_over_are_found_at_each_step() {
        let text = cuda(quote! {
            #[schedule(sm_90a, ko = 128, c = 64, npq = 64, stages = 3)]
            fn weights<N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, R: Dim, S: Dim, P: Dim, Q: Dim>(
                x: &Tensor<f16, (N, H, W, C)>, dy: &Tensor<f16, (N, P, Q, K)>, dw: &mut Tensor<f16, (K, R, S, C)>, pad: i32,
            ) {
                tile!(for (r, s, ko, c) in (each(R), each(S), K, C) {
                    let mut acc = zeros::<f32>((ko, c));
                    tile!(for npq in flat(N, P, Q) {
                        let (n, p, q) = npq.coords();
                        acc += dot(dy[(n, p, q, ko)].t(), x[(n, p + r - pad, q + s - pad, c)]);
                    });
                    dw[(ko, r, s, c)] = acc.to();
                });
            }
        });
        let copies: Vec<&str> =
            text.lines().map(str::trim).filter(|line| line.starts_with("tma_load_im2col(")).collect();
        let [dy, _, x] = copies[..] else { panic!("two panels of one window, one of another in\n{text}") };
        assert!(dy.contains("ko0, by_Q.rem(npq0) + dy_corner2, "), "{dy}");
        assert!(x.ends_with("s - pad - x_corner2, r - pad - x_corner1);"), "{x}");
    }
}
