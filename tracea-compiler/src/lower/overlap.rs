//! Products of warpgroups that run on while others are issued and the next operands are awaited.
//!
//! ```text
//! for step {                                 for step {
//!     wait until the slot is full                wait until the slot is full
//!     issue products, wait for them   becomes    issue products, wait for those of the step before
//!     release the slot                           release that step's slot
//! }                                          }
//!                                            wait for the last products; release their slot
//! ```
//! So a step's slot is held while the next step is multiplied, which a deep ring can spare, and which pays where nothing else keeps
//! the tensor cores busy meanwhile: one warpgroup has them for itself, if only for as long as another one is done, and blocks of a cluster wait
//! for each other.

use super::Lowering;
use super::analysis::steps_are_alike;
use super::rings::{Group, Site};
use crate::program::{Dot, IntText, MathUnit, Operand, Stmt, VarId};

impl Lowering<'_> {
    /// A loop's body whose products run on, and what follows the loop; none where something between them reads the results.
    pub fn overlapped(&self, body: &[Stmt], site: &Site, steps: &str) -> Option<(Vec<Stmt>, Vec<Stmt>)> {
        let mut dots = 0;
        let mut all_results: Vec<VarId> = Vec::new();
        for stmt in body {
            match stmt {
                Stmt::Dot(dot) if runs_alone(dot) => dots += 1,
                Stmt::DotWait { pending: 0, results } => {
                    let more: Vec<VarId> = results.iter().copied().filter(|var| !all_results.contains(var)).collect();
                    all_results.extend(more);
                }
                Stmt::Let { .. } | Stmt::Line(_) | Stmt::WaitFull(_) | Stmt::Release(_) | Stmt::Advance(_) => {}
                _ => return None,
            }
        }
        let holds = self.schedule.holds_slots_longer() || self.goes_ahead(body, site);
        if dots == 0 || (dots == 1 && !holds) {
            return None;
        }
        let (advances, before): (Vec<Stmt>, Vec<Stmt>) = body
            .iter()
            .filter(|stmt| !matches!(stmt, Stmt::DotWait { .. } | Stmt::Release(_)))
            .cloned()
            .partition(|stmt| matches!(stmt, Stmt::Advance(_)));
        let released = |turn: fn(&Group) -> crate::program::Turn| -> Vec<Stmt> {
            site.moving.iter().map(|group| Stmt::Release(turn(group))).collect()
        };
        let where_any = |count: IntText| {
            let condition = IntText::Less(Box::new(IntText::Const(0)), Box::new(count));
            Stmt::If { condition, body: released(Group::previous_turn) }
        };
        let mut inside = before;
        let mut after = Vec::new();
        if holds {
            inside.push(Stmt::DotWait { pending: dots, results: Vec::new() });
            inside.push(where_any(IntText::name("step")));
            let wait = Stmt::DotWait { pending: 0, results: all_results };
            match (steps_are_alike(&self.nest.body), where_any(IntText::name(steps))) {
                // Blocks have steps of their own number, and the assembler clears accumulators for none of them where it may do so behind
                // products: it lets none run on then, unless these are waited for apart. What reads the results waits on every way.
                (false, Stmt::If { condition, mut body }) => {
                    body.insert(0, wait.clone());
                    after.extend([Stmt::If { condition, body }, wait]);
                }
                (_, release) => after.extend([wait, release]),
            }
        } else {
            inside.push(Stmt::DotWait { pending: 0, results: all_results });
            inside.extend(released(Group::turn));
        }
        inside.extend(advances);
        Some((inside, after))
    }
}

/// By the tensor cores, out of shared memory, onto what was there.
pub fn runs_alone(dot: &Dot) -> bool {
    let shared = |operand: &Operand| matches!(operand, Operand::Shared { .. });
    dot.unit == MathUnit::Wgmma && !dot.overwrite && shared(&dot.a) && shared(&dot.b)
}

#[cfg(test)]
mod tests {
    use crate::program::Stmt;
    use crate::testing::{lines, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// What the consumers of a product do with dots and rings.
    fn consumers(schedule: TokenStream, step: TokenStream) -> Vec<String> {
        let program = program(quote! {
            #[schedule(sm_90a, i = 64, j = 128, k = 64, #schedule)]
            fn f<M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, g: &Tensor<f16, (N, K)>, c: &mut Tensor<f32, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    let mut gate = zeros::<f32>((i, j));
                    tile!(for k in K { #step });
                    c[(i, j)] = acc + gate;
                });
            }
        });
        let told = |line: &String| ["dot", "wait for dots", "release"].iter().any(|word| line.starts_with(word));
        lines(&program).into_iter().filter(told).collect()
    }

    fn waits_and_releases(schedule: TokenStream, step: TokenStream) -> Vec<String> {
        consumers(schedule, step).into_iter().filter(|line| !line.starts_with("dot ")).collect()
    }

    #[test]
    fn one_warpgroup_issues_a_step_while_the_step_before_is_multiplied() {
        let one = quote! { acc += dot(a[(i, k)], b[(j, k)].t()); };
        assert_eq!(
            waits_and_releases(quote!(stages = 4, consumers = 1), one.clone()),
            ["wait for dots, 1 pending", "release a_ready", "wait for dots, 0 pending", "release a_ready"]
        );
        // Too few slots to hold one longer.
        assert_eq!(
            waits_and_releases(quote!(stages = 3, consumers = 1), one),
            ["wait for dots, 0 pending", "release a_ready"]
        );
    }

    #[test]
    fn a_steps_products_are_waited_for_together() {
        let two = quote! {
            acc += dot(a[(i, k)], b[(j, k)].t());
            gate += dot(a[(i, k)], g[(j, k)].t());
        };
        let all = consumers(quote!(stages = 3, consumers = 1), two.clone());
        let waits: Vec<usize> = (0..all.len()).filter(|at| all[*at].starts_with("wait")).collect();
        let last_dot = all.iter().rposition(|line| line.starts_with("dot ")).expect("dots");
        assert!(waits.len() == 1 && waits[0] > last_dot, "{all:?}");
        // Both are issued as one.
        let held = waits_and_releases(quote!(stages = 4, consumers = 1), two);
        assert_eq!(held[0], "wait for dots, 1 pending");
    }

    #[test]
    fn what_reads_a_product_within_the_step_waits_for_it() {
        let read = quote! {
            acc += dot(a[(i, k)], b[(j, k)].t());
            gate += acc;
        };
        let all = consumers(quote!(stages = 4, consumers = 1), read);
        assert!(all.iter().all(|line| !line.contains("1 pending")), "{all:?}");
    }

    /// Where there are any, and once more on every way.
    #[test]
    fn sums_of_different_lengths_wait_for_the_products_that_they_have() {
        let program = program(quote! {
            #[schedule(sm_90a, i = 64, j = 128, k = 64, stages = 4, consumers = 1)]
            fn triangular<M: Dim, N: Dim>(a: &Tensor<f16, (M, M)>, x: &Tensor<f16, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in M.until(i.end()) { acc += dot(a[(i, k)], x[(k, j)]); });
                    y[(i, j)] = acc;
                });
            }
        });
        fn waits_apart(body: &[Stmt]) -> bool {
            let apart = |pair: &[Stmt]| match pair {
                [Stmt::If { body, .. }, Stmt::DotWait { pending: 0, .. }] => {
                    matches!(body[..], [Stmt::DotWait { pending: 0, .. }, Stmt::Release(_)])
                }
                _ => false,
            };
            body.windows(2).any(apart) || body.iter().flat_map(Stmt::bodies).any(waits_apart)
        }
        assert!(waits_apart(&program.body));
    }
}
