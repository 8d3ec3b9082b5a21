//! Axes that are walked as one: where every tensor has the same axes last, they appear only together and in that order, and nothing
//! else asks where along one of them an element lies, tensors without gaps may as well be one long row.
//!
//! ```text
//! y[(i, j)] = x[(i, j)] * 2.0     with (M, N) = (4095, 4097)     is the same as     with (M, N) = (1, 4095 * 4097)
//! ```
//!
//! The code is that for any sizes; the launch decides which it gets, once it sees the strides.

use super::analysis::{depends_on, is_tiled};
use crate::nest::{AxisId, AxisKind, DimId, Extent, Int, Nest, Op, Predicate, Stmt};
use crate::schedule::Schedule;

/// The axes, outermost first: as many as there are, and at least two.
pub fn merged_axes(nest: &Nest) -> Option<Vec<AxisId>> {
    let index = first_store(&nest.body.stmts)?;
    (0..index.len().saturating_sub(1)).find_map(|first| {
        let run = Run::of(nest, &index[first..])?;
        run.is_together(nest).then_some(run.axes)
    })
}

/// The dims that a schedule's code takes as one: its tiles have one row.
pub fn merged_dims(nest: &Nest, schedule: &Schedule) -> Vec<usize> {
    let one_row = |axes: &Vec<AxisId>| {
        let outer = axes.split_last().map_or(&[][..], |(_, outer)| outer);
        outer.iter().all(|axis| schedule.blocks[axis.index()].unwrap_or(1) == 1)
    };
    let axes = merged_axes(nest).filter(one_row).unwrap_or_default();
    axes.iter().flat_map(|axis| super::extent_dims(&nest.axis(*axis).extent)).collect()
}

fn first_store(stmts: &[Stmt]) -> Option<&[Int]> {
    stmts.iter().find_map(|stmt| match stmt {
        Stmt::Store { index, .. } => Some(&index[..]),
        Stmt::Loop(inner) => first_store(&inner.body.stmts),
        Stmt::Value(_) => None,
    })
}

/// Candidates: axes of the grid with sizes that are known at launch.
struct Run {
    axes: Vec<AxisId>,
    dims: Vec<DimId>,
}

impl Run {
    fn of(nest: &Nest, index: &[Int]) -> Option<Run> {
        let mut run = Run { axes: Vec::new(), dims: Vec::new() };
        for int in index {
            let Int::Axis(axis) = int else { return None };
            let Extent::Dim(dim) = nest.axis(*axis).extent else { return None };
            if run.axes.contains(axis) || run.dims.contains(&dim) {
                return None;
            }
            if !nest.grid.contains(axis) || nest.axis(*axis).kind == AxisKind::Whole || nest.dim(dim).known.is_some() {
                return None;
            }
            run.axes.push(*axis);
            run.dims.push(dim);
        }
        Some(run)
    }

    fn is_together(&self, nest: &Nest) -> bool {
        let tensors = nest.tensors.iter().all(|tensor| {
            let others = tensor.dims.strip_suffix(&self.dims[..]).unwrap_or(&tensor.dims);
            !others.iter().any(|dim| self.dims.contains(dim))
        });
        let axes = nest.axes.iter().enumerate().all(|(at, axis)| {
            self.axes.contains(&AxisId(at as u32))
                || !super::extent_dims(&axis.extent).iter().any(|dim| self.dims.contains(&DimId(*dim as u32)))
        });
        let values = nest.values.iter().all(|value| {
            let has = |axis: &&AxisId| value.ty.axes.contains(axis);
            let tiled = || self.axes.iter().filter(|axis| is_tiled(nest, **axis));
            let spans = tiled().all(|axis| has(&axis)) || !tiled().any(|axis| has(&axis));
            spans
                && match &value.op {
                    Op::Load { tensor, index } => self.is_whole(&nest.tensor(*tensor).dims, index),
                    Op::Reduce(_, _, axis) => !self.axes.contains(axis),
                    Op::Int(int) => self.is_apart(int),
                    Op::Predicate(predicate) => self.is_apart_from(predicate),
                    _ => true,
                }
        });
        tensors && axes && values && self.is_together_in(nest, &nest.body.stmts)
    }

