//! Operands that the launch lays anew, with the sum's axis last: the nest is lowered as if the copy were what the kernel was given.
//!
//! ```text
//! b: (K, N)         dot(a[(i, k)], b[(k, j)])          becomes      b: (N, K)         dot(a[(i, k)], b[(j, k)].t())
//! x: (N, C, H, W)   x[(n, c, p + r, q + s)]            becomes      x: (N, H, W, C)   x[(n, p + r, q + s, c)]
//! ```
//! - Of tf32, `wgmma` reads from shared memory along the sum alone. Of a left operand that lies across it threads read fragments, but a
//!   right one is copied.
//! - Of any type, what is contiguous neither along the sum nor along the tile's other axis has no vectors: it would come element by
//!   element, and a window's elements as often as it has taps.
//!
//! A result that is contiguous along neither axis of its tiles leaves element by element. The launch turns it afterwards where the kernel writes it
//! so too:
//!
//! ```text
//! y: (M, N, C)      for each c: y[(i, j, c)] = acc         becomes      y: (M, C, N)      y[(i, c, j)] = acc
//! ```

use super::analysis::{DotFact, Facts, OperandSource, mentions, operand_only};
use super::columns;
use crate::nest::{AxisId, Block, Dtype, Extent, Int, Nest, Op, Stmt, Tensor, TensorId, ValueId};
use crate::plan::Relaid;
use crate::schedule::ScheduleError;
use crate::schedule::target::{Pipeline, Target};
use std::collections::BTreeSet;
use std::rc::Rc;

/// A nest as a target's code sees it.
#[derive(Clone)]
pub struct Laid {
    pub nest: Rc<Nest>,
    pub relaid: Vec<Relaid>,
}

impl Laid {
    /// Of a kernel's nest, or of that the other way round.
    pub fn for_target(nest: &Nest, target: &Target, swapped: bool) -> Laid {
        let mut nest = if swapped { super::swapped::swapped(nest) } else { nest.clone() };
        let relaid = match target.pipeline {
            Pipeline::CommitGroups => Vec::new(),
            Pipeline::WarpRoles => relaid(&nest),
        };
        for Relaid { tensor, last, .. } in &relaid {
            let tensor = TensorId(*tensor as u32);
            nest.tensors[tensor.index()].dims[*last..].rotate_left(1);
            // A tile's own axes stay: which of them comes first says nothing of memory.
            for value in &mut nest.values {
                if let Op::Load { tensor: loaded, index } = &mut value.op
                    && *loaded == tensor
                {
                    index[*last..].rotate_left(1);
                }
            }
            for stmt in &mut nest.body.stmts {
                if let Stmt::Store { tensor: stored, index, .. } = stmt
                    && *stored == tensor
                {
                    index[*last..].rotate_left(1);
                }
            }
        }
        Laid { nest: Rc::new(nest), relaid }
    }
}

/// Tensors that dots would have with the sum's axis last, where nothing but dots reads them and nothing writes them.
fn relaid(nest: &Nest) -> Vec<Relaid> {
    let facts = Facts::of(nest);
    let operands = operands(nest, &facts);
    let alone = operand_only(nest, &facts);
    let mut relaid: Vec<Relaid> = Vec::new();
    for Operand { tensor, last, .. } in operands.iter().filter(|operand| operand.wanted) {
        let alike = |load: &ValueId| {
            let mut readers = operands.iter().filter(|other| other.load == *load).peekable();
            alone.contains(load) && readers.peek().is_some() && readers.all(|other| other.last == *last)
        };
        let known = relaid.iter().any(|known| known.tensor == tensor.index());
        if !known && !nest.tensor(*tensor).mutable && loads(nest, &facts, *tensor).all(|load| alike(&load)) {
            relaid.push(Relaid { tensor: tensor.index(), last: *last, written: false });
        }
    }
    let turned = nest.tensors.iter().enumerate().filter(|(_, tensor)| tensor.turned);
    let last_but_one = |tensor: &Tensor| tensor.dims.len().saturating_sub(2);
    relaid.extend(turned.map(|(at, tensor)| Relaid { tensor: at, last: last_but_one(tensor), written: true }));
    relaid
}

