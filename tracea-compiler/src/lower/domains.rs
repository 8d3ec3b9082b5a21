//! Which registers hold a value: one layout for each pair of axes, anchored by the dots.
//!
//! A dot fixes the layout of its result; tiles that share an axis with a dot's result take a layout whose slices agree with
//! it; everything else is spread over threads so that neighbouring threads touch neighbouring memory. A tile of one axis is a
//! slice of the first layout that has the axis, so that it combines with tiles without moving.

use super::analysis::{DotFact, Facts, OperandSource, is_tiled};
use super::{columns, in_turn};
use crate::nest::{AxisId, Dtype, Nest, Op, ValueId};
use crate::program::layout::{Layout, LayoutId, LayoutKind};
use crate::program::{Domain, Major};
use crate::schedule::{Schedule, ScheduleError, layouts};
use std::collections::{BTreeMap, BTreeSet};

pub struct Domains {
    pub layouts: Vec<Layout>,
    pairs: BTreeMap<(AxisId, AxisId), LayoutId>,
    singles: BTreeMap<AxisId, Domain>,
}

fn key(a: AxisId, b: AxisId) -> (AxisId, AxisId) {
    (a.min(b), a.max(b))
}

impl Domains {
    pub fn choose(
        nest: &Nest,
        facts: &Facts,
        schedule: &Schedule,
        skipped: &BTreeSet<ValueId>,
    ) -> Result<Domains, ScheduleError> {
        let mut domains = Domains { layouts: Vec::new(), pairs: BTreeMap::new(), singles: BTreeMap::new() };
        for dot in &facts.dots {
            if !domains.pairs.contains_key(&key(dot.m, dot.n)) {
                let layout = if dot.dtype == Dtype::F32 {
                    domains.exact(nest, facts, schedule, dot.m, dot.n)?
                } else {
                    domains.mma(schedule, dot.m, dot.n)
                };
                domains.add(nest, layout);
            }
        }
        let mut singles = Vec::new();
        for id in facts.order.iter().filter(|id| !skipped.contains(id)) {
            let value = nest.value(*id);
            let axes: Vec<AxisId> = value.ty.axes.iter().copied().filter(|axis| is_tiled(nest, *axis)).collect();
            match axes[..] {
                [] => {}
                [a] => singles.push(a),
                [a, b] if a == b => {
                    return Err(ScheduleError::new(format!(
                        "a tile spans `{}` twice -- use another loop variable for one of its axes",
                        nest.axis(a).name
                    )));
                }
                [a, b] => {
                    if !domains.pairs.contains_key(&key(a, b)) {
                        let layout = domains.derived(nest, facts, schedule, a, b)?;
                        domains.add(nest, layout);
                    }
                }
                _ => {
                    return Err(ScheduleError::new(
                        "tiles of more than two axes are not supported yet -- loop over one of them with each(..)",
                    ));
                }
            }
        }
        for axis in singles {
            if !domains.singles.contains_key(&axis) {
                let layout = domains.blocked(nest, facts, schedule, None, axis, widest(nest, facts))?;
                domains.add(nest, layout);
            }
        }
        Ok(domains)
    }

    fn add(&mut self, nest: &Nest, mut layout: Layout) -> LayoutId {
        let id = LayoutId(self.layouts.len() as u32);
        layout.name = self.name(nest, &layout);
        match layout.row_axis {
            Some(row) => {
                self.pairs.insert(key(row, layout.col_axis), id);
                self.singles.entry(row).or_insert(Domain::Rows(id));
                self.singles.entry(layout.col_axis).or_insert(Domain::Cols(id));
            }
            None => {
                self.singles.insert(layout.col_axis, Domain::Tile(id));
            }
        }
        self.layouts.push(layout);
        id
    }

    fn name(&self, nest: &Nest, layout: &Layout) -> String {
        let word = |axis: AxisId| {
            let name = &nest.axis(axis).name;
            if name == ".." { "Whole".to_string() } else { capitalised(name) }
        };
        let base = format!("{}{}Tile", layout.row_axis.map(word).unwrap_or_default(), word(layout.col_axis));
        let mut name = base.clone();
        let mut count = 1;
        // The headers have a SharedTile of their own.
        while name == "SharedTile" || self.layouts.iter().any(|other| other.name == name) {
            count += 1;
            name = format!("{base}{count}");
        }
        name
    }

    fn mma(&self, schedule: &Schedule, rows: AxisId, cols: AxisId) -> Layout {
        let (warps_m, warps_n) = schedule.tile_warps();
        Layout {
            name: String::new(),
            kind: LayoutKind::Mma16816 { warps_m, warps_n },
            row_axis: Some(rows),
            col_axis: cols,
            rows: schedule.blocks[rows.index()].unwrap_or(1),
            cols: schedule.blocks[cols.index()].unwrap_or(1),
        }
    }

