//! Schedules: where they come from ([`spec`]: an attribute; [`choose`] and [`variants`]: the compiler), what they fix, and
//! what there is [`room`] for.

pub mod choose;
pub mod cluster;
pub mod cost;
pub mod layouts;
pub mod raster;
pub mod room;
pub mod spec;
pub mod target;
pub mod variants;

use crate::lower::analysis::{DotFact, Facts, OperandSource, operand_only, untransposed};
use crate::nest::{AxisId, AxisKind, Dtype, Extent, Nest, Op};
use crate::program::{Major, RoleRegisters};
use spec::{ScheduleOption, ScheduleSpec};
use target::{Pipeline, Target};

/// How one nest runs on one target.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub target: &'static Target,
    /// Elements a block, by axis; `None` for scalar loops.
    pub blocks: Vec<Option<u32>>,
    /// Warps along a dot's rows and columns.
    pub warps: (u32, u32),
    /// Depth of the rings that feed dots.
    pub stages: u32,
    /// Blocks along the outer of two grid axes that are visited together, where that is pinned: [`Schedule::order`].
    pub raster: Option<u32>,
    /// Blocks that a multiprocessor is to hold at a time: one begins or ends while another multiplies.
    pub resident: u32,
    /// The grid axis along which the blocks of a cluster take neighbouring tiles, where there are clusters.
    pub cluster: Option<AxisId>,
    /// Each warpgroup of consumers has tiles of its own, and they take turns at multiplying: one tile is on its way out meanwhile.
    pub pingpong: bool,
    /// Products are computed the other way round: rows, columns and the nest's axes are those of the swapped product.
    pub swapped: bool,
    /// Rows that begin anywhere are walked from the aligned chunks of memory in which they begin.
    pub skewed: bool,
    /// The axis along which a block takes rows whole: a launch must not have longer ones.
    pub whole: Option<AxisId>,
    /// A block takes one whole row after another, `stages` of them under way.
    pub in_turn: bool,
    /// `pinned`, or why the compiler chose it.
    pub why: String,
}

/// What is wrong with a schedule, and which option to blame.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleError {
    pub message: String,
    pub option: Option<String>,
}

impl ScheduleError {
    pub fn new(message: impl Into<String>) -> Self {
        ScheduleError { message: message.into(), option: None }
    }
    pub fn about(option: impl Into<String>, message: impl Into<String>) -> Self {
        ScheduleError { message: message.into(), option: Some(option.into()) }
    }
}

/// Stages that hide memory's latency: for more, nothing else takes less shared memory than it can use.
pub const ENOUGH_STAGES: u32 = 5;
/// A producer warpgroup.
pub const PRODUCER_THREADS: u32 = WARPGROUP;
/// Threads that issue a product together.
pub const WARPGROUP: u32 = 128;

impl Schedule {
    /// Registers a thread of the producer and of the consumers: a warpgroup's share of a block's part of the register file,
    /// moved by `setmaxnreg` to those who hold accumulators.
    pub fn role_registers(&self) -> RoleRegisters {
        let (producer, consumer) = match (self.threads() / WARPGROUP, self.resident) {
            _ if self.pingpong => (40, 232),
            (1, 1) => (152, 248),
            (1, _) => (72, 184),
            (2, 1) => (88, 208),
            (2, _) => (48, 96),
            _ => (32, 160),
        };
        RoleRegisters { producer, consumer }
    }

    /// The same where the producer leaves all copies to TMA: what it gives up is for consumers whose `tiles` would have them spill.
    pub fn role_registers_by_tma(&self, tiles: u32) -> RoleRegisters {
        /// What the assembler was seen to want beside tiles. With room for more it moves loads ahead, which made attention slower.
        const BESIDE_TILES: u32 = 40;
        let usual = self.role_registers();
        match (self.threads() / WARPGROUP, self.resident) {
            (2, 1) if tiles + BESIDE_TILES > usual.consumer => RoleRegisters { producer: 40, consumer: 232 },
            _ => usual,
        }
    }

