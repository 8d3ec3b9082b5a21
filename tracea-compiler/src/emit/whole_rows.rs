//! Rows that threads hold whole, or take whole in turn: `whole_rows.cuh`, `rows_in_turn.cuh`.

use super::access::LambdaParams;
use super::{Emitter, TilePart};
use crate::nest::AxisId;
use crate::program::layout::{LayoutId, LayoutKind};
use crate::program::shared::SharedId;
use crate::program::{Access, AccessForm, Domain, Kept, Stmt, VarId, WholeRows};

impl Emitter<'_> {
    /// The rows, where the axis is the one along which they are whole.
    fn whole_along(&self, axis: AxisId) -> Option<&WholeRows> {
        self.program.whole.as_ref().filter(|whole| whole.axis == axis)
    }

    pub(super) fn find_parts(&mut self, layout: LayoutId, row: &Access) {
        let (Some(whole), AccessForm::Scattered { rows, .. }) = (&self.program.whole, row.form) else {
            return self.unwritten("find_parts");
        };
        let layout = self.program.layout(layout);
        let in_turn = matches!(layout.kind, LayoutKind::WholeRows { in_turn: Some(_), .. });
        let (ty, function) = if in_turn { ("RowPartsInTurn", "parts_in_turn") } else { ("RowParts", "parts_of") };
        let head = format!("const {ty} {} = {function}<{}>(", whole.name, layout.name);
        let tail = format!(", {});", self.limit(whole.axis));
        self.lambda(row, rows, None, &head, &tail, false, LambdaParams::Row);
    }

    pub(super) fn by_parts(&mut self, layout: LayoutId, body: &[Stmt]) {
        let Some(whole) = &self.program.whole else { return self.unwritten("by_parts") };
        let (layout, parts) = (&self.program.layout(layout).name, &whole.name);
        self.out.line(format!("by_parts<{layout}>({parts}, [&](auto slots) {{"));
        self.out.indent();
        self.part = Some(TilePart::Slots);
        self.stmts(body);
        self.part = None;
        self.out.dedent();
        self.out.line("});");
    }

    /// The last of a function's arguments, where it is to go by some slots only.
    pub(super) fn slots_meant(&self) -> &'static str {
        if matches!(self.part, Some(TilePart::Slots)) { ", slots" } else { "" }
    }

    /// Where the element of a register is along the axis, counted from the row's first vector.
    pub(super) fn column_of_row(&self, axis: AxisId, domain: Domain) -> Option<String> {
        let whole = self.whole_along(axis)?;
        let (Domain::Tile(id) | Domain::Cols(id)) = domain else { return None };
        let layout = self.program.layout(id);
        let is_whole = layout.col_axis == axis && matches!(layout.kind, LayoutKind::WholeRows { .. });
        is_whole.then(|| format!("{}::col(reg, {})", layout.name, whole.name))
    }

    pub(super) fn load_whole(&mut self, target: VarId, source: &Access) -> bool {
        let (Domain::Tile(id), AccessForm::Contiguous { rows, cols }) = (self.program.var(target).domain, source.form)
        else {
            return false;
        };
        let Some(whole) = self.whole_along(cols) else { return false };
        let head = format!("load_whole<{}>({}, ", self.program.layout(id).name, self.program.var(target).name);
        let tail = format!(", {});", whole.name);
        self.lambda(source, rows, None, &head, &tail, false, LambdaParams::Row);
        true
    }

    pub(super) fn keep_slice(&mut self, name: &str, source: &Access, shared: SharedId, layout: LayoutId) {
        let Some(whole) = &self.program.whole else { return self.unwritten("keep_slice") };
        let (layout, kept) = (&self.program.layout(layout).name, &self.program.shared(shared).name);
        let (head, tail) =
            (format!("const auto {name} = keep_slice<{layout}>({kept}, "), format!(", {});", whole.name));
        self.lambda(source, None, None, &head, &tail, false, LambdaParams::Row);
    }

    pub(super) fn load_slice(&mut self, target: VarId, name: &str, shared: SharedId, layout: LayoutId) {
        let Some(whole) = &self.program.whole else { return self.unwritten("load_slice") };
        let (layout, kept) = (&self.program.layout(layout).name, &self.program.shared(shared).name);
        let (target, parts, slots) = (&self.program.var(target).name, &whole.name, self.slots_meant());
        self.out.line(format!("load_slice<{layout}>({target}, {kept}, {name}, {parts}{slots});"));
    }

    /// A whole row's layout, the slot in which it is kept, and the name of its ends.
    fn kept_row<'k>(&self, row: &'k Kept) -> Option<(LayoutId, String, &'k str)> {
        let Kept::Row { shared, layout, slot, ends } = row else { return None };
        let shared = self.program.shared(*shared);
        Some((*layout, self.slot(&shared.name, Some(slot), shared), ends))
    }

    pub(super) fn declare_ends(&mut self, row: &Kept) {
        let Kept::Row { shared, layout, ends, .. } = row else { return self.unwritten("declare_ends") };
        let (layout, shared) = (&self.program.layout(*layout).name, self.program.shared(*shared));
        self.out.line(format!("RowEnds<{layout}, {}, {}> {ends};", shared.dtype.cuda(), shared.stages));
    }

    pub(super) fn keep_row(&mut self, row: &Kept, source: &Access) {
        let (Some(whole), Some((layout, slot, ends))) = (&self.program.whole, self.kept_row(row)) else {
            return self.unwritten("keep_row");
        };
        let AccessForm::Contiguous { rows, .. } = source.form else { return self.unwritten("keep_row") };
        let head = format!("keep_row<{}>({slot}, {ends}, ", self.program.layout(layout).name);
        let tail = format!(", {}{});", whole.name, self.slots_meant());
        self.lambda(source, rows, None, &head, &tail, false, LambdaParams::Row);
    }

    pub(super) fn load_row(&mut self, target: VarId, row: &Kept) {
        let Some((layout, slot, ends)) = self.kept_row(row) else { return self.unwritten("load_row") };
        let (layout, target) = (&self.program.layout(layout).name, &self.program.var(target).name);
        let slots = self.slots_meant();
        self.out.line(format!("load_row<{layout}>({target}, {slot}, {ends}{slots});"));
    }

    pub(super) fn hold_slice(&mut self, name: &str, slice: &Kept) {
        let (Some(whole), Kept::Slice { name: slice, shared, layout }) = (&self.program.whole, slice) else {
            return self.unwritten("hold_slice");
        };
        let (layout, kept) = (&self.program.layout(*layout).name, &self.program.shared(*shared).name);
        self.out.line(format!("const auto {name} = hold_slice<{layout}>({kept}, {slice}, {});", whole.name));
    }

    pub(super) fn load_held_slice(&mut self, target: VarId, name: &str, layout: LayoutId) {
        let (layout, target) = (&self.program.layout(layout).name, &self.program.var(target).name);
        self.out.line(format!("load_held<{layout}>({target}, {name}{});", self.slots_meant()));
    }

    pub(super) fn store_whole(&mut self, value: VarId, target: &Access) -> bool {
        let (Domain::Tile(id), AccessForm::Contiguous { rows, cols }) = (self.program.var(value).domain, target.form)
        else {
            return false;
        };
        let Some(whole) = self.whole_along(cols) else { return false };
        let ty = self.nest.tensor(target.tensor).dtype.cuda();
        let (layout, value) = (&self.program.layout(id).name, &self.program.var(value).name);
        let head = format!("store_whole<{layout}, {ty}>({value}, ");
        let tail = format!(", {}{});", whole.name, self.slots_meant());
        self.lambda(target, rows, None, &head, &tail, true, LambdaParams::Row);
        true
    }

    /// Gives elements past a row's ends a value, where the axis is that of whole rows.
    pub(super) fn mask_ends(&mut self, target: VarId, axis: AxisId, value: &str) -> bool {
        let (Domain::Tile(id), Some(whole)) = (self.program.var(target).domain, self.whole_along(axis)) else {
            return false;
        };
        let (layout, target) = (&self.program.layout(id).name, &self.program.var(target).name);
        self.out.line(format!("mask_ends<{layout}>({target}, {}, {value}{});", whole.name, self.slots_meant()));
        true
    }
}
