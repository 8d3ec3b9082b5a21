//! Errors gathered on the user's tokens, let go at the end of a phase.

use quote::ToTokens;
use std::collections::BTreeSet;
use std::fmt::Display;

#[derive(Default)]
pub struct Errors {
    all: Option<syn::Error>,
    /// Instances share their text: each fault is told once.
    told: BTreeSet<(usize, usize, String)>,
}

impl Errors {
    pub fn at(&mut self, tokens: impl ToTokens, text: impl Display) {
        self.push(syn::Error::new_spanned(tokens, text));
    }

    pub fn push(&mut self, error: syn::Error) {
        let start = error.span().start();
        if !self.told.insert((start.line, start.column, error.to_string())) {
            return;
        }
        match &mut self.all {
            Some(all) => all.combine(error),
            none => *none = Some(error),
        }
    }

    /// The value, or its error among the others.
    pub fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_none()
    }

    pub fn finish(self) -> syn::Result<()> {
        self.all.map_or(Ok(()), Err)
    }
}

/// What checking found wrong with a kernel, by who tells the user.
#[derive(Default)]
pub struct Failure {
    /// Told by us; the body can still be shown to rustc.
    pub ours: Errors,
    /// Told by us; rustc would only stumble over the consequences, so it gets no body.
    pub fatal: Errors,
    /// rustc words these better on the same tokens. Told by us only if it stays silent.
    pub left_to_rustc: Errors,
}

impl Failure {
    pub fn is_empty(&self) -> bool {
        self.ours.is_empty() && self.fatal.is_empty() && self.left_to_rustc.is_empty()
    }
}

impl From<Box<Failure>> for syn::Error {
    fn from(failure: Box<Failure>) -> syn::Error {
        let mut all = Errors::default();
        for part in [failure.fatal, failure.ours, failure.left_to_rustc] {
            if let Err(error) = part.finish() {
                all.push(error);
            }
        }
        all.all.unwrap_or_else(|| syn::Error::new(proc_macro2::Span::call_site(), "the kernel could not be checked"))
    }
}

/// From a later phase: the body itself is sound.
impl From<syn::Error> for Failure {
    fn from(error: syn::Error) -> Failure {
        let mut failure = Failure::default();
        failure.ours.push(error);
        failure
    }
}
