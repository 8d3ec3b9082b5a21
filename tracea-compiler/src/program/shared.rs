//! Shared memory: tiles, rings of tiles, and where each lies.
//!
//! Buffers that are never alive together share bytes: a buffer lives from the first statement that writes it to the last that
//! reads it, and a loop counts as one statement.

use super::effects::effects;
use super::{Program, Queue, Stmt, Units};
use crate::nest::Dtype;
use crate::schedule::WARPGROUP;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharedId(pub u32);

/// `stages` tiles of `rows` × `cols`, columns contiguous and swizzled.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    pub name: String,
    pub dtype: Dtype,
    pub rows: u32,
    pub cols: u32,
    pub stages: u32,
    /// Columns in panels of 128 bytes, as `wgmma` reads them.
    pub panels: bool,
    /// A producer fills it, ahead of the consumers' statements.
    pub fed: bool,
    /// Panels on their way out, each warpgroup its own: TMA reads them behind the consumers' statements.
    pub sent: bool,
    /// Each thread passes its own elements through it, in no order with other threads, or each warpgroup does: no other buffer lies in its bytes.
    pub private: bool,
    /// Bytes from one stage to the next, and how many of them are another buffer's.
    pub pitch: u32,
    pub others: u32,
    /// The buffer in whose stages it lies, from which of them on.
    pub host: Option<SharedId>,
    pub host_stage: u32,
    /// Where it lies in one slot of its host at a time.
    pub lent: Option<Lent>,
    /// The buffer behind each of whose tiles one of its own lies.
    pub behind: Option<SharedId>,
    /// Bytes from the start of dynamic shared memory.
    pub offset: u32,
}

/// A slot that a ring lends: names of its number and of its round's parity, and how many places each warpgroup has in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lent {
    pub slot: String,
    pub phase: String,
    pub places: u32,
}

impl Shared {
    /// Tiles one behind another, of plain rows.
    pub fn new(name: String, dtype: Dtype, (rows, cols): (u32, u32), stages: u32) -> Shared {
        Shared {
            name,
            dtype,
            rows,
            cols,
            stages,
            panels: false,
            fed: false,
            sent: false,
            private: false,
            pitch: rows * cols * dtype.bytes(),
            others: 0,
            host: None,
            host_stage: 0,
            lent: None,
            behind: None,
            offset: 0,
        }
    }
    pub fn tile_bytes(&self) -> u32 {
        self.rows * self.cols * self.dtype.bytes()
    }
    /// Whether each warpgroup has stages that no other one touches.
    pub fn is_warpgroups_own(&self) -> bool {
        self.sent || self.private
    }
    /// Elements from one stage to the next.
    pub fn pitch_elements(&self) -> u32 {
        self.pitch / self.dtype.bytes()
    }
    /// From its first byte to its last, with what lies between.
    pub fn bytes(&self) -> u32 {
        (self.stages * self.pitch - self.others).next_multiple_of(1024)
    }
    /// Where its stages begin and end.
    fn stretches(&self) -> impl Iterator<Item = (u32, u32)> {
        let begins = (0..self.stages).map(|stage| self.offset + stage * self.pitch);
        begins.map(|begin| (begin, begin + self.pitch - self.others))
    }
    pub fn overlaps(&self, other: &Shared) -> bool {
        let meet = |(from, to): (u32, u32), (other_from, other_to)| from < other_to && other_from < to;
        self.stretches().any(|own| other.stretches().any(|others| meet(own, others)))
    }
}

