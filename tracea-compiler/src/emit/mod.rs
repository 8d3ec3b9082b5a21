//! [`Program`] → CUDA C++: transliteration. Nothing is decided here.
//!
//! The text stands on the device headers (`tracea/kernel.cuh`), keeps the user's names, and points back to the user's lines
//! with `#line`.

mod access;
mod dots;
mod expr;
mod gather;
mod head;
mod held_rows;
mod int_text;
mod launch;
mod panels;
mod roles;
mod skew;
mod split;
mod units;
mod whole_rows;
mod writer;

use self::skew::Walked;
use crate::nest::{AxisId, Dtype, Int, Nest, ReduceOp, TensorId};
use crate::plan::FUNCTIONS_MARK;
use crate::program::layout::Layout;
use crate::program::shared::Shared;
use crate::program::{AccessForm, Along, ConditionId, Domain, Identity, IntText, Program, Scalar, Scope, Stmt, VarId};
pub use launch::launch_plan;
use writer::Writer;

/// The CUDA source of a lowered kernel.
pub fn emit(nest: &Nest, program: &Program) -> String {
    let mut emitter = Emitter {
        nest,
        program,
        out: Writer::default(),
        part: None,
        some_panels: None,
        panels_beside: None,
        columns: None,
        numbers: Vec::new(),
        from_begin: None,
        unit: "blockIdx.x".to_string(),
    };
    emitter.source();
    emitter.out.finish()
}

struct Emitter<'a> {
    nest: &'a Nest,
    program: &'a Program,
    out: Writer,
    /// Inside of [`Stmt::Panels`] and of [`Stmt::ByParts`].
    part: Option<TilePart>,
    /// Inside of panels of which a block may have some only: the condition under which it has.
    some_panels: Option<String>,
    /// Where a warpgroup has several times 64 rows: how many panels the first 64 have.
    panels_beside: Option<(u32, u32)>,
    /// Inside a step along skewed rows, what it calls the columns that exist.
    columns: Option<(AxisId, String)>,
    /// Numbers that have been looked up, innermost last, and what they are called.
    numbers: Vec<(Int, String)>,
    /// An axis along which rows are told by their begin, rather than from a block's first column on.
    from_begin: Option<AxisId>,
    /// The unit of work at hand: this block's first one outside of all.
    unit: String,
}

/// The part of each tile's registers that statements read and write.
#[derive(Clone, Copy)]
enum TilePart {
    /// So many of them.
    Panel(u32),
    /// Those that the variable `slots` says.
    Slots,
}

