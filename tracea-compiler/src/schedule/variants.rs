//! The portfolio's other schedules, made from the compiler's first one: for long, ragged or few rows, for fewer waves, for pairs of
//! blocks. The launcher ranks them once it knows the sizes.

use super::choose::{has_chain, loops_over_columns, roles};
use super::target::Pipeline;
use super::{Schedule, WARPGROUP, cluster, known_extent, tiled_grid_axes};
use crate::lower::analysis::{Facts, OperandSource, longer_along, steps_are_alike};
use crate::lower::columns;
use crate::lower::merged::merged_axes;
use crate::lower::skew;
use crate::nest::{AxisId, AxisKind, BinaryOp, Extent, Loop, Nest, Op, Stmt, UnaryOp, ValueId};

/// The same kernel with all threads on long rows, where a loop walks through rows: few rows, or rows that are long, would leave too
/// little under way at a warp a row. Also twice as many threads, and twice as many columns each: where rows are kept, shared memory says how
/// many blocks there are, and threads wait for each other at every step.
pub fn by_long_rows(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Vec<Schedule> {
    let roles = roles(nest, facts);
    if !facts.dots.is_empty() || !loops_over_columns(nest, &roles) {
        return Vec::new();
    }
    let mut shared_rows = false;
    for index in (0..nest.axes.len()).filter(|index| nest.axes[*index].kind == AxisKind::Tiled) {
        match (nest.grid.contains(&AxisId(index as u32)), roles[index].contiguous) {
            (true, false) => shared_rows |= schedule.blocks[index] > Some(1),
            (false, true) => {}
            _ => return Vec::new(),
        }
    }
    if !shared_rows {
        return Vec::new();
    }
    let across = |warps: u32, columns: u32, why: &str| {
        let mut long = Schedule { warps: (1, warps), why: why.into(), ..schedule.clone() };
        for index in (0..nest.axes.len()).filter(|index| nest.axes[*index].kind == AxisKind::Tiled) {
            long.blocks[index] = match nest.grid.contains(&AxisId(index as u32)) {
                true => Some(1),
                false => schedule.blocks[index].map(|block| columns * block),
            };
        }
        long
    };
    vec![
        across(4, 4, "a row to a block, for long rows"),
        across(8, 8, "a row to a wide block, for rows of which a multiprocessor keeps few"),
        across(8, 16, "a row to a wide block, by long steps, for rows that take many"),
    ]
}

/// The same kernel by rows of as many elements as tiles have, where the launch may take several axes as one: however short their rows
/// are, or unaligned, memory is read in order.
pub fn by_merged_axes(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Option<Schedule> {
    let axes = merged_axes(nest).filter(|_| facts.dots.is_empty())?;
    let (last, outer) = axes.split_last()?;
    let block = |axis: &AxisId| schedule.blocks[axis.index()].unwrap_or(1);
    let elements = axes.iter().map(block).product();
    if nest.axis(*last).kind != AxisKind::Tiled || elements == block(last) {
        return None;
    }
    let (rows, columns) = schedule.warps;
    let why = "one row of all elements, where nothing lies between rows".into();
    let mut merged = Schedule { warps: (1, rows * columns), why, ..schedule.clone() };
    merged.blocks[last.index()] = Some(elements);
    outer.iter().for_each(|axis| merged.blocks[axis.index()] = merged.blocks[axis.index()].map(|_| 1));
    Some(merged)
}

/// The same kernel by tiles of fewer columns and more rows, for tensors whose rows are short, where a tile has both. Rows that may be taken
/// as one are not short, and those that begin anywhere have schedules of their own.
pub fn by_narrow_tiles(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Vec<Schedule> {
    const WIDTHS: [u32; 2] = [64, 32];
    let is_long = || by_merged_axes(nest, facts, schedule).is_some() || skew::find(nest, facts, None).is_some();
    if !facts.dots.is_empty() || is_long() {
        return Vec::new();
    }
    let roles = roles(nest, facts);
    let tiled = |contiguous: bool| {
        let of_kind = |axis: &AxisId| nest.axis(*axis).kind == AxisKind::Tiled;
        let axes = (0..nest.axes.len() as u32).map(AxisId).filter(of_kind);
        axes.filter(|axis| roles[axis.index()].contiguous == contiguous).collect::<Vec<_>>()
    };
    let (columns, rows) = (tiled(true), tiled(false));
    let together = |id: &ValueId| {
        let axes = &nest.value(*id).ty.axes;
        axes.iter().any(|axis| columns.contains(axis)) && axes.iter().any(|axis| rows.contains(axis))
    };
    if !facts.order.iter().any(together) || columns.iter().any(|axis| known_extent(nest, *axis).is_some()) {
        return Vec::new();
    }
    let narrowed = |width: u32| {
        let widest = columns.iter().filter_map(|axis| schedule.blocks[axis.index()]).max()?;
        let times = (widest > width).then(|| widest / width)?;
        let why = format!("tiles of {width} columns, for short rows");
        let mut narrow = Schedule { why, ..schedule.clone() };
        for axis in &columns {
            narrow.blocks[axis.index()] = narrow.blocks[axis.index()].map(|block| block.min(width));
        }
        for axis in &rows {
            narrow.blocks[axis.index()] = narrow.blocks[axis.index()].map(|block| times * block);
        }
        Some(narrow)
    };
    WIDTHS.into_iter().filter_map(narrowed).collect()
}

/// The same kernel for rows that begin anywhere in memory, and that no threads have registers for: all threads to a row, and twice as many,
/// by short and by long steps, and four times as many.
pub fn by_skewed_rows(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Vec<Schedule> {
    const COLUMNS_OF_A_WARP: u32 = 512;
    let Some(found) = skew::find(nest, facts, None) else { return Vec::new() };
    let warps = schedule.threads() / 32;
    let of = |warps: u32, columns_of_a_warp: u32, why: &str| {
        let mut skewed = Schedule { skewed: true, warps: (1, warps), why: why.into(), ..schedule.clone() };
        skewed.blocks[found.rows.index()] = Some(1);
        for axis in &found.columns {
            skewed.blocks[axis.index()] = Some(columns_of_a_warp * warps);
        }
        skewed
    };
    vec![
        of(warps, COLUMNS_OF_A_WARP, "a row to a block, from the chunk of memory in which it begins"),
        of(2 * warps, COLUMNS_OF_A_WARP, "a row to a wide block, from the chunk of memory in which it begins"),
        of(
            2 * warps,
            2 * COLUMNS_OF_A_WARP,
            "a row to a wide block, by long steps, from the chunk of memory in which it begins",
        ),
        of(4 * warps, COLUMNS_OF_A_WARP, "a long row to a wider block, from the chunk of memory in which it begins"),
    ]
}

/// Vectors of 8 elements of a row that a thread has registers for.
const VECTORS: u32 = 4;

/// Columns of which all threads of a row have one vector, where rows are taken whole along the axis, and its share of those at the ends.
pub fn columns_of_a_vector(schedule: &Schedule, whole: AxisId) -> u32 {
    const MOST_AT_ENDS: u32 = 7;
    (schedule.blocks[whole.index()].unwrap_or(1) + MOST_AT_ENDS).div_ceil(VECTORS)
}

/// The same kernel for rows that threads have registers for: a warp to a row, all threads, and twice as many; of short rows, several to a
/// warp.
pub fn by_whole_rows(rows: AxisId, columns: &[AxisId], schedule: &Schedule) -> Vec<Schedule> {
    const COLUMNS_OF_A_WARP: u32 = VECTORS * 8 * 32;
    let warps = schedule.threads() / 32;
    let of = |(down, across): (u32, u32), rows_of_a_warp: u32, why: &str| {
        let whole = columns.first().copied();
        let mut schedule = Schedule { skewed: true, whole, warps: (down, across), why: why.into(), ..schedule.clone() };
        schedule.blocks[rows.index()] = Some(down * rows_of_a_warp);
        columns.iter().for_each(|axis| schedule.blocks[axis.index()] = None);
        let block = COLUMNS_OF_A_WARP / rows_of_a_warp * across;
        whole.into_iter().for_each(|axis| schedule.blocks[axis.index()] = Some(block));
        schedule
    };
    vec![
        of((warps, 1), 1, "rows in registers, a warp to each"),
        of((1, warps), 1, "a row in a block's registers"),
        of((1, 2 * warps), 1, "a long row in a wide block's registers"),
        of((warps, 1), 2, "rows in registers, two to a warp"),
        of((warps, 1), 4, "short rows in registers, four to a warp"),
    ]
}

/// The same kernel for longer rows, which a block takes in turn: of each kind the first that threads have registers for. A thread has as many
/// vectors as shared memory keeps of rows whose columns are so many bytes.
pub fn by_rows_in_turn(rows: AxisId, columns: &[AxisId], bytes: u32, schedule: &Schedule) -> Vec<Vec<Schedule>> {
    let Some(whole) = columns.first().copied() else { return Vec::new() };
    let of = |(warps, stages, vector_bytes): (u32, u32, u32)| {
        let vectors = (vector_bytes / bytes.max(1)).max(1);
        let mut blocks = schedule.blocks.clone();
        columns.iter().for_each(|axis| blocks[axis.index()] = None);
        blocks[rows.index()] = Some(1);
        blocks[whole.index()] = Some(warps * 32 * vectors * 8);
        let (warps, why) = ((1, warps), format!("long rows in turn, {stages} under way"));
        Schedule { skewed: true, whole: Some(whole), in_turn: true, blocks, warps, stages, why, ..schedule.clone() }
    };
    let kinds = [vec![(16, 3, 16), (16, 3, 12), (16, 3, 8)], vec![(16, 2, 26), (8, 2, 50)]];
    kinds.into_iter().map(|kind| kind.into_iter().map(of).collect()).collect()
}

/// The same schedule for three warpgroups a block, where products are other ones' operands: while one multiplies, two work out what to
/// multiply. A thread's registers are just enough: not where a loop ends where a tensor says, where the assembler unrolls a short one, or
/// interleaves functions that take many instructions, or elements' places are numbers too.
pub fn by_three_warpgroups(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Option<Schedule> {
    const ROWS: u32 = 64;
    let known_ends =
        steps_are_alike(&nest.body) || nest.grid.iter().any(|axis| longer_along(&nest.body, *axis).is_some());
    if !has_chain(nest, facts) || !known_ends || schedule.threads() != 2 * WARPGROUP {
        return None;
    }
    if !facts.order.iter().all(|id| is_short(nest, *id)) {
        return None;
    }
    let mut wide = Schedule { warps: (12, 1), ..schedule.clone() };
    for dot in &facts.dots {
        if dot.loops.iter().any(|axis| known_extent(nest, *axis).is_some()) {
            return None;
        }
        let only_rows = facts.dots.iter().all(|other| other.n != dot.m && other.k != dot.m);
        if !only_rows || schedule.blocks[dot.m.index()] != Some(2 * ROWS) {
            return None;
        }
        wide.blocks[dot.m.index()] = Some(3 * ROWS);
    }
    wide.why = "three warpgroups, two of which work out what to multiply while one multiplies".into();
    Some(wide)
}

/// Whether an element of the value takes few instructions, and no numbers beside it.
fn is_short(nest: &Nest, id: ValueId) -> bool {
    match &nest.value(id).op {
        Op::Int(_) => nest.value(id).ty.axes.is_empty(),
        // By a row's or a column's value, tiles are multiplied.
        Op::Binary(BinaryOp::Div | BinaryOp::Rem | BinaryOp::Pow, _, by) => nest.value(*by).ty.axes.len() < 2,
        // A thread has few rows and columns.
        Op::Unary(..) | Op::Call(..) if nest.value(id).ty.axes.len() < 2 => true,
        Op::Unary(op, _) => matches!(op, UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Exp | UnaryOp::Exp2),
        Op::Call(..) => false,
        _ => true,
    }
}

/// The same schedule for one warpgroup a block: fewer rows, for products that have few; nothing where a dot's rows are another
/// one's columns, or come out of another dot.
pub fn by_one_warpgroup(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Option<Schedule> {
    const ROWS: u32 = 64;
    const MOST_COLUMNS: u32 = 128;
    let mut small = schedule.clone();
    small.warps = (4, 1);
    for dot in &facts.dots {
        let only_rows = facts.dots.iter().all(|other| other.n != dot.m && other.k != dot.m);
        if nest.axis(dot.m).kind != AxisKind::Tiled || !only_rows || has_chain(nest, facts) {
            return None;
        }
        small.blocks[dot.m.index()] = Some(ROWS);
        if nest.axis(dot.n).kind == AxisKind::Tiled {
            small.blocks[dot.n.index()] = small.blocks[dot.n.index()].map(|block| block.min(MOST_COLUMNS));
        }
    }
    small.why = "one warpgroup a block, for few rows".into();
    Some(small)
}

/// The same schedule with as few columns as it takes for small products to occupy all multiprocessors with whole sums. A warpgroup's product
/// reads its rows anew for them, so that nothing narrower is worth its time.
pub fn by_few_columns(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Option<Schedule> {
    const COLUMNS: u32 = 32;
    let [dot] = &facts.dots[..] else { return None };
    if nest.axis(dot.n).kind != AxisKind::Tiled {
        return None;
    }
    let mut few = Schedule { why: "few columns, for few rows whose sums are not cut".into(), ..schedule.clone() };
    few.blocks[dot.n.index()] = few.blocks[dot.n.index()].filter(|block| *block > COLUMNS).map(|_| COLUMNS);
    few.blocks[dot.n.index()].map(|_| few)
}

/// Takes twice as many terms a step, for small tiles, whose products are short beside what a step waits; not where a sum runs along
/// several axes, the last of which may be short itself, nor where operands come element by element, whose places registers hold.
pub fn deepen(nest: &Nest, facts: &Facts, schedule: &mut Schedule) {
    let loops: Vec<&Loop> = nest
        .body
        .stmts
        .iter()
        .filter_map(|stmt| match stmt {
            Stmt::Loop(inner) => Some(inner),
            _ => None,
        })
        .collect();
    let [sum] = loops[..] else { return };
    let along_one_axis = facts.dots.iter().all(|dot| dot.k == sum.axis);
    let tiled = nest.axis(sum.axis).kind == AxisKind::Tiled;
    let short = known_extent(nest, sum.axis).is_some();
    if along_one_axis && tiled && !short && !gathers(nest, facts) {
        schedule.blocks[sum.axis.index()] = schedule.blocks[sum.axis.index()].map(|block| 2 * block);
    }
}

/// Whether operands come element by element: side by side along neither of a product's axes.
pub fn gathers(nest: &Nest, facts: &Facts) -> bool {
    let operands = facts.dots.iter().flat_map(|dot| [(&dot.a, [dot.k, dot.m]), (&dot.b, [dot.k, dot.n])]);
    operands.into_iter().any(|(source, axes)| match source {
        OperandSource::Tensor { load, .. } => match &nest.value(*load).op {
            Op::Load { tensor, index } => !axes.iter().any(|axis| columns::are_contiguous(nest, *tensor, index, *axis)),
            _ => false,
        },
        OperandSource::Computed { .. } => false,
    })
}

/// The same schedule with so many columns instead of `wide`: tiles that cut up some sizes in fewer waves.
pub fn by_fewer_columns(nest: &Nest, facts: &Facts, schedule: &Schedule, wide: u32, columns: u32) -> Option<Schedule> {
    let mut cut = schedule.clone();
    for dot in &facts.dots {
        if nest.axis(dot.n).kind != AxisKind::Tiled || cut.blocks[dot.n.index()] != Some(wide) {
            return None;
        }
    }
    facts.dots.iter().for_each(|dot| cut.blocks[dot.n.index()] = Some(columns));
    cut.why = "fewer columns, where that leaves fewer tiles over".into();
    Some(cut)
}

/// Few columns, for a nest that is swapped: the kernel's rows. None where such an axis is another product's rows or sum, or runs over
/// several dims, whose product is seldom small.
pub fn by_few_rows(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Vec<Schedule> {
    let may_be_few = |axis: AxisId| {
        let axis = nest.axis(axis);
        axis.kind == AxisKind::Tiled && matches!(axis.extent, Extent::Dim(_))
    };
    let only_columns = |axis: AxisId| facts.dots.iter().all(|dot| dot.m != axis && dot.k != axis);
    if !facts.dots.iter().all(|dot| may_be_few(dot.n) && only_columns(dot.n)) {
        return Vec::new();
    }
    let with_columns = |columns: u32| {
        let why = format!("the other way round, for {columns} rows");
        let mut few = Schedule { why, ..schedule.clone() };
        facts.dots.iter().for_each(|dot| few.blocks[dot.n.index()] = Some(columns));
        few
    };
    vec![with_columns(16), with_columns(32)]
}

/// The same schedule for pairs of blocks that fetch for each other; nothing where no product's tiles lie side by side, or where a
/// product is another one's operand: then a step takes longer than its tiles' way.
pub fn by_pairs(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Option<Schedule> {
    if schedule.target.pipeline != Pipeline::WarpRoles || tiled_grid_axes(nest) < 2 || has_chain(nest, facts) {
        return None;
    }
    let axis = cluster::widest(nest, facts, schedule)?;
    let why = "pairs of blocks that fetch for each other, for many tiles".into();
    Some(Schedule { cluster: Some(axis), why, ..schedule.clone() })
}

/// A product by three warpgroups, of 64 rows each, and so many columns.
pub fn by_three_times_64_rows(nest: &Nest, facts: &Facts, schedule: &Schedule, columns: u32) -> Option<Schedule> {
    const ROWS: u32 = 64;
    const WARPGROUPS: u32 = 3;
    let [dot] = &facts.dots[..] else { return None };
    if [dot.m, dot.n].iter().any(|axis| nest.axis(*axis).kind != AxisKind::Tiled) {
        return None;
    }
    let why = "three warpgroups, where that leaves fewer tiles over".into();
    let mut three = Schedule { warps: (WARPGROUPS * WARPGROUP / 32, 1), why, ..schedule.clone() };
    three.blocks[dot.m.index()] = Some(WARPGROUPS * ROWS);
    three.blocks[dot.n.index()] = Some(columns);
    Some(three)
}

/// The same with as many columns as rows, for pairs of blocks along either side: an eighth more results than the widest tiles have, from as many
/// bytes, so that some sizes take fewer waves.
pub fn by_square_tiles(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Vec<Schedule> {
    const SIDE: u32 = 192;
    const STAGES: u32 = 3;
    let Some(square) = by_three_times_64_rows(nest, facts, schedule, SIDE) else { return Vec::new() };
    let why = "pairs of blocks with square tiles, where these leave fewer over".into();
    let square = Schedule { stages: STAGES, why, ..square };
    cluster::candidates(nest, facts).map(|axis| Schedule { cluster: Some(axis), ..square.clone() }).collect()
}

/// Tiles of twice as many rows, two blocks of 64 to each warpgroup, and of so many columns: fewer bytes from L2 for what they multiply. Panels that are turned on their way leave no registers for functions that take many instructions.
pub fn by_tall_tiles(nest: &Nest, facts: &Facts, schedule: &Schedule, columns: u32) -> Option<Schedule> {
    let [dot] = &facts.dots[..] else { return None };
    let tiled = [dot.m, dot.n].iter().all(|axis| nest.axis(*axis).kind == AxisKind::Tiled);
    if !tiled || (schedule.swapped && !facts.order.iter().all(|id| is_short(nest, *id))) {
        return None;
    }
    let why = "two blocks of rows to a warpgroup, for fewer bytes from L2".into();
    let mut tall = Schedule { why, ..schedule.clone() };
    tall.blocks[dot.m.index()] = tall.blocks[dot.m.index()].map(|rows| 2 * rows);
    tall.blocks[dot.n.index()] = Some(columns);
    Some(tall)
}

/// As narrow as blocks get, by long steps of which two are on their way: so that a multiprocessor has room for several.
pub fn by_small_blocks(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Schedule {
    const STEP: u32 = 64;
    let mut small = Schedule { stages: 2, ..schedule.clone() };
    while narrow(nest, facts, &mut small) {}
    for dot in facts.dots.iter().filter(|dot| nest.axis(dot.k).kind == AxisKind::Tiled) {
        small.blocks[dot.k.index()] = Some(STEP);
    }
    Schedule { why: "small blocks, whose threads all copy what comes element by element".into(), ..small }
}

/// The same schedule with half as wide columns along every axis that only widens a product; false where no block can shrink.
pub fn narrow(nest: &Nest, facts: &Facts, schedule: &mut Schedule) -> bool {
    const LEAST: u32 = 64;
    let mut narrowed = false;
    for index in 0..nest.axes.len() {
        let id = AxisId(index as u32);
        let columns = facts.dots.iter().any(|dot| dot.n == id);
        let bound = facts.dots.iter().any(|dot| dot.m == id || dot.k == id);
        let half = schedule.blocks[index].map(|block| block / 2).filter(|half| half.is_multiple_of(LEAST) && *half > 0);
        if let (AxisKind::Tiled, true, false, Some(half)) = (nest.axes[index].kind, columns, bound, half) {
            schedule.blocks[index] = Some(half);
            narrowed = true;
        }
    }
    narrowed
}
