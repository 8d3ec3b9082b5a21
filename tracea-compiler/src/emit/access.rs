//! Copies, loads and stores: lambdas that say where a row or an element of a tile lies.

use super::{Emitter, TilePart};
use crate::nest::{AxisId, AxisKind, Extent, Int};
use crate::program::layout::LayoutId;
use crate::program::shared::SharedId;
use crate::program::{Access, AccessForm, Copy, Domain, IntText, Kept, KeptTile, StoreWay, VarId};

impl Emitter<'_> {
    pub fn copy(&mut self, copy: &Copy) {
        let shared = self.program.shared(copy.shared);
        let to = self.slot(&shared.name, copy.slot.as_ref(), shared);
        let tile = super::tile_name(&shared.name);
        // A producer's threads come after those that hold tiles.
        let copies_apart = self.program.producer.is_some();
        match copy.source.form {
            AccessForm::Contiguous { rows, cols } => {
                let align = self.align(&copy.source);
                let threads = match &self.program.producer {
                    Some(producer) => format!("PRODUCERS, {align}, {}, THREADS", producer.rows_at_a_time),
                    None => format!("THREADS, {align}"),
                };
                let head = format!("copy_rows_async<{tile}, {threads}>({to}, ");
                let tail = format!(", {});", self.valid_cols(&copy.source, cols));
                self.lambda(&copy.source, rows, None, &head, &tail, false, LambdaParams::Row);
            }
            AccessForm::Scattered { rows, cols } => {
                if let (Some(parts), Some(rows), Some(cols)) = (&copy.parts, rows, cols) {
                    let threads = match &self.program.producer {
                        Some(producer) => format!("PRODUCERS, {}, THREADS", producer.gathered_at_a_time),
                        None => "THREADS".to_string(),
                    };
                    let head = format!("copy_gathered<{tile}, {threads}>({to}, ");
                    return self.copy_gathered(&copy.source, parts, (rows, cols), &head);
                }
                let threads = if copies_apart { "PRODUCERS, THREADS" } else { "THREADS" };
                let head = format!("copy_elements<{tile}, {threads}>({to}, ");
                self.lambda(&copy.source, rows, cols, &head, ");", false, LambdaParams::RowCol);
            }
        }
    }

    pub fn load(&mut self, target: VarId, source: &Access) {
        if self.load_skewed(target, source) || self.load_whole(target, source) || self.load_held(target, source) {
            return;
        }
        let var = self.program.var(target);
        let name = |id| self.program.layout(id).name.clone();
        let whole = self.whole();
        match (var.domain, source.form) {
            (Domain::Tile(id), AccessForm::Contiguous { rows, cols }) => {
                let (layout, align, x) = (name(id), self.align(source), &var.name);
                let head = match self.part {
                    Some(TilePart::Panel(registers)) => {
                        format!("load_panel<{layout}, {align}, {registers}>({x}, panel, ")
                    }
                    _ => format!("load_tile_vec<{layout}, {align}{whole}>({x}, "),
                };
                let tail = format!(", {});", self.columns(source, cols));
                self.lambda(source, rows, None, &head, &tail, false, LambdaParams::Row);
            }
            (Domain::Tile(id), AccessForm::Scattered { rows, cols }) => {
                let (layout, x) = (name(id), &var.name);
                let head = match self.part {
                    Some(TilePart::Panel(registers)) => {
                        format!("load_panel_elements<{layout}, {registers}>({x}, panel, ")
                    }
                    _ if source.alike > 1 => format!("load_tile_alike<{layout}, {}>({x}, ", source.alike),
                    _ => format!("load_tile<{layout}>({x}, "),
                };
                let tail = match cols.filter(|_| source.alike > 1 && self.part.is_none()) {
                    Some(cols) if source.limits.contains(&cols) => format!(", {});", self.columns_left(cols)),
                    Some(cols) => format!(", {});", self.block_name(cols)),
                    None => ");".to_string(),
                };
                self.lambda(source, rows, cols, &head, &tail, false, LambdaParams::RowCol);
            }
            (Domain::Rows(id), AccessForm::Scattered { rows, .. } | AccessForm::Contiguous { rows, .. }) => {
                let head = format!("load_rows<{}>({}, ", name(id), var.name);
                self.lambda(source, rows, None, &head, ");", false, LambdaParams::Row);
            }
            (Domain::Cols(id), AccessForm::Scattered { cols, .. }) => {
                let head = format!("load_cols<{}>({}, ", name(id), var.name);
                self.lambda(source, None, cols, &head, ");", false, LambdaParams::Col);
            }
            (Domain::Cols(id), AccessForm::Contiguous { cols, .. }) => {
                let head = format!("load_cols_vec<{}, {}{whole}>({}, ", name(id), self.align(source), var.name);
                let tail = format!(", {});", self.columns(source, cols));
                self.lambda(source, None, None, &head, &tail, false, LambdaParams::Row);
            }
            (Domain::Once, _) => {
                let place = self.place(source, None, None);
                let (pointer, valid) = (place.pointer(), place.valid());
                self.out.line("{");
                self.out.indent();
                for line in place.lines {
                    self.out.line(line);
                }
                let ty = var.ty.cuda();
                let read = format!("to<{ty}>(*({pointer}))");
                let value = if valid == "true" { read } else { format!("{valid} ? {read} : {ty}{{}}") };
                self.out.line(format!("{} = {value};", var.name));
                self.out.dedent();
                self.out.line("}");
            }
        }
    }

    /// From what this thread keeps, as far as rows are kept.
    pub fn load_kept(&mut self, target: VarId, source: &Access, kept: &Kept) {
        let (id, surely) = match kept {
            Kept::Rows { tile, surely } => (*tile, *surely),
            Kept::Slot { stream, layout, slot } => {
                let (slot, ends) = self.slot_of(*stream, slot);
                return self.load_from_kept(target, source, *layout, &slot, Some(&ends));
            }
            Kept::Slice { name, shared, layout } => return self.load_slice(target, name, *shared, *layout),
            Kept::Held { name, layout } => return self.load_held_slice(target, name, *layout),
            Kept::Row { .. } => return self.load_row(target, kept),
            Kept::Early { shared, layout } => {
                let (layout, slice) = (&self.program.layout(*layout).name, &self.program.shared(*shared).name);
                let x = &self.program.var(target).name;
                return self.out.line(match self.part {
                    Some(TilePart::Panel(registers)) => {
                        format!("early_cols_of_panel<{layout}, {registers}>({x}, panel, {slice});")
                    }
                    _ => format!("early_cols<{layout}>({x}, {slice});"),
                });
            }
        };
        let AccessForm::Contiguous { cols, .. } = source.form else { return self.unwritten("load_kept") };
        let (Some(rows), Some(tile)) = (&self.program.kept, self.program.kept(id)) else {
            return self.unwritten("load_kept");
        };
        let at = self.kept_column(&self.start(cols));
        let block = self.kept_block(tile, &at);
        if surely {
            return self.load_from_kept(target, source, tile.layout, &block, tile.once.then_some(""));
        }
        self.out.line(format!("if ({at} < {}) {{", rows.columns));
        self.out.indent();
        self.load_from_kept(target, source, tile.layout, &block, tile.once.then_some(""));
        self.out.dedent();
        self.out.line("} else {");
        self.out.indent();
        self.load(target, source);
        self.out.dedent();
        self.out.line("}");
    }

    /// What is read once may have the ends of its rows elsewhere.
    fn load_from_kept(&mut self, target: VarId, source: &Access, layout: LayoutId, block: &str, once: Option<&str>) {
        let AccessForm::Contiguous { rows, cols } = source.form else { return self.unwritten("load_from_kept") };
        let (layout, x) = (&self.program.layout(layout).name, &self.program.var(target).name);
        if self.is_skewed(cols) {
            return self.out.line(format!("load_kept_skewed<{layout}>({x}, {block}, {});", self.span(cols)));
        }
        let Some(ends) = once else {
            return self.out.line(format!("load_kept<{layout}>({x}, {block});"));
        };
        let head = format!("load_kept_once<{layout}, {}>({x}, {block}, ", self.align(source));
        let tail = format!(", {}{ends});", self.columns_left(cols));
        self.lambda(source, rows, None, &head, &tail, false, LambdaParams::Row);
    }

    pub fn keep(&mut self, kept: &Kept, source: &Access) {
        let (layout, block, once) = match kept {
            Kept::Rows { tile, .. } => {
                let (Some(tile), AccessForm::Contiguous { cols, .. }) = (self.program.kept(*tile), source.form) else {
                    return;
                };
                let block = self.kept_block(tile, &self.kept_column(&self.start(cols)));
                (tile.layout, block, tile.once.then(String::new))
            }
            Kept::Slot { stream, layout, slot } => {
                let (slot, ends) = self.slot_of(*stream, slot);
                (*layout, slot, Some(ends))
            }
            Kept::Slice { name, shared, layout } => return self.keep_slice(name, source, *shared, *layout),
            Kept::Row { .. } => return self.keep_row(kept, source),
            // Registers are filled from what threads keep together.
            Kept::Held { .. } => return,
            Kept::Early { shared, layout } => return self.fetch_early(source, *shared, *layout),
        };
        let AccessForm::Contiguous { rows, cols } = source.form else { return self.unwritten("keep") };
        if self.keep_skewed(layout, &block, source) {
            return;
        }
        let layout = &self.program.layout(layout).name;
        let function = if once.is_some() { "keep_tile_once" } else { "keep_tile" };
        let head = format!("{function}<{layout}, {}{}>({block}, ", self.align(source), self.whole());
        let tail = format!(", {}{});", self.valid_cols(source, cols), once.unwrap_or_default());
        self.lambda(source, rows, None, &head, &tail, false, LambdaParams::Row);
    }

    fn fetch_early(&mut self, source: &Access, slice: SharedId, layout: LayoutId) {
        let (layout, slice) = (&self.program.layout(layout).name, &self.program.shared(slice).name);
        match source.form {
            AccessForm::Contiguous { rows, cols } => {
                let head = format!("fetch_cols_early<{layout}, {}>({slice}, ", self.align(source));
                let tail = format!(", {});", self.valid_cols(source, cols));
                self.lambda(source, rows, None, &head, &tail, false, LambdaParams::Row);
            }
            AccessForm::Scattered { cols, .. } => {
                let head = format!("fetch_elements_early<{layout}>({slice}, ");
                self.lambda(source, None, cols, &head, ");", false, LambdaParams::Col);
            }
        }
    }

    /// Where a slot of a stream begins, and, as a further argument, where the ends of its rows are.
    fn slot_of(&self, stream: SharedId, slot: &IntText) -> (String, String) {
        let shared = self.program.shared(stream);
        let begin = format!("{} + {} * {}", shared.name, self.int_text(slot), shared.pitch_elements());
        let ends = format!(", {begin} + {}", shared.rows * shared.cols);
        (begin, ends)
    }

    /// A column, counted from the first that this block reads.
    fn kept_column(&self, start: &str) -> String {
        if let Some(skew) = &self.program.skew {
            return format!("{start} + {}", skew.name);
        }
        match self.program.kept.as_ref().and_then(|rows| rows.origin.as_ref()) {
            Some(origin) => format!("{start} - {origin}"),
            None => start.to_string(),
        }
    }

    /// Where the block of columns from there on is kept.
    fn kept_block(&self, tile: &KeptTile, column: &str) -> String {
        match self.program.layout(tile.layout).rows {
            1 => format!("{} + {column}", tile.name),
            rows if column.contains(' ') => format!("{} + ({column}) * {rows}", tile.name),
            rows => format!("{} + {column} * {rows}", tile.name),
        }
    }

    pub fn store(&mut self, value: VarId, target: &Access, way: &StoreWay) {
        if self.store_skewed(value, target) || self.store_whole(value, target) {
            return;
        }
        let var = self.program.var(value);
        let name = |id| self.program.layout(id).name.clone();
        let ty = self.nest.tensor(target.tensor).dtype.cuda();
        match (var.domain, target.form) {
            (Domain::Tile(id), AccessForm::Contiguous { rows, cols }) => {
                let align = self.align(target);
                let head = match way {
                    StoreWay::Staged(shared) => {
                        let shared = self.program.shared(*shared);
                        format!(
                            "store_tile_staged<{}, {}, THREADS, {align}>({}, {}, ",
                            name(id),
                            super::tile_name(&shared.name),
                            var.name,
                            shared.name
                        )
                    }
                    StoreWay::Scratch => {
                        let layout = name(id);
                        let tile = format!("SharedTile<{ty}, {layout}::rows, {layout}::cols>");
                        let scratch = format!("reinterpret_cast<{ty}*>(shared + SCRATCH_OFFSET)");
                        format!("store_tile_by_scratch<{layout}, {tile}, THREADS, {align}>({}, {scratch}, ", var.name)
                    }
                    StoreWay::Direct => {
                        format!("store_tile<{}, {align}, {ty}{}>({}, ", name(id), self.whole(), var.name)
                    }
                };
                let tail = format!(", {});", self.valid_cols(target, cols));
                self.lambda(target, rows, None, &head, &tail, true, LambdaParams::Row);
            }
            (Domain::Tile(id), AccessForm::Scattered { rows, cols }) => {
                let head = format!("store_tile_elements<{}, {ty}>({}, ", name(id), var.name);
                self.lambda(target, rows, cols, &head, ");", true, LambdaParams::RowCol);
            }
            (Domain::Rows(id), AccessForm::Scattered { rows, .. } | AccessForm::Contiguous { rows, .. }) => {
                let head = format!("store_rows<{}, {ty}>({}, ", name(id), var.name);
                self.lambda(target, rows, None, &head, ");", true, LambdaParams::Row);
            }
            (Domain::Cols(id), AccessForm::Scattered { cols, .. }) => {
                let head = format!("store_cols<{}, {ty}>({}, ", name(id), var.name);
                self.lambda(target, None, cols, &head, ");", true, LambdaParams::Col);
            }
            (Domain::Cols(id), AccessForm::Contiguous { cols, .. }) => {
                let head = format!("store_cols<{}, {ty}>({}, ", name(id), var.name);
                self.lambda(target, None, Some(cols), &head, ");", true, LambdaParams::Col);
            }
            (Domain::Once, _) => {
                let place = self.place(target, None, None);
                let (pointer, valid) = (place.pointer(), place.valid());
                let condition = if valid == "true" { String::new() } else { format!(" && {valid}") };
                self.out.line("if (threadIdx.x == 0) {");
                self.out.indent();
                for line in place.lines {
                    self.out.line(line);
                }
                let value = format!("to<{ty}>({})", var.name);
                let write = format!("*({pointer}) = {value};");
                self.out.line(if condition.is_empty() { write } else { format!("if ({valid}) {write}") });
                self.out.dedent();
                self.out.line("}");
            }
        }
    }

    /// That no vector is cut by an edge.
    pub(super) fn whole(&self) -> &'static str {
        if self.program.whole_vectors { ", true" } else { "" }
    }

    pub fn align(&self, access: &Access) -> String {
        self.alignment(access.tensor)
    }

    /// How many of the tile's columns exist, counted from its first.
    pub fn copy_turned(&mut self, source: &Access, target: &Access, (rows, cols): (AxisId, AxisId), layout: LayoutId) {
        let ty = self.nest.tensor(source.tensor).dtype.cuda();
        let layout = &self.program.layout(layout).name;
        let (read, written) = (self.align(source), self.align(target));
        let head = format!("copy_turned<{layout}::rows, {layout}::cols, THREADS, {read}, {written}>(");
        let scratch = format!("reinterpret_cast<{ty}*>(shared + SCRATCH_OFFSET)");
        self.lambda(source, Some(rows), None, &format!("{head}{scratch}, "), ",", false, LambdaParams::Row);
        let first = format!("{} == 0", self.start(rows));
        let tail = format!(", {}, {}, {first});", self.columns_left(rows), self.columns_left(cols));
        self.lambda(target, Some(cols), None, "", &tail, true, LambdaParams::Row);
    }

    pub(super) fn valid_cols(&self, access: &Access, cols: AxisId) -> String {
        if access.whole_cols { self.block_name(cols) } else { self.columns_of(access, cols) }
    }

    /// The same, and where all of them exist, also how many there are to the row's end.
    pub(super) fn columns(&self, access: &Access, cols: AxisId) -> String {
        if access.whole_cols {
            format!("{{{}, {}}}", self.block_name(cols), self.columns_left(cols))
        } else {
            self.columns_of(access, cols)
        }
    }

    /// No more than the axis has, nor than the tensor where its rows may end before.
    fn columns_of(&self, access: &Access, cols: AxisId) -> String {
        let left = self.columns_left(cols);
        let (at, tensor) = (access.index.len().saturating_sub(1), self.nest.tensor(access.tensor));
        let Some(index) = access.index.last().filter(|_| access.inside.contains(&at)) else { return left };
        let first =
            self.int_with(index, &|axis| self.start(axis), &|axis, part| self.flat_part(axis, part, &self.start(axis)));
        let size = &self.program.names.dims[tensor.dims[at].index()];
        let first = if first.contains(' ') { format!("({first})") } else { first };
        format!("min({left}, {size} - {first})")
    }

    fn columns_left(&self, cols: AxisId) -> String {
        let (limit, start) = (self.limit(cols), self.start(cols));
        if start == "0" { limit } else { format!("{limit} - {start}") }
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn lambda(
        &mut self,
        access: &Access,
        rows: Option<AxisId>,
        cols: Option<AxisId>,
        head: &str,
        tail: &str,
        writes: bool,
        params: LambdaParams,
    ) {
        let ty = self.nest.tensor(access.tensor).dtype.cuda();
        let result = if writes { format!("RowTarget<{ty}>") } else { format!("RowSource<{ty}>") };
        let place = self.place(access, rows, cols);
        let params = match (params, rows.is_some(), cols.is_some()) {
            (LambdaParams::Row, true, _) => "int row",
            (LambdaParams::Row, false, _) | (LambdaParams::Col, _, false) => "int",
            (LambdaParams::Col, _, true) => "int col",
            (LambdaParams::RowCol, true, true) => "int row, int col",
            (LambdaParams::RowCol, false, true) => "int, int col",
            (LambdaParams::RowCol, true, false) => "int row, int",
            (LambdaParams::RowCol, false, false) => "int, int",
        };
        self.out.line(format!("{head}[&]({params}) -> {result} {{"));
        self.out.indent();
        let answer = format!("return {{{}, {}}};", place.pointer(), place.valid());
        for line in place.lines {
            self.out.line(line);
        }
        self.out.line(answer);
        self.out.dedent();
        self.out.line(format!("}}{tail}"));
    }

    /// A contiguous access starts at its block's first column.
    pub(super) fn place(&self, access: &Access, rows: Option<AxisId>, cols: Option<AxisId>) -> Place {
        let (mut lines, mut limits, mut inside, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // An axis' own name stands for its coordinate inside the lambda.
        let mut named: Vec<AxisId> = Vec::new();
        for (axis, offset) in [(rows, "row"), (cols, "col")] {
            let Some(axis) = axis else { continue };
            if self.nest.axis(axis).kind == AxisKind::Each || !access_mentions(access, axis) {
                continue;
            }
            let start = self.start(axis);
            let at = if start == "0" { offset.to_string() } else { format!("{start} + {offset}") };
            lines.push(format!("const int {} = {at};", self.local_name(axis)));
            named.push(axis);
            if let Extent::Flat(dims) = &self.nest.axis(axis).extent {
                for part in 0..dims.len() {
                    if access.index.iter().any(|int| mentions_part(int, axis, part)) {
                        let value = self.flat_part(axis, part, &self.local_name(axis));
                        lines.push(format!("const int {} = {value};", self.part_name(axis, part)));
                    }
                }
            }
        }
        for axis in &access.limits {
            if named.contains(axis) {
                limits.push(format!("{} < {}", self.local_name(*axis), self.limit(*axis)));
            }
        }
        let coordinate = |axis: AxisId| if named.contains(&axis) { self.local_name(axis) } else { self.start(axis) };
        let flat = |axis: AxisId, part: usize| {
            if named.contains(&axis) {
                self.part_name(axis, part)
            } else {
                self.flat_part(axis, part, &self.start(axis))
            }
        };
        let tensor = self.nest.tensor(access.tensor);
        let name = &self.program.names.tensors[access.tensor.index()];
        let last = access.index.len().saturating_sub(1);
        for (at, int) in access.index.iter().enumerate() {
            let mut text = self.int_with(int, &coordinate, &flat);
            if access.inside.contains(&at) {
                let local = format!("{name}_at{at}");
                lines.push(format!("const int {local} = {text};"));
                inside.push((local.clone(), self.program.names.dims[tensor.dims[at].index()].clone()));
                text = local;
            }
            if text == "0" {
                continue;
            }
            let simple = text.chars().all(|c| c.is_alphanumeric() || c == '_');
            let text = if simple { text } else { format!("({text})") };
            offsets.push(if at == last { text } else { format!("{text} * {}", crate::program::stride_name(name, at)) });
        }
        Place { lines, tensor: name.clone(), offsets, limits, inside }
    }

    fn local_name(&self, axis: AxisId) -> String {
        self.axis_name(axis).to_string()
    }

    fn part_name(&self, axis: AxisId, part: usize) -> String {
        let Extent::Flat(dims) = &self.nest.axis(axis).extent else { return self.local_name(axis) };
        let name = |part: usize| self.program.names.dims[dims[part].index()].to_lowercase();
        let unique = (0..dims.len()).all(|other| other == part || name(other) != name(part));
        let suffix = if unique { name(part) } else { part.to_string() };
        format!("{}_{suffix}", self.axis_name(axis))
    }
}

/// Where an element is, as text.
pub(super) struct Place {
    /// What names the coordinates.
    pub lines: Vec<String>,
    tensor: String,
    /// Terms of its distance from the tensor's first element.
    pub offsets: Vec<String>,
    /// Conditions under which its coordinates exist.
    pub limits: Vec<String>,
    /// Indices that may leave their axis, and its size.
    pub inside: Vec<(String, String)>,
}

impl Place {
    pub fn pointer(&self) -> String {
        self.offsets.iter().fold(self.tensor.clone(), |sum, term| sum + " + " + term)
    }

    fn valid(&self) -> String {
        let inside = self.inside.iter().map(|(at, size)| format!("unsigned({at}) < unsigned({size})"));
        all_of(self.limits.iter().cloned().chain(inside))
    }
}

pub(super) fn all_of(conditions: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = conditions.collect();
    if all.is_empty() { "true".to_string() } else { all.join(" && ") }
}

#[derive(Clone, Copy)]
pub(super) enum LambdaParams {
    Row,
    Col,
    RowCol,
}

fn access_mentions(access: &Access, axis: AxisId) -> bool {
    let contiguous = matches!(access.form, AccessForm::Contiguous { cols, .. } if cols == axis);
    !contiguous && access.index.iter().any(|int| mentions(int, axis))
}

fn mentions(int: &Int, axis: AxisId) -> bool {
    int.any(&|part| matches!(part, Int::Axis(a) | Int::FlatCoord(a, _) if *a == axis))
}

fn mentions_part(int: &Int, axis: AxisId, part: usize) -> bool {
    int.any(&|inner| matches!(inner, Int::FlatCoord(a, p) if *a == axis && *p == part))
}
