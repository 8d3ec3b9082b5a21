//! The schedules that a kernel is lowered under where nobody pins any: the widest first, and those that serve other sizes better.

use super::analysis::{DotFact, Facts, OperandSource, operand_only};
use super::precomputed::precomputed;
use super::relaid::{Laid, with_turned_results};
use super::{Lowered, flat_sums, lower, single, skew, swapped, whole_rows};
use crate::nest::Nest;
use crate::program::{Domain, Major, PanelSide, Program, Stmt, Units, pressure};
use crate::schedule::target::{self, Pipeline, Target};
use crate::schedule::{self, Schedule, ScheduleError};
use std::collections::BTreeSet;
use std::rc::Rc;
use widths::{
    BETWEEN, BETWEEN_NARROW, BETWEEN_SIDE_BY_SIDE, FEW_MORE, HALF, IN_TURN, LITTLE_LESS, OF_ONE, OF_THREE, PAIRED,
    THREE_QUARTERS, WIDE,
};

/// Lowers under schedules of the compiler's own, the widest first; the launcher ranks them once it knows the sizes.
///
/// Nothing where the kernel has no use for what the target adds: the code for an older one serves there.
pub fn lower_portfolio(nest: &Nest, target: &'static Target) -> Result<Vec<Lowered>, ScheduleError> {
    let numbers = single::as_numbers(nest);
    let nest = numbers.as_ref().unwrap_or(nest);
    let mut portfolio = schedules_of(nest, target)?;
    if target.pipeline == Pipeline::WarpRoles
        && let Some(turned) = with_turned_results(nest)
    {
        portfolio.extend(schedules_of(&turned, target)?);
    }
    if let Some(parts) = precomputed(nest) {
        // Where nothing may be copied, an older target's code serves.
        if target.pipeline == Pipeline::WarpRoles {
            portfolio.retain(|lowered| pressure::peak(&lowered.program) <= pressure::MOST_REGISTERS);
        }
        portfolio.extend(schedules_of(&parts.nest, target)?);
    }
    Ok(portfolio)
}

