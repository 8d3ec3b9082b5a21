//! Warp roles: barriers made ready, then each role's own statements.

use super::int_text::sum;
use super::{Emitter, tile_name};
use crate::program::{
    BulkCopy, BulkForm, Counter, IntText, OwnPanels, Param, ParamType, PingPong, Producer, Queue, RoleRegisters,
    Stagger, Turn, Units,
};
use crate::schedule::WARPGROUP;

impl Emitter<'_> {
    /// Barriers ready, then each role's own statements.
    pub(super) fn roles(&mut self, producer: &Producer) {
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
        for own in &program.own {
            self.out.line(format!("Barrier* const {} = reinterpret_cast<Barrier*>(shared + {offset});", own.name));
            offset += 8 * own.places * program.threads / WARPGROUP;
        }
        let queue = if let Units::Queue(queue) = &program.units { Some(queue) } else { None };
        if let Some(Queue { name, offset, .. }) = queue {
            self.out.line(format!("const UnitQueue {name}(shared + {offset});"));
        }
        let (stores, loads): (Vec<&Param>, Vec<&Param>) = program
            .params
            .iter()
            .filter(|param| param.ty == ParamType::TensorMap)
            .partition(|param| program.is_stored_by(&param.name));
        self.clear_narrow();
        self.count_rows();
        // While another thread makes barriers ready.
        self.prefetch("threadIdx.x == THREADS", &loads);
        self.out.line("if (threadIdx.x == 0) {");
        self.out.indent();
        for ring in &program.rings {
            let (name, stages) = (&ring.name, ring.stages);
            self.out.line(format!("for (int stage = 0; stage < {stages}; ++stage) {{"));
            self.out.indent();
            let arrivals = match ring.bulk {
                None => "PRODUCERS".to_string(),
                Some(bulk) => format!("{} ? 1 : PRODUCERS", program.condition(bulk).name),
            };
            self.out.line(format!("mbarrier_init({name}_full + stage, {arrivals});"));
            let readers = if program.apart { "TILE_THREADS" } else { "THREADS" };
            let releases = format!("{}{readers} / 32", if ring.joint { "CLUSTER * " } else { "" });
            self.out.line(format!("mbarrier_init({name}_empty + stage, {releases});"));
            self.out.dedent();
            self.out.line("}");
        }
        for OwnPanels { name, places, .. } in &program.own {
            let places = places * program.threads / WARPGROUP;
            self.out.line(format!("for (int place = 0; place < {places}; ++place) mbarrier_init({name} + place, 1);"));
        }
        if let Some(Queue { name, .. }) = queue {
            let producers = match producer.alone {
                Some(alone) => format!("({} ? 1 : PRODUCERS / 32)", program.condition(alone.condition).name),
                None => "PRODUCERS / 32".to_string(),
            };
            self.out.line(format!("{name}.init(THREADS / 32 + {producers});"));
        }
        self.out.line("mbarrier_init_fence();");
        self.out.dedent();
        self.out.line("}");
        self.out.line(if program.cluster.is_some() { "cluster_start();" } else { "__syncthreads();" });
        self.out.line("await_launch_before();");
        self.counters();
        self.out.line("if (threadIdx.x >= THREADS) {");
        self.out.indent();
        let registers = |of: fn(RoleRegisters) -> u32| match producer.alone {
            Some(alone) if alone.registers != producer.registers => {
                let name = &program.condition(alone.condition).name;
                format!("{name} ? {} : {}", of(alone.registers), of(producer.registers))
            }
            _ => of(producer.registers).to_string(),
        };
        self.out.line(format!("setmaxnreg_dec<{}>();", registers(|of| of.producer)));
        let alone = producer.alone.map(|alone| program.condition(alone.condition).name.as_str());
        match alone {
            Some(alone) if program.by_tma => {
                self.out.line(format!("static_assert({alone}, \"there are no registers for other copies\");"));
                self.out.line("if (threadIdx.x != THREADS) return;");
                self.stmts(&producer.body);
            }
            Some(alone) => {
                self.out.line(format!("if constexpr ({alone}) {{"));
                self.out.indent();
                self.out.line("if (threadIdx.x != THREADS) return;");
                self.out.dedent();
                self.out.line("}");
                self.stmts(&producer.body);
            }
            None => self.stmts(&producer.body),
        }
        self.out.dedent();
        self.out.line("} else {");
        self.out.indent();
        self.prefetch("threadIdx.x == 0", &stores);
        self.out.line(format!("setmaxnreg_inc<{}>();", registers(|of| of.consumer)));
        for OwnPanels { counter, .. } in &program.own {
            self.out.line(format!("int {counter} = 0;"));
        }
        self.stmts(&program.body);
        self.out.dedent();
        self.out.line("}");
    }

    /// How wide boxes are, and zeros beside them.
    fn clear_narrow(&mut self) {
        let program = self.program;
        for (at, narrow) in program.narrow.iter().enumerate() {
            let (shared, columns) = (program.shared(narrow.shared), &narrow.columns);
            let (tile, name) = (tile_name(&shared.name), &shared.name);
            if program.narrow[..at].iter().all(|before| before.columns != *columns) {
                let extent = &program.names.dims[narrow.dim.index()];
                self.out.line(format!("const int {columns} = {tile}::columns_of({extent});"));
            }
            let (condition, elements) =
                (&program.condition(narrow.condition).name, shared.bytes() / shared.dtype.bytes());
            self.out.line(format!(
                "if constexpr ({condition}) clear_beside<{tile}, THREADS + PRODUCERS>({name}, {elements}, {columns});"
            ));
        }
    }

    /// How tall boxes are.
    fn count_rows(&mut self) {
        for short in &self.program.short {
            let (tile, rows) = (tile_name(&self.program.shared(short.shared).name), &short.rows);
            let extent = &self.program.names.dims[short.dim.index()];
            self.out.line(format!("const int {rows} = {tile}::rows_of({extent});"));
        }
    }

    /// Brings what TMA wants to know of tensors before it is first asked for them.
    fn prefetch(&mut self, by: &str, maps: &[&Param]) {
        let calls: Vec<String> = maps.iter().map(|map| format!("tma_prefetch_map({});", map.name)).collect();
        match &calls[..] {
            [] => {}
            [call] => self.out.line(format!("if ({by}) {call}")),
            calls => self.out.line(format!("if ({by}) {{ {} }}", calls.join(" "))),
        }
    }

    /// `name_full + slot`, the barrier of a ring's slot.
    pub(super) fn barrier(&self, turn: &Turn, side: &str) -> String {
        let name = &self.program.ring(turn.ring).name;
        match turn.slot {
            IntText::Const(0) => format!("{name}_{side}"),
            _ => format!("{name}_{side} + {}", self.int_text(&turn.slot)),
        }
    }

    pub(super) fn acquire(&mut self, turn: &Turn) {
        let (empty, phase) = (self.barrier(turn, "empty"), self.factor(&turn.phase));
        self.out.line(format!("mbarrier_wait({empty}, {phase} ^ 1);"));
    }

    pub(super) fn ping_pong(&mut self, step: PingPong, warpgroups: u32) {
        self.out.line(match step {
            PingPong::Begin | PingPong::BeginTurns => format!("pingpong_begin<{warpgroups}>();"),
            PingPong::End => format!("pingpong_end<{warpgroups}>();"),
            PingPong::EndAtTurn => format!("pingpong_end_at<{warpgroups}>(visited % {warpgroups});"),
            PingPong::Take => format!("pingpong_take<{warpgroups}>();"),
            PingPong::Pass => format!("pingpong_pass<{warpgroups}>();"),
        });
        if step == PingPong::BeginTurns {
            self.out.line("const int own_turn = warpgroup_index();");
            self.out.line("int visited = 0;");
        }
    }

    pub(super) fn stagger(&mut self, step: &Stagger) {
        self.out.line(match step {
            Stagger::Begin { steps, last, stages } => {
                format!("const int follows_from = follows_from_of<{last}, {stages}>({steps});")
            }
            Stagger::Follow => "if (step == follows_from) follow();".to_string(),
            Stagger::Lead { steps, stages } => format!("lead<{stages}>({steps});"),
        });
    }

    pub(super) fn leave_to_other(&mut self, counter: &str, by: &IntText) {
        let by = self.int_text(by);
        self.out.line(format!("if (visited++ % 2 != own_turn) {{ {counter}.advance_by({by}); continue; }}"));
    }

    pub(super) fn advance(&mut self, counter: &str) {
        let is_turn = |of: &Counter| matches!(of, Counter::Turns { name, .. } if name == counter);
        self.out.line(match self.program.counters.iter().any(is_turn) {
            true => format!("{counter}.advance();"),
            false => format!("++{counter};"),
        });
    }

    /// One thread asks TMA for the tiles; they complete on the barrier by their bytes.
    pub(super) fn bulk(&mut self, turn: &Turn, copies: &[BulkCopy], waits: bool) {
        let full = self.barrier(turn, "full");
        self.out.line("if (threadIdx.x == THREADS) {");
        self.out.indent();
        if waits {
            self.acquire(turn);
        }
        let bytes = copies.iter().map(|copy| {
            let tile = tile_name(&self.program.shared(copy.shared).name);
            match (&copy.columns, &copy.rows) {
                (None, None) => format!("{tile}::bytes"),
                (Some(columns), None) => format!("{tile}::bytes_of({columns})"),
                (None, Some(rows)) => format!("{rows} * {tile}::row_bytes"),
                (Some(columns), Some(rows)) => format!("{rows} * {tile}::bytes_of({columns}) / {tile}::rows"),
            }
        });
        let bytes: Vec<String> = bytes.collect();
        self.out.line(match &bytes[..] {
            [] => format!("mbarrier_arrive({full});"),
            bytes => format!("mbarrier_arrive_expect_tx({full}, {});", bytes.join(" + ")),
        });
        for copy in copies {
            self.bulk_copy(copy, &full);
        }
        self.out.dedent();
        self.out.line("}");
    }

    /// Coordinates and offsets go innermost first, as PTX has them.
    fn bulk_copy(&mut self, copy: &BulkCopy, full: &str) {
        let shared = self.program.shared(copy.shared);
        let panel = 128 / shared.dtype.bytes();
        let at: Vec<String> = copy.at.iter().rev().map(|at| self.int_text(at)).collect();
        let (mut base, mut panels) = (self.slot(&shared.name, copy.slot.as_ref(), shared), shared.cols / panel);
        if let Some(part) = &copy.part {
            base = format!("{base} + {}", self.int_text(&part.offset));
            panels = part.panels;
        }
        for at_panel in 0..panels {
            let to = if at_panel == 0 { base.clone() } else { format!("{base} + {}", at_panel * panel * shared.rows) };
            let mut at = at.clone();
            if at_panel > 0 {
                at[0] = sum(std::mem::take(&mut at[0]), &(at_panel * panel).to_string());
            }
            let (map, at) = (&copy.map, at.join(", "));
            self.out.line(match &copy.form {
                BulkForm::Box if copy.part.is_some() => {
                    format!("tma_load_multicast({to}, {map}, {full}, CLUSTER_BLOCKS, {at});")
                }
                BulkForm::Box => format!("tma_load({to}, {map}, {full}, {at});"),
                BulkForm::Window { offsets } => {
                    let offsets: Vec<String> = offsets.iter().rev().map(|offset| self.int_text(offset)).collect();
                    format!("tma_load_im2col({to}, {map}, {full}, {at}, {});", offsets.join(", "))
                }
            });
        }
    }
}
