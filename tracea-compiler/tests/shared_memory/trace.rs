//! What a program does with shared memory, step by step, for certain sizes: control flow depends on nothing that threads wait for.

use std::collections::BTreeMap;
use tracea_compiler::nest::{AxisId, AxisKind, Dim, DimId, Extent, Int, IntOp, Nest};
use tracea_compiler::plan::Arg;
use tracea_compiler::program::shared::SharedId;
use tracea_compiler::program::{
    Counter, Divisor, IntText, MathUnit, Operand, OwnId, Program, RingId, Scope, Stagger, Stmt, Turn, TurnPart, Units,
};

/// A stage of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    pub ring: RingId,
    pub stage: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Until the slot's barrier for empty, or for full, has completed a phase of this parity.
    AwaitEmpty(Slot, i64),
    AwaitFull(Slot, i64),
    Fill(Slot, Vec<SharedId>),
    /// Threads read a buffer in the slot.
    Read(Slot, SharedId),
    /// A product begins to.
    Issue(Vec<(Slot, SharedId)>),
    /// Until so many products are under way.
    Settle(u32),
    Release(Slot),
    /// Threads begin to copy what lies at these coordinates into a stage of a buffer.
    Copy(Stage, Vec<i64>),
    Commit,
    /// Until at most so many groups of copies are under way.
    Land(u32),
    /// Threads write a tile that they hold.
    Write(Stage),
    /// Of all threads that hold tiles.
    Barrier,
    /// A product reads what it takes to have come from these coordinates.
    Use(Stage, Vec<i64>),
    /// The second warpgroup waits for the first, which says that it has asked for all of a loop's products.
    Follow,
    Lead,
}

/// A stage of a buffer that threads fill for themselves.
pub type Stage = (SharedId, i64);

/// What a launch, and the block that is looked at, come with.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Of each dim that the types leave open.
    pub size: i64,
    pub by_tma: bool,
    /// Of a sum that may be cut: this block's part, and of how many.
    pub part: (i64, i64),
    /// Whether the block leaves its tiles to another one, where parts are put together.
    pub leaves: bool,
    /// Which of the warpgroups that share tiles the consumers' events are.
    pub warpgroup: usize,
}

/// Numbers that tensors hold, and what else comes with a launch.
const LOOKED_UP: i64 = 67;
const SCALAR: i64 = 2;
/// Of dims that several loops multiply.
const MOST_WALKED: i64 = 6;
/// Tiles that a block takes.
const MOST_UNITS: i64 = 3;

/// What all threads do, where they have no roles.
pub fn of_all(nest: &Nest, program: &Program, setting: Setting) -> Vec<Event> {
    Role::run_alone(nest, program, setting, &BTreeMap::new(), &program.body)
}

/// Roles' events: the producer's, and the consumers', or each warpgroup's where one goes ahead.
pub fn of(nest: &Nest, program: &Program, setting: Setting) -> Vec<Vec<Event>> {
    let producer = program.producer.as_ref().expect("roles");
    let mut rings = BTreeMap::new();
    find_rings(&program.body, &mut rings);
    find_rings(&producer.body, &mut rings);
    let warpgroups = if goes_ahead(&program.body) { 2 } else { 1 };
    let consumers = (0..warpgroups).map(|warpgroup| (&program.body, Setting { warpgroup, ..setting }));
    let roles = [(&producer.body, setting)].into_iter().chain(consumers);
    roles.map(|(body, setting)| Role::run_alone(nest, program, setting, &rings, body)).collect()
}

fn goes_ahead(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| matches!(stmt, Stmt::Stagger(_)) || stmt.bodies().into_iter().any(goes_ahead))
}

/// By which ring each buffer is filled.
fn find_rings(body: &[Stmt], rings: &mut BTreeMap<SharedId, RingId>) {
    for stmt in body {
        if let Stmt::WaitFull(turn) | Stmt::Acquire(turn) | Stmt::Bulk { turn, .. } = stmt {
            rings.extend(turn.buffers.iter().map(|buffer| (*buffer, turn.ring)));
        }
        stmt.bodies().into_iter().for_each(|inner| find_rings(inner, rings));
    }
}

#[derive(PartialEq)]
enum Flow {
    Next,
    /// To the next tile.
    Leave,
}

struct Role<'a> {
    nest: &'a Nest,
    program: &'a Program,
    setting: Setting,
    rings: &'a BTreeMap<SharedId, RingId>,
    names: BTreeMap<String, i64>,
    /// Names that an inner block has given, and what they stood for before.
    hidden: Vec<(String, Option<i64>)>,
    /// What each buffer is filled from.
    sources: BTreeMap<SharedId, &'a [Int]>,
    events: Vec<Event>,
}