    /// Whether a step's slot is held while the next one is multiplied: where a deep ring can spare it, and where nothing else keeps the
    /// tensor cores busy meanwhile. One warpgroup has them for itself, and blocks of a cluster wait for each other. Measured on an H200 by two warpgroups
    /// and five steps under way: 2048³ takes 46.7 µs so by tiles of 32 x 128, and 54.4 otherwise, 29.8 and 30.0 by 144 x 128.
    pub fn holds_slots_longer(&self) -> bool {
        const DEEP: u32 = 4;
        const DEEPER: u32 = 5;
        let alone = self.tile_threads() <= WARPGROUP || self.cluster.is_some();
        self.stages >= if alone { DEEP } else { DEEPER }
    }

    pub fn threads(&self) -> u32 {
        32 * self.warps.0 * self.warps.1
    }

    /// Warps along the rows and columns of a tile.
    pub fn tile_warps(&self) -> (u32, u32) {
        if self.pingpong { (WARPGROUP / 32, 1) } else { self.warps }
    }

    pub fn tile_threads(&self) -> u32 {
        let (rows, columns) = self.tile_warps();
        32 * rows * columns
    }

    /// Bytes of shared memory for each of the blocks that share a multiprocessor.
    pub fn shared_room(&self) -> u32 {
        /// What the driver takes of it for each.
        const OF_A_BLOCK: u32 = 1024;
        (self.target.shared_limit + OF_A_BLOCK) / self.resident - OF_A_BLOCK
    }

    /// As its attribute would be written.
    pub fn text(&self, nest: &Nest, facts: &Facts) -> String {
        let mut parts = vec![self.target.name.to_string()];
        for (axis, block) in nest.axes.iter().zip(&self.blocks) {
            if let (AxisKind::Tiled, Some(block)) = (axis.kind, block) {
                parts.push(format!("{} = {block}", axis.name));
            }
        }
        if self.stages > 1 {
            parts.push(format!("stages = {}", self.stages));
        }
        parts.push(match self.target.pipeline {
            Pipeline::CommitGroups => format!("warps = ({}, {})", self.warps.0, self.warps.1),
            Pipeline::WarpRoles => format!("consumers = {}", self.warps.0 / 4),
        });
        if self.pingpong {
            parts.push("pingpong = true".into());
        }
        if self.swapped {
            parts.push("swapped = true".into());
        }
        if nest.tensors.iter().any(|tensor| tensor.precomputed) {
            parts.push("precomputed = true".into());
        }
        if nest.tensors.iter().any(|tensor| tensor.turned) {
            parts.push("turned = true".into());
        }
        if let Some(axis) = self.cluster {
            parts.push(format!("cluster = {}", cluster::shape(facts, axis)));
        }
        if let Some(order) = self.order(nest, facts) {
            parts.push(format!("raster = {}", order.rows));
        }
        if self.resident > 1 {
            parts.push(format!("resident = {}", self.resident));
        }
        if self.skewed {
            parts.push("skewed rows".to_string());
        }
        if self.whole.is_some() {
            parts.push("taken whole".to_string());
        }
        if self.in_turn {
            parts.push("in turn".to_string());
        }
        parts.join(", ")
    }
}

fn tiled_grid_axes(nest: &Nest) -> usize {
    nest.grid.iter().filter(|axis| nest.axis(**axis).kind == AxisKind::Tiled).count()
}

/// A pinned schedule: the compiler's choice with the user's options in place of its own.
pub fn pinned(
    nest: &Nest,
    facts: &Facts,
    target: &'static Target,
    spec: &ScheduleSpec,
) -> Result<Schedule, ScheduleError> {
    let mut schedule = choose::start(nest, facts, target);
    schedule.why = "pinned".into();
    schedule.swapped = is_swapped(target, spec)?;
    for option in &spec.options {
        match option.name.as_str() {
            "stages" => schedule.stages = number(option, 1, 16)?,
            "raster" => schedule.raster = Some(number(option, 1, 1024)?),
            "resident" if target.pipeline == Pipeline::WarpRoles => schedule.resident = number(option, 1, 2)?,
            "resident" => {
                return Err(ScheduleError::about(
                    "resident",
                    format!(
                        "on {} registers say how many blocks a multiprocessor holds -- use smaller blocks",
                        target.name
                    ),
                ));
            }
            "consumers" if target.pipeline == Pipeline::CommitGroups => {
                return Err(ScheduleError::about(
                    "consumers",
                    format!("{} has no warp roles -- say warps = (m, n)", target.name),
                ));
            }
            "warps" if target.pipeline == Pipeline::WarpRoles => {
                return Err(ScheduleError::about(
                    "warps",
                    format!("on {} warps come as warpgroups -- say consumers = 2", target.name),
                ));
            }
            // Which tiles blocks share depends on their sizes.
            "cluster" => {}
            "swapped" | "precomputed" | "turned" => {}
            "pingpong" => schedule.pingpong = is_pingpong(target, option)?,
            "consumers" => schedule.warps = (4 * number(option, 1, 3)?, 1),
            "warps" => match option.values[..] {
                [m, n] if m.checked_mul(n).is_some_and(|warps| (1..=32).contains(&warps)) => schedule.warps = (m, n),
                _ => return Err(ScheduleError::about("warps", "warps are a pair such as (2, 2), at most 32 in all")),
            },
            axis => {
                let block = number(option, 1, 65536)?;
                for (index, declared) in nest.axes.iter().enumerate() {
                    if declared.name == axis && declared.kind == AxisKind::Tiled {
                        schedule.blocks[index] = Some(block);
                    }
                }
            }
        }
    }
    choose::fit_whole_axes(nest, facts, &mut schedule);
    if let Some(option) = spec.options.iter().find(|option| option.name == "cluster") {
        schedule.cluster = cluster::pinned(nest, facts, &schedule, option)?;
    }
    Ok(schedule)
}

