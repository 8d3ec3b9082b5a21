use crate::nest::{ReduceOp, UnaryOp};
use crate::program::{Expr, PingPong, Program, Rejoin, Relative, Stmt};
use crate::testing::{cuda, flat, program};
use proc_macro2::TokenStream;
use quote::quote;

fn rows(start: TokenStream, step: TokenStream) -> Program {
    program(quote! {
        #[schedule(sm_80, i = 1, j = 512)]
        fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, w: &Tensor<f32, (M, N)>, out: &mut Tensor<f32, (M,)>, by: f32) {
            tile!(for i in M {
                #start
                tile!(for j in N {
                    let s = x[(i, j)];
                    #step
                });
                out[i] = m + l;
            });
        }
    })
}

/// Whether each thing that the loop carries is reduced, or relative to another one.
fn ways(step: TokenStream) -> Option<Vec<bool>> {
    let start = quote! {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
    };
    let split = rows(start, step).split?;
    Some(split.ways.iter().map(|way| matches!(way, Rejoin::Relative { extreme: 0, .. })).collect())
}

#[test]
fn sums_relative_to_a_running_extreme_are_put_together() {
    let relative = Some(vec![false, true]);
    assert_eq!(
        ways(quote! {
            let m_new = m.max(s.row_max()).max(f32::MIN);
            l = l * (m - m_new).exp() + (s - m_new).exp().row_sum();
            m = m_new;
        }),
        relative
    );
    assert_eq!(
        ways(quote! {
            let m_new = s.row_max().max(m);
            let p = ((s - m_new) * by).exp2();
            l = (w[(i, j)] * p - p / 3.0).row_sum() + ((m - m_new) * by).exp2() * l;
            m = m_new;
        }),
        relative,
        "multiples, and what they add up to"
    );
    assert_eq!(
        ways(quote! {
            let m_new = m.min(s.row_min());
            let p = (m_new - s).exp();
            l = l * (m - m_new).exp() + p.row_sum();
            m = m_new;
        }),
        None,
        "the other way round"
    );
}

#[test]
fn what_is_not_linear_in_it_is_not_relative() {
    for term in [
        quote!((s - m_new).exp2().row_sum()),
        quote!(((s - m_new) * by).exp().row_sum()),
        quote!((s - m).exp().row_sum()),
        quote!((s - m_new).exp().sqrt().row_sum()),
        quote!((s - m_new).exp().row_max()),
        quote!(((s - m_new).exp() + 1.0).row_sum()),
        quote!(((s - m_new).exp() * (s - m_new).exp()).row_sum()),
        quote!((s - m_new).row_sum()),
        quote!((w[(i, j)] * m_new - m_new).exp().row_sum()),
    ] {
        let step = quote! {
            let m_new = m.max(s.row_max());
            l = l * (m - m_new).exp() + #term;
            m = m_new;
        };
        assert_eq!(ways(step), None, "{term}");
    }
}

#[test]
fn parts_begin_with_nothing() {
    let start = quote! {
        let mut m = zeros::<f32>(i);
        let mut l = full::<f32>(i, 1.0);
    };
    let step = quote! {
        let m_new = m.max(s.row_max());
        l = l * (m - m_new).exp() + (s - m_new).exp().row_sum();
        m = m_new;
    };
    assert!(rows(start, step).split.is_none(), "each part would count it");
}

#[test]
fn weights_are_of_each_parts_extreme_to_that_of_all() {
    let program = rows(
        quote! {
            let mut m = full::<f32>(i, f32::NEG_INFINITY);
            let mut l = zeros::<f32>(i);
        },
        quote! {
            let m_new = m.max(s.row_max());
            l = l * (m - m_new).exp() + (s - m_new).exp().row_sum();
            m = m_new;
        },
    );
    let join = flat(&program.body).into_iter().find_map(|stmt| match stmt {
        Stmt::JoinParts { values, relative, .. } => Some((values, relative)),
        _ => None,
    });
    let (values, relative) = join.expect("parts");
    assert_eq!(values.iter().map(|left| left.op).collect::<Vec<_>>(), [Some(ReduceOp::Max), None]);
    let [Relative { extreme, sums, weigh: Expr::Select(_, one, weight), .. }] = &relative[..] else {
        panic!("{relative:?}")
    };
    assert_eq!((extreme, &sums[..]), (&values[0], &values[1..]));
    assert_eq!(**one, Expr::Number(1.0), "nothing seen, and nothing elsewhere");
    assert!(matches!(&**weight, Expr::Unary(UnaryOp::Exp, _)), "{weight:?}");
}

