//! Schedules: where they come from ([`spec`]: an attribute; [`choose`]: the compiler) and what they fix.

pub mod choose;
pub mod layouts;
pub mod spec;
pub mod target;

use crate::lower::analysis::Facts;
use crate::nest::{AxisKind, Extent, Nest};
use spec::{ScheduleOption, ScheduleSpec};
use target::Target;

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
    /// Blocks along the outer of two grid axes that are visited together.
    pub raster: u32,
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

impl Schedule {
    pub fn threads(&self) -> u32 {
        32 * self.warps.0 * self.warps.1
    }

    /// As its attribute would be written.
    pub fn text(&self, nest: &Nest) -> String {
        let mut parts = vec![self.target.name.to_string()];
        for (axis, block) in nest.axes.iter().zip(&self.blocks) {
            if let (AxisKind::Tiled, Some(block)) = (axis.kind, block) {
                parts.push(format!("{} = {block}", axis.name));
            }
        }
        if self.stages > 1 {
            parts.push(format!("stages = {}", self.stages));
        }
        parts.push(format!("warps = ({}, {})", self.warps.0, self.warps.1));
        if self.raster > 1 && tiled_grid_axes(nest) >= 2 {
            parts.push(format!("raster = {}", self.raster));
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
    for option in &spec.options {
        match option.name.as_str() {
            "stages" => schedule.stages = number(option, 1, 16)?,
            "raster" => schedule.raster = number(option, 1, 1024)?,
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
    Ok(schedule)
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
    for dot in &facts.dots {
        let (row_step, col_step, k_step) = match dot.dtype {
            crate::nest::Dtype::F32 => (1, 4, 4),
            crate::nest::Dtype::Tf32 => (16 * schedule.warps.0, 8 * schedule.warps.1, 8),
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
