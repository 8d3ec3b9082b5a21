//! Nest and schedule → [`Program`]: layouts, rings, copies, dots, stores; every decision of a kernel's code.
//!
//! - `portfolio` says which schedules a kernel is lowered under, where nobody does;
//! - `swapped` computes products the other way round, for few rows, `flat_sums` takes loops of one sum as one, for few terms each;
//! - `precomputed` leaves operands that are computed to kernels of their own, before the products;
//! - `relaid` finds operands that the launch copies first, and reads the nest as if it were given the copies;
//! - `analysis` says who reads what and how dots get their operands;
//! - `domains` gives each value the registers that hold it, anchored by the dots;
//! - `access` turns index expressions into rows and bounds checks, `separable` into sums of a row's part and a column's;
//! - `values` turns element-wise work into loops over registers, `reductions` and `selects` what is not element by element;
//! - `shares` leaves running results with threads until a loop ends;
//! - `exponents` makes a multiplication and an addition of a scaled score that is an exponent;
//! - `leaps` lets running extremes be followed in leaps, where `invariance` says that nobody can tell;
//! - `looked_up` asks once for a number that decides which rows there are, or where they end;
//! - `past_end` knows what registers hold past an axis' end, which reductions must not see;
//! - `kept` finds rows that several loops read, which threads then keep;
//! - `merged` finds axes that the launch may walk as one;
//! - `skew` walks rows that are not aligned from the chunks of memory in which they begin;
//! - `whole_rows` takes rows that threads have registers for in one step, `by_parts` then goes vector by vector; `in_turn` takes longer ones,
//!   one after another;
//! - `edges` runs a loop's whole blocks apart from a partial last one;
//! - `ahead` keeps copies some steps ahead of their use, for `streams` that a loop walks down and for a dot's operands;
//! - `loops` makes loops, and rings where a loop feeds dots;
//! - `split` shares a loop's steps out among blocks, `rejoined` says how what it carries is put together again, `anew` where that is;
//! - `relative` knows sums whose terms are relative to a running extreme;
//! - `roles` splits copying from multiplying where a target has warp roles, which pass tiles by `rings`;
//! - `side_by_side` has two products of one operand multiplied by the same instructions, `beside` computes other values meanwhile;
//! - `overlap` lets products run on while the next operands are awaited, `shifted` while the next step works out what to multiply;
//! - `last_tiles` has last tiles begin where they end with their axis;
//! - `bulk` finds the copies that TMA can make, `windows` those whose rows walk a tensor by steps;
//! - `clusters` finds the tiles that neighbouring blocks fetch for each other;
//! - `dots` places products, and `results` decides how what a block has computed leaves it, and what it takes in on its way out;
//! - `crate::program::shared` and `crate::program::order` then lay out shared memory and place barriers and fences.

mod access;
mod ahead;
pub mod analysis;
mod anew;
mod apart;
mod beside;
mod bulk;
mod by_parts;
mod clusters;
pub mod columns;
mod domains;
mod dots;
mod edges;
mod exponents;
pub mod flat_sums;
mod held_rows;
mod in_turn;
mod invariance;
mod kept;
mod last_tiles;
mod leaps;
mod looked_up;
mod loops;
pub mod merged;
mod names;
mod overlap;
mod params;
mod past_end;
mod portfolio;
pub mod precomputed;
mod reductions;
mod rejoined;
mod relaid;
mod relative;
pub mod results;
mod rings;
mod roles;
mod selects;
mod separable;
pub mod shares;
mod shifted;
mod side_by_side;
mod single;
pub mod skew;
pub mod spans;
mod split;
mod staggered;
mod streams;
pub mod swapped;
mod units;
mod values;
mod waits;
mod whole_rows;
mod windows;

use crate::nest::{AxisId, Block, Nest, Stmt as NestStmt, ValueId};
use crate::plan::Cost;
use crate::program::shared::{self, SharedId};
use crate::program::{self, Alone, PingPong, Producer, Program, Stmt, Units, VarId, order, pressure};
use crate::schedule::target::{Pipeline, Target};
use crate::schedule::{self, Schedule, ScheduleError, spec::ScheduleSpec};
use analysis::{Facts, steps_are_alike};
pub use loops::nest_of;
pub use params::extent_dims;
pub use portfolio::{lower_chosen, lower_portfolio};
use relaid::Laid;
use results::{dealing, early, epilogue, lent, sent, sunk};
use roles::Role;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A program, the nest as it sees it, the schedule that it follows, and what the model says of it.
#[derive(Clone, Debug)]
pub struct Lowered {
    pub nest: Rc<Nest>,
    pub program: Program,
    pub schedule: Schedule,
    pub cost: Cost,
}