    fn is_together_in(&self, nest: &Nest, stmts: &[Stmt]) -> bool {
        stmts.iter().all(|stmt| match stmt {
            Stmt::Value(_) => true,
            Stmt::Store { tensor, index, .. } => self.is_whole(&nest.tensor(*tensor).dims, index),
            Stmt::Loop(inner) => {
                let mut bounds = inner.from.iter().chain(&inner.until);
                bounds.all(|int| self.is_apart(int)) && self.is_together_in(nest, &inner.body.stmts)
            }
        })
    }

    /// Whether an access to a tensor of these dims has the run's axes last, or none of them.
    fn is_whole(&self, dims: &[DimId], index: &[Int]) -> bool {
        let has_dims = dims.ends_with(&self.dims);
        let (others, last) = index.split_at(if has_dims { index.len() - self.axes.len() } else { index.len() });
        let in_order = last.iter().zip(&self.axes).all(|(int, axis)| *int == Int::Axis(*axis));
        in_order && others.iter().all(|int| self.is_apart(int))
    }

    /// Whether the integer has nothing to do with the run.
    fn is_apart(&self, int: &Int) -> bool {
        !self.axes.iter().any(|axis| depends_on(int, *axis)) && !reads_any(int, &self.dims)
    }

    fn is_apart_from(&self, predicate: &Predicate) -> bool {
        match predicate {
            Predicate::Const(_) => true,
            Predicate::Compare(_, a, b) => self.is_apart(a) && self.is_apart(b),
            Predicate::And(a, b) | Predicate::Or(a, b) => self.is_apart_from(a) && self.is_apart_from(b),
            Predicate::Not(a) => self.is_apart_from(a),
        }
    }
}