impl<'a> Role<'a> {
    fn run_alone(
        nest: &'a Nest,
        program: &'a Program,
        setting: Setting,
        rings: &'a BTreeMap<SharedId, RingId>,
        body: &'a [Stmt],
    ) -> Vec<Event> {
        let (names, hidden, sources, events) = Default::default();
        let mut role = Role { nest, program, setting, rings, names, hidden, sources, events };
        role.begin();
        role.run(body);
        role.events
    }

    fn begin(&mut self) {
        let mut set = |name: &str, value: i64| self.names.insert(name.to_string(), value);
        for counter in
            self.program.counters.iter().map(Counter::name).chain(self.program.own.iter().map(|own| &*own.counter))
        {
            set(counter, 0);
        }
        if let Some(split) = &self.program.split {
            set(&split.part, self.setting.part.0);
            set(&split.parts, self.setting.part.1);
            set(&split.parts_here, self.setting.part.1);
        }
        set("rank", 0);
        set("blockIdx.x", 0);
        set("gridDim.x", 1);
        let tiles = self.program.grid.iter().map(|grid| self.blocks(grid.axis, grid.block)).product::<i64>();
        self.names.insert("units".into(), tiles.min(MOST_UNITS));
        self.locate(0);
    }

    /// The tile at this position of the grid.
    fn locate(&mut self, mut at: i64) {
        for grid in self.program.grid.iter().rev() {
            let blocks = self.blocks(grid.axis, grid.block).max(1);
            let start = self.start_name(grid.axis);
            self.names.insert(start, at % blocks * i64::from(grid.block));
            at /= blocks;
        }
    }

    /// A block, whose names end with it.
    fn run(&mut self, body: &'a [Stmt]) -> Flow {
        let outer = self.hidden.len();
        let leaves = body.iter().any(|stmt| self.step(stmt) == Flow::Leave);
        for (name, before) in self.hidden.split_off(outer).into_iter().rev() {
            match before {
                Some(value) => self.names.insert(name, value),
                None => self.names.remove(&name),
            };
        }
        if leaves { Flow::Leave } else { Flow::Next }
    }

    fn name(&mut self, name: &str, value: i64) {
        let before = self.names.insert(name.to_string(), value);
        self.hidden.push((name.to_string(), before));
    }

