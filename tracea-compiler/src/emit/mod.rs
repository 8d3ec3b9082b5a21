//! [`Program`] → CUDA C++: transliteration. Nothing is decided here.
//!
//! The text stands on the device headers (`tracea/kernel.cuh`), keeps the user's names, and points back to the user's lines
//! with `#line`.

mod access;
mod expr;
mod launch;
mod writer;

use crate::nest::{AxisId, AxisKind, Dtype, Extent, Nest, ReduceOp};
use crate::plan::FUNCTIONS_MARK;
use crate::program::layout::{Layout, LayoutKind};
use crate::program::{
    AccessForm, Along, BulkCopy, Divisor, Domain, Identity, IntText, Major, MathUnit, Operand, ParamType, Producer,
    Program, Ring, Scalar, Stmt, Turn, VarId, map_name,
};
pub use launch::launch_plan;
use writer::Writer;

/// The CUDA source of a lowered kernel.
pub fn emit(nest: &Nest, program: &Program) -> String {
    let mut emitter = Emitter { nest, program, out: Writer::default() };
    emitter.source();
    emitter.out.finish()
}

struct Emitter<'a> {
    nest: &'a Nest,
    program: &'a Program,
    out: Writer,
}

impl<'a> Emitter<'a> {
    fn source(&mut self) {
        let program = self.program;
        self.out.line(format!("// {}: {}", program.kernel, program.schedule));
        match &program.producer {
            Some(_) => {
                self.out.line(format!("#define TRACEA_TILE_THREADS {}", program.threads));
                self.out.line("#include \"tracea/hopper.cuh\"");
            }
            None => self.out.line("#include \"tracea/kernel.cuh\""),
        }
        self.out.blank();
        self.out.line("namespace tracea {");
        self.out.line("namespace functions {");
        self.out.line(FUNCTIONS_MARK);
        self.out.line("}  // namespace functions");
        self.out.blank();
        let start = self.out.mark();
        self.constants();
        self.layouts();
        self.shared();
        self.signature();
        self.out.indent();
        self.grid();
        match &program.producer {
            Some(producer) => self.roles(producer),
            None => self.stmts(&program.body),
        }
        self.out.dedent();
        self.out.line("}");
        self.out.blank();
        self.out.line("}  // namespace tracea");
        self.out.drop_unused_constants(start);
    }

    fn constants(&mut self) {
        let program = self.program;
        self.out.line(format!("constexpr int THREADS = {};", program.threads));
        if let Some(producer) = &program.producer {
            self.out.line(format!("constexpr int PRODUCERS = {};", producer.threads));
        }
        for (axis, block) in &program.blocks {
            if self.nest.axis(*axis).kind != AxisKind::Each {
                self.out.line(format!("constexpr int {} = {block};", self.block_name(*axis)));
            }
        }
        for (dim, name) in self.nest.dims.iter().zip(&program.names.dims) {
            if let Some(size) = dim.known {
                self.out.line(format!("constexpr int {name} = {size};"));
            }
        }
        for tensor in &program.aligned {
            // Bytes that the address and every row of the tensor are multiples of; the launch knows them.
            let name = self.nest.tensor(*tensor).name.to_uppercase();
            self.out.line(format!("constexpr int ALIGN_{name} = TRACEA_ALIGN_{name};"));
        }
        for ring in program.rings.iter().filter(|ring| !ring.bulk.is_empty()) {
            let aligned: Vec<String> = ring
                .bulk
                .iter()
                .map(|tensor| format!("ALIGN_{} >= 16", self.nest.tensor(*tensor).name.to_uppercase()))
                .collect();
            self.out.line(format!("constexpr bool {} = {};", bulk_name(ring), aligned.join(" && ")));
        }
        self.out.blank();
    }

    fn layouts(&mut self) {
        for layout in &self.program.layouts {
            let rows = layout.row_axis.map_or("1".to_string(), |axis| self.block_name(axis));
            let cols = self.block_name(layout.col_axis);
            let text = match layout.kind {
                LayoutKind::Mma16816 { warps_m, warps_n } => format!("Mma16816<{rows}, {cols}, {warps_m}, {warps_n}>"),
                LayoutKind::Blocked { threads_m, threads_n, vec } => {
                    format!("Blocked<{rows}, {cols}, {threads_m}, {threads_n}, {vec}>")
                }
            };
            self.out.line(format!("using {} = {text};", layout.name));
        }
        for shared in &self.program.shared {
            self.out.line(format!(
                "using {} = {}<{}, {}, {}>;",
                tile_name(&shared.name),
                if shared.panels { "PanelTile" } else { "SharedTile" },
                shared.dtype.cuda(),
                shared.rows,
                shared.cols
            ));
        }
        self.out.blank();
    }

