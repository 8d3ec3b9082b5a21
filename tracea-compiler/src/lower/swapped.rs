//! Products computed the other way round: a warpgroup multiplies 64 rows at a time, but as few as 16 columns, and three times as many as well.
//!
//! ```text
//! c[(i, j)] += a[(i, k)] · b[(k, j)]        becomes        cᵀ[(j, i)] += bᵀ[(j, k)] · aᵀ[(k, i)]
//! ```
//! All tiles change the order of their axes, dots that of their operands. A tile's axes say nothing of memory, so that loads and stores
//! stay as they are: they meet tiles whose rows lie along the tensors' contiguous axes.
//!
//! Of tf32 the left operand may lie across the sum and the right one may not, so that products of any size are swapped where that spares
//! a copy. Others are for few rows, and for tiles of more rows than columns.

use super::analysis::{Facts, operand_only};
use crate::nest::{AxisId, Nest, Op, ValueId};
use crate::schedule::{ScheduleError, choose};

/// The same nest, the other way round.
pub fn swapped(nest: &Nest) -> Nest {
    let mut swapped = nest.clone();
    for value in &mut swapped.values {
        value.ty.axes.reverse();
        if let Op::Dot { a, b } = &mut value.op {
            std::mem::swap(a, b);
        }
    }
    swapped
}

/// A product of a product's rows keeps them in registers, which only the first operand may be in.
pub fn check(nest: &Nest) -> Result<(), ScheduleError> {
    match choose::has_chain(nest, &Facts::of(nest)) {
        true => Err(ScheduleError::about(
            "swapped",
            "a product here is the left operand of another, which swapped would pass through shared memory -- leave the option out",
        )),
        false => Ok(()),
    }
}