    /// Accumulators of exact f32 products.
    fn exact(
        &self,
        nest: &Nest,
        facts: &Facts,
        schedule: &Schedule,
        rows: AxisId,
        cols: AxisId,
    ) -> Result<Layout, ScheduleError> {
        let mut layout = self.blocked(nest, facts, schedule, Some(rows), cols, 4)?;
        if let Some((threads_m, threads_n, vec)) = layouts::product(layout.rows, layout.cols, schedule.threads()) {
            // Rows of B that lie along the sum are read by 16 bytes each: neighbours', so that they lie in different banks.
            let along_the_sum = |dot: &DotFact| matches!(dot.b, OperandSource::Tensor { major: Major::K, .. });
            let ones = facts.dots.iter().filter(|dot| (dot.m, dot.n) == (rows, cols)).all(along_the_sum);
            layout.kind = LayoutKind::Blocked { threads_m, threads_n, vec: if ones { 1 } else { vec } };
        }
        Ok(layout)
    }

    fn blocked(
        &self,
        nest: &Nest,
        facts: &Facts,
        schedule: &Schedule,
        rows: Option<AxisId>,
        cols: AxisId,
        widest: u32,
    ) -> Result<Layout, ScheduleError> {
        let count = |axis: AxisId| schedule.blocks[axis.index()].unwrap_or(1);
        let (height, width) = (rows.map_or(1, count), count(cols));
        let threads = schedule.threads();
        let across = if facts.dots.is_empty() { schedule.warps.1 } else { 1 };
        let of_kind =
            |kind| Layout { name: String::new(), kind, row_axis: rows, col_axis: cols, rows: height, cols: width };
        if schedule.whole == Some(cols)
            && let Some((threads_m, threads_n, vec)) = layouts::whole_rows(height, width, threads, widest)
        {
            let vectors = width / (threads_n * vec);
            let in_turn = schedule.in_turn.then(|| in_turn::vectors_at_once(vectors));
            return Ok(of_kind(LayoutKind::WholeRows { threads_m, threads_n, vec, in_turn }));
        }
        let Some((threads_m, threads_n, vec)) = layouts::blocked(height, width, threads, across, widest) else {
            let names =
                rows.iter().chain([&cols]).map(|axis| format!("`{}`", nest.axis(*axis).name)).collect::<Vec<_>>();
            return Err(ScheduleError::about(
                nest.axis(cols).name.clone(),
                format!(
                    "{threads} threads cannot share a {height} × {width} tile of {} evenly -- use block sizes that are powers of two, or fewer warps",
                    names.join(", ")
                ),
            ));
        };
        Ok(of_kind(LayoutKind::Blocked { threads_m, threads_n, vec }))
    }

    /// A layout for a pair that is no dot's result.
    fn derived(
        &self,
        nest: &Nest,
        facts: &Facts,
        schedule: &Schedule,
        a: AxisId,
        b: AxisId,
    ) -> Result<Layout, ScheduleError> {
        let block = |axis: AxisId| schedule.blocks[axis.index()].unwrap_or(1);
        let contiguous = |axis: AxisId| {
            facts.order.iter().any(|id| {
                let value = nest.value(*id);
                matches!(&value.op, Op::Load { tensor, index } if columns::are_contiguous(nest, *tensor, index, axis))
                    && value.ty.axes.contains(&a)
                    && value.ty.axes.contains(&b)
            })
        };
        let tensor_cores = facts.dots.iter().any(|dot| dot.dtype != Dtype::F32);
        if tensor_cores {
            let (warps_m, warps_n) = schedule.tile_warps();
            let fits_rows = |axis: AxisId| block(axis).is_multiple_of(16 * warps_m);
            let fits_cols = |axis: AxisId| block(axis).is_multiple_of(8 * warps_n);
            for (rows, cols) in [(a, b), (b, a)] {
                let anchored = facts.dots.iter().any(|dot| dot.m == rows || dot.n == cols);
                // Reading along the tensor's rows is worth more than slices that need not move.
                let against = contiguous(rows) && !contiguous(cols);
                if anchored && !against && fits_rows(rows) && fits_cols(cols) {
                    return Ok(self.mma(schedule, rows, cols));
                }
            }
        }
        let (rows, cols) = if contiguous(a) && !contiguous(b) { (b, a) } else { (a, b) };
        self.blocked(nest, facts, schedule, Some(rows), cols, widest(nest, facts))
    }

    /// Where a tile of these axes lives.
    pub fn of(&self, axes: &[AxisId]) -> Domain {
        match axes {
            [a] => self.singles.get(a).copied().unwrap_or(Domain::Once),
            [a, b] => self.pairs.get(&key(*a, *b)).map_or(Domain::Once, |id| Domain::Tile(*id)),
            _ => Domain::Once,
        }
    }

