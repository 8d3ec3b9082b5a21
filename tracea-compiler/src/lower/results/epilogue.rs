//! Tiles that a result takes in on its way out, panel by panel: a residual, a gate.
//!
//! ```text
//! for k { acc += dot(a[(i, k)], b[(j, k)].t()) }
//! y[(i, j)] = (acc + bias[j]).map(silu) + r[(i, j)]
//! ```
//! becomes, where warps have roles,
//! ```text
//! producer, after the loop's steps           consumers, after the loop
//! for panel {                                t = (acc + bias).map(silu), all panels
//!     acquire the next slot                  for panel {
//!     fetch a panel of r into it                 wait until the slot is full; read the panel; release the slot
//! }                                              y = t + r; write and send the panel of y
//!                                            }
//! ```
//! The panels pass by the ring that fed the loop, as if it had some more steps: they take no room that a stage could have, and come
//! while the last products run. Of a store that takes one tile in, a slot has as many as its widest operand leaves room for, so that the others
//! are the next tile's the sooner. Where TMA cannot fetch them, threads read them from global memory, a panel at a time too: either
//! way one panel of registers lives beside the accumulators. Of a product the other way round, a panel has some of the tile's columns as its rows,
//! as the result's have, and is turned as warps read it.
//!
//! Warpgroups that take turns would hold up each other's steps there, and of those that have several blocks of rows each is at another one's
//! panel. Each asks for its own panels, to places of its own:
//! ```text
//! before the loop      fetch the first panels
//! after it             for panel { wait until it has come; read it; y = t + r; write and send the panel of y; fetch the next to its place }
//! ```

use super::stores::Panels;
use crate::lower::Lowering;
use crate::lower::analysis::{Use, inputs};
use crate::lower::bulk::{Boxes, Clip};
use crate::lower::loops::Resident;
use crate::lower::rings::{Count, Group, SiteKey};
use crate::lower::roles::Role;
use crate::nest::{AxisId, Block, Int, Op, Stmt as NestStmt, TensorId, ValueId};
use crate::program::layout::LayoutId;
use crate::program::shared::SharedId;
use crate::program::{
    BulkCopy, BulkForm, ConditionId, Domain, IntText, OwnId, OwnPanels, PanelSide, Premise, Program, RingId, Stmt,
    Turn, VarId,
};
use crate::schedule::{ScheduleError, WARPGROUP};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// A store, and what waits for it: loads of whole tiles, and what is computed from them.
#[derive(Clone, Debug)]
pub struct Epilogue {
    stored: (TensorId, ValueId),
    /// In program order.
    values: Vec<ValueId>,
    /// Loops that the block runs before, the last one first.
    loops: Vec<AxisId>,
}

/// A tile that comes by a ring, panel by panel, for the store that takes it in.
#[derive(Clone, Debug)]
pub struct Fetch {
    load: ValueId,
    stored: (TensorId, ValueId),
    panels: u32,
    side: PanelSide,
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    Ring(Box<Passage>),
    /// Each warpgroup fetches its own.
    Own(OwnId),
}

/// By the ring that fed the loop: so many panels at each of its turns.
#[derive(Clone, Debug)]
struct Passage {
    condition: ConditionId,
    ring: RingId,
    count: Count,
    shared: SharedId,
    /// Of a turn's panels, where `panel` is the first of them.
    copies: Vec<BulkCopy>,
}

impl Fetch {
    fn passage(&self) -> Option<&Passage> {
        match &self.way {
            Way::Ring(passage) => Some(passage),
            Way::Own(_) => None,
        }
    }
}

impl Passage {
    fn turn(&self) -> Turn {
        self.count.turn(self.ring, vec![self.shared])
    }

    /// One turn of the ring, where TMA fetches.
    fn pass(&self, steps: impl IntoIterator<Item = Stmt>) -> Stmt {
        let body = self.count.position().into_iter().chain(steps).chain([self.count.advance()]).collect();
        Stmt::Where { condition: self.condition, body, otherwise: Vec::new() }
    }

    fn panels_of_a_turn(&self) -> u32 {
        self.copies.len() as u32
    }