    fn step(&mut self, stmt: &'a Stmt) -> Flow {
        match stmt {
            Stmt::Let { name, value } => {
                let value = self.value(value);
                self.name(name, value);
            }
            Stmt::Vote { name, .. } => self.name(name, 1),
            Stmt::Copy(copy) => {
                self.sources.insert(copy.shared, &copy.source.index);
                let stage = (copy.shared, copy.slot.as_ref().map_or(0, |slot| self.value(slot)));
                let event = Event::Copy(stage, self.coordinates(copy.shared));
                self.events.push(event);
            }
            Stmt::Commit => self.events.push(Event::Commit),
            Stmt::Wait(pending) => self.events.push(Event::Land(*pending)),
            Stmt::Stage { shared, .. } => self.events.push(Event::Write((*shared, 0))),
            Stmt::Barrier(Scope::Tile) => self.events.push(Event::Barrier),
            Stmt::Advance(counter) => *self.names.get_mut(counter).expect("a counter") += 1,
            Stmt::Locate => self.locate(self.names["unit"]),
            Stmt::For { var, from, until, step, body, .. } => {
                let (mut at, until, by) = (self.value(from), self.value(until), self.value(step));
                while at < until {
                    self.name(var, at);
                    if self.run(body) == Flow::Leave {
                        return Flow::Leave;
                    }
                    at += by;
                }
            }
            Stmt::ForUnits(body) => {
                for unit in 0..self.names["units"] {
                    self.name("unit", unit);
                    self.run(body);
                    if matches!(self.program.units, Units::Queue(_)) && body.last() != Some(&Stmt::TakeUnit) {
                        let (place, phase) = self.queued(unit);
                        self.events.extend([Event::AwaitFull(place, phase), Event::Release(place)]);
                    }
                }
            }
            Stmt::TakeUnit => {
                let (place, phase) = self.queued(self.names["unit"]);
                self.events.extend([Event::AwaitEmpty(place, phase ^ 1), Event::Fill(place, Vec::new())]);
            }
            Stmt::If { condition, body } if self.value(condition) != 0 => return self.run(body),
            Stmt::Where { body, otherwise, .. } => {
                return self.run(if self.setting.by_tma { body } else { otherwise });
            }
            Stmt::Panels { count, body, .. } => {
                for panel in 0..i64::from(*count) {
                    self.name("panel", panel);
                    self.run(body);
                }
            }
            Stmt::JoinParts { leaving, .. } if self.setting.leaves => {
                self.run(leaving);
                return Flow::Leave;
            }
            Stmt::Acquire(turn) => {
                let event = Event::AwaitEmpty(self.slot(turn), self.value(&turn.phase) ^ 1);
                self.events.push(event);
            }
            Stmt::WaitFull(turn) => {
                let event = Event::AwaitFull(self.slot(turn), self.value(&turn.phase));
                self.events.push(event);
            }
            Stmt::ClearRows { turn, shared, .. } => {
                let read = self.read(*shared, Some(&turn.slot)).map(|(slot, buffer)| Event::Read(slot, buffer));
                self.events.extend(read);
            }
            Stmt::Release(turn) => self.events.push(Event::Release(self.slot(turn))),
            Stmt::Bulk { turn, waits, .. } => {
                if *waits {
                    self.events.push(Event::AwaitEmpty(self.slot(turn), self.value(&turn.phase) ^ 1));
                }
                self.events.push(Event::Fill(self.slot(turn), turn.buffers.clone()));
            }
            Stmt::Publish { turn, .. } => self.events.push(Event::Fill(self.slot(turn), turn.buffers.clone())),
            Stmt::FetchOwn { own, first: true, .. } => {
                let fetched = &self.program.own[own.0 as usize];
                for ahead in 0..fetched.places.min(fetched.panels) {
                    self.events.push(Event::Fill(self.own(*own, ahead).0, vec![fetched.shared]));
                }
            }
            Stmt::FetchOwn { own, first: false, .. } => {
                let fetched = &self.program.own[own.0 as usize];
                let (place, _) = self.own(*own, 0);
                self.events.push(Event::Release(place));
                if self.names["panel"] + i64::from(fetched.places) < i64::from(fetched.panels) {
                    self.events.push(Event::Fill(place, vec![fetched.shared]));
                }
            }
            Stmt::AwaitOwn(own) => {
                let (place, phase) = self.own(*own, 0);
                self.events.push(Event::AwaitFull(place, phase));
            }
            Stmt::ReadPanel { shared, slot, .. } => {
                let own = self.program.own.iter().position(|own| own.shared == *shared);
                let read = match own {
                    Some(own) => Some((self.own(OwnId(own as u32), 0).0, *shared)),
                    None => self.read(*shared, Some(slot)),
                };
                self.events.extend(read.map(|(slot, buffer)| Event::Read(slot, buffer)));
            }
            // What passes through a ring's slot lies there until that is released.
            Stmt::WritePanel { staging, .. } => {
                if let Some(lent) = &self.program.shared[staging.0 as usize].lent {
                    let stage = self.names[&lent.slot];
                    self.events.push(Event::Read(Slot { ring: self.rings[staging], stage }, *staging));
                }
            }
            Stmt::Dot(dot) if self.program.producer.is_none() => {
                for operand in dot.operands() {
                    if let Operand::Shared { shared, slot, .. } | Operand::Fragments { shared, slot } = operand {
                        let stage = (*shared, slot.as_ref().map_or(0, |slot| self.value(slot)));
                        let event = Event::Use(stage, self.coordinates(*shared));
                        self.events.push(event);
                    }
                }
            }
            Stmt::Dot(dot) => {
                let operands = dot.operands().map(|operand| match operand {
                    Operand::Shared { shared, slot, .. } | Operand::Fragments { shared, slot } => {
                        self.read(*shared, slot.as_ref())
                    }
                    Operand::Registers { .. } | Operand::Packed { .. } => None,
                });
                let read: Vec<_> = operands.flatten().collect();
                match dot.unit {
                    MathUnit::Wgmma => self.events.push(Event::Issue(read)),
                    _ => self.events.extend(read.into_iter().map(|(slot, buffer)| Event::Read(slot, buffer))),
                }
            }
            Stmt::DotWait { pending, .. } => self.events.push(Event::Settle(*pending)),
            Stmt::Stagger(Stagger::Begin { steps, last, stages }) => {
                let steps = self.names[steps];
                let follows = self.setting.warpgroup == 1 && steps >= i64::from(*stages);
                self.name("follows_from", if follows { steps - i64::from(*last) } else { -1 });
            }
            Stmt::Stagger(Stagger::Follow) if self.names["step"] == self.names["follows_from"] => {
                self.events.push(Event::Follow);
            }
            Stmt::Stagger(Stagger::Lead { steps, stages })
                if self.setting.warpgroup == 0 && self.names[steps] >= i64::from(*stages) =>
            {
                self.events.push(Event::Lead);
            }
            _ => {}
        }
        Flow::Next
    }

