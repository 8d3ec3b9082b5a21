//! Tiles that the blocks of a cluster fetch for each other.
//!
//! ```text
//! b: 256 rows of k          rank 0 fetches rows 0 … 127, rank 1 rows 128 … 255
//! b: 64 rows of 256 j       rank 0 fetches panels 0 and 1, rank 1 panels 2 and 3
//! ```
//! Each part goes into the shared memory of all blocks, and completes there on the block's own full barrier, which expects the whole
//! tile. So a slot is free when the consumers of all blocks have released it. A block must not end before that, since those of the other blocks
//! release it there: its producer waits once more for each slot. To meet all threads of all blocks instead would take as long as it takes to
//! bring everything to memory that they have written.

use super::Lowering;
use super::loops::Resident;
use super::rings::{Count, Group};
use crate::program::{BulkPart, IntText, Stmt};
use crate::schedule::{self, cluster};

/// How a tile is cut into a part for each block of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Of each box.
    pub rows: u32,
    panels: u32,
    /// From one part to the next: rows or columns in the tensor, and elements in shared memory.
    step: Step,
    elements: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Rows(u32),
    Cols(u32),
}

impl Lowering<'_> {
    /// Whether all blocks of the cluster take the operand's tiles alike, and TMA can fetch them by parts.
    pub fn is_joint(&self, operand: &Resident) -> bool {
        self.cut(operand).is_some()
    }

    /// By panels where they make equal parts, else by rows.
    pub fn cut(&self, operand: &Resident) -> Option<Cut> {
        let axis = self.schedule.cluster?;
        if !cluster::is_shared(self.nest, operand.load, axis) || !self.comes_by_boxes(operand) {
            return None;
        }
        let shared = self.program.shared(operand.shared);
        let (rows, panel) = (shared.rows, schedule::panel(shared.dtype));
        let panels = shared.cols / panel;
        if panels.is_multiple_of(cluster::BLOCKS) {
            let panels = panels / cluster::BLOCKS;
            return Some(Cut { rows, panels, step: Step::Cols(panels * panel), elements: panels * panel * rows });
        }
        let part = rows / cluster::BLOCKS;
        let whole = panels == 1 && cluster::is_cut(rows);
        whole.then_some(Cut { rows: part, panels, step: Step::Rows(part), elements: part * panel })
    }

    /// What the block of this rank fetches of a tile that begins at `at`, which moves there.
    pub fn part(&self, cut: Cut, at: &mut [IntText], row_at: usize) -> BulkPart {
        let by_rank = |step: u32| IntText::name("rank").times(step);
        let (axis, step) = match cut.step {
            Step::Rows(rows) => (row_at, rows),
            Step::Cols(cols) => (at.len() - 1, cols),
        };
        if let Some(start) = at.get_mut(axis) {
            *start = std::mem::replace(start, IntText::Const(0)).plus(by_rank(step));
        }
        BulkPart { panels: cut.panels, offset: by_rank(cut.elements) }
    }

    /// At the producer's end: until the consumers of all blocks have released what the blocks filled for each other.
    pub fn drain_joint_rings(&self) -> Vec<Stmt> {
        let groups = self.sites.iter().flat_map(|site| site.fixed.iter().chain(&site.moving));
        let mut joint: Vec<Group> = Vec::new();
        for group in groups.filter(|group| self.program.ring(group.ring).joint) {
            if joint.iter().all(|other| other.ring != group.ring) {
                joint.push(group.clone());
            }
        }
        let drain = |count: &Count| {
            let rings = joint.iter().filter(|group| group.count == *count);
            let acquired = rings.map(|group| Stmt::Acquire(group.turn()));
            let body = count.position().into_iter().chain(acquired).chain([count.advance()]).collect();
            let (from, until, step) = (IntText::Const(0), IntText::Const(count.stages.into()), IntText::Const(1));
            Stmt::For { var: "slots".into(), from, until, step, unroll: false, body }
        };
        Count::of(&joint).iter().map(drain).collect()
    }
}

#[cfg(test)]
mod tests;
