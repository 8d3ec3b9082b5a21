use crate::program::{IntText, Stmt};
use crate::testing::{cuda, flat, gated, gemm, lines, lowered, program};
use proc_macro2::TokenStream;
use quote::quote;

#[test]
fn a_ring_of_any_depth() {
    for stages in 2u32..=5 {
        let text = gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = #stages, warps = (2, 2)));
        let program = program(text.clone());
        assert!(program.shared[..2].iter().all(|shared| shared.stages == stages));
        let all = flat(&program.body);
        let first = all.iter().find_map(|stmt| match stmt {
            Stmt::For { var, until, .. } if var == "stage" => Some(until.clone()),
            _ => None,
        });
        assert_eq!(first, Some(IntText::Const(i64::from(stages) - 1)));
        let pending: Vec<u32> =
            all.iter().filter_map(|stmt| if let Stmt::Wait(pending) = stmt { Some(*pending) } else { None }).collect();
        assert_eq!(pending, [stages - 2, 0]);
        let commits = all.iter().filter(|stmt| matches!(stmt, Stmt::Commit)).count();
        assert_eq!(commits, 2);
    }
}

#[test]
fn the_steps_of_a_ring() {
    let program = program(gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = 3, warps = (2, 2))));
    let expected = "declare acc: Float over IJTile
        map acc
        let all_steps
        let first_step
        let steps
        for stage
        if
        let k0
        copy a_ring <- a by rows
        copy b_ring <- b by rows
        commit
        for step
        wait 1
        let ahead
        barrier
        if
        let k0
        copy a_ring <- a by rows
        copy b_ring <- b by rows
        commit
        let slot
        let k0
        dot acc += a_ring (K-major) . b_ring (Mn-major) by Mma
        wait 0
        join parts of acc (Sum, Registers)
        barrier
        store c by rows <- acc through c_staging";
    assert_eq!(lines(&program), expected.lines().map(str::trim).collect::<Vec<_>>());
}

#[test]
fn a_ring_has_two_stages_at_least() {
    let error =
        lowered(gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = 1, warps = (2, 2)))).expect_err("one stage");
    assert_eq!(error.message, "a loop that feeds a dot needs a ring -- use stages = 2 or more");
    assert_eq!(error.option.as_deref(), Some("stages"));
}

fn conv(header: TokenStream, read: TokenStream) -> TokenStream {
    quote! {
        #[schedule(sm_80, p = 64, o = 64, c = 32, stages = 3, warps = (2, 2))]
        fn conv<L: Dim, C: Dim, K: Dim, R: Dim, P: Dim>(
            x: &Tensor<f16, (L, C)>, w: &Tensor<f16, (K, R, Const<3>, C)>, y: &mut Tensor<f16, (P, K)>,
        ) {
            tile!(for (p, o) in (P, K) {
                let mut acc = zeros::<f32>((p, o));
                tile!(for #header { acc += dot(x[(p + f, c)], w[#read].t()); });
                y[(p, o)] = acc.to();
            });
        }
    }
}

#[test]
fn nested_loops_feed_one_ring() {
    let text = cuda(conv(quote!((f, s, c) in (each(R), each(Const::<3>), C)), quote!((o, f, s, c))));
    assert!(text.contains("const int all_steps = (R * const_3) * ((C + 31) / 32);"), "{text}");
    assert!(text.contains("const int c0 = by_c_blocks.rem(first_step + step) * 32;"), "{text}");
    assert!(text.contains("const int s = by_c_blocks.div(first_step + step) % 3;"), "{text}");
    assert!(text.contains("const int f = by_c_blocks.div(first_step + step) / 3;"), "{text}");
    assert_eq!(text.matches("for (int step = 0;").count(), 1);
}

/// One ring runs through all pages of a sequence; bounds of an inner loop would begin anew at each step of the outer one.
#[test]
fn the_outermost_of_nested_loops_may_end_early() {
    let text = cuda(conv(quote!((f, s, c) in (each(R.until(L / 2)), each(Const::<3>), C)), quote!((o, f, s, c))));
    assert!(text.contains("const int all_steps = (f_end * const_3) * ((C + 31) / 32);"), "{text}");
    assert_eq!(text.matches("for (int step = 0;").count(), 1);
    let inner = cuda(conv(quote!((f, s, c) in (each(R), each(Const::<3>.until(f)), C)), quote!((o, f, s, c))));
    assert_eq!(inner.matches("for (int step = 0;").count(), 1);
    assert_eq!(inner.matches("for (int f = 0;").count(), 1);
}

#[test]
fn loops_without_a_dot_stay_loops_and_share_what_they_carry() {
    let program = program(quote! {
        #[schedule(sm_80, i = 256)]
        fn pool<N: Dim, R: Dim>(x: &Tensor<f32, (R, Const<3>, N)>, y: &mut Tensor<f32, (N,)>) {
            tile!(for i in N {
                let mut total = zeros::<f32>(i);
                tile!(for (a, b) in (each(R), each(Const::<3>)) { total += x[(a, b, i)]; });
                y[i] = total;
            });
        }
    });
    let expected = [
        "declare total: Float over ITile",
        "map total",
        "for a",
        "for b",
        "declare x_tile: Float over ITile",
        "load x_tile <- x by rows",
        "map total",
        "store y by rows <- total",
    ];
    assert_eq!(lines(&program), expected);
}

#[test]
fn operands_that_no_loop_moves_are_copied_once() {
    let program = program(quote! {
        #[schedule(sm_80, i = 64, j = 64, stages = 3, warps = (4, 1))]
        fn scores<M: Dim, N: Dim>(q: &Tensor<f16, (M, Const<64>)>, k: &Tensor<f16, (N, Const<64>)>, y: &mut Tensor<f32, (M,)>) {
            tile!(for i in M {
                let mut total = zeros::<f32>(i);
                tile!(for j in N { total += dot(q[(i, ..)], k[(j, ..)].t()).row_sum(); });
                y[i] = total;
            });
        }
    });
    let stages: Vec<(&str, u32)> = program.shared.iter().map(|shared| (shared.name.as_str(), shared.stages)).collect();
    assert_eq!(stages, [("q_shared", 1), ("k_ring", 3)]);
    let copies = lines(&program).iter().filter(|line| line.starts_with("copy q_shared")).count();
    assert_eq!(copies, 1);
}

#[test]
fn two_dots_share_one_copy() {
    let program = program(gated(quote!(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2))));
    let rings: Vec<&str> = program.shared.iter().map(|shared| shared.name.as_str()).collect();
    assert_eq!(rings, ["x_ring", "gate_ring", "up_ring", "y_staging"]);
}