    fn signature(&mut self) {
        let program = self.program;
        let params: Vec<String> = program
            .params
            .iter()
            .map(|param| match param.ty {
                ParamType::Pointer { dtype, mutable: false } => {
                    format!("const {}* __restrict__ {}", dtype.cuda(), param.name)
                }
                ParamType::Pointer { dtype, mutable: true } => format!("{}* __restrict__ {}", dtype.cuda(), param.name),
                ParamType::Stride => format!("long long {}", param.name),
                ParamType::Int => format!("int {}", param.name),
                ParamType::Float => format!("float {}", param.name),
                ParamType::FastDiv => format!("FastDiv {}", param.name),
                ParamType::TensorMap => format!("const __grid_constant__ TensorMap {}", param.name),
            })
            .collect();
        let bounds = if program.producer.is_some() { "THREADS + PRODUCERS, 1" } else { "THREADS, 1" };
        let head = format!("extern \"C\" __global__ void __launch_bounds__({bounds}) {}(", program.entry);
        self.out.line(head);
        self.out.indent();
        self.out.wrapped(&params, ") {");
        self.out.dedent();
    }

    fn shared(&mut self) {
        // Offsets are in bytes from the start of dynamic shared memory; tiles that are never alive together overlap.
        for shared in &self.program.shared {
            self.out.line(format!("constexpr int {}_OFFSET = {};", shared.name.to_uppercase(), shared.offset));
        }
        if self.program.scratch.1 > 0 {
            self.out.line(format!("constexpr int SCRATCH_OFFSET = {};", self.program.scratch.0));
        }
        self.out.blank();
    }

    /// Which block this is: the grid's axes from the linear index, the last one fastest.
    fn grid(&mut self) {
        let program = self.program;
        if program.shared_bytes > 0 {
            self.out.line("extern __shared__ __align__(1024) unsigned char shared[];");
        }
        for shared in &program.shared {
            self.out.line(format!(
                "{0}::element* const {1} = reinterpret_cast<{0}::element*>(shared + {2}_OFFSET);",
                tile_name(&shared.name),
                shared.name,
                shared.name.to_uppercase()
            ));
        }
        if program.grid.is_empty() {
            return;
        }
        self.out.line("int block = blockIdx.x;");
        let count = |axis: AxisId, this: &Self| match this.nest.axis(axis).kind {
            AxisKind::Each if matches!(this.nest.axis(axis).extent, Extent::Dim(_)) => this.extent(axis),
            AxisKind::Each => format!("({})", this.extent(axis)),
            _ => format!("({} + {name} - 1) / {name}", this.extent(axis), name = this.block_name(axis)),
        };
        let mut axes: Vec<AxisId> = program.grid.iter().map(|grid| grid.axis).collect();
        let tiled = |axis: AxisId| self.nest.axis(axis).kind == AxisKind::Tiled;
        let grouped =
            program.raster > 1 && axes.len() >= 2 && tiled(axes[axes.len() - 1]) && tiled(axes[axes.len() - 2]);
        if grouped {
            // Blocks that run together read a compact rectangle of the operands.
            let (Some(inner), Some(outer)) = (axes.pop(), axes.pop()) else { return };
            let (inner_name, outer_name) = (self.axis_name(inner), self.axis_name(outer));
            let (inner_count, outer_count) = (count(inner, self), count(outer, self));
            self.out.line(format!("const int {outer_name}_blocks = {outer_count};"));
            self.out.line(format!("const int {inner_name}_blocks = {inner_count};"));
            self.out.line(format!(
                "const BlockPosition at = grouped<{}>(block % ({outer_name}_blocks * {inner_name}_blocks), {outer_name}_blocks, {inner_name}_blocks);",
                program.raster
            ));
            if !axes.is_empty() {
                self.out.line(format!("block /= {outer_name}_blocks * {inner_name}_blocks;"));
            }
            self.out.line(format!("const int {outer_name}0 = at.row * {};", self.block_name(outer)));
            self.out.line(format!("const int {inner_name}0 = at.col * {};", self.block_name(inner)));
        }
        while let Some(axis) = axes.pop() {
            let name = self.axis_name(axis);
            let total = count(axis, self);
            let index =
                if axes.is_empty() { "block".to_string() } else { format!("block % {}", parenthesised(&total)) };
            if self.nest.axis(axis).kind == AxisKind::Each {
                self.out.line(format!("const int {name} = {index};"));
            } else {
                let index = if axes.is_empty() { index } else { format!("({index})") };
                self.out.line(format!("const int {name}0 = {index} * {};", self.block_name(axis)));
            }
            if !axes.is_empty() {
                self.out.line(format!("block /= {};", parenthesised(&total)));
            }
        }
    }

