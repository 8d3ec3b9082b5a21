//! Results: registers → tensors, along the tensor's contiguous axis.

use crate::lower::Lowering;
use crate::lower::analysis::untransposed;
use crate::lower::roles::Role;
use crate::lower::values::scalar_of;
use crate::nest::{self, Dtype, Int, Op, TensorId, ValueId};
use crate::program::layout::{Layout, LayoutId, LayoutKind};
use crate::program::shared::{Lent, Shared, SharedId};
use crate::program::{Access, AccessForm, BulkStore, Domain, PanelSide, Premise, Stmt, StoreWay, VarId};
use crate::schedule::{ENOUGH_STAGES, ScheduleError, WARPGROUP, layouts, panel};
use std::collections::BTreeSet;

/// Rows of a tile that a warpgroup has.
const PANEL_ROWS: u32 = 64;
/// Columns of a tile that its panels are made of.
const LEAST_COLUMNS: u32 = 8;
/// Of a panel that has the tile's columns as its rows, at most so many bytes: as many as of one that has the rows.
const PANEL_BYTES: u32 = PANEL_ROWS * 128;
/// Of panels, for each warpgroup: one is written while another is on its way.
const PLACES: u32 = 2;
/// What rings' barriers take of shared memory, at most.
const BARRIERS: u32 = 1024;

/// How many panels a tile has, what their rows are, and through which shared memory they go.
pub struct Panels {
    pub count: u32,
    pub side: PanelSide,
    /// How many lie beside each other; those of a warpgroup's next 64 rows follow.
    pub beside: u32,
    /// Of the tile's columns, what the last panel has where that is less than others have.
    pub last: Option<u32>,
    /// What each has at most.
    pub each: u32,
    pub staging: SharedId,
}

impl Panels {
    /// Panels side by side that so many columns of a tile make up, as often as a warpgroup has 64 of its rows.
    fn of(columns: u32, each: u32, times: u32, side: PanelSide, staging: SharedId) -> Panels {
        let last = Some(columns % each).filter(|last| *last > 0);
        let beside = columns.div_ceil(each);
        Panels { count: times * beside, beside, side, last, each, staging }
    }

    /// Of a box that holds one.
    pub fn rows(&self) -> u32 {
        match self.side {
            PanelSide::Rows => PANEL_ROWS,
            PanelSide::Columns => self.each,
        }
    }
}

