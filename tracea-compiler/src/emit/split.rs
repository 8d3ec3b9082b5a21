//! What blocks that share a tile's sum leave for each other, and how they put it together.

use super::{Emitter, TilePart, reduce_name};
use crate::nest::ReduceOp;
use crate::program::{Domain, Part, Scalar, Split, Stmt, VarId};

impl Emitter<'_> {
    pub(super) fn join_parts(&mut self, values: &[(VarId, ReduceOp, Part, u32)], leaving: &[Stmt]) {
        let Some(split) = &self.program.split else { return };
        let (parts, floats, tile) = (&split.parts_here, split.floats, cut_tile(split));
        self.begin_parts(split);
        for (var, _, part, offset) in values {
            let (function, name) = (self.part_function("write_part", None, *part, *var), &self.program.var(*var).name);
            self.out.line(format!("{function}({name}, {});", place("this_part", *offset)));
        }
        let leave = if self.program.persistent { "continue" } else { "return" };
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
        for (var, op, part, offset) in values {
            let function = self.part_function("read_parts", Some(reduce_name(*op)), *part, *var);
            let (name, at) = (&self.program.var(*var).name, place("first_part", *offset));
            match part {
                Part::Number => self.out.line(format!("{name} = {function}({at}, {floats}, {parts});")),
                Part::Registers => self.out.line(format!("{function}({name}, {at}, {floats}, {parts});")),
                Part::Columns | Part::Rows => {
                    let scratch = self.scratch(Scalar::Float);
                    self.out.line(format!("{function}({name}, {at}, {floats}, {parts}, {scratch});"))
                }
            }
        }
        self.out.dedent();
        self.out.line("}");
    }

    pub(super) fn deal_parts(&mut self, values: &[(VarId, ReduceOp, u32)], panels: u32, ahead: u32) {
        let Some(split) = &self.program.split else { return };
        let (part, parts, floats, tile) = (&split.part, &split.parts_here, split.floats, cut_tile(split));
        self.begin_parts(split);
        for (var, _, offset) in values {
            let (name, to) = (&self.program.var(*var).name, place("this_part", *offset));
            self.out.line(format!("leave_panels<{panels}, THREADS>({name}, {to}, {part}, {parts});"));
        }
        let arrived = format!("{} + {tile} * {}", split.arrived, self.program.threads / 128);
        self.out.line(format!("meet_parts<{panels}, THREADS>({arrived}, {part}, {parts});"));
        for (var, op, offset) in values {
            let (name, from) = (&self.program.var(*var).name, place("first_part", *offset));
            let function = format!("join_panels<{}, {panels}, THREADS, {ahead}>", reduce_name(*op));
            self.out.line(format!("{function}({name}, {from}, {floats}, {part}, {parts});"));
        }
        self.out.dedent();
        self.out.line("}");
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
            let (part, parts) = (&split.part, &split.parts_here);
            let falls_to = format!("panel_part<{dealt}, THREADS>({panel}, {parts})");
            self.out.line(format!("if ({falls_to} != {part}) continue;"));
            self.some_panels = Some(format!("{parts} > 1"));
        }
        self.stmts(body);
        (self.part, self.some_panels) = (None, None);
        self.out.dedent();
        self.out.line("}");
    }

    /// `read_parts_cols<Sum, JTile>`, and so on.
    fn part_function(&self, stem: &str, op: Option<&str>, part: Part, var: VarId) -> String {
        let layout = match self.program.var(var).domain {
            Domain::Tile(id) | Domain::Rows(id) | Domain::Cols(id) => self.program.layout(id).name.as_str(),
            Domain::Once => "",
        };
        let (suffix, last) = match part {
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