    /// Barriers ready, then each role's own statements.
    fn roles(&mut self, producer: &Producer) {
        let program = self.program;
        let mut offset = program.barriers_offset;
        for ring in &program.rings {
            for side in ["full", "empty"] {
                self.out.line(format!(
                    "Barrier* const {}_{side} = reinterpret_cast<Barrier*>(shared + {offset});",
                    ring.name
                ));
                offset += 8 * ring.stages;
            }
        }
        self.out.line("if (threadIdx.x == 0) {");
        self.out.indent();
        for ring in &program.rings {
            let (name, stages) = (&ring.name, ring.stages);
            self.out.line(format!("for (int stage = 0; stage < {stages}; ++stage) {{"));
            self.out.indent();
            let arrivals = match ring.bulk.is_empty() {
                true => "PRODUCERS".to_string(),
                false => format!("{} ? 1 : PRODUCERS", bulk_name(ring)),
            };
            self.out.line(format!("mbarrier_init({name}_full + stage, {arrivals});"));
            self.out.line(format!("mbarrier_init({name}_empty + stage, THREADS / 32);"));
            self.out.dedent();
            self.out.line("}");
        }
        self.out.line("mbarrier_init_fence();");
        self.out.dedent();
        self.out.line("}");
        self.out.line("__syncthreads();");
        for counter in &program.counters {
            self.out.line(format!("int {counter} = 0;"));
        }
        self.out.line("if (threadIdx.x >= THREADS) {");
        self.out.indent();
        self.out.line(format!("setmaxnreg_dec<{}>();", producer.registers));
        if program.rings.iter().all(|ring| !ring.bulk.is_empty()) {
            let all: Vec<String> = program.rings.iter().map(bulk_name).collect();
            self.out.line(format!("if constexpr ({}) {{", all.join(" && ")));
            self.out.indent();
            self.out.line("if (threadIdx.x != THREADS) return;");
            self.out.dedent();
            self.out.line("}");
        }
        self.stmts(&producer.body);
        self.out.dedent();
        self.out.line("} else {");
        self.out.indent();
        self.out.line(format!("setmaxnreg_inc<{}>();", producer.consumer_registers));
        self.stmts(&program.body);
        self.out.dedent();
        self.out.line("}");
    }

    /// `name_full + slot`, the barrier of a ring's slot.
    fn barrier(&self, turn: &Turn, side: &str) -> String {
        let name = &self.program.ring(turn.ring).name;
        match turn.slot {
            IntText::Const(0) => format!("{name}_{side}"),
            _ => format!("{name}_{side} + {}", self.int_text(&turn.slot)),
        }
    }

