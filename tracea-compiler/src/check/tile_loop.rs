//! `tile!`: the grid, and the loops inside it with what they carry.

use super::infer::OpenType;
use super::term::{Bounds, Term};
use super::{Checker, int, mentioned};
use crate::ast::{Header, Tile};
use crate::nest::{AxisId, AxisKind, Block, Carried, Int, IntOp, Loop, Op, Stmt, ValueId};
use syn::{Expr, Macro};

/// The host names axes by type-level ordinals up to this.
const MOST_AXES: usize = 15;

/// A variable that the loop assigns.
struct Carry {
    place: usize,
    init: ValueId,
    head: ValueId,
}

impl Checker<'_> {
    pub fn grid(&mut self, mac: &Macro) {
        if !self.nest.grid.is_empty() {
            self.fatal(
                &mac.path,
                "a second `tile!` at the top of a kernel is not supported yet -- write a kernel for each",
            );
            return;
        }
        let tile = match Tile::open(mac) {
            Ok(tile) => tile,
            Err(error) => return self.failure.fatal.push(error),
        };
        let mark = self.scopes.mark();
        self.check_header_names(&tile);
        for header in &tile.headers {
            let Some((axis, bounds)) = self.header(header) else { continue };
            if bounds.from.is_some() || bounds.until.is_some() {
                self.ours(
                    &header.range,
                    "the outermost loop covers whole dims, a range there is not supported \
                    yet -- bound an inner loop, or pass a smaller view of the tensor",
                );
            }
            self.nest.grid.push(axis);
        }
        self.in_grid = true;
        self.block(&tile.body);
        self.in_grid = false;
        self.leave(mark);
    }

    pub fn tile_loop(&mut self, tile: &Tile) {
        if !self.in_grid {
            return;
        }
        self.check_header_names(tile);
        let names = mentioned::in_block(&tile.body).assigned;
        let carried: Vec<usize> = self
            .scopes
            .visible()
            .into_iter()
            .filter(|place| names.contains(&self.scopes.get(*place).name.to_string()))
            .filter(|place| matches!(self.scopes.get(*place).term, Term::Tile(_) | Term::Number(..)))
            .collect();
        self.nested(&tile.headers, tile, &carried);
    }

    fn check_header_names(&mut self, tile: &Tile) {
        for (position, header) in tile.headers.iter().enumerate() {
            let name = &header.axis;
            if tile.headers[..position].iter().any(|earlier| earlier.axis == *name) {
                self.fatal(name, format!("`{name}` names two axes of one loop -- give each its own name"));
            }
        }
    }

    /// One loop for each header, outer first.
    fn nested(&mut self, headers: &[Header], tile: &Tile, carried: &[usize]) {
        let Some((header, inner)) = headers.split_first() else {
            self.block(&tile.body);
            return;
        };
        let mark = self.scopes.mark();
        let line = super::line_of(&header.axis);
        let Some((axis, bounds)) = self.header(header) else { return };
        let mut carries = Vec::new();
        for place in carried {
            let (name, term) = (self.scopes.get(*place).name.clone(), self.scopes.get(*place).term.clone());
            let Some(init) = self.value(term, &name) else { continue };
            let head = self.define(Op::Carried(axis, carries.len()), self.ty(init), &name);
            self.drafts[head.index()].name = Some(name.to_string());
            self.scopes.get_mut(*place).term = Term::Tile(head);
            carries.push(Carry { place: *place, init, head });
        }
        self.blocks.push(Block::default());
        self.depth += 1;
        self.accesses.enter();
        self.nested(inner, tile, carried);
        self.leave_loop_accesses(axis);
        self.depth -= 1;
        let nexts: Vec<ValueId> = carries.iter().map(|carry| self.next_of(carry)).collect();
        let body = self.blocks.pop().unwrap_or_default();
        let carried = carries
            .iter()
            .zip(nexts)
            .enumerate()
            .map(|(index, (carry, next))| self.close(axis, index, carry, next))
            .collect();
        self.emit(Stmt::Loop(Loop { axis, from: bounds.from, until: bounds.until, carried, body, line }));
        self.leave(mark);
    }

    fn next_of(&mut self, carry: &Carry) -> ValueId {
        let (name, term) = (self.scopes.get(carry.place).name.clone(), self.scopes.get(carry.place).term.clone());
        let Some(next) = self.value(term, &name) else { return carry.head };
        if !self.agree(carry.head, next) {
            let (before, after) = (self.ty(carry.head), self.ty(next));
            let text = format!(
                "`{name}` enters the loop spanning {} and leaves its body spanning {} -- a loop-carried value \
                    keeps its axes",
                self.axis_names(&before.axes),
                self.axis_names(&after.axes)
            );
            self.rustc(&name, text);
        }
        next
    }

    fn close(&mut self, axis: AxisId, index: usize, carry: &Carry, next: ValueId) -> Carried {
        let name = self.scopes.get(carry.place).name.clone();
        let ty: OpenType = self.ty(carry.head);
        let result = self.define(Op::LoopResult(axis, index), ty, &name);
        self.drafts[result.index()].name = Some(name.to_string());
        self.scopes.get_mut(carry.place).term = Term::Tile(result);
        Carried { name: name.to_string(), init: carry.init, head: carry.head, next, result }
    }

    /// Declares the loop variable.
    fn header(&mut self, header: &Header) -> Option<(AxisId, Bounds)> {
        let name = &header.axis;
        let term = self.expr(&header.range);
        let (kind, bounds) = match term {
            Term::Extent(bounds) => (AxisKind::Tiled, bounds),
            Term::Each(bounds) if is_each(&header.range) => (AxisKind::Each, bounds),
            Term::Each(_) => {
                self.ours(
                    &header.range,
                    "`each` stands in the loop's header only -- write `tile!(for r in each(R) { … })`",
                );
                return None;
            }
            Term::Poison => {
                self.scopes.declare(name, Term::Poison, false, self.depth);
                return None;
            }
            Term::Range(..) => {
                self.ours(
                    &header.range,
                    "a loop runs over a dim, so that its blocks and its tensors fit -- bound one: `T.range(a..b)`",
                );
                return None;
            }
            other => {
                let text = format!(
                    "a loop runs over a dim, this is {} -- write `K`, `each(K)`, `flat(A, B)` or `K.until(…)`",
                    other.describe()
                );
                self.rustc(&header.range, text);
                return None;
            }
        };
        if self.infer.loop_count() == MOST_AXES {
            self.fatal(name, format!("more than {MOST_AXES} loops in one kernel are not supported yet -- split it"));
        }
        let axis = self.infer.add_axis(name.to_string(), kind, Some(bounds.extent.clone()));
        let term = match kind {
            AxisKind::Each => Term::Int(Int::Axis(axis)),
            _ => Term::Axis(axis),
        };
        self.scopes.declare(name, term, false, self.depth);
        let from = bounds
            .from
            .map(|from| if int::is_natural(&from) { from } else { int::binary(IntOp::Max, from, Int::Const(0)) });
        Some((axis, Bounds { from: from.filter(|from| *from != Int::Const(0)), ..bounds }))
    }
}

fn is_each(range: &Expr) -> bool {
    match range {
        Expr::Paren(inner) => is_each(&inner.expr),
        Expr::Group(inner) => is_each(&inner.expr),
        Expr::Call(_) => true,
        _ => false,
    }
}