fn schedules_of(nest: &Nest, target: &'static Target) -> Result<Vec<Lowered>, ScheduleError> {
    let Some(Start { laid, facts, schedule }) = Start::best(nest, target) else { return Ok(Vec::new()) };
    let first = fit(&laid, &facts, schedule)?;
    let mut narrower = first.schedule.clone();
    let mut portfolio = Vec::new();
    if let Some(one_row) = schedule::variants::by_merged_axes(&laid.nest, &facts, &narrower) {
        portfolio.push(fit(&laid, &facts, one_row)?);
    }
    portfolio.push(first);
    for narrow in schedule::variants::by_narrow_tiles(&laid.nest, &facts, &narrower) {
        portfolio.push(fit(&laid, &facts, narrow)?);
    }
    for long in schedule::variants::by_long_rows(&laid.nest, &facts, &narrower) {
        portfolio.push(fit(&laid, &facts, long)?);
    }
    for skewed in schedule::variants::by_skewed_rows(&laid.nest, &facts, &narrower) {
        let lowered = fit(&laid, &facts, skewed)?;
        // A wide block by itself would have nothing beside what it waits for.
        let alone = pressure::is_wide_row(&lowered.program) && lowered.program.resident < 2;
        if skew::is_carried_out(&lowered.program) && !alone {
            portfolio.push(lowered);
        }
    }
    portfolio.extend(by_whole_rows(&laid, &facts, &narrower)?);
    portfolio.extend(by_rows_in_turn(&laid, &facts, &narrower));
    portfolio.extend(by_pairs(&laid, &facts, &narrower));
    // Older targets' code is a fallback here, and one schedule of it serves.
    if target.pipeline == Pipeline::WarpRoles {
        if let Some(cut) = schedule::variants::by_fewer_columns(&laid.nest, &facts, &narrower, WIDE, THREE_QUARTERS) {
            portfolio.extend(with_pairs(&laid, &facts, fit_roles(&laid, &facts, &cut, &[1])?));
        }
        portfolio.extend(by_turns(&laid, &facts, &narrower));
        if is_plain(&laid, &facts) {
            let between = by_columns_between(&laid, &facts, &narrower, WIDE, &BETWEEN);
            portfolio.extend(between.into_iter().flat_map(|lowered| with_pairs_of_rows(&laid, &facts, lowered)));
            portfolio.extend(by_columns_between(&laid, &facts, &narrower, HALF, &BETWEEN_SIDE_BY_SIDE));
            portfolio.extend(by_long_steps(&laid, &facts, &narrower));
            portfolio.extend(by_square_tiles(&laid, &facts, &narrower));
            portfolio.extend(by_tall_tiles(&laid, &facts, &narrower));
        }
        portfolio.extend(by_three_warpgroups(&laid, &facts, &narrower));
        while schedule::variants::narrow(&laid.nest, &facts, &mut narrower) {
            portfolio.extend(with_pairs(&laid, &facts, fit_deep(&laid, &facts, &narrower)?));
            if is_plain(&laid, &facts) {
                portfolio.extend(by_columns_between(&laid, &facts, &narrower, HALF, &BETWEEN_NARROW));
            }
        }
        if let Some(mut small) = schedule::variants::by_one_warpgroup(&laid.nest, &facts, &portfolio[0].schedule) {
            let single = fit_roles(&laid, &facts, &small, &[1])?;
            // Few tiles of long sums wait for L2 more than for each other.
            let pairs = by_pairs(&laid, &facts, &single.schedule).filter(|pairs| panels_taken_in(&pairs.program) == 0);
            portfolio.push(single);
            portfolio.extend(pairs);
            while schedule::variants::narrow(&laid.nest, &facts, &mut small) {
                portfolio.push(fit_deep(&laid, &facts, &small)?);
            }
            portfolio.extend(by_deep_rings(&laid, &facts, &small));
        }
        portfolio.extend(by_other_ways(nest, target, &laid)?);
        if !narrower.swapped {
            portfolio.extend(by_more_rows(nest, target, &laid));
        }
    }
    portfolio.extend(by_flat_sums(nest, target)?);
    // What had to shrink may have come to be the same.
    let mut seen = BTreeSet::new();
    portfolio.retain(|lowered| seen.insert(lowered.program.schedule.clone()));
    Ok(portfolio)
}

