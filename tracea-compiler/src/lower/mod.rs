//! Nest and schedule → [`Program`]: layouts, rings, copies, dots, stores; every decision of a kernel's code.
//!
//! - `swapped` computes products the other way round, for few rows, `flat_sums` takes loops of one sum as one, for few terms each;
//! - `relaid` finds operands that the launch copies first, and reads the nest as if it were given the copies;
//! - `analysis` says who reads what and how dots get their operands;
//! - `domains` gives each value the registers that hold it, anchored by the dots;
//! - `access` turns index expressions into rows and bounds checks, `separable` into sums of a row's part and a column's;
//! - `values` turns element-wise work into loops over registers, `reductions` and `selects` what is not element by element;
//! - `shares` leaves running results with threads until a loop ends;
//! - `past_end` knows what registers hold past an axis' end, which reductions must not see;
//! - `kept` finds rows that several loops read, which threads then keep;
//! - `merged` finds axes that the launch may walk as one;
//! - `skew` walks rows that are not aligned from the chunks of memory in which they begin;
//! - `whole_rows` takes rows that threads have registers for in one step, `by_parts` then goes vector by vector;
//! - `edges` runs a loop's whole blocks apart from a partial last one;
//! - `ahead` keeps copies some steps ahead of their use, for `streams` that a loop walks down and for a dot's operands;
//! - `loops` makes loops, and rings where a loop feeds dots;
//! - `split` shares the terms of a sum out among blocks, `dealing` what they put together then;
//! - `roles` splits copying from multiplying where a target has warp roles, which pass tiles by `rings`;
//! - `overlap` lets products run on while the next operands are awaited, `shifted` while the next step works out what to multiply;
//! - `bulk` finds the copies that TMA can make, `windows` those whose rows walk a tensor by steps;
//! - `clusters` finds the tiles that neighbouring blocks fetch for each other;
//! - `dots`, `stores` place products and results, `epilogue` the tiles that results take in on their way out;
//! - `crate::program::shared` and `crate::program::order` then lay out shared memory and place barriers and fences.

mod access;
mod ahead;
pub mod analysis;
mod bulk;
mod by_parts;
mod clusters;
mod dealing;
mod domains;
mod dots;
mod edges;
mod epilogue;
pub mod flat_sums;
mod kept;
mod loops;
pub mod merged;
mod names;
mod overlap;
mod params;
mod past_end;
mod reductions;
mod relaid;
mod rings;
mod roles;
mod selects;
mod separable;
pub mod shares;
mod shifted;
pub mod skew;
mod split;
mod stores;
mod streams;
pub mod swapped;
pub mod turned;
mod values;
mod whole_rows;
mod windows;

use crate::nest::{AxisId, Block, Nest, Stmt as NestStmt, ValueId};
use crate::plan::Cost;
use crate::program::{self, PingPong, Producer, Program, Stmt, VarId, order, pressure, shared};
use crate::schedule::target::{Pipeline, Target};
use crate::schedule::{self, Schedule, ScheduleError, spec::ScheduleSpec};
use analysis::{Facts, steps_are_alike};
pub use loops::nest_of;
pub use params::extent_dims;
use relaid::Laid;
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
    let swapped = schedule::is_swapped(target, spec)?;
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

