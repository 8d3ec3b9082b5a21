//! A program as text, for people and tests: one statement a line, with the names that emitted code uses.

use super::{
    Access, AccessForm, AlikeIf, BulkCopy, BulkForm, Cluster, Domain, Kept, LastTile, Left, Operand, PanelSide,
    Program, Scope, Stagger, Stmt, StoreWay,
};
use std::fmt;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "program {} [{}] threads {} shared {} B",
            self.entry, self.schedule, self.threads, self.shared_bytes
        )?;
        for relaid in &self.relaid {
            writeln!(f, "copy of {}, its axis {} last", self.names.tensors[relaid.tensor], relaid.last)?;
        }
        if !self.merged.is_empty() {
            let dims: Vec<&str> = self.merged.iter().map(|dim| self.names.dims[*dim].as_str()).collect();
            writeln!(f, "takes {} as one where nothing lies between", dims.join(" and "))?;
        }
        for layout in &self.layouts {
            writeln!(f, "layout {} = {:?} {}x{}", layout.name, layout.kind, layout.rows, layout.cols)?;
        }
        for shared in &self.shared {
            let (rows, cols, stages) = (shared.rows, shared.cols, shared.stages);
            let place = match (shared.host, shared.behind) {
                (Some(host), _) => format!("in {}", self.shared(host).name),
                (_, Some(first)) => format!("behind {}", self.shared(first).name),
                _ => format!("at {}", shared.offset),
            };
            writeln!(f, "shared {} = {} {rows}x{cols} x{stages} {place}", shared.name, shared.dtype.name())?;
        }
        for narrow in &self.narrow {
            let (shared, dim) = (&self.shared(narrow.shared).name, &self.names.dims[narrow.dim.index()]);
            writeln!(f, "{shared} holds no more columns of a panel than {dim}")?;
        }
        for short in &self.short {
            let (shared, dim) = (&self.shared(short.shared).name, &self.names.dims[short.dim.index()]);
            writeln!(f, "{shared} holds no more rows than {dim}")?;
        }
        for grid in &self.grid {
            let Some(LastTile { cut, .. }) = &grid.last_tile else { continue };
            write!(f, "the last tile along {} ends with it", self.names.axes[grid.axis.index()])?;
            for alike in cut {
                match alike {
                    AlikeIf::NoneIsWhole(_) => write!(f, ", where all are cut or none")?,
                    AlikeIf::AtMostTwo(_) => write!(f, ", into two parts at most")?,
                }
            }
            writeln!(f)?;
        }
        if let Some(Cluster { axis, blocks }) = self.cluster {
            writeln!(f, "clusters of {blocks} along {}", self.names.axes[axis.index()])?;
        }
        if let Some(rows) = &self.kept {
            let tiles: Vec<String> =
                rows.tiles.iter().map(|tile| format!("{} by {}", tile.name, self.layout(tile.layout).name)).collect();
            writeln!(f, "keeps {}, at most {} blocks of {}", tiles.join(", "), rows.most_blocks, rows.columns)?;
        }
        if let Some(producer) = &self.producer {
            writeln!(f, "producer, {} threads", producer.threads)?;
            self.stmts(f, &producer.body, 1)?;
            writeln!(f, "consumers, {} threads", self.threads)?;
            return self.stmts(f, &self.body, 1);
        }
        self.stmts(f, &self.body, 0)
    }
}

impl Program {
    fn kept_name<'k>(&'k self, kept: Option<&'k Kept>) -> &'k str {
        match kept {
            Some(Kept::Rows { tile, .. }) => self.kept(*tile).map_or("", |tile| &tile.name),
            Some(
                Kept::Slot { stream: shared, .. }
                | Kept::Slice { shared, .. }
                | Kept::Row { shared, .. }
                | Kept::Early { shared, .. },
            ) => &self.shared(*shared).name,
            Some(Kept::Held { name, .. }) => name,
            None => "",
        }
    }

    fn left(&self, values: &[Left]) -> String {
        let way = |left: &Left| left.op.map_or("relative".to_string(), |op| format!("{op:?}"));
        let value = |left: &Left| format!("{} ({}, {:?})", self.var(left.var).name, way(left), left.part);
        values.iter().map(value).collect::<Vec<_>>().join(", ")
    }