/// Two warpgroups with tiles of their own that take turns: for sums so short that much of a tile's time is its way out. Measured on an H200 with f16:
/// 25216 x 1536 x 384 takes 43.8 µs by 128 x 192 in turn, and 50.0 by 128 x 256 together. Not where threads load or store tiles
/// themselves: 8192 x 1024 x 1024 with SiLU and a residual takes 61 µs so by 128 x 128 in turn, and 34 by 128 x 256 together.
fn by_turns(laid: &Laid, facts: &Facts, schedule: &Schedule) -> Vec<Lowered> {
    const LEAST_STAGES: u32 = 4;
    const MOST_STAGES: u32 = 8;
    let deepest = |(wide, columns): (u32, u32)| {
        let narrower = schedule::variants::by_fewer_columns(&laid.nest, facts, schedule, wide, columns)?;
        let why = "warpgroups that take turns, for short sums".to_string();
        let turns = Schedule { pingpong: true, why, ..narrower };
        let suits = |turns: &Schedule, program: &Program| {
            has_registers_for(turns, program) && !reaches_tiles(program, &program.body)
        };
        depth::deepest(laid, facts, &turns, LEAST_STAGES..=MOST_STAGES, suits).ok().flatten()
    };
    let single = [THREE_QUARTERS, HALF, IN_TURN[0], IN_TURN[1]].map(|columns| (WIDE, columns));
    let side_by_side = [THREE_QUARTERS / 2, HALF / 2].map(|columns| (HALF, columns));
    let widths = if facts.dots.len() == 1 { &single[..] } else { &side_by_side[..] };
    widths.iter().copied().filter_map(deepest).collect()
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

    fn with_one_warpgroup(self) -> Start {
        let schedule = schedule::choose::for_one_warpgroup(&self.laid.nest, &self.facts, &self.schedule);
        Start { schedule, ..self }
    }

    fn runs(&self) -> bool {
        let Start { laid, facts, schedule } = self;
        schedule.target.pipeline == Pipeline::CommitGroups || schedule::check(&laid.nest, facts, schedule).is_ok()
    }

    /// As the kernel has it, or the other way round where that takes fewer copies; for one warpgroup where neither has rows for two.
    fn best(nest: &Nest, target: &'static Target) -> Option<Start> {
        let plain = Start::of(nest, target, false);
        let others = target.pipeline == Pipeline::WarpRoles
            && swapped::check(nest).is_ok()
            && !(plain.runs() && swapped::tiles_taken_in(nest, &plain.facts) > 0);
        let swapped = others.then(|| Start::of(nest, target, true));
        let all = [Some(plain), swapped].into_iter().flatten().filter(Start::runs);
        let best = all.min_by_key(|start| start.laid.relaid.len());
        best.or_else(|| Some(Start::of(nest, target, false).with_one_warpgroup()).filter(Start::runs))
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
    if copies_other && swapped::tiles_taken_in(&laid.nest, &facts) == 0 && runs(&schedule) {
        all.push(fit_roles(&laid, &facts, &schedule, &[1])?);
        let mut narrower = schedule;
        while schedule::variants::narrow(&laid.nest, &facts, &mut narrower) && runs(&narrower) {
            all.push(fit_deep(&laid, &facts, &narrower)?);
        }
    }
    Ok(all)
}

/// Tiles of more rows than columns, by a product the other way round, where it is one of tensors that nothing else reads and takes no other
/// copies: these cut up some sizes in fewer waves.
fn by_more_rows(nest: &Nest, target: &'static Target, first: &Laid) -> Vec<Lowered> {
    const LEAST_STAGES: u32 = 3;
    if swapped::check(nest).is_err() {
        return Vec::new();
    }
    let Start { laid, facts, schedule } = Start::of(nest, target, true);
    if !is_plain(&laid, &facts) || laid.relaid != first.relaid {
        return Vec::new();
    }
    let why = "more rows than columns, by the product the other way round, where that leaves fewer tiles over";
    let by = |widths: &[u32]| by_columns_between(&laid, &facts, &schedule, WIDE, widths);
    let all = by(&[&[THREE_QUARTERS], &BETWEEN[..]].concat());
    // TMA walks windows for so few as long as for more. The widest are for rows that begin amid lines of memory: measured on an H100, 4096 x 4104 x
    // 4096 (`nn`) takes 189 µs by these, and 211 by 208 rows.
    let in_time = |one: &Lowered| one.program.windows.is_empty() && one.schedule.stages >= LEAST_STAGES;
    let of_rows = by(&[&[WIDE], &FEW_MORE[..]].concat()).into_iter().filter(in_time);
    let with_pairs = |mut lowered: Lowered| {
        lowered.schedule.why = why.into();
        with_pairs(&laid, &facts, lowered)
    };
    let tall = by_tall_tiles(&laid, &facts, &schedule);
    let between = by_rows_between(&laid, &facts, &schedule);
    let taken_in = swapped::tiles_taken_in(&laid.nest, &facts);
    let by_panels = |lowered: &Lowered| panels_taken_in(&lowered.program) >= taken_in;
    all.into_iter().chain(of_rows).flat_map(with_pairs).chain(tall).chain(between).filter(by_panels).collect()
}

/// A swapped product by three warpgroups and by one, so many of the kernel's rows beside 192 and 64 of its columns, as deep as there is room for. Not
/// where results are turned when the kernel is done: the assembler spills the places to which three warpgroups' threads store them.
fn by_rows_between(laid: &Laid, facts: &Facts, schedule: &Schedule) -> Vec<Lowered> {
    const STAGES: std::ops::RangeInclusive<u32> = 3..=12;
    let nest = &laid.nest;
    if schedule::variants::gathers(nest, facts) || nest.tensors.iter().any(|tensor| tensor.turned) {
        return Vec::new();
    }
    let three =
        OF_THREE.into_iter().filter_map(|rows| schedule::variants::by_three_times_64_rows(nest, facts, schedule, rows));
    let one = schedule::variants::by_one_warpgroup(nest, facts, schedule)
        .and_then(|one| schedule::variants::by_fewer_columns(nest, facts, &one, HALF, OF_ONE));
    let deepest = |tiles: Schedule| depth::deepest(laid, facts, &tiles, STAGES, suits_rows).ok().flatten();
    three.chain(one).filter_map(deepest).collect()
}

/// Whether it is one product, or some side by side, of tensors that nothing else reads.
fn is_plain(laid: &Laid, facts: &Facts) -> bool {
    let operands = operand_only(&laid.nest, facts);
    let only_multiplied =
        |source: &OperandSource| matches!(source, OperandSource::Tensor { load, .. } if operands.contains(load));
    facts.dots.first().is_some_and(|first| {
        let beside = |dot: &DotFact| (dot.m, dot.n, &dot.loops) == (first.m, first.n, &first.loops);
        facts.dots.iter().all(|dot| beside(dot) && only_multiplied(&dot.a) && only_multiplied(&dot.b))
    })
}

/// The same schedule by tiles of so many columns each instead of `wide`, as far as operands come in such tiles and threads have registers for
/// them.
fn by_columns_between(laid: &Laid, facts: &Facts, schedule: &Schedule, wide: u32, widths: &[u32]) -> Vec<Lowered> {
    let of = |columns: &u32| {
        let cut = schedule::variants::by_fewer_columns(&laid.nest, facts, schedule, wide, *columns)?;
        schedule::check(&laid.nest, facts, &cut).ok()?;
        let lowered = fit_roles(laid, facts, &cut, &[1]).ok()?;
        let as_wanted = lowered.schedule.blocks == cut.blocks && has_registers_for(&lowered.schedule, &lowered.program);
        as_wanted.then_some(lowered)
    };
    widths.iter().filter_map(of).collect()
}

/// Twice as many terms a step, for wide tiles of weights that memory brings, where terms lie side by side: 256 bytes of a row come at once. Measured on an
/// H200: two products side by side, 128 x 14336 x 4096, take 61.6 µs by 112 columns each and two steps of 128 terms, and 65.1 by four of 64; 128 x
/// 28672 x 8192 (`tn`) 119.7 by 256 columns, and 123.6.
fn by_long_steps(laid: &Laid, facts: &Facts, schedule: &Schedule) -> Vec<Lowered> {
    const STAGES: std::ops::RangeInclusive<u32> = 2..=4;
    let by_terms = |dot: &DotFact| matches!(dot.b, OperandSource::Tensor { major: Major::K, .. });
    if !facts.dots.iter().all(by_terms) {
        return Vec::new();
    }
    let (wide, widths) = if facts.dots.len() == 1 { (WIDE, &[WIDE][..]) } else { (HALF, &[HALF, LITTLE_LESS][..]) };
    let of = |columns: &u32| {
        let tile = schedule::variants::by_fewer_columns(&laid.nest, facts, schedule, wide, *columns)?;
        let mut long = Schedule { why: "long steps, for weights that memory brings".into(), ..tile.clone() };
        schedule::variants::deepen(&laid.nest, facts, &mut long);
        let longer = (long.blocks != tile.blocks).then_some(long)?;
        depth::deepest(laid, facts, &longer, STAGES, has_registers_for).ok().flatten()
    };
    widths.iter().filter_map(of).collect()
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

/// Long rows that several loops walk along, one after another by each block: where threads have registers for what they share, and devices
/// have shared memory for some of them.
fn by_rows_in_turn(laid: &Laid, facts: &Facts, schedule: &Schedule) -> Vec<Lowered> {
    let Some(found) = skew::find(&laid.nest, facts, None).filter(|found| found.in_turn(&laid.nest)) else {
        return Vec::new();
    };
    let Some(nest) = whole_rows::taken_whole(&laid.nest, &found.columns) else { return Vec::new() };
    let laid = Laid { nest: Rc::new(nest), relaid: Vec::new() };
    let facts = Facts::of(&laid.nest);
    let lowered = |schedule: Schedule| {
        let program = lower(&laid, &facts, &schedule).ok()?;
        let fits = program.shared_bytes <= target::most_shared() && skew::is_carried_out(&program);
        fits.then(|| Lowered::of(&laid, &facts, schedule, program))
    };
    let kinds = schedule::variants::by_rows_in_turn(found.rows, &found.columns, found.read_bytes(&laid.nest), schedule);
    kinds.into_iter().filter_map(|kind| kind.into_iter().find_map(lowered)).collect()
}

/// The same schedule for pairs of blocks, where they have a tile to fetch for each other.
fn by_pairs(laid: &Laid, facts: &Facts, schedule: &Schedule) -> Option<Lowered> {
    let schedule = schedule::variants::by_pairs(&laid.nest, facts, schedule)?;
    let program = lower(laid, facts, &schedule).ok()?;
    (program.shared_bytes <= schedule.target.shared_limit).then(|| Lowered::of(laid, facts, schedule, program))
}

/// A narrow schedule, and the same for pairs of blocks where windows come from L2 once for each of their taps: so many bytes that it counts
/// what else comes.
fn with_pairs(laid: &Laid, facts: &Facts, narrow: Lowered) -> impl Iterator<Item = Lowered> {
    let windows = (!narrow.program.windows.is_empty()).then(|| by_pairs(laid, facts, &narrow.schedule)).flatten();
    with_pairs_of_rows(laid, facts, narrow).chain(windows)
}

/// The same where operands come by rows, and one product is all that comes of them.
fn with_pairs_of_rows(laid: &Laid, facts: &Facts, narrow: Lowered) -> impl Iterator<Item = Lowered> {
    let Lowered { schedule, program, .. } = &narrow;
    let by_rows = comes_by_rows(program) && is_plain(laid, facts);
    let is_paired = |dot: &DotFact| schedule.blocks[dot.n.index()].is_some_and(|columns| PAIRED.contains(&columns));
    let pairs = match &facts.dots[..] {
        [dot] if by_rows && is_paired(dot) => by_pairs(laid, facts, schedule),
        _ => None,
    };
    std::iter::once(narrow).chain(pairs)
}

/// Square tiles, where operands come and results leave by rows, and a thread has registers for what comes of its share. Measured on an H100: 3000³
/// takes 81.2 µs by these and 88.0 by others, 6008 x 3000 x 4008 210.7 and 215.6.
fn by_square_tiles(laid: &Laid, facts: &Facts, schedule: &Schedule) -> Option<Lowered> {
    let squares = schedule::variants::by_square_tiles(&laid.nest, facts, schedule);
    squares.into_iter().find_map(|square| by_rows_alone(laid, facts, square))
}

/// The schedule as it is, where operands come and results leave by rows, shared memory has room for it, and a thread registers.
fn by_rows(laid: &Laid, facts: &Facts, schedule: Schedule) -> Option<Lowered> {
    schedule::check(&laid.nest, facts, &schedule).ok()?;
    let program = lower(laid, facts, &schedule).ok()?;
    let fits = program.shared_bytes <= schedule.target.shared_limit && suits_rows(&schedule, &program);
    fits.then(|| Lowered::of(laid, facts, schedule, program))
}

fn suits_rows(schedule: &Schedule, program: &Program) -> bool {
    let by_rows = program.windows.is_empty() && leaves_by_panels(&program.body);
    by_rows && has_registers_for(schedule, program)
}

/// The same, where results take in nothing by panels.
fn by_rows_alone(laid: &Laid, facts: &Facts, schedule: Schedule) -> Option<Lowered> {
    by_rows(laid, facts, schedule).filter(|lowered| panels_taken_in(&lowered.program) == 0)
}

/// The same schedule for three warpgroups, as deep as there is room for, where these have registers for it.
fn by_three_warpgroups(laid: &Laid, facts: &Facts, schedule: &Schedule) -> Option<Lowered> {
    let schedule = schedule::variants::by_three_warpgroups(&laid.nest, facts, schedule)?;
    depth::deepest(laid, facts, &schedule, 2..=schedule.stages, has_registers_for).ok().flatten()
}

/// Tiles of two blocks of rows to a warpgroup, by themselves and for pairs of blocks, where operands come and results leave by rows. Measured on an H100
/// with f16, by these and by the fastest of all others: 600 x 7400 x 3080 (`nn`) takes 46.7 µs and 60.3, 2200 x 6600 x 1800 87.7 and 94.9, 5000³
/// 359 and 371. Of few rows the other way round, two tiles leave a wave of many columns less over by fewer: on an H200, 264 x 14336 x 5120 takes 60.2 µs by
/// 136 of them, and 63.8 by others.
fn by_tall_tiles(laid: &Laid, facts: &Facts, schedule: &Schedule) -> Vec<Lowered> {
    const COLUMNS: u32 = 160;
    const FEWER: u32 = 136;
    const STAGES: u32 = 4;
    if schedule::variants::gathers(&laid.nest, facts) {
        return Vec::new();
    }
    let of = |columns: u32| {
        let tall = schedule::variants::by_tall_tiles(&laid.nest, facts, schedule, columns)?;
        Some(Schedule { stages: STAGES, ..tall })
    };
    let tall = of(COLUMNS);
    let pairs = tall.as_ref().and_then(|tall| {
        let pairs = schedule::variants::by_pairs(&laid.nest, facts, tall)?;
        Some(Schedule { why: tall.why.clone(), ..pairs })
    });
    let fewer = if schedule.swapped { of(FEWER) } else { None };
    let all = tall.into_iter().chain(pairs).chain(fewer).filter_map(|schedule| by_rows_alone(laid, facts, schedule));
    // Of an odd number of columns' blocks, the assembler keeps those of the second rows in memory, unless panels hold whole columns.
    let is_even = |tall: &Lowered| tall.program.layouts.iter().all(|layout| layout.cols.is_multiple_of(16));
    let tiles = all.filter(|tall| is_even(tall) || writes_columns(&tall.program.body));
    // Threads write 32-bit results to panels one by one, which takes addresses.
    let leaves_halves =
        |tall: &Lowered| tall.program.shared.iter().all(|shared| !shared.sent || shared.dtype.bytes() <= 2);
    tiles.filter(leaves_halves).collect()
}

/// Whether all that comes are rows of operands.
fn comes_by_rows(program: &Program) -> bool {
    program.windows.is_empty() && panels_taken_in(program) == 0
}

/// Whether results leave by rows, rather than element by element.
fn leaves_by_panels(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| matches!(stmt, Stmt::Panels { .. }) || stmt.bodies().into_iter().any(leaves_by_panels))
}

/// Whether results are written to panels of a warpgroup's columns.
fn writes_columns(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::WritePanel { side, .. } => *side == PanelSide::Columns,
        other => other.bodies().into_iter().any(writes_columns),
    })
}