/// Lowers under schedules of the compiler's own, the widest first; the launcher ranks them once it knows the sizes.
///
/// Nothing where the kernel has no use for what the target adds: the code for an older one serves there.
pub fn lower_portfolio(nest: &Nest, target: &'static Target) -> Result<Vec<Lowered>, ScheduleError> {
    let Some(Start { laid, facts, schedule }) = Start::best(nest, target) else { return Ok(Vec::new()) };
    let first = fit(&laid, &facts, schedule)?;
    let mut narrower = first.schedule.clone();
    let mut portfolio = Vec::new();
    if let Some(one_row) = schedule::variants::by_merged_axes(&laid.nest, &facts, &narrower) {
        portfolio.push(fit(&laid, &facts, one_row)?);
    }
    portfolio.push(first);
    for long in schedule::variants::by_long_rows(&laid.nest, &facts, &narrower) {
        portfolio.push(fit(&laid, &facts, long)?);
    }
    for skewed in schedule::variants::by_skewed_rows(&laid.nest, &facts, &narrower) {
        let lowered = fit(&laid, &facts, skewed)?;
        if skew::is_carried_out(&lowered.program) {
            portfolio.push(lowered);
        }
    }
    portfolio.extend(by_whole_rows(&laid, &facts, &narrower)?);
    portfolio.extend(by_pairs(&laid, &facts, &narrower));
    // Older targets' code is a fallback here, and one schedule of it serves.
    if target.pipeline == Pipeline::WarpRoles {
        if let Some(cut) = schedule::variants::by_three_quarters(&laid.nest, &facts, &narrower) {
            portfolio.push(fit_roles(&laid, &facts, &cut, &[1])?);
        }
        portfolio.extend(by_three_warpgroups(&laid, &facts, &narrower));
        while schedule::variants::narrow(&laid.nest, &facts, &mut narrower) {
            portfolio.push(fit_deep(&laid, &facts, &narrower)?);
        }
        if let Some(mut small) = schedule::variants::by_one_warpgroup(&laid.nest, &facts, &portfolio[0].schedule) {
            let single = fit_roles(&laid, &facts, &small, &[1])?;
            // Few tiles of long sums wait for L2 more than for each other.
            let pairs = by_pairs(&laid, &facts, &single.schedule).filter(|pairs| !takes_in_panels(&pairs.program));
            portfolio.push(single);
            portfolio.extend(pairs);
            while schedule::variants::narrow(&laid.nest, &facts, &mut small) {
                portfolio.push(fit_deep(&laid, &facts, &small)?);
            }
        }
        portfolio.extend(by_other_ways(nest, target, &laid)?);
    }
    portfolio.extend(by_flat_sums(nest, target)?);
    Ok(portfolio)
}

/// Loops of one sum taken as one. What comes element by element takes many threads, of which small blocks without roles have most; where
/// results are wide, it comes less often for wide blocks.
fn by_flat_sums(nest: &Nest, target: &'static Target) -> Result<Vec<Lowered>, ScheduleError> {
    const LEAST_COLUMNS: u32 = 128;
    let Some(flat) = flat_sums::flattened(nest) else { return Ok(Vec::new()) };
    let Some(Start { laid, facts, schedule }) = Start::best(&flat, target) else { return Ok(Vec::new()) };
    if target.pipeline == Pipeline::CommitGroups {
        return Ok(vec![fit(&laid, &facts, schedule::variants::by_small_blocks(&laid.nest, &facts, &schedule))?]);
    }
    let mut all = vec![fit(&laid, &facts, schedule)?];
    let mut narrower = all[0].schedule.clone();
    let columns = |schedule: &Schedule| facts.dots.iter().filter_map(|dot| schedule.blocks[dot.n.index()]).min();
    while schedule::variants::narrow(&laid.nest, &facts, &mut narrower) && columns(&narrower) >= Some(LEAST_COLUMNS) {
        all.push(fit_roles(&laid, &facts, &narrower, &[1])?);
    }
    Ok(all)
}

/// A nest and the schedule that others are made from.
struct Start {
    laid: Laid,
    facts: Facts,
    schedule: Schedule,
}

impl Start {
    fn of(nest: &Nest, target: &'static Target, swapped: bool) -> Start {
        let laid = Laid::for_target(nest, target, swapped);
        let facts = Facts::of(&laid.nest);
        let schedule = Schedule { swapped, ..schedule::choose::start(&laid.nest, &facts, target) };
        Start { laid, facts, schedule }
    }

    fn runs(&self) -> bool {
        let Start { laid, facts, schedule } = self;
        schedule.target.pipeline == Pipeline::CommitGroups || schedule::check(&laid.nest, facts, schedule).is_ok()
    }

