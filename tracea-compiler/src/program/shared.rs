//! Shared memory: tiles, rings of tiles, and where each lies.
//!
//! Buffers that are never alive together share bytes: a buffer lives from the first statement that writes it to the last that
//! reads it, and a loop counts as one statement.

use super::{Operand, Program, Stmt};
use crate::nest::Dtype;

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
    /// Bytes from the start of dynamic shared memory.
    pub offset: u32,
}

impl Shared {
    pub fn tile_elements(&self) -> u32 {
        self.rows * self.cols
    }
    pub fn bytes(&self) -> u32 {
        (self.stages * self.tile_elements() * self.dtype.bytes()).next_multiple_of(1024)
    }
    pub fn overlaps(&self, other: &Shared) -> bool {
        self.offset < other.offset + other.bytes() && other.offset < self.offset + self.bytes()
    }
}

/// Sets every buffer's offset and the scratch's, and the program's total.
pub fn plan(program: &mut Program, scratch_bytes: u32) {
    let count = program.shared.len();
    let mut lives: Vec<Option<(usize, usize)>> = vec![None; count];
    for (at, stmt) in program.body.iter().enumerate() {
        visit(stmt, &mut |id| {
            let life = &mut lives[id.0 as usize];
            let first = if program.shared[id.0 as usize].fed { 0 } else { at };
            *life = Some(life.map_or((first, at), |(from, _)| (from, at)));
        });
    }
    let mut order: Vec<usize> = (0..count).filter(|&i| lives[i].is_some()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(program.shared[i].bytes()), i));
    let mut placed: Vec<usize> = Vec::new();
    let mut total = 0;
    for i in order {
        let bytes = program.shared[i].bytes();
        let mut offset = 0;
        let mut taken: Vec<(u32, u32)> = placed
            .iter()
            .filter(|&&other| lives_meet(lives[i], lives[other]))
            .map(|&other| (program.shared[other].offset, program.shared[other].bytes()))
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
    program.scratch = (total, scratch_bytes);
    program.barriers_offset = (total + scratch_bytes).next_multiple_of(8);
    let barriers: u32 = program.rings.iter().map(|ring| 2 * ring.stages * 8).sum();
    program.shared_bytes = if barriers > 0 { program.barriers_offset + barriers } else { total + scratch_bytes };
}

fn lives_meet(a: Option<(usize, usize)>, b: Option<(usize, usize)>) -> bool {
    matches!((a, b), (Some((a0, a1)), Some((b0, b1))) if a0 <= b1 && b0 <= a1)
}

/// Calls `each` with every shared buffer that the statement touches.
pub fn visit(stmt: &Stmt, each: &mut impl FnMut(SharedId)) {
    match stmt {
        Stmt::Copy(copy) => each(copy.shared),
        Stmt::Store { staging: Some(shared), .. } | Stmt::Stage { shared, .. } => each(*shared),
        Stmt::Dot(dot) => {
            for operand in [&dot.a, &dot.b] {
                if let Operand::Shared { shared, .. } = operand {
                    each(*shared);
                }
            }
        }
        Stmt::For { body, .. } | Stmt::If { body, .. } => body.iter().for_each(|stmt| visit(stmt, each)),
        _ => {}
    }
}
