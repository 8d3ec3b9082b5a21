//! What the names of a body stand for while its tokens are rewritten.

use proc_macro2::Ident;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tensor argument: indexed, never moved.
    Tensor,
    /// A `let` that may hold a tile: used by value, so each use is a clone.
    Tile,
    /// Integers, bools, dims and loop variables: `Copy`, and the same inside closures.
    Plain,
    /// A scalar float inside a closure.
    Element,
    /// A constant without a dtype of its own: an `f64` until its use.
    Number,
}

#[derive(Default)]
pub struct Names {
    entries: Vec<Entry>,
}

struct Entry {
    name: Ident,
    kind: Kind,
    /// What is written in the name's place.
    stands_for: Option<Ident>,
    /// Closures around the declaration.
    closures: usize,
}

impl Names {
    pub fn declare(&mut self, name: &Ident, kind: Kind, closures: usize) {
        self.entries.push(Entry { name: name.clone(), kind, stands_for: None, closures });
    }

    pub fn declare_as(&mut self, name: &Ident, stands_for: Ident, kind: Kind) {
        self.entries.push(Entry { name: name.clone(), kind, stands_for: Some(stands_for), closures: 0 });
    }

    /// Kind, replacement, and the closures around the declaration.
    pub fn find(&self, name: &Ident) -> Option<(Kind, Option<&Ident>, usize)> {
        let entry = self.entries.iter().rev().find(|entry| entry.name == *name)?;
        Some((entry.kind, entry.stands_for.as_ref(), entry.closures))
    }

    pub fn mark(&self) -> usize {
        self.entries.len()
    }

    pub fn leave(&mut self, mark: usize) {
        self.entries.truncate(mark);
    }
}
