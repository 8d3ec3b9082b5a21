//! What a step computes beside its products, such as the sum of an operand's squares: while these are multiplied, and out of the ring where
//! a product's operand is read.
//!
//! ```text
//! for step {                                        for step {
//!     load x, compute with it                           wait until the slot is full
//!     wait until the slot is full           becomes     issue products of x
//!     issue products of x, wait for them                read x from the slot, compute with it
//!     release the slot                                  wait for the products
//! }                                                     release the slot
//!                                                   }
//! ```

use super::Lowering;
use super::analysis::inner_sum;
use super::overlap::runs_alone;
use super::rings::Site;
use crate::nest::{Dtype, Op};
use crate::program::pressure::{reads, writes};
use crate::program::{Access, Domain, Stmt, VarId};
use std::collections::BTreeSet;

impl Lowering<'_> {
    /// A step's statements in that order; nothing where one of the others has to do with the products' results.
    pub fn beside_products(&self, body: &[Stmt], site: &Site) -> Option<Vec<Stmt>> {
        let (mut first, mut products, mut beside, mut last) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut results, mut touched) = (Vec::new(), BTreeSet::new());
        let mut line = None;
        for stmt in body {
            let part = match stmt {
                Stmt::Line(_) => {
                    line = Some(stmt.clone());
                    continue;
                }
                Stmt::Let { .. } => &mut first,
                Stmt::WaitFull(_) => &mut products,
                Stmt::Dot(dot) if runs_alone(dot) => &mut products,
                Stmt::DotWait { pending: 0, results: awaited } => {
                    results.extend(awaited);
                    continue;
                }
                Stmt::Release(_) | Stmt::Advance(_) => &mut last,
                Stmt::Declare(_)
                | Stmt::Load { .. }
                | Stmt::Map { .. }
                | Stmt::MaskEdge { .. }
                | Stmt::Fold { .. }
                | Stmt::Reduce { .. }
                | Stmt::Exchange { .. } => {
                    touched.extend(reads(stmt));
                    touched.extend(writes(stmt));
                    &mut beside
                }
                _ => return None,
            };
            part.extend(line.take());
            part.push(match stmt {
                Stmt::Load { target, source, kept: None } => {
                    self.read_of_ring(*target, source, site).unwrap_or(stmt.clone())
                }
                _ => stmt.clone(),
            });
        }
        let computes =
            beside.iter().any(|stmt| matches!(stmt, Stmt::Map { .. } | Stmt::Fold { .. } | Stmt::Reduce { .. }));
        if results.is_empty() || !computes || results.iter().any(|result| touched.contains(result)) {
            return None;
        }
        let wait = Stmt::DotWait { pending: 0, results };
        Some([first, products, beside, vec![wait], last].concat())
    }

    /// Where an operand of the step's products is what a load is of, with zeros in the same places.
    fn read_of_ring(&self, target: VarId, source: &Access, site: &Site) -> Option<Stmt> {
        let Domain::Tile(layout) = self.program.var(target).domain else { return None };
        let layout = self.program.layout(layout);
        let wanted = Op::Load { tensor: source.tensor, index: source.index.clone() };
        let stored = self.nest.tensor(source.tensor).dtype;
        let operand = site.moving.iter().flat_map(|group| &group.operands).find(|operand| {
            let shared = self.program.shared(operand.shared);
            let axes = [operand.rows, operand.cols];
            // A loop may end before the tensor does, or before its rows do, and a box be narrower than the tile.
            let ends_alike = axes.iter().all(|axis| !self.limited.contains(axis) && !self.shifted.contains(axis))
                && axes.iter().all(|axis| inner_sum(self.nest, self.facts, *axis).is_none());
            self.nest.value(operand.load).op == wanted
                && (layout.row_axis, layout.col_axis) == (Some(operand.rows), operand.cols)
                && (layout.rows, layout.cols) == (shared.rows, shared.cols)
                && matches!(stored, Dtype::F16 | Dtype::Bf16)
                && ends_alike
                && self.is_to_rows(source)
                && !self.brings_extra_rows(operand)
        })?;
        Some(Stmt::ReadTile { target, shared: operand.shared, slot: operand.slot.clone()? })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{lines, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// What the consumers of a product do in a step with dots, rings and loads.
    fn step(range: TokenStream, item: TokenStream) -> Vec<String> {
        let program = program(quote! {
            #[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 4)]
            fn f<M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, g: &Tensor<f16, (M, K)>, c: &mut Tensor<f32, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    let mut sum = zeros::<f32>(i);
                    tile!(for k in #range { #item });
                    c[(i, j)] = acc + sum;
                });
            }
        });
        let words = ["dot", "wait", "release", "read", "load", "fold"];
        let told = |line: &String| words.iter().any(|word| line.starts_with(word));
        lines(&program)
            .into_iter()
            .filter(told)
            .map(|line| line.split(" <- ").next().unwrap_or_default().to_string())
            .collect()
    }

    #[test]
    fn an_operand_is_read_out_of_its_ring_while_it_is_multiplied() {
        let squares = quote! {
            let x = a[(i, k)];
            sum += (x.to::<f32>() * x.to::<f32>()).row_sum();
            acc += dot(x, b[(j, k)].t());
        };
        let expected = [
            "wait full a_ready",
            "dot acc += a_ring (K-major) . b_ring (K-major) by Wgmma",
            "read x",
            "wait for dots, 0 pending",
            "release a_ready",
        ];
        let found: Vec<String> =
            step(quote!(K), squares.clone()).into_iter().filter(|line| !line.starts_with("fold")).collect();
        assert_eq!(found, expected);
        // TMA brings what lies behind the loop's end, and behind that of the rows.
        let from_rows = quote! {
            let x = a[(i + 8, k)];
            sum += (x.to::<f32>() * x.to::<f32>()).row_sum();
            acc += dot(x, b[(j, k)].t());
        };
        assert!(step(quote!(K), from_rows).iter().any(|line| line == "load x"));
        let partly = step(quote!(K.until(i.end())), squares);
        assert!(partly.iter().any(|line| line == "load x"), "{partly:?}");
    }

    #[test]
    fn what_is_no_operand_is_loaded_meanwhile() {
        let found = step(
            quote!(K),
            quote! {
                sum += g[(i, k)].to::<f32>().row_sum();
                acc += dot(a[(i, k)], b[(j, k)].t());
            },
        );
        let at = |word: &str| found.iter().position(|line| line.starts_with(word)).expect("a step's statement");
        assert!(at("dot") < at("load") && at("load") < at("wait for dots"), "{found:?}");
    }

    #[test]
    fn what_depends_on_a_product_comes_after_it() {
        let found = step(
            quote!(K),
            quote! {
                acc += dot(a[(i, k)], b[(j, k)].t());
                sum += acc.row_sum();
            },
        );
        let at = |word: &str| found.iter().position(|line| line.starts_with(word)).expect("a step's statement");
        assert!(at("wait for dots") < at("fold"), "{found:?}");
    }
}
