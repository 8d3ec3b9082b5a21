//! Rows that a block takes whole: loops along them have one step each, so that there are no loops, and what several of them loaded or
//! computed is there once.
//!
//! ```text
//! for j { m = max(m, x[(i, j)]) }                    s = x[(i, j)]
//! for j { y[(i, j)] = x[(i, j)] - m }       →        m = max(m, s);  y[(i, j)] = s - m
//! ```

use crate::nest::{AxisId, Loop, Nest, Op, Stmt, Value, ValueId};

/// The nest without its loops along these axes, which have the same extent; of them, the first is left.
pub fn taken_whole(nest: &Nest, columns: &[AxisId]) -> Option<Nest> {
    let first = *columns.first()?;
    let mut whole = nest.clone();
    let same = (0..nest.values.len()).map(|index| ValueId(index as u32)).collect();
    let mut taking = Taking { whole: &mut whole, columns, first, same, known: Vec::new() };
    let stmts = taking.stmts(&nest.body.stmts);
    whole.body.stmts = stmts;
    Some(whole)
}

struct Taking<'a> {
    whole: &'a mut Nest,
    columns: &'a [AxisId],
    first: AxisId,
    /// What each value is now: itself, or an earlier one.
    same: Vec<ValueId>,
    known: Vec<ValueId>,
}

impl Taking<'_> {
    fn stmts(&mut self, stmts: &[Stmt]) -> Vec<Stmt> {
        let mut taken = Vec::new();
        for stmt in stmts {
            match stmt {
                Stmt::Value(id) => taken.extend(self.value(*id).map(Stmt::Value)),
                Stmt::Store { tensor, index, value, line } => taken.push(Stmt::Store {
                    tensor: *tensor,
                    index: index.iter().map(|component| component.renamed(&|axis| self.axis(axis))).collect(),
                    value: self.same[value.index()],
                    line: *line,
                }),
                Stmt::Loop(inner) => taken.extend(self.only_step(inner)),
            }
        }
        taken
    }

    /// What a loop carries is what it was before, and then what its body leaves.
    fn only_step(&mut self, inner: &Loop) -> Vec<Stmt> {
        for carried in &inner.carried {
            self.same[carried.head.index()] = self.same[carried.init.index()];
        }
        let body = self.stmts(&inner.body.stmts);
        for carried in &inner.carried {
            self.same[carried.result.index()] = self.same[carried.next.index()];
        }
        body
    }

    /// The value in the new nest, unless it is another one there.
    fn value(&mut self, id: ValueId) -> Option<ValueId> {
        let Value { op, ty, .. } = &self.whole.values[id.index()];
        if matches!(op, Op::Carried(..) | Op::LoopResult(..)) {
            return None;
        }
        let op = op.renamed(&|value| self.same[value.index()], &|axis| self.axis(axis));
        let mut ty = ty.clone();
        ty.axes.iter_mut().for_each(|axis| *axis = self.axis(*axis));
        let alike = |known: &&ValueId| self.whole.value(**known).op == op && self.whole.value(**known).ty == ty;
        // A tensor is never read after it was written.
        if let Some(known) = self.known.iter().find(alike) {
            self.same[id.index()] = *known;
            return None;
        }
        self.known.push(id);
        let value = &mut self.whole.values[id.index()];
        (value.op, value.ty) = (op, ty);
        Some(id)
    }

    fn axis(&self, axis: AxisId) -> AxisId {
        if self.columns.contains(&axis) { self.first } else { axis }
    }
}

#[cfg(test)]
mod tests {
    use super::taken_whole;
    use crate::lower::analysis::Facts;
    use crate::nest::{Nest, Op, Stmt};
    use crate::testing;
    use proc_macro2::TokenStream;
    use quote::quote;

    /// A nest over rows, and the same with its rows taken whole.
    fn both(output: TokenStream, body: TokenStream) -> (Nest, Nest) {
        let (nest, _) = testing::nest(quote! {
            fn f<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, #output) {
                tile!(for i in M { #body });
            }
        });
        let loops: Vec<_> = nest
            .body
            .stmts
            .iter()
            .filter_map(|stmt| if let Stmt::Loop(inner) = stmt { Some(inner.axis) } else { None })
            .collect();
        let whole = taken_whole(&nest, &loops).expect("loops");
        (nest, whole)
    }

    fn count(nest: &Nest, is_wanted: impl Fn(&Op) -> bool) -> usize {
        Facts::of(nest).order.iter().filter(|id| is_wanted(&nest.value(**id).op)).count()
    }

    #[test]
    fn what_several_loops_load_and_compute_is_there_once() {
        let (nest, whole) = both(
            quote!(y: &mut Tensor<f16, (M, N)>),
            quote! {
                let mut sum = zeros::<f32>(i);
                tile!(for j in N { sum += x[(i, j)].to::<f32>().exp().row_sum(); });
                tile!(for j in N { y[(i, j)] = (x[(i, j)].to::<f32>().exp() / sum).to(); });
            },
        );
        let counts = |nest: &Nest| {
            (count(nest, |op| matches!(op, Op::Load { .. })), count(nest, |op| matches!(op, Op::Unary(..))))
        };
        assert_eq!((counts(&nest), counts(&whole)), ((2, 2), (1, 1)));
        assert!(!whole.body.stmts.iter().any(|stmt| matches!(stmt, Stmt::Loop(_))));
    }

    #[test]
    fn what_is_carried_begins_with_what_it_was_before() {
        let (_, whole) = both(
            quote!(y: &mut Tensor<f32, (M,)>),
            quote! {
                let mut largest = full::<f32>(i, 3.0);
                tile!(for j in N { largest = largest.max(x[(i, j)].to::<f32>().row_max()); });
                y[i] = largest;
            },
        );
        let Some(Stmt::Store { value, .. }) = whole.body.stmts.last() else { panic!("a store") };
        let Op::Binary(_, before, _) = whole.value(*value).op else { panic!("the larger of two") };
        assert_eq!(whole.value(before).op, Op::Fill(3.0));
    }
}
