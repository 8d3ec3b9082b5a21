//! What blocks that share a tile's sum leave for each other, and how they put it together.

use super::{Emitter, TilePart, reduce_name};
use crate::nest::BinaryOp;
use crate::program::{Deal, Domain, Expr, Left, Part, Relative, Scalar, Split, Stmt, VarId};

impl Emitter<'_> {
    pub(super) fn join_parts(&mut self, values: &[Left], relative: &[Relative], leaving: &[Stmt]) {
        let Some(split) = &self.program.split else { return self.unwritten("join_parts") };
        let (parts, tile) = (&split.parts_here, cut_tile(split));
        self.begin_parts(split);
        values.iter().for_each(|left| self.write_part(left));
        let leave = if self.program.units.are_shared_out() { "continue" } else { "return" };
        let leaves = format!("if (!last_to_arrive({} + {tile}, {parts}))", split.arrived);
        if leaving.is_empty() {
            self.out.line(format!("{leaves} {leave};"));
        } else {
            self.out.line(format!("{leaves} {{"));
            self.out.indent();
            self.stmts(leaving);
            self.out.line(format!("{leave};"));
            self.out.dedent();
            self.out.line("}");
        }
        values.iter().for_each(|left| self.read_parts(left));
        relative.iter().for_each(|relative| self.add_weighted(relative, &relative.sums));
        self.out.dedent();
        self.out.line("}");
    }

    pub(super) fn deal_parts(&mut self, values: &[Left], relative: &[Relative], deal: Deal) {
        let Some(split) = &self.program.split else { return self.unwritten("deal_parts") };
        let (part, parts, floats, tile) = (&split.part, &split.parts_here, split.floats, cut_tile(split));
        let is_tile = |left: &&Left| matches!(self.program.var(left.var).domain, Domain::Tile(_));
        let (tiles, slices): (Vec<&Left>, Vec<&Left>) = values.iter().partition(is_tile);
        let (own, Deal { panels, registers, ahead }) = (&split.panels_here, deal);
        self.out.line(format!("const unsigned {own} = own_panels<{panels}, THREADS>({part}, {parts});"));
        self.begin_parts(split);
        slices.iter().for_each(|left| self.write_part(left));
        for left in &tiles {
            let (name, to) = (&self.program.var(left.var).name, place("this_part", left.offset));
            let layout = self.layout_of(left.var);
            self.out.line(format!("leave_panels<{layout}, {registers}, THREADS>({name}, {to}, {own});"));
        }
        let arrived = format!("{} + {tile} * {}", split.arrived, self.program.threads / 128);
        let meet = format!("meet_parts<{panels}>({arrived}, {parts}, {own})");
        // What all of them read has come for those alone that wait.
        if slices.is_empty() {
            self.out.line(format!("{meet};"));
        } else {
            self.out.line(format!("if ({meet}) {{"));
            self.out.indent();
        }
        for Relative { extreme, own, .. } in relative {
            self.stmt(&Stmt::Declare(*own));
            self.map(*own, Expr::Var(extreme.var));
        }
        slices.iter().for_each(|left| self.read_parts(left));
        for relative in relative {
            let (tiles, slices): (Vec<Left>, Vec<Left>) = relative.sums.iter().partition(is_tile);
            if !slices.is_empty() {
                self.add_weighted(relative, &slices);
            }
            tiles.iter().for_each(|left| self.join_weighted(relative, left, deal));
        }
        for Left { var, op, offset, .. } in tiles {
            let Some(op) = op else { continue };
            let (name, from) = (&self.program.var(*var).name, place("first_part", *offset));
            let (op, layout) = (reduce_name(*op), self.layout_of(*var));
            let function = format!("join_panels<{op}, {layout}, {registers}, THREADS, {ahead}>");
            self.out.line(format!("{function}({name}, {from}, {floats}, {part}, {parts}, {own});"));
        }
        if !slices.is_empty() {
            self.out.dedent();
            self.out.line("}");
        }
        self.out.dedent();
        self.out.line("}");
    }

    fn write_part(&mut self, left: &Left) {
        let (function, name) = (self.part_function("write_part", None, left), &self.program.var(left.var).name);
        self.out.line(format!("{function}({name}, {});", place("this_part", left.offset)));
    }

    /// Of values that an operation puts together.
    fn read_parts(&mut self, left: &Left) {
        let Some(op) = left.op else { return };
        let Some(split) = &self.program.split else { return self.unwritten("read_parts") };
        let function = self.part_function("read_parts", Some(reduce_name(op)), left);
        let (name, at) = (&self.program.var(left.var).name, place("first_part", left.offset));
        let (floats, parts) = (split.floats, &split.parts_here);
        match left.part {
            Part::Number => self.out.line(format!("{name} = {function}({at}, {floats}, {parts});")),
            Part::Registers => self.out.line(format!("{function}({name}, {at}, {floats}, {parts});")),
            Part::Columns | Part::Rows => {
                let scratch = self.scratch(Scalar::Float);
                self.out.line(format!("{function}({name}, {at}, {floats}, {parts}, {scratch});"))
            }
        }
    }

    /// These sums of all parts, one part after the other, each by its weight.
    fn add_weighted(&mut self, relative: &Relative, sums: &[Left]) {
        let Some(Split { parts_here, floats, .. }) = &self.program.split else { return self.unwritten("add_weighted") };
        let Relative { extreme, own, weight, weigh, slices_at_a_time, .. } = relative;
        sums.iter().for_each(|sum| self.map(sum.var, Expr::Number(0.0)));
        // Slices leave room for those of several parts on their way.
        let is_tile = |sum: &Left| matches!(self.program.var(sum.var).domain, Domain::Tile(_));
        let at_a_time = if sums.iter().any(is_tile) { 1 } else { *slices_at_a_time };
        self.out.line(format!("#pragma unroll {at_a_time}"));
        self.out.line(format!("for (int p = 0; p < {parts_here}; ++p) {{"));
        self.out.indent();
        self.out.line(format!("const float* const left = first_part + static_cast<long long>(p) * {floats};"));
        self.stmt(&Stmt::Declare(*own));
        self.map(*own, Expr::Left(extreme.part, extreme.offset));
        self.stmt(&Stmt::Declare(*weight));
        self.map(*weight, weigh.clone());
        for sum in sums {
            let left = Box::new(Expr::Left(sum.part, sum.offset));
            let term = Expr::Binary(BinaryOp::Mul, left, Box::new(Expr::Var(*weight)));
            self.map(sum.var, Expr::Binary(BinaryOp::Add, Box::new(Expr::Var(sum.var)), Box::new(term)));
        }
        self.out.dedent();
        self.out.line("}");
    }

    /// A tile's panels of all parts, where this part's own extreme is known.
    fn join_weighted(&mut self, relative: &Relative, sum: &Left, deal: Deal) {
        let Some(Split { part, parts_here, panels_here, floats, .. }) = &self.program.split else {
            return self.unwritten("join_weighted");
        };
        let (Relative { extreme, own, weight, weigh, .. }, Deal { registers, ahead, .. }) = (relative, deal);
        let (Domain::Tile(tile), Domain::Rows(rows)) =
            (self.program.var(sum.var).domain, self.program.var(*weight).domain)
        else {
            return;
        };
        self.stmt(&Stmt::Declare(*weight));
        self.map(*weight, weigh.clone());
        let scaled = Expr::Binary(BinaryOp::Mul, Box::new(Expr::Var(sum.var)), Box::new(Expr::Var(*weight)));
        self.map(sum.var, scaled);
        let layout = |id| &self.program.layout(id).name;
        let (tile, rows) = (layout(tile), layout(rows));
        let name = |var: VarId| &self.program.var(var).name;
        let from_tile = i64::from(extreme.offset) - i64::from(sum.offset);
        let function =
            format!("join_weighted_panels<{tile}, {registers}, THREADS, {ahead}, {from_tile}, {rows}::row_size>");
        let from = place("first_part", sum.offset);
        let params = format!(
            "const float (&{own})[{rows}::row_size], float (&{weight})[{rows}::row_size]",
            own = name(*own),
            weight = name(*weight)
        );
        self.out.line(format!(
            "{function}({sum}, {from}, {floats}, {part}, {parts_here}, {panels_here}, [&]({params}) {{",
            sum = name(sum.var)
        ));
        self.out.indent();
        self.map(*weight, weigh.clone());
        self.out.dedent();
        self.out.line("});");
    }

    fn map(&mut self, target: VarId, value: Expr) {
        self.stmt(&Stmt::Map { target, value, unless_all: None });
    }

    /// What the part at `left` has of a value, for the register that a loop over its domain is at.
    pub(super) fn left(&self, part: Part, offset: u32, domain: Domain) -> String {
        let from = place("left", offset);
        let layout = match domain {
            Domain::Tile(id) | Domain::Rows(id) | Domain::Cols(id) => self.program.layout(id).name.as_str(),
            Domain::Once => "",
        };
        match part {
            Part::Registers => format!("__ldcg({from} + reg * THREADS + threadIdx.x)"),
            Part::Rows => format!("__ldcg({from} + {layout}::row_at(reg))"),
            Part::Columns => format!("__ldcg({from} + {layout}::col_at(reg))"),
            Part::Number => format!("__ldcg({from})"),
        }
    }

    /// Where the tile is cut: where its parts are, and this one.
    fn begin_parts(&mut self, split: &Split) {
        let (part, parts, floats, tile) = (&split.part, &split.parts_here, split.floats, cut_tile(split));
        let tile = if tile.starts_with('(') { tile } else { format!("({tile})") };
        self.out.line(format!("if ({parts} > 1) {{"));
        self.out.indent();
        let first = format!("{} + static_cast<long long>{tile} * {parts} * {floats}", split.workspace);
        self.out.line(format!("float* const first_part = {first};"));
        self.out.line(format!("float* const this_part = first_part + {part} * {floats};"));
    }

    /// In an unrolled loop, each panel that is not another block's.
    pub(super) fn panels(&mut self, count: u32, registers: u32, body: &[Stmt], dealt: Option<u32>) {
        self.out.line("#pragma unroll");
        self.out.line(format!("for (int panel = 0; panel < {count}; ++panel) {{"));
        self.out.indent();
        self.part = Some(TilePart::Panel(registers));
        if let (Some(dealt), Some(split)) = (dealt, &self.program.split) {
            let panel = match count / dealt {
                1 => "panel".to_string(),
                each => format!("panel / {each}"),
            };
            let own = &split.panels_here;
            self.out.line(format!("if (!has_panel({own}, {panel})) continue;"));
            self.some_panels = Some(format!("{own} != ALL_PANELS"));
        }
        self.stmts(body);
        (self.part, self.some_panels) = (None, None);
        self.out.dedent();
        self.out.line("}");
    }

    /// The name of the layout by which threads have the value, where it is more than a number.
    fn layout_of(&self, var: VarId) -> &str {
        match self.program.var(var).domain {
            Domain::Tile(id) | Domain::Rows(id) | Domain::Cols(id) => &self.program.layout(id).name,
            Domain::Once => "",
        }
    }

    /// `read_parts_cols<Sum, JTile>`, and so on.
    fn part_function(&self, stem: &str, op: Option<&str>, left: &Left) -> String {
        let layout = self.layout_of(left.var);
        let (suffix, last) = match left.part {
            Part::Registers => ("", Some("THREADS")),
            Part::Columns => ("_cols", Some(layout)),
            Part::Rows => ("_rows", Some(layout)),
            Part::Number => ("_number", None),
        };
        let arguments: Vec<&str> = op.into_iter().chain(last).collect();
        match arguments.is_empty() {
            true => format!("{stem}{suffix}"),
            false => format!("{stem}{suffix}<{}>", arguments.join(", ")),
        }
    }
}

/// Which of the tiles that are cut this is.
fn cut_tile(split: &Split) -> String {
    match &split.whole {
        Some(whole) => format!("({} - {})", split.tile, whole.count),
        None => split.tile.clone(),
    }
}

fn place(from: &str, offset: u32) -> String {
    if offset == 0 { from.to_string() } else { format!("{from} + {offset}") }
}