    /// As the kernel has it, or the other way round where that takes fewer copies.
    fn best(nest: &Nest, target: &'static Target) -> Option<Start> {
        let plain = Start::of(nest, target, false);
        let others = target.pipeline == Pipeline::WarpRoles
            && swapped::check(nest).is_ok()
            && !(plain.runs() && swapped::takes_in_tiles(nest, &plain.facts));
        let swapped = others.then(|| Start::of(nest, target, true));
        [Some(plain), swapped].into_iter().flatten().filter(Start::runs).min_by_key(|start| start.laid.relaid.len())
    }
}

/// The other way round, where that can be done: for products of few rows, and for all where the launch then copies the other operand.
fn by_other_ways(nest: &Nest, target: &'static Target, first: &Laid) -> Result<Vec<Lowered>, ScheduleError> {
    if swapped::check(nest).is_err() {
        return Ok(Vec::new());
    }
    let Start { laid, facts, schedule } = Start::of(nest, target, true);
    let runs = |schedule: &Schedule| schedule::check(&laid.nest, &facts, schedule).is_ok();
    let mut all = Vec::new();
    // Whether a computed operand fills panels is known once it is laid out.
    let few = schedule::variants::by_few_rows(&laid.nest, &facts, &schedule);
    all.extend(few.iter().filter(|few| runs(few)).filter_map(|few| fit_deep(&laid, &facts, few).ok()));
    let copies_other = !first.relaid.is_empty() && !laid.relaid.is_empty() && first.relaid != laid.relaid;
    if copies_other && !swapped::takes_in_tiles(&laid.nest, &facts) && runs(&schedule) {
        all.push(fit_roles(&laid, &facts, &schedule, &[1])?);
        let mut narrower = schedule;
        while schedule::variants::narrow(&laid.nest, &facts, &mut narrower) && runs(&narrower) {
            all.push(fit_deep(&laid, &facts, &narrower)?);
        }
    }
    Ok(all)
}

/// Rows that threads have registers for, from the chunks of memory in which they begin, in one step.
fn by_whole_rows(laid: &Laid, facts: &Facts, schedule: &Schedule) -> Result<Vec<Lowered>, ScheduleError> {
    let Some(found) = skew::find(&laid.nest, facts, None) else { return Ok(Vec::new()) };
    let Some(nest) = whole_rows::taken_whole(&laid.nest, &found.columns) else { return Ok(Vec::new()) };
    let laid = Laid { nest: Rc::new(nest), relaid: Vec::new() };
    let facts = Facts::of(&laid.nest);
    let schedules = schedule::variants::by_whole_rows(found.rows, &found.columns, schedule);
    let all = schedules.into_iter().map(|whole| fit(&laid, &facts, whole)).collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter().filter(|lowered| skew::is_carried_out(&lowered.program)).collect())
}

/// The same schedule for pairs of blocks, where they have a tile to fetch for each other.
fn by_pairs(laid: &Laid, facts: &Facts, schedule: &Schedule) -> Option<Lowered> {
    let schedule = schedule::variants::by_pairs(&laid.nest, facts, schedule)?;
    let program = lower(laid, facts, &schedule).ok()?;
    (program.shared_bytes <= schedule.target.shared_limit).then(|| Lowered::of(laid, facts, schedule, program))
}

/// The same schedule for three warpgroups, as deep as there is room for, where these have registers for it.
fn by_three_warpgroups(laid: &Laid, facts: &Facts, schedule: &Schedule) -> Option<Lowered> {
    let schedule = schedule::variants::by_three_warpgroups(&laid.nest, facts, schedule)?;
    let stages = (2..=schedule.stages).rev();
    stages.map(|stages| Schedule { stages, ..schedule.clone() }).find_map(|schedule| {
        let program = lower(laid, facts, &schedule).ok()?;
        let fits = program.shared_bytes <= schedule.target.shared_limit
            && pressure::peak(&program) <= schedule::choose::registers_of(&schedule);
        fits.then(|| Lowered::of(laid, facts, schedule, program))
    })
}