impl<'a> Emitter<'a> {
    fn source(&mut self) {
        let program = self.program;
        self.out.line(format!("// {}: {}", program.kernel, program.schedule));
        self.precomputed();
        self.relaid();
        self.merged();
        self.joined();
        match &program.producer {
            Some(_) => {
                if program.apart {
                    self.out.line("#define TRACEA_TILES_APART");
                }
                if let Some(rows) = program.rows_apart() {
                    self.out.line(format!("#define TRACEA_ROWS_APART {rows}"));
                }
                self.out.line(format!("#define TRACEA_TILE_THREADS {}", program.tile_threads()));
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

    fn stmts(&mut self, stmts: &[Stmt]) {
        let outside = self.numbers.len();
        match stmts.iter().position(|stmt| *stmt == Stmt::LocateAnew) {
            Some(at) => {
                stmts[..at].iter().for_each(|stmt| self.stmt(stmt));
                self.located_anew(&stmts[at + 1..]);
            }
            None => stmts.iter().for_each(|stmt| self.stmt(stmt)),
        }
        self.numbers.truncate(outside);
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Line(line) => self.out.source_line(*line, &self.program.file),
            Stmt::DeclareOperand(var) => {
                let line = format!("{} {};", self.packed_type(*var), self.program.var(*var).name);
                self.out.line(line);
            }
            Stmt::Pack { value, operand } => {
                let (value, packed) = (self.program.var(*value), self.program.var(*operand));
                let Domain::Tile(layout) = value.domain else { return self.unwritten("pack") };
                let (ty, layout) = (packed.ty.cuda(), &self.program.layout(layout).name);
                let kind = self.packed_type(*operand);
                self.out.line(format!("{} = {kind}(RegisterA<{ty}, {layout}>{{{}}});", packed.name, value.name));
            }
            Stmt::Declare(var) => {
                let var = self.program.var(*var);
                match self.slots(var.domain) {
                    Some(slots) => self.out.line(format!("{} {}[{slots}];", var.ty.cuda(), var.name)),
                    None => self.out.line(format!("{} {};", var.ty.cuda(), var.name)),
                }
            }
            Stmt::Let { name, value } => self.out.line(format!("const int {name} = {};", self.int_text(value))),
            Stmt::LookUp { name, number } => {
                self.out.line(format!("const int {name} = {};", self.looked_up(number)));
                self.numbers.push((number.clone(), name.clone()));
            }
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
                        let head = match (var.domain, self.part) {
                            (Domain::Tile(layout), Some(TilePart::Panel(many))) => {
                                self.registers_of_panel(layout, many)
                            }
                            (Domain::Tile(_) | Domain::Cols(_), Some(TilePart::Slots)) => {
                                "for (int reg = slots.first; reg < slots.end; ++reg)".into()
                            }
                            _ => format!("for (int reg = 0; reg < {slots}; ++reg)"),
                        };
                        self.out.line("#pragma unroll");
                        self.out.line(format!("{head} {}[reg] = {text};", var.name));
                    }
                    None => self.out.line(format!("{} = {text};", var.name)),
                }
                if unless_all.is_some() {
                    self.out.dedent();
                    self.out.line("}");
                }
            }
            Stmt::JoinParts { values, relative, leaving } => self.join_parts(values, relative, leaving),
            Stmt::DealParts { values, relative, deal } => self.deal_parts(values, relative, *deal),
            Stmt::MaskEdge { target, axis, identity, rows } => self.mask_edge(*target, *axis, *identity, *rows),
            Stmt::Copy(copy) => self.copy(copy),
            Stmt::Commit => self.out.line("cp_async_commit();"),
            Stmt::Wait(pending) => self.out.line(format!("cp_async_wait<{pending}>();")),
            Stmt::FindSkew { layout, row } => self.find_skew(*layout, row),
            Stmt::FindParts { layout, row } => self.find_parts(*layout, row),
            Stmt::WaitKept { left, block } => {
                let left = self.int_text(left);
                self.out.line(format!("cp_async_wait_first<{block}>({left});"));
            }
            Stmt::Where { condition, body, otherwise } => self.ways(*condition, body, otherwise),
            Stmt::WaitFull(turn) => {
                let (barrier, phase) = (self.barrier(turn, "full"), self.int_text(&turn.phase));
                self.out.line(format!("mbarrier_wait({barrier}, {phase});"));
            }
            Stmt::ClearRows { turn, shared, rows } => {
                let shared = self.program.shared(*shared);
                let (tile, slot) = (tile_name(&shared.name), self.slot(&shared.name, Some(&turn.slot), shared));
                let rows = self.int_text(rows);
                self.out.line(format!("clear_rows<{tile}>({slot}, {rows});"));
            }
            Stmt::Bulk { turn, copies, waits } => self.bulk(turn, copies, *waits),
            Stmt::Release(turn) => {
                let barrier = self.barrier(turn, "empty");
                self.out.line(match self.program.ring(turn.ring).joint {
                    true => format!("release_in_cluster<CLUSTER>({barrier});"),
                    false => format!("if (lane_index() == 0) mbarrier_arrive({barrier});"),
                });
            }
            Stmt::Acquire(turn) => self.acquire(turn),
            Stmt::Publish { turn, copies } => {
                // Only cp.async can complete on a barrier by itself; it takes 4 bytes or more.
                let conditions: Vec<String> = copies
                    .iter()
                    .map(|copy| match copy.form {
                        AccessForm::Contiguous { .. } => format!("{} >= 4", self.align(copy)),
                        AccessForm::Scattered { .. } => "false".into(),
                    })
                    .collect();
                let itself =
                    if conditions.is_empty() { "false".into() } else { format!("({})", conditions.join(" && ")) };
                self.out.line(format!("publish<{itself}>({});", self.barrier(turn, "full")));
            }
            Stmt::Advance(counter) => self.advance(counter),
            Stmt::DotWait { pending, results } => {
                let names: Vec<&str> = results.iter().map(|var| self.program.var(*var).name.as_str()).collect();
                self.out.line(format!("wgdot_wait<{pending}>({});", names.join(", ")));
            }
            Stmt::DeclareEnds { row } => self.declare_ends(row),
            Stmt::HoldSlice { name, slice } => self.hold_slice(name, slice),
            Stmt::HoldRows { layout, access } => self.hold_rows(*layout, access),
            Stmt::Load { target, source, kept: None } => self.load(*target, source),
            Stmt::Load { target, source, kept: Some(kept) } => self.load_kept(*target, source, kept),
            Stmt::Keep { kept, source } => self.keep(kept, source),
            Stmt::Store { value, target, way } => self.store(*value, target, way),
            Stmt::Panels { count, beside, registers, body, dealt } => {
                self.panels_beside = (beside < count).then_some((*beside, count / beside));
                self.panels(*count, *registers, body, *dealt);
                self.panels_beside = None;
            }
            Stmt::FetchOwn { own, first, .. } => self.fetch_own(*own, *first),
            Stmt::AwaitOwn(own) => self.await_own(*own),
            Stmt::ReadPanel { target, shared, slot, side } => self.read_panel(*target, *shared, slot, *side),
            Stmt::ReadTile { target, shared, slot } => self.read_tile(*target, *shared, slot),
            Stmt::WritePanel { value, staging, side } => self.write_panel(*value, *staging, *side),
            Stmt::SendPanel { staging, store, side } => self.send_panel(*staging, store, *side),
            Stmt::StorePanel { staging, target, side, at_a_time } => {
                self.store_panel(*staging, target, *side, *at_a_time)
            }
            Stmt::ForUnits(body) => self.for_units(body),
            Stmt::Ahead { turns, body } => self.ahead(*turns, body),
            Stmt::LeaveToOther { counter, by } => self.leave_to_other(counter, by),
            Stmt::TakeUnit => self.take_unit(),
            Stmt::Locate => self.locate(),
            // With what follows it.
            Stmt::LocateAnew => {}
            Stmt::Barrier(_) | Stmt::Fence | Stmt::AwaitEarly | Stmt::AwaitPanel { .. } | Stmt::FinishStores => {
                self.bare_call(stmt).into_iter().for_each(|call| self.out.line(call))
            }
            Stmt::PingPong(step, warpgroups) => self.ping_pong(*step, *warpgroups),
            Stmt::Stagger(step) => self.stagger(step),
            Stmt::Dot(dot) => self.dot(dot),
            Stmt::Fold { op, value, target, along } => {
                let (op, value, target) = (reduce_name(*op), self.program.var(*value), self.program.var(*target));
                let Domain::Tile(layout) = value.domain else { return self.unwritten("fold") };
                let (side, layout) = (side(*along), &self.program.layout(layout).name);
                let slots = self.slots_meant();
                self.out.line(format!("fold_{side}<{op}, {layout}>({}, {}{slots});", value.name, target.name));
            }
            Stmt::Vote { name, condition, slice } => {
                let domain = self.program.var(*slice).domain;
                let (count, condition) = (self.slots(domain).unwrap_or("1".into()), self.expr(condition, domain));
                self.out
                    .line(format!("const bool {name} = any_of_warp<{count}>([&](int reg) {{ return {condition}; }});"));
            }
            Stmt::Spread { op, target, along } => {
                let (op, target) = (reduce_name(*op), self.program.var(*target));
                let (Domain::Rows(layout) | Domain::Cols(layout)) = target.domain else {
                    return self.unwritten("spread");
                };
                let (side, layout, scratch) =
                    (side(*along), &self.program.layout(layout).name, self.scratch(target.ty));
                self.out.line(format!("spread_{side}<{op}, {layout}>({}, {scratch});", target.name));
            }
            Stmt::Reduce { op, value, target, along } => {
                let op = reduce_name(*op);
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
                let scratch = self.scratch(target.ty);
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
            Stmt::CopyTurned { source, target, rows, cols, layout } => {
                self.copy_turned(source, target, (*rows, *cols), *layout);
            }
            Stmt::Stage { value, shared } => {
                let value = self.program.var(*value);
                let Domain::Tile(layout) = value.domain else { return self.unwritten("stage") };
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
                if let Some((Stmt::ByColumns { columns, axis, layout, body }, before)) = body.split_last() {
                    let walked = Walked { columns, axis: *axis, layout: *layout, body };
                    return self.walk_columns(var, (&until, &self.int_text(step)), before, &walked);
                }
                let advance = match step {
                    IntText::Const(1) => format!("++{var}"),
                    step => format!("{var} += {}", self.int_text(step)),
                };
                self.block(format!("for (int {var} = {from}; {var} < {until}; {advance})"), body);
            }
            Stmt::If { condition, body } => {
                let condition = self.int_text(condition);
                self.block(format!("if ({condition})"), body);
            }
            // Part of a loop's own text.
            Stmt::ByColumns { body, .. } => self.stmts(body),
            Stmt::ByParts { layout, body } => self.by_parts(*layout, body),
        }
    }