impl Lowered {
    fn of(laid: &Laid, facts: &Facts, schedule: Schedule, program: Program) -> Lowered {
        let cost = schedule::cost::of(&laid.nest, facts, &schedule, &program);
        Lowered { nest: laid.nest.clone(), program, schedule, cost }
    }
}

/// Lowers under a pinned schedule. One that names the axis of flat sums takes loops as one.
pub fn lower_pinned(nest: &Nest, target: &'static Target, spec: &ScheduleSpec) -> Result<Lowered, ScheduleError> {
    let numbers = single::as_numbers(nest).filter(|numbers| !single::is_any_named(nest, numbers, spec));
    let nest = numbers.as_ref().unwrap_or(nest);
    let swapped = schedule::is_swapped(target, spec)?;
    let parts = if schedule::is_precomputed(spec)? { Some(precomputed::wanted(nest)?) } else { None };
    let nest = parts.as_ref().map_or(nest, |parts| &parts.nest);
    let turned = if schedule::is_turned(target, spec)? { Some(relaid::wanted(nest)?) } else { None };
    let nest = turned.as_ref().unwrap_or(nest);
    let flat = flat_sums::axis_name(nest).filter(|name| spec.options.iter().any(|option| option.name == *name));
    let flat = flat.and_then(|_| flat_sums::flattened(nest));
    let nest = flat.as_ref().unwrap_or(nest);
    if swapped {
        swapped::check(nest)?;
    }
    let laid = Laid::for_target(nest, target, swapped);
    let facts = Facts::of(&laid.nest);
    let schedule = schedule::pinned(&laid.nest, &facts, target, spec)?;
    let program = lower(&laid, &facts, &schedule)?;
    if program.shared_bytes > target.shared_limit {
        let cure = match schedule.stages {
            0..=2 => "use smaller blocks".to_string(),
            stages => format!("use stages = {}", stages - 1),
        };
        return Err(ScheduleError::about(
            "stages",
            format!(
                "schedule needs {} KiB of shared memory, {} has {} KiB a block -- {cure}",
                program.shared_bytes.div_ceil(1024),
                target.name,
                target.shared_limit / 1024
            ),
        ));
    }
    Ok(Lowered::of(&laid, &facts, schedule, program))
}