    fn stmts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Line(line) => self.out.source_line(*line, &self.program.file),
            Stmt::Declare(var) => {
                let var = self.program.var(*var);
                match self.slots(var.domain) {
                    Some(slots) => self.out.line(format!("{} {}[{slots}];", var.ty.cuda(), var.name)),
                    None => self.out.line(format!("{} {};", var.ty.cuda(), var.name)),
                }
            }
            Stmt::Let { name, value } => self.out.line(format!("const int {name} = {};", self.int_text(value))),
            Stmt::Map { target, value, unless_all } => {
                let var = self.program.var(*target);
                let text = self.converted(value, var.ty, var.domain);
                if let Some(everywhere) = unless_all {
                    let condition = self.predicate(everywhere, Domain::Once);
                    self.out.line(format!("if (!({condition})) {{"));
                    self.out.indent();
                }
                match self.slots(var.domain) {
                    Some(slots) => {
                        self.out.line("#pragma unroll");
                        self.out.line(format!("for (int reg = 0; reg < {slots}; ++reg) {}[reg] = {text};", var.name));
                    }
                    None => self.out.line(format!("{} = {text};", var.name)),
                }
                if unless_all.is_some() {
                    self.out.dedent();
                    self.out.line("}");
                }
            }
            Stmt::MaskEdge { target, axis, identity } => self.mask_edge(*target, *axis, *identity),
            Stmt::Copy(copy) => self.copy(copy),
            Stmt::Commit => self.out.line("cp_async_commit();"),
            Stmt::Wait(pending) => self.out.line(format!("cp_async_wait<{pending}>();")),
            Stmt::Barrier => self.out.line("tile_barrier();"),
            Stmt::Fence => self.out.line("fence_proxy_async();"),
            Stmt::WaitFull(turn) => {
                let (barrier, phase) = (self.barrier(turn, "full"), self.int_text(&turn.phase));
                self.out.line(format!("mbarrier_wait({barrier}, {phase});"));
                let ring = self.program.ring(turn.ring);
                match ring.bulk.is_empty() {
                    true => self.out.line("fence_proxy_async();"),
                    false => self.out.line(format!("if constexpr (!{}) fence_proxy_async();", bulk_name(ring))),
                }
            }
            Stmt::Bulk { turn, copies, otherwise } => self.bulk(turn, copies, otherwise),
            Stmt::Release(turn) => {
                self.out.line(format!("if (lane_index() == 0) mbarrier_arrive({});", self.barrier(turn, "empty")))
            }
            Stmt::Acquire(turn) => self.out.line(format!(
                "mbarrier_wait({}, {} ^ 1);",
                self.barrier(turn, "empty"),
                self.factor(&turn.phase)
            )),
            Stmt::Publish { turn, copies } => {
                // Only cp.async can complete on a barrier by itself; it takes 4 bytes or more.
                let conditions: Vec<String> = copies
                    .iter()
                    .map(|copy| match copy.form {
                        AccessForm::Contiguous { .. } => format!("{} >= 4", self.align(copy)),
                        AccessForm::Scattered { .. } => "false".into(),
                    })
                    .collect();
                self.out.line(format!("publish<({})>({});", conditions.join(" && "), self.barrier(turn, "full")));
            }
            Stmt::Advance(counter) => self.out.line(format!("++{counter};")),
            Stmt::DotWait { pending, results } => {
                let names: Vec<&str> = results.iter().map(|var| self.program.var(*var).name.as_str()).collect();
                self.out.line(format!("wgdot_wait<{pending}>({});", names.join(", ")));
            }
            Stmt::Load { target, source } => self.load(*target, source),
            Stmt::Store { value, target, staging } => self.store(*value, target, *staging),
            Stmt::Dot(dot) => {
                let target = self.program.var(dot.target);
                let Domain::Tile(layout) = target.domain else { return };
                let layout = self.program.layout(layout);
                let (a, b) = (self.operand(&dot.a, dot.k), self.operand(&dot.b, dot.k));
                let function = match dot.unit {
                    MathUnit::Mma => "dot",
                    MathUnit::Wgmma => "wgdot_issue",
                    MathUnit::Fma => "dot_fma",
                };
                let mode = if dot.overwrite { ", false" } else { "" };
                self.out.line(format!("{function}<{}, {}>({}, {a}, {b}{mode});", layout.name, dot.k, target.name));
            }
            Stmt::Reduce { op, value, target, along } => {
                let op = match op {
                    ReduceOp::Sum => "Sum",
                    ReduceOp::Max => "Max",
                    ReduceOp::Min => "Min",
                };
                let (value, target) = (self.program.var(*value), self.program.var(*target));
                let scratch = self.scratch(value.ty);
                let (layout, function) = match (value.domain, along) {
                    (Domain::Tile(id), Along::Rows) => (id, "reduce_rows"),
                    (Domain::Tile(id), Along::Cols) if self.program.layout(id).row_axis.is_some() => {
                        (id, "reduce_cols")
                    }
                    (Domain::Tile(id) | Domain::Cols(id), _) => (id, "reduce_col_slice"),
                    (Domain::Rows(id), _) => (id, "reduce_row_slice"),
                    (Domain::Once, _) => return,
                };
                let layout = &self.program.layout(layout).name;
                match target.domain {
                    Domain::Once => self
                        .out
                        .line(format!("{} = {function}<{op}, {layout}>({}, {scratch});", target.name, value.name)),
                    _ => self
                        .out
                        .line(format!("{function}<{op}, {layout}>({}, {}, {scratch});", value.name, target.name)),
                }
            }
            Stmt::Exchange { value, target, transposed } => {
                let (value, target) = (self.program.var(*value), self.program.var(*target));
                let scratch = self.scratch(value.ty);
                let name = |domain: Domain| match domain {
                    Domain::Tile(id) | Domain::Rows(id) | Domain::Cols(id) => self.program.layout(id).name.clone(),
                    Domain::Once => String::new(),
                };
                // A tile of one row is a slice along its columns.
                let side = |domain: Domain| match domain {
                    Domain::Rows(_) => "rows",
                    _ => "cols",
                };
                let function = match (value.domain, target.domain) {
                    (Domain::Tile(a), Domain::Tile(b)) if self.is_flat(a) == self.is_flat(b) && !self.is_flat(a) => {
                        if *transposed {
                            "exchange_transposed".to_string()
                        } else {
                            "exchange".to_string()
                        }
                    }
                    (from, to) if side(from) == side(to) => format!("exchange_{}", side(from)),
                    (from, to) => format!("exchange_{}_to_{}", side(from), side(to)),
                };
                let (from, to) = (name(value.domain), name(target.domain));
                self.out.line(format!("{function}<{from}, {to}>({}, {}, {scratch});", value.name, target.name));
            }
            Stmt::Stage { value, shared } => {
                let value = self.program.var(*value);
                let Domain::Tile(layout) = value.domain else { return };
                let shared = self.program.shared(*shared);
                let layout = &self.program.layout(layout).name;
                self.out.line(format!(
                    "write_tile<{layout}, {}>({}, {});",
                    tile_name(&shared.name),
                    value.name,
                    shared.name
                ));
            }
            Stmt::For { var, from, until, step, unroll, body } => {
                if *unroll {
                    self.out.line("#pragma unroll");
                }
                let (from, until) = (self.int_text(from), self.int_text(until));
                let advance = if *step == 1 { format!("++{var}") } else { format!("{var} += {step}") };
                self.out.line(format!("for (int {var} = {from}; {var} < {until}; {advance}) {{"));
                self.out.indent();
                self.stmts(body);
                self.out.dedent();
                self.out.line("}");
            }
            Stmt::If { condition, body } => {
                let condition = self.int_text(condition);
                self.out.line(format!("if ({condition}) {{"));
                self.out.indent();
                self.stmts(body);
                self.out.dedent();
                self.out.line("}");
            }
        }
    }

    /// One thread asks TMA for the boxes; they complete on the barrier by their bytes.
    fn bulk(&mut self, turn: &Turn, copies: &[BulkCopy], otherwise: &[Stmt]) {
        let name = bulk_name(self.program.ring(turn.ring));
        let full = self.barrier(turn, "full");
        self.out.line(format!("if constexpr ({name}) {{"));
        self.out.indent();
        self.out.line("if (threadIdx.x == THREADS) {");
        self.out.indent();
        let bytes: Vec<String> =
            copies.iter().map(|copy| format!("{}::bytes", tile_name(&self.program.shared(copy.shared).name))).collect();
        self.out.line(format!("mbarrier_arrive_expect_tx({full}, {});", bytes.join(" + ")));
        for copy in copies {
            let shared = self.program.shared(copy.shared);
            let panel = 128 / shared.dtype.bytes();
            let map = map_name(&self.program.names.tensors[copy.tensor.index()], shared.rows);
            for part in 0..shared.cols / panel {
                let base = self.slot(&shared.name, copy.slot.as_ref(), shared);
                let to = if part == 0 { base } else { format!("{base} + {}", part * panel * shared.rows) };
                let at: Vec<String> = copy
                    .at
                    .iter()
                    .enumerate()
                    .rev()
                    .map(|(axis, at)| {
                        let text = self.int_text(at);
                        if axis + 1 == copy.at.len() && part > 0 { format!("{text} + {}", part * panel) } else { text }
                    })
                    .collect();
                self.out.line(format!("tma_load({to}, {map}, {full}, {});", at.join(", ")));
            }
        }
        self.out.dedent();
        self.out.line("}");
        self.out.dedent();
        self.out.line("} else {");
        self.out.indent();
        self.stmts(otherwise);
        self.out.dedent();
        self.out.line("}");
    }

    fn mask_edge(&mut self, target: VarId, axis: AxisId, identity: Identity) {
        let var = self.program.var(target);
        let Some(slots) = self.slots(var.domain) else { return };
        let value = match (identity, var.ty) {
            (Identity::Zero, ty) => format!("{}{{}}", ty.cuda()),
            (Identity::NegInfinity, Scalar::Int) => "Max::identity<int>()".into(),
            (Identity::Infinity, Scalar::Int) => "Min::identity<int>()".into(),
            (Identity::NegInfinity, _) => "-infinity()".into(),
            (Identity::Infinity, _) => "infinity()".into(),
        };
        let (limit, start) = (self.limit(axis), self.start(axis));
        let end = if start == "0" { self.block_name(axis) } else { format!("{start} + {}", self.block_name(axis)) };
        let coordinate = self.coordinate(axis, var.domain);
        self.out.line(format!("if ({end} > {limit}) {{"));
        self.out.indent();
        self.out.line("#pragma unroll");
        self.out.line(format!("for (int reg = 0; reg < {slots}; ++reg) {{"));
        self.out.indent();
        self.out.line(format!("if ({coordinate} >= {limit}) {}[reg] = {value};", var.name));
        self.out.dedent();
        self.out.line("}");
        self.out.dedent();
        self.out.line("}");
    }

    fn operand(&self, operand: &Operand, k: u32) -> String {
        match operand {
            Operand::Shared { shared, slot, major } => {
                let shared = self.program.shared(*shared);
                let (kind, other) = match major {
                    Major::K => ("KMajor", shared.rows),
                    Major::Mn => ("MnMajor", shared.cols),
                };
                let storage = if shared.panels { "Panel" } else { "Shared" };
                format!(
                    "{storage}{kind}<{}, {other}, {k}>{{{}}}",
                    shared.dtype.cuda(),
                    self.slot(&shared.name, slot.as_ref(), shared)
                )
            }
            Operand::Registers { value, ty } => {
                let value = self.program.var(*value);
                let Domain::Tile(layout) = value.domain else { return String::new() };
                format!("RegisterA<{}, {}>{{{}}}", ty.cuda(), self.program.layout(layout).name, value.name)
            }
        }
    }

    fn slot(&self, name: &str, slot: Option<&IntText>, shared: &crate::program::shared::Shared) -> String {
        match slot {
            None => name.to_string(),
            Some(slot) => format!("{name} + {} * {}", self.factor(slot), shared.tile_elements()),
        }
    }

    /// Registers that a domain has in each thread.
    fn slots(&self, domain: Domain) -> Option<String> {
        let name = |id| &self.program.layout(id).name;
        match domain {
            Domain::Tile(id) => Some(format!("{}::size", name(id))),
            Domain::Rows(id) => Some(format!("{}::row_size", name(id))),
            Domain::Cols(id) => Some(format!("{}::col_size", name(id))),
            Domain::Once => None,
        }
    }

    fn is_flat(&self, id: crate::program::layout::LayoutId) -> bool {
        let layout: &Layout = self.program.layout(id);
        layout.row_axis.is_none()
    }

    fn scratch(&self, ty: Scalar) -> String {
        match self.program.scratch.1 {
            0 => format!("static_cast<{}*>(nullptr)", ty.cuda()),
            _ => format!("reinterpret_cast<{}*>(shared + SCRATCH_OFFSET)", ty.cuda()),
        }
    }

    fn axis_name(&self, axis: AxisId) -> &'a str {
        &self.program.names.axes[axis.index()]
    }

    fn block_name(&self, axis: AxisId) -> String {
        format!("BLOCK_{}", self.axis_name(axis).to_uppercase())
    }

    fn extent(&self, axis: AxisId) -> String {
        match &self.nest.axis(axis).extent {
            Extent::Dim(dim) => self.program.names.dims[dim.index()].clone(),
            Extent::Flat(dims) => {
                let parts: Vec<&str> = dims.iter().map(|dim| self.program.names.dims[dim.index()].as_str()).collect();
                parts.join(" * ")
            }
        }
    }

    fn start(&self, axis: AxisId) -> String {
        match self.nest.axis(axis).kind {
            AxisKind::Whole => "0".into(),
            AxisKind::Each => self.axis_name(axis).into(),
            AxisKind::Tiled => format!("{}0", self.axis_name(axis)),
        }
    }

    fn limit(&self, axis: AxisId) -> String {
        if self.program.limited.contains(&axis) { format!("{}_end", self.axis_name(axis)) } else { self.extent(axis) }
    }

    fn int_text(&self, text: &IntText) -> String {
        match text {
            IntText::Const(value) => value.to_string(),
            IntText::Name(name) => name.clone(),
            IntText::Int(int) => self.int(int, Domain::Once),
            IntText::Extent(axis) => self.extent(*axis),
            IntText::Start(axis) => self.start(*axis),
            IntText::Limit(axis) => self.limit(*axis),
            IntText::Add(a, b) => format!("{} + {}", self.int_text(a), self.int_text(b)),
            IntText::Sub(a, b) => format!("{} - {}", self.int_text(a), self.factor(b)),
            IntText::Mul(a, b) => format!("{} * {}", self.factor(a), self.factor(b)),
            IntText::Min(a, b) => format!("min({}, {})", self.int_text(a), self.int_text(b)),
            IntText::Max(a, b) => format!("max({}, {})", self.int_text(a), self.int_text(b)),
            IntText::CeilDiv(a, by) => format!("({} + {}) / {by}", self.int_text(a), by - 1),
            IntText::Rem(a, by) => format!("{} % {by}", self.factor(a)),
            IntText::Less(a, b) => format!("{} < {}", self.int_text(a), self.int_text(b)),
            IntText::Quotient(a, Divisor::Param(name)) => format!("{name}.div({})", self.int_text(a)),
            IntText::Remainder(a, Divisor::Param(name)) => format!("{name}.rem({})", self.int_text(a)),
            IntText::Quotient(a, Divisor::Const(by)) => format!("{} / {by}", self.factor(a)),
            IntText::Remainder(a, Divisor::Const(by)) => format!("{} % {by}", self.factor(a)),
        }
    }

    /// Text that binds as tightly as a factor.
    fn factor(&self, text: &IntText) -> String {
        let plain = match text {
            IntText::Const(_)
            | IntText::Name(_)
            | IntText::Start(_)
            | IntText::Limit(_)
            | IntText::Min(..)
            | IntText::Max(..) => true,
            IntText::Extent(axis) => matches!(self.nest.axis(*axis).extent, Extent::Dim(_)),
            IntText::Quotient(_, divisor) | IntText::Remainder(_, divisor) => matches!(divisor, Divisor::Param(_)),
            _ => false,
        };
        let inner = self.int_text(text);
        if plain { inner } else { format!("({inner})") }
    }
}

fn parenthesised(text: &str) -> String {
    if text.contains(' ') { format!("({text})") } else { text.to_string() }
}

/// Whether TMA fills the ring, a constant of the source.
fn bulk_name(ring: &Ring) -> String {
    format!("{}_BULK", ring.name.to_uppercase())
}

/// `a_ring` → `ARingTile`, the type of a buffer's tiles.
fn tile_name(shared: &str) -> String {
    let mut name: String = shared
        .split('_')
        .map(|part| {
            let mut chars = part.chars();
            chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
        })
        .collect();
    name.push_str("Buffer");
    name
}

impl Dtype {
    /// The C++ type.
    pub fn cuda(self) -> &'static str {
        match self {
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::Tf32 => "tf32",
            Dtype::F32 => "float",
            Dtype::I32 => "int",
            Dtype::Bool => "bool",
        }
    }
}

impl Scalar {
    pub fn cuda(self) -> &'static str {
        match self {
            Scalar::F16 => "f16",
            Scalar::Bf16 => "bf16",
            Scalar::Tf32 => "tf32",
            Scalar::Float => "float",
            Scalar::Int => "int",
            Scalar::Bool => "bool",
        }
    }
}