    fn stmts(&self, f: &mut fmt::Formatter<'_>, stmts: &[Stmt], depth: usize) -> fmt::Result {
        for stmt in stmts {
            if !matches!(stmt, Stmt::Line(_)) {
                write!(f, "{}", "  ".repeat(depth))?;
            }
            match stmt {
                Stmt::Line(_) => continue,
                Stmt::DeclareOperand(var) => write!(f, "declare operand {}", self.var(*var).name)?,
                Stmt::Pack { value, operand } => {
                    write!(f, "pack {} <- {}", self.var(*operand).name, self.var(*value).name)?
                }
                Stmt::Declare(var) => {
                    let var = self.var(*var);
                    write!(f, "declare {}: {:?} over {}", var.name, var.ty, self.domain(var.domain))?
                }
                Stmt::Let { name, .. } => write!(f, "let {name}")?,
                Stmt::LookUp { name, .. } => write!(f, "look up {name}")?,
                Stmt::Map { target, unless_all, .. } => {
                    let split = if unless_all.is_some() { " where the block needs it" } else { "" };
                    write!(f, "map {}{split}", self.var(*target).name)?
                }
                Stmt::JoinParts { values, leaving, .. } => {
                    writeln!(f, "join parts of {}", self.left(values))?;
                    if !leaving.is_empty() {
                        writeln!(f, "{}where others join them", "  ".repeat(depth))?;
                        self.stmts(f, leaving, depth + 1)?;
                    }
                    continue;
                }
                Stmt::DealParts { values, deal, .. } => {
                    write!(f, "deal parts of {} by {} panels", self.left(values), deal.panels)?
                }
                Stmt::MaskEdge { target, identity, .. } => {
                    write!(f, "mask edge of {} with {identity:?}", self.var(*target).name)?
                }
                Stmt::FindSkew { row, .. } => write!(f, "find skew of {}", self.names.tensors[row.tensor.index()])?,
                Stmt::FindParts { row, .. } => write!(f, "find parts of {}", self.names.tensors[row.tensor.index()])?,
                Stmt::Copy(copy) => {
                    write!(f, "copy {} <- {}", self.shared(copy.shared).name, self.access(&copy.source))?
                }
                Stmt::Commit => write!(f, "commit")?,
                Stmt::Wait(pending) => write!(f, "wait {pending}")?,
                Stmt::ClearRows { shared, .. } => {
                    write!(f, "clear rows past the end of {}", self.shared(*shared).name)?
                }
                Stmt::WaitKept { .. } => write!(f, "wait for what the step reads")?,
                Stmt::Barrier(Scope::Tile) => write!(f, "barrier")?,
                Stmt::Barrier(Scope::Warp) => write!(f, "barrier of the warp")?,
                Stmt::Barrier(Scope::Warpgroup) => write!(f, "barrier of the warpgroup")?,
                Stmt::Fence => write!(f, "fence")?,
                Stmt::Where { condition, body, otherwise } => {
                    let name = &self.condition(*condition).name;
                    if !body.is_empty() {
                        writeln!(f, "where {name}")?;
                        self.stmts(f, body, depth + 1)?;
                    }
                    if !otherwise.is_empty() {
                        let indent = if body.is_empty() { String::new() } else { "  ".repeat(depth) };
                        writeln!(f, "{indent}where not {name}")?;
                        self.stmts(f, otherwise, depth + 1)?;
                    }
                    continue;
                }
                Stmt::WaitFull(turn) => write!(f, "wait full {}", self.ring(turn.ring).name)?,
                Stmt::Release(turn) => {
                    let ring = self.ring(turn.ring);
                    write!(f, "release {}{}", ring.name, if ring.joint { " in all blocks" } else { "" })?
                }
                Stmt::Acquire(turn) => write!(f, "acquire {}", self.ring(turn.ring).name)?,
                Stmt::Publish { turn, .. } => write!(f, "publish {}", self.ring(turn.ring).name)?,
                Stmt::Bulk { turn, copies, waits } => {
                    let copies: Vec<String> = copies.iter().map(|copy| self.bulk_copy(copy)).collect();
                    let verb = if *waits { "acquire and fill" } else { "fill" };
                    write!(f, "{verb} {} by {}", self.ring(turn.ring).name, copies.join(" and "))?
                }
                Stmt::Advance(counter) => write!(f, "advance {counter}")?,
                Stmt::DotWait { pending, .. } => write!(f, "wait for dots, {pending} pending")?,
                Stmt::Load { target, source, kept } => {
                    write!(f, "load {} <- {}", self.var(*target).name, self.access(source))?;
                    match kept {
                        Some(Kept::Rows { surely: false, .. }) => write!(f, " or {}", self.kept_name(kept.as_ref()))?,
                        Some(Kept::Held { name, .. }) => write!(f, " held as {name}")?,
                        Some(_) => write!(f, " kept in {}", self.kept_name(kept.as_ref()))?,
                        None => {}
                    }
                }
                Stmt::DeclareEnds { row } => write!(f, "ends of rows in {}", self.kept_name(Some(row)))?,
                Stmt::HoldSlice { name, slice } => write!(f, "hold {name} <- {}", self.kept_name(Some(slice)))?,
                Stmt::HoldRows { access, .. } => write!(f, "hold rows of {}", self.access(access))?,
                Stmt::Keep { kept, source } => {
                    write!(f, "keep {} <- {}", self.kept_name(Some(kept)), self.access(source))?
                }
                Stmt::Store { value, target, way } => {
                    write!(f, "store {} <- {}", self.access(target), self.var(*value).name)?;
                    match way {
                        StoreWay::Direct => {}
                        StoreWay::Staged(staging) => write!(f, " through {}", self.shared(*staging).name)?,
                        StoreWay::Scratch => write!(f, " through scratch")?,
                    }
                }
                Stmt::Panels { count, body, dealt, .. } => {
                    let whose = if dealt.is_some() { ", where they are this part's" } else { "" };
                    writeln!(f, "for {count} panels{whose}")?;
                    self.stmts(f, body, depth + 1)?;
                    continue;
                }
                Stmt::ReadTile { target, shared, .. } => {
                    write!(f, "read {} <- {}", self.var(*target).name, self.shared(*shared).name)?
                }
                Stmt::ReadPanel { target, shared, .. } => {
                    write!(f, "read {} <- {}", self.var(*target).name, self.shared(*shared).name)?
                }
                Stmt::FetchOwn { own, first, .. } => {
                    write!(f, "fetch {} of own {}", if *first { "first" } else { "next" }, self.own(*own).name)?
                }
                Stmt::AwaitOwn(own) => write!(f, "await own {}", self.own(*own).name)?,
                Stmt::AwaitPanel { staging } => write!(f, "await {}", self.shared(*staging).name)?,
                Stmt::WritePanel { value, staging, side } => {
                    let word = match side {
                        PanelSide::Rows => "write",
                        PanelSide::Columns => "write transposed",
                    };
                    write!(f, "{word} {} <- {}", self.shared(*staging).name, self.var(*value).name)?
                }
                Stmt::SendPanel { staging, store, .. } => {
                    write!(f, "send {} by {}", self.shared(*staging).name, store.map)?
                }
                Stmt::StorePanel { staging, target, .. } => {
                    write!(f, "store {} <- {}", self.access(target), self.shared(*staging).name)?
                }
                Stmt::Locate => write!(f, "locate")?,
                Stmt::LocateAnew => write!(f, "locate anew")?,
                Stmt::LeaveToOther { counter, .. } => write!(f, "unless it is my turn, count {counter} for the other")?,
                Stmt::AwaitEarly => write!(f, "await what came early")?,
                Stmt::FinishStores => write!(f, "finish stores")?,
                Stmt::PingPong(step, _) => write!(f, "ping-pong: {step:?}")?,
                Stmt::Stagger(Stagger::Begin { last, .. }) => {
                    write!(f, "the second warpgroup follows in {last} steps")?
                }
                Stmt::Stagger(Stagger::Follow) => write!(f, "follow")?,
                Stmt::Stagger(Stagger::Lead { .. }) => write!(f, "lead")?,
                Stmt::Dot(dot) => {
                    let sign = if dot.overwrite { "=" } else { "+=" };
                    let names: Vec<&str> = dot.targets().map(|target| self.var(target).name.as_str()).collect();
                    let operands: Vec<String> = dot.operands().skip(1).map(|operand| self.operand(operand)).collect();
                    let (names, operands) = (names.join(", "), operands.join(", "));
                    write!(f, "dot {names} {sign} {} . {operands} by {:?}", self.operand(&dot.a), dot.unit)?
                }
                Stmt::Reduce { op, value, target, along } => write!(
                    f,
                    "reduce {} = {op:?} of {} along {along:?}",
                    self.var(*target).name,
                    self.var(*value).name
                )?,
                Stmt::Fold { op, value, target, along } => {
                    write!(f, "fold {} = {op:?} of {} along {along:?}", self.var(*target).name, self.var(*value).name)?
                }
                Stmt::Vote { name, slice, .. } => write!(f, "vote {name} of {}", self.var(*slice).name)?,
                Stmt::Spread { op, target, along } => {
                    write!(f, "spread {} ({op:?} along {along:?})", self.var(*target).name)?
                }
                Stmt::Exchange { value, target, transposed } => {
                    let word = if *transposed { "transpose" } else { "exchange" };
                    write!(f, "{word} {} <- {}", self.var(*target).name, self.var(*value).name)?
                }
                Stmt::CopyTurned { source, target, .. } => {
                    write!(f, "copy turned {} <- {}", self.access(target), self.access(source))?;
                }
                Stmt::Stage { value, shared } => {
                    write!(f, "stage {} <- {}", self.shared(*shared).name, self.var(*value).name)?
                }
                Stmt::TakeUnit => write!(f, "take unit")?,
                Stmt::ForUnits(body) => {
                    writeln!(f, "for unit")?;
                    self.stmts(f, body, depth + 1)?;
                    continue;
                }
                Stmt::Ahead { turns, body } => {
                    writeln!(f, "{turns} turns ahead")?;
                    self.stmts(f, body, depth + 1)?;
                    continue;
                }
                Stmt::For { var, body, .. } => {
                    writeln!(f, "for {var}")?;
                    self.stmts(f, body, depth + 1)?;
                    continue;
                }
                Stmt::If { body, .. } => {
                    writeln!(f, "if")?;
                    self.stmts(f, body, depth + 1)?;
                    continue;
                }
                Stmt::ByColumns { axis, body, .. } => {
                    writeln!(f, "by columns of {}", self.names.axes[axis.index()])?;
                    self.stmts(f, body, depth + 1)?;
                    continue;
                }
                Stmt::ByParts { body, .. } => {
                    writeln!(f, "by parts")?;
                    self.stmts(f, body, depth + 1)?;
                    continue;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn domain(&self, domain: Domain) -> String {
        match domain {
            Domain::Tile(id) => self.layout(id).name.clone(),
            Domain::Rows(id) => format!("rows of {}", self.layout(id).name),
            Domain::Cols(id) => format!("columns of {}", self.layout(id).name),
            Domain::Once => "one".into(),
        }
    }

    fn access(&self, access: &Access) -> String {
        let form = match access.form {
            AccessForm::Contiguous { .. } => "rows",
            AccessForm::Scattered { .. } => "elements",
        };
        format!("{} by {form}", self.names.tensors[access.tensor.index()])
    }

    fn bulk_copy(&self, copy: &BulkCopy) -> String {
        let form = match copy.form {
            BulkForm::Box => "boxes",
            BulkForm::Window { .. } => "windows",
        };
        let blocks = if copy.part.is_some() { " for all blocks" } else { "" };
        format!("{form} of {}{blocks}", self.names.tensors[copy.tensor.index()])
    }

    fn operand(&self, operand: &Operand) -> String {
        match operand {
            Operand::Shared { shared, major, .. } => format!("{} ({major:?}-major)", self.shared(*shared).name),
            Operand::Fragments { shared, .. } => format!("{} (fragments)", self.shared(*shared).name),
            Operand::Registers { value, .. } => format!("{} (registers)", self.var(*value).name),
            Operand::Packed { operand } => format!("{} (packed)", self.var(*operand).name),
        }
    }
}
