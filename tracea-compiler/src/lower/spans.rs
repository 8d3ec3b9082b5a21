//! Loops over a part of their axis: where they begin and end beside what is copied and multiplied.
//!
//! ```text
//! K.until(i.end())                 blocks of i are whole steps: the last step ends where the loop does
//! K.range(g * 32..g * 32 + 32)     32 terms from a multiple of 32 on: one step, of whose block products take 32 terms
//! ```
//! Where a loop ends with a step, or where the axis does, what is copied in a step is what it wants, and the tensor's own end is all that
//! needs to be looked at.

use super::Lowering;
use super::access::OF_A_VECTOR;
use super::analysis::is_tiled;
use crate::nest::{AxisId, AxisKind, Block, Int, IntOp, Loop, Nest, Stmt};
use crate::program::IntText;
use crate::schedule::target::Pipeline;

impl Lowering<'_> {
    /// Where a loop's steps end.
    pub fn limit_of(&self, inner: &Loop) -> IntText {
        match inner.until {
            Some(_) => IntText::Name(format!("{}_end", self.names.axis(inner.axis))),
            None => IntText::Extent(inner.axis),
        }
    }

    /// Whether a loop ends with one of its steps, or where its axis does.
    pub fn ends_with_a_step(&self, inner: &Loop) -> bool {
        let Some(until) = &inner.until else { return true };
        let terms = i64::from(self.terms(inner.axis));
        let counted = span(inner).is_some_and(|span| span % terms == 0);
        counted || inner.from.iter().chain([until]).all(|bound| self.lies_between_steps(bound, inner.axis))
    }

    /// Whether a loop's bound is where one of the axis' blocks begins or ends, counted from 0: between two of those there are whole steps.
    fn lies_between_steps(&self, bound: &Int, axis: AxisId) -> bool {
        let Some(step) = self.schedule.blocks[axis.index()].filter(|_| is_tiled(self.nest, axis)) else { return false };
        let whole_steps = |other: AxisId| {
            let block = self.schedule.blocks[other.index()].filter(|_| is_tiled(self.nest, other));
            !self.shifted.contains(&other) && block.is_some_and(|block| block.is_multiple_of(step))
        };
        match bound {
            Int::Const(number) => number % i64::from(step) == 0,
            Int::BlockStart(other) => whole_steps(*other),
            Int::BlockEnd(other) => {
                whole_steps(*other)
                    && !self.limited.contains(other)
                    && self.nest.axis(*other).extent == self.nest.axis(axis).extent
            }
            Int::Binary(IntOp::Max | IntOp::Min, a, b) => {
                self.lies_between_steps(a, axis) && self.lies_between_steps(b, axis)
            }
            _ => false,
        }
    }

    /// Whether a loop's first coordinate is some whole vectors: where it is the start of another axis' block that has whole ones, a multiple of
    /// a number that has, or made of such.
    pub fn begins_on_vectors(&self, from: &Int) -> bool {
        let narrowest = self.nest.tensors.iter().map(|tensor| tensor.dtype.bytes()).min().unwrap_or(1);
        let vector = (16 / narrowest).max(OF_A_VECTOR);
        match from {
            Int::Const(number) => number % i64::from(vector) == 0,
            Int::BlockStart(axis) => {
                let block = self.schedule.blocks[axis.index()];
                !self.shifted.contains(axis) && block.is_some_and(|block| block.is_multiple_of(vector))
            }
            Int::Binary(IntOp::Max | IntOp::Min | IntOp::Add | IntOp::Sub, a, b) => {
                self.begins_on_vectors(a) && self.begins_on_vectors(b)
            }
            Int::Binary(IntOp::Mul, a, b) => self.begins_on_vectors(a) || self.begins_on_vectors(b),
            _ => false,
        }
    }

    /// Of a step's block along the axis, as many as products sum over: fewer where a loop is shorter than a block, and products by warpgroups are all
    /// that its tiles are for.
    pub fn terms(&self, axis: AxisId) -> u32 {
        const BYTES_OF_A_PRODUCT: u32 = 32;
        let block = self.schedule.blocks[axis.index()].filter(|_| is_tiled(self.nest, axis)).unwrap_or(1);
        let span = loop_along(&self.nest.body, axis).and_then(span).and_then(|span| u32::try_from(span).ok());
        let Some(span) = span.filter(|span| *span > 0 && *span < block) else { return block };
        let dots = || self.facts.dots.iter().filter(|dot| dot.k == axis);
        let multiplied = dots().all(|dot| (span * dot.dtype.bytes()).is_multiple_of(BYTES_OF_A_PRODUCT));
        let holds = |id| self.nest.value(id).ty.axes.contains(&axis);
        let alone = self.facts.order.iter().all(|id| !holds(*id) || self.skipped.contains(id));
        let by_warpgroups = self.schedule.target.pipeline == Pipeline::WarpRoles && dots().next().is_some();
        if by_warpgroups && multiplied && alone { span } else { block }
    }
}

