//! Whether all that is stored is the same, whichever number a loop's sums were relative to.
//!
//! ```text
//! m, l = Σ exp(s - m), acc = Σ exp(s - m) * v       by a number d less in m's place, l and acc are exp(d) times as much
//! acc / l                                           the same
//! m + log(l)                                        d less and d more: the same
//! l, m, l + 1                                       not so
//! ```
//! A value is a multiple of some power of that factor, or ends some multiple of d off, or the same. Another loop may go on with the sums, by a
//! number of its own.

use super::loops::nest_of;
use super::rejoined;
use super::relative::Exponential;
use crate::nest::{BinaryOp, Block, Loop, Nest, Op, ReduceOp, ScalarId, Stmt, UnaryOp, ValueId};
use crate::program::Rejoin;
use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::LN_2;

/// What becomes of a value whose loop had a number `d` less in the extreme's place.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Same,
    /// It is multiplied by this power of the factor.
    Power(f64),
    /// So many times `d` are added.
    Shift(Rate),
}

/// What becomes of the extreme itself.
const EXTREME: Change = Change::Shift(Rate { number: -1.0, scalar: None });

/// A number, times a scalar argument where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate {
    number: f64,
    scalar: Option<ScalarId>,
}

/// Whether nobody who reads the loop's results can tell which number the sums of the extreme at this place were relative to.
pub fn holds(nest: &Nest, outer: &Loop, innermost: &Loop, extreme: usize) -> bool {
    let changes = || {
        let ways = rejoined::find(nest, outer, innermost)?;
        let mut results = BTreeMap::from([(outer.carried[extreme].result, EXTREME)]);
        let mut rate = None;
        for (way, carried) in ways.iter().zip(&outer.carried) {
            let Rejoin::Relative { fade, extreme: of } = way else { continue };
            if *of == extreme {
                results.insert(carried.result, Change::Power(1.0));
                let own = rate_of(nest, *fade)?;
                (*rate.get_or_insert(own) == own).then_some(())?;
            }
        }
        Some(Changes { nest, known: results, past: BTreeSet::new(), rate: rate? })
    };
    changes().is_some_and(|mut changes| changes.all_hold(&nest.body, outer))
}

/// How fast the exponential grows.
fn rate_of(nest: &Nest, fade: ValueId) -> Option<Rate> {
    let exponential = Exponential::of(nest, fade)?;
    let base = Rate { number: if exponential.is_of_two() { LN_2 } else { 1.0 }, scalar: None };
    exponential.scale.map_or(Some(base), |scale| base.times(number(nest, scale)?))
}

/// A number, or a scalar argument.
fn number(nest: &Nest, id: ValueId) -> Option<Rate> {
    match nest.value(id).op {
        Op::Fill(number) => Some(Rate { number, scalar: None }),
        Op::Scalar(scalar) => Some(Rate { number: 1.0, scalar: Some(scalar) }),
        Op::Transpose(inner) | Op::Broadcast(inner) => number(nest, inner),
        _ => None,
    }
}

impl Rate {
    fn times(self, other: Rate) -> Option<Rate> {
        let scalar = match (self.scalar, other.scalar) {
            (Some(_), Some(_)) => return None,
            (one, another) => one.or(another),
        };
        Some(Rate { number: self.number * other.number, scalar })
    }

    fn plus(self, other: Rate) -> Option<Change> {
        /// Constants such as the logarithm of two are written to so many digits.
        const DIGITS: f64 = 1e-6;
        if self.scalar != other.scalar {
            return None;
        }
        let sum = self.number + other.number;
        let is_nothing = sum.abs() <= DIGITS * self.number.abs();
        Some(if is_nothing { Change::Same } else { Change::Shift(Rate { number: sum, ..self }) })
    }
}

struct Changes<'n> {
    nest: &'n Nest,
    known: BTreeMap<ValueId, Change>,
    /// What changes, of before a loop that went on.
    past: BTreeSet<ValueId>,
    rate: Rate,
}