/// Whether the schedule asks for products the other way round.
pub fn is_swapped(target: &Target, spec: &ScheduleSpec) -> Result<bool, ScheduleError> {
    let Some(option) = spec.options.iter().find(|option| option.name == "swapped") else { return Ok(false) };
    match (option.flag, target.pipeline) {
        (Some(true), Pipeline::CommitGroups) => Err(ScheduleError::about(
            "swapped",
            format!(
                "swapped spares warpgroups, which multiply 64 rows at a time, and {} has none -- leave the option out",
                target.name
            ),
        )),
        (Some(flag), _) => Ok(flag),
        (None, _) => Err(ScheduleError::about("swapped", "`swapped` is true or false")),
    }
}

fn is_pingpong(target: &Target, option: &ScheduleOption) -> Result<bool, ScheduleError> {
    match (option.flag, target.pipeline) {
        (Some(true), Pipeline::CommitGroups) => Err(ScheduleError::about(
            "pingpong",
            format!("consumers take turns, and {} has no warp roles -- leave the option out", target.name),
        )),
        (Some(flag), _) => Ok(flag),
        (None, _) => Err(ScheduleError::about("pingpong", "`pingpong` is true or false")),
    }
}

/// Whether the schedule asks for operands that are computed first.
pub fn is_precomputed(spec: &ScheduleSpec) -> Result<bool, ScheduleError> {
    flag(spec, "precomputed")
}

/// Whether the schedule asks for results that are turned when the kernel is done.
pub fn is_turned(target: &Target, spec: &ScheduleSpec) -> Result<bool, ScheduleError> {
    match (flag(spec, "turned")?, target.pipeline) {
        (true, Pipeline::CommitGroups) => Err(ScheduleError::about(
            "turned",
            format!("results are turned where TMA writes them, and {} has none -- leave the option out", target.name),
        )),
        (turned, _) => Ok(turned),
    }
}

fn flag(spec: &ScheduleSpec, name: &str) -> Result<bool, ScheduleError> {
    let Some(option) = spec.options.iter().find(|option| option.name == name) else { return Ok(false) };
    option.flag.ok_or_else(|| ScheduleError::about(name, format!("`{name}` is true or false")))
}

fn number(option: &ScheduleOption, least: u32, most: u32) -> Result<u32, ScheduleError> {
    match option.values[..] {
        [value] if (least..=most).contains(&value) => Ok(value),
        _ => Err(ScheduleError::about(&option.name, format!("`{}` is one number from {least} to {most}", option.name))),
    }
}

/// The size of an axis where the types fix it.
pub fn known_extent(nest: &Nest, axis: crate::nest::AxisId) -> Option<i64> {
    match &nest.axis(axis).extent {
        Extent::Dim(dim) => nest.dim(*dim).known,
        Extent::Flat(dims) => dims.iter().map(|dim| nest.dim(*dim).known).product(),
    }
}