/// Sets every buffer's offset and the scratch's, and the program's total.
pub fn plan(program: &mut Program, scratch_bytes: u32) {
    let count = program.shared.len();
    let mut lives: Vec<Option<(usize, usize)>> = vec![None; count];
    for (at, stmt) in program.body.iter().enumerate() {
        visit(stmt, &mut |id| {
            let id = program.place_of(id);
            let life = &mut lives[id.0 as usize];
            let buffer = &program.shared[id.0 as usize];
            let first = if buffer.fed || buffer.private { 0 } else { at };
            // TMA reads on after the statement that asked it to.
            let last = if buffer.sent || buffer.private { program.body.len() } else { at };
            *life = Some(life.map_or((first, last), |(from, _)| (from, last)));
        });
    }
    let mut order: Vec<usize> = (0..count).filter(|&i| lives[i].is_some()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(program.shared[i].bytes()), i));
    let mut placed: Vec<usize> = Vec::new();
    let mut total = 0;
    for i in order {
        // With what lies behind its last tile.
        let bytes = program.shared[i].bytes() + program.shared[i].others;
        let mut offset = 0;
        let mut taken: Vec<(u32, u32)> = placed
            .iter()
            .filter(|&&other| lives_meet(lives[i], lives[other]))
            .map(|&other| (program.shared[other].offset, program.shared[other].bytes() + program.shared[other].others))
            .collect();
        taken.sort_unstable();
        for (from, len) in taken {
            if offset + bytes <= from {
                break;
            }
            offset = offset.max(from + len);
        }
        program.shared[i].offset = offset;
        total = total.max(offset + bytes);
        placed.push(i);
    }
    for i in 0..count {
        if let Some(first) = program.shared[i].behind {
            let first = program.shared(first);
            program.shared[i].offset = first.offset + first.tile_bytes();
        }
    }
    for i in 0..count {
        if let Some(host) = program.shared[i].host {
            let host = program.shared(host);
            program.shared[i].offset = host.offset + program.shared[i].host_stage * host.pitch;
        }
    }
    program.scratch = (total, scratch_bytes);
    program.barriers_offset = (total + scratch_bytes).next_multiple_of(8);
    let of_rings: u32 = program.rings.iter().map(|ring| 2 * ring.stages).sum();
    let of_own: u32 = program.own.iter().map(|own| own.places * program.threads / WARPGROUP).sum();
    let barriers = (of_rings + of_own) * 8;
    program.shared_bytes = if barriers > 0 { program.barriers_offset + barriers } else { total + scratch_bytes };
    if let Units::Queue(queue) = &mut program.units {
        queue.offset = program.shared_bytes.next_multiple_of(8);
        program.shared_bytes = queue.offset + Queue::BYTES;
    }
}

impl Program {
    /// How many stages its rings have too many at least, to fit so many bytes: as if all that is rounded up were room.
    pub fn stages_too_many(&self, room: u32) -> u32 {
        const ROUNDED: u32 = 1024;
        const BARRIERS: u32 = 16;
        let fed = || self.shared.iter().filter(|buffer| buffer.fed);
        let of_a_stage = fed().map(|buffer| buffer.pitch).sum::<u32>() + BARRIERS * self.rings.len() as u32;
        let rounded = ROUNDED * (1 + fed().count() as u32);
        self.shared_bytes.saturating_sub(room).saturating_sub(rounded).div_ceil(of_a_stage.max(1))
    }

    /// The buffer whose place another one has in its bytes, or between its tiles.
    fn place_of(&self, id: SharedId) -> SharedId {
        let id = self.shared(id).host.unwrap_or(id);
        self.shared(id).behind.unwrap_or(id)
    }
}

fn lives_meet(a: Option<(usize, usize)>, b: Option<(usize, usize)>) -> bool {
    matches!((a, b), (Some((a0, a1)), Some((b0, b1))) if a0 <= b1 && b0 <= a1)
}

/// Calls `each` with every shared buffer that the statement touches.
pub fn visit(stmt: &Stmt, each: &mut impl FnMut(SharedId)) {
    effects(stmt).into_iter().for_each(|effect| each(effect.shared()));
    for body in stmt.bodies() {
        body.iter().for_each(|stmt| visit(stmt, each));
    }
}

#[cfg(test)]
mod tests {
    use super::{Shared, SharedId, plan};
    use crate::nest::Dtype;
    use crate::program::{Program, Stmt, VarId};
    use crate::testing::{gemm, program};
    use proptest::prelude::*;
    use quote::quote;

    fn buffer(rows: u32) -> Shared {
        Shared::new("buffer".into(), Dtype::F16, (rows, 512), 1)
    }

