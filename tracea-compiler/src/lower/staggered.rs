//! Two warpgroups that share a tile, one ahead of the other where its sum ends.
//!
//! ```text
//! for step {                     first warpgroup               second warpgroup
//!     acc += a · b               …                             waits before its last steps until the first one
//! }                  becomes     asks for all its products     has asked for its own, and so has the tensor cores for
//! write the tile out             writes its rows out           itself while that one's rows are on their way out
//!                                begins the next tile's sum    writes its rows out meanwhile
//! ```
//! As many steps as the ring can spare: the slots of what the second warpgroup has before it, and the one before, which its last product still reads, are not
//! free yet, and what a result takes in passes by one of them. It pays where one warpgroup keeps the tensor cores busy alone: by wide products that run on
//! from step to step, in a block that has the multiprocessor to itself. Measured on an H200: 4096 x 4096 x 1024 takes 49.2 µs so by 128 x 256 and 49.5
//! by pairs of them, and 50.7 and 51.3 without; 2048³ 26.6 and 27.2, 4096³ 176.7 and 178.3; by tiles of 104 x 128, 200 x 8192 x 8192 takes 42.8 and 42.4.

use super::Lowering;
use super::rings::{Count, Site};
use crate::program::{Domain, Stagger, Stmt, VarId};
use crate::schedule::WARPGROUP;

/// Columns of products that are wide enough.
const WIDE: u32 = 128;
/// Stages of rings that have steps to spare.
const DEEP: u32 = 4;

impl Lowering<'_> {
    /// Whether two warpgroups share the tile, one of which may go ahead in a loop with this body.
    pub fn goes_ahead(&self, body: &[Stmt], site: &Site) -> bool {
        let schedule = self.schedule;
        let shared_by_two = schedule.threads() == 2 * WARPGROUP && !schedule.pingpong && schedule.resident == 1;
        let multiplied = body.iter().map(|stmt| match stmt {
            Stmt::Dot(dot) => dot.targets().map(|target| self.columns_of(target)).sum(),
            _ => 0,
        });
        let own = Count::of(&site.moving);
        let by_one_ring = matches!(&own[..], [count] if count.stages >= DEEP);
        // Another ring's slots would let the first warpgroup come to the end of a second loop before the other one has followed in this.
        let is_own = |before: &Site| before.moving.is_empty() || Count::of(&before.moving) == own;
        let of_one_ring = by_one_ring && self.sites.iter().all(is_own);
        shared_by_two && of_one_ring && self.open.is_empty() && multiplied.sum::<u32>() >= WIDE
    }

    /// The body of a loop of so many steps whose products run on, and what follows it.
    pub fn staggered(
        &mut self,
        site: &Site,
        steps: &str,
        (mut body, mut after): (Vec<Stmt>, Vec<Stmt>),
    ) -> (Vec<Stmt>, Vec<Stmt>) {
        let [count] = &Count::of(&site.moving)[..] else { return (body, after) };
        if !self.goes_ahead(&body, site) {
            return (body, after);
        }
        let taken_in = if self.epilogues.is_empty() { 0 } else { 1 };
        let (steps, stages) = (steps.to_string(), count.stages);
        let last = stages.saturating_sub(1 + taken_in);
        self.out.push(Stmt::Stagger(Stagger::Begin { steps: steps.clone(), last, stages }));
        body.insert(0, Stmt::Stagger(Stagger::Follow));
        after.insert(0, Stmt::Stagger(Stagger::Lead { steps, stages }));
        (body, after)
    }

    fn columns_of(&self, tile: VarId) -> u32 {
        match self.program.var(tile).domain {
            Domain::Tile(layout) => self.program.layout(layout).cols,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{cuda, gemm};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn position(text: &str, line: &str) -> usize {
        text.find(line).unwrap_or_else(|| panic!("{line} in\n{text}"))
    }

    #[test]
    fn the_second_warpgroup_waits_before_its_last_steps() {
        let text = cuda(gemm(quote!(sm_90a, i = 128, j = 256, k = 64, stages = 4, consumers = 2, cluster = (2, 1))));
        let order = [
            "const int follows_from = follows_from_of<3, 4>(steps);",
            "for (int step = 0; step < steps; ++step) {\n                if (step == follows_from) follow();",
            "wgdot_issue<",
            "lead<4>(steps);",
            "wgdot_wait<0>(acc);",
        ];
        let consumers = &text[position(&text, "setmaxnreg_inc")..];
        assert!(order.map(|line| position(consumers, line)).is_sorted(), "{consumers}");
    }

    #[test]
    fn what_a_result_takes_in_needs_a_slot() {
        let text = cuda(quote! {
            #[schedule(sm_90a, i = 128, j = 160, k = 64, stages = 5, consumers = 2)]
            fn f<M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, r: &Tensor<f16, (M, N)>, c: &mut Tensor<f16, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                    c[(i, j)] = (acc + r[(i, j)].to::<f32>()).to();
                });
            }
        });
        position(&text, "follows_from_of<3, 5>(steps)");
    }

    #[test]
    fn nobody_waits_where_a_ring_spares_no_steps_products_are_narrow_or_one_warpgroup_has_the_tile() {
        let waits = |schedule: TokenStream| cuda(gemm(schedule)).contains("follow();");
        assert!(waits(quote!(sm_90a, i = 128, j = 256, k = 64, stages = 4, consumers = 2)));
        for schedule in [
            quote!(sm_90a, i = 128, j = 256, k = 64, stages = 3, consumers = 2),
            quote!(sm_90a, i = 128, j = 64, k = 64, stages = 6, consumers = 2),
            quote!(sm_90a, i = 128, j = 128, k = 64, stages = 3, consumers = 2, resident = 2),
            quote!(sm_90a, i = 64, j = 128, k = 64, stages = 8, consumers = 1),
            quote!(sm_90a, i = 192, j = 64, k = 64, stages = 5, consumers = 3),
            quote!(sm_90a, i = 128, j = 128, k = 64, stages = 6, consumers = 2, pingpong = true),
        ] {
            assert!(!waits(schedule.clone()), "{schedule}");
        }
    }
}
