//! What registers hold of elements past an axis' end: a reduction wants its neutral value there, and some values have it anyway.
//!
//! ```text
//! s = x[(i, j)]                        past j's end    0, as all that lies outside a tensor
//! m = s.row_max()                                      masked with -∞, in place
//! p = exp(s - m.max(-1e30))                            exp(-∞ - a number), which is 0: a sum needs no mask
//! ```

use super::Lowering;
use super::analysis::is_tiled;
use crate::nest::{AxisId, BinaryOp, Extent, Op, ReduceOp, TensorId, UnaryOp, ValueId};
use crate::program::{Access, AccessForm, Identity, Stmt, VarId};

impl Lowering<'_> {
    /// Gives elements past the axis' end a neutral value, unless they have it.
    pub fn mask_edge(&mut self, target: VarId, axis: AxisId, identity: Identity) {
        let known = (target, axis, identity);
        if self.partial(axis) && !self.masked.contains(&known) {
            self.masked.retain(|(var, ..)| *var != target);
            self.masked.push(known);
            self.out.push(Stmt::MaskEdge { target, axis, identity, rows: self.rows_along(axis) });
        }
    }

    /// A tensor whose rows are read from end to end along the axis.
    fn rows_along(&self, axis: AxisId) -> Option<TensorId> {
        let Extent::Dim(dim) = self.nest.axis(axis).extent else { return None };
        let whole = !self.limited.contains(&axis) && !self.shifted.contains(&axis);
        let ends = |tensor: &TensorId| self.nest.tensor(*tensor).dims.last() == Some(&dim);
        self.program.aligned.iter().copied().filter(|_| whole).find(ends)
    }

    /// Registers that a load fills hold zeros there.
    pub fn note_loaded(&mut self, target: VarId, source: &Access) {
        if !self.facts.dots.is_empty() {
            return;
        }
        let cols = match source.form {
            AccessForm::Contiguous { cols, .. } if self.partial(cols) => Some(cols),
            _ => None,
        };
        self.masked.extend(cols.iter().chain(&source.limits).map(|axis| (target, *axis, Identity::Zero)));
    }

    /// Where a value's own registers have just been filled: what they hold there, if its operands say so. Running values, which change
    /// otherwise than by being filled again, this is not for.
    pub fn note_computed(&mut self, target: VarId, id: ValueId) {
        let value = self.nest.value(id);
        if matches!(value.op, Op::Fill(_)) {
            return;
        }
        for axis in value.ty.axes.iter().copied().filter(|axis| is_tiled(self.nest, *axis)) {
            if self.partial(axis)
                && let Some(held) = self.past_end(id, axis)
            {
                self.masked.push((target, axis, held));
            }
        }
    }

    fn past_end(&self, id: ValueId, axis: AxisId) -> Option<Identity> {
        if let Some(var) = self.vars.get(&id) {
            return self.masked.iter().find(|(known, at, _)| (known, *at) == (var, axis)).map(|(.., held)| *held);
        }
        let value = self.nest.value(id);
        if !value.ty.axes.contains(&axis) {
            return None;
        }
        let held = |id: &ValueId| self.past_end(*id, axis);
        match &value.op {
            Op::Cast(a) | Op::Transpose(a) => held(a),
            Op::Unary(UnaryOp::Abs | UnaryOp::Sqrt, a) => held(a).filter(|held| *held == Identity::Zero),
            Op::Unary(UnaryOp::Exp | UnaryOp::Exp2, a) => {
                held(a).filter(|held| *held == Identity::NegInfinity).map(|_| Identity::Zero)
            }
            Op::Binary(BinaryOp::Mul | BinaryOp::Add | BinaryOp::Sub, a, b)
                if held(a) == Some(Identity::Zero) && held(b) == Some(Identity::Zero) =>
            {
                Some(Identity::Zero)
            }
            Op::Binary(BinaryOp::Sub, a, b)
                if self.is_above_neg_infinity(*b)
                    || self.finite.contains_key(b)
                    || self.is_as_great_as(*b, *a, axis) =>
            {
                held(a).filter(|held| *held == Identity::NegInfinity)
            }
            _ => None,
        }
    }

    /// Whether one value is, row by row, no less than any element of the other one: -∞ only where all of these are, so that none of their
    /// differences to it is a number, and none is needed of what lies past the end.
    fn is_as_great_as(&self, one: ValueId, other: ValueId, axis: AxisId) -> bool {
        match self.nest.value(one).op {
            Op::Broadcast(a) => self.is_as_great_as(a, other, axis),
            Op::Binary(BinaryOp::Max, a, b) => [a, b].into_iter().any(|side| self.is_as_great_as(side, other, axis)),
            Op::Reduce(ReduceOp::Max, a, along) => (a, along) == (other, axis),
            _ => false,
        }
    }

    /// Whether the value is a number above -∞, or +∞, whatever it is made of.
    pub fn is_above_neg_infinity(&self, id: ValueId) -> bool {
        match &self.nest.value(id).op {
            Op::Fill(number) => *number > f64::NEG_INFINITY,
            Op::Broadcast(a) | Op::Transpose(a) => self.is_above_neg_infinity(*a),
            // Of a NaN and a number, the number.
            Op::Binary(BinaryOp::Max, a, b) => self.is_above_neg_infinity(*a) || self.is_above_neg_infinity(*b),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{cuda, lines, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn sums(item: TokenStream) -> TokenStream {
        quote! {
            #[schedule(sm_80, i = 4, j = 512)]
            fn f<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, z: &Tensor<f32, (M, N)>, by: f32, y: &mut Tensor<f32, (M,)>) {
                tile!(for i in M {
                    let mut total = zeros::<f32>(i);
                    let mut most = full::<f32>(i, f32::NEG_INFINITY);
                    tile!(for j in N { #item });
                    y[i] = total + most;
                });
            }
        }
    }

    /// What is masked, and with what.
    fn masks(item: TokenStream) -> Vec<String> {
        lines(&program(sums(item))).into_iter().filter(|line| line.starts_with("mask edge")).collect()
    }

    #[test]
    fn what_lies_outside_a_tensor_is_zero() {
        assert_eq!(masks(quote!(total += x[(i, j)].to::<f32>().row_sum();)), [""; 0]);
        let squares = quote! { let v = x[(i, j)].to::<f32>(); total += (v * v).row_sum(); };
        assert_eq!(masks(squares), [""; 0]);
        assert_eq!(masks(quote!(total += (z[(i, j)] + x[(i, j)].to::<f32>()).row_sum();)), [""; 0]);
    }

    #[test]
    fn what_may_be_anything_is_masked() {
        let one = |item| masks(item).len();
        assert_eq!(one(quote!(total += (z[(i, j)] + 1.0).row_sum();)), 1);
        assert_eq!(one(quote!(total += (z[(i, j)] * by).row_sum();)), 1, "zero times infinity is none");
        assert_eq!(one(quote!(total += z[(i, j)].exp().row_sum();)), 1);
        assert_eq!(masks(quote!(most = most.max(z[(i, j)].row_max());)), ["mask edge of z_tile_2 with NegInfinity"]);
    }

    #[test]
    fn an_exponential_of_a_masked_score_is_zero() {
        let softmax = |m_new: TokenStream, fade: TokenStream| {
            masks(quote! {
                let s = x[(i, j)].to::<f32>();
                let m_new = #m_new;
                total = total * (most - m_new).#fade + (s - m_new).exp().row_sum();
                most = m_new;
            })
        };
        let of_scores = "mask edge of s_2 with NegInfinity";
        let [bounded, open] = [quote!(most.max(s.row_max()).max(f32::MIN)), quote!(most.max(s.row_max()))];
        assert_eq!(softmax(bounded.clone(), quote!(exp())), [of_scores]);
        assert_eq!(softmax(bounded, quote!(exp2())), [of_scores]);
        assert_eq!(
            softmax(open.clone(), quote!(exp())),
            [of_scores],
            "of what a thread has seen, a number is taken off"
        );
        assert_eq!(
            softmax(open, quote!(exp2())),
            [of_scores],
            "of a row of nothing but -∞, no difference to it is a number"
        );
        assert_eq!(
            softmax(quote!(most.max(s.row_max() - 1.0)), quote!(exp2())),
            [of_scores, "mask edge of value_2 with Zero"],
            "what is less than some scores may be -∞ where they are numbers"
        );
    }

    #[test]
    fn what_was_computed_before_a_mask_does_not_have_it() {
        let masks = masks(quote! {
            let s = x[(i, j)].to::<f32>();
            let p = (s - 1.0).exp();
            most = most.max(s.row_max());
            total += (p * p + p).row_sum();
        });
        assert_eq!(masks.len(), 2, "{masks:?}");
    }

    #[test]
    fn whole_vectors_are_masked_as_one() {
        let text = cuda(sums(quote!(most = most.max(x[(i, j)].to::<f32>().row_max());)));
        assert!(text.contains("beyond_cols<IJTile, ALIGN_X / 2>(reg, "), "{text}");
    }
}