/// How many whole tiles join a product on its way out: the other way round, they come element by element where no panels bring them.
pub fn tiles_taken_in(nest: &Nest, facts: &Facts) -> usize {
    let operands = operand_only(nest, facts);
    let joins = |axes: &[AxisId]| facts.dots.iter().any(|dot| axes.contains(&dot.m) && axes.contains(&dot.n));
    let is_taken_in = |id: &&ValueId| {
        let value = nest.value(**id);
        matches!(value.op, Op::Load { .. }) && !operands.contains(id) && joins(&value.ty.axes)
    };
    facts.order.iter().filter(is_taken_in).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::emit;
    use crate::lower::{Lowered, lower_portfolio};
    use crate::program::PanelSide;
    use crate::program::layout::LayoutKind;
    use crate::program::{Program, Stmt};
    use crate::schedule::target::SM_90A;
    use crate::testing::{accesses, flat, gemm, lines, lowered, nest, program};
    use proc_macro2::TokenStream;
    use quote::quote;
    use std::collections::BTreeSet;

    fn product(schedule: TokenStream, dtype: TokenStream, end: TokenStream) -> TokenStream {
        quote! {
            #[schedule(sm_90a, #schedule, swapped = true)]
            fn f<M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (K, N)>, bias: &Tensor<f32, (N,)>, scale: &Tensor<f32, (M,)>,
                r: &Tensor<f32, (M, N)>, c: &mut Tensor<#dtype, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(k, j)]); });
                    c[(i, j)] = #end;
                });
            }
        }
    }

    fn few_rows() -> TokenStream {
        quote!(i = 16, j = 128, k = 64, stages = 4, consumers = 2)
    }

    #[test]
    fn swapping_twice_changes_nothing() {
        let (nest, _) = nest(gemm(quote!(sm_90a)));
        assert_ne!(swapped(&nest), nest);
        assert_eq!(swapped(&swapped(&nest)), nest);
    }

    #[test]
    fn columns_become_the_rows_that_warpgroups_share() {
        let program = program(product(few_rows(), quote!(f16), quote!(acc.to())));
        let [tile] = &program.layouts[..] else { panic!("one layout") };
        assert_eq!((tile.name.as_str(), tile.rows, tile.cols), ("JITile", 128, 16));
        assert_eq!(tile.kind, LayoutKind::Mma16816 { warps_m: 8, warps_n: 1 });
        let dots: Vec<String> = lines(&program).into_iter().filter(|line| line.starts_with("dot")).collect();
        assert_eq!(dots, ["dot acc += b_ring (Mn-major) . a_ring (K-major) by Wgmma"]);
        assert!(program.schedule.contains("consumers = 2, swapped = true"), "{}", program.schedule);
    }

    /// Rows and columns of the panels that the result passes through, how many a warpgroup has room for, and how many there are.
    fn panels(program: &Program) -> (u32, u32, u32, u32) {
        let staging = program.shared.iter().find(|shared| shared.sent).expect("panels");
        let all = flat(&program.body);
        let count = all.iter().find_map(|stmt| if let Stmt::Panels { count, .. } = stmt { Some(*count) } else { None });
        let sides: Vec<PanelSide> = all
            .iter()
            .filter_map(|stmt| if let Stmt::WritePanel { side, .. } = stmt { Some(*side) } else { None })
            .collect();
        assert_eq!(sides, [PanelSide::Columns]);
        (staging.rows, staging.cols, staging.stages / 2, count.expect("panels"))
    }

    #[test]
    fn results_are_written_along_memory() {
        let of = |rows: u32, dtype: TokenStream, end: TokenStream| {
            panels(&program(product(quote!(i = #rows, j = 128, k = 64, stages = 3, consumers = 2), dtype, end)))
        };
        assert_eq!(of(16, quote!(f16), quote!(acc.to())), (16, 64, 1, 1));
        assert_eq!(of(96, quote!(f16), quote!(acc.to())), (64, 64, 2, 2), "the last one has half of it");
        assert_eq!(of(128, quote!(f16), quote!(acc.to())), (64, 64, 2, 2));
        assert_eq!(of(128, quote!(f32), quote!(acc)), (32, 64, 2, 4), "8 KiB a panel");
    }

    #[test]
    fn panels_are_sent_where_they_belong() {
        let of = |dtype: TokenStream, end: TokenStream| {
            let lowered = lowered(product(quote!(i = 64, j = 128, k = 64, stages = 3, consumers = 2), dtype, end))
                .expect("lowers");
            let text = emit(&lowered.nest, &lowered.program);
            let stores = text.lines().map(str::trim).filter(|line| line.starts_with("tma_store(")).map(str::to_string);
            stores.collect::<Vec<_>>()
        };
        assert_eq!(
            of(quote!(f16), quote!(acc.to())),
            [
                "tma_store(c_map64, own_panel<F16PanelsBuffer, 1>(f16_panels, panel), j0 + panel_row(), i0 + panel * 64);"
            ]
        );
        assert_eq!(
            of(quote!(f32), quote!(acc)),
            [
                "tma_store(c_map32, own_panel<F32PanelsBuffer, 2>(f32_panels, panel), j0 + panel_row(), i0 + panel * 32);",
                "tma_store(c_map32, own_panel<F32PanelsBuffer, 2>(f32_panels, panel) + 1024, j0 + panel_row() + 32, i0 + panel * 32);",
            ]
        );
    }

    #[test]
    fn an_epilogue_takes_in_slices_of_either_side_and_tiles() {
        let program = program(product(few_rows(), quote!(f32), quote!(acc * scale[i] + bias[j] + r[(i, j)])));
        // A slice is told twice: where it is fetched, and where it is read.
        let read: BTreeSet<String> = accesses(&program).into_iter().filter(|access| !access.starts_with('c')).collect();
        let expected = ["bias by elements, j < end", "r by elements, i < end, j < end", "scale by rows"];
        assert!(read.iter().eq(expected), "{read:?}");
    }

    #[test]
    fn chains_and_warps_without_roles_are_left_as_they_are() {
        let refused = |item: TokenStream| {
            let error = lowered(item).expect_err("a schedule that cannot be carried out");
            assert_eq!(error.option.as_deref(), Some("swapped"));
            error.message
        };
        assert_eq!(
            refused(gemm(quote!(sm_80, swapped = true))),
            "swapped spares warpgroups, which multiply 64 rows at a time, and sm_80 has none -- leave the option out"
        );
        assert_eq!(refused(gemm(quote!(sm_90a, swapped = 1))), "`swapped` is true or false");
        let chain = quote! {
            #[schedule(sm_90a, swapped = true)]
            fn mlp<M: Dim, F: Dim>(
                x: &Tensor<f16, (M, Const<64>)>, up: &Tensor<f16, (F, Const<64>)>, down: &Tensor<f16, (F, Const<64>)>,
                y: &mut Tensor<f32, (M, Const<64>)>,
            ) {
                tile!(for i in M {
                    let mut acc = zeros::<f32>((i, ..));
                    tile!(for f in F { acc += dot(dot(x[(i, ..)], up[(f, ..)].t()).to::<f16>(), down[(f, ..)]); });
                    y[(i, ..)] = acc;
                });
            }
        };
        assert_eq!(
            refused(chain),
            "a product here is the left operand of another, which swapped would pass through shared memory -- leave the option out"
        );
    }

    #[test]
    fn portfolios_have_schedules_for_few_rows_and_of_more_rows_than_columns() {
        let (nest, _) = nest(gemm(quote!(sm_90a)));
        let portfolio = lower_portfolio(&nest, &SM_90A).expect("a portfolio");
        let swapped = portfolio.iter().filter(|lowered| lowered.schedule.swapped && lowered.schedule.cluster.is_none());
        let tiles: Vec<(u32, u32)> =
            swapped.map(|lowered| (lowered.program.layouts[0].rows, lowered.program.layouts[0].cols)).collect();
        let more = [192, 208, 176, 160, 144, 256, 152, 136, 120, 112, 104, 96, 88, 80].map(|rows| (128, rows));
        let of_three = [160, 144, 136, 112, 104, 88, 80, 72].map(|rows| (192, rows));
        assert_eq!(
            tiles,
            [&[(128, 16), (128, 32)], &more[..], &[(256, 160), (256, 136)], &of_three, &[(64, 80)]].concat()
        );
    }

    /// Panels bring tiles of 16 bits; wider ones would come element by element.
    #[test]
    fn what_takes_in_tiles_by_panels_is_swapped_too() {
        let tiles_of = |dtype: TokenStream| {
            let (nest, _) = nest(quote! {
                fn f<M: Dim, N: Dim, K: Dim>(
                    a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, r: &Tensor<#dtype, (M, N)>, c: &mut Tensor<f16, (M, N)>,
                ) {
                    tile!(for (i, j) in (M, N) {
                        let mut acc = zeros::<f32>((i, j));
                        tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                        c[(i, j)] = (acc + r[(i, j)].to::<f32>()).to();
                    });
                }
            });
            let portfolio = lower_portfolio(&nest, &SM_90A).expect("a portfolio");
            let rows = |lowered: &Lowered| lowered.program.layouts[0].cols;
            portfolio.iter().filter(|lowered| lowered.schedule.swapped).map(rows).collect::<BTreeSet<u32>>()
        };
        let few = BTreeSet::from([16, 32]);
        assert_eq!(tiles_of(quote!(f32)), few);
        assert!(tiles_of(quote!(f16)).is_superset(&BTreeSet::from([80, 96, 112, 160, 208])));
    }

    /// Of each schedule for a product of f32 as tf32, whether it is swapped, and which tensors the launch copies.
    fn ways(a: TokenStream, b: TokenStream, end: TokenStream) -> Vec<(bool, Vec<usize>)> {
        let (nest, _) = nest(quote! {
            fn f<N: Dim>(
                a: &Tensor<f32, (N, N)>, b: &Tensor<f32, (N, N)>, r: &Tensor<f32, (N, N)>, c: &mut Tensor<f32, (N, N)>,
            ) {
                tile!(for (i, j) in (N, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in N { acc += dot(#a, #b); });
                    c[(i, j)] = #end;
                });
            }
        });
        let portfolio = lower_portfolio(&nest, &SM_90A).expect("a portfolio");
        let copies = |program: &Program| program.relaid.iter().map(|relaid| relaid.tensor).collect();
        let mut ways: Vec<_> = portfolio.iter().map(|one| (one.schedule.swapped, copies(&one.program))).collect();
        ways.dedup();
        ways
    }

    #[test]
    fn products_of_any_size_are_swapped_where_that_spares_a_copy() {
        let (a, across_a) = (quote!(a[(i, k)].to::<tf32>()), quote!(a[(k, i)].to::<tf32>().t()));
        let (across_b, b) = (quote!(b[(k, j)].to::<tf32>()), quote!(b[(j, k)].to::<tf32>().t()));
        let of = |a: &TokenStream, b: &TokenStream| ways(a.clone(), b.clone(), quote!(acc));
        assert_eq!(of(&a, &across_b), [(true, vec![])]);
        assert_eq!(of(&a, &b), [(false, vec![]), (true, vec![])], "of the same operands");
        assert_eq!(of(&across_a, &b), [(false, vec![]), (true, vec![0])], "few rows are soon copied");
        assert_eq!(of(&across_a, &across_b), [(false, vec![1]), (true, vec![0])], "whichever is smaller");
        let residual = ways(a.clone(), across_b.clone(), quote!(acc + r[(i, j)]));
        assert_eq!(residual, [(false, vec![1]), (true, vec![])], "whole tiles come by panels as the kernel has it");
    }
}