/// How many tiles a result takes in that pass by a ring: so much to do beside products that few of these wait for L2.
fn panels_taken_in(program: &Program) -> usize {
    program.shared.iter().filter(|shared| shared.host.is_some() && !shared.sent).count()
}

/// The first of the portfolio.
pub fn lower_chosen(nest: &Nest, target: &'static Target) -> Result<Option<Lowered>, ScheduleError> {
    Ok(lower_portfolio(nest, target)?.into_iter().next())
}

/// A small block, with steps that are worth their waiting.
fn fit_deep(laid: &Laid, facts: &Facts, schedule: &Schedule) -> Result<Lowered, ScheduleError> {
    let mut deep = schedule.clone();
    schedule::variants::deepen(&laid.nest, facts, &mut deep);
    // Two blocks' producers have no registers for the places of elements.
    let preferred: &[u32] = if schedule::variants::gathers(&laid.nest, facts) { &[1] } else { &[2, 1] };
    match fit_rings(laid, facts, &deep, preferred)? {
        Some(fits) => Ok(fits),
        // What is computed of as many terms as that may be more than threads have registers for.
        None => fit_roles(laid, facts, schedule, preferred),
    }
}

/// Small blocks that have a multiprocessor and its shared memory to themselves, for products that wait for memory: so much is on its way that
/// their sums need not be cut.
fn by_deep_rings(laid: &Laid, facts: &Facts, small: &Schedule) -> Vec<Lowered> {
    let mut deep = small.clone();
    schedule::variants::deepen(&laid.nest, facts, &mut deep);
    if deep.blocks == small.blocks {
        return Vec::new();
    }
    deep.why = "a small block with a deep ring, for whole sums of few tiles".into();
    let few = schedule::variants::by_few_columns(&laid.nest, facts, &deep);
    let all = std::iter::once(deep).chain(few).filter(|schedule| schedule::check(&laid.nest, facts, schedule).is_ok());
    all.filter_map(|schedule| fit_roles(laid, facts, &schedule, &[1]).ok()).collect()
}

