//! Block sizes on the CPU.

use super::arg::HostArg;
use super::grid::{Grid, GridShape, Work};

/// What the kernel is run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Its results.
    Run,
    /// A comparison in the oracle's arithmetic, perhaps of a few points only.
    Check,
}

/// Elements of the tiles that a point without products works on: they should stay in the second cache.
const CACHED: usize = 1 << 15;
/// A block of the loops inside a point.
const INNER_ELEMENTS: usize = 1024;
const INNER_PRODUCTS: usize = 512;
/// A product's side: large enough that packing its operands does not count.
const SIDE: usize = 512;
/// Rows of a point whose other side is a whole axis or a loop inside.
const ROWS: usize = 128;
const LEAST_SIDE: usize = 64;
const CHECKED_SIDE: usize = 64;

pub(crate) fn cut(shape: GridShape, args: &[HostArg<'_>], threads: usize, purpose: Purpose) -> Grid {
    let tiled: Vec<usize> = (0..shape.axes.len()).filter(|&axis| shape.axes[axis].is_tiled).collect();
    let lens: Vec<usize> = shape.axes.iter().map(|axis| axis.len).collect();
    let mut blocks = vec![1; shape.axes.len()];
    match shape.work {
        Work::Products => {
            let side = match (purpose, tiled.len()) {
                (Purpose::Check, _) => CHECKED_SIDE,
                (Purpose::Run, 1) => ROWS,
                (Purpose::Run, _) => SIDE,
            };
            for &axis in tiled.iter().rev().take(2) {
                blocks[axis] = side.min(lens[axis]).max(1);
            }
            if purpose == Purpose::Run {
                share(&mut blocks, &lens, 2 * threads);
            }
            Grid::new(shape.axes, blocks, INNER_PRODUCTS)
        }
        Work::Elements => {
            // A point's tiles are as long as the tensors are for each of its coordinates, or a block of an inner loop.
            let coordinates = lens.iter().product::<usize>().max(1);
            let largest = args.iter().filter_map(HostArg::array).map(|array| array.len()).max().unwrap_or(1);
            let mut room = CACHED / largest.div_ceil(coordinates).clamp(1, INNER_ELEMENTS);
            for &axis in tiled.iter().rev() {
                blocks[axis] = room.min(lens[axis]).max(1);
                room = (room / blocks[axis]).max(1);
            }
            Grid::new(shape.axes, blocks, INNER_ELEMENTS)
        }
    }
}

/// Halves the longest blocks until there are enough points for every core.
fn share(blocks: &mut [usize], lens: &[usize], enough: usize) {
    loop {
        let points: usize = blocks.iter().zip(lens).map(|(&block, len)| len.div_ceil(block)).product();
        let Some(longest) = blocks.iter_mut().max() else { return };
        if points >= enough || *longest <= LEAST_SIDE {
            return;
        }
        *longest = longest.div_ceil(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(lens: [usize; 2], enough: usize) -> [usize; 2] {
        let mut blocks = lens.map(|len| len.clamp(1, SIDE));
        share(&mut blocks, &lens, enough);
        blocks
    }

    #[test]
    fn every_core_gets_a_point() {
        assert_eq!(shared([1024, 1024], 4), [512, 512]);
        assert_eq!(shared([512, 512], 4), [256, 256]);
        assert_eq!(shared([16, 64], 4), [16, 64]);
        assert_eq!(shared([0, 512], 4), [1, 64]);
    }
}
