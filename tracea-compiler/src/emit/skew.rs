//! Rows that are walked from the chunk of memory in which they begin: `skewed_rows.cuh`.

use super::Emitter;
use super::access::LambdaParams;
use crate::nest::AxisId;
use crate::program::layout::LayoutId;
use crate::program::{Access, AccessForm, Domain, Stmt, VarId};

impl Emitter<'_> {
    pub(super) fn is_skewed(&self, axis: AxisId) -> bool {
        self.program.skew.as_ref().is_some_and(|skew| skew.columns.contains(&axis))
    }

    /// A loop along skewed rows, where its step is one by columns; `before` is what stands before that.
    pub(super) fn walk_columns(
        &mut self,
        var: &str,
        (until, step): (&str, &str),
        before: &[Stmt],
        walked: &Walked<'_>,
    ) {
        let Walked { columns, axis, layout, body } = *walked;
        let layout = &self.program.layout(layout).name;
        let Some(skew) = &self.program.skew else { return self.unwritten("walk_columns") };
        let head = format!("walk_columns<{layout}, {step}>({}, {until}, ", skew.name);
        let steps = format!("[&](int {var}, auto {columns}) {{");
        if before.is_empty() {
            self.out.line(head + &steps);
        } else {
            self.out.line(format!("{head}[&](int {var}) {{"));
            self.out.indent();
            self.stmts(before);
            self.out.dedent();
            self.out.line(format!("}}, {steps}"));
        }
        self.out.indent();
        let outside = self.columns.replace((axis, columns.to_owned()));
        self.stmts(body);
        self.columns = outside;
        self.out.dedent();
        self.out.line("});");
    }

    /// Which columns of the tile exist.
    pub(super) fn span(&self, cols: AxisId) -> String {
        if let Some((_, columns)) = self.columns.as_ref().filter(|(axis, _)| *axis == cols) {
            return columns.clone();
        }
        format!("Span{{{}, {}}}", self.start(cols), self.limit(cols))
    }

    pub(super) fn find_skew(&mut self, layout: LayoutId, row: &Access) {
        let (Some(skew), AccessForm::Scattered { rows, .. }) = (&self.program.skew, row.form) else {
            return self.unwritten("find_skew");
        };
        let head = format!("const int {} = skew_of<{}>(", skew.name, self.program.layout(layout).name);
        self.lambda(row, rows, None, &head, ");", false, LambdaParams::Row);
    }

    /// Whether the load is one of such rows, or of what they share.
    pub(super) fn load_skewed(&mut self, target: VarId, source: &Access) -> bool {
        let AccessForm::Contiguous { rows, cols } = source.form else { return false };
        let var = self.program.var(target);
        let (function, layout, rows) = match var.domain {
            Domain::Tile(id) => ("load_skewed", id, rows),
            Domain::Cols(id) => ("load_cols_skewed", id, None),
            Domain::Rows(_) | Domain::Once => return false,
        };
        if !self.is_skewed(cols) {
            return false;
        }
        let head = format!("{function}<{}>({}, ", self.program.layout(layout).name, var.name);
        let tail = format!(", {});", self.span(cols));
        self.row_lambda(source, (rows, cols), &head, &tail, false);
        true
    }

    pub(super) fn keep_skewed(&mut self, layout: LayoutId, block: &str, source: &Access) -> bool {
        let AccessForm::Contiguous { rows, cols } = source.form else { return false };
        if !self.is_skewed(cols) {
            return false;
        }
        let head = format!("keep_skewed<{}>({block}, ", self.program.layout(layout).name);
        let tail = format!(", {});", self.span(cols));
        self.row_lambda(source, (rows, cols), &head, &tail, false);
        true
    }

    pub(super) fn store_skewed(&mut self, value: VarId, target: &Access) -> bool {
        let (Domain::Tile(id), AccessForm::Contiguous { rows, cols }) = (self.program.var(value).domain, target.form)
        else {
            return false;
        };
        if !self.is_skewed(cols) {
            return false;
        }
        let ty = self.nest.tensor(target.tensor).dtype.cuda();
        let (layout, value) = (&self.program.layout(id).name, &self.program.var(value).name);
        let head = format!("store_skewed<{layout}, {ty}>({value}, ");
        let tail = format!(", {});", self.span(cols));
        self.row_lambda(target, (rows, cols), &head, &tail, true);
        true
    }

    /// Where rows begin, whichever step it is.
    fn row_lambda(
        &mut self,
        access: &Access,
        (rows, cols): (Option<AxisId>, AxisId),
        head: &str,
        tail: &str,
        writes: bool,
    ) {
        let outside = self.from_begin.replace(cols);
        self.lambda(access, rows, None, head, tail, writes, LambdaParams::Row);
        self.from_begin = outside;
    }
}

/// What [`Stmt::ByColumns`] says.
#[derive(Clone, Copy)]
pub(super) struct Walked<'s> {
    pub columns: &'s str,
    pub axis: AxisId,
    pub layout: LayoutId,
    pub body: &'s [Stmt],
}