    /// The place, and its parity, by which the producer passes the unit after this one: another ring, as it were.
    fn queued(&self, unit: i64) -> (Slot, i64) {
        const PLACES: i64 = 2;
        (Slot { ring: RingId(self.program.rings.len() as u32), stage: unit % PLACES }, unit / PLACES % 2)
    }

    /// The place of the panel that comes so many after the next one, and its parity: another ring, as it were.
    fn own(&self, own: OwnId, ahead: u32) -> (Slot, i64) {
        let fetched = &self.program.own[own.0 as usize];
        let (count, places) = (self.names[&fetched.counter] + i64::from(ahead), i64::from(fetched.places));
        let ring = RingId(self.program.rings.len() as u32 + 1 + own.0);
        (Slot { ring, stage: count % places }, count / places % 2)
    }

    fn slot(&self, turn: &Turn) -> Slot {
        Slot { ring: turn.ring, stage: self.value(&turn.slot) }
    }

    /// A buffer that a ring fills, in its slot.
    fn read(&self, buffer: SharedId, slot: Option<&IntText>) -> Option<(Slot, SharedId)> {
        let ring = *self.rings.get(&buffer)?;
        // A slot may have several places for what is narrower.
        let places = self.program.shared[buffer.0 as usize].stages
            / self.program.rings.get(ring.0 as usize).map_or(1, |ring| ring.stages);
        let stage = slot.map_or(0, |slot| self.value(slot)) / i64::from(places.max(1));
        Some((Slot { ring, stage }, buffer))
    }

    /// Where the buffer's source lies now; nowhere for what threads write.
    fn coordinates(&self, buffer: SharedId) -> Vec<i64> {
        let source = self.sources.get(&buffer);
        source.into_iter().flat_map(|index| index.iter().map(|int| self.int(int))).collect()
    }

    fn value(&self, text: &IntText) -> i64 {
        let pair = |a: &IntText, b: &IntText| (self.value(a), self.value(b));
        let by = |divisor: &Divisor| match divisor {
            Divisor::Const(value) => *value,
            Divisor::Param(name) => self.divisor(name),
        };
        match text {
            IntText::Const(value) => *value,
            IntText::Name(name) if self.program.params.iter().any(|param| param.name == *name) => SCALAR,
            IntText::Name(name) => *self.names.get(name).unwrap_or_else(|| panic!("`{name}` has no value")),
            IntText::OfTurn(turn, part) => {
                let stages = self.stages(turn);
                match (self.names[turn], part) {
                    (count, TurnPart::Slot) => count % stages,
                    (count, TurnPart::Phase) => count / stages % 2,
                    (count, TurnPart::SlotBefore) => (count + stages - 1) % stages,
                }
            }
            IntText::Int(int) => self.int(int),
            IntText::Extent(axis) => self.extent(*axis),
            IntText::Start(axis) => self.start(*axis),
            IntText::Limit(axis) => self.limit(*axis),
            IntText::Add(a, b) => self.value(a) + self.value(b),
            IntText::Sub(a, b) => self.value(a) - self.value(b),
            IntText::Mul(a, b) => self.value(a) * self.value(b),
            IntText::Min(a, b) => self.value(a).min(self.value(b)),
            IntText::Max(a, b) => self.value(a).max(self.value(b)),
            IntText::Less(a, b) => i64::from(self.value(a) < self.value(b)),
            IntText::Share { steps, part, parts, .. } => {
                let (steps, part) = pair(steps, part);
                steps * part / self.value(parts)
            }
            IntText::CeilDiv(a, by) => (self.value(a) + i64::from(*by) - 1).div_euclid(i64::from(*by)),
            IntText::Rem(a, by) => self.value(a) % i64::from(*by),
            IntText::Quotient(a, divisor) => self.value(a) / by(divisor).max(1),
            IntText::Remainder(a, divisor) => self.value(a) % by(divisor).max(1),
        }
    }

