use super::*;
use crate::nest::AxisKind;
use crate::schedule::target::{SM_80, SM_90A};
use crate::testing::{gated, gemm, nest};
use proc_macro2::TokenStream;
use quote::quote;

#[test]
fn no_block_keeps_more_than_its_consumers_have_registers_for() {
    // Beside a product's tile lives what it is compared with, of the same size.
    let (nest, _) = nest(quote! {
        fn nearest<M: Dim, N: Dim, K: Dim>(
            x: &Tensor<f16, (M, K)>, c: &Tensor<f16, (N, K)>, y: &mut Tensor<f32, (M,)>, at: &mut Tensor<i32, (M,)>,
        ) {
            tile!(for i in M {
                let mut best = full::<f32>(i, f32::INFINITY);
                let mut found = full::<i32>(i, -1);
                tile!(for j in N {
                    let mut s = zeros::<f32>((i, j));
                    tile!(for k in K { s += dot(x[(i, k)], c[(j, k)].t()); });
                    let least = s.row_min();
                    let first = s.le(least).select(iota(j), i32::MAX).row_min();
                    found = least.lt(best).select(first, found);
                    best = best.min(least);
                });
                y[i] = best;
                at[i] = found;
            });
        }
    });
    let portfolio = lower_portfolio(&nest, &SM_90A).expect("it lowers");
    assert!(portfolio.len() > 2);
    for Lowered { schedule, program, .. } in &portfolio {
        assert!(schedule.resident > 1 || has_registers_for(schedule, program), "{}", program.schedule);
    }
}

/// Widths of tiles by which warpgroups take turns at a layer whose result is this.
fn in_turn(result: TokenStream) -> Vec<Option<u32>> {
    let (nest, _) = nest(quote! {
        fn layer<M: Dim, N: Dim, K: Dim>(
            x: &Tensor<f16, (M, K)>, w: &Tensor<f16, (N, K)>, bias: &Tensor<f16, (N,)>, r: &Tensor<f16, (M, N)>,
            y: &mut Tensor<f16, (M, N)>,
        ) {
            tile!(for (i, j) in (M, N) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in K { acc += dot(x[(i, k)], w[(j, k)].t()); });
                y[(i, j)] = #result;
            });
        }
    });
    let portfolio = lower_portfolio(&nest, &SM_90A).expect("it lowers");
    portfolio.iter().filter(|one| one.schedule.pingpong).map(|one| one.schedule.blocks[1]).collect()
}

#[test]
fn warpgroups_take_turns_where_results_leave_by_panels_and_what_they_take_in_comes_by_tma() {
    let all = [Some(192), Some(128), Some(160), Some(144)];
    assert_eq!(in_turn(quote!(acc.to())), all);
    assert_eq!(in_turn(quote!((acc + bias[j].to::<f32>()).max(0.0).to())), all);
    assert_eq!(in_turn(quote!((acc + r[(i, j)].to::<f32>()).to())), all);
    assert_eq!(in_turn(quote!((acc + r[(i + 1, j)].to::<f32>()).to())), []);
}

#[test]
fn tiles_that_want_the_producers_registers_leave_all_copies_to_tma() {
    let (nest, _) = nest(gated(quote!(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2)));
    let portfolio = lower_portfolio(&nest, &SM_90A).expect("it lowers");
    let rows = |by_tma: bool| {
        let swapped = portfolio.iter().filter(|one| one.schedule.swapped && one.program.by_tma == by_tma);
        swapped.filter_map(|one| one.schedule.blocks[0]).collect::<Vec<_>>()
    };
    assert_eq!(rows(true), [192], "208 leave too few registers for all else");
    assert!([176, 160, 144].iter().all(|rows_of| rows(false).contains(rows_of)));
}

