//! Names in sight, innermost last.

use super::term::Term;
use proc_macro2::Ident;

pub struct Variable {
    pub name: Ident,
    pub term: Term,
    pub mutable: bool,
    /// Inner loops around the declaration.
    pub depth: usize,
    /// Read inside a loop that the declaration stands outside of.
    pub read_in_loop: bool,
}

#[derive(Default)]
pub struct Scopes {
    variables: Vec<Variable>,
}

impl Scopes {
    pub fn declare(&mut self, name: &Ident, term: Term, mutable: bool, depth: usize) {
        self.variables.push(Variable { name: name.clone(), term, mutable, depth, read_in_loop: false });
    }

    pub fn declare_argument(&mut self, name: &Ident, term: Term) {
        self.variables.retain(|known| known.name != *name);
        self.variables.push(Variable { name: name.clone(), term, mutable: false, depth: 0, read_in_loop: false });
    }

    /// Where the innermost variable of this name stands, if any.
    pub fn find(&self, name: &Ident) -> Option<usize> {
        self.variables.iter().rposition(|variable| variable.name == *name)
    }

    pub fn get(&self, place: usize) -> &Variable {
        &self.variables[place]
    }

    pub fn get_mut(&mut self, place: usize) -> &mut Variable {
        &mut self.variables[place]
    }

    /// Innermost variable for each name, by place.
    pub fn visible(&self) -> Vec<usize> {
        (0..self.variables.len()).filter(|place| self.find(&self.variables[*place].name) == Some(*place)).collect()
    }

    pub fn mark(&self) -> usize {
        self.variables.len()
    }

    /// Forgets what was declared since the mark.
    pub fn leave(&mut self, mark: usize) -> Vec<Variable> {
        self.variables.split_off(mark)
    }
}
