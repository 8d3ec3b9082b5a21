//! The end of the walk: open types get their answers, and what nothing needs is left out.
//!
//! ```text
//! acc0 = carried(acc)            loop j carries (m)
//! acc  = result(acc)        =>     …
//! unused = load x[(i, j)]
//! ```
//!
//! Dropped are values that no store and no loop needs, casts to the dtype that a value already has, and carried values that
//! no iteration changes. Values are then numbered in program order.

use super::{Checker, Draft};
use crate::nest::{Axis, AxisId, AxisKind, Block, Carried, Dtype, Int, Loop, Nest, Op, Stmt, TileType, Value, ValueId};
use std::collections::{BTreeMap, BTreeSet};

impl Checker<'_> {
    /// `None` where the instance has faults.
    pub fn finish(mut self) -> Option<Nest> {
        if !self.failure.is_empty() {
            return None;
        }
        self.check_whole_axes();
        let mut block = self.blocks.pop().unwrap_or_default();
        let aliases = self.aliases(&mut block);
        let needed = self.needed(&block, &aliases);
        self.load_late(&mut block, &aliases, &needed);
        let axes = self.axis_numbers();
        if !self.failure.is_empty() {
            return None;
        }
        let mut renumber = Renumber {
            drafts: &self.drafts,
            checker: &self,
            aliases,
            needed,
            axes,
            values: BTreeMap::new(),
            order: Vec::new(),
        };
        let body = renumber.block(&block);
        let (values, grid) = (renumber.values(), self.nest.grid.iter().map(|axis| renumber.axis(*axis)).collect());
        let axes = self.finished_axes();
        let mut nest = self.nest;
        nest.body = body;
        nest.values = values;
        nest.axes = axes;
        nest.grid = grid;
        Some(nest)
    }

    /// A `..` whose dim nothing told.
    fn check_whole_axes(&mut self) {
        let open = self.infer.axes().any(|axis| self.infer.kind(axis) == AxisKind::Whole && self.infer.is_open(axis));
        if open {
            let name = self.kernel.name();
            self.failure.left_to_rustc.at(name, "the size of a `..` cannot be inferred -- name the tile's axes");
        }
    }

    fn axis_numbers(&self) -> BTreeMap<AxisId, AxisId> {
        let finished = self.infer.axes().filter(|axis| self.infer.finished_axis(*axis).is_some());
        finished.enumerate().map(|(number, axis)| (axis, AxisId(number as u32))).collect()
    }

    fn finished_axes(&self) -> Vec<Axis> {
        self.infer.axes().filter_map(|axis| self.infer.finished_axis(axis)).collect()
    }

    /// Values that are another value under a second number: identity casts, and carried values that never change.
    fn aliases(&self, block: &mut Block) -> BTreeMap<ValueId, ValueId> {
        let mut aliases = BTreeMap::new();
        for (number, draft) in self.drafts.iter().enumerate() {
            if let Op::Cast(source) = draft.op {
                let from = self.drafts[source.index()].ty.dtype;
                if self.dtype(from) == self.dtype(draft.ty.dtype) {
                    aliases.insert(ValueId(number as u32), source);
                }
            }
        }
        drop_unchanged(block, &mut aliases);
        aliases
    }

    /// What nothing fixed is `f32`.
    fn dtype(&self, slot: super::infer::Slot) -> Dtype {
        self.infer.dtype(slot).unwrap_or(Dtype::F32)
    }

    fn needed(&self, block: &Block, aliases: &BTreeMap<ValueId, ValueId>) -> BTreeSet<ValueId> {
        let mut needed = Needed { drafts: &self.drafts, aliases, found: BTreeSet::new() };
        // A loop's carried values are needed if their results or heads are, which later rounds may find.
        loop {
            let before = needed.found.len();
            needed.block(block);
            if needed.found.len() == before {
                return needed.found;
            }
        }
    }
}

pub fn resolve(aliases: &BTreeMap<ValueId, ValueId>, value: ValueId) -> ValueId {
    aliases.get(&value).map_or(value, |next| resolve(aliases, *next))
}

/// Innermost loops first: an outer loop may carry only what an inner one left unchanged.
fn drop_unchanged(block: &mut Block, aliases: &mut BTreeMap<ValueId, ValueId>) {
    for stmt in &mut block.stmts {
        let Stmt::Loop(inner) = stmt else { continue };
        drop_unchanged(&mut inner.body, aliases);
        inner.carried.retain(|carried| {
            let changed = resolve(aliases, carried.next) != carried.head;
            if !changed {
                aliases.insert(carried.head, carried.init);
                aliases.insert(carried.result, carried.init);
            }
            changed
        });
    }
}

struct Needed<'a> {
    drafts: &'a [Draft],
    aliases: &'a BTreeMap<ValueId, ValueId>,
    found: BTreeSet<ValueId>,
}