/// A block with rings as deep as there is room for: as many on a multiprocessor as is preferred, and as registers and shared memory
/// have room for.
fn fit_roles(laid: &Laid, facts: &Facts, schedule: &Schedule, preferred: &[u32]) -> Result<Lowered, ScheduleError> {
    match fit_rings(laid, facts, schedule, preferred)? {
        Some(fits) => Ok(fits),
        None => fit(laid, facts, schedule.clone()),
    }
}

/// The same; nothing where there is no room for any.
fn fit_rings(
    laid: &Laid,
    facts: &Facts,
    schedule: &Schedule,
    preferred: &[u32],
) -> Result<Option<Lowered>, ScheduleError> {
    const LEAST_STAGES: u32 = 3;
    const MOST_STAGES: u32 = 8;
    let has_registers = |tried: &Schedule, program: &Program| match tried.resident {
        1 => pressure::peak(program) <= schedule::room::registers_for(tried, program),
        _ => pressure::fits(program) && !loads_in_bounds(program),
    };
    for &resident in preferred {
        let tried = Schedule { resident, ..schedule.clone() };
        let deepest = depth::deepest(laid, facts, &tried, LEAST_STAGES..=MOST_STAGES, has_registers)?;
        if deepest.is_some() {
            return Ok(deepest);
        }
    }
    Ok(None)
}