    fn block(&mut self, head: String, body: &[Stmt]) {
        self.out.line(format!("{head} {{"));
        self.out.indent();
        self.stmts(body);
        self.out.dedent();
        self.out.line("}");
    }

    fn ways(&mut self, condition: ConditionId, body: &[Stmt], otherwise: &[Stmt]) {
        let name = &self.program.condition(condition).name;
        let (holds, fails) = (format!("if constexpr ({name})"), format!("if constexpr (!{name})"));
        match (body, otherwise) {
            (_, []) => self.guarded(holds, body),
            ([], _) => self.guarded(fails, otherwise),
            _ => {
                self.out.line(format!("{holds} {{"));
                self.out.indent();
                self.stmts(body);
                self.out.dedent();
                self.block("} else".into(), otherwise);
            }
        }
    }

    /// What lowering never asks for. Such code does not compile, where it would compute something else without the statement.
    fn unwritten(&mut self, what: &str) {
        self.out.line(format!("#error \"nothing says how to write this: {what}\""));
    }

    fn guarded(&mut self, head: String, body: &[Stmt]) {
        match body {
            [only] => match self.bare_call(only) {
                Some(call) => self.out.line(format!("{head} {call}")),
                None => self.block(head, body),
            },
            _ => self.block(head, body),
        }
    }

