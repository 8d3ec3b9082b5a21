use crate::testing::{cuda, lines, program};
use proc_macro2::TokenStream;
use quote::quote;

fn kernel(start: TokenStream, step: TokenStream) -> TokenStream {
    let output = step.to_string().contains("y [").then(|| quote!(y: &mut Tensor<f32, (M, N)>,));
    quote! {
        #[schedule(sm_80, i = 1, j = 512)]
        fn f<M: Dim, N: Dim>(
            x: &Tensor<f32, (M, N)>, w: &Tensor<f32, (M, N)>, out: &mut Tensor<f32, (M,)>, #output by: f32,
        ) {
            tile!(for i in M {
                #start
                let mut l = zeros::<f32>(i);
                tile!(for j in N {
                    let s = x[(i, j)];
                    #step
                });
                out[i] = m + l;
            });
        }
    }
}

fn from_infinity() -> TokenStream {
    quote!(let mut m = full::<f32>(i, f32::NEG_INFINITY);)
}

/// What is folded in a step, reduced among threads, and spread after the loop; as a block that exists wholly has it.
fn reductions(start: TokenStream, step: TokenStream) -> Vec<String> {
    let words = ["fold", "reduce", "spread"];
    let all = lines(&program(kernel(start, step)));
    let found = all.iter().filter(|line| words.iter().any(|word| line.starts_with(word)));
    // The masked block has the same once more.
    let mut once: Vec<String> = Vec::new();
    for line in found.map(|line| line.split(" of ").next().unwrap_or(line).replace("_2", "")) {
        if !once.contains(&line) {
            once.push(line);
        }
    }
    once
}

#[test]
fn a_sum_relative_to_a_running_maximum_stays_with_each_thread() {
    let expected =
        ["fold largest = Max", "fold total = Sum", "spread m_of_all (Max along Cols)", "spread l (Sum along Cols)"];
    let plain = quote! {
        let m_new = m.max(s.row_max()).max(f32::MIN);
        l = l * (m - m_new).exp() + (s - m_new).exp().row_sum();
        m = m_new;
    };
    assert_eq!(reductions(from_infinity(), plain), expected);
    let scaled = quote! {
        let m_new = s.row_max().max(m);
        l = (w[(i, j)] * ((s - m_new) * by).exp2()).row_sum() + ((m - m_new) * by).exp2() * l;
        m = m_new;
    };
    assert_eq!(reductions(from_infinity(), scaled), expected);
}

#[test]
fn what_a_thread_has_seen_nothing_of_makes_no_difference_of_infinities() {
    let step = |least: TokenStream| {
        kernel(
            from_infinity(),
            quote! {
                let m_new = m.max(s.row_max())#least;
                l = l * (m - m_new).exp() + (s - m_new).exp().row_sum();
                m = m_new;
            },
        )
    };
    let open = cuda(step(quote!()));
    assert!(open.contains("m_new_finite[reg] = max(m_new[reg], -3.4028235e38f)"), "{open}");
    assert!(open.contains("exp(m[reg] - m_new_finite[reg])"), "{open}");
    assert!(
        open.contains("l[reg] = l[reg] * (m[reg] == m_of_all[reg] ? 1.0f : exp(m[reg] - m_of_all[reg]))"),
        "{open}"
    );
    assert!(!cuda(step(quote!(.max(f32::MIN)))).contains("finite"), "it is bounded already");
}

#[test]
fn a_sum_that_fades_by_what_all_threads_know_is_spread_once() {
    let step = quote! { l = l * by + s.row_sum(); m = m * 2.0; };
    assert_eq!(reductions(from_infinity(), step), ["fold total = Sum", "spread l (Sum along Cols)"]);
    // The maximum is read otherwise, so that all need the same.
    let step = quote! {
        let m_new = m.max(s.row_max()).max(f32::MIN);
        l = l * (m - m_new).exp() + (s - m_new).exp().row_sum();
        y[(i, j)] = s - m_new;
        m = m_new;
    };
    assert_eq!(
        reductions(from_infinity(), step),
        ["reduce largest = Max", "fold total = Sum", "spread l (Sum along Cols)"]
    );
}

#[test]
fn a_bounded_maximum_is_spread_once() {
    let step = quote! { m = m.max(s.row_max()).max(by); l = l + 1.0; };
    assert_eq!(
        reductions(quote!(let mut m = full::<f32>(i, 3.0);), step),
        ["fold largest = Max", "spread m (Max along Cols)"]
    );
}

#[test]
fn what_the_loop_reads_is_whole_at_each_step() {
    let whole = |step: TokenStream| {
        let steps = reductions(from_infinity(), step);
        assert!(!steps.is_empty() && steps.iter().all(|step| step.starts_with("reduce")), "{steps:?}");
    };
    // What is added is not relative to the maximum.
    whole(
        quote! { let m_new = m.max(s.row_max()); l = l * (m - m_new).exp() + (s - m_new).exp().row_sum() * l; m = m_new; },
    );
    whole(quote! { l = l + s.row_sum(); y[(i, j)] = s - l; m = m * 2.0; });
    whole(quote! { m = (m + 1.0).max(s.row_max()); l = l + 1.0; });
    whole(quote! { m = m.max(s.row_max()); l = l + (s - m).row_sum() * l; });
}

#[test]
fn other_scales_need_the_maximum_of_all() {
    let step = quote! {
        let m_new = m.max(s.row_max()).max(f32::MIN);
        l = l * (m - m_new).exp() + (s - m_new).exp2().row_sum();
        m = m_new;
    };
    assert_eq!(
        reductions(from_infinity(), step),
        ["reduce largest = Max", "fold total = Sum", "spread l (Sum along Cols)"]
    );
    let kept = quote! {
        let m_new = m.max(s.row_max()).max(f32::MIN);
        l = l * (m - m_new).exp() + (s - m_new).exp().row_sum() + m_new;
        m = m_new;
    };
    assert!(reductions(from_infinity(), kept).iter().all(|step| step.starts_with("reduce")));
}