/// Whether threads load by themselves in loops with bounds of their own: the assembler spills where two blocks share registers.
fn loads_in_bounds(program: &Program) -> bool {
    matches!(program.units, Units::Queue(_)) && loads_of_a_step(program, &program.body) > 0
}

/// Whether consumers that have a multiprocessor for themselves find registers: for their values, for the turns of more rings than a
/// product of products has, and for where they load from themselves at each step.
fn has_registers_for(schedule: &Schedule, program: &Program) -> bool {
    const USUAL_COUNTERS: usize = 3;
    const REGISTERS_OF_A_COUNTER: u32 = 2;
    const REGISTERS_OF_A_LOAD: u32 = 8;
    let more = program.counters.len().saturating_sub(USUAL_COUNTERS) as u32;
    let beside = REGISTERS_OF_A_COUNTER * more + REGISTERS_OF_A_LOAD * loads_of_a_step(program, &program.body);
    pressure::peak(program) + beside <= schedule::room::registers_for(schedule, program)
}

/// Whether threads load or store any tile, instead of by panels.
fn reaches_tiles(program: &Program, body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::Load { target: tile, .. } | Stmt::Store { value: tile, .. } => {
            matches!(program.var(*tile).domain, Domain::Tile(_))
        }
        other => other.bodies().into_iter().any(|body| reaches_tiles(program, body)),
    })
}

