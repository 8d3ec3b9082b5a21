//! Inference of what the user left open: dtypes (`.to()`, literals) and the dim of a `..`.
//!
//! Values get their types here while the body is walked; two types that must agree are unified, and the end of the walk
//! reads the answers.

use crate::nest::{Axis, AxisId, AxisKind, Dtype, Extent};

/// A dtype that may still be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(usize);

#[derive(Clone, Copy)]
enum Known {
    Open,
    Is(Dtype),
    Same(Slot),
}

/// A tile's type while it may still be open.
#[derive(Clone, Debug)]
pub struct OpenType {
    pub dtype: Slot,
    pub axes: Vec<AxisId>,
}

pub enum Whole {
    Of(Extent),
    Open,
    Same(AxisId),
}

struct AxisEntry {
    name: String,
    kind: AxisKind,
    extent: Whole,
}

#[derive(Default)]
pub struct Inference {
    slots: Vec<Known>,
    axes: Vec<AxisEntry>,
}

impl Inference {
    pub fn open(&mut self) -> Slot {
        self.slots.push(Known::Open);
        Slot(self.slots.len() - 1)
    }

    pub fn known(&mut self, dtype: Dtype) -> Slot {
        self.slots.push(Known::Is(dtype));
        Slot(self.slots.len() - 1)
    }

    fn root(&self, slot: Slot) -> Slot {
        match self.slots[slot.0] {
            Known::Same(next) => self.root(next),
            _ => slot,
        }
    }

    pub fn dtype(&self, slot: Slot) -> Option<Dtype> {
        match self.slots[self.root(slot).0] {
            Known::Is(dtype) => Some(dtype),
            _ => None,
        }
    }

    /// False where both are known and differ.
    pub fn unify(&mut self, a: Slot, b: Slot) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return true;
        }
        match (self.slots[a.0], self.slots[b.0]) {
            (Known::Is(left), Known::Is(right)) => left == right,
            (Known::Is(_), _) => {
                self.slots[b.0] = Known::Same(a);
                true
            }
            _ => {
                self.slots[a.0] = Known::Same(b);
                true
            }
        }
    }

    pub fn add_axis(&mut self, name: String, kind: AxisKind, extent: Option<Extent>) -> AxisId {
        self.axes.push(AxisEntry { name, kind, extent: extent.map_or(Whole::Open, Whole::Of) });
        AxisId(self.axes.len() as u32 - 1)
    }

    pub fn axes(&self) -> impl Iterator<Item = AxisId> + use<> {
        (0..self.axes.len() as u32).map(AxisId)
    }

    /// Axes that a `tile!` introduced.
    pub fn loop_count(&self) -> usize {
        self.axes.iter().filter(|axis| axis.kind != AxisKind::Whole).count()
    }

    /// The axis that this one turned out to be.
    pub fn axis(&self, axis: AxisId) -> AxisId {
        match self.axes[axis.index()].extent {
            Whole::Same(next) => self.axis(next),
            _ => axis,
        }
    }

    pub fn kind(&self, axis: AxisId) -> AxisKind {
        self.axes[axis.index()].kind
    }

    pub fn name(&self, axis: AxisId) -> &str {
        &self.axes[self.axis(axis).index()].name
    }

    pub fn extent(&self, axis: AxisId) -> Option<&Extent> {
        match &self.axes[self.axis(axis).index()].extent {
            Whole::Of(extent) => Some(extent),
            _ => None,
        }
    }

    pub fn is_open(&self, axis: AxisId) -> bool {
        self.extent(axis).is_none()
    }

    /// The whole of a dim is one axis wherever it stands.
    pub fn find_whole(&self, wanted: &Extent) -> Option<AxisId> {
        self.axes().find(|axis| {
            self.kind(*axis) == AxisKind::Whole
                && matches!(&self.axes[axis.index()].extent, Whole::Of(extent) if extent == wanted)
        })
    }

    /// False where the axes differ for certain.
    pub fn unify_axes(&mut self, a: AxisId, b: AxisId) -> bool {
        let (a, b) = (self.axis(a), self.axis(b));
        if a == b {
            return true;
        }
        if self.kind(a) != AxisKind::Whole || self.kind(b) != AxisKind::Whole {
            return false;
        }
        if self.is_open(a) {
            self.axes[a.index()].extent = Whole::Same(b);
            true
        } else if self.is_open(b) {
            self.axes[b.index()].extent = Whole::Same(a);
            true
        } else {
            false
        }
    }

    pub fn same_axis(&self, a: AxisId, b: AxisId) -> bool {
        self.axis(a) == self.axis(b)
    }

    /// `None` for an axis that stands for another one, or whose dim nothing tells.
    pub fn finished_axis(&self, axis: AxisId) -> Option<Axis> {
        let entry = &self.axes[axis.index()];
        match &entry.extent {
            Whole::Of(extent) => Some(Axis { name: entry.name.clone(), extent: extent.clone(), kind: entry.kind }),
            _ => None,
        }
    }

    /// The axes of an operation over two tiles. A rank-2 operand's order stands; two of rank 1 span their axes in the order
    /// of declaration, so that the result meets other tiles of the same loops. `None` where two rank-2 operands disagree.
    pub fn union(&mut self, left: &[AxisId], right: &[AxisId]) -> Option<Vec<AxisId>> {
        self.settle(left, right);
        self.settle(right, left);
        let left: Vec<AxisId> = left.iter().map(|axis| self.axis(*axis)).collect();
        let right: Vec<AxisId> = right.iter().map(|axis| self.axis(*axis)).collect();
        if let ([a], [b]) = (left.as_slice(), right.as_slice()) {
            return Some(if a == b { left } else { self.declared(vec![*a, *b]) });
        }
        let (first, second) = if right.len() > left.len() && left.iter().all(|axis| right.contains(axis)) {
            (&right, &left)
        } else {
            (&left, &right)
        };
        let mut union = first.clone();
        union.extend(second.iter().filter(|axis| !first.contains(axis)));
        let kept =
            |axes: &[AxisId]| -> Vec<AxisId> { union.iter().filter(|axis| axes.contains(axis)).copied().collect() };
        (kept(&left) == left && kept(&right) == right).then_some(union)
    }

    /// Outer loops first, `..` last.
    pub fn declared(&self, mut axes: Vec<AxisId>) -> Vec<AxisId> {
        axes.sort_by_key(|axis| (self.kind(*axis) == AxisKind::Whole, *axis));
        axes
    }

    /// Gives an open `..` of one side the dim of the other side's.
    fn settle(&mut self, open: &[AxisId], by: &[AxisId]) {
        for (position, axis) in open.iter().enumerate() {
            if self.kind(*axis) != AxisKind::Whole || !self.is_open(*axis) {
                continue;
            }
            let candidates = if open.len() == by.len() { &by[position..=position] } else { by };
            let taken: Vec<AxisId> = open.iter().map(|axis| self.axis(*axis)).collect();
            let found = candidates
                .iter()
                .copied()
                .find(|other| self.kind(*other) == AxisKind::Whole && !taken.contains(&self.axis(*other)));
            if let Some(other) = found {
                self.unify_axes(*axis, other);
            }
        }
    }
}