/// Whether a result takes tiles in that pass by a ring: so much to do beside products that few of these wait for L2.
fn takes_in_panels(program: &Program) -> bool {
    program.shared.iter().any(|shared| shared.host.is_some())
}

/// The first of the portfolio.
pub fn lower_chosen(nest: &Nest, target: &'static Target) -> Result<Option<Lowered>, ScheduleError> {
    Ok(lower_portfolio(nest, target)?.into_iter().next())
}

/// A small block, with steps that are worth their waiting.
fn fit_deep(laid: &Laid, facts: &Facts, schedule: &Schedule) -> Result<Lowered, ScheduleError> {
    let mut deep = schedule.clone();
    schedule::variants::deepen(&laid.nest, facts, &mut deep);
    fit_roles(laid, facts, &deep, &[2, 1])
}

/// A block with rings as deep as there is room for: as many on a multiprocessor as is preferred, and as registers and shared memory
/// have room for.
fn fit_roles(laid: &Laid, facts: &Facts, schedule: &Schedule, preferred: &[u32]) -> Result<Lowered, ScheduleError> {
    const LEAST_STAGES: u32 = 3;
    const MOST_STAGES: u32 = 8;
    for &resident in preferred {
        for stages in (LEAST_STAGES..=MOST_STAGES).rev() {
            let tried = Schedule { resident, stages, ..schedule.clone() };
            if schedule::check(&laid.nest, facts, &tried).is_err() {
                continue;
            }
            let program = lower(laid, facts, &tried)?;
            let room = (tried.target.shared_limit + SHARED_OF_A_BLOCK) / resident - SHARED_OF_A_BLOCK;
            if program.shared_bytes <= room && (resident == 1 || pressure::fits(&program)) {
                return Ok(Lowered::of(laid, facts, tried, program));
            }
        }
    }
    fit(laid, facts, schedule.clone())
}

/// What the driver takes of a multiprocessor's shared memory for each block.
const SHARED_OF_A_BLOCK: u32 = 1024;

