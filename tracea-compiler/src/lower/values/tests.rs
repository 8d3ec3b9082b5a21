use crate::testing::{cuda, gemm, lines, program};
use proc_macro2::TokenStream;
use quote::quote;

fn elementwise(body: TokenStream) -> TokenStream {
    quote! {
        #[schedule(sm_80, i = 8, j = 256)]
        fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
            tile!(for (i, j) in (M, N) { #body });
        }
    }
}

fn maps(item: TokenStream) -> usize {
    lines(&program(item)).iter().filter(|line| line.starts_with("map ")).count()
}

#[test]
fn a_chain_of_element_wise_work_is_one_loop() {
    assert_eq!(maps(elementwise(quote!(y[(i, j)] = (x[(i, j)] * 2.0 + 1.0).exp().max(0.5);))), 1);
}

#[test]
fn a_value_that_two_read_has_registers() {
    assert_eq!(maps(elementwise(quote!(let e = x[(i, j)].exp(); y[(i, j)] = e / (e + 1.0);))), 2);
}

#[test]
fn a_copy_needs_no_loop() {
    assert_eq!(maps(elementwise(quote!(y[(i, j)] = x[(i, j)];))), 0);
}

#[test]
fn products_accumulate_in_place() {
    let lines = lines(&program(gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2)))));
    let tiles = lines.iter().filter(|line| line.starts_with("declare")).count();
    assert_eq!(tiles, 1, "{lines:?}");
}

#[test]
fn several_products_accumulate_onto_one_running_sum() {
    let lines = lines(&program(quote! {
        #[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 2, consumers = 2)]
        fn f<M: Dim, N: Dim, K: Dim>(
            a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, d: &Tensor<f16, (N, K)>, c: &mut Tensor<f32, (M, N)>,
        ) {
            tile!(for (i, j) in (M, N) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in K {
                    acc += dot(a[(i, k)], b[(j, k)].t());
                    acc += dot(a[(i, k)], d[(j, k)].t());
                });
                c[(i, j)] = acc;
            });
        }
    }));
    let starting = |word: &str| lines.iter().filter(|line| line.starts_with(word)).count();
    assert_eq!((starting("dot acc +="), starting("wait for dots"), starting("declare")), (2, 1, 1), "{lines:?}");
}