    fn stages(&self, turn: &str) -> i64 {
        let stages = self.program.counters.iter().find_map(|counter| match counter {
            Counter::Turns { name, stages } if name == turn => Some(i64::from(*stages)),
            _ => None,
        });
        stages.unwrap_or_else(|| panic!("`{turn}` counts no turns"))
    }

    fn int(&self, int: &Int) -> i64 {
        match int {
            Int::Const(value) => *value,
            Int::Dim(dim) => self.dim(*dim),
            Int::Scalar(_) => SCALAR,
            Int::Axis(axis) | Int::BlockStart(axis) => self.start(*axis),
            Int::BlockEnd(axis) => (self.start(*axis) + self.block(*axis)).min(self.extent(*axis)),
            Int::FlatCoord(axis, part) => self.component(*axis, *part),
            Int::Element(..) => LOOKED_UP,
            Int::Binary(op, a, b) => {
                let (a, b) = (self.int(a), self.int(b));
                match op {
                    IntOp::Add => a + b,
                    IntOp::Sub => a - b,
                    IntOp::Mul => a * b,
                    IntOp::Div => a.checked_div(b).unwrap_or(0),
                    IntOp::Rem => a.checked_rem(b).unwrap_or(0),
                    IntOp::Min => a.min(b),
                    IntOp::Max => a.max(b),
                }
            }
        }
    }

    /// Whether a scalar loop, or one over several dims, runs over it.
    fn is_walked(&self, dim: DimId) -> bool {
        self.nest.axes.iter().any(|axis| match &axis.extent {
            Extent::Dim(over) => axis.kind == AxisKind::Each && *over == dim,
            Extent::Flat(over) => over.contains(&dim),
        })
    }

    fn dim(&self, dim: DimId) -> i64 {
        let Dim { known, parts, .. } = self.nest.dim(dim);
        match (*known, &parts[..]) {
            (Some(size), _) => size,
            (None, []) if self.is_walked(dim) => self.setting.size.min(MOST_WALKED),
            (None, []) => self.setting.size,
            (None, parts) => parts.iter().map(|part| self.dim(*part)).product(),
        }
    }

    fn extent(&self, axis: AxisId) -> i64 {
        match &self.nest.axis(axis).extent {
            Extent::Dim(dim) => self.dim(*dim),
            Extent::Flat(dims) => dims.iter().map(|dim| self.dim(*dim)).product(),
        }
    }

    /// Of the first element of a flat axis' block.
    fn component(&self, axis: AxisId, part: usize) -> i64 {
        let Extent::Flat(dims) = &self.nest.axis(axis).extent else { return 0 };
        let inner = dims[part + 1..].iter().map(|dim| self.dim(*dim)).product::<i64>();
        let along = self.start(axis) / inner.max(1);
        if part == 0 { along } else { along % self.dim(dims[part]).max(1) }
    }

    fn block(&self, axis: AxisId) -> i64 {
        let block = self.program.blocks.iter().find(|(blocked, _)| *blocked == axis);
        block.map_or(1, |(_, block)| i64::from(*block))
    }

    fn blocks(&self, axis: AxisId, block: u32) -> i64 {
        (self.extent(axis) + i64::from(block) - 1) / i64::from(block)
    }

    fn start_name(&self, axis: AxisId) -> String {
        let name = &self.program.names.axes[axis.index()];
        match self.nest.axis(axis).kind {
            AxisKind::Each => name.clone(),
            AxisKind::Tiled | AxisKind::Whole => format!("{name}0"),
        }
    }

    fn start(&self, axis: AxisId) -> i64 {
        match self.nest.axis(axis).kind {
            AxisKind::Whole => 0,
            AxisKind::Each | AxisKind::Tiled => self.names[&self.start_name(axis)],
        }
    }

    fn limit(&self, axis: AxisId) -> i64 {
        match self.program.limited.contains(&axis) {
            true => self.names[&format!("{}_end", self.program.names.axes[axis.index()])],
            false => self.extent(axis),
        }
    }

    /// What a parameter divides by.
    fn divisor(&self, name: &str) -> i64 {
        let param = self.program.params.iter().find(|param| param.name == name);
        match param.map(|param| &param.arg) {
            Some(Arg::DivideByDims(dims)) => dims.iter().map(|dim| self.dim(DimId(*dim as u32))).product(),
            Some(Arg::DivideByBlocks(grid)) => {
                let extent = grid.dims.iter().map(|dim| self.dim(DimId(*dim as u32))).product::<i64>();
                (extent + i64::from(grid.block) - 1) / i64::from(grid.block)
            }
            _ => panic!("`{name}` divides by nothing"),
        }
    }
}
