//! Tiles that TMA can copy: boxes of a tensor, or windows of it.
//!
//! ```text
//! a[(b, i, k)]                                a box: rows along one tensor axis, columns along the last
//! x[(n, p * stride + r, q * stride + s, c)]   windows: (n, p, q) = i.coords(), rows along a flat axis over several
//! ```
//! A box's alignment and a window's numbers are known at launch only, so that such a copy stands beside one by threads. Where a sum runs along
//! several axes, boxes are no wider than the last of them: a tile's other columns are cleared once. Of what makes a product's rows or columns, boxes
//! are no taller than the tensor either.

use super::Lowering;
use super::analysis::{DotFact, inner_sum, mentions};
use super::loops::Resident;
use super::results::stores::Panels;
use super::rings::Group;
use super::windows::{self, Along, folded};
use crate::nest::{AxisId, DimId, Extent, Int, IntOp, Op, TensorId};
use crate::plan;
use crate::program::{
    BulkCopy, BulkForm, BulkStore, ConditionId, IntText, Narrow, PanelSide, Param, ParamType, Premise, Short, Stmt,
    map_name,
};
use crate::schedule::panel;

/// Elements of a tensor that make up the rows of a tile.
struct Source<'n> {
    tensor: TensorId,
    /// The index but for its last, which runs along the columns from so far past the tile's first.
    outer: &'n [Int],
    columns_past: Int,
    rows: u32,
    form: Form,
}

enum Form {
    /// Rows along this axis of the tensor, one after another from so far past the tile's first.
    Box { row_at: usize, past: Int },
    /// For each axis of the tensor but the first and the last, how rows lie along it.
    Window(Vec<Along>),
}

/// Whether boxes are no wider than a tensor's rows, and no taller than it.
#[derive(Clone, Copy, Default)]
pub struct Clip {
    narrow: bool,
    short: bool,
}

/// Where boxes of a tensor lie that make up a tile.
#[derive(Clone, Copy)]
pub struct Boxes<'i> {
    /// So many leading axes of the tensor count as one.
    merged: usize,
    /// The axis, of those that then are left, along which rows run.
    row_at: usize,
    /// The index along those but for the last.
    outer: &'i [Int],
    rows: AxisId,
    cols: AxisId,
}

impl Boxes<'_> {
    /// The axis of the map's along which rows run.
    pub fn row_at(&self) -> usize {
        self.row_at
    }
}

impl<'n> Lowering<'n> {
    /// What it takes for TMA to copy all of the group's operands; nothing where it cannot.
    pub fn bulk_premises(&self, group: &Group) -> Option<Vec<Premise>> {
        let premise = |operand: &Resident| {
            let source = self.bulk_source(operand)?;
            Some(match source.form {
                Form::Box { .. } => Premise::Aligned(source.tensor),
                Form::Window(_) => Premise::Windows(source.tensor),
            })
        };
        group.operands.iter().map(premise).collect()
    }

    /// The group's operands as TMA copies them; `axes` are those of the loop that they are copied in.
    pub fn bulk_copies(&mut self, group: &Group, axes: &[AxisId]) -> Vec<BulkCopy> {
        let Some(condition) = self.program.ring(group.ring).bulk else { return Vec::new() };
        let sourced = group.operands.iter().filter_map(|operand| Some((operand, self.bulk_source(operand)?)));
        let sourced: Vec<_> = sourced.collect();
        sourced
            .into_iter()
            .map(|(operand, source)| {
                let columns = self.columns(operand, condition);
                match source.form {
                    Form::Box { row_at, ref past } => {
                        let past = past.clone();
                        let rows = self.rows(operand, source.tensor);
                        self.box_copy(operand, &source, (row_at, past), columns, rows)
                    }
                    Form::Window(ref along) => self.window_copy(operand, &source, along, axes, columns),
                }
            })
            .collect()
    }