    fn mask_edge(&mut self, target: VarId, axis: AxisId, identity: Identity, rows: Option<TensorId>) {
        let var = self.program.var(target);
        let Some(slots) = self.slots(var.domain) else { return self.unwritten("mask_edge") };
        let value = match (identity, var.ty) {
            (Identity::Zero, ty) => format!("{}{{}}", ty.cuda()),
            (Identity::NegInfinity, Scalar::Int) => "Max::identity<int>()".into(),
            (Identity::Infinity, Scalar::Int) => "Min::identity<int>()".into(),
            (Identity::NegInfinity, _) => "-infinity()".into(),
            (Identity::Infinity, _) => "infinity()".into(),
        };
        if let (Domain::Tile(id), true) = (var.domain, self.is_skewed(axis))
            && self.program.layout(id).col_axis == axis
        {
            let (layout, span) = (&self.program.layout(id).name, self.span(axis));
            return self.out.line(format!("mask_outside<{layout}>({}, {span}, {value});", var.name));
        }
        if self.mask_ends(target, axis, &value) {
            return;
        }
        let (limit, start) = (self.limit(axis), self.start(axis));
        let end = if start == "0" { self.block_name(axis) } else { format!("{start} + {}", self.block_name(axis)) };
        let beyond = match var.domain {
            Domain::Tile(id) if self.program.layout(id).col_axis == axis => {
                let left = if start == "0" { limit.clone() } else { format!("{limit} - {start}") };
                // What rows are aligned to divides their ends where vectors are whole.
                let unit = rows
                    .filter(|_| self.program.whole_vectors)
                    .map(|tensor| format!(", {} / {}", self.alignment(tensor), self.nest.tensor(tensor).dtype.bytes()));
                format!("beyond_cols<{}{}>(reg, {left})", self.program.layout(id).name, unit.unwrap_or_default())
            }
            domain => format!("{} >= {limit}", self.coordinate(axis, domain)),
        };
        self.out.line(format!("if ({end} > {limit}) {{"));
        self.out.indent();
        self.out.line("#pragma unroll");
        self.out.line(format!("for (int reg = 0; reg < {slots}; ++reg) {{"));
        self.out.indent();
        self.out.line(format!("if ({beyond}) {}[reg] = {value};", var.name));
        self.out.dedent();
        self.out.line("}");
        self.out.dedent();
        self.out.line("}");
    }

    /// Of an operand that products read from registers.
    fn packed_type(&self, operand: VarId) -> String {
        let var = self.program.var(operand);
        let Domain::Tile(layout) = var.domain else { return String::new() };
        let layout = &self.program.layout(layout).name;
        format!("PackedA<{}, {layout}::rows, {layout}::cols>", var.ty.cuda())
    }

    fn slot(&self, name: &str, slot: Option<&IntText>, shared: &Shared) -> String {
        match slot {
            None => name.to_string(),
            Some(slot) => format!("{name} + {} * {}", self.factor(slot), shared.pitch_elements()),
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

    /// Statements that are one call and take nothing of the program.
    fn bare_call(&self, stmt: &Stmt) -> Option<String> {
        let call = match stmt {
            Stmt::Barrier(Scope::Tile) => "tile_barrier();",
            Stmt::Barrier(Scope::Warp) => "__syncwarp();",
            Stmt::Barrier(Scope::Warpgroup) => "warpgroup_barrier();",
            Stmt::Fence => "fence_proxy_async();",
            Stmt::AwaitPanel { staging } => return Some(self.await_panel(*staging)),
            Stmt::AwaitEarly => "await_early_cols();",
            Stmt::FinishStores => "finish_panels();",
            _ => return None,
        };
        Some(call.into())
    }

    fn scratch(&self, ty: Scalar) -> String {
        match self.program.scratch.1 {
            0 => format!("static_cast<{}*>(nullptr)", ty.cuda()),
            _ => format!("reinterpret_cast<{}*>(shared + SCRATCH_OFFSET)", ty.cuda()),
        }
    }
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

/// What a reduction runs over, as the headers' functions are called.
fn side(along: Along) -> &'static str {
    match along {
        Along::Rows => "rows",
        Along::Cols | Along::Slice => "cols",
    }
}

fn reduce_name(op: ReduceOp) -> &'static str {
    match op {
        ReduceOp::Sum => "Sum",
        ReduceOp::Max => "Max",
        ReduceOp::Min => "Min",
    }
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
