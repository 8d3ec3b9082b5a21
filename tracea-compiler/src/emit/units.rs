//! Units of work: how many there are, which of them a block takes, and where each one's tile begins.

use super::Emitter;
use crate::nest::{AxisId, AxisKind, Extent};
use crate::program::{AlikeIf, Counter, GridAxis, IntText, LastTile, Queue, Stmt, Units, WholeTiles};

impl Emitter<'_> {
    pub(super) fn counters(&mut self) {
        let turn = if self.program.counts_several_turns() { "PackedRingTurn" } else { "RingTurn" };
        for counter in &self.program.counters {
            self.out.line(match counter {
                Counter::Plain(name) => format!("int {name} = 0;"),
                Counter::Turns { name, stages } => format!("{turn}<{stages}> {name};"),
            });
        }
    }

    /// How many units of work there are: tiles, or parts of them.
    pub(super) fn units(&mut self) {
        let mut counts: Vec<String> = self.program.cluster.iter().map(|_| "CLUSTER".to_string()).collect();
        counts.extend(self.program.grid.iter().map(|grid| parenthesised(&self.count(grid.axis))));
        let parts = self.program.split.as_ref().map(|split| (split.whole.as_ref(), &split.parts));
        if let Some((None, parts)) = parts {
            counts.push(parts.clone());
        }
        let units = if counts.is_empty() { "1".to_string() } else { counts.join(" * ") };
        let units = match parts {
            Some((Some(whole), parts)) => format!("cut_units<CUT>({units}, {}, {parts})", whole.count),
            _ => units,
        };
        self.out.line(format!("const int units = {units};"));
    }

    fn is_clustered(&self, axis: AxisId) -> bool {
        self.program.cluster.is_some_and(|cluster| cluster.axis == axis)
    }

    /// Blocks along a grid axis, or clusters.
    fn count(&self, axis: AxisId) -> String {
        if self.is_clustered(axis) {
            let name = self.block_name(axis);
            return format!("({} + CLUSTER * {name} - 1) / (CLUSTER * {name})", self.extent(axis));
        }
        match self.nest.axis(axis).kind {
            AxisKind::Each if matches!(self.nest.axis(axis).extent, Extent::Dim(_)) => self.extent(axis),
            AxisKind::Each => format!("({})", self.extent(axis)),
            _ => format!("({} + {name} - 1) / {name}", self.extent(axis), name = self.block_name(axis)),
        }
    }

    /// Where this block's tile begins along an axis, by its position there, or its cluster's.
    fn first_coordinate(&mut self, axis: AxisId, position: &str) {
        let (name, block) = (self.axis_name(axis), self.block_name(axis));
        let position = match self.is_clustered(axis) {
            true => format!("{} * CLUSTER + rank", parenthesised(position)),
            false => position.to_string(),
        };
        let last_tile =
            self.program.grid.iter().find(|grid| grid.axis == axis).and_then(|grid| grid.last_tile.as_ref());
        self.out.line(match last_tile {
            Some(LastTile { by_tma, cut }) => {
                let by_tma = &self.program.condition(*by_tma).name;
                let alike: Vec<String> = cut.iter().map(alike).collect();
                let overlaps = match alike.as_slice() {
                    [] => by_tma.clone(),
                    [one] => format!("{by_tma} && (!CUT || {one})"),
                    all => format!("{by_tma} && (!CUT || ({}))", all.join(" && ")),
                };
                format!("const int {name}0 = tile_begin<{block}>({position}, {}, {overlaps});", self.extent(axis))
            }
            None => format!("const int {name}0 = {} * {block};", parenthesised(&position)),
        });
    }

    /// The tile of this unit of work: the grid's axes from its linear index, the last one fastest.
    pub(super) fn locate(&mut self) {
        let program = self.program;
        let unit = self.unit.clone();
        if let Some(split) = &program.split {
            let (part, parts, tile) = (&split.part, &split.parts, &split.tile);
            match &split.whole {
                Some(WholeTiles { count, by_cut, work }) => {
                    self.out.line(format!("const CutTile {work} = cut_tile<CUT>({unit}, {by_cut}, {count}, {parts});"));
                }
                None => {
                    let by_all_parts = &split.by_all_parts;
                    self.out.line(format!("const int {part} = CUT ? {by_all_parts}.rem({unit}) : 0;"));
                    self.out.line(format!("const int {tile} = CUT ? {by_all_parts}.div({unit}) : {unit};"));
                    self.out.line(format!("const int {} = CUT ? {parts} : 1;", split.parts_here));
                }
            }
        }
        if program.grid.is_empty() {
            return;
        }
        let tile = program.split.as_ref().map_or(unit, |split| split.tile.clone());
        if program.cluster.is_some() {
            // Tiles of a cluster are neighbours: grids are whole clusters, as many tiles are cut, and a block keeps its rank.
            self.out.line(format!("const int rank = {tile} % CLUSTER;"));
            self.out.line(format!("int block = {tile} / CLUSTER;"));
        } else {
            self.out.line(format!("int block = {tile};"));
        }
        let mut axes: Vec<&GridAxis> = program.grid.iter().collect();
        if let (Some(raster), [.., outer, inner]) = (&program.raster, &program.grid[..]) {
            axes.truncate(axes.len().saturating_sub(2));
            let [rows, cols] = [outer.axis, inner.axis].map(|axis| {
                let what = if self.is_clustered(axis) { "clusters" } else { "blocks" };
                let name = format!("{}_{what}", self.axis_name(axis));
                self.out.line(format!("const int {name} = {};", self.count(axis)));
                name
            });
            if !axes.is_empty() {
                let columns = IntText::Quotient(Box::new(IntText::name("block")), inner.by.clone());
                let matrix = self.int_text(&IntText::Quotient(Box::new(columns), outer.by.clone()));
                self.out.line(format!("const int matrix = {matrix};"));
                self.out.line(format!("block -= matrix * ({rows} * {cols});"));
            }
            let order = match raster.strip {
                1 => raster.rows.to_string(),
                strip => format!("{}, {strip}", raster.rows),
            };
            let (by_cols, by_last) = (&raster.by_cols, &raster.by_last_group);
            self.out.line(format!(
                "const BlockPosition at = grouped<{order}>(block, {rows}, {cols}, {by_cols}, {by_last});"
            ));
            if !axes.is_empty() {
                self.out.line("block = matrix;");
            }
            self.first_coordinate(outer.axis, "at.row");
            self.first_coordinate(inner.axis, "at.col");
        }
        if let (Some(together), Some(last)) = (&program.together, axes.last().copied()) {
            axes.pop();
            let (by_cols, by_rows) = (&together.by_cols, &together.by_rows);
            let rows: Vec<String> = axes.iter().map(|grid| parenthesised(&self.count(grid.axis))).collect();
            let rows = rows.join(" * ");
            self.out.line(format!("const BlockPosition at = longest_first(block, {rows}, {by_cols}, {by_rows});"));
            self.out.line("block = at.row;");
            self.first_coordinate(last.axis, "at.col");
        }
        while let Some(GridAxis { axis, by, descending, .. }) = axes.pop() {
            let (axis, name) = (*axis, self.axis_name(*axis));
            let block = Box::new(IntText::name("block"));
            let index = match axes.is_empty() {
                true => "block".to_string(),
                false => self.int_text(&IntText::Remainder(block.clone(), by.clone())),
            };
            let index = match descending {
                true => format!("{} - 1 - {index}", parenthesised(&self.count(axis))),
                false => index,
            };
            if self.nest.axis(axis).kind == AxisKind::Each {
                self.out.line(format!("const int {name} = {index};"));
            } else {
                self.first_coordinate(axis, &index);
            }
            if !axes.is_empty() {
                self.out.line(format!("block = {};", self.int_text(&IntText::Quotient(block, by.clone()))));
            }
        }
    }

    pub(super) fn for_units(&mut self, body: &[Stmt]) {
        if self.program.roles_count_units {
            self.units();
        }
        let next = match &self.program.units {
            Units::Queue(Queue { name, done, .. }) => format!("unit = {name}.next({done})"),
            Units::Single | Units::Turns => "unit += gridDim.x".into(),
        };
        let first = std::mem::replace(&mut self.unit, "unit".to_string());
        self.block(format!("for (int unit = {first}; unit < units; {next})"), body);
        self.unit = first;
    }

    /// In a block of their own, where names stand for what is worked out anew.
    pub(super) fn located_anew(&mut self, body: &[Stmt]) {
        self.out.line("{");
        self.out.indent();
        self.out.line(format!("work_out_anew<CUT>({});", self.unit));
        self.locate();
        self.stmts(body);
        self.out.dedent();
        self.out.line("}");
    }

    pub(super) fn ahead(&mut self, turns: u32, body: &[Stmt]) {
        let ahead = match turns {
            0 => self.unit.clone(),
            1 => format!("{} + gridDim.x", self.unit),
            _ => format!("{} + {turns} * gridDim.x", self.unit),
        };
        let now = std::mem::replace(&mut self.unit, ahead);
        self.out.line("{");
        self.out.indent();
        self.locate();
        self.stmts(body);
        self.out.dedent();
        self.out.line("}");
        self.unit = now;
    }

    pub(super) fn take_unit(&mut self) {
        if let Units::Queue(Queue { name, taken, done, .. }) = &self.program.units {
            self.out.line(format!("if (threadIdx.x == THREADS) {name}.take({taken}, units, {done});"));
        }
    }
}

fn parenthesised(text: &str) -> String {
    if text.contains(' ') { format!("({text})") } else { text.to_string() }
}

fn alike(when: &AlikeIf) -> String {
    match when {
        AlikeIf::NoneIsWhole(whole) => format!("{whole} == 0"),
        AlikeIf::AtMostTwo(parts) => format!("{parts} <= 2"),
    }
}
