//! Last tiles that begin where they end with their axis, and so overlap those before them.
//!
//! ```text
//! 200 rows by tiles of 128       0..128, 128..256 of which 56 lie beside the tensor
//!                           →    0..128, 72..200
//! ```
//! TMA takes longer for a row beside a tensor than for one of its own, and all steps of a product's last tile have them. What both tiles
//! work out is the same to the last bit, so that it does not matter which of them stores it last. Tiles begin at vectors all the same: up to seven
//! rows stay beside the tensor.

use super::analysis::{DotFact, Facts, OperandSource, mentions};
use crate::nest::{AxisId, AxisKind, Extent, Int, IntOp, Nest, Op};
use crate::program::{AlikeIf, ConditionId, LastTile, Program, Split};
use crate::schedule::{Schedule, known_extent};

/// Has last tiles begin early where TMA fills all rings: threads copy no rows beside a tensor.
pub fn begin_early(program: &mut Program, nest: &Nest, facts: &Facts, schedule: &Schedule, by_tma: ConditionId) {
    let cut = program.split.as_ref().map_or(vec![], cut_alike);
    for grid in program.grid.iter_mut().filter(|grid| may_begin_early(nest, facts, schedule, grid.axis)) {
        grid.last_tile = Some(LastTile { by_tma, cut: cut.clone() });
    }
}

/// Whole sums add up in another order than cut ones. So do panels that parts deal out among themselves: which part begins depends on a panel's place
/// in its tile, and the same element has another one in each tile.
fn cut_alike(split: &Split) -> Vec<AlikeIf> {
    let none_is_whole = split.whole.as_ref().map(|whole| AlikeIf::NoneIsWhole(whole.count.clone()));
    let at_most_two = (split.shares > 0).then(|| AlikeIf::AtMostTwo(split.parts.clone()));
    none_is_whole.into_iter().chain(at_most_two).collect()
}

/// Whether the grid's last tile along the axis may begin early, and gains by it: where products fetch what lies along it step by step.
fn may_begin_early(nest: &Nest, facts: &Facts, schedule: &Schedule, axis: AxisId) -> bool {
    ends_within_a_tile(nest, schedule, axis)
        && facts.dots.iter().any(|dot| is_fetched_in_steps(nest, dot, axis))
        && is_computed_alike(nest, facts, axis)
}

fn ends_within_a_tile(nest: &Nest, schedule: &Schedule, axis: AxisId) -> bool {
    let tiled = nest.axis(axis).kind == AxisKind::Tiled && matches!(nest.axis(axis).extent, Extent::Dim(_));
    let Some(block) = schedule.blocks[axis.index()].filter(|_| tiled) else { return false };
    known_extent(nest, axis).is_none_or(|known| known > i64::from(block) && known % i64::from(block) != 0)
}

/// Whether the product's operand along the axis is another one at each step of a loop.
fn is_fetched_in_steps(nest: &Nest, dot: &DotFact, axis: AxisId) -> bool {
    let moves = |index: &[Int]| index.iter().any(|int| dot.loops.iter().any(|of_loop| mentions(int, *of_loop)));
    [(&dot.a, dot.m), (&dot.b, dot.n)].into_iter().any(|(source, along)| match source {
        OperandSource::Tensor { load, .. } if along == axis => {
            matches!(&nest.value(*load).op, Op::Load { index, .. } if moves(index))
        }
        _ => false,
    })
}

/// Whether every result has a place of its own for each element of the axis, and says the same whichever tile it is in: nothing is put together
/// along the axis, taken in from results, or asked of a tile's own place.
fn is_computed_alike(nest: &Nest, facts: &Facts, axis: AxisId) -> bool {
    let stores = nest.body.stores();
    let has_own_places = stores.iter().all(|(_, index)| index.contains(&Int::Axis(axis)));
    let is_taken_in = |value: &Op| match value {
        Op::Load { tensor, .. } => stores.iter().any(|(stored, _)| stored == tensor),
        Op::Reduce(_, _, along) => *along == axis,
        _ => false,
    };
    let asks_for_tile = |int: &Int| match int {
        Int::BlockStart(of) | Int::BlockEnd(of) => *of == axis,
        Int::Binary(IntOp::Div | IntOp::Rem, a, b) => mentions(a, axis) || mentions(b, axis),
        _ => false,
    };
    has_own_places
        && !nest.values.iter().any(|value| is_taken_in(&value.op))
        && facts.dots.iter().all(|dot| dot.k != axis)
        && !nest.any_int(&asks_for_tile)
}

#[cfg(test)]
mod tests {
    use crate::testing::{cuda, gemm, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// The axes along which last tiles begin early.
    fn overlapping(item: TokenStream) -> Vec<String> {
        let program = program(item);
        let overlapping = program.grid.iter().filter(|grid| grid.last_tile.is_some());
        overlapping.map(|grid| program.names.axes[grid.axis.index()].clone()).collect()
    }

    /// A product of a and b, scaled row by row, and what becomes of it.
    fn product(row: TokenStream, result: TokenStream) -> TokenStream {
        quote! {
            #[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 4)]
            fn f<M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, scale: &Tensor<f32, (M,)>, c: &mut Tensor<f32, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                    acc *= scale[#row];
                    c[(i, j)] = #result;
                });
            }
        }
    }

    #[test]
    fn last_tiles_of_products_end_with_their_axes() {
        assert_eq!(overlapping(product(quote!(i), quote!(acc))), ["i", "j"]);
        let text = cuda(gemm(quote!(sm_90a, i = 128, j = 128, k = 64, stages = 4)));
        let of_either_role = text.matches(
            "const int j0 = tile_begin<BLOCK_J>(at.col, N, A_READY_BULK && (!CUT || (whole_tiles == 0 && parts <= 2)));",
        );
        assert_eq!(of_either_role.count(), 2, "{text}");
        let by_the_last = cuda(gemm(quote!(sm_90a, i = 128, j = 256, k = 64, stages = 4, pingpong = true)));
        assert!(
            by_the_last.contains("tile_begin<BLOCK_J>(at.col, N, A_READY_BULK);"),
            "who take turns cut no sums: {by_the_last}"
        );
        assert!(
            overlapping(gemm(quote!(sm_80, i = 128, j = 128, k = 32))).is_empty(),
            "threads copy no row beside a tensor"
        );
    }

    /// What would be other numbers in another tile, or twice the same.
    #[test]
    fn results_of_two_tiles_are_the_same_or_there_is_one() {
        assert_eq!(overlapping(product(quote!(i), quote!(acc + c[(i, j)]))), [""; 0], "taken in");
        assert_eq!(overlapping(product(quote!(i + i.start()), quote!(acc))), ["j"], "a tile's own place");
        assert_eq!(overlapping(product(quote!(i / 2), quote!(acc))), ["j"], "rows that tiles have in common");
    }

    #[test]
    fn tiles_of_known_sizes_that_fit_begin_where_they_are() {
        let known = |rows: usize| {
            overlapping(quote! {
                #[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 4)]
                fn f<K: Dim>(a: &Tensor<f16, (Const<#rows>, K)>, b: &Tensor<f16, (Const<256>, K)>, c: &mut Tensor<f32, (Const<#rows>, Const<256>)>) {
                    tile!(for (i, j) in (Const::<#rows>, Const::<256>) {
                        let mut acc = zeros::<f32>((i, j));
                        tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                        c[(i, j)] = acc;
                    });
                }
            })
        };
        assert_eq!(known(200), ["i"]);
        assert_eq!(known(100), [""; 0]);
    }
}