    fn bulk_source(&self, operand: &Resident) -> Option<Source<'n>> {
        let nest = self.nest;
        let Op::Load { tensor, index } = &nest.value(operand.load).op else { return None };
        let (last, outer) = index.split_last()?;
        let dims = &nest.tensor(*tensor).dims;
        let along = Int::Axis(operand.cols);
        let columns_past = windows::at_zero(last, &along);
        let whole = *last == along && nest.runs_over(operand.cols, *dims.last()?);
        let fits = windows::slope(last, &along) == Some(Int::Const(1))
            && (whole || !self.sums_along(operand, operand.cols) && !mentions(last, operand.rows))
            && !self.off_vectors.contains(&operand.cols)
            && !self.limited.contains(&operand.cols)
            && (!self.limited.contains(&operand.rows) || self.ignores_extra_rows(operand));
        if !fits || outer.iter().any(|int| mentions(int, operand.cols)) {
            return None;
        }
        let rows = self.schedule.blocks[operand.rows.index()]?;
        let form = match self.box_rows(operand, *tensor, outer, rows) {
            Some((row_at, past)) => Form::Box { row_at, past },
            None if whole => Form::Window(windows::find(nest, *tensor, outer, operand.rows, rows)?),
            None => return None,
        };
        Some(Source { tensor: *tensor, outer, columns_past, rows, form })
    }

    /// The tensor axis that the rows run along, all other indices fixed, and how far past its own coordinates. What a box has past the
    /// rows' end is zero where the tensor ends there too.
    fn box_rows(&self, operand: &Resident, tensor: TensorId, outer: &[Int], rows: u32) -> Option<(usize, Int)> {
        const MOST_AXES: usize = 5;
        const MOST_ROWS: u32 = 256;
        let along = Int::Axis(operand.rows);
        let row_at = outer.iter().position(|int| windows::slope(int, &along) == Some(Int::Const(1)))?;
        let past = windows::at_zero(&outer[row_at], &along);
        let end_together =
            past == Int::Const(0) && self.nest.runs_over(operand.rows, self.nest.tensor(tensor).dims[row_at]);
        let fits = outer.len() < MOST_AXES
            && rows <= MOST_ROWS
            && (end_together || self.ignores_extra_rows(operand))
            && outer.iter().enumerate().all(|(at, int)| at == row_at || !mentions(int, operand.rows));
        fits.then_some((row_at, past))
    }

    fn box_copy(
        &mut self,
        operand: &Resident,
        source: &Source,
        (row_at, past): (usize, Int),
        columns: Option<String>,
        clipped: Option<String>,
    ) -> BulkCopy {
        let cut = self.cut(operand);
        let rows = cut.map_or(source.rows, |cut| cut.rows);
        let boxes = Boxes { merged: 1, row_at, outer: source.outer, rows: operand.rows, cols: operand.cols };
        let no_larger = Clip { narrow: columns.is_some(), short: clipped.is_some() };
        let size = (rows, self.panel(source.tensor));
        let (map, mut at) = self.box_map(source.tensor, boxes, size, no_larger);
        if past != Int::Const(0) {
            at[row_at] = IntText::Start(operand.rows).plus(IntText::Int(past));
        }
        if source.columns_past != Int::Const(0)
            && let Some(column) = at.last_mut()
        {
            *column = IntText::Start(operand.cols).plus(IntText::Int(source.columns_past.clone()));
        }
        let part = cut.map(|cut| self.part(cut, &mut at, row_at));
        BulkCopy {
            shared: operand.shared,
            slot: operand.slot.clone(),
            tensor: source.tensor,
            map,
            at,
            form: BulkForm::Box,
            part,
            columns,
            rows: clipped,
        }
    }

    fn window_copy(
        &mut self,
        operand: &Resident,
        source: &Source,
        along: &[Along],
        axes: &[AxisId],
        columns: Option<String>,
    ) -> BulkCopy {
        let tensor = self.names.tensor(source.tensor.index()).to_string();
        let window = self.program.windows.len();
        self.program.windows.push(plan::Window {
            tensor: source.tensor.index(),
            rows: source.rows,
            channels: self.panel(source.tensor),
            narrow: columns.is_some(),
            axes: along.iter().map(|along| along.plan.clone()).collect(),
        });
        let map = self.names.fresh(&format!("{tensor}_window"));
        let arg = plan::Arg::WindowMap(window);
        self.program.params.push(Param { name: map.clone(), ty: ParamType::TensorMap, arg });

        let part = |at: usize| Int::FlatCoord(operand.rows, at);
        let (mut at, mut offsets) = (vec![IntText::Int(part(0))], Vec::new());
        for (axis, along) in along.iter().enumerate() {
            let corner = self.names.fresh(&format!("{tensor}_corner{}", axis + 1));
            let arg = plan::Arg::WindowCorner(window, axis);
            self.program.params.push(Param { name: corner.clone(), ty: ParamType::Int, arg });
            let first = folded(IntOp::Mul, part(axis + 1), along.step.clone());
            at.push(IntText::Int(first).plus(IntText::name(&corner)));
            offsets.push(match along.moves {
                true => IntText::Sub(Box::new(IntText::Int(along.rest.clone())), Box::new(IntText::Name(corner))),
                false => IntText::Const(0),
            });
        }
        if !axes.contains(&operand.rows) {
            // The same at each step.
            for (axis, first) in at.iter_mut().enumerate() {
                let name = self.names.fresh(&format!("{tensor}_first{axis}"));
                let value = std::mem::replace(first, IntText::name(&name));
                self.out.push(Stmt::Let { name, value });
            }
        }
        at.push(IntText::Start(operand.cols));
        BulkCopy {
            shared: operand.shared,
            slot: operand.slot.clone(),
            tensor: source.tensor,
            map,
            at,
            form: BulkForm::Window { offsets },
            part: None,
            columns,
            rows: None,
        }
    }

    /// Where boxes are no wider than the tensor, the variable that says how many columns of a panel they hold: each step of other loops would
    /// bring what a short sum's tile has beside it. Nothing where results pass through the tile, which would not stay clear there.
    fn columns(&mut self, operand: &Resident, condition: ConditionId) -> Option<String> {
        let dim = inner_sum(self.nest, self.facts, operand.cols)?;
        if self.program.shared.iter().any(|shared| shared.host == Some(operand.shared)) {
            return None;
        }
        let dtype = |narrow: &Narrow| self.program.shared(narrow.shared).dtype;
        let alike = |narrow: &&Narrow| narrow.dim == dim && dtype(narrow) == self.program.shared(operand.shared).dtype;
        let columns = self.program.narrow.iter().find(alike).map(|narrow| narrow.columns.clone());
        let columns = columns.unwrap_or_else(|| {
            let axis = self.names.axes()[operand.cols.index()].clone();
            self.names.fresh(&format!("{axis}_columns"))
        });
        if self.program.narrow.iter().all(|narrow| narrow.shared != operand.shared) {
            let columns = columns.clone();
            self.program.narrow.push(Narrow { shared: operand.shared, condition, dim, columns });
        }
        Some(columns)
    }

    /// Where boxes are no taller than the tensor, the variable that says how many rows they hold.
    fn rows(&mut self, operand: &Resident, tensor: TensorId) -> Option<String> {
        let dim = self.short_along(operand)?;
        if self.program.shared.iter().any(|shared| shared.host == Some(operand.shared)) || self.cut(operand).is_some() {
            return None;
        }
        if let Some(known) = self.program.short.iter().find(|short| short.shared == operand.shared) {
            return Some(known.rows.clone());
        }
        let rows = self.names.fresh(&format!("{}_rows", self.names.tensor(tensor.index())));
        self.program.short.push(Short { shared: operand.shared, tensor, dim, rows: rows.clone() });
        Some(rows)
    }

    /// The dim that ends with a product's rows or columns, of which it may have fewer than a tile: a row of zeros takes TMA longer than
    /// one of the tensor. What is left in the others' place reaches their own results alone, unless a product sums over them.
    pub fn short_along(&self, operand: &Resident) -> Option<DimId> {
        let Extent::Dim(dim) = self.nest.axis(operand.rows).extent else { return None };
        let rows = self.schedule.blocks[operand.rows.index()]?;
        let is_of = |dot: &DotFact| dot.m == operand.rows || dot.n == operand.rows;
        let multiplied = self.facts.dots.iter().any(|dot| is_of(dot) && self.reads(dot.value, operand));
        let may_be_few = self.nest.dim(dim).known.is_none_or(|known| known < i64::from(rows));
        let summed = self.facts.dots.iter().any(|dot| dot.k == operand.rows);
        let fits = multiplied && !summed && may_be_few;
        (fits && self.comes_by_boxes(operand) && !self.brings_extra_rows(operand)).then_some(dim)
    }

    /// Whether TMA, where it can, fetches rows from past the end of the loop over them that need not be zero.
    pub fn brings_extra_rows(&self, operand: &Resident) -> bool {
        let Some(Source { tensor, form: Form::Box { row_at, past }, .. }) = self.bulk_source(operand) else {
            return false;
        };
        let end_together =
            past == Int::Const(0) && self.nest.runs_over(operand.rows, self.nest.tensor(tensor).dims[row_at]);
        self.limited.contains(&operand.rows) || !end_together
    }

    /// Whether TMA fetches the operand by boxes, where it can.
    pub fn comes_by_boxes(&self, operand: &Resident) -> bool {
        matches!(self.bulk_source(operand), Some(Source { form: Form::Box { .. }, .. }))
    }

    /// A tile as boxes that TMA writes.
    pub fn bulk_store(
        &mut self,
        tensor: TensorId,
        index: &[Int],
        rows: AxisId,
        cols: AxisId,
        panels: &Panels,
    ) -> Option<BulkStore> {
        let boxes = self.boxes(tensor, index, rows, cols)?;
        let row_at = boxes.row_at;
        let (box_rows, columns) = (panels.rows(), self.panel(tensor));
        let (map, at) = self.box_map(tensor, boxes, (box_rows, columns), Clip::default());
        let last = panels.last.map(|last| {
            let less = match panels.side {
                PanelSide::Rows => (box_rows, last),
                PanelSide::Columns => (last, columns),
            };
            (panels.beside - 1, self.box_map(tensor, boxes, less, Clip::default()).0)
        });
        self.promise("UTMASTG");
        Some(BulkStore { map, at, row_at, last })
    }

    /// A tile's rows and columns as boxes: rows along one tensor axis, or all along the leading ones, merged.
    pub fn boxes<'i>(&self, tensor: TensorId, index: &'i [Int], rows: AxisId, cols: AxisId) -> Option<Boxes<'i>> {
        const MOST_AXES: usize = 5;
        let (last, outer) = index.split_last()?;
        let dims = &self.nest.tensor(tensor).dims;
        let whole = |axis: AxisId| !self.shifted.contains(&axis) && !self.limited.contains(&axis);
        let exact = |axis: AxisId, at: usize| self.nest.runs_over(axis, dims[at]);
        if *last != Int::Axis(cols) || !exact(cols, outer.len()) || !whole(rows) || !whole(cols) {
            return None;
        }
        let merged = match &self.nest.axis(rows).extent {
            Extent::Flat(parts) => {
                let leading = parts.len() <= outer.len()
                    && (0..parts.len()).all(|at| outer[at] == Int::FlatCoord(rows, at) && parts[at] == dims[at]);
                leading.then_some(parts.len())?
            }
            Extent::Dim(_) => 1,
        };
        let row_at = match merged {
            1 => outer.iter().position(|int| *int == Int::Axis(rows)).filter(|at| exact(rows, *at))?,
            _ => 0,
        };
        // The map's axes: the merged ones are one.
        let outer = &outer[merged - 1..];
        let fixed = |(at, int): (usize, &Int)| at == row_at || !(mentions(int, rows) || mentions(int, cols));
        let fits = outer.len() < MOST_AXES && outer.iter().enumerate().all(fixed);
        fits.then_some(Boxes { merged, row_at, outer, rows, cols })
    }

    /// The parameter that describes boxes of so many rows and columns, no more of these than a panel has, and where the tile begins, for each of
    /// its axes.
    pub fn box_map(
        &mut self,
        tensor: TensorId,
        boxes: Boxes,
        (box_rows, columns): (u32, u32),
        clip: Clip,
    ) -> (String, Vec<IntText>) {
        let Boxes { merged, row_at, outer, rows, cols } = boxes;
        let mut extents = vec![1; outer.len()];
        extents[row_at] = box_rows;
        extents.push(columns);
        let Clip { narrow, short } = clip;
        let arg = plan::Arg::TensorMap { tensor: tensor.index(), merged, boxes: extents, narrow, short };
        let whole = self.panel(tensor);
        let params = &mut self.program.params;
        let map = match params.iter().find(|param| param.arg == arg) {
            Some(param) => param.name.clone(),
            None => {
                let mut name = map_name(self.names.tensor(tensor.index()), box_rows);
                if columns != whole {
                    name += &format!("x{columns}");
                }
                let taken = params.iter().filter(|param| param.name.starts_with(&name)).count();
                let name = if taken == 0 { name } else { format!("{name}_{}", taken + 1) };
                params.push(Param { name: name.clone(), ty: ParamType::TensorMap, arg });
                name
            }
        };
        let start = |(at, int): (usize, &Int)| match int {
            _ if at == row_at => IntText::Start(rows),
            Int::Axis(axis) => IntText::Start(*axis),
            other => IntText::Int(other.clone()),
        };
        let mut at: Vec<IntText> = outer.iter().enumerate().map(start).collect();
        at.push(IntText::Start(cols));
        (map, at)
    }

    /// Elements of a row that lie together in shared memory.
    pub fn panel(&self, tensor: TensorId) -> u32 {
        panel(self.nest.tensor(tensor).dtype)
    }
}

#[cfg(test)]
mod tests;