/// Loads of tiles, or of a value a row or column, inside of a tile's loops; of columns, which threads have more of, each counts twice.
fn loads_of_a_step(program: &Program, body: &[Stmt]) -> u32 {
    let of_stmt = |stmt: &Stmt| match stmt {
        Stmt::ForUnits(body) => loads_of_a_step(program, body),
        Stmt::For { body, .. } => loads(program, body),
        _ => 0,
    };
    body.iter().map(of_stmt).sum()
}

fn loads(program: &Program, body: &[Stmt]) -> u32 {
    let of_stmt = |stmt: &Stmt| match stmt {
        Stmt::Load { target, .. } => match program.var(*target).domain {
            Domain::Once => 0,
            Domain::Cols(_) => 2,
            _ => 1,
        },
        other => other.bodies().into_iter().map(|body| loads(program, body)).sum(),
    };
    body.iter().map(of_stmt).sum()
}

/// Takes a schedule back until its registers and shared memory fit the target. Threads may not share all tiles of a smaller one evenly:
/// what does not lower is left aside.
fn fit(laid: &Laid, facts: &Facts, schedule: Schedule) -> Result<Lowered, ScheduleError> {
    let (nest, target) = (&laid.nest, schedule.target);
    let mut lightest = Lowered::of(laid, facts, schedule.clone(), lower(laid, facts, &schedule)?);
    let mut heavier = Vec::new();
    while pressure::peak(&lightest.program) > schedule::room::registers(target) {
        let mut lighter = lightest.schedule.clone();
        if !schedule::room::lighten(nest, facts, &mut lighter) {
            break;
        }
        let Ok(program) = lower(laid, facts, &lighter) else { break };
        heavier.push(std::mem::replace(&mut lightest, Lowered::of(laid, facts, lighter, program)));
    }
    let lightest_first = std::iter::once(lightest).chain(heavier.into_iter().rev());
    lightest_first.into_iter().find_map(|lowered| shrunk(laid, facts, lowered)).ok_or_else(|| {
        ScheduleError::new(format!(
            "no schedule of this kernel fits the {} KiB of shared memory that {} has a block -- pin smaller blocks with #[schedule]",
            target.shared_limit / 1024,
            target.name
        ))
    })
}

/// With smaller blocks, as far as it takes for shared memory: rather for that of several blocks.
fn shrunk(laid: &Laid, facts: &Facts, lowered: Lowered) -> Option<Lowered> {
    let target = lowered.schedule.target;
    [target.shared_preferred, target.shared_limit].into_iter().find_map(|limit| {
        let mut tried = lowered.clone();
        while tried.program.shared_bytes > limit {
            let mut smaller = tried.schedule.clone();
            if !schedule::room::shrink(&laid.nest, facts, &mut smaller) {
                return None;
            }
            let program = lower(laid, facts, &smaller).ok()?;
            tried = Lowered::of(laid, facts, smaller, program);
        }
        Some(tried)
    })
}

mod depth;
mod widths;

#[cfg(test)]
mod tests;
