//! What only the end of a tile needs is loaded there: registers that would hold it while products are summed hold sums.
//!
//! ```text
//! b = load bias[j]              loop k carries (acc)
//! loop k carries (acc)     =>     …
//!   …                           b = load bias[j]
//! y = acc + b                   y = acc + b
//! ```

use super::tidy::{operands, resolve};
use super::{Checker, Draft};
use crate::nest::{Block, Nest, Op, Stmt, ValueId};
use std::collections::{BTreeMap, BTreeSet};

impl Checker<'_> {
    /// Loads, and what is made of them element by element, move past loops of products that read none of it.
    pub fn load_late(&self, block: &mut Block, aliases: &BTreeMap<ValueId, ValueId>, needed: &BTreeSet<ValueId>) {
        let mut readers = BTreeMap::new();
        let late = Late { nest: &self.nest, drafts: &self.drafts, aliases, needed };
        late.each_read(block, &mut |value| *readers.entry(value).or_insert(0) += 1);
        late.block(block, &readers);
    }
}

struct Late<'a> {
    nest: &'a Nest,
    drafts: &'a [Draft],
    aliases: &'a BTreeMap<ValueId, ValueId>,
    needed: &'a BTreeSet<ValueId>,
}

impl Late<'_> {
    fn op(&self, value: ValueId) -> &Op {
        &self.drafts[value.index()].op
    }

    fn block(&self, block: &mut Block, readers: &BTreeMap<ValueId, usize>) {
        // The last ones first: what a value is made of moves after it.
        for at in (0..block.stmts.len()).rev() {
            match &mut block.stmts[at] {
                Stmt::Loop(inner) => self.block(&mut inner.body, readers),
                Stmt::Value(value) if self.may_move(*value, readers) => {
                    let value = *value;
                    let rest = &block.stmts[at + 1..];
                    let Some(until) = rest.iter().position(|stmt| self.reads(stmt, value)) else { continue };
                    if rest[..until].iter().any(|stmt| self.multiplies(stmt)) {
                        block.stmts[at..=at + until].rotate_left(1);
                    }
                }
                Stmt::Value(_) | Stmt::Store { .. } => {}
            }
        }
    }

    /// Whether nothing but the value itself keeps what it is made of.
    fn may_move(&self, value: ValueId, readers: &BTreeMap<ValueId, usize>) -> bool {
        match self.op(value) {
            Op::Load { tensor, .. } => !self.nest.tensor(*tensor).mutable,
            Op::Fill(_) | Op::Scalar(_) | Op::Int(_) | Op::Predicate(_) => true,
            Op::Dot { .. } | Op::Reduce(..) | Op::Carried(..) | Op::LoopResult(..) => false,
            op => operands(op).into_iter().all(|operand| {
                let operand = resolve(self.aliases, operand);
                readers.get(&operand) == Some(&1) && self.may_move(operand, readers)
            }),
        }
    }

    fn reads(&self, stmt: &Stmt, value: ValueId) -> bool {
        let mut found = false;
        self.each_read_of(stmt, &mut |read| found |= read == value);
        found
    }

    fn multiplies(&self, stmt: &Stmt) -> bool {
        let Stmt::Loop(inner) = stmt else { return false };
        inner.body.stmts.iter().any(|stmt| match stmt {
            Stmt::Value(value) => matches!(self.op(*value), Op::Dot { .. }),
            Stmt::Loop(_) => self.multiplies(stmt),
            Stmt::Store { .. } => false,
        })
    }

    fn each_read(&self, block: &Block, each: &mut impl FnMut(ValueId)) {
        block.stmts.iter().for_each(|stmt| self.each_read_of(stmt, each));
    }

    fn each_read_of(&self, stmt: &Stmt, each: &mut impl FnMut(ValueId)) {
        match stmt {
            // What is the same under another number is read where that one is.
            Stmt::Value(value) if self.aliases.contains_key(value) || !self.needed.contains(value) => {}
            Stmt::Value(value) => {
                operands(self.op(*value)).into_iter().for_each(|operand| each(resolve(self.aliases, operand)));
            }
            Stmt::Store { value, .. } => each(resolve(self.aliases, *value)),
            Stmt::Loop(inner) => {
                for carried in &inner.carried {
                    each(resolve(self.aliases, carried.init));
                    each(resolve(self.aliases, carried.next));
                }
                self.each_read(&inner.body, each);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::nest::{Op, Stmt};
    use crate::testing::nest;
    use proc_macro2::TokenStream;
    use quote::quote;

    /// What a tile of `y` is made of, around the loop that sums products: the tensors that are loaded there, in order.
    fn order(before: TokenStream, step: TokenStream, result: TokenStream) -> Vec<String> {
        let (nest, _) = nest(quote! {
            fn f<M: Dim, N: Dim, K: Dim>(
                x: &Tensor<f16, (M, K)>, w: &Tensor<f16, (N, K)>, bias: &Tensor<f32, (N,)>, r: &Tensor<f16, (M, N)>,
                y: &mut Tensor<f32, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    #before
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(x[(i, k)], w[(j, k)].t()) #step; });
                    y[(i, j)] = #result;
                });
            }
        });
        let name = |stmt: &Stmt| match stmt {
            Stmt::Loop(_) => Some("loop".to_string()),
            Stmt::Value(value) => match nest.value(*value).op {
                Op::Load { tensor, .. } => Some(nest.tensor(tensor).name.clone()),
                Op::Reduce(..) => Some("sum".to_string()),
                _ => None,
            },
            Stmt::Store { .. } => None,
        };
        nest.body.stmts.iter().filter_map(name).collect()
    }

    #[test]
    fn what_follows_a_loop_is_loaded_after_it() {
        let before = quote!(let b = bias[j]; let rest = r[(i, j)].to::<f32>() * 0.5;);
        assert_eq!(order(before, quote!(), quote!(acc + b + rest)), ["loop", "bias", "r"]);
        assert_eq!(order(quote!(), quote!(), quote!(acc + bias[j])), ["loop", "bias"]);
    }

    #[test]
    fn what_a_loop_reads_or_a_result_had_stays_before_it() {
        assert_eq!(order(quote!(let b = bias[j];), quote!(*b), quote!(acc + b)), ["bias", "loop"]);
        assert_eq!(order(quote!(let old = y[(i, j)];), quote!(), quote!(acc + old)), ["y", "loop"]);
    }

    #[test]
    fn what_many_elements_make_few_of_stays_before_a_loop() {
        let before = quote!(let all = r[(i, j)].to::<f32>().row_sum(););
        assert_eq!(order(before, quote!(), quote!(acc + all)), ["r", "sum", "loop"]);
    }
}