/// The nest whose results the launch turns, where products have any that leave element by element.
pub fn with_turned_results(nest: &Nest) -> Option<Nest> {
    let results = turnable(nest);
    let mut turned = nest.clone();
    for tensor in &results {
        turned.tensors[tensor.index()].turned = true;
    }
    (!results.is_empty()).then_some(turned)
}

/// The same, where a schedule asks for it.
pub fn wanted(nest: &Nest) -> Result<Nest, ScheduleError> {
    let none = || ScheduleError::about("turned", "no result here leaves element by element -- leave the option out");
    with_turned_results(nest).ok_or_else(none)
}

/// Results that one store writes whole, after products, as tiles that would be contiguous with the last axis but one last: nothing of a copy is left
/// unwritten.
fn turnable(nest: &Nest) -> Vec<TensorId> {
    let facts = Facts::of(nest);
    let is_read = |wanted: TensorId| loads(nest, &facts, wanted).next().is_some();
    let whole = |tensor: TensorId, index: &[Int]| {
        let mut axes = BTreeSet::new();
        index.iter().zip(&nest.tensor(tensor).dims).all(|(int, dim)| match int {
            Int::Axis(axis) => nest.grid.contains(axis) && nest.runs_over(*axis, *dim) && axes.insert(*axis),
            _ => false,
        })
    };
    let stores = stores(&nest.body);
    let results = nest.body.stmts.iter().filter_map(|stmt| match stmt {
        Stmt::Store { tensor, index, value, .. } => Some((*tensor, &index[..], &nest.value(*value).ty.axes)),
        _ => None,
    });
    let across = results.filter(|(tensor, index, axes)| match index {
        [.., Int::Axis(turned), Int::Axis(last)] => {
            let once = stores.iter().filter(|stored| *stored == tensor).count() == 1;
            let tile = axes.len() == 2 && axes.contains(turned) && !axes.contains(last);
            once && tile && !is_read(*tensor) && whole(*tensor, index)
        }
        _ => false,
    });
    if facts.dots.is_empty() { Vec::new() } else { across.map(|(tensor, ..)| tensor).collect() }
}

/// What is stored, as often as it is.
fn stores(block: &Block) -> Vec<TensorId> {
    let stores = block.stmts.iter().flat_map(|stmt| match stmt {
        Stmt::Store { tensor, .. } => vec![*tensor],
        Stmt::Loop(inner) => stores(&inner.body),
        Stmt::Value(_) => Vec::new(),
    });
    stores.collect()
}

/// An operand of which an axis that is not the last one is its dot's sum's.
struct Operand {
    tensor: TensorId,
    load: ValueId,
    /// Which of the tensor's axes the sum runs along.
    last: usize,
    /// Last, rather than as it lies.
    wanted: bool,
}

fn operands(nest: &Nest, facts: &Facts) -> Vec<Operand> {
    let sides = |dot: &'_ DotFact| [(dot.a.clone(), dot.m, false), (dot.b.clone(), dot.n, true)];
    let mut operands = Vec::new();
    for dot in &facts.dots {
        for (source, other, right) in sides(dot) {
            let OperandSource::Tensor { load, tensor, .. } = source else { continue };
            let Op::Load { index, .. } = &nest.value(load).op else { continue };
            let Some(last) = axis_of_sum(nest, index, dot.k) else { continue };
            let contiguous = |axis: AxisId| columns::are_contiguous(nest, tensor, index, axis);
            let wanted = match contiguous(other) {
                true => right && dot.dtype == Dtype::Tf32,
                false => !contiguous(dot.k),
            };
            operands.push(Operand { tensor, load, last, wanted });
        }
    }
    operands
}

/// The one axis of the tensor that the sum's innermost elements run along.
fn axis_of_sum(nest: &Nest, index: &[Int], k: AxisId) -> Option<usize> {
    let (innermost, others) = match &nest.axis(k).extent {
        Extent::Flat(parts) => (Int::FlatCoord(k, parts.len().checked_sub(1)?), parts.len() > 1),
        _ => (Int::Axis(k), false),
    };
    let mut along = (0..index.len()).filter(|at| match others {
        true => index[*at].any(&|part| *part == innermost),
        false => mentions(&index[*at], k),
    });
    let only = along.next().filter(|at| along.next().is_none() && index[*at] == innermost)?;
    (only + 1 < index.len()).then_some(only)
}