/// Takes a schedule back until its registers and shared memory fit the target.
fn fit(laid: &Laid, facts: &Facts, mut schedule: Schedule) -> Result<Lowered, ScheduleError> {
    let (nest, target) = (&laid.nest, schedule.target);
    let mut program = lower(laid, facts, &schedule)?;
    while pressure::peak(&program) > schedule::choose::registers(target)
        && schedule::choose::lighten(nest, facts, &mut schedule)
    {
        program = lower(laid, facts, &schedule)?;
    }
    for limit in [target.shared_preferred, target.shared_limit] {
        let mut tried = schedule.clone();
        let mut fitted = program.clone();
        while fitted.shared_bytes > limit && schedule::choose::shrink(nest, facts, &mut tried) {
            fitted = lower(laid, facts, &tried)?;
        }
        if fitted.shared_bytes <= limit {
            return Ok(Lowered::of(laid, facts, tried, fitted));
        }
    }
    Err(ScheduleError::new(format!(
        "no schedule of this kernel fits the {} KiB of shared memory that {} has a block -- pin smaller blocks with #[schedule]",
        target.shared_limit / 1024,
        target.name
    )))
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
    lowering.block(&nest.body)?;
    if schedule.whole.is_some() {
        lowering.by_parts();
    }
    if let Some(axis) = schedule.cluster
        && !lowering.program.rings.iter().any(|ring| ring.joint)
    {
        return Err(schedule::cluster::nothing_shared(nest, axis));
    }
    let (sites, fetches, mut scratch, turns) = (lowering.sites, lowering.fetches, lowering.scratch, lowering.turns);
    let mut program = Program { body: lowering.out, relaid: relaid.clone(), ..lowering.program };
    if role == Role::Consumer {
        let mut producing = Lowering::new(nest, facts, schedule, Role::Producer)?;
        producing.program = program;
        (producing.sites, producing.fetches) = (sites, fetches);
        producing.produce(&nest.body)?;
        scratch = scratch.max(producing.scratch);
        let (registers, consumer_registers) = schedule.role_registers();
        let mut body = producing.out;
        program = producing.program;
        if steps_are_alike(&nest.body) {
            program.persistent = true;
            body = vec![unit_loop(body)];
            let unit = std::mem::take(&mut program.body);
            // The assembler wants what two blocks share within what threads have at launch.
            let registers = match schedule.resident {
                1 => consumer_registers,
                resident => pressure::at_launch(program.threads + schedule::PRODUCER_THREADS, resident),
            };
            program.body = vec![unit_loop(dealing::deal(&mut program, unit, registers))];
        }
        if let Some(warpgroups) = program.pingpong {
            program.body.insert(0, Stmt::PingPong(PingPong::Begin, warpgroups));
            program.body.push(Stmt::PingPong(PingPong::End, warpgroups));
        }
        if program.shared.iter().any(|shared| shared.sent) {
            program.body.push(Stmt::FinishStores);
        }
        let threads = schedule::PRODUCER_THREADS;
        // As many as the producer has registers for: fewer where its block shares the multiprocessor, or has many consumers, or where it
        // keeps the parts of elements' places too.
        let rows_at_a_time = match registers {
            ..=32 => 2,
            _ if schedule.resident > 1 || gathers(&body) => 4,
            _ => 8,
        };
        if program.rings.is_empty() {
            body.clear();
        }
        let bulk = program.rings.iter().map(|ring| ring.bulk);
        let alone = bulk.collect::<Option<Vec<_>>>().filter(|all| !all.is_empty());
        program.producer = Some(Producer { threads, registers, consumer_registers, rows_at_a_time, alone, body });
    }
    if facts.dots.is_empty() {
        // Threads hold as many neighbouring columns as one access reaches: what is aligned to less is read by neighbouring
        // threads side by side. Turning takes vectors of 16 bytes.
        program.narrowing = if turns { Vec::new() } else { program.aligned.clone() };
        program.merged = merged::merged_dims(nest, schedule);
        // One long row has one end, which need not be that of a vector.
        program.whole_vectors = program.merged.is_empty();
        program.resident = pressure::resident(&program);
    }
    if program.skew.is_some() || program.whole.is_some() {
        // Rows are accessed by whole chunks, and what they share as any address may lie.
        program.aligned.clear();
        program.narrowing.clear();
        program.whole_vectors = false;
    }
    if role == Role::Consumer {
        program.resident = schedule.resident;
    }
    params::prune(nest, &mut program);
    shared::plan(&mut program, scratch);
    order::place(&mut program);
    Ok(program)
}

/// Whether elements come by themselves, by parts of their places.
fn gathers(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::Copy(copy) => copy.parts.is_some(),
        Stmt::For { body, .. } | Stmt::If { body, .. } => gathers(body),
        Stmt::Where { body, otherwise, .. } => gathers(body) || gathers(otherwise),
        _ => false,
    })
}

/// All units of work that are this block's.
fn unit_loop(mut body: Vec<Stmt>) -> Stmt {
    body.insert(0, Stmt::Locate);
    Stmt::For {
        var: "unit".into(),
        from: program::IntText::name("blockIdx.x"),
        until: program::IntText::name("units"),
        step: program::IntText::name("gridDim.x"),
        unroll: false,
        body,
    }
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
    /// Registers whose elements past an axis' end hold a neutral value.
    masked: Vec<(VarId, AxisId, program::Identity)>,
    /// Running results that threads work out by shares.
    shares: Vec<shares::Placed>,
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
        let names = names::Names::new(nest);
        let program = params::start(nest, facts, schedule, &domains, &names);
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
            limited: BTreeSet::new(),
            inside: BTreeSet::new(),
            operands: Vec::new(),
            role,
            sites: Vec::new(),
            open: Vec::new(),
            epilogues: Vec::new(),
            fetches: Vec::new(),
            masked: Vec::new(),
            shares: Vec::new(),
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