#[test]
fn a_loop_takes_over_the_registers_of_its_first_value() {
    let body = |before: TokenStream| {
        lines(&program(quote! {
            #[schedule(sm_80, i = 256)]
            fn f<N: Dim, R: Dim>(x: &Tensor<f32, (R, N)>, y: &mut Tensor<f32, (N,)>) {
                tile!(for i in N {
                    let start = x[(0, i)].exp();
                    let mut total = start;
                    tile!(for r in each(R) { total += x[(r, i)]; });
                    #before
                    y[i] = total;
                });
            }
        }))
    };
    let alone = body(quote!());
    assert!(alone.iter().filter(|line| line.contains("over ITile")).count() == 3, "{alone:?}");
    // `start` is read again after the loop, so the loop counts in registers of its own.
    let shared = body(quote!(let total = total - start;));
    assert!(shared.contains(&"declare total: Float over ITile".to_string()), "{shared:?}");
}

#[test]
fn values_that_change_places_pass_through_a_copy() {
    let text = cuda(quote! {
        #[schedule(sm_80, i = 256)]
        fn swap<N: Dim, R: Dim>(x: &Tensor<f32, (R, N)>, y: &mut Tensor<f32, (N,)>) {
            tile!(for i in N {
                let mut a = x[(0, i)];
                let mut b = x[(1, i)];
                tile!(for r in each(R) {
                    let kept = a;
                    a = b;
                    b = kept;
                });
                y[i] = a - b;
            });
        }
    });
    let moves: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("++reg) ").map(|(_, assignment)| assignment))
        .filter(|assignment| assignment.ends_with("[reg];"))
        .collect();
    assert_eq!(
        moves,
        ["a_2[reg] = a[reg];", "a[reg] = b[reg];", "b[reg] = a_2[reg];", "value[reg] = a[reg] - b[reg];"],
        "{text}"
    );
}

#[test]
fn bounds_have_names() {
    let text = cuda(quote! {
        #[schedule(sm_80, i = 64, j = 64)]
        fn f<N: Dim>(x: &Tensor<f32, (N, N)>, y: &mut Tensor<f32, (N,)>, window: i32) {
            tile!(for i in N {
                let mut total = zeros::<f32>(i);
                tile!(for j in N.range(i.start() - window..i.end()) { total += x[(i, j)].row_sum(); });
                y[i] = total;
            });
        }
    });
    assert!(text.contains("const int j_end = min(i0 + BLOCK_I, N);"), "{text}");
    assert!(text.contains("const int j_from = max(i0 - window, 0);"), "{text}");
    assert!(text.contains("for (int j0 = j_from; j0 < j_end; j0 += 64) {"), "{text}");
}