fn loads<'n>(nest: &'n Nest, facts: &'n Facts, wanted: TensorId) -> impl Iterator<Item = ValueId> + 'n {
    let is_load = move |id: &ValueId| matches!(nest.value(*id).op, Op::Load { tensor, .. } if tensor == wanted);
    facts.order.iter().copied().filter(is_load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::{emit, launch_plan};
    use crate::lower::lower_portfolio;
    use crate::plan::Arg;
    use crate::schedule::target::{SM_80, SM_90A};
    use crate::testing;
    use proc_macro2::TokenStream;
    use quote::quote;

    /// Tensors that are laid anew, with the dims of their copies.
    fn relaid(item: TokenStream) -> Vec<(String, Vec<String>)> {
        let (nest, _) = testing::nest(item);
        assert_eq!(Laid::for_target(&nest, &SM_80, false).relaid, [], "mma.sync reads them as they lie");
        let Laid { nest, relaid } = Laid::for_target(&nest, &SM_90A, false);
        let dims = |relaid: &Relaid| {
            let tensor = &nest.tensors[relaid.tensor];
            (tensor.name.clone(), tensor.dims.iter().map(|dim| nest.dim(*dim).name.clone()).collect())
        };
        relaid.iter().map(dims).collect()
    }

    fn names(item: TokenStream) -> Vec<String> {
        relaid(item).into_iter().map(|(name, _)| name).collect()
    }

    /// `c += …` over tensors of f32 with sizes (N, N).
    fn product(dot: TokenStream) -> TokenStream {
        quote! {
            fn f<N: Dim>(a: &Tensor<f32, (N, N)>, b: &Tensor<f32, (N, N)>, c: &mut Tensor<f32, (N, N)>) {
                tile!(for (i, j) in (N, N) {
                    let mut acc = c[(i, j)];
                    tile!(for k in N { acc += #dot; });
                    c[(i, j)] = acc;
                });
            }
        }
    }

    #[test]
    fn the_axis_of_the_sum_comes_last() {
        let copies = relaid(quote! {
            fn f<B: Dim, M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f32, (K, B, M)>, b: &Tensor<f32, (B, K, N)>, c: &mut Tensor<f32, (B, M, N)>,
            ) {
                tile!(for (batch, i, j) in (each(B), M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(k, batch, i)].to::<tf32>().t(), b[(batch, k, j)].to::<tf32>()); });
                    c[(batch, i, j)] = acc;
                });
            }
        });
        let named = |name: &str, dims: [&str; 3]| (name.to_string(), dims.map(str::to_string).to_vec());
        assert_eq!(copies, [named("b", ["B", "N", "K"])]);
    }

    #[test]
    fn code_and_plan_are_those_of_the_copy() {
        let (nest, _) = testing::nest(product(quote!(dot(a[(i, k)].to::<tf32>(), b[(k, j)].to::<tf32>()))));
        let lowered = lower_portfolio(&nest, &SM_90A).expect("a portfolio").remove(0);
        let plan = launch_plan(&lowered, emit(&lowered.nest, &lowered.program));
        assert_eq!(plan.relaid, [Relaid { tensor: 1, last: 0, written: false }]);
        let boxes = |wanted: usize| {
            plan.args.iter().find_map(|arg| match arg {
                Arg::TensorMap { tensor, merged: 1, boxes, .. } if *tensor == wanted => Some(boxes.clone()),
                _ => None,
            })
        };
        assert_eq!(
            (boxes(0), boxes(1)),
            (Some(vec![128, 32]), Some(vec![256, 32])),
            "rows, and 128 bytes along the sum"
        );
        assert!(plan.source.contains("// b: (N, N), a copy that the launch makes\n"));
        assert!(plan.source.contains(", b_map256, a_ready_full + slot, k0, j0);"), "{}", plan.source);
    }

    #[test]
    fn of_vectors_only_tf32_across_the_sum_is_laid_anew() {
        let of = |a, b| names(product(quote!(dot(#a, #b))));
        let (a, at) = (quote!(a[(i, k)].to::<tf32>()), quote!(a[(k, i)].to::<tf32>().t()));
        let (b, bt) = (quote!(b[(k, j)].to::<tf32>()), quote!(b[(j, k)].to::<tf32>().t()));
        assert_eq!(of(a.clone(), bt.clone()), [""; 0]);
        assert_eq!(of(a, b.clone()), ["b"]);
        assert_eq!(of(at.clone(), bt), [""; 0], "threads read fragments of the left operand");
        assert_eq!(of(at, b), ["b"]);
        assert_eq!(of(quote!(a[(i, k)]), quote!(b[(k, j)])), [""; 0], "exact products");
        let shifted = names(product(quote!(dot(a[(i, k)].to::<tf32>(), b[(k + 1, j)].to::<tf32>()))));
        assert_eq!(shifted, [""; 0], "no axis of the tensor is the sum's");
    }

    #[test]
    fn what_has_no_vectors_is_laid_anew() {
        let named = |name: &str, dims: &[&str]| (name.to_string(), dims.iter().map(|dim| dim.to_string()).collect());
        let convolution = |flat: TokenStream| {
            relaid(quote! {
                fn f<N: Dim, C: Dim, H: Dim, W: Dim, K: Dim, R: Dim, S: Dim>(
                    x: &Tensor<f16, (N, C, H, W)>, w: &Tensor<f16, (K, C, R, S)>, y: &mut Tensor<f16, (N, K, H, W)>,
                ) {
                    tile!(for (npq, ko) in (flat(N, H, W), K) {
                        let (n, p, q) = npq.coords();
                        let mut acc = zeros::<f32>((npq, ko));
                        #flat
                        y[(n, ko, p, q)] = acc.to();
                    });
                }
            })
        };
        let of = [named("x", &["N", "H", "W", "C"]), named("w", &["K", "R", "S", "C"])];
        assert_eq!(
            convolution(quote! {
                tile!(for (r, s, c) in (each(R), each(S), C) { acc += dot(x[(n, c, p + r, q + s)], w[(ko, c, r, s)].t()); });
            }),
            of
        );
        assert_eq!(
            convolution(quote! {
                tile!(for rsc in flat(R, S, C) {
                    let (r, s, c) = rsc.coords();
                    acc += dot(x[(n, c, p + r, q + s)], w[(ko, c, r, s)].t());
                });
            }),
            of
        );
        let by_channels = |index: TokenStream| {
            relaid(quote! {
                fn f<N: Dim, M: Dim, C: Dim>(
                    a: &Tensor<f16, (N, M, C)>, b: &Tensor<f16, (C, M, N)>, at: &Tensor<i32, (M,)>, y: &mut Tensor<f16, (C, N, N)>,
                ) {
                    tile!(for (c, i, j) in (each(C), N, N) {
                        let mut acc = zeros::<f32>((i, j));
                        tile!(for k in M { acc += dot(a[#index], b[(c, k, j)]); });
                        y[(c, i, j)] = acc.to();
                    });
                }
            })
        };
        assert_eq!(by_channels(quote!((i, k, c))), [named("a", &["N", "C", "M"])], "b has vectors across the sum");
        assert_eq!(by_channels(quote!((i, at[k], c))), [], "no axis of the tensor is the sum's");
    }

    /// `y` of sums for each channel.
    fn by_channels(dims: TokenStream, stores: TokenStream) -> Nest {
        let item = quote! {
            fn f<M: Dim, N: Dim, K: Dim, C: Dim>(
                a: &Tensor<f16, (C, M, K)>, b: &Tensor<f16, (C, N, K)>, y: &mut Tensor<f16, #dims>,
            ) {
                tile!(for (c, i, j) in (each(C), M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(c, i, k)], b[(c, j, k)].t()); });
                    #stores
                });
            }
        };
        testing::nest(item).0
    }

    #[test]
    fn results_that_leave_element_by_element_are_turned() {
        let nest = by_channels(quote!((M, N, C)), quote!(y[(i, j, c)] = acc.to();));
        let portfolio = lower_portfolio(&nest, &SM_90A).expect("a portfolio");
        let (turned, as_they_lie): (Vec<_>, Vec<_>) =
            portfolio.into_iter().partition(|lowered| lowered.program.schedule.contains(", turned = true"));
        assert!(!turned.is_empty() && !as_they_lie.is_empty(), "the launch weighs one against the other");
        assert!(as_they_lie.iter().all(|lowered| lowered.program.relaid.is_empty()));
        let mut sent = 0;
        for lowered in &turned {
            let plan = launch_plan(lowered, emit(&lowered.nest, &lowered.program));
            assert_eq!(plan.relaid, [Relaid { tensor: 2, last: 1, written: true }]);
            assert!(plan.source.contains("// y: (M, C, N), a copy that the launch turns when this is done\n"));
            sent += usize::from(plan.source.contains("tma_store("));
        }
        assert!(4 * sent > 3 * turned.len(), "but for tiles of less than a panel: {sent} of {}", turned.len());
        let pinned = |options: TokenStream| {
            let lowered = testing::lowered(quote! {
                #[schedule(#options)]
                fn f<M: Dim, N: Dim, K: Dim, C: Dim>(
                    a: &Tensor<f16, (C, M, K)>, b: &Tensor<f16, (C, N, K)>, y: &mut Tensor<f16, (M, N, C)>,
                ) {
                    tile!(for (c, i, j) in (each(C), M, N) {
                        let mut acc = zeros::<f32>((i, j));
                        tile!(for k in K { acc += dot(a[(c, i, k)], b[(c, j, k)].t()); });
                        y[(i, j, c)] = acc.to();
                    });
                }
            });
            lowered.map(|lowered| lowered.program.relaid.len()).map_err(|error| error.message)
        };
        assert_eq!(pinned(quote!(sm_90a, i = 128, j = 128, k = 64, consumers = 2, turned = true)), Ok(1));
        let error = pinned(quote!(sm_80, i = 128, j = 128, k = 32, turned = true)).expect_err("no TMA");
        assert!(error.contains("leave the option out"), "{error}");
    }

    #[test]
    fn other_results_leave_as_they_lie() {
        let stays = |dims, stores| assert!(with_turned_results(&by_channels(dims, stores)).is_none());
        stays(quote!((C, M, N)), quote!(y[(c, i, j)] = acc.to();));
        stays(quote!((C, N, M)), quote!(y[(c, j, i)] = acc.t().to();));
        stays(quote!((M, C, N)), quote!(y[(i, c, j)] = acc.to();));
        let part = quote!(y[(i, j, c + 1)] = acc.to(););
        stays(quote!((M, N, C)), part);
        let twice = quote!(y[(i, j, c)] = acc.to(); y[(i, j, c)] = (acc * 2.0).to(););
        stays(quote!((M, N, C)), twice);
        let onto = quote!(y[(i, j, c)] = (acc + y[(i, j, c)].to::<f32>()).to(););
        stays(quote!((M, N, C)), onto);
        let everywhere = quote!((M, N, C));
        assert!(with_turned_results(&by_channels(everywhere, quote!(y[(i, j, c)] = acc.to();))).is_some());
    }

    #[test]
    fn what_others_read_too_stays_as_it_lies() {
        let read = product(quote!(dot(a[(i, k)].to::<tf32>(), a[(k, j)].to::<tf32>())));
        assert_eq!(names(read), [""; 0], "a dot that reads it along the sum");
        let summed = product(quote!(dot(a[(i, k)].to::<tf32>(), b[(k, j)].to::<tf32>()) + b[(k, j)].col_sum()));
        assert_eq!(names(summed), [""; 0], "a sum");
        let twice = product(quote!(
            dot(a[(i, k)].to::<tf32>(), b[(k, j)].to::<tf32>())
                + dot(a[(j, k)].to::<tf32>(), b[(k, i)].to::<tf32>()).t()
        ));
        assert_eq!(names(twice), ["b"], "two dots that want the same");
    }
}