/// A running value, its successor, and what stands after the update.
fn running(update: TokenStream) -> Vec<String> {
    lines(&program(quote! {
        #[schedule(sm_80, i = 8, j = 256)]
        fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
            tile!(for i in M {
                let mut m = full::<f32>(i, f32::NEG_INFINITY);
                let mut l = zeros::<f32>(i);
                tile!(for j in N { #update });
                y[i] = m + l;
            });
        }
    }))
}

#[test]
fn a_running_value_that_nothing_reads_again_is_updated_in_place() {
    let lines = running(quote!(m = m.max(x[(i, j)].row_max()); l += 1.0;));
    assert!(!lines.iter().any(|line| line.starts_with("declare m_") || line.starts_with("declare l_")), "{lines:?}");
}

#[test]
fn a_running_value_that_is_read_again_is_kept() {
    let lines = running(quote! {
        let m_new = m.max(x[(i, j)].row_max());
        l = l * (m - m_new).exp();
        m = m_new;
    });
    let order: Vec<&str> = lines.iter().filter(|line| line.starts_with("map ")).map(|line| &line[4..]).collect();
    assert_eq!(order, ["m", "l", "m_new", "l", "m", "m_new_2", "l", "m", "value"], "{lines:?}");
}

#[test]
fn a_mask_by_position_is_skipped_where_it_holds_everywhere() {
    let text = cuda(quote! {
        #[schedule(sm_80, i = 64, j = 64)]
        fn f<N: Dim>(x: &Tensor<f32, (N, N)>, y: &mut Tensor<f32, (N, N)>) {
            tile!(for (i, j) in (N, N) { y[(i, j)] = x[(i, j)].mask(|i, j| j <= i, 0.0); });
        }
    });
    assert!(text.contains("if (!(j0 + 63 <= i0)) {"), "{text}");
}

#[test]
fn both_halves_of_a_window_are_tested() {
    let text = cuda(quote! {
        #[schedule(sm_80, i = 64, j = 64)]
        fn f<N: Dim>(x: &Tensor<f32, (N, N)>, y: &mut Tensor<f32, (N, N)>, w: i32) {
            tile!(for (i, j) in (N, N) { y[(i, j)] = x[(i, j)].mask(|i, j| j <= i && i - j < w, 0.0); });
        }
    });
    assert!(text.contains("if (!((j0 + 63 <= i0) && ((i0 + 63) - j0 < w))) {"), "{text}");
}

#[test]
fn a_mask_by_values_is_never_skipped() {
    let text = cuda(elementwise(quote!(y[(i, j)] = select(x[(i, j)].gt(0.0), x[(i, j)], 0.0);)));
    assert!(!text.contains("if (!("), "{text}");
}

fn reduction(columns: TokenStream, body: TokenStream) -> Vec<String> {
    lines(&program(quote! {
        #[schedule(sm_80, i = 8, j = 256)]
        fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, #columns)>, y: &mut Tensor<f32, (M,)>) {
            tile!(for i in M {
                let mut total = zeros::<f32>(i);
                tile!(for j in #columns { #body });
                y[i] = total;
            });
        }
    }))
}

fn masks(lines: &[String]) -> Vec<&str> {
    lines.iter().filter(|line| line.starts_with("mask")).map(String::as_str).collect()
}

#[test]
fn reductions_mask_only_where_a_block_can_be_partial() {
    let body = quote!(total += x[(i, j)].exp().row_sum(););
    assert_eq!(masks(&reduction(quote!(N), body.clone())), ["mask edge of value_2 with Zero"]);
    let known = quote! {
        #[schedule(sm_80, i = 8, j = 256)]
        fn f<M: Dim>(x: &Tensor<f32, (M, Const<1024>)>, y: &mut Tensor<f32, (M,)>) {
            tile!(for i in M {
                let mut total = zeros::<f32>(i);
                tile!(for j in Const::<1024> { #body });
                y[i] = total;
            });
        }
    };
    assert!(masks(&lines(&program(known))).is_empty());
}

#[test]
fn a_tile_is_masked_again_only_for_another_identity() {
    let twice = reduction(quote!(N), quote!(let v = x[(i, j)]; total += v.row_max() + v.row_max();));
    assert_eq!(masks(&twice).len(), 1, "{twice:?}");
    let other = reduction(quote!(N), quote!(let v = x[(i, j)]; total += v.row_max() + v.row_sum();));
    assert_eq!(masks(&other).len(), 2, "{other:?}");
}

#[test]
fn sums_of_halves_run_in_f32() {
    let lines = lines(&program(quote! {
        #[schedule(sm_80, i = 8, j = 256)]
        fn f<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, y: &mut Tensor<f16, (M,)>) {
            tile!(for i in M {
                let mut total = full::<f16>(i, 0.0);
                tile!(for j in N { total = total.max(x[(i, j)].row_max()); });
                y[i] = total;
            });
        }
    }));
    assert!(lines.iter().any(|line| line.starts_with("declare x_tile_2: Float over IJTile")), "{lines:?}");
}

#[test]
fn a_slice_in_other_registers_is_exchanged() {
    // Row sums of one tile scale the columns of another.
    let lines = lines(&program(quote! {
        #[schedule(sm_80, i = 64, j = 64, k = 64)]
        fn f<M: Dim, N: Dim, K: Dim>(x: &Tensor<f32, (M, K)>, z: &Tensor<f32, (N, M)>, y: &mut Tensor<f32, (N, M)>) {
            tile!(for (j, i) in (N, M) {
                let mut total = zeros::<f32>(i);
                tile!(for k in K { total += x[(i, k)].row_sum(); });
                y[(j, i)] = z[(j, i)] * total;
            });
        }
    }));
    assert!(lines.iter().any(|line| line.starts_with("exchange total")), "{lines:?}");
}