impl Lowering<'_> {
    pub fn store(&mut self, tensor: TensorId, index: &[Int], value: ValueId) -> Result<(), ScheduleError> {
        if let Some(epilogue) = self.begin_epilogue(tensor, value) {
            return self.store_epilogue(&epilogue, index);
        }
        let (stored, dtype) = (value, self.nest.tensor(tensor).dtype);
        let value = self.unrounded(value, dtype);
        let var = self.stored(tensor, value)?;
        match self.program.var(var).domain {
            Domain::Tile(layout) => {
                let (rows, cols) = (self.program.layout(layout).row_axis, self.program.layout(layout).col_axis);
                if let Some(row) = rows
                    && self.runs_along(tensor, index, row)
                    && let Some(panels) = self.transposed_panels(layout, dtype)
                {
                    return self.store_by_panels((tensor, stored), index, var, layout, &panels);
                }
                let along_rows = rows.filter(|row| index.last() == Some(&Int::Axis(*row)));
                if let Some(row) = along_rows
                    && self.copy_turned((tensor, index), (value, var), layout, (row, cols))
                {
                    return Ok(());
                }
                if let Some(row) = along_rows
                    && let Some(turned) = self.turned(layout, dtype)
                {
                    let source = self.program.var(var).clone();
                    // What the store would round is rounded before: half as much goes through scratch.
                    let ty = if dtype.bytes() == 2 { scalar_of(dtype) } else { source.ty };
                    let target = self.declare(&source.name, ty, Domain::Tile(turned));
                    let shape = self.program.layout(layout);
                    self.scratch = self.scratch.max(shape.rows * shape.cols * dtype.bytes());
                    self.turns = true;
                    self.out.push(Stmt::Exchange { value: var, target, transposed: true });
                    let access = self.access(tensor, index, Some(cols), Some(row));
                    self.store_turned(target, access, dtype);
                    return Ok(());
                }
                let target = self.access(tensor, index, rows, Some(cols));
                let staged = matches!(target.form, AccessForm::Contiguous { .. })
                    && matches!(self.program.layout(layout).kind, LayoutKind::Mma16816 { .. });
                if staged && let Some(panels) = self.panels(layout, dtype) {
                    return self.store_by_panels((tensor, stored), index, var, layout, &panels);
                }
                let way = match staged {
                    false => StoreWay::Direct,
                    true => {
                        let (rows, cols) = (self.program.layout(layout).rows, self.program.layout(layout).cols);
                        let name = format!("{}_staging", self.nest.tensor(tensor).name);
                        StoreWay::Staged(self.shared(&name, dtype, rows, cols, 1))
                    }
                };
                self.out.push(Stmt::Store { value: var, target, way });
            }
            Domain::Rows(layout) => {
                let rows = self.program.layout(layout).row_axis;
                let target = self.access(tensor, index, rows, None);
                self.out.push(Stmt::Store { value: var, target, way: StoreWay::Direct });
            }
            Domain::Cols(layout) => {
                let cols = self.program.layout(layout).col_axis;
                let mut target = self.access(tensor, index, None, None);
                target.form = AccessForm::Scattered { rows: None, cols: Some(cols) };
                self.out.push(Stmt::Store { value: var, target, way: StoreWay::Direct });
            }
            Domain::Once => {
                let target = self.access(tensor, index, None, None);
                self.out.push(Stmt::Store { value: var, target, way: StoreWay::Direct });
            }
        }
        Ok(())
    }

    /// Panel by panel, without anything that would be taken in.
    fn store_by_panels(
        &mut self,
        stored: (TensorId, ValueId),
        index: &[Int],
        value: VarId,
        layout: LayoutId,
        panels: &Panels,
    ) -> Result<(), ScheduleError> {
        let body = self.nested(|this| {
            let (target, bulk) = this.way_of_panels(stored.0, index, layout, panels);
            this.store_panel(value, panels, target, bulk);
            Ok(())
        })?;
        let registers = self.registers_of(layout, panels);
        let all = Stmt::Panels { count: panels.count, beside: panels.beside, registers, body, dealt: None };
        self.push_panels(stored, panels.staging, all);
        Ok(())
    }

    /// A panel's registers of each thread.
    pub fn registers_of(&self, layout: LayoutId, panels: &Panels) -> u32 {
        let shape = self.program.layout(layout);
        shape.size() * panels.beside / panels.count * panels.each / shape.cols
    }

    /// Few of a warp's threads lie along a row of a turned tile: where vectors would have to be cut, whole rows are put
    /// together in scratch first.
    fn store_turned(&mut self, value: VarId, target: Access, dtype: Dtype) {
        let direct = Stmt::Store { value, target: target.clone(), way: StoreWay::Direct };
        if !matches!(target.form, AccessForm::Contiguous { .. }) || dtype.bytes() < 2 {
            return self.out.push(direct);
        }
        let name = format!("{}_BY_VECTORS", self.names.tensor(target.tensor.index()).to_uppercase());
        let condition = self.program.require(&name, vec![Premise::Aligned(target.tensor)]);
        let by_scratch = Stmt::Store { value, target, way: StoreWay::Scratch };
        self.out.push(Stmt::Where { condition, body: vec![direct], otherwise: vec![by_scratch] });
    }

    /// Registers of what a store writes.
    pub fn stored(&mut self, tensor: TensorId, value: ValueId) -> Result<VarId, ScheduleError> {
        if let Some(var) = self.vars.get(&value) {
            return Ok(*var);
        }
        let domain = self.domain(value);
        let expr = self.expr(value, domain)?;
        let name = format!("{}_tile", self.nest.tensor(tensor).name);
        let var = self.declare(&name, scalar_of(self.nest.value(value).ty.dtype), domain);
        self.map(var, expr);
        Ok(var)
    }

    /// Whether a tile leaves by panels of a warpgroup's rows.
    pub fn leaves_by_panels(&self, layout: LayoutId, dtype: Dtype) -> bool {
        let columns = self.program.layout(layout).cols;
        self.is_whole_warpgroups(layout, dtype) && columns >= panel(dtype) && columns.is_multiple_of(LEAST_COLUMNS)
    }

    /// Whether a tile leaves by panels of a warpgroup's columns.
    fn leaves_by_transposed_panels(&self, layout: LayoutId, dtype: Dtype) -> bool {
        self.is_whole_warpgroups(layout, dtype) && self.program.layout(layout).cols.is_multiple_of(LEAST_COLUMNS)
    }

    /// What becomes the rows of the panels by which a tile leaves, where it leaves by any.
    pub fn side_of_panels(&self, tensor: TensorId, index: &[Int], layout: LayoutId) -> Option<PanelSide> {
        let (dtype, shape) = (self.nest.tensor(tensor).dtype, self.program.layout(layout));
        if self.leaves_by_panels(layout, dtype) && self.runs_along(tensor, index, shape.col_axis) {
            return Some(PanelSide::Rows);
        }
        let along_rows = shape.row_axis.is_some_and(|row| self.runs_along(tensor, index, row));
        (along_rows && self.leaves_by_transposed_panels(layout, dtype)).then_some(PanelSide::Columns)
    }

    /// Whether each warpgroup has 64 rows of the tile to itself, to pass by panels.
    fn is_whole_warpgroups(&self, layout: LayoutId, dtype: Dtype) -> bool {
        let shape = self.program.layout(layout);
        let LayoutKind::Mma16816 { warps_m, warps_n: 1 } = shape.kind else { return false };
        let whole = shape.rows.is_multiple_of(16 * warps_m) && warps_m.is_multiple_of(4);
        self.role == Role::Consumer && whole && dtype.bytes() >= 2
    }

    /// How often a warpgroup has 64 of the tile's rows.
    fn times_rows(&self, layout: LayoutId) -> u32 {
        let shape = self.program.layout(layout);
        shape.rows / (PANEL_ROWS * self.schedule.tile_threads() / WARPGROUP)
    }

    /// Shared memory for the panels of a result that is contiguous along the tile's columns.
    pub fn panels(&mut self, layout: LayoutId, dtype: Dtype) -> Option<Panels> {
        let (columns, each) = (self.program.layout(layout).cols, panel(dtype));
        if !self.leaves_by_panels(layout, dtype) {
            return None;
        }
        let times = self.times_rows(layout);
        let staging = self.staging(dtype, (times, columns.div_ceil(each)), (PANEL_ROWS, each));
        Some(Panels::of(columns, each, times, PanelSide::Rows, staging))
    }

    /// The same for one that is contiguous along the tile's rows, all 64 of a warpgroup in each panel.
    pub fn transposed_panels(&mut self, layout: LayoutId, dtype: Dtype) -> Option<Panels> {
        let columns = self.program.layout(layout).cols;
        if !self.leaves_by_transposed_panels(layout, dtype) {
            return None;
        }
        let times = self.times_rows(layout);
        let widest = columns.min(PANEL_BYTES / (PANEL_ROWS * dtype.bytes()));
        let narrower = if times == 1 { self.columns_that_rings_leave_room_for(columns, dtype) } else { None };
        let each = narrower.filter(|each| *each < widest).unwrap_or(widest);
        let staging = self.staging(dtype, (times, columns.div_ceil(each)), (each, PANEL_ROWS));
        Some(Panels::of(columns, each, times, PanelSide::Columns, staging))
    }

    /// Of so many columns, how many a panel has where rings of as many stages as hide memory's latency leave no room for wider ones. Measured on an H200
    /// by 192 x 128 (`tn`): 192 x 7168 x 7168 takes 35.8 µs by five stages and panels of 48, and 37.6 by four and panels of 64. Where tiles are many and
    /// sums short, the more panels take 1 % longer.
    fn columns_that_rings_leave_room_for(&self, columns: u32, dtype: Dtype) -> Option<u32> {
        const LEAST: u32 = 32;
        /// Matrices of so many columns are written together.
        const TOGETHER: u32 = 16;
        if self.schedule.pingpong || self.schedule.stages > ENOUGH_STAGES {
            return None;
        }
        let rings = self.program.shared.iter().filter(|shared| !shared.sent);
        let taken: u32 = rings.map(|shared| shared.stages * shared.tile_bytes()).sum();
        let left = self.schedule.shared_room().saturating_sub(taken + BARRIERS);
        let of_a_column = PLACES * self.schedule.threads() / WARPGROUP * PANEL_ROWS * dtype.bytes();
        let most = left / of_a_column / TOGETHER * TOGETHER;
        // As many panels as that takes, alike.
        (most >= LEAST).then(|| columns.div_ceil(columns.div_ceil(most)).next_multiple_of(TOGETHER))
    }

    /// Places for panels of this shape, of which so many lie beside each other, so many times.
    fn staging(&mut self, dtype: Dtype, (times, beside): (u32, u32), (rows, cols): (u32, u32)) -> SharedId {
        let places = PLACES.min(times * beside);
        let warpgroups = self.schedule.threads() / WARPGROUP;
        let alike = |shared: &Shared| shared.sent && (shared.dtype, shared.rows, shared.cols) == (dtype, rows, cols);
        if let Some(at) = self.program.shared.iter().position(alike) {
            let buffer = &mut self.program.shared[at];
            if buffer.lent.is_none() {
                buffer.stages = buffer.stages.max(places * warpgroups);
            }
            return SharedId(at as u32);
        }
        let bytes = places * warpgroups * rows * cols * dtype.bytes();
        let lender = if self.leaves_room(bytes, times) { None } else { self.lender(bytes) };
        let staging = self.shared(&format!("{}_panels", dtype.name()), dtype, rows, cols, places * warpgroups);
        if let Some(host) = lender {
            let [slot, phase] = ["lent_slot", "lent_phase"].map(|name| self.names.fresh(name));
            let Shared { stages, pitch, others, .. } = *self.program.shared(host);
            let buffer = &mut self.program.shared[staging.0 as usize];
            (buffer.host, buffer.lent) = (Some(host), Some(Lent { slot, phase, places }));
            (buffer.stages, buffer.pitch, buffer.others) = (stages, pitch, others);
        }
        let buffer = &mut self.program.shared[staging.0 as usize];
        (buffer.panels, buffer.sent) = (true, true);
        staging
    }

    /// Whether rings leave room for so many bytes. Schedules see to that, but for the tallest tiles, of which each warpgroup has several times 64 rows
    /// beside other ones'.
    fn leaves_room(&self, bytes: u32, times: u32) -> bool {
        let taken: u32 = self.program.shared.iter().map(|shared| shared.stages * shared.tile_bytes()).sum();
        times == 1 || self.schedule.pingpong || taken + bytes + BARRIERS <= self.schedule.shared_room()
    }

    /// Where a tile's panels go: by threads, and by TMA, if it can.
    pub fn way_of_panels(
        &mut self,
        tensor: TensorId,
        index: &[Int],
        layout: LayoutId,
        panels: &Panels,
    ) -> (Access, Option<BulkStore>) {
        let shape = self.program.layout(layout);
        let (rows, cols) = match (panels.side, shape.row_axis) {
            (PanelSide::Columns, Some(row)) => (Some(shape.col_axis), row),
            (_, rows) => (rows, shape.col_axis),
        };
        let target = self.access(tensor, index, rows, Some(cols));
        (target, rows.and_then(|rows| self.bulk_store(tensor, index, rows, cols, panels)))
    }

    /// Of chunks that are put together from two, as many as a thread has registers for beside what loops have left of tiles.
    fn chunks_at_a_time(&self, value: VarId) -> u32 {
        /// How many, and what the assembler was seen to have enough of: for four, 128 are too few, and for two, 80.
        const MANY: [(u32, u32); 2] = [(4, 136), (2, 96)];
        let held = match self.program.var(value).domain {
            Domain::Tile(layout) => self.program.layout(layout).size() * self.results_over(layout).max(1),
            _ => 0,
        };
        let left = self.schedule.role_registers().consumer.saturating_sub(held);
        MANY.into_iter().find(|(_, registers)| left >= *registers).map_or(1, |(many, _)| many)
    }

    /// How many tiles of this layout come out of loops.
    fn results_over(&self, layout: LayoutId) -> u32 {
        let loops = self
            .nest
            .body
            .stmts
            .iter()
            .filter_map(|stmt| if let nest::Stmt::Loop(inner) = stmt { Some(inner) } else { None });
        let results = loops.flat_map(|inner| &inner.carried).filter_map(|carried| self.vars.get(&carried.result));
        results.filter(|var| self.program.var(**var).domain == Domain::Tile(layout)).collect::<BTreeSet<_>>().len()
            as u32
    }

    /// A panel's way out, each warpgroup for itself: by TMA where there is a map and the tensor's alignment allows it.
    pub fn store_panel(&mut self, value: VarId, panels: &Panels, target: Access, bulk: Option<BulkStore>) {
        let (tensor, staging, side) = (target.tensor, panels.staging, panels.side);
        let write = Stmt::WritePanel { value, staging, side };
        let at_a_time = self.chunks_at_a_time(value);
        let by_threads = Stmt::StorePanel { staging, target, side, at_a_time };
        let Some(store) = bulk else { return self.out.extend([write, by_threads]) };
        let name = format!("{}_BY_TMA", self.names.tensor(tensor.index()).to_uppercase());
        let condition = self.program.require(&name, vec![Premise::Aligned(tensor)]);
        let send = vec![Stmt::SendPanel { staging, store, side }];
        self.out.extend([write, Stmt::Where { condition, body: send, otherwise: vec![by_threads] }]);
    }

    /// Storing rounds to the tensor's dtype, so the value before that conversion serves.
    pub fn unrounded(&self, value: ValueId, dtype: Dtype) -> ValueId {
        let value = untransposed(self.nest, value);
        match self.nest.value(value).op {
            Op::Cast(inner)
                if !self.vars.contains_key(&value)
                    && self.nest.value(value).ty.dtype == dtype
                    && self.nest.value(inner).ty.dtype == Dtype::F32 =>
            {
                untransposed(self.nest, inner)
            }
            _ => value,
        }
    }

    /// A layout of the transposed tile, for a tensor that is contiguous along the tile's rows.
    fn turned(&mut self, layout: LayoutId, dtype: Dtype) -> Option<LayoutId> {
        let shape = self.program.layout(layout).clone();
        let threads = self.schedule.threads();
        let (threads_m, threads_n, vec) = turning(shape.cols, shape.rows, threads, dtype)
            .or_else(|| layouts::blocked(shape.cols, shape.rows, threads, 1, 16 / dtype.bytes()))?;
        let name = format!("{}Turned", shape.name);
        if let Some(at) = self.program.layouts.iter().position(|known| known.name == name) {
            return Some(LayoutId(at as u32));
        }
        let id = LayoutId(self.program.layouts.len() as u32);
        self.program.layouts.push(Layout {
            name,
            kind: LayoutKind::Blocked { threads_m, threads_n, vec },
            row_axis: Some(shape.col_axis),
            col_axis: shape.row_axis?,
            rows: shape.cols,
            cols: shape.rows,
        });
        Some(id)
    }
}