/// What no lowering could carry out.
pub fn check(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Result<(), ScheduleError> {
    let threads = schedule.threads();
    if threads > schedule.target.max_threads {
        return Err(ScheduleError::about(
            "warps",
            format!("{threads} threads a block, {} allows {}", schedule.target.name, schedule.target.max_threads),
        ));
    }
    if schedule.resident > 1 && threads > 256 {
        return Err(ScheduleError::about(
            "resident",
            format!(
                "two blocks of {} consumers do not fit a multiprocessor's registers -- use resident = 1",
                threads / 128
            ),
        ));
    }
    check_tiles(nest, facts, schedule)?;
    cluster::check(nest, schedule)?;
    if schedule.target.pipeline == Pipeline::WarpRoles {
        return check_warpgroups(nest, facts, schedule);
    }
    for dot in &facts.dots {
        let (row_step, col_step, k_step) = match dot.dtype {
            Dtype::F32 => (1, 4, 4),
            Dtype::Tf32 => (16 * schedule.warps.0, 8 * schedule.warps.1, 8),
            _ => (16 * schedule.warps.0, 8 * schedule.warps.1, 16),
        };
        for (axis, step, part) in [(dot.m, row_step, "rows"), (dot.n, col_step, "columns"), (dot.k, k_step, "steps")] {
            let Some(block) = schedule.blocks[axis.index()] else {
                return Err(ScheduleError::new(format!(
                    "a dot runs over `{}`, which is a scalar loop -- tile it instead of each(..)",
                    nest.axis(axis).name
                )));
            };
            if block % step != 0 {
                let name = &nest.axis(axis).name;
                return Err(ScheduleError::about(
                    name.clone(),
                    format!(
                        "no tensor-core shape divides a block of {block} along `{name}` ({part} of a {} dot, warps = ({}, {})) -- use a multiple of {step}",
                        dot.dtype.name(),
                        schedule.warps.0,
                        schedule.warps.1
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// More elements than all threads have registers for; whatever counts bytes of tiles later stays far from overflow.
const LARGEST_TILE: u64 = 1 << 18;

fn check_tiles(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Result<(), ScheduleError> {
    for (index, axis) in nest.axes.iter().enumerate() {
        let size = known_extent(nest, AxisId(index as u32)).filter(|_| axis.kind == AxisKind::Whole);
        if let (Some(size), Some(block)) = (size, schedule.blocks[index])
            && i64::from(block) < size
        {
            return Err(ScheduleError::new(format!("a block of {block} does not hold `..` of {size} elements whole")));
        }
    }
    let block = |axis: &AxisId| schedule.blocks[axis.index()].unwrap_or(1);
    for id in &facts.order {
        let axes = &nest.value(*id).ty.axes;
        if axes.iter().map(|axis| u64::from(block(axis))).product::<u64>() > LARGEST_TILE
            && let Some(widest) = axes.iter().max_by_key(|axis| block(axis))
        {
            let sides: Vec<String> = axes.iter().map(|axis| block(axis).to_string()).collect();
            return Err(ScheduleError::about(
                &nest.axis(*widest).name,
                format!(
                    "a tile of {} elements does not fit the registers of a block -- use a smaller `{}`",
                    sides.join(" × "),
                    nest.axis(*widest).name
                ),
            ));
        }
    }
    Ok(())
}

/// Elements of 128 bytes: what TMA writes and `wgmma` reads as one row of a panel.
pub fn panel(dtype: Dtype) -> u32 {
    128 / dtype.bytes()
}

/// What `wgmma` asks of a schedule: 64 rows a warpgroup, operands of tensor cores' types, and tiles whose contiguous side is whole
/// 128-byte panels.
fn check_warpgroups(nest: &Nest, facts: &Facts, schedule: &Schedule) -> Result<(), ScheduleError> {
    if facts.dots.is_empty() {
        return Err(ScheduleError::new(
            "warp roles are for kernels with a dot -- schedule this one for sm_80, which runs there too",
        ));
    }
    if schedule.pingpong {
        check_turns(facts, schedule)?;
    }
    let (warps_m, warps_n) = schedule.tile_warps();
    let block = |axis: AxisId| schedule.blocks[axis.index()].unwrap_or(0);
    for dot in &facts.dots {
        let name = |axis: AxisId| nest.axis(axis).name.clone();
        if dot.dtype == Dtype::F32 {
            return Err(ScheduleError::new(format!(
                "a dot of {} operands has no warpgroup form here -- schedule it for sm_80, which runs there too",
                dot.dtype.name()
            )));
        }
        let twice = block(dot.m) == 32 * warps_m && !from_registers(dot);
        if warps_n != 1 || (block(dot.m) != 16 * warps_m && !twice) {
            return Err(ScheduleError::about(
                name(dot.m),
                format!(
                    "{} warpgroups of 64 rows do not make a block of {} along `{}` -- use {}",
                    warps_m / 4,
                    block(dot.m),
                    name(dot.m),
                    16 * warps_m
                ),
            ));
        }
        if !target::has_product_of(block(dot.n)) {
            return Err(ScheduleError::about(
                name(dot.n),
                format!(
                    "a warpgroup's product has 16 to 256 columns in steps of 16, or 104 or 152, not {} -- change `{}`",
                    block(dot.n),
                    name(dot.n)
                ),
            ));
        }
        for (source, other, first) in [(&dot.a, dot.m, true), (&dot.b, dot.n, false)] {
            let contiguous = match source {
                OperandSource::Tensor { major: Major::Mn, .. } => other,
                _ => dot.k,
            };
            let from_memory = matches!(source, OperandSource::Tensor { .. });
            // Threads read fragments of the first operand where it lies across the sum.
            if dot.dtype == Dtype::Tf32 && !(from_memory && (first || contiguous == dot.k)) {
                return Err(ScheduleError::new(format!(
                    "warpgroups multiply tf32 operands that come straight from tensors, the right one read along `{}` alone -- schedule it for sm_80, which runs there too",
                    name(dot.k)
                )));
            }
            if dot.dtype == Dtype::Tf32 && !cut_alike(nest, facts, dot) {
                return Err(ScheduleError::new(
                    "warpgroups cut off the bits that a conversion to tf32 rounds, and more than a dot reads one here -- schedule it for sm_80, which runs there too",
                ));
            }
            let panel = panel(dot.dtype);
            if !block(contiguous).is_multiple_of(panel) || block(contiguous) == 0 {
                return Err(ScheduleError::about(
                    name(contiguous),
                    format!(
                        "an operand is read by panels of {panel} along `{}`, which a block of {} does not fill -- use a multiple of {panel}",
                        name(contiguous),
                        block(contiguous)
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// Whether threads hold what is multiplied of the first operand, 64 rows at a time.
fn from_registers(dot: &DotFact) -> bool {
    let across = matches!(dot.a, OperandSource::Tensor { major: Major::Mn, .. });
    matches!(dot.a, OperandSource::Computed { .. }) || (dot.dtype == Dtype::Tf32 && across)
}

/// What it takes for two warpgroups to multiply in turn, each for tiles of its own.
fn check_turns(facts: &Facts, schedule: &Schedule) -> Result<(), ScheduleError> {
    let refused = |message: &str| Err(ScheduleError::about("pingpong", message));
    let Some((first, others)) = facts.dots.split_first() else { return Ok(()) };
    let is_beside = |dot: &DotFact| (dot.m, dot.n, &dot.loops) == (first.m, first.n, &first.loops);
    match first {
        _ if schedule.threads() != 2 * WARPGROUP => refused("two warpgroups take turns -- use consumers = 2"),
        _ if schedule.resident > 1 => {
            refused("a block that takes turns has a multiprocessor for itself -- use resident = 1")
        }
        _ if schedule.swapped => refused("products the other way round take no turns -- leave one of the options out"),
        _ if !others.iter().all(is_beside) => {
            refused("products that do not lie side by side in one loop take no turns -- leave the option out")
        }
        _ if facts.dots.iter().any(from_registers) => {
            refused("the left operand comes from registers, 64 rows at a time -- leave the option out")
        }
        _ if first.loops.is_empty() => refused("a product that has no loop takes no turns -- leave the option out"),
        _ => Ok(()),
    }
}

/// Whether nobody but dots looks at the dot's operands once they are converted: the tensor cores take them from memory as they are.
fn cut_alike(nest: &Nest, facts: &Facts, dot: &DotFact) -> bool {
    let Op::Dot { a, b, .. } = nest.value(dot.value).op else { return false };
    let alone = operand_only(nest, facts);
    [a, b].into_iter().all(|operand| alone.contains(&untransposed(nest, operand)))
}

#[cfg(test)]
mod tests {
    use crate::testing::{gemm, lowered, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn refused(schedule: TokenStream) -> (String, String) {
        let error = lowered(gemm(schedule)).expect_err("a schedule that cannot be carried out");
        (error.message, error.option.unwrap_or_default())
    }

    #[test]
    fn a_schedule_prints_as_its_attribute() {
        let program = program(gemm(quote!(sm_80, i = 128, j = 64, k = 32, stages = 3, warps = (2, 2), raster = 4)));
        assert_eq!(program.schedule, "sm_80, i = 128, j = 64, k = 32, stages = 3, warps = (2, 2), raster = 4");
    }

    #[test]
    fn too_much_shared_memory() {
        let (message, option) = refused(quote!(sm_80, i = 128, j = 128, k = 64, stages = 6, warps = (2, 2)));
        assert_eq!(message, "schedule needs 192 KiB of shared memory, sm_80 has 163 KiB a block -- use stages = 5");
        assert_eq!(option, "stages");
        let (message, _) = refused(quote!(sm_80, i = 256, j = 256, k = 128, stages = 2, warps = (4, 4)));
        assert_eq!(message, "schedule needs 256 KiB of shared memory, sm_80 has 163 KiB a block -- use smaller blocks");
    }

    #[test]
    fn blocks_beyond_all_measure() {
        let (message, option) = refused(quote!(sm_80, i = 65536, j = 65536, k = 65536, stages = 16, warps = (2, 2)));
        assert_eq!(
            message,
            "a tile of 65536 × 65536 elements does not fit the registers of a block -- use a smaller `j`"
        );
        assert_eq!(option, "j");
    }

    #[test]
    fn a_block_that_no_tensor_core_shape_divides() {
        let (message, option) = refused(quote!(sm_80, i = 96, j = 128, k = 32, stages = 2, warps = (4, 2)));
        assert_eq!(
            message,
            "no tensor-core shape divides a block of 96 along `i` (rows of a f16 dot, warps = (4, 2)) -- use a multiple of 64"
        );
        assert_eq!(option, "i");
        let (message, option) = refused(quote!(sm_80, i = 64, j = 24, k = 32, stages = 2, warps = (2, 2)));
        assert_eq!(
            message,
            "no tensor-core shape divides a block of 24 along `j` (columns of a f16 dot, warps = (2, 2)) -- use a multiple of 16"
        );
        assert_eq!(option, "j");
        let (message, option) = refused(quote!(sm_80, i = 64, j = 64, k = 8, stages = 2, warps = (2, 2)));
        assert_eq!(
            message,
            "no tensor-core shape divides a block of 8 along `k` (steps of a f16 dot, warps = (2, 2)) -- use a multiple of 16"
        );
        assert_eq!(option, "k");
    }

    #[test]
    fn warps_are_a_pair_and_few() {
        let text = "warps are a pair such as (2, 2), at most 32 in all".to_string();
        for warps in [quote!(4), quote!((0, 2)), quote!((8, 8)), quote!((65536, 65536)), quote!((1, 2, 3))] {
            assert_eq!(refused(quote!(sm_80, warps = #warps)), (text.clone(), "warps".into()));
        }
    }

    #[test]
    fn counts_stay_within_reason() {
        assert_eq!(refused(quote!(sm_80, stages = 17)).0, "`stages` is one number from 1 to 16");
        assert_eq!(refused(quote!(sm_80, raster = 0)).0, "`raster` is one number from 1 to 1024");
        assert_eq!(refused(quote!(sm_80, i = 0)).0, "`i` is one number from 1 to 65536");
        assert_eq!(refused(quote!(sm_80, i = (1, 2))).0, "`i` is one number from 1 to 65536");
    }

    #[test]
    fn one_long_row_is_no_large_tile() {
        let softmax = quote! {
            #[schedule(sm_80, i = 8, j = 8192)]
            fn softmax<R: Dim, C: Dim>(x: &Tensor<f16, (R, C)>, y: &mut Tensor<f16, (R, C)>) {
                tile!(for i in R {
                    let mut l = zeros::<f32>(i);
                    tile!(for j in C { l += x[(i, j)].to::<f32>().exp().row_sum(); });
                    tile!(for j in C { y[(i, j)] = (x[(i, j)].to::<f32>().exp() / l).to(); });
                });
            }
        };
        assert!(lowered(softmax).is_ok());
    }
}