    /// Buffers of so many KiB, each touched at these statements.
    fn planned(buffers: &[(u32, &[usize])], scratch: u32) -> Program {
        let mut program = program(gemm(quote!(sm_80, i = 16, j = 16, k = 16, stages = 2, warps = (1, 1))));
        program.shared = buffers.iter().map(|(kib, _)| buffer(*kib)).collect();
        let last = buffers.iter().flat_map(|(_, touched)| touched.iter()).max().map_or(0, |last| last + 1);
        program.body = (0..last)
            .map(|at| {
                let touching = (0u32..).zip(buffers).filter(|(_, (_, touched))| touched.contains(&at));
                let body = touching.map(|(id, _)| Stmt::Stage { value: VarId(0), shared: SharedId(id) }).collect();
                Stmt::If { condition: crate::program::IntText::name("more"), body }
            })
            .collect();
        plan(&mut program, scratch);
        program
    }

    fn offsets(program: &Program) -> Vec<u32> {
        program.shared.iter().map(|shared| shared.offset / 1024).collect()
    }

    #[test]
    fn buffers_that_never_meet_share_bytes() {
        let program = planned(&[(4, &[0, 1]), (2, &[2])], 0);
        assert_eq!(offsets(&program), [0, 0]);
        assert_eq!(program.shared_bytes, 4096);
    }

    #[test]
    fn buffers_that_meet_lie_side_by_side() {
        let program = planned(&[(4, &[0, 1]), (2, &[1, 2])], 0);
        assert_eq!(offsets(&program), [0, 4]);
        assert_eq!(program.shared_bytes, 6 * 1024);
    }

    #[test]
    fn a_gap_is_filled() {
        // The third lives with the second only, so the first's bytes are free for it.
        let program = planned(&[(4, &[0, 1]), (4, &[1, 2]), (3, &[2])], 0);
        assert_eq!(offsets(&program), [0, 4, 0]);
    }

    #[test]
    fn scratch_lies_behind_every_buffer() {
        let program = planned(&[(4, &[0]), (2, &[1])], 96);
        assert_eq!(program.scratch, (4096, 96));
        assert_eq!(program.shared_bytes, 4096 + 96);
    }

    #[test]
    fn an_untouched_buffer_takes_no_room() {
        assert_eq!(planned(&[(4, &[])], 0).shared_bytes, 0);
    }

    #[test]
    fn an_epilogue_buffer_lies_over_the_ring() {
        let program = program(gemm(quote!(sm_80, i = 128, j = 128, k = 32, stages = 4, warps = (2, 2))));
        let find = |name: &str| program.shared.iter().find(|shared| shared.name == name).expect("a buffer");
        let (a, b, staging) = (find("a_ring"), find("b_ring"), find("c_staging"));
        assert!(!a.overlaps(b));
        assert!(staging.overlaps(a) || staging.overlaps(b));
        assert_eq!(program.shared_bytes, a.bytes() + b.bytes());
    }

    proptest! {
        #[test]
        fn live_buffers_never_overlap(
            buffers in prop::collection::vec((1u32..40, prop::collection::vec(0usize..6, 0..4)), 0..7),
            scratch in 0u32..2048,
        ) {
            let borrowed: Vec<(u32, &[usize])> =
                buffers.iter().map(|(kib, touched)| (*kib, touched.as_slice())).collect();
            let program = planned(&borrowed, scratch);
            let life = |touched: &[usize]| Some((*touched.iter().min()?, *touched.iter().max()?));
            for (i, (_, first)) in buffers.iter().enumerate() {
                let Some((from, to)) = life(first) else { continue };
                prop_assert!(program.shared[i].offset.is_multiple_of(1024));
                prop_assert!(program.shared[i].offset + program.shared[i].bytes() <= program.scratch.0);
                for (j, (_, second)) in buffers.iter().enumerate().skip(i + 1) {
                    let Some((other_from, other_to)) = life(second) else { continue };
                    let meet = from <= other_to && other_from <= to;
                    prop_assert!(!(meet && program.shared[i].overlaps(&program.shared[j])));
                }
            }
            prop_assert_eq!(program.shared_bytes, program.scratch.0 + scratch);
        }
    }
}