/// How long a loop is, where that is the same wherever it begins, unless its axis ends before.
pub fn span(inner: &Loop) -> Option<i64> {
    let Loop { from, until: Some(until), .. } = inner else { return None };
    let from = from.clone().unwrap_or(Int::Const(0));
    // Where it would begin before 0, it begins there.
    if !is_natural(&from) {
        return None;
    }
    let mut sum = Sum::default();
    sum.add(until, 1)?;
    sum.add(&from, -1)?;
    sum.constant()
}

/// Where a loop walks along a part of its axis at each step of another one that stands around it, and these follow each other: the axis of that one, and
/// how long a part is.
pub fn part_of_an_axis(nest: &Nest, axis: AxisId) -> Option<(AxisId, u32)> {
    let inner = loop_along(&nest.body, axis)?;
    let length = span(inner).filter(|span| *span > 0)?;
    let Int::Binary(IntOp::Mul, a, b) = inner.from.as_ref()? else { return None };
    let around = match (&**a, &**b) {
        (Int::Axis(around), Int::Const(stride)) | (Int::Const(stride), Int::Axis(around)) if *stride == length => {
            around
        }
        _ => return None,
    };
    (nest.axis(*around).kind == AxisKind::Each).then_some((*around, u32::try_from(length).ok()?))
}

/// The loop that walks along the axis.
fn loop_along(block: &Block, axis: AxisId) -> Option<&Loop> {
    block.stmts.iter().find_map(|stmt| match stmt {
        Stmt::Loop(inner) if inner.axis == axis => Some(inner),
        Stmt::Loop(inner) => loop_along(&inner.body, axis),
        _ => None,
    })
}

/// Whether the number is 0 or more.
fn is_natural(int: &Int) -> bool {
    match int {
        Int::Const(number) => *number >= 0,
        Int::Dim(_) | Int::Axis(_) | Int::FlatCoord(..) | Int::BlockStart(_) | Int::BlockEnd(_) => true,
        Int::Scalar(_) | Int::Element(..) => false,
        Int::Binary(IntOp::Max, a, b) => is_natural(a) || is_natural(b),
        Int::Binary(IntOp::Sub, ..) => false,
        Int::Binary(_, a, b) => is_natural(a) && is_natural(b),
    }
}

/// Numbers, each some times.
#[derive(Default)]
struct Sum {
    ones: i64,
    parts: Vec<(Int, i64)>,
}

impl Sum {
    fn add(&mut self, int: &Int, times: i64) -> Option<()> {
        match int {
            Int::Const(number) => self.ones = self.ones.checked_add(number.checked_mul(times)?)?,
            Int::Binary(IntOp::Add, a, b) => {
                self.add(a, times)?;
                self.add(b, times)?;
            }
            Int::Binary(IntOp::Sub, a, b) => {
                self.add(a, times)?;
                self.add(b, times.checked_neg()?)?;
            }
            Int::Binary(IntOp::Mul, a, b) => match (&**a, &**b) {
                (other, Int::Const(number)) | (Int::Const(number), other) => {
                    self.add(other, times.checked_mul(*number)?)?;
                }
                _ => self.count(int, times)?,
            },
            _ => self.count(int, times)?,
        }
        Some(())
    }

    fn count(&mut self, int: &Int, times: i64) -> Option<()> {
        match self.parts.iter_mut().find(|(part, _)| part == int) {
            Some((_, all)) => *all = all.checked_add(times)?,
            None => self.parts.push((int.clone(), times)),
        }
        Some(())
    }

