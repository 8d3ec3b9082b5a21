//! Rows that are walked from the chunk of memory in which they begin: `skewed_rows.cuh`.

use super::access::LambdaParams;
use super::{Emitter, TilePart};
use crate::nest::AxisId;
use crate::program::layout::LayoutId;
use crate::program::shared::SharedId;
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

    /// In an unrolled loop, each of a thread's vectors up to the last that holds columns which exist.
    pub(super) fn by_vectors(&mut self, axis: AxisId, layout: LayoutId, body: &[Stmt]) {
        let (layout, span) = (self.program.layout(layout), self.span(axis));
        let (name, vec) = (&layout.name, layout.vec());
        self.out.line("#pragma unroll");
        self.out.line(format!("for (int vector = 0; vector < {name}::size / {vec}; ++vector) {{"));
        self.out.indent();
        self.out.line(format!("if (!has_vector<{name}>({span}, vector)) break;"));
        self.part = Some(TilePart::Vector(vec));
        self.stmts(body);
        self.part = None;
        self.out.dedent();
        self.out.line("}");
    }

    /// Of a function's template arguments and its own, those that name the vector that is meant.
    pub(super) fn vector(&self) -> (String, String) {
        match self.part {
            Some(TilePart::Vector(vec)) => (format!(", {vec}"), format!(", vector * {vec}")),
            _ => (String::new(), String::new()),
        }
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

    pub(super) fn keep_slice(&mut self, source: &Access, shared: SharedId, layout: LayoutId) {
        let AccessForm::Contiguous { cols, .. } = source.form else { return };
        let (layout, kept) = (&self.program.layout(layout).name, &self.program.shared(shared).name);
        let (head, tail) = (format!("keep_cols_skewed<{layout}>({kept}, "), format!(", {});", self.span(cols)));
        self.lambda(source, None, None, &head, &tail, false, LambdaParams::Row);
    }

    pub(super) fn load_kept_slice(&mut self, target: VarId, source: &Access, shared: SharedId, layout: LayoutId) {
        let (layout, kept) = (&self.program.layout(layout).name, &self.program.shared(shared).name);
        let (many, from) = self.vector();
        let head = format!("load_kept_cols_skewed<{layout}{many}>({}, {kept}, ", self.program.var(target).name);
        self.lambda(source, None, None, &head, &format!("{from});"), false, LambdaParams::Row);
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
        let (many, from) = self.vector();
        let (layout, value) = (&self.program.layout(id).name, &self.program.var(value).name);
        let head = format!("store_skewed<{layout}, {ty}{many}>({value}, ");
        let tail = format!(", {}{from});", self.span(cols));
        self.lambda(target, rows, None, &head, &tail, true, LambdaParams::Row);
        true
    }
}