/// Columns of the portfolio's tiles, for a kernel of these columns.
fn widths(extent: TokenStream, dim: TokenStream) -> Vec<Option<u32>> {
    let (nest, _) = nest(quote! {
        fn f<M: Dim, N: Dim>(x: &Tensor<f16, (M, #dim)>, add: &Tensor<f16, (M, N)>, y: &mut Tensor<f16, (M, #dim)>) {
            tile!(for (i, j) in (M, #extent) { y[(i, j)] = x[(i, j)] + add[(i, 0)]; });
        }
    });
    let portfolio = lower_portfolio(&nest, &SM_80).expect("it lowers");
    portfolio.iter().map(|lowered| lowered.schedule.blocks[1]).collect()
}

#[test]
fn tiles_narrow_down_to_rows_that_may_be_short() {
    assert_eq!(widths(quote!(N), quote!(N)), [Some(256), Some(64), Some(32)]);
    assert_eq!(widths(quote!(Const::<4096>), quote!(Const<4096>)), [Some(256)]);
}

/// The gates of an LSTM: eight products of two loops, each with a ring of its own.
#[test]
fn blocks_of_many_operands_have_fewer_rows() {
    let (nest, _) = nest(quote! {
        fn gates<M: Dim, N: Dim, K: Dim>(
            x: &Tensor<f16, (M, K)>, h: &Tensor<f16, (M, N)>, w: &Tensor<f16, (Const<4>, N, K)>, u: &Tensor<f16, (Const<4>, N, N)>,
            y: &mut Tensor<f32, (M, N)>,
        ) {
            tile!(for (i, j) in (M, N) {
                let mut a = zeros::<f32>((i, j));
                let mut b = zeros::<f32>((i, j));
                let mut c = zeros::<f32>((i, j));
                let mut d = zeros::<f32>((i, j));
                tile!(for k in K {
                    a += dot(x[(i, k)], w[(0, j, k)].t());
                    b += dot(x[(i, k)], w[(1, j, k)].t());
                    c += dot(x[(i, k)], w[(2, j, k)].t());
                    d += dot(x[(i, k)], w[(3, j, k)].t());
                });
                tile!(for k in N {
                    a += dot(h[(i, k)], u[(0, j, k)].t());
                    b += dot(h[(i, k)], u[(1, j, k)].t());
                    c += dot(h[(i, k)], u[(2, j, k)].t());
                    d += dot(h[(i, k)], u[(3, j, k)].t());
                });
                y[(i, j)] = a.tanh() * b.tanh() + c.tanh() * d.tanh();
            });
        }
    });
    let portfolio = lower_portfolio(&nest, &SM_90A).expect("smaller blocks fit");
    let schedules: BTreeSet<&str> = portfolio.iter().map(|lowered| lowered.program.schedule.as_str()).collect();
    assert_eq!(schedules.len(), portfolio.len(), "{schedules:?}");
    assert!(portfolio.iter().all(|lowered| lowered.program.shared_bytes <= SM_90A.shared_limit));
}

/// A block that has all columns has them in every schedule: sums along its rows are its own.
#[test]
fn whole_columns_stay_whole() {
    let (nest, _) = nest(quote! {
        fn scaled<M: Dim, K: Dim>(a: &Tensor<f16, (M, K)>, w: &Tensor<f16, (Const<256>, K)>, y: &mut Tensor<f16, (M, Const<256>)>) {
            tile!(for i in M {
                let mut acc = zeros::<f32>((i, ..));
                tile!(for k in K { acc += dot(a[(i, k)], w[(.., k)].t()); });
                y[(i, ..)] = (acc / acc.row_max()).to();
            });
        }
    });
    let columns = nest.axes.iter().position(|axis| axis.kind == AxisKind::Whole).expect("`..`");
    for target in [&SM_80, &SM_90A] {
        let portfolio = lower_portfolio(&nest, target).expect("it lowers");
        let widths: Vec<_> = portfolio.iter().map(|lowered| lowered.schedule.blocks[columns]).collect();
        assert_eq!(widths, vec![Some(256); portfolio.len()], "{}", target.name);
    }
}

/// Fragments that are computed for each of two products take more registers than there are, whatever the tile.
#[test]
fn no_more_warps_than_columns_for_them() {
    let (nest, _) = nest(quote! {
        fn fourier<M: Dim, N: Dim, F: Dim>(x: &Tensor<f32, (M, N)>, c: &mut Tensor<f32, (M, F)>, s: &mut Tensor<f32, (M, F)>) {
            tile!(for (i, f) in (M, F) {
                let mut cosines = zeros::<f32>((i, f));
                let mut sines = zeros::<f32>((i, f));
                tile!(for n in N {
                    let angle = (iota(n) * iota(f) % N).to::<f32>() / (N as f32);
                    cosines += dot(x[(i, n)].to::<f16>(), angle.cos().to::<f16>().t());
                    sines += dot(x[(i, n)].to::<f16>(), angle.sin().to::<f16>().t());
                });
                c[(i, f)] = cosines;
                s[(i, f)] = sines;
            });
        }
    });
    for target in [&SM_80, &SM_90A] {
        lower_portfolio(&nest, target).unwrap_or_else(|error| panic!("{}: {error:?}", target.name));
    }
}

/// Three panels of columns make no halves, rows do.
#[test]
fn square_tiles_are_for_pairs_along_the_side_whose_other_operand_can_be_halved() {
    let squares = |a: TokenStream, at: TokenStream, b: TokenStream, bt: TokenStream| {
        let (nest, _) = nest(quote! {
            fn product<M: Dim, N: Dim, K: Dim>(a: &Tensor<f16, #a>, b: &Tensor<f16, #b>, c: &mut Tensor<f16, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(#at, #bt); });
                    c[(i, j)] = acc.to();
                });
            }
        });
        let portfolio = lower_portfolio(&nest, &SM_90A).expect("it lowers");
        let square = portfolio.into_iter().filter(|one| one.schedule.blocks[..2] == [Some(192), Some(192)]);
        square.map(|one| one.schedule.cluster.map(|axis| axis.index())).collect::<Vec<_>>()
    };
    let (a, b) = ((quote!((M, K)), quote!(a[(i, k)])), (quote!((N, K)), quote!(b[(j, k)].t())));
    let (across_a, across_b) = ((quote!((K, M)), quote!(a[(k, i)].t())), (quote!((K, N)), quote!(b[(k, j)])));
    assert_eq!(squares(a.0.clone(), a.1.clone(), b.0.clone(), b.1.clone()), [Some(0)]);
    assert_eq!(squares(a.0, a.1, across_b.0.clone(), across_b.1.clone()), [Some(1)]);
    assert_eq!(squares(across_a.0.clone(), across_a.1.clone(), b.0, b.1), [Some(0)]);
    assert_eq!(squares(across_a.0, across_a.1, across_b.0, across_b.1), []);
}

#[test]
fn the_deepest_ring_that_fits_is_found_by_leaping_too() {
    let (nest, _) = nest(quote! {
        fn product<M: Dim, N: Dim, K: Dim>(
            a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f16, (M, N)>,
        ) {
            tile!(for (i, j) in (M, N) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                c[(i, j)] = acc.to();
            });
        }
    });
    let laid = Laid::for_target(&nest, &SM_90A, false);
    let facts = Facts::of(&laid.nest);
    let wide = schedule::choose::start(&laid.nest, &facts, &SM_90A);
    for columns in [WIDE, 160, HALF, 64, 32] {
        let tiles = match columns {
            WIDE => wide.clone(),
            fewer => schedule::variants::by_fewer_columns(&laid.nest, &facts, &wide, WIDE, fewer).expect("a product"),
        };
        let fits = |stages: &u32| {
            let tried = Schedule { stages: *stages, ..tiles.clone() };
            lower(&laid, &facts, &tried).is_ok_and(|program| program.shared_bytes <= tried.shared_room())
        };
        let one_by_one = (2..=16).rev().find(fits);
        let found = depth::deepest(&laid, &facts, &tiles, 2..=16, |_, _| true).expect("it lowers");
        assert_eq!(found.map(|lowered| lowered.schedule.stages), one_by_one, "{columns} columns");
        assert!(one_by_one.is_some_and(|stages| stages > 2), "{columns} columns: {one_by_one:?}");
    }
}

/// Terms that lie side by side come two lines of a row at a time.
#[test]
fn weights_come_by_long_steps_where_terms_lie_side_by_side() {
    let long = |item: TokenStream| {
        let (nest, _) = nest(item);
        let portfolio = lower_portfolio(&nest, &SM_90A).expect("it lowers");
        let few = portfolio.into_iter().filter(|one| one.schedule.stages == 2);
        few.filter(|one| one.schedule.target == &SM_90A).map(|one| one.schedule.blocks).collect::<Vec<_>>()
    };
    let schedule = quote!(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2);
    let tile = |columns: u32| vec![Some(128), Some(columns), Some(128)];
    assert_eq!(long(gated(schedule.clone())), [tile(128), tile(112)]);
    assert!(long(gemm(schedule)).is_empty(), "columns lie side by side there");
    let transposed = quote! {
        fn product<M: Dim, N: Dim, K: Dim>(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f16, (M, N)>) {
            tile!(for (i, j) in (M, N) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                c[(i, j)] = acc.to();
            });
        }
    };
    assert_eq!(long(transposed), [tile(256)]);
}