/// The thread grid that scratch is read into without bank conflicts: vectors of 16 bytes, four beside each other where
/// `ldmatrix` transposes, eight where words are gathered.
fn turning(rows: u32, cols: u32, threads: u32, dtype: Dtype) -> Option<(u32, u32, u32)> {
    let (threads_n, vec) = match dtype.bytes() {
        2 => (4, 8),
        4 => (8, 4),
        _ => return None,
    };
    let threads_m = threads / threads_n;
    (rows.is_multiple_of(threads_m) && cols.is_multiple_of(threads_n * vec)).then_some((threads_m, threads_n, vec))
}

#[cfg(test)]
mod tests {
    use crate::program::layout::LayoutKind;
    use crate::testing::{cuda, gemm, lines, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn last(item: TokenStream, count: usize) -> Vec<String> {
        let lines = lines(&program(item));
        lines[lines.len() - count..].to_vec()
    }

    #[test]
    fn accumulators_go_through_shared_memory() {
        let lines = last(gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2))), 2);
        assert_eq!(lines, ["barrier", "store c by rows <- acc through c_staging"]);
    }

    #[test]
    fn a_transposed_result_turns_in_shared_memory() {
        let transposed = quote! {
            #[schedule(sm_80, i = 64, j = 64)]
            fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N, M)>) {
                tile!(for (i, j) in (M, N) { y[(j, i)] = x[(i, j)].t() * 2.0; });
            }
        };
        let direct = "store y by rows <- value_2";
        let by_scratch = "store y by rows <- value_2 through scratch";
        let expected =
            ["transpose value_2 <- value", "where Y_BY_VECTORS", direct, "where not Y_BY_VECTORS", by_scratch];
        assert_eq!(last(transposed.clone(), 5), expected);
        let program = program(transposed);
        assert!(program.shared.is_empty() && program.narrowing.is_empty(), "{program}");
    }

    #[test]
    fn a_transposed_result_is_rounded_before_it_turns() {
        let program = program(quote! {
            #[schedule(sm_80, i = 128, j = 64)]
            fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<bf16, (N, M)>) {
                tile!(for (i, j) in (M, N) { y[(j, i)] = x[(i, j)].exp().t().to(); });
            }
        });
        assert!(lines(&program).contains(&"declare y_tile_2: Bf16 over IJTileTurned".to_string()), "{program}");
        assert_eq!(program.scratch.1, 128 * 64 * 2);
        assert_eq!(program.layouts[1].kind, LayoutKind::Blocked { threads_m: 64, threads_n: 4, vec: 8 });
    }

    #[test]
    fn accumulators_turn_as_halves() {
        let program = program(quote! {
            #[schedule(sm_80, i = 128, j = 128, k = 32, stages = 2, warps = (2, 2))]
            fn f<M: Dim, N: Dim, K: Dim>(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f16, (N, M)>) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                    c[(j, i)] = acc.t().to();
                });
            }
        });
        assert_eq!(program.scratch.1, 128 * 128 * 2);
        assert_eq!(program.layouts[1].kind, LayoutKind::Blocked { threads_m: 32, threads_n: 4, vec: 8 });
    }

    #[test]
    fn warpgroups_write_transposed_results_by_panels() {
        let program = program(quote! {
            #[schedule(sm_90a, i = 128, j = 256, k = 64, stages = 3, consumers = 2)]
            fn f<M: Dim, N: Dim, K: Dim>(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f16, (N, M)>) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                    c[(j, i)] = acc.t().to();
                });
            }
        });
        let lines = lines(&program);
        for line in [
            "for 4 panels, where they are this part's",
            "write transposed f16_panels <- acc",
            "send f16_panels by c_map64",
        ] {
            assert!(lines.iter().any(|known| known == line), "{line} in {lines:?}");
        }
        assert_eq!(program.scratch.1, 0);
    }

    /// Of a product's result, how TMA sends its panels.
    fn sent(rows: u32, columns: u32, swapped: bool, result: TokenStream) -> String {
        let text = cuda(quote! {
            #[schedule(sm_90a, i = #rows, j = #columns, k = 64, stages = 3, consumers = 2, swapped = #swapped)]
            fn f<M: Dim, N: Dim, K: Dim>(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<#result, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                    c[(i, j)] = acc.to();
                });
            }
        });
        let line = text.lines().find(|line| line.contains("tma_store(")).expect("a store by TMA");
        line.trim().split_once(", own_panel").expect("a map").0.to_string()
    }

    #[test]
    fn the_last_panel_has_what_others_leave() {
        assert_eq!(sent(128, 144, false, quote!(f16)), "tma_store(panel == 2 ? c_map64x16 : c_map64");
        assert_eq!(sent(128, 192, false, quote!(f16)), "tma_store(c_map64");
        assert_eq!(sent(128, 144, false, quote!(f32)), "tma_store(panel == 4 ? c_map64x16 : c_map64");
        assert_eq!(sent(208, 128, true, quote!(f16)), "tma_store(panel == 3 ? c_map16 : c_map64");
    }

    #[test]
    fn panels_are_as_wide_as_rings_leave_room_for() {
        let sent = |rows: u32, stages: u32| {
            let text =
                cuda(gemm(quote!(sm_90a, i = #rows, j = 128, k = 64, stages = #stages, consumers = 2, swapped = true)));
            let line = text.lines().find(|line| line.contains("tma_store(")).expect("a store by TMA");
            line.trim().split_once(", own_panel").expect("a map").0.to_string()
        };
        assert_eq!(sent(208, 4), "tma_store(panel == 3 ? c_map16 : c_map64");
        assert_eq!(sent(208, 5), "tma_store(panel == 6 ? c_map16 : c_map32");
        assert_eq!(sent(192, 5), "tma_store(c_map48");
        assert_eq!(sent(144, 5), "tma_store(panel == 2 ? c_map16 : c_map64");
    }

    #[test]
    fn two_products_leave_room_for_fewer_chunks() {
        let at_a_time = |second: TokenStream, sum: TokenStream, value: TokenStream| {
            let text = cuda(quote! {
                #[schedule(sm_90a, i = 176, j = 128, k = 64, stages = 3, consumers = 2, swapped = true)]
                fn f<M: Dim, N: Dim, K: Dim>(
                    a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, d: &Tensor<f16, (N, K)>, c: &mut Tensor<f32, (M, N)>,
                ) {
                    tile!(for (i, j) in (M, N) {
                        let mut left = zeros::<f32>((i, j));
                        #second
                        tile!(for k in K {
                            left += dot(a[(i, k)], b[(j, k)].t());
                            #sum
                        });
                        c[(i, j)] = #value;
                    });
                }
            });
            let call = text.lines().find(|line| line.contains("store_transposed_panel<")).expect("a store by threads");
            call.split_once("BLOCK_I, ").expect("columns").1.split('>').next().expect("a number").to_string()
        };
        assert_eq!(at_a_time(quote!(), quote!(), quote!(left)), "2");
        let second = quote!(let mut right = zeros::<f32>((i, j)););
        assert_eq!(at_a_time(second, quote!(right += dot(a[(i, k)], d[(j, k)].t());), quote!(left * right)), "1");
    }

    #[test]
    fn narrow_tiles_turn_element_by_element() {
        let program = program(quote! {
            #[schedule(sm_80, i = 128, j = 16)]
            fn f<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, y: &mut Tensor<f16, (N, M)>) {
                tile!(for (i, j) in (M, N) { y[(j, i)] = x[(i, j)].t(); });
            }
        });
        assert_eq!(program.layouts[1].kind, LayoutKind::Blocked { threads_m: 16, threads_n: 16, vec: 8 });
    }

    #[test]
    fn a_vector_is_stored_by_its_rows() {
        let program = program(quote! {
            #[schedule(sm_80, i = 8, j = 256)]
            fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
                tile!(for i in M {
                    let mut total = zeros::<f32>(i);
                    tile!(for j in N { total += x[(i, j)].row_sum(); });
                    y[i] = total;
                });
            }
        });
        assert_eq!(lines(&program).last().map(String::as_str), Some("store y by elements <- total"));
    }

    #[test]
    fn the_last_rounding_is_the_stores_own() {
        let lines = lines(&program(quote! {
            #[schedule(sm_80, i = 256)]
            fn f<N: Dim>(x: &Tensor<f32, (N,)>, y: &mut Tensor<f16, (N,)>) { tile!(for i in N { y[i] = x[i].exp().to(); }); }
        }));
        assert!(lines.contains(&"declare y_tile: Float over ITile".to_string()), "{lines:?}");
    }
}
