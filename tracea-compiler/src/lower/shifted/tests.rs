use crate::lower::lower_portfolio;
use crate::schedule::target::SM_90A;
use crate::testing::{self, lines, program};
use proc_macro2::TokenStream;
use quote::quote;

/// What consumers do with products, turns and the rings of operands, in the step of a kernel that multiplies what it has computed.
fn consumers(schedule: TokenStream, head: TokenStream, step: TokenStream) -> Vec<String> {
    let program = program(quote! {
        #[schedule(sm_90a, #schedule)]
        fn f<S: Dim, T: Dim>(
            q: &Tensor<f16, (S, Const<#head>)>, k: &Tensor<f16, (T, Const<#head>)>, v: &Tensor<f16, (T, Const<#head>)>,
            o: &mut Tensor<f16, (S, Const<#head>)>, by: f32,
        ) {
            tile!(for i in S {
                let mut acc = zeros::<f32>((i, ..));
                let mut m = zeros::<f32>(i);
                tile!(for j in T { #step });
                o[(i, ..)] = (acc + m).to();
            });
        }
    });
    let told = ["dot ", "wait for dots", "wait full", "release", "pack", "ping-pong", "map acc", "if", "for step"];
    let told = |line: &String| told.iter().any(|word| line.starts_with(word));
    let all = lines(&program);
    let own = all.iter().rposition(|line| line.starts_with("consumers")).expect("warp roles");
    all[own..]
        .iter()
        .filter(|line| told(line))
        .map(|line| line.split(" (").next().unwrap_or(line).to_string())
        .collect()
}

fn chain() -> TokenStream {
    quote! {
        let p = (dot(q[(i, ..)], k[(j, ..)].t()) * by).exp();
        let fade = p.row_max();
        acc = acc * fade + dot(p.to::<f16>(), v[(j, ..)]);
        m = m + fade;
    }
}

#[test]
fn the_last_product_runs_beside_the_next_step() {
    let all = consumers(quote!(i = 128, j = 128, stages = 2, consumers = 2), quote!(64), chain());
    let at = |line: &str| all.iter().position(|other| other == line).unwrap_or_else(|| panic!("{line}: {all:#?}"));
    let step = &all[at("for step")..];
    let expected = [
        "for step",
        "wait full k_ready",
        "ping-pong: Take",
        "dot product = q_shared",
        "wait full v_ready",
        "dot acc += p_operand",
        "ping-pong: Pass",
        "wait for dots, 1 pending",
        "if",
        "release q_ready",
        "release k_ready",
        "wait for dots, 0 pending",
        "release v_ready",
        "pack p_operand <- p",
        "map acc",
        "if",
        "wait full v_ready",
        "dot acc += p_operand",
        "wait for dots, 0 pending",
        "release v_ready",
        "if",
        "release q_ready",
    ];
    assert_eq!(step[..expected.len()], expected);
    let first = &all[at("if")..at("for step")];
    let scaled = first.iter().position(|line| line == "map acc").expect("scaled");
    assert_eq!(first[scaled - 1], "pack p_operand <- p", "what is there is scaled from the first step on");
}

#[test]
fn one_warpgroup_takes_no_turns() {
    let all = consumers(quote!(i = 64, j = 64, stages = 2, consumers = 1), quote!(64), chain());
    assert!(all.iter().any(|line| line.starts_with("pack")), "{all:#?}");
    assert!(!all.iter().any(|line| line.starts_with("ping-pong")), "{all:#?}");
}

#[test]
fn what_the_step_needs_of_the_last_product_is_not_put_off() {
    let step = quote! {
        let p = (dot(q[(i, ..)], k[(j, ..)].t()) * by).exp();
        acc += dot(p.to::<f16>(), v[(j, ..)]);
        m = m + acc.row_max();
    };
    let all = consumers(quote!(i = 128, j = 64, stages = 2, consumers = 2), quote!(64), step);
    assert!(!all.iter().any(|line| line.starts_with("pack")), "{all:#?}");
}

#[test]
fn too_many_registers_leave_the_order_as_it_is() {
    let all = consumers(quote!(i = 128, j = 256, stages = 2, consumers = 2), quote!(64), chain());
    assert!(!all.iter().any(|line| line.starts_with("pack")), "{all:#?}");
}

/// The portfolio's schedules of a chain of products whose inner axis has this extent, along which a loop ends where it says.
fn portfolio(head: TokenStream, until: TokenStream, weights: TokenStream) -> Vec<String> {
    let (nest, _) = testing::nest(quote! {
        fn f<S: Dim, T: Dim>(
            q: &Tensor<f16, (S, Const<#head>)>, k: &Tensor<f16, (T, Const<#head>)>, v: &Tensor<f16, (T, Const<#head>)>,
            o: &mut Tensor<f16, (S, Const<#head>)>,
        ) {
            tile!(for i in S {
                let mut acc = zeros::<f32>((i, ..));
                tile!(for j in #until {
                    let s = dot(q[(i, ..)], k[(j, ..)].t());
                    acc += dot((#weights).to::<f16>(), v[(j, ..)]);
                });
                o[(i, ..)] = acc.to();
            });
        }
    });
    let all = lower_portfolio(&nest, &SM_90A).expect("schedules");
    all.into_iter().map(|lowered| lowered.program.schedule).collect()
}

#[test]
fn few_registers_copy_few_rows_at_a_time() {
    let rows = |schedule: TokenStream| {
        let program = program(quote! {
            #[schedule(sm_90a, #schedule)]
            fn f<M: Dim, N: Dim, K: Dim>(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f16, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                    c[(i, j)] = acc.to();
                });
            }
        });
        program.producer.expect("warp roles").rows_at_a_time
    };
    assert_eq!(rows(quote!(i = 128, j = 128, k = 64, stages = 3, consumers = 2)), 8);
    assert_eq!(rows(quote!(i = 192, j = 128, k = 64, stages = 3, consumers = 3)), 2);
}

#[test]
fn three_warpgroups_multiply_where_they_have_registers() {
    let threes = |head, until, weights| {
        portfolio(head, until, weights).iter().filter(|one| one.contains("consumers = 3")).count()
    };
    assert_eq!(threes(quote!(64), quote!(T), quote!(s.exp())), 1);
    assert_eq!(threes(quote!(128), quote!(T), quote!(s.exp())), 0, "too many accumulators");
    assert_eq!(threes(quote!(64), quote!(T.until(i.end())), quote!(s.exp())), 1);
    assert_eq!(threes(quote!(64), quote!(T), quote!(s.tanh())), 0, "a function that branches");
    assert_eq!(threes(quote!(64), quote!(T), quote!(s / (s.abs() + 1.0))), 0, "divisions");
    assert_eq!(threes(quote!(64), quote!(T), quote!(s * s.row_max().tanh())), 1, "a row's");
}