fn reads_any(int: &Int, dims: &[DimId]) -> bool {
    int.any(&|part| matches!(part, Int::Dim(dim) if dims.contains(dim)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::lower_portfolio;
    use crate::schedule::target::SM_80;
    use crate::testing;
    use proc_macro2::TokenStream;
    use quote::quote;

    /// The names of the axes that are walked as one.
    fn together(item: TokenStream) -> Vec<String> {
        let (nest, _) = testing::nest(item);
        let axes = merged_axes(&nest).unwrap_or_default();
        axes.iter().map(|axis| nest.axis(*axis).name.clone()).collect()
    }

    /// `y[(i, j)] = …` beside tensors of other shapes.
    fn elementwise(value: TokenStream) -> Vec<String> {
        together(quote! {
            fn f<M: Dim, N: Dim>(
                x: &Tensor<f32, (M, N)>, t: &Tensor<f32, (N, M)>, row: &Tensor<f32, (N,)>, one: &Tensor<f32, (Const<1>,)>,
                y: &mut Tensor<f32, (M, N)>, by: i32,
            ) {
                tile!(for (i, j) in (M, N) { y[(i, j)] = #value; });
            }
        })
    }

    #[test]
    fn tensors_that_turn_or_repeat_keep_axes_apart() {
        // The declarations of `t` and `row` do, read or not.
        assert_eq!(elementwise(quote!(x[(i, j)])), [""; 0]);
    }

    /// The same where all tensors have both axes.
    fn alike(value: TokenStream) -> Vec<String> {
        together(quote! {
            fn f<M: Dim, N: Dim>(
                x: &Tensor<f32, (M, N)>, h: &Tensor<f16, (M, N)>, one: &Tensor<f32, (Const<4>,)>, y: &mut Tensor<f32, (M, N)>,
                by: i32, scale: f32,
            ) {
                tile!(for (i, j) in (M, N) { y[(i, j)] = #value; });
            }
        })
    }

    #[test]
    fn element_by_element_axes_are_walked_as_one() {
        let both = ["i", "j"];
        assert_eq!(alike(quote!(x[(i, j)])), both);
        assert_eq!(alike(quote!(x[(i, j)] * scale + h[(i, j)].to::<f32>())), both);
        assert_eq!(alike(quote!(x[(i, j)] * one[2])), both);
        assert_eq!(alike(quote!(y[(i, j)] + x[(i, j)])), both);
    }

    #[test]
    fn what_asks_for_a_place_keeps_axes_apart() {
        assert_eq!(alike(quote!(x[(i, j + 1)])), [""; 0], "a neighbour");
        assert_eq!(alike(quote!(x[(i - by, j)])), [""; 0], "another row");
        assert_eq!(alike(quote!(x[(i, j)].mask(|i, j| j <= i, 0.0))), [""; 0], "a mask");
        assert_eq!(alike(quote!(x[(i, j)] * (N as f32))), [""; 0], "a size");
        assert_eq!(alike(quote!(x[(i, j)] * iota(j).to::<f32>())), [""; 0], "a coordinate");
    }

    #[test]
    fn sums_and_sizes_in_types_keep_axes_apart() {
        let summed = together(quote! {
            fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
                tile!(for i in M {
                    let mut sum = zeros::<f32>(i);
                    tile!(for j in N { sum += x[(i, j)].row_sum(); });
                    tile!(for j in N { y[(i, j)] = x[(i, j)] / sum; });
                });
            }
        });
        assert_eq!(summed, [""; 0]);
        let known = together(quote! {
            fn f<M: Dim>(x: &Tensor<f32, (M, Const<3>)>, y: &mut Tensor<f32, (M, Const<3>)>) {
                tile!(for (i, j) in (M, Const::<3>) { y[(i, j)] = x[(i, j)]; });
            }
        });
        assert_eq!(known, [""; 0]);
        let square = together(quote! {
            fn f<N: Dim>(x: &Tensor<f32, (N, N)>, y: &mut Tensor<f32, (N, N)>) {
                tile!(for (i, j) in (N, N) { y[(i, j)] = x[(i, j)]; });
            }
        });
        assert_eq!(square, [""; 0], "one dim cannot have two sizes");
    }

    #[test]
    fn as_many_axes_as_there_are_come_together() {
        let of = |bias: TokenStream, value: TokenStream| {
            together(quote! {
                fn f<B: Dim, M: Dim, N: Dim>(x: &Tensor<f32, (B, M, N)>, bias: &Tensor<f32, #bias>, y: &mut Tensor<f32, (B, M, N)>) {
                    tile!(for (b, i, j) in (each(B), M, N) { y[(b, i, j)] = #value; });
                }
            })
        };
        assert_eq!(of(quote!((B, M, N)), quote!(x[(b, i, j)] + bias[(b, i, j)])), ["b", "i", "j"]);
        assert_eq!(of(quote!((M, N)), quote!(x[(b, i, j)] + bias[(i, j)])), ["i", "j"], "planes share a bias");
        assert_eq!(of(quote!((B, N)), quote!(x[(b, i, j)] + bias[(b, j)])), [""; 0]);
        assert_eq!(of(quote!((B,)), quote!(x[(b, i, j)] * bias[b])), ["i", "j"]);
    }

    #[test]
    fn the_portfolio_has_tiles_of_one_row() {
        let (nest, _) = testing::nest(quote! {
            fn f<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, y: &mut Tensor<f16, (M, N)>) {
                tile!(for (i, j) in (M, N) { y[(i, j)] = x[(i, j)]; });
            }
        });
        let portfolio = lower_portfolio(&nest, &SM_80).expect("a portfolio");
        let said: Vec<_> =
            portfolio.iter().map(|one| (one.program.schedule.as_str(), &one.program.merged[..])).collect();
        assert_eq!(
            said,
            [("sm_80, i = 1, j = 4096, warps = (1, 8)", &[0, 1][..]), ("sm_80, i = 16, j = 256, warps = (8, 1)", &[])]
        );
        let whole: Vec<bool> = portfolio.iter().map(|one| one.program.whole_vectors).collect();
        assert_eq!(whole, [false, true], "the end of one long row may cut a vector");
    }
}
