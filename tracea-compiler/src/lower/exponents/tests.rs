use crate::testing::{cuda, lines, program};
use proc_macro2::TokenStream;
use quote::quote;

/// Attention whose scores are these, of `dot(q, k)`, and whose weights are the exponential of that.
fn attention(scores: TokenStream, exponential: TokenStream) -> TokenStream {
    attention_on(quote!(sm_90a, i = 128, j = 128, stages = 2, consumers = 2), scores, exponential)
}

fn attention_on(schedule: TokenStream, scores: TokenStream, exponential: TokenStream) -> TokenStream {
    quote! {
        #[schedule(#schedule)]
        fn f<S: Dim, T: Dim>(
            q: &Tensor<f16, (S, Const<64>)>, k: &Tensor<f16, (T, Const<64>)>, v: &Tensor<f16, (T, Const<64>)>,
            bias: &Tensor<f16, (S, T)>, o: &mut Tensor<f16, (S, Const<64>)>, by: f32, count: i32,
        ) {
            tile!(for i in S {
                let mut m = full::<f32>(i, f32::NEG_INFINITY);
                let mut l = zeros::<f32>(i);
                let mut acc = zeros::<f32>((i, ..));
                tile!(for j in T {
                    let product = dot(q[(i, ..)], k[(j, ..)].t());
                    let s = #scores;
                    let m_new = m.max(s.row_max());
                    let p = #exponential;
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

/// What fills scores and weights.
fn filled(item: TokenStream) -> Vec<String> {
    let text = cuda(item);
    let is_told = |line: &&str| [" s[reg] = ", " p[reg] = "].iter().any(|start| line.contains(start));
    let told = |line: &str| line.split_once("++reg) ").map(|(_, fills)| fills.to_string());
    let mut found: Vec<String> = text.lines().filter(is_told).filter_map(told).collect();
    found.dedup();
    found.truncate(2);
    found
}

const BY_ROWS: &str =
    "p[reg] = exp2((s[reg] * m_new_factor[IJTile::row_slot(reg)]) - m_new_shift[IJTile::row_slot(reg)]);";
const AT_ONCE: &str =
    "p[reg] = exp2((s[reg] * m_new_rate[IJTile::row_slot(reg)]) - m_new_shift[IJTile::row_slot(reg)]);";
const AS_IT_WAS: &str = "p[reg] = exp(s[reg] - m_new[IJTile::row_slot(reg)]);";

#[test]
fn a_factor_of_scores_waits_for_their_exponents() {
    let weights = || quote!((s - m_new).exp());
    let waits = "s[reg] = product[reg] * (BY_POSITIVE ? 1.0f : by);";
    for scores in [quote!(product * by), quote!(by * product)] {
        assert_eq!(filled(attention(scores, weights())), [waits, BY_ROWS]);
    }
    assert_eq!(filled(attention(quote!(product * 0.125), weights())), ["s[reg] = product[reg];", BY_ROWS]);
    let text = cuda(attention(quote!(product * by), weights()));
    for line in [
        "constexpr bool BY_POSITIVE = TRACEA_POSITIVE_0;",
        "largest[reg] = largest[reg] * (BY_POSITIVE ? by : 1.0f);",
        "m_new_rate[reg] = exponent_rate(m_new[reg], 1.442695f);",
        "m_new_shift[reg] = m_new[reg] * m_new_rate[reg];",
        "m_new_factor[reg] = m_new_rate[reg] * (BY_POSITIVE ? by : 1.0f);",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let program = program(attention(quote!(product * by), weights()));
    assert_eq!(program.positive, [0]);
}

#[test]
fn all_factors_wait_each_where_it_may() {
    let of_two = || quote!((s - m_new).exp2());
    let by = "(BY_POSITIVE ? by : 1.0f)";
    for (scores, now, later) in [
        (quote!(product * (by * 1.5)), "product[reg] * (BY_POSITIVE ? 1.0f : by)", format!("{by} * 1.5f")),
        (quote!(product * 1.5 * by), "product[reg] * (BY_POSITIVE ? 1.0f : by)", format!("1.5f * {by}")),
        (
            quote!(product / by),
            "product[reg] * recip(BY_POSITIVE ? 1.0f : by)",
            "recip(BY_POSITIVE ? by : 1.0f)".into(),
        ),
    ] {
        let text = cuda(attention(scores, of_two()));
        for line in [format!("s[reg] = {now};"), format!("largest[reg] = largest[reg] * ({later});")] {
            assert!(
                text.contains(&line) || text.contains(&line.replace(&format!("({later})"), &later)),
                "{line}\n{text}"
            );
        }
    }
}

#[test]
fn masks_that_no_factor_changes_wait_with_it() {
    let masked = |other: TokenStream| {
        filled(attention(quote!((product * by).mask(|i, j| j <= i, #other)), quote!((s - m_new).exp())))
    };
    assert!(
        masked(quote!(f32::NEG_INFINITY)).contains(&"s[reg] = product[reg] * (BY_POSITIVE ? 1.0f : by);".to_string())
    );
    assert!(masked(quote!(-1e9)).contains(&"s[reg] = product[reg] * by;".to_string()));
}

#[test]
fn a_factor_that_others_need_is_there_at_once() {
    let others = quote!((s * 0.5 - m_new).exp() + s);
    assert_eq!(filled(attention(quote!(product * by), others))[0], "s[reg] = product[reg] * by;");
    assert_eq!(
        filled(attention(quote!(product * -0.125), quote!((s - m_new).exp()))),
        ["s[reg] = product[reg] * (-0.125f);", AT_ONCE]
    );
    let program = program(attention(quote!(product * -0.125), quote!((s - m_new).exp())));
    assert!(program.positive.is_empty());
}

#[test]
fn sums_are_exponents_by_their_rows_rate() {
    let fills = filled(attention(quote!(product * by + bias[(i, j)].to::<f32>()), quote!((s - m_new).exp())));
    assert!(fills.contains(&AT_ONCE.to_string()), "{fills:?}");
}

#[test]
fn a_difference_that_is_scaled_itself_takes_its_scale_along() {
    let text = cuda(attention(quote!(product + 0.0), quote!(((s - m_new) * by).exp2())));
    assert!(text.contains("m_new_rate[reg] = exponent_rate(m_new[reg] * by, 1.0f) * by;"), "{text}");
}

#[test]
fn elements_that_come_as_they_are_keep_their_differences() {
    let fills = filled(attention(quote!(bias[(i, j)].to::<f32>()), quote!((s - m_new).exp())));
    assert!(fills.contains(&AS_IT_WAS.to_string()), "{fills:?}");
}

#[test]
fn few_elements_a_row_are_not_worth_a_rate() {
    let schedule = |columns: usize| quote!(sm_80, i = 64, j = #columns, stages = 2, warps = (4, 1));
    let of = |columns| filled(attention_on(schedule(columns), quote!(product * by), quote!((s - m_new).exp())));
    assert!(of(64).contains(&BY_ROWS.to_string()));
    assert!(of(16).contains(&AS_IT_WAS.to_string()));
}

/// No mask's branch stands between the exponentials and what reads them, or in the loop where the last step comes first.
#[test]
fn steps_but_the_last_know_of_no_end() {
    let all = lines(&program(attention(quote!(product * by), quote!((s - m_new).exp()))));
    let masks: Vec<usize> = (0..all.len()).filter(|at| all[*at].starts_with("mask edge")).collect();
    let steps = all.iter().rposition(|line| line.starts_with("for step")).expect("a loop");
    assert_eq!(masks.len(), 1, "{all:#?}");
    assert!(all[masks[0]].ends_with("NegInfinity") && masks[0] < steps, "{all:#?}");
}
