//! Who waits for a slot of a ring before it is filled, where TMA may fill one ring and threads another.
//!
//! ```text
//! acquire k_ready                        where K_READY_BULK
//! where K_READY_BULK                       fill k_ready, once it is empty
//!   fill k_ready by boxes of k     →     where not K_READY_BULK
//! where not K_READY_BULK                   acquire k_ready
//!   copy, publish                          copy, publish
//! ```
//! Where all rings are filled in one way, one thread of the producer asks TMA for everything and the others are gone, or all threads copy, and
//! none can come to a slot when it has been filled and emptied again, since that took its own part. Threads that copy for one ring and only wait
//! for another may: they would see the parity of before, and wait for ever.

use crate::program::{ConditionId, Program, Stmt};
use std::collections::BTreeSet;

/// The producer's body.
pub fn divide(program: &Program, body: &mut Vec<Stmt>) {
    let ways: BTreeSet<Option<ConditionId>> = program.rings.iter().map(|ring| ring.bulk).collect();
    if ways.len() > 1 {
        divide_all(body);
    }
}

fn divide_all(body: &mut Vec<Stmt>) {
    let mut at = 0;
    while at < body.len() {
        body[at].bodies_mut().into_iter().for_each(divide_all);
        if !matches!(body[at], Stmt::Acquire(_)) {
            at += 1;
            continue;
        }
        match body.get_mut(at + 1) {
            Some(Stmt::Bulk { waits, .. }) => {
                *waits = true;
                body.remove(at);
            }
            Some(Stmt::Where { body: by_tma, .. }) if matches!(by_tma[..], [Stmt::Bulk { .. }]) => {
                let acquire = body.remove(at);
                if let Stmt::Where { body: by_tma, otherwise, .. } = &mut body[at] {
                    otherwise.insert(0, acquire);
                    if let [Stmt::Bulk { waits, .. }] = &mut by_tma[..] {
                        *waits = true;
                    }
                }
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::cuda;
    use proc_macro2::TokenStream;
    use quote::quote;

    fn attention(schedule: TokenStream) -> String {
        cuda(quote! {
            #[schedule(#schedule)]
            fn f<S: Dim, T: Dim>(
                q: &Tensor<f16, (S, Const<64>)>, k: &Tensor<f16, (T, Const<64>)>, v: &Tensor<f16, (T, Const<64>)>,
                o: &mut Tensor<f32, (S, Const<64>)>,
            ) {
                tile!(for i in S {
                    let mut acc = zeros::<f32>((i, ..));
                    tile!(for j in T {
                        let s = dot(q[(i, ..)], k[(j, ..)].t());
                        acc += dot(s.to::<f16>(), v[(j, ..)]);
                    });
                    o[(i, ..)] = acc;
                });
            }
        })
    }

    #[test]
    fn one_thread_waits_for_what_it_asks_for_beside_rings_of_threads() {
        let text = attention(quote!(sm_90a, i = 128, j = 64, stages = 2, consumers = 2));
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let before = |line: &&str| line.starts_with("mbarrier_wait(") && line.contains("_empty");
        let mut waits = 0;
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| before(line)) {
            waits += 1;
            assert!(matches!(lines[at - 1], "if (threadIdx.x == THREADS) {" | "} else {"), "{}\n{text}", lines[at - 1]);
        }
        assert_eq!(waits, 2 * 3, "{text}");
    }

    #[test]
    fn all_wait_where_all_copies_are_made_in_one_way() {
        let text = cuda(crate::testing::gemm(quote!(sm_90a, i = 128, j = 64, k = 64, stages = 2, consumers = 2)));
        assert_eq!(text.matches("_empty + slot, phase ^ 1);").count(), 1, "{text}");
    }
}