    /// The part that one panel has in a turn: the first one waits for all of them, the last one gives the slot back.
    fn pass_panel(&self, target: VarId, side: PanelSide, otherwise: Stmt) -> Stmt {
        let (turn, panels) = (self.turn(), self.panels_of_a_turn());
        let of_turn = IntText::Rem(Box::new(IntText::name("panel")), panels);
        let less = |a: IntText, b: IntText| IntText::Less(Box::new(a), Box::new(b));
        let only = |condition: IntText, body: Vec<Stmt>| match panels {
            1 => body,
            _ => vec![Stmt::If { condition, body }],
        };
        let slot = place_in_slot(&self.count, panels, of_turn.clone());
        let mut body = self.count.position();
        body.extend(only(less(of_turn.clone(), IntText::Const(1)), vec![Stmt::WaitFull(turn.clone())]));
        body.push(Stmt::ReadPanel { target, shared: self.shared, slot, side });
        let last = less(IntText::Const(i64::from(panels) - 2), of_turn);
        body.extend(only(last, vec![Stmt::Release(turn), self.count.advance()]));
        Stmt::Where { condition: self.condition, body, otherwise: vec![otherwise] }
    }
}

/// Of the places that slots have for panels.
fn place_in_slot(count: &Count, panels: u32, place: IntText) -> IntText {
    match panels {
        1 => count.slot.clone(),
        _ => count.slot.clone().times(panels).plus(place),
    }
}