impl Needed<'_> {
    fn block(&mut self, block: &Block) {
        for stmt in &block.stmts {
            match stmt {
                Stmt::Value(_) => {}
                Stmt::Store { value, .. } => self.value(*value),
                Stmt::Loop(inner) => {
                    self.block(&inner.body);
                    for carried in &inner.carried {
                        if self.found.contains(&carried.head) || self.found.contains(&carried.result) {
                            self.value(carried.init);
                            self.value(carried.next);
                            self.found.extend([carried.head, carried.result]);
                        }
                    }
                }
            }
        }
    }

    fn value(&mut self, value: ValueId) {
        let value = resolve(self.aliases, value);
        if self.found.insert(value) {
            operands(&self.drafts[value.index()].op).into_iter().for_each(|operand| self.value(operand));
        }
    }
}

pub fn operands(op: &Op) -> Vec<ValueId> {
    match op {
        Op::Fill(_)
        | Op::Scalar(_)
        | Op::Int(_)
        | Op::Predicate(_)
        | Op::Load { .. }
        | Op::Carried(..)
        | Op::LoopResult(..) => Vec::new(),
        Op::Dot { a, b } | Op::Binary(_, a, b) | Op::Compare(_, a, b) => vec![*a, *b],
        Op::Transpose(a) | Op::Unary(_, a) | Op::Cast(a) | Op::Broadcast(a) | Op::Reduce(_, a, _) => vec![*a],
        Op::Select(a, b, c) => vec![*a, *b, *c],
        Op::Call(_, arguments) => arguments.clone(),
    }
}

struct Renumber<'a> {
    checker: &'a Checker<'a>,
    drafts: &'a [Draft],
    aliases: BTreeMap<ValueId, ValueId>,
    needed: BTreeSet<ValueId>,
    axes: BTreeMap<AxisId, AxisId>,
    values: BTreeMap<ValueId, ValueId>,
    /// Old numbers by new number, with the final operation.
    order: Vec<(ValueId, Op)>,
}

impl Renumber<'_> {
    fn block(&mut self, block: &Block) -> Block {
        let mut stmts = Vec::new();
        for stmt in &block.stmts {
            match stmt {
                Stmt::Value(value) => {
                    if self.needed.contains(value) && !self.aliases.contains_key(value) {
                        stmts.push(Stmt::Value(self.define(*value)));
                    }
                }
                Stmt::Store { tensor, index, value, line } => stmts.push(Stmt::Store {
                    tensor: *tensor,
                    index: index.iter().map(|component| self.int(component)).collect(),
                    value: self.value(*value),
                    line: *line,
                }),
                Stmt::Loop(inner) => {
                    let inner = self.inner(inner);
                    if !inner.body.stmts.is_empty() || !inner.carried.is_empty() {
                        stmts.push(Stmt::Loop(inner));
                    }
                }
            }
        }
        Block { stmts }
    }

    fn inner(&mut self, inner: &Loop) -> Loop {
        let carried: Vec<&Carried> =
            inner.carried.iter().filter(|carried| self.needed.contains(&carried.head)).collect();
        let axis = self.axis(inner.axis);
        let inits: Vec<ValueId> = carried.iter().map(|carried| self.value(carried.init)).collect();
        let heads: Vec<ValueId> = carried
            .iter()
            .enumerate()
            .map(|(index, carried)| self.define_as(carried.head, Op::Carried(axis, index)))
            .collect();
        let body = self.block(&inner.body);
        let nexts: Vec<ValueId> = carried.iter().map(|carried| self.value(carried.next)).collect();
        let results: Vec<ValueId> = carried
            .iter()
            .enumerate()
            .map(|(index, carried)| self.define_as(carried.result, Op::LoopResult(axis, index)))
            .collect();
        let carried = carried
            .iter()
            .enumerate()
            .map(|(index, carried)| Carried {
                name: carried.name.clone(),
                init: inits[index],
                head: heads[index],
                next: nexts[index],
                result: results[index],
            })
            .collect();
        Loop {
            axis,
            from: inner.from.as_ref().map(|from| self.int(from)),
            until: inner.until.as_ref().map(|until| self.int(until)),
            carried,
            body,
            line: inner.line,
        }
    }

    fn define(&mut self, value: ValueId) -> ValueId {
        let op = self.drafts[value.index()].op.renamed(&|value| self.value(value), &|axis| self.axis(axis));
        self.define_as(value, op)
    }

    fn define_as(&mut self, value: ValueId, op: Op) -> ValueId {
        let number = ValueId(self.order.len() as u32);
        self.order.push((value, op));
        self.values.insert(value, number);
        number
    }

    /// Definitions stand before uses, so every needed value has its number.
    fn value(&self, value: ValueId) -> ValueId {
        self.values[&resolve(&self.aliases, value)]
    }

    fn axis(&self, axis: AxisId) -> AxisId {
        self.axes[&self.checker.infer.axis(axis)]
    }

    fn int(&self, int: &Int) -> Int {
        int.renamed(&|axis| self.axis(axis))
    }

    fn values(&self) -> Vec<Value> {
        self.order
            .iter()
            .map(|(old, op)| {
                let draft = &self.drafts[old.index()];
                let axes = draft.ty.axes.iter().map(|axis| self.axis(*axis)).collect();
                let ty = TileType { dtype: self.checker.dtype(draft.ty.dtype), axes };
                Value { op: op.clone(), ty, name: draft.name.clone(), line: draft.line }
            })
            .collect()
    }
}
