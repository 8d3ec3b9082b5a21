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

    /// A step for the threads that hold columns of it.
    pub(super) fn by_columns(&mut self, columns: &str, axis: AxisId, layout: LayoutId, body: &[Stmt]) {
        let (layout, span) = (&self.program.layout(layout).name, self.span(axis));
        self.out.line(format!("by_columns<{layout}>({span}, [&](auto {columns}) {{"));
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
        let (start, limit) = (self.start(cols), self.limit(cols));
        format!("Span{{-{start}, {limit} - {start}}}")
    }

    pub(super) fn find_skew(&mut self, layout: LayoutId, row: &Access) {
        let (Some(skew), AccessForm::Scattered { rows, .. }) = (&self.program.skew, row.form) else { return };
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
        self.lambda(source, rows, None, &head, &tail, false, LambdaParams::Row);
        true
    }

    pub(super) fn keep_skewed(&mut self, layout: LayoutId, block: &str, source: &Access) -> bool {
        let AccessForm::Contiguous { rows, cols } = source.form else { return false };
        if !self.is_skewed(cols) {
            return false;
        }
        let head = format!("keep_skewed<{}>({block}, ", self.program.layout(layout).name);
        let tail = format!(", {});", self.span(cols));
        self.lambda(source, rows, None, &head, &tail, false, LambdaParams::Row);
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
        self.lambda(target, rows, None, &head, &tail, true, LambdaParams::Row);
        true
    }
}