fn lower(laid: &Laid, facts: &Facts, schedule: &Schedule) -> Result<Program, ScheduleError> {
    let Laid { nest, relaid } = laid;
    schedule::check(nest, facts, schedule)?;
    let role = match schedule.target.pipeline {
        Pipeline::CommitGroups => Role::All,
        Pipeline::WarpRoles => Role::Consumer,
    };
    let mut lowering = Lowering::new(nest, facts, schedule, role)?;
    lowering.prepare_skew();
    lowering.prepare_split();
    if schedule.in_turn {
        lowering.keep_rows()?;
    }
    lowering.block(&nest.body)?;
    if schedule.in_turn {
        lowering.take_in_turn()?;
    } else if schedule.whole.is_some() {
        lowering.by_parts();
    }
    if let Some(axis) = schedule.cluster
        && !lowering.program.rings.iter().any(|ring| ring.joint)
    {
        return Err(schedule::cluster::nothing_shared(nest, axis));
    }
    let (sites, fetches, passing) = (lowering.sites, lowering.fetches, lowering.passing);
    let (mut scratch, turns) = (lowering.scratch, lowering.turns);
    let mut program = Program { body: lowering.out, relaid: relaid.clone(), ..lowering.program };
    if role == Role::Consumer {
        let mut producing = Lowering::new(nest, facts, schedule, Role::Producer)?;
        producing.program = program;
        (producing.sites, producing.fetches, producing.passing) = (sites, fetches, passing);
        producing.produce(&nest.body)?;
        scratch = scratch.max(producing.scratch);
        let registers = schedule.role_registers();
        let drained = producing.drain_joint_rings();
        let mut body = producing.out;
        program = producing.program;
        if steps_are_alike(&nest.body) {
            program.units = Units::Turns;
        } else if !program.rings.is_empty() {
            units::queue(&mut program, &mut body, &mut producing.names);
        }
        // What both roles know, the assembler keeps through everything that they do, where it needs all registers for that.
        let counted = matches!(program.units, Units::Queue(_)) || program.pingpong.is_some();
        program.roles_count_units = counted || program.apart || !program.windows.is_empty();
        if program.units.are_shared_out() {
            body = vec![for_units(body)];
            body.extend(drained);
            let unit = std::mem::take(&mut program.body);
            // The assembler wants what two blocks share within what threads have at launch.
            let registers = match schedule.resident {
                1 => registers.consumer,
                resident => pressure::at_launch(program.threads + schedule::PRODUCER_THREADS, resident),
            };
            program.body = vec![for_units(dealing::deal(&mut program, unit, registers))];
        }
        if let Some(warpgroups) = program.pingpong {
            program.body.insert(0, Stmt::PingPong(PingPong::Begin, warpgroups));
            program.body.push(Stmt::PingPong(PingPong::End, warpgroups));
        }
        sent::await_panels(&mut program);
        if program.shared.iter().any(|shared| shared.sent) {
            program.body.push(Stmt::FinishStores);
        }
        // Beside another block, which goes on meanwhile, nothing need be done ahead, and there are few registers to do it with.
        if schedule.resident == 1 {
            early::fetch(nest, &mut program, &mut producing.names, schedule.shared_room(), scratch);
            // Nor are there any where elements come by themselves, beside what tells their places.
            if gathered(&body).is_empty() {
                sunk::sink(&mut program);
            }
        }
        epilogue::fetch_first_panels(&mut program);
        if program.apart {
            apart::take_turns(&mut program)?;
        }
        let threads = schedule::PRODUCER_THREADS;
        // As many as the producer has registers for: fewer where its block shares the multiprocessor, or has many consumers, or where it
        // keeps the parts of elements' places too.
        // Words come by asynchronous copies however they are aligned, so that none waits for others; rows of windows have many numbers.
        let windows_of_words = !program.windows.is_empty() && facts.dots.iter().all(|dot| dot.dtype.bytes() == 4);
        let rows_at_a_time = match registers.producer {
            ..=32 => 2,
            _ if schedule.resident > 1 && windows_of_words => 1,
            _ if schedule.resident > 1 => 4,
            _ => 8,
        };
        let gathered = gathered(&body).len() as u32;
        let rows_at_a_time = if gathered > 0 { rows_at_a_time / 2 } else { rows_at_a_time };
        if program.rings.is_empty() {
            body.clear();
        }
        waits::divide(&program, &mut body);
        let tall = !program.apart && program.rows_apart().is_some();
        let beside_tall = if tall { schedule::room::BESIDE_TALL_TILES } else { 0 };
        let registers_by_tma = schedule.role_registers_by_tma(pressure::peak(&program) + beside_tall);
        let alone = program.all_by_tma().map(|condition| Alone { condition, registers: registers_by_tma });
        let none_for_copies = || schedule::room::leaves_none_for_copies(nest, facts, schedule, &program);
        let only_by_tma = alone.is_some() && ((tall && is_for_tma(&program)) || none_for_copies());
        program.by_tma =
            program.apart || only_by_tma || units::leave_no_registers_for_copies(&program, registers.producer);
        if program.by_tma && (alone.is_none() || !is_for_tma(&program)) {
            return Err(units::no_registers_for_copies());
        }
        // Elements wait in registers; rows also need their addresses there, and each operand its columns'.
        let gathered_at_a_time = if gathered > 1 { rows_at_a_time } else { 2 * rows_at_a_time };
        if let Some(alone) = &alone {
            last_tiles::begin_early(&mut program, nest, facts, schedule, alone.condition);
        }
        program.producer = Some(Producer { threads, registers, rows_at_a_time, gathered_at_a_time, alone, body });
    }
    if facts.dots.is_empty() {
        // Threads hold as many neighbouring columns as one access reaches: what is aligned to less is read by neighbouring
        // threads side by side. Turning takes vectors of 16 bytes.
        program.narrowing = if turns { Vec::new() } else { program.aligned.clone() };
        program.merged = merged::merged_dims(nest, schedule);
        // One long row has one end, which need not be that of a vector.
        program.whole_vectors = program.merged.is_empty();
        program.resident = if schedule.in_turn { 1 } else { pressure::resident(&program) };
    }
    if program.skew.is_some() || program.whole.is_some() {
        // Rows are accessed by whole chunks, and what they share as any address may lie.
        program.aligned.clear();
        program.columns.clear();
        program.narrowing.clear();
        program.whole_vectors = false;
    }
    if role == Role::Consumer {
        program.resident = schedule.resident;
    }
    looked_up::name_numbers(nest, &mut program, &mut lowering.names);
    anew::locate(&mut program);
    params::prune(nest, &mut program);
    shared::plan(&mut program, scratch);
    order::place(&mut program);
    if program.apart {
        apart::check(&program)?;
    }
    Ok(program)
}

