use crate::testing::{lines, program};
use proc_macro2::TokenStream;
use quote::quote;

/// The statements of attention with these weights, what is added to its running sum, and what is stored at its end.
fn attention(weights: TokenStream, more: TokenStream, stored: TokenStream) -> Vec<String> {
    attention_on(quote!(sm_90a, i = 128, j = 128, stages = 2, consumers = 2), weights, more, quote!(), stored)
}

fn attention_on(
    schedule: TokenStream,
    weights: TokenStream,
    more: TokenStream,
    within: TokenStream,
    stored: TokenStream,
) -> Vec<String> {
    let steps = if within.is_empty() { quote!() } else { quote!(z: &mut Tensor<f32, (S, T)>,) };
    let program = program(quote! {
        #[schedule(#schedule)]
        fn f<S: Dim, T: Dim>(
            q: &Tensor<f16, (S, Const<64>)>, k: &Tensor<f16, (T, Const<64>)>, v: &Tensor<f16, (T, Const<64>)>,
            w: &Tensor<f32, (T,)>, o: &mut Tensor<f16, (S, Const<64>)>, y: &mut Tensor<f32, (S,)>, #steps by: f32,
        ) {
            tile!(for i in S {
                let mut m = full::<f32>(i, f32::NEG_INFINITY);
                let mut l = zeros::<f32>(i);
                let mut acc = zeros::<f32>((i, ..));
                tile!(for j in T {
                    let s = dot(q[(i, ..)], k[(j, ..)].t()) * by;
                    let m_new = m.max(s.row_max());
                    let p = #weights;
                    let fade = (m - m_new).exp();
                    #within
                    l = l * fade + p.row_sum() #more;
                    acc = acc * fade + dot(p.to::<f16>(), v[(j, ..)]);
                    m = m_new;
                });
                o[(i, ..)] = (acc / l).to();
                y[i] = #stored;
            });
        }
    });
    lines(&program)
}

fn exponentials() -> TokenStream {
    quote!((s - m_new).exp())
}

fn votes(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.starts_with("vote leaps")).count()
}

#[test]
fn steps_that_do_not_leap_pass_nothing_on_and_scale_nothing() {
    let all = attention(exponentials(), quote!(), quote!(m + l.ln()));
    let step = all.iter().rposition(|line| line == "for step").expect("a loop");
    let told = [
        "fold",
        "spread",
        "vote",
        "if",
        "map acc",
        "map m_new",
        "map fade",
        "map p",
        "pack",
        "wait for dots",
        "reduce",
    ];
    let step: Vec<&str> = all[step + 1..]
        .iter()
        .map(String::as_str)
        .filter(|line| told.iter().any(|start| line.starts_with(start)))
        .take_while(|line| *line != "spread l (Sum along Cols)")
        .collect();
    let expected = [
        "wait for dots, 1 pending",
        "if",
        "fold largest = Max of s along Cols",
        "map m_new",
        "vote leaps of largest",
        "map fade",
        "if",
        "spread largest (Max along Cols)",
        "map m_new",
        "map fade",
        "map m_new_rate",
        "map m_new_shift",
        "map m_new_factor",
        "map p",
        "fold total = Sum of p along Cols",
        "wait for dots, 0 pending",
        "pack p_operand <- p",
        "if",
        "map acc",
    ];
    assert_eq!(step[..expected.len()], expected, "{all:#?}");
}

/// Before the first step, what follows from the extreme follows from what it begins with.
#[test]
fn what_follows_from_the_extreme_is_carried_along() {
    let all = attention(exponentials(), quote!(), quote!(m + l.ln()));
    let first = all.iter().position(|line| line.starts_with("vote leaps")).expect("a vote");
    for carried in ["map m_new_rate", "map m_new_shift", "map m_new_factor"] {
        assert!(all[..first].iter().any(|line| line == carried), "{carried}: {all:#?}");
    }
}

#[test]
fn results_that_tell_what_the_extreme_was_have_it_exactly() {
    let stored = |stored| votes(&attention(exponentials(), quote!(), stored));
    assert_eq!((stored(quote!(m)), stored(quote!(l)), stored(quote!(1.0 / l))), (0, 0, 0));
    assert!(stored(quote!(m + l.ln())) > 0, "whichever it was");
}

#[test]
fn what_else_depends_on_the_extreme_has_it_exactly() {
    assert_eq!(votes(&attention(exponentials(), quote!(+ m_new), quote!(m + l.ln()))), 0, "the extreme itself");
    assert_eq!(
        votes(&attention(quote!((s - m_new).exp() * w[j]), quote!(), quote!(m + l.ln()))),
        0,
        "products may overflow an operand"
    );
    let schedule = || quote!(sm_90a, i = 128, j = 128, stages = 2, consumers = 2);
    let stored = attention_on(schedule(), exponentials(), quote!(), quote!(z[(i, j)] = s * fade;), quote!(m + l.ln()));
    assert_eq!(votes(&stored), 0, "a fade that is stored");
    let masked = quote!((s - m_new).exp().mask(|i, j| j <= i, 0.0));
    assert!(votes(&attention(masked, quote!(), quote!(m + l.ln()))) > 0, "zero is zero");
}

#[test]
fn rows_that_warps_share_are_followed_closely() {
    let of = |warps: TokenStream| {
        let schedule = quote!(sm_80, i = 64, j = 64, stages = 2, warps = #warps);
        votes(&attention_on(schedule, exponentials(), quote!(), quote!(), quote!(m + l.ln())))
    };
    assert_eq!((of(quote!((4, 1))), of(quote!((2, 2)))), (1, 0));
}
