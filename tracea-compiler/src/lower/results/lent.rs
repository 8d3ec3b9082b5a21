//! Places for panels in a slot of the ring that fed the loop, where its other slots leave no room for places of their own.
//!
//! ```text
//! producer, after the loop's steps          consumers, after the loop
//! acquire the next slot                     wait until the slot is full
//! say that it is full, of nothing           for panel { write it into the slot; send it }
//!                                           wait until TMA has read the last one; release the slot
//! ```
//! So the slot passes as if the loop had one more step, and what the next tile's loop reads comes to the others meanwhile.

use crate::lower::Lowering;
use crate::lower::rings::Count;
use crate::nest::{Stmt as NestStmt, TensorId, ValueId};
use crate::program::shared::{Lent, SharedId};
use crate::program::{RingId, Scope, Stmt, Turn};

/// A ring's slot that a store's panels pass through.
#[derive(Clone, Debug)]
pub struct Passing {
    stored: (TensorId, ValueId),
    ring: RingId,
    count: Count,
    staging: SharedId,
}

impl Passing {
    fn turn(&self) -> Turn {
        self.count.turn(self.ring, vec![self.staging])
    }
}

impl Lowering<'_> {
    /// The ring's buffer that lends so many bytes to the kernel's one result, which leaves after the one loop that rings feed.
    pub fn lender(&self, bytes: u32) -> Option<SharedId> {
        let stores = self.nest.body.stmts.iter().filter(|stmt| matches!(stmt, NestStmt::Store { .. })).count();
        let mut fed = self.sites.iter().filter(|site| !site.moving.is_empty());
        let (Some(site), None, 1, true) = (fed.next(), fed.next(), stores, self.open.is_empty()) else { return None };
        site.moving.iter().find_map(|group| self.host(group, bytes))
    }

    /// Consumers' side of a store by panels.
    pub fn push_panels(&mut self, stored: (TensorId, ValueId), staging: SharedId, panels: Stmt) {
        let Some(passing) = self.passing(stored, staging) else { return self.out.push(panels) };
        let (turn, advance) = (passing.turn(), passing.count.advance());
        let begin = || passing.count.position().into_iter().chain([Stmt::WaitFull(turn.clone()), advance.clone()]);
        // Blocks that leave their tile to another one have nothing to send.
        let nothing: Vec<Stmt> = begin().chain([Stmt::Release(turn.clone())]).collect();
        self.leaving().into_iter().for_each(|leaving| leaving.extend(nothing.iter().cloned()));
        self.out.extend(begin());
        let read = [Stmt::FinishStores, Stmt::Fence, Stmt::Barrier(Scope::Warpgroup), Stmt::Release(turn.clone())];
        self.out.push(panels);
        self.out.extend(read);
        self.passing.push(passing);
    }

    fn passing(&self, stored: (TensorId, ValueId), staging: SharedId) -> Option<Passing> {
        let shared = self.program.shared(staging);
        let (Lent { slot, phase, .. }, host) = (shared.lent.as_ref()?, shared.host?);
        let mut groups = self.sites.iter().flat_map(|site| &site.moving);
        let group = groups.find(|group| group.operands.iter().any(|operand| operand.shared == host))?;
        let count = group.count.named(slot, phase);
        Some(Passing { stored, ring: group.ring, count, staging })
    }

    /// The producer's side.
    pub fn lend_slots(&mut self, stored: (TensorId, ValueId)) {
        let passing: Vec<Passing> = self.passing.iter().filter(|passing| passing.stored == stored).cloned().collect();
        for passing in passing {
            let turn = passing.turn();
            let by_threads = Stmt::Publish { turn: turn.clone(), copies: Vec::new() };
            let full = match self.program.ring(passing.ring).bulk {
                Some(condition) => {
                    let by_one = Stmt::Bulk { turn: turn.clone(), copies: Vec::new(), waits: false };
                    Stmt::Where { condition, body: vec![by_one], otherwise: vec![by_threads] }
                }
                None => by_threads,
            };
            self.out.extend(passing.count.position());
            self.out.extend([Stmt::Acquire(turn), full, passing.count.advance()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{cuda, gemm, program};
    use quote::quote;

    #[test]
    fn panels_of_the_tallest_tiles_pass_through_a_slot_of_the_ring() {
        let tall = quote!(sm_90a, i = 160, j = 256, k = 64, stages = 4, consumers = 2, swapped = true);
        let text = cuda(gemm(tall.clone()));
        for line in [
            "mbarrier_wait(b_ready_empty + lent_slot, lent_phase ^ 1);",
            "mbarrier_arrive(b_ready_full + lent_slot);",
            "mbarrier_wait(b_ready_full + lent_slot, lent_phase);",
            "own_panel<F16PanelsBuffer, 2>(f16_panels + lent_slot * 16384, panel)",
            "finish_panels();",
            "if (lane_index() == 0) mbarrier_arrive(b_ready_empty + lent_slot);",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        let program = program(gemm(tall));
        let rings = 4 * (256 + 160) * 64 * 2;
        assert_eq!(program.barriers_offset, rings);
    }

    #[test]
    fn panels_have_places_of_their_own_where_rings_leave_room() {
        for schedule in [
            quote!(sm_90a, i = 256, j = 128, k = 64, stages = 4, consumers = 2),
            quote!(sm_90a, i = 128, j = 192, k = 64, stages = 4, consumers = 2, pingpong = true),
        ] {
            let text = cuda(gemm(schedule));
            assert!(!text.contains("lent_slot") && text.contains("own_panel<F16PanelsBuffer, 2>(f16_panels, panel)"));
        }
    }
}
