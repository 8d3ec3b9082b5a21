//! Results on their way out, panel by panel, and what they take in.

use super::access::LambdaParams;
use super::int_text::sum;
use super::{Emitter, tile_name};
use crate::program::layout::LayoutId;
use crate::program::shared::SharedId;
use crate::program::{Access, AccessForm, BulkStore, Domain, IntText, OwnId, OwnPanels, PanelSide, VarId};
use crate::schedule::{WARPGROUP, panel};

impl Emitter<'_> {
    /// The registers of a tile that a panel has, so many at most, as the head of a loop. How often it goes round is known before what panel it is.
    pub(super) fn registers_of_panel(&self, layout: LayoutId, many: u32) -> String {
        let layout = self.program.layout(layout);
        let in_rows = self.panels_beside.map_or(layout.size(), |(_, times)| layout.size() / times);
        match self.panels_beside {
            _ if in_rows.is_multiple_of(many) => {
                format!("for (int reg = panel * {many}; reg < (panel + 1) * {many}; ++reg)")
            }
            None => {
                format!("for (int reg = panel * {many}; reg < min((panel + 1) * {many}, {}::size); ++reg)", layout.name)
            }
            Some(_) => {
                let of = |side: &str| format!("{side}_register<{}, {many}>(panel)", layout.name);
                let (first, end) = (of("first"), of("end"));
                format!("for (int reg = {first}; reg < {first} + {many}; ++reg) if (reg < {end})")
            }
        }
    }

    pub(super) fn read_panel(&mut self, target: VarId, shared: SharedId, slot: &IntText, side: PanelSide) {
        let (target, shared) = (self.program.var(target), self.program.shared(shared));
        let Domain::Tile(layout) = target.domain else { return self.unwritten("read_panel") };
        let (layout, buffer) = (&self.program.layout(layout).name, tile_name(&shared.name));
        let from = match shared.private {
            true => {
                let places = shared.stages / (self.program.threads / WARPGROUP);
                format!("own_panel<{buffer}, {places}>({}, {})", shared.name, self.int_text(slot))
            }
            false => self.slot(&shared.name, Some(slot), shared),
        };
        let function = match side {
            PanelSide::Rows => "read_panel",
            PanelSide::Columns => "read_transposed_panel",
        };
        self.out.line(format!("{function}<{layout}, {buffer}>({}, panel, {from});", target.name));
    }

    /// Coordinates go innermost first, as PTX has them.
    pub(super) fn fetch_own(&mut self, own: OwnId, first: bool) {
        let OwnPanels { name, counter, shared, places, panels, beside, map, at, row_at } = self.program.own(own);
        let shared = self.program.shared(*shared);
        let (panel, ahead) = match first {
            true => ("panel".to_string(), "panel".to_string()),
            false => (format!("(panel + {places})"), places.to_string()),
        };
        let last = at.len() - 1;
        let coordinate = |(axis, at): (usize, &IntText)| match axis {
            axis if axis == last => sum(self.int_text(at), &format!("{panel} % {beside} * {}", shared.cols)),
            axis if axis == *row_at => sum(self.int_text(at), &format!("panel_row({panel}, {beside})")),
            _ => self.int_text(at),
        };
        let coordinates: Vec<String> = at.iter().enumerate().rev().map(coordinate).collect();
        let fetch = format!(
            "fetch_own_panel<{}, {places}>({}, {name}, {counter} + {ahead}, {map}, {});",
            tile_name(&shared.name),
            shared.name,
            coordinates.join(", ")
        );
        match first {
            true => {
                self.out.line("if (sends_panels()) {");
                self.out.indent();
                self.out.line("#pragma unroll");
                self.out.line(format!("for (int panel = 0; panel < {}; ++panel) {fetch}", places.min(panels)));
                self.out.dedent();
                self.out.line("}");
            }
            false => self.out.line(format!("if (panel + {places} < {panels} && sends_panels()) {fetch}")),
        }
    }

    pub(super) fn await_own(&mut self, own: OwnId) {
        let OwnPanels { name, counter, places, .. } = self.program.own(own);
        self.out.line(format!("await_own_panel<{places}>({name}, {counter});"));
    }

    pub(super) fn read_tile(&mut self, target: VarId, shared: SharedId, slot: &IntText) {
        let (target, shared) = (self.program.var(target), self.program.shared(shared));
        let Domain::Tile(layout) = target.domain else { return self.unwritten("read_tile") };
        let (layout, buffer) = (&self.program.layout(layout).name, tile_name(&shared.name));
        let from = self.slot(&shared.name, Some(slot), shared);
        self.out.line(format!("read_tile<{layout}, {buffer}>({}, {from});", target.name));
    }

    pub(super) fn write_panel(&mut self, value: VarId, staging: SharedId, side: PanelSide) {
        let value = self.program.var(value);
        let Domain::Tile(layout) = value.domain else { return self.unwritten("write_panel") };
        let (layout, place) = (&self.program.layout(layout).name, self.place_of_panel(staging));
        let buffer = tile_name(&self.program.shared(staging).name);
        let function = match side {
            PanelSide::Rows => "write_panel",
            PanelSide::Columns => "write_transposed_panel",
        };
        self.out.line(format!("{function}<{layout}, {buffer}>({}, panel, {place});", value.name));
    }

    /// Coordinates go innermost first, as PTX has them.
    pub(super) fn send_panel(&mut self, staging: SharedId, store: &BulkStore, side: PanelSide) {
        let shared = self.program.shared(staging);
        let (rows, columns, width) = (shared.rows, shared.cols, panel(shared.dtype));
        let BulkStore { map, at, row_at, last: less } = store;
        let map = match less {
            Some((panel, less)) => match self.panels_beside {
                Some((beside, _)) => format!("panel % {beside} == {panel} ? {less} : {map}"),
                None => format!("panel == {panel} ? {less} : {map}"),
            },
            None => map.clone(),
        };
        let last = at.len() - 1;
        // A box has 128 bytes of each row.
        let boxes: Vec<String> = (0..columns / width)
            .map(|part| {
                let (along_rows, along_last) = match (side, self.panels_beside) {
                    (PanelSide::Rows, Some((beside, _))) => {
                        (format!("panel_row(panel, {beside})"), format!("panel % {beside} * {columns}"))
                    }
                    (PanelSide::Rows, None) => ("panel_row()".to_string(), format!("panel * {columns}")),
                    (PanelSide::Columns, Some((beside, _))) => {
                        (format!("panel % {beside} * {rows}"), format!("panel_row(panel, {beside})"))
                    }
                    (PanelSide::Columns, None) => (format!("panel * {rows}"), "panel_row()".to_string()),
                };
                let along_last = if part > 0 { format!("{along_last} + {}", part * width) } else { along_last };
                let coordinate = |(axis, at): (usize, &IntText)| match axis {
                    axis if axis == last => sum(self.int_text(at), &along_last),
                    axis if axis == *row_at => sum(self.int_text(at), &along_rows),
                    _ => self.int_text(at),
                };
                let coordinates: Vec<String> = at.iter().enumerate().rev().map(coordinate).collect();
                let place = self.place_of_panel(staging);
                let place = if part > 0 { format!("{place} + {}", part * width * rows) } else { place };
                format!("tma_store({map}, {place}, {});", coordinates.join(", "))
            })
            .collect();
        self.out.line("if (sends_panels()) {");
        self.out.indent();
        boxes.into_iter().for_each(|store| self.out.line(store));
        self.out.line("tma_store_commit();");
        self.out.dedent();
        self.out.line("}");
    }

    pub(super) fn store_panel(&mut self, staging: SharedId, target: &Access, side: PanelSide, at_a_time: u32) {
        let AccessForm::Contiguous { rows, cols } = target.form else { return self.unwritten("store_panel") };
        let (shared, places) = (self.program.shared(staging), self.places(staging));
        let (buffer, align, begin) = (tile_name(&shared.name), self.align(target), self.places_begin(staging));
        let head = match side {
            PanelSide::Rows => {
                let columns = self.block_name(cols);
                format!("store_panel<{buffer}, {places}, {align}, {columns}, {at_a_time}>({begin}, panel, ")
            }
            PanelSide::Columns => {
                let Some(columns) = rows.map(|rows| self.block_name(rows)) else {
                    return self.unwritten("store_panel");
                };
                let function = format!("store_transposed_panel<{buffer}, {places}, {align}, {columns}, {at_a_time}>");
                format!("{function}({begin}, panel, ")
            }
        };
        let alone = match (&self.some_panels, side) {
            (Some(some), PanelSide::Rows) => format!(", {some}"),
            _ => String::new(),
        };
        let tail = format!(", {}{alone});", self.valid_cols(target, cols));
        self.lambda(target, rows, None, &head, &tail, true, LambdaParams::Row);
    }

    /// Of panels that have been sent before, none may be on its way where it is not known which they were.
    pub(super) fn await_panel(&self, staging: SharedId) -> String {
        let places = self.places(staging);
        match &self.some_panels {
            Some(some) => format!("await_panel<{places}>({some} ? 0 : panel);"),
            None => format!("await_panel<{places}>(panel);"),
        }
    }

    /// Of the places that the warpgroup has for panels in turn, this one's.
    fn place_of_panel(&self, staging: SharedId) -> String {
        let shared = self.program.shared(staging);
        format!(
            "own_panel<{}, {}>({}, panel)",
            tile_name(&shared.name),
            self.places(staging),
            self.places_begin(staging)
        )
    }

    /// Where the places of all warpgroups begin.
    fn places_begin(&self, staging: SharedId) -> String {
        let shared = self.program.shared(staging);
        let slot = shared.lent.as_ref().map(|lent| IntText::name(&lent.slot));
        self.slot(&shared.name, slot.as_ref(), shared)
    }

    fn places(&self, staging: SharedId) -> u32 {
        let shared = self.program.shared(staging);
        shared.lent.as_ref().map_or(shared.stages / (self.program.threads / WARPGROUP), |lent| lent.places)
    }
}