/// Whether operands are plain rows, which another schedule copies where TMA cannot: no windows, nor elements at places of their own.
fn is_for_tma(program: &Program) -> bool {
    program.windows.is_empty() && program.columns.is_empty()
}

/// Buffers whose elements come by themselves, by parts of their places.
fn gathered(body: &[Stmt]) -> BTreeSet<SharedId> {
    body.iter()
        .flat_map(|stmt| match stmt {
            Stmt::Copy(copy) if copy.parts.is_some() => BTreeSet::from([copy.shared]),
            other => other.bodies().into_iter().flat_map(gathered).collect(),
        })
        .collect()
}

/// All units of work that are this block's.
fn for_units(mut body: Vec<Stmt>) -> Stmt {
    body.insert(0, Stmt::Locate);
    Stmt::ForUnits(body)
}

/// The state of one lowering: the program so far, and where each value is.
struct Lowering<'a> {
    nest: &'a Nest,
    facts: &'a Facts,
    schedule: &'a Schedule,
    program: Program,
    names: names::Names,
    domains: domains::Domains,
    /// Registers that hold a value.
    vars: BTreeMap<ValueId, VarId>,
    /// Values that only dots read, straight from tensors.
    skipped: BTreeSet<ValueId>,
    /// The block that evaluates each value: the statements of one loop body.
    home: BTreeMap<ValueId, usize>,
    /// Which axes currently run in a loop whose first coordinate is not 0.
    shifted: BTreeSet<AxisId>,
    /// Those of them where it may lie amid a vector.
    off_vectors: BTreeSet<AxisId>,
    /// Axes whose limit is a variable of its own, not the extent.
    limited: BTreeSet<AxisId>,
    /// Axes whose block exists wholly where the current statement runs.
    inside: BTreeSet<AxisId>,
    /// Shared tiles that hold a tensor's operand tile while a loop runs.
    operands: Vec<loops::Resident>,
    role: Role,
    /// Where consumers take operands from rings: all so far, and those that enclose the current statement.
    sites: Vec<rings::Site>,
    open: Vec<rings::Site>,
    /// Stores whose tiles take in others on their way out.
    epilogues: Vec<epilogue::Epilogue>,
    /// How those come, where by a ring.
    fetches: Vec<epilogue::Fetch>,
    /// Slots that panels pass through.
    passing: Vec<lent::Passing>,
    /// Registers whose elements past an axis' end hold a neutral value.
    masked: Vec<(VarId, AxisId, program::Identity)>,
    /// Running results that threads work out by shares.
    shares: Vec<shares::Placed>,
    /// Next values of extremes that have seen only a part of what makes them finite.
    bounded: BTreeSet<ValueId>,
    /// Results of running extremes that nobody can tell from others.
    hidden: BTreeSet<ValueId>,
    /// What takes the place of an extreme that may be infinite.
    finite: BTreeMap<ValueId, VarId>,
    /// Names of the first coordinate, and the one past the last, of this block's part of a loop without dots.
    split_range: Option<(String, String)>,
    /// Loads that read what threads keep.
    kept_values: Vec<(ValueId, program::Kept)>,
    /// Whether all is kept that a step reads of kept rows.
    surely_kept: bool,
    /// The axis of the loop that is the first to read what is kept, and where that ends.
    awaited: Option<(AxisId, program::IntText)>,
    scratch: u32,
    /// Whether a tile is stored along another axis than it was read.
    turns: bool,
    out: Vec<Stmt>,
}

