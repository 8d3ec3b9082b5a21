//! When a panel's place may be written again: TMA may be reading what any store has left there, whichever writes next.
//!
//! ```text
//! write h's panel; send where H_BY_TMA, else copy        write h's panel …
//! write t's panel; send where T_BY_TMA, else copy   →    where H_BY_TMA await, else where T_BY_TMA await
//!                                                        write t's panel …
//! ```
//! The same stands before h's: a block comes back to it with its next tile.

use crate::program::shared::SharedId;
use crate::program::{ConditionId, Program, Stmt};
use std::collections::{BTreeMap, BTreeSet};

/// By place, the conditions under which TMA reads what lies there.
type Senders = BTreeMap<SharedId, BTreeSet<ConditionId>>;

/// Waits before each panel that is written.
pub fn await_panels(program: &mut Program) {
    let mut senders = Senders::new();
    find(&program.body, &mut senders);
    wait(&mut program.body, &senders);
}

fn find(body: &[Stmt], senders: &mut Senders) {
    for stmt in body {
        if let Stmt::Where { condition, body, .. } = stmt {
            for sent in body {
                if let Stmt::SendPanel { staging, .. } = sent {
                    senders.entry(*staging).or_default().insert(*condition);
                }
            }
        }
        stmt.bodies().into_iter().for_each(|body| find(body, senders));
    }
}

fn wait(body: &mut Vec<Stmt>, senders: &Senders) {
    let mut at = 0;
    while at < body.len() {
        body[at].bodies_mut().into_iter().for_each(|body| wait(body, senders));
        if let Stmt::WritePanel { staging, .. } = body[at] {
            let conditions = senders.get(&staging).into_iter().flatten().rev();
            let waits = conditions.fold(Vec::new(), |otherwise, condition| {
                let body = vec![Stmt::AwaitPanel { staging }];
                vec![Stmt::Where { condition: *condition, body, otherwise }]
            });
            let count = waits.len();
            body.splice(at..at, waits);
            at += count;
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{lines, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// What stands before each panel that a kernel of these results writes, and the writing.
    fn waits(results: TokenStream, stores: TokenStream) -> Vec<String> {
        let lines = lines(&program(quote! {
            #[schedule(sm_90a, i = 128, j = 64, k = 64, stages = 4, consumers = 2)]
            fn f<M: Dim, N: Dim, K: Dim>(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, #results) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                    #stores
                });
            }
        }));
        let (mut all, mut before) = (Vec::new(), Vec::new());
        for line in lines {
            if line.starts_with("write ") {
                all.push(format!("{}: {line}", before.join(" ")));
            }
            if line.starts_with("where ") || line.starts_with("await ") {
                before.push(line);
            } else if !line.contains("barrier") {
                before.clear();
            }
        }
        all
    }

    #[test]
    fn a_place_is_awaited_whichever_result_was_sent_from_it() {
        let results = quote!(h: &mut Tensor<f16, (M, N)>, t: &mut Tensor<f16, (N, M)>);
        let stores = quote!(h[(i, j)] = (acc * 2.0).to(); t[(j, i)] = acc.t().to(););
        let either = "where H_BY_TMA await f16_panels where not H_BY_TMA where T_BY_TMA await f16_panels";
        assert_eq!(
            waits(results, stores),
            [format!("{either}: write f16_panels <- h_tile"), format!("{either}: write transposed f16_panels <- acc")]
        );
    }

    #[test]
    fn places_of_other_shapes_are_awaited_apart() {
        let results = quote!(h: &mut Tensor<f16, (M, N)>, t: &mut Tensor<f32, (M, N)>);
        assert_eq!(
            waits(results, quote!(h[(i, j)] = acc.to(); t[(i, j)] = acc;)),
            [
                "where H_BY_TMA await f16_panels: write f16_panels <- acc",
                "where T_BY_TMA await f32_panels: write f32_panels <- acc"
            ]
        );
    }
}