fn attention(schedule: TokenStream, keys: TokenStream) -> TokenStream {
    quote! {
        #[schedule(#schedule)]
        fn f<S: Dim, T: Dim>(
            q: &Tensor<f16, (S, Const<64>)>, k: &Tensor<f16, (T, Const<64>)>, v: &Tensor<f16, (T, Const<64>)>,
            o: &mut Tensor<f16, (S, Const<64>)>, count: i32,
        ) {
            tile!(for i in S {
                let mut m = full::<f32>(i, f32::NEG_INFINITY);
                let mut l = zeros::<f32>(i);
                let mut acc = zeros::<f32>((i, ..));
                tile!(for j in #keys {
                    let s = dot(q[(i, ..)], k[(j, ..)].t()).mask(|_, j| j < count, f32::NEG_INFINITY);
                    let m_new = m.max(s.row_max());
                    let p = (s - m_new).exp();
                    let fade = (m - m_new).exp();
                    l = l * fade + p.row_sum();
                    acc = acc * fade + dot(p.to::<f16>(), v[(j, ..)]);
                    m = m_new;
                });
                o[(i, ..)] = (acc / l).to();
            });
        }
    }
}

#[test]
fn keys_of_a_softmax_are_shared_out() {
    for schedule in [
        quote!(sm_80, i = 64, j = 64, stages = 2, warps = (4, 1)),
        quote!(sm_90a, i = 128, j = 128, stages = 2, consumers = 2),
    ] {
        for keys in [quote!(T), quote!(T.until(count)), quote!(T.from(count - 100).until(count))] {
            let text = cuda(attention(schedule.clone(), keys));
            assert!(text.contains("read_parts<Max, THREADS>(m, first_part, "), "{text}");
            assert_eq!(text.matches("m_weight[IConst64Tile::row_slot(reg)]").count(), 1, "{text}");
        }
    }
}

/// Warpgroups take turns from one unit to the next, and the turn that the first one has at the end stays with nobody.
#[test]
fn turns_begin_before_the_first_unit_and_end_after_the_last() {
    let schedule = quote!(sm_90a, i = 128, j = 128, stages = 2, consumers = 2);
    for keys in [quote!(T), quote!(T.until(count))] {
        let program = program(attention(schedule.clone(), keys));
        let ends = [PingPong::Begin, PingPong::End].map(|step| Stmt::PingPong(step, 2));
        let body = &program.body;
        assert!(
            matches!(&body[..], [begin, Stmt::ForUnits(_), end, ..] if [begin, end] == [&ends[0], &ends[1]]),
            "{program}"
        );
        let parts = flat(body).into_iter().filter(|stmt| matches!(stmt, Stmt::JoinParts { .. }));
        assert_eq!(parts.count(), 0, "all blocks of a tile go on");
    }
}

/// Both roles run over the same steps of a loop that holds the one that the ring feeds.
#[test]
fn a_loop_around_products_is_shared_out() {
    let text = cuda(quote! {
        #[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2)]
        fn f<M: Dim, V: Dim, K: Dim>(x: &Tensor<f16, (M, K)>, w: &Tensor<f16, (V, K)>, y: &mut Tensor<f32, (M,)>) {
            tile!(for i in M {
                let mut l = zeros::<f32>(i);
                tile!(for j in V {
                    let mut s = zeros::<f32>((i, j));
                    tile!(for k in K { s += dot(x[(i, k)], w[(j, k)].t()); });
                    l += s.exp().row_sum();
                });
                y[i] = l;
            });
        }
    });
    assert_eq!(text.matches("for (int j0 = j_first; j0 < j_until; j0 += ").count(), 2, "{text}");
    assert!(text.contains("read_parts<Sum, THREADS>(l, "), "{text}");
    let reads_itself = quote! {
        #[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2)]
        fn f<M: Dim, V: Dim, K: Dim>(x: &Tensor<f16, (M, K)>, w: &Tensor<f16, (V, K)>, y: &mut Tensor<f32, (M,)>) {
            tile!(for i in M {
                let mut l = zeros::<f32>(i);
                tile!(for j in V {
                    let mut s = full::<f32>((i, j), 0.0) + l;
                    tile!(for k in K { s += dot(x[(i, k)], w[(j, k)].t()); });
                    l += s.exp().row_sum();
                });
                y[i] = l;
            });
        }
    };
    assert!(program(reads_itself).split.is_none(), "by way of the inner loop");
}
