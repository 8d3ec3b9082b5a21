//! Statements: lets, assignments, `if` on flags, stores, loops.

use super::{Checker, Term};
use crate::ast::Tile;
use crate::nest::ValueId;
use proc_macro2::Ident;
use syn::{Block, Expr, ExprAssign, ExprBinary, Item, Local, Macro, Pat, Stmt};

impl Checker<'_> {
    /// The function's own block: constants, then the grid.
    pub fn top_level(&mut self) {
        let block = &self.kernel.item.block;
        for stmt in &block.stmts {
            match stmt {
                Stmt::Local(local) => self.local(local),
                Stmt::Item(item) => self.item(item),
                Stmt::Macro(stmt) if Tile::is(&stmt.mac) => self.grid(&stmt.mac),
                Stmt::Expr(Expr::Macro(expr), _) if Tile::is(&expr.mac) => self.grid(&expr.mac),
                other => {
                    self.fatal(
                        other,
                        "only `let` and one `tile!` stand at the top of a kernel -- move this into the `tile!` block",
                    );
                }
            }
        }
        if self.nest.grid.is_empty() && self.failure.is_empty() {
            let name = self.kernel.name();
            self.fatal(
                name,
                "no `tile!` at the top of this kernel -- its outermost loop is `tile!(for (i, j) in (M, N) { … })`",
            );
        }
    }

    /// The block's value; its names are forgotten.
    pub fn block(&mut self, block: &Block) -> Term {
        let mark = self.scopes.mark();
        let mut last = Term::UNIT;
        for stmt in &block.stmts {
            last = self.stmt(stmt);
        }
        self.leave(mark);
        last
    }

    /// Closes a scope and finds what its loops were meant to carry.
    pub fn leave(&mut self, mark: usize) {
        for variable in self.scopes.leave(mark) {
            let forgotten = variable.mutable
                && variable.read_in_loop
                && matches!(variable.term, Term::Tile(_) | Term::Number(..))
                && !self.names.assigned.contains(&variable.name.to_string());
            if forgotten {
                let name = &variable.name;
                self.ours(
                    name,
                    format!(
                        "`{name}` is `mut` and read in a loop, but nothing assigns it, so no iteration sees \
                        another's work -- assign it in the loop (`{name} = …`, without `let`) or drop `mut`"
                    ),
                );
            }
        }
    }

    fn stmt(&mut self, stmt: &Stmt) -> Term {
        match stmt {
            Stmt::Local(local) => {
                self.local(local);
                Term::UNIT
            }
            Stmt::Item(item) => {
                self.item(item);
                Term::UNIT
            }
            Stmt::Macro(stmt) => {
                self.macro_call(&stmt.mac);
                Term::UNIT
            }
            Stmt::Expr(expr, semicolon) => {
                let term = self.expr(expr);
                if semicolon.is_some() { Term::UNIT } else { term }
            }
        }
    }

    pub fn macro_call(&mut self, mac: &Macro) -> Term {
        if !Tile::is(mac) {
            return self
                .fatal(&mac.path, "a kernel calls no macro but `tile!` -- move the check or the message to the host");
        }
        if self.closures > 0 {
            return self
                .fatal(&mac.path, "no loop stands inside a closure: it sees one element -- move the `tile!` out");
        }
        match Tile::open(mac) {
            Ok(tile) => self.tile_loop(&tile),
            Err(error) => self.failure.fatal.push(error),
        }
        Term::UNIT
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Const(item) => {
                let term = self.expr(&item.expr);
                let term = self.annotated(term, &item.ty);
                self.scopes.declare(&item.ident, term, false, self.depth);
            }
            Item::Use(_) => {}
            other => {
                self.fatal(other, "this item is not supported inside a kernel yet -- move it out");
            }
        }
    }

    fn local(&mut self, local: &Local) {
        let term = match &local.init {
            None => None,
            Some(init) => {
                if let Some((word, _)) = &init.diverge {
                    self.fatal(word, "`let … else` is not allowed in a kernel: nothing in it can fail");
                }
                Some(self.expr(&init.expr))
            }
        };
        self.bind(&local.pat, term);
    }

    pub fn bind(&mut self, pattern: &Pat, term: Option<Term>) {
        match pattern {
            Pat::Ident(name) => {
                if let Some(Term::Tile(value)) = term {
                    self.name_value(value, &name.ident);
                }
                self.warn_of_shadowed_carry(&name.ident);
                // A variable without a value yet is read as a fault until its first assignment.
                let term = term.unwrap_or(Term::Poison);
                self.scopes.declare(&name.ident, term, name.mutability.is_some(), self.depth);
            }
            Pat::Type(typed) => {
                let term = term.map(|term| self.annotated(term, &typed.ty));
                self.bind(&typed.pat, term);
            }
            Pat::Wild(_) => {}
            Pat::Paren(inner) => self.bind(&inner.pat, term),
            Pat::Tuple(names) => match term {
                Some(Term::Tuple(parts)) if parts.len() == names.elems.len() => {
                    for (name, part) in names.elems.iter().zip(parts) {
                        self.bind(name, Some(part));
                    }
                }
                other => {
                    if !matches!(other, Some(Term::Poison)) {
                        self.rustc(names, "this pattern does not fit the value");
                    }
                    names.elems.iter().for_each(|name| self.bind(name, Some(Term::Poison)));
                }
            },
            other => {
                self.fatal(other, "this pattern is not supported yet -- bind plain names and tuples of names");
            }
        }
    }

    fn name_value(&mut self, value: ValueId, name: &Ident) {
        let draft = &mut self.drafts[value.index()];
        if draft.name.is_none() {
            draft.name = Some(name.to_string());
        }
    }

    /// `let acc = acc + …` inside a loop is a slip for `acc = acc + …`: [`Checker::leave`] tells it where `acc` is never
    /// assigned.
    fn warn_of_shadowed_carry(&mut self, name: &Ident) {
        if let Some(place) = self.scopes.find(name) {
            let variable = self.scopes.get_mut(place);
            variable.read_in_loop |= variable.mutable && variable.depth < self.depth;
        }
    }

    pub fn assign(&mut self, assign: &ExprAssign) -> Term {
        let value = self.expr(&assign.right);
        self.assign_to(&assign.left, value);
        Term::UNIT
    }

    fn assign_to(&mut self, target: &Expr, value: Term) {
        match target {
            Expr::Paren(inner) => self.assign_to(&inner.expr, value),
            Expr::Infer(_) => {}
            Expr::Index(index) => {
                let tensor = self.expr(&index.expr);
                let at = self.expr(&index.index);
                self.store(index, tensor, at, value);
            }
            Expr::Tuple(targets) => match value {
                Term::Tuple(parts) if parts.len() == targets.elems.len() => {
                    for (target, part) in targets.elems.iter().zip(parts) {
                        self.assign_to(target, part);
                    }
                }
                Term::Poison => {}
                _ => {
                    self.rustc(targets, "this tuple does not fit the value");
                }
            },
            Expr::Path(path) => match path.path.get_ident() {
                Some(name) => self.assign_name(name, value),
                None => {
                    self.rustc(path, "only variables and elements of tensors are assigned");
                }
            },
            other => {
                self.fatal(other, "only variables and elements of tensors are assigned");
            }
        }
    }

    fn assign_name(&mut self, name: &Ident, value: Term) {
        let Some(place) = self.scopes.find(name) else {
            self.rustc(name, format!("`{name}` is not known here"));
            return;
        };
        let (before, depth) = (self.scopes.get(place).term.clone(), self.scopes.get(place).depth);
        match (&before, &value) {
            (Term::Poison, _) | (_, Term::Poison) => {}
            (Term::Tile(old), new) => {
                let Some(new) = self.value(new.clone(), name) else { return };
                self.name_value(new, name);
                if !self.agree(*old, new) {
                    let (old, new) = (self.ty(*old), self.ty(new));
                    let text = format!(
                        "`{name}` spans {}, this value spans {} -- a variable keeps its type, use another name",
                        self.axis_names(&old.axes),
                        self.axis_names(&new.axes)
                    );
                    self.rustc(name, text);
                }
                self.scopes.get_mut(place).term = Term::Tile(new);
                return;
            }
            (Term::Tensor(_), _) => {
                self.fatal(
                    name,
                    format!("`{name}` is a tensor: its elements are assigned -- write `{name}[(i, j)] = …`"),
                );
                return;
            }
            _ if depth < self.depth => {
                let text = format!(
                    "`{name}` is {}, and only tiles are carried from one iteration to the next, other things \
                        not yet -- compute it from the loop variable",
                    before.describe()
                );
                self.ours(name, text);
            }
            _ => {}
        }
        self.scopes.get_mut(place).term = value;
    }

    /// `acc += e`, `c[(i, j)] += e`.
    pub fn assign_operation(&mut self, binary: &ExprBinary) -> Term {
        let right = self.expr(&binary.right);
        if let Expr::Index(index) = &*binary.left {
            let tensor = self.expr(&index.expr);
            let at = self.expr(&index.index);
            let old = self.load(index, tensor.clone(), at.clone());
            let sum = self.operate(&binary.op, old, right, binary);
            self.store(index, tensor, at, sum);
            return Term::UNIT;
        }
        let left = self.expr(&binary.left);
        let value = self.operate(&binary.op, left, right, binary);
        self.assign_to(&binary.left, value);
        Term::UNIT
    }
}
