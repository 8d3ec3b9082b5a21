//! Rows whose places are worked out in part before the loops around: `held_rows.cuh`.

use super::Emitter;
use crate::program::layout::LayoutId;
use crate::program::{Access, AccessForm, Domain, Held, VarId};

impl Emitter<'_> {
    pub(super) fn hold_rows(&mut self, layout: LayoutId, access: &Access) {
        let (Some(Held { name, own, .. }), AccessForm::Contiguous { rows: Some(rows), .. }) =
            (&access.held, access.form)
        else {
            return;
        };
        let layout = &self.program.layout(layout).name;
        self.out.line(format!("PlacePart<{}> {name}[{layout}::row_size];", access.inside.len()));
        self.out.line(format!("hold_rows<{layout}>({name},"));
        self.out.indent();
        self.place_part(access, own, rows, true, ");");
        self.out.dedent();
    }

    /// Whether the load is one of such rows.
    pub(super) fn load_held(&mut self, target: VarId, source: &Access) -> bool {
        let var = self.program.var(target);
        let (Some(Held { name, step, .. }), Domain::Tile(id), AccessForm::Contiguous { cols, .. }) =
            (&source.held, var.domain, source.form)
        else {
            return false;
        };
        let form = AccessForm::Contiguous { rows: None, cols };
        let added = Access { index: step.clone(), form, limits: Vec::new(), held: None, ..source.clone() };
        let place = self.place(&added, None, None);
        let along: Vec<&str> = place.inside.iter().map(|(at, _)| at.as_str()).collect();
        let sizes: Vec<&str> = place.inside.iter().map(|(_, size)| size.as_str()).collect();
        let (count, ty) = (along.len(), self.nest.tensor(source.tensor).dtype.cuda());
        let layout = &self.program.layout(id).name;
        let rows = format!(
            "HeldRows<{ty}, {count}, {layout}::row_size>{{{name}, {}, {{{}}}, AxisSizes<{count}>{{{}}}}}",
            place.pointer(),
            along.join(", "),
            sizes.join(", ")
        );
        let (align, whole, columns) = (self.align(source), self.whole(), self.columns(source, cols));
        let load = format!("load_tile_vec<{layout}, {align}{whole}>({}, {rows}, {columns});", var.name);
        self.out.line("{");
        self.out.indent();
        place.lines.into_iter().for_each(|line| self.out.line(line));
        self.out.line(load);
        self.out.dedent();
        self.out.line("}");
        true
    }
}