impl Lowering<'_> {
    /// Finds the block's stores that take in tiles.
    pub fn choose_epilogues(&mut self, block: &Block) {
        let mut loops = Vec::new();
        for stmt in &block.stmts {
            match stmt {
                NestStmt::Loop(inner) => loops.insert(0, inner.axis),
                NestStmt::Store { tensor, index, value, .. } => {
                    let values = self.taken_in(block, *tensor, index, *value);
                    if !values.is_empty() {
                        self.epilogues.push(Epilogue { stored: (*tensor, *value), values, loops: loops.clone() });
                    }
                }
                NestStmt::Value(_) => {}
            }
        }
    }

    /// Whether the value waits for a store that takes it in.
    pub fn waits_for_store(&self, id: ValueId) -> bool {
        self.epilogues.iter().any(|epilogue| epilogue.values.contains(&id))
    }

    /// Loads of tiles, and what is computed from them, that nothing but this store by panels reads.
    fn taken_in(&self, block: &Block, tensor: TensorId, index: &[Int], value: ValueId) -> Vec<ValueId> {
        let domain = self.domain(value);
        let Domain::Tile(layout) = domain else { return Vec::new() };
        if self.role != Role::Consumer || self.side_of_panels(tensor, index, layout).is_none() {
            return Vec::new();
        }
        // Of what is written, only the result's own place, where nothing else is stored to the tensor that could come before.
        let is_store = |stmt: &&NestStmt| matches!(stmt, NestStmt::Store { tensor: stored, .. } if *stored == tensor);
        let once = block.stmts.iter().filter(is_store).count() == 1;
        let may_wait = |loaded: TensorId, at: &[Int]| {
            !self.nest.tensor(loaded).mutable || (loaded == tensor && once && at == index)
        };
        let loads = block.stmts.iter().filter_map(|stmt| match stmt {
            NestStmt::Value(id) => match &self.nest.value(*id).op {
                Op::Load { tensor: loaded, index: at } if may_wait(*loaded, at) => {
                    (self.domain(*id) == domain).then_some(*id)
                }
                _ => None,
            },
            _ => None,
        });
        let readers = loads.filter_map(|load| self.readers_up_to(load, value)).flatten();
        let mut values: Vec<ValueId> = readers.collect::<BTreeSet<_>>().into_iter().collect();
        values.sort_by_key(|id| self.facts.position[id.index()]);
        values
    }

    /// The load and all that is computed from it, where that is element-wise and ends in the stored value.
    fn readers_up_to(&self, load: ValueId, stored: ValueId) -> Option<BTreeSet<ValueId>> {
        let mut found = BTreeSet::from([load]);
        let mut open = vec![load];
        while let Some(id) = open.pop() {
            for usage in &self.facts.uses[id.index()] {
                match usage {
                    Use::Value(reader) => {
                        let folds_dot = match self.nest.value(*reader).op {
                            Op::Binary(_, a, b) => self.product_in(*reader, a, b).is_some(),
                            _ => false,
                        };
                        let together = self.is_elementwise(*reader)
                            && self.domain(*reader) == self.domain(stored)
                            && self.home.get(reader) == self.home.get(&load);
                        if folds_dot || !together {
                            return None;
                        }
                        if found.insert(*reader) {
                            open.push(*reader);
                        }
                    }
                    Use::Store if id == stored => {}
                    Use::Store | Use::Carry => return None,
                }
            }
        }
        let stores = self.facts.uses[stored.index()].iter().filter(|usage| **usage == Use::Store).count();
        (found.contains(&stored) && stores == 1).then_some(found)
    }

    /// The epilogue of this store, which begins.
    pub fn begin_epilogue(&mut self, tensor: TensorId, value: ValueId) -> Option<Epilogue> {
        let at = self.epilogues.iter().position(|epilogue| epilogue.stored == (tensor, value))?;
        Some(self.epilogues.remove(at))
    }

    pub fn store_epilogue(&mut self, epilogue: &Epilogue, index: &[Int]) -> Result<(), ScheduleError> {
        let (tensor, value) = epilogue.stored;
        let dtype = self.nest.tensor(tensor).dtype;
        let value = self.unrounded(value, dtype);
        let no_panels =
            || ScheduleError::new("a result takes tiles in by no panels -- this is a fault in the compiler");
        let Domain::Tile(layout) = self.domain(value) else { return Err(no_panels()) };
        let panels = match self.side_of_panels(tensor, index, layout) {
            Some(PanelSide::Columns) => self.transposed_panels(layout, dtype),
            _ => self.panels(layout, dtype),
        };
        let panels = panels.ok_or_else(no_panels)?;
        self.settle(&epilogue.values)?;
        let known = self.fetches.len();
        let is_load = |id: &&ValueId| matches!(self.nest.value(**id).op, Op::Load { .. });
        let alone = epilogue.values.iter().filter(is_load).count() == 1;
        for load in &epilogue.values {
            if let Some(fetch) = self.fetch_by_panels(*load, epilogue, layout, &panels, alone) {
                self.fetches.push(fetch);
            }
        }
        self.give_back_panels(known);
        let (target, bulk) = self.way_of_panels(tensor, index, layout, &panels);
        let body = self.nested(|this| {
            for id in &epilogue.values {
                this.value(*id)?;
            }
            let var = this.stored(tensor, value)?;
            this.store_panel(var, &panels, target, bulk);
            this.fetch_next_panels(known);
            Ok(())
        })?;
        let registers = self.registers_of(layout, &panels);
        let all = Stmt::Panels { count: panels.count, beside: panels.beside, registers, body, dealt: None };
        self.push_panels(epilogue.stored, panels.staging, all);
        Ok(())
    }

    /// What does not depend on the tiles that come is computed before, if all of it then lives in one tile's registers.
    fn settle(&mut self, values: &[ValueId]) -> Result<(), ScheduleError> {
        let mut tiles = BTreeSet::new();
        for id in values {
            for input in inputs(&self.nest.value(*id).op) {
                let mut input = input;
                while let Op::Transpose(inner) | Op::Broadcast(inner) = self.nest.value(input).op {
                    input = inner;
                }
                let own = self.domain(input) == self.domain(*id);
                if own && !values.contains(&input) && !self.is_free(input) {
                    tiles.insert(input);
                }
            }
        }
        if tiles.len() == 1 {
            for tile in tiles {
                self.materialize(tile)?;
            }
        }
        Ok(())
    }

    /// How a load's panels come by the ring of the last loop before, if its slots have room for them and TMA fetches boxes of them. `alone`: no others
    /// come with them, so that a slot may have several.
    fn fetch_by_panels(
        &mut self,
        load: ValueId,
        epilogue: &Epilogue,
        layout: LayoutId,
        panels: &Panels,
        alone: bool,
    ) -> Option<Fetch> {
        let Op::Load { tensor, index } = &self.nest.value(load).op else { return None };
        let (name, dtype) = (self.names.tensor(tensor.index()).to_string(), self.nest.tensor(*tensor).dtype);
        let shape = self.program.layout(layout).clone();
        // A slot has places for one panel of all of the tile's rows.
        let (boxes, (rows, cols)) = match panels.side {
            PanelSide::Rows => {
                (self.boxes(*tensor, index, shape.row_axis?, shape.col_axis)?, (shape.rows, panels.each))
            }
            PanelSide::Columns => {
                (self.boxes(*tensor, index, shape.col_axis, shape.row_axis?)?, (panels.each, shape.rows))
            }
        };
        if !(cols * dtype.bytes()).is_multiple_of(128) {
            return None;
        }
        let fetch = |way| Fetch { load, stored: epilogue.stored, panels: panels.count, side: panels.side, way };
        let is_apart = self.schedule.pingpong || panels.beside < panels.count;
        // Halves are turned as warps read them, of a panel of all rows.
        if panels.side == PanelSide::Columns && (is_apart || dtype.bytes() != 2) {
            return None;
        }
        if is_apart {
            return Some(fetch(Way::Own(self.own_panels(*tensor, boxes, panels))));
        }
        let site =
            epilogue.loops.iter().find_map(|axis| self.sites.iter().find(|site| site.key == SiteKey::Loop(*axis)))?;
        let together = if alone { panels.count } else { 1 };
        let (ring, count, bulk, (of_a_turn, host)) = site.moving.iter().find_map(|group| {
            let bulk = self.program.ring(group.ring).bulk?;
            let host = self.host_of_several(group, rows * cols * dtype.bytes(), together)?;
            Some((group.ring, group.count.clone(), bulk, host))
        })?;
        let premises = vec![Premise::Condition(bulk), Premise::Aligned(*tensor)];
        let condition = self.program.require(&format!("{}_BY_TMA", name.to_uppercase()), premises);
        let shared = self.guests(&format!("{name}_panel"), dtype, (rows, cols), (host, of_a_turn));
        let (map, at) = self.box_map(*tensor, boxes, (rows, cols.min(self.panel(*tensor))), Clip::default());
        let along = match panels.side {
            PanelSide::Rows => at.len() - 1,
            PanelSide::Columns => boxes.row_at(),
        };
        let first = at.get(along)?.clone().plus(IntText::name("panel").times(panels.each));
        let copy = |place: u32| {
            let mut at = at.clone();
            at[along] = first.clone().plus(IntText::Const((place * panels.each).into()));
            BulkCopy {
                shared,
                slot: Some(place_in_slot(&count, of_a_turn, IntText::Const(place.into()))),
                tensor: *tensor,
                map: map.clone(),
                at,
                form: BulkForm::Box,
                part: None,
                columns: None,
                rows: None,
            }
        };
        let copies = (0..of_a_turn).map(copy).collect();
        Some(fetch(Way::Ring(Box::new(Passage { condition, ring, count, shared, copies }))))
    }

    /// Places for the tensor's panels, and barriers, for each warpgroup.
    fn own_panels(&mut self, tensor: TensorId, boxes: Boxes, panels: &Panels) -> OwnId {
        /// One that is read while the next one comes.
        const PLACES: u32 = 2;
        let (name, dtype) = (self.nest.tensor(tensor).name.clone(), self.nest.tensor(tensor).dtype);
        let (rows, cols) = (panels.rows(), panels.each);
        let warpgroups = self.schedule.threads() / WARPGROUP;
        let shared = self.shared(&format!("{name}_panels"), dtype, rows, cols, PLACES * warpgroups);
        let buffer = &mut self.program.shared[shared.0 as usize];
        (buffer.panels, buffer.private) = (true, true);
        let row_at = boxes.row_at();
        let (map, at) = self.box_map(tensor, boxes, (rows, cols), Clip::default());
        let [name, counter] = ["came", "count"].map(|suffix| self.names.fresh(&format!("{name}_{suffix}")));
        let (panels, beside) = (panels.count, panels.beside);
        self.program.own.push(OwnPanels { name, counter, shared, places: PLACES, panels, beside, map, at, row_at });
        OwnId(self.program.own.len() as u32 - 1)
    }

    /// Of fetches from so many on, warpgroups that fetch for themselves ask for the panels that take the places of those that they have read.
    fn fetch_next_panels(&mut self, known: usize) {
        for fetch in &self.fetches[known..] {
            let Way::Own(own) = fetch.way else { continue };
            let OwnPanels { shared, counter, .. } = self.program.own(own);
            self.out.push(Stmt::FetchOwn { own, shared: *shared, first: false });
            self.out.push(Stmt::Advance(counter.clone()));
        }
    }

    /// The smallest of the group's buffers whose slots hold so many bytes.
    pub fn host(&self, group: &Group, bytes: u32) -> Option<SharedId> {
        self.host_of_several(group, bytes, 1).map(|(_, host)| host)
    }

    /// The smallest of the group's buffers whose slots hold most panels of so many bytes at a time, so that all of them come in whole turns; and how many.
    fn host_of_several(&self, group: &Group, bytes: u32, panels: u32) -> Option<(u32, SharedId)> {
        // Where wgmma's and TMA's swizzle begins anew.
        const WHOLE: u32 = 1024;
        let hold = |operand: &Resident| {
            let buffer = self.program.shared(operand.shared);
            let apart = |of_a_turn: u32| buffer.others == 0 && buffer.pitch.is_multiple_of(of_a_turn * WHOLE);
            let fits = |of_a_turn: &u32| {
                panels.is_multiple_of(*of_a_turn)
                    && buffer.tile_bytes() >= of_a_turn * bytes
                    && (*of_a_turn == 1 || apart(*of_a_turn))
            };
            let of_a_turn = (1..=panels).rev().find(fits)?;
            Some((of_a_turn, Reverse((buffer.tile_bytes(), operand.shared))))
        };
        let best = group.operands.iter().filter_map(hold).max();
        best.map(|(of_a_turn, Reverse((_, host)))| (of_a_turn, host))
    }

    /// Reads the tile's panel into registers.
    pub fn read_panel(&mut self, fetch: &Fetch, target: VarId, otherwise: Stmt) {
        match &fetch.way {
            Way::Ring(passage) => self.out.push(passage.pass_panel(target, fetch.side, otherwise)),
            Way::Own(own) => {
                let OwnPanels { shared, counter, .. } = self.program.own(*own);
                let read = Stmt::ReadPanel { target, shared: *shared, slot: IntText::name(counter), side: fetch.side };
                self.out.extend([Stmt::AwaitOwn(*own), read]);
            }
        }
    }

    /// The fetch of this load's panels.
    pub fn fetch_of(&self, load: ValueId) -> Option<Fetch> {
        self.fetches.iter().find(|fetch| fetch.load == load).cloned()
    }

    /// Blocks that leave a tile to another one give back the slots in which its panels came.
    fn give_back_panels(&mut self, known: usize) {
        let passed = each_turn(&self.fetches[known..], |passage, turn| {
            passage.pass([Stmt::WaitFull(turn.clone()), Stmt::Release(turn)])
        });
        if let (Some(passed), Some(leaving)) = (passed, self.leaving()) {
            leaving.push(passed);
        }
    }

    /// The producer's side: what the store takes in comes after the steps of the loop before it.
    pub fn fill_panels(&mut self, tensor: TensorId, value: ValueId) {
        self.lend_slots((tensor, value));
        let fetches = self.fetches.iter().filter(|fetch| fetch.stored == (tensor, value));
        let filled = each_turn(fetches, |passage, turn| {
            let bulk = Stmt::Bulk { turn: turn.clone(), copies: passage.copies.clone(), waits: false };
            passage.pass([Stmt::Acquire(turn), bulk])
        });
        self.out.extend(filled);
    }
}