impl<'a> Lowering<'a> {
    fn new(nest: &'a Nest, facts: &'a Facts, schedule: &'a Schedule, role: Role) -> Result<Self, ScheduleError> {
        let skipped = analysis::operand_only(nest, facts);
        let domains = domains::Domains::choose(nest, facts, schedule, &skipped)?;
        let mut names = names::Names::new(nest);
        let program = params::start(nest, facts, schedule, &domains, &mut names);
        let mut home = BTreeMap::new();
        analysis::homes(&nest.body, &mut 0, &mut home);
        Ok(Lowering {
            nest,
            facts,
            schedule,
            program,
            names,
            domains,
            vars: BTreeMap::new(),
            skipped,
            home,
            shifted: BTreeSet::new(),
            off_vectors: BTreeSet::new(),
            limited: BTreeSet::new(),
            inside: BTreeSet::new(),
            operands: Vec::new(),
            role,
            sites: Vec::new(),
            open: Vec::new(),
            epilogues: Vec::new(),
            fetches: Vec::new(),
            passing: Vec::new(),
            masked: Vec::new(),
            shares: Vec::new(),
            bounded: BTreeSet::new(),
            hidden: BTreeSet::new(),
            finite: BTreeMap::new(),
            split_range: None,
            kept_values: Vec::new(),
            surely_kept: false,
            awaited: None,
            scratch: 0,
            turns: false,
            out: Vec::new(),
        })
    }

    fn block(&mut self, block: &Block) -> Result<(), ScheduleError> {
        let mut first_kept = self.choose_kept(block);
        self.choose_epilogues(block);
        for stmt in &block.stmts {
            match stmt {
                NestStmt::Value(id) => {
                    self.line(self.nest.value(*id).line);
                    self.value(*id)?
                }
                NestStmt::Store { tensor, index, value, line } => {
                    self.line(*line);
                    self.store(*tensor, index, *value)?
                }
                NestStmt::Loop(inner) => {
                    self.line(inner.line);
                    let streams = self.choose_streams(inner);
                    if streams.is_empty() {
                        self.share_plain(inner);
                    }
                    if let Some(axis) = first_kept.take_if(|axis| *axis == inner.axis) {
                        self.fill_kept(axis);
                    }
                    self.run_loop(inner, block, &streams)?;
                    self.awaited = None;
                }
            }
        }
        Ok(())
    }

    fn line(&mut self, line: u32) {
        match self.out.last_mut() {
            Some(Stmt::Line(last)) => *last = line,
            _ => self.out.push(Stmt::Line(line)),
        }
    }

    fn declare(&mut self, name: &str, ty: program::Scalar, domain: program::Domain) -> VarId {
        let id = VarId(self.program.vars.len() as u32);
        let name = self.names.fresh(name);
        self.program.vars.push(program::Var { name, ty, domain });
        self.out.push(Stmt::Declare(id));
        id
    }

    /// Runs `f` with an empty statement list and returns what it pushed.
    fn nested(&mut self, f: impl FnOnce(&mut Self) -> Result<(), ScheduleError>) -> Result<Vec<Stmt>, ScheduleError> {
        let outer = std::mem::take(&mut self.out);
        let result = f(self);
        let inner = std::mem::replace(&mut self.out, outer);
        result.map(|()| inner)
    }

    /// Whether a block along the axis can reach past its end.
    fn partial(&self, axis: AxisId) -> bool {
        if self.inside.contains(&axis) {
            return false;
        }
        // A loop that starts in the middle need not end on a block's end.
        if self.limited.contains(&axis) || self.shifted.contains(&axis) {
            return true;
        }
        if self.is_skewed(axis) || self.is_whole(axis) {
            return true;
        }
        match (schedule::known_extent(self.nest, axis), self.schedule.blocks[axis.index()]) {
            (Some(size), Some(block)) => size % i64::from(block) != 0,
            (_, None) => false,
            _ => true,
        }
    }
}