impl Changes<'_> {
    /// Whether what is stored, and what other loops carry, is the same.
    fn all_hold(&mut self, block: &Block, but: &Loop) -> bool {
        block.stmts.iter().all(|stmt| match stmt {
            Stmt::Value(_) => true,
            Stmt::Store { value, .. } => self.of(*value) == Some(Change::Same),
            Stmt::Loop(inner) if inner == but => true,
            Stmt::Loop(inner) => {
                let mut carried = inner.carried.iter().flat_map(|carried| [carried.init, carried.next]);
                carried.all(|id| self.of(id) == Some(Change::Same)) && self.all_hold(&inner.body, but)
                    || self.goes_on(inner).is_some()
            }
        })
    }

    /// Whether the loop goes on with the extreme and what is relative to it: its results are such again.
    fn goes_on(&mut self, inner: &Loop) -> Option<()> {
        let levels = nest_of(inner);
        let innermost = levels[levels.len() - 1];
        let ways = rejoined::find(self.nest, inner, innermost)?;
        let begins: Vec<Change> = inner.carried.iter().map(|carried| self.of(carried.init)).collect::<Option<_>>()?;
        let is_extreme = |at: usize| begins[at] == EXTREME;
        let mut results = Vec::new();
        for (at, way) in ways.iter().enumerate() {
            let change = match way {
                Rejoin::Reduced(ReduceOp::Max) if is_extreme(at) => EXTREME,
                Rejoin::Reduced(_) => (begins[at] == Change::Same).then_some(Change::Same)?,
                Rejoin::Relative { fade, extreme } => {
                    let goes_on = is_extreme(*extreme) && begins[at] == Change::Power(1.0);
                    (goes_on && rate_of(self.nest, *fade) == Some(self.rate)).then_some(Change::Power(1.0))?
                }
            };
            results.push((inner.carried[at].result, change));
        }
        // The terms themselves know nothing of it.
        innermost.body.stmts.iter().all(|stmt| self.is_apart(stmt)).then_some(())?;
        // The loop may have found the number that all would have been relative to: what was before it is so by another factor.
        self.past.extend(self.known.iter().filter(|(_, change)| **change != Change::Same).map(|(id, _)| *id));
        self.known.extend(results);
        Some(())
    }

    fn is_apart(&mut self, stmt: &Stmt) -> bool {
        matches!(stmt, Stmt::Value(id) if self.of(*id) == Some(Change::Same))
    }

    /// Nothing where that cannot be said.
    fn of(&mut self, id: ValueId) -> Option<Change> {
        if self.past.contains(&id) {
            return None;
        }
        if let Some(change) = self.known.get(&id) {
            return Some(*change);
        }
        let change = self.computed(id)?;
        self.known.insert(id, change);
        Some(change)
    }

    fn computed(&mut self, id: ValueId) -> Option<Change> {
        let nest = self.nest;
        match &nest.value(id).op {
            Op::Fill(_)
            | Op::Scalar(_)
            | Op::Int(_)
            | Op::Predicate(_)
            | Op::Load { .. }
            | Op::Carried(..)
            | Op::LoopResult(..) => Some(Change::Same),
            Op::Transpose(a) | Op::Broadcast(a) => self.of(*a),
            // A multiple may be too large for fewer bits.
            Op::Cast(a) => (self.of(*a)? == Change::Same).then_some(Change::Same),
            Op::Call(_, args) => args.iter().all(|arg| self.of(*arg) == Some(Change::Same)).then_some(Change::Same),
            Op::Dot { a, b } => self.none([*a, *b]),
            Op::Unary(op, a) => self.unary(*op, *a),
            Op::Binary(op, a, b) => self.binary(*op, *a, *b),
            // The factor is positive.
            Op::Compare(_, a, b) => match (self.of(*a)?, self.of(*b)?) {
                (Change::Same, Change::Same) => Some(Change::Same),
                (Change::Power(_), Change::Same) if self.is_zero(*b) => Some(Change::Same),
                (Change::Same, Change::Power(_)) if self.is_zero(*a) => Some(Change::Same),
                (Change::Power(a), Change::Power(b)) if a == b => Some(Change::Same),
                _ => None,
            },
            Op::Select(condition, a, b) => {
                (self.of(*condition)? == Change::Same).then_some(())?;
                self.either(*a, *b)
            }
            Op::Reduce(op, a, _) => match (op, self.of(*a)?) {
                (ReduceOp::Sum, Change::Shift(_)) => None,
                (_, change) => Some(change),
            },
        }
    }

    fn none(&mut self, all: [ValueId; 2]) -> Option<Change> {
        all.into_iter().all(|id| self.of(id) == Some(Change::Same)).then_some(Change::Same)
    }

    fn is_zero(&self, id: ValueId) -> bool {
        number(self.nest, id).is_some_and(|rate| rate == Rate { number: 0.0, scalar: None })
    }

    /// One of two, or what is made of both by adding: the same becomes of each.
    fn either(&mut self, a: ValueId, b: ValueId) -> Option<Change> {
        match (self.of(a)?, self.of(b)?) {
            (a, b) if a == b => Some(a),
            (change @ Change::Power(_), Change::Same) if self.is_zero(b) => Some(change),
            (Change::Same, change @ Change::Power(_)) if self.is_zero(a) => Some(change),
            _ => None,
        }
    }

    fn unary(&mut self, op: UnaryOp, a: ValueId) -> Option<Change> {
        let change = self.of(a)?;
        match (op, change) {
            (_, Change::Same) => Some(Change::Same),
            (UnaryOp::Neg | UnaryOp::Abs, Change::Power(_)) => Some(change),
            (UnaryOp::Recip, Change::Power(power)) => Some(Change::Power(-power)),
            (UnaryOp::Sqrt, Change::Power(power)) => Some(Change::Power(power / 2.0)),
            (UnaryOp::Rsqrt, Change::Power(power)) => Some(Change::Power(-power / 2.0)),
            (UnaryOp::Log | UnaryOp::Log2, Change::Power(power)) => {
                let unit = if op == UnaryOp::Log2 { 1.0 / LN_2 } else { 1.0 };
                Some(Change::Shift(Rate { number: self.rate.number * power * unit, ..self.rate }))
            }
            (UnaryOp::Neg, Change::Shift(rate)) => Some(Change::Shift(Rate { number: -rate.number, ..rate })),
            _ => None,
        }
    }

    fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> Option<Change> {
        let (of_a, of_b) = (self.of(a)?, self.of(b)?);
        let power = |power: f64| if power == 0.0 { Change::Same } else { Change::Power(power) };
        match (op, of_a, of_b) {
            (_, Change::Same, Change::Same) => Some(Change::Same),
            (BinaryOp::Mul, Change::Power(a), Change::Power(b)) => Some(power(a + b)),
            (BinaryOp::Div, Change::Power(a), Change::Power(b)) => Some(power(a - b)),
            (BinaryOp::Mul, Change::Power(_), Change::Same) | (BinaryOp::Div, Change::Power(_), Change::Same) => {
                Some(of_a)
            }
            (BinaryOp::Mul, Change::Same, Change::Power(_)) => Some(of_b),
            (BinaryOp::Div, Change::Same, Change::Power(b)) => Some(Change::Power(-b)),
            (BinaryOp::Mul, Change::Shift(rate), Change::Same) => rate.times(number(self.nest, b)?).map(Change::Shift),
            (BinaryOp::Mul, Change::Same, Change::Shift(rate)) => rate.times(number(self.nest, a)?).map(Change::Shift),
            (BinaryOp::Add, Change::Shift(a), Change::Shift(b)) => a.plus(b),
            (BinaryOp::Sub, Change::Shift(a), Change::Shift(b)) => a.plus(Rate { number: -b.number, ..b }),
            (BinaryOp::Add | BinaryOp::Sub, Change::Shift(_), Change::Same) => Some(of_a),
            (BinaryOp::Add, Change::Same, Change::Shift(_)) => Some(of_b),
            (BinaryOp::Sub, Change::Same, Change::Shift(rate)) => {
                Some(Change::Shift(Rate { number: -rate.number, ..rate }))
            }
            (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Max | BinaryOp::Min, ..) => match self.either(a, b)? {
                change @ Change::Power(_) => Some(change),
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::holds;
    use crate::nest::{Loop, Nest, Stmt};
    use crate::testing;
    use proc_macro2::TokenStream;
    use quote::quote;

    /// Whether a store of this is the same, whichever number sums were relative to of such exponentials of differences.
    fn is_same(exponential: fn(TokenStream) -> TokenStream, stored: TokenStream) -> bool {
        let (term, fade) = (exponential(quote!((s - m_new))), exponential(quote!((m - m_new))));
        let (nest, _) = testing::nest(quote! {
            fn f<S: Dim, T: Dim>(x: &Tensor<f32, (S, T)>, w: &Tensor<f32, (S,)>, y: &mut Tensor<f32, (S,)>, by: f32) {
                tile!(for i in S {
                    let mut m = full::<f32>(i, f32::NEG_INFINITY);
                    let mut l = zeros::<f32>(i);
                    let mut n = zeros::<f32>(i);
                    tile!(for j in T {
                        let s = x[(i, j)];
                        let m_new = m.max(s.row_max());
                        let p = #term;
                        let fade = #fade;
                        l = l * fade + p.row_sum();
                        n = n * fade + (p * s).row_sum();
                        m = m_new;
                    });
                    y[i] = #stored;
                });
            }
        });
        let inner = inner_loop(&nest);
        holds(&nest, inner, inner, 0)
    }

    /// The same of two loops, of which the second one goes on with what the first one carried.
    fn is_same_after_both(l: TokenStream, term: TokenStream, stored: TokenStream) -> bool {
        let (nest, _) = testing::nest(quote! {
            fn f<S: Dim, T: Dim, U: Dim>(x: &Tensor<f32, (S, T)>, z: &Tensor<f32, (S, U)>, y: &mut Tensor<f32, (S,)>) {
                tile!(for i in S {
                    let mut m = full::<f32>(i, f32::NEG_INFINITY);
                    let mut l = zeros::<f32>(i);
                    tile!(for j in T {
                        let s = x[(i, j)];
                        let m_new = m.max(s.row_max());
                        l = l * (m - m_new).exp() + (s - m_new).exp().row_sum();
                        m = m_new;
                    });
                    let first = l;
                    let mut l = #l;
                    tile!(for u in U {
                        let s = z[(i, u)] #term;
                        let m_new = m.max(s.row_max());
                        l = l * (m - m_new).exp() + (s - m_new).exp().row_sum();
                        m = m_new;
                    });
                    y[i] = #stored;
                });
            }
        });
        let inner = inner_loop(&nest);
        holds(&nest, inner, inner, 0)
    }

    #[test]
    fn another_loop_may_go_on() {
        let same = |stored| is_same_after_both(quote!(l), quote!(), stored);
        assert!(same(quote!(m + l.ln())) && !same(quote!(l)));
        assert!(!same(quote!(l / first)), "relative to different numbers");
        assert!(!is_same_after_both(quote!(full::<f32>(i, 1.0)), quote!(), quote!(m + l.ln())));
        assert!(!is_same_after_both(quote!(l), quote!(*first), quote!(m + l.ln())), "terms of what was before");
    }

    fn inner_loop(nest: &Nest) -> &Loop {
        let found =
            nest.body.stmts.iter().find_map(|stmt| if let Stmt::Loop(inner) = stmt { Some(inner) } else { None });
        found.expect("a loop")
    }

    #[test]
    fn quotients_of_sums_are_the_same() {
        let same = |stored| is_same(|difference| quote!(#difference.exp()), stored);
        assert!(same(quote!(n / l)));
        assert!(same(quote!(n * l.recip() * w[i] + 1.0)));
        assert!(same(quote!((l - n) / (l + n))));
        assert!(same(quote!((n * n).sqrt() / l)));
        assert!(same(quote!((l / n).ln().max(0.0))));
        assert!(same(quote!(select(l.eq(0.0), 0.0, n / l))));
        assert!(!same(quote!(l)) && !same(quote!(1.0 / l)) && !same(quote!(m)));
        assert!(!same(quote!(n / (l + 1.0))), "what is added is not a multiple of it");
        assert!(!same(quote!(n * l)) && !same(quote!(n / l.sqrt())), "a power of it");
        assert!(!same(quote!(select(l.gt(1.0), 0.0, n / l))));
    }

    #[test]
    fn logarithms_make_up_for_the_extreme() {
        let exp = |stored| is_same(|difference| quote!(#difference.exp()), stored);
        assert!(exp(quote!(m + l.ln())) && exp(quote!(l.ln() + w[i] + m - n / l)) && exp(quote!(-m - l.ln())));
        assert!(!exp(quote!(m - l.ln())) && !exp(quote!(m + l.log2())) && !exp(quote!(m * by + l.ln())));
        let exp2 = |stored| is_same(|difference| quote!(#difference.exp2()), stored);
        assert!(exp2(quote!(m + l.log2())) && exp2(quote!((m + l.log2()) * 0.69314718)));
        assert!(exp2(quote!(m * 0.6931472 + l.ln())) && !exp2(quote!(m + l.ln())) && !exp2(quote!(m * 0.69 + l.ln())));
        let scaled = |stored| is_same(|difference| quote!((#difference * by).exp()), stored);
        assert!(scaled(quote!(m * by + l.ln())) && !scaled(quote!(m + l.ln())));
    }
}