    /// Whether a one-axis tile in `from` can be read where a loop runs over `to`.
    pub fn agrees(&self, layouts: &[Layout], from: Domain, to: Domain) -> bool {
        let layout = |id: LayoutId| &layouts[id.0 as usize];
        match (from, to) {
            (Domain::Once, _) => true,
            (a, b) if a == b => true,
            (Domain::Rows(a), Domain::Tile(b) | Domain::Rows(b)) => {
                layout(a).row_axis == layout(b).row_axis && layout(a).shares_rows(layout(b))
            }
            (Domain::Cols(a), Domain::Tile(b) | Domain::Cols(b)) => {
                layout(a).col_axis == layout(b).col_axis && layout(a).shares_cols(layout(b))
            }
            _ => false,
        }
    }
}

/// Elements in 16 bytes of the narrowest dtype that the kernel reads or writes.
fn widest(nest: &Nest, facts: &Facts) -> u32 {
    if facts.dots.iter().any(|dot| dot.dtype == Dtype::F32) {
        return 4;
    }
    16 / nest.tensors.iter().map(|tensor| tensor.dtype.bytes()).min().unwrap_or(4)
}

fn capitalised(name: &str) -> String {
    name.split('_')
        .map(|part| {
            let mut chars = part.chars();
            chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::program::layout::LayoutKind;
    use crate::testing::{gemm, lowered, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    #[test]
    fn a_dot_fixes_the_layout_of_its_result() {
        let program = program(gemm(quote!(sm_80, i = 128, j = 64, k = 32, stages = 2, warps = (4, 2))));
        let [tile] = &program.layouts[..] else { panic!("one layout") };
        assert_eq!(tile.kind, LayoutKind::Mma16816 { warps_m: 4, warps_n: 2 });
        assert_eq!((tile.name.as_str(), tile.rows, tile.cols), ("IJTile", 128, 64));
    }

    #[test]
    fn exact_products_accumulate_in_a_square_grid_of_threads() {
        let program = program(quote! {
            #[schedule(sm_80, i = 128, j = 128, k = 16, stages = 2, warps = (4, 2))]
            fn f<N: Dim>(a: &Tensor<f32, (N, N)>, b: &Tensor<f32, (N, N)>, c: &mut Tensor<f32, (N, N)>) {
                tile!(for (i, j) in (N, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in N { acc += dot(a[(i, k)], b[(k, j)]); });
                    c[(i, j)] = acc;
                });
            }
        });
        assert_eq!(program.layouts[0].kind, LayoutKind::Blocked { threads_m: 16, threads_n: 16, vec: 4 });
    }

    fn copied(dtype: TokenStream, schedule: TokenStream) -> TokenStream {
        quote! {
            #[schedule(#schedule)]
            fn f<M: Dim, N: Dim>(x: &Tensor<#dtype, (M, N)>, y: &mut Tensor<#dtype, (M, N)>) {
                tile!(for (i, j) in (M, N) { y[(i, j)] = x[(i, j)]; });
            }
        }
    }

    #[test]
    fn neighbouring_threads_hold_sixteen_bytes_each() {
        let of = |dtype| program(copied(dtype, quote!(sm_80, i = 8, j = 256))).layouts[0].kind;
        assert_eq!(of(quote!(f16)), LayoutKind::Blocked { threads_m: 8, threads_n: 32, vec: 8 });
        assert_eq!(of(quote!(f32)), LayoutKind::Blocked { threads_m: 8, threads_n: 32, vec: 4 });
    }

    #[test]
    fn a_tile_too_small_for_the_threads_is_refused() {
        let error = lowered(copied(quote!(f32), quote!(sm_80, i = 3, j = 5))).expect_err("no layout");
        assert_eq!(
            error.message,
            "256 threads cannot share a 3 × 5 tile of `i`, `j` evenly -- use block sizes that are powers of two, or fewer warps"
        );
        assert_eq!(error.option.as_deref(), Some("j"));
    }

    #[test]
    fn tiles_beside_a_dot_take_slices_that_agree_with_it() {
        // The k axis is the columns of the left operand's own tile: warps share its rows as they share the result's.
        let program = program(quote! {
            #[schedule(sm_80, i = 64, j = 64, k = 64, stages = 2, warps = (4, 1))]
            fn f<N: Dim>(a: &Tensor<f16, (N, N)>, b: &Tensor<f16, (N, N)>, c: &mut Tensor<f32, (N, N)>) {
                tile!(for (i, j) in (N, N) {
                    let mut acc = zeros::<f32>((i, j));
                    let mut squares = zeros::<f32>(i);
                    tile!(for k in N {
                        let rows = a[(i, k)].to::<f32>();
                        squares += (rows * rows).row_sum();
                        acc += dot(a[(i, k)], b[(k, j)]);
                    });
                    c[(i, j)] = acc * squares;
                });
            }
        });
        let kinds: Vec<LayoutKind> = program.layouts.iter().map(|layout| layout.kind).collect();
        assert_eq!(kinds, [LayoutKind::Mma16816 { warps_m: 4, warps_n: 1 }; 2]);
    }
}