    /// Where all but a constant goes.
    fn constant(&self) -> Option<i64> {
        self.parts.iter().all(|(_, times)| *times == 0).then_some(self.ones)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::cuda;
    use proc_macro2::TokenStream;
    use quote::quote;

    fn product(schedule: TokenStream, range: TokenStream, step: TokenStream) -> TokenStream {
        quote! {
            #[schedule(#schedule)]
            fn f<M: Dim, N: Dim, K: Dim, G: Dim>(
                a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, s: &Tensor<f32, (G,)>, c: &mut Tensor<f32, (M, N)>, from: i32,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for g in each(G) {
                        let mut part = zeros::<f32>((i, j));
                        tile!(for k in K.range(#range) { part += #step; });
                        acc += part * s[g];
                    });
                    c[(i, j)] = acc;
                });
            }
        }
    }

    fn hopper(range: TokenStream) -> String {
        let schedule = quote!(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2);
        cuda(product(schedule, range, quote!(dot(a[(i, k)], b[(j, k)].t()))))
    }

    #[test]
    fn loops_of_whole_steps_come_by_tma() {
        for range in [quote!(g * 128..g * 128 + 128), quote!(g * 128..(g + 1) * 128), quote!(2 * g * 64..128 + g * 128)]
        {
            let text = hopper(range.clone());
            assert!(text.contains("tma_load(") && text.contains("wgdot_issue<IJTile, 64>"), "{range}: {text}");
        }
        for range in
            [quote!(g * 96..g * 96 + 96), quote!(g * 4..g * 4 + 64), quote!(from..from + 64), quote!(g * 64..128)]
        {
            assert!(!hopper(range.clone()).contains("tma_load("), "{range}");
        }
    }

    #[test]
    fn of_shorter_loops_a_block_is_multiplied_in_part() {
        let text = hopper(quote!(g * 32..g * 32 + 32));
        assert!(text.contains("tma_load(") && text.contains("wgdot_issue<IJTile, 32>"), "{text}");
        assert!(text.contains("PanelKMajor<f16, 128, 64>"), "{text}");
        // Half a product's terms.
        assert!(!hopper(quote!(g * 8..g * 8 + 8)).contains("tma_load("));
        // What else is done with a tile sees all of it.
        let schedule = quote!(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2);
        let masked = quote!(dot(a[(i, k)].mask(|i, k| k <= i, f16::ZERO), b[(j, k)].t()));
        let text = cuda(product(schedule, quote!(g * 32..g * 32 + 32), masked));
        assert!(!text.contains("wgdot_issue<IJTile, 32>"), "{text}");
    }

    #[test]
    fn a_loop_up_to_a_block_ends_with_a_step_where_blocks_are_whole_steps() {
        let text = |rows: u32| {
            cuda(quote! {
                #[schedule(sm_90a, i = #rows, j = 128, k = 64, stages = 4, consumers = 1)]
                fn f<M: Dim, N: Dim>(a: &Tensor<f16, (M, M)>, x: &Tensor<f16, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
                    tile!(for (i, j) in (M, N) {
                        let mut acc = zeros::<f32>((i, j));
                        tile!(for k in M.until(i.end()) { acc += dot(a[(i, k)], x[(k, j)]); });
                        y[(i, j)] = acc;
                    });
                }
            })
        };
        assert!(text(64).contains("tma_load("));
    }

    #[test]
    fn what_parts_of_an_axis_take_is_what_that_takes() {
        let steps = |range: TokenStream| {
            let schedule = quote!(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2);
            let (nest, schedules) =
                crate::testing::nest(product(schedule, range, quote!(dot(a[(i, k)], b[(j, k)].t()))));
            let target = crate::schedule::target::find(&schedules[0].target).expect("a known target");
            let cost = crate::lower::lower_pinned(&nest, target, &schedules[0]).expect("the kernel lowers").cost;
            cost.steps[0].over.iter().map(|axis| (axis.dims.clone(), axis.block)).collect::<Vec<_>>()
        };
        assert_eq!(steps(quote!(g * 32..g * 32 + 32)), [(vec![2], 32)]);
        assert_eq!(steps(quote!(g * 128..g * 128 + 128)), [(vec![2], 64)]);
        assert_eq!(steps(quote!(g * 32..g * 32 + 64)), [(vec![3], 1), (vec![2], 64)]);
    }
}