/// What warpgroups fetch for themselves, they ask for before a unit's loop.
pub fn fetch_first_panels(program: &mut Program) {
    let own = (0..).zip(&program.own);
    let fetches: Vec<Stmt> =
        own.map(|(id, own)| Stmt::FetchOwn { own: OwnId(id), shared: own.shared, first: true }).collect();
    for stmt in &mut program.body {
        if let Stmt::ForUnits(unit) = stmt
            && let Some(at) = unit.iter().position(|stmt| matches!(stmt, Stmt::For { .. }))
        {
            unit.splice(at..at, fetches.iter().cloned());
        }
    }
}

/// What is done at each turn of the ring by which a store's panels come, `panel` being the first of them.
fn each_turn<'f>(fetches: impl IntoIterator<Item = &'f Fetch>, of: impl Fn(&Passage, Turn) -> Stmt) -> Option<Stmt> {
    let (mut body, mut panels) = (Vec::new(), None);
    for fetch in fetches {
        let Some(passage) = fetch.passage() else { continue };
        body.push(of(passage, passage.turn()));
        panels = panels.or(Some((fetch.panels, passage.panels_of_a_turn())));
    }
    let (all, of_a_turn) = panels?;
    Some(Stmt::For {
        var: "panel".into(),
        from: IntText::Const(0),
        until: IntText::Const(all.into()),
        step: IntText::Const(of_a_turn.into()),
        unroll: false,
        body,
    })
}

#[cfg(test)]
mod tests;
