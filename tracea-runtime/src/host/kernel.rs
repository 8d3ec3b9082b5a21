//! Running a kernel's body over its grid.

use rayon::prelude::*;

use super::arg::HostArg;
use super::block::{Purpose, cut};
use super::grid::{Grid, GridPoint, GridShape};
use crate::tile::product::with_parallel;

const MAX_FLAGS: usize = 8;

/// One grid point of a kernel's body.
pub type Body = fn(&GridPoint, &[HostArg<'_>]);
/// A kernel's grid for its arguments.
pub type GridOf = fn(&[HostArg<'_>]) -> GridShape;

/// A kernel as the CPU runs it: its body in two arithmetics, its grid, and the flags that select an instance.
#[derive(Clone, Copy, Debug)]
pub struct HostKernel {
    native: Body,
    oracle: Body,
    grid: GridOf,
    flags: [bool; MAX_FLAGS],
    flag_count: usize,
}

/// Which grid points a check runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    All,
    /// The grid's corners, and that many others at random.
    Some {
        tiles: usize,
        seed: u64,
    },
}

/// How much a check ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleTaken {
    pub tiles: usize,
    pub of: usize,
}

impl HostKernel {
    pub fn new(native: Body, oracle: Body, grid: GridOf) -> Self {
        HostKernel { native, oracle, grid, flags: [false; MAX_FLAGS], flag_count: 0 }
    }

    /// Adds a flag: the body finds it behind the arguments.
    pub fn flag(mut self, value: bool) -> Self {
        assert!(self.flag_count < MAX_FLAGS, "a kernel has at most eight flags");
        self.flags[self.flag_count] = value;
        self.flag_count += 1;
        self
    }

    fn with_flags<'a>(&self, args: &[HostArg<'a>]) -> Vec<HostArg<'a>> {
        let flags = self.flags[..self.flag_count].iter().map(|&flag| HostArg::from_flag(flag));
        args.iter().copied().chain(flags).collect()
    }

    /// Runs the kernel on all cores: every point of its grid, once.
    pub fn run(&self, args: &[HostArg<'_>]) {
        let args = self.with_flags(args);
        let threads = rayon::current_num_threads();
        let grid = cut((self.grid)(&args), &args, threads, Purpose::Run);
        let points = grid.points();
        if points < threads {
            for number in 0..points {
                with_parallel(true, || (self.native)(&grid.point(number), &args));
            }
        } else {
            run_points(self.native, &grid, &args, (0..points).into_par_iter());
        }
    }

    /// Runs the oracle over all points of the grid or a sample of them. Outputs must be
    /// [`checked`](HostArg::checked) arguments.
    pub fn check(&self, args: &[HostArg<'_>], sample: Sample) -> SampleTaken {
        let args = self.with_flags(args);
        let grid = cut((self.grid)(&args), &args, rayon::current_num_threads(), Purpose::Check);
        let of = grid.points();
        let tiles = match sample {
            Sample::Some { tiles, seed } if tiles < of => {
                let chosen = choose(&grid.counts(), tiles, seed);
                let tiles = chosen.len();
                run_points(self.oracle, &grid, &args, chosen.into_par_iter());
                tiles
            }
            _ => {
                run_points(self.oracle, &grid, &args, (0..of).into_par_iter());
                of
            }
        };
        SampleTaken { tiles, of }
    }
}

fn run_points(body: Body, grid: &Grid, args: &[HostArg<'_>], points: impl ParallelIterator<Item = usize>) {
    points.for_each(|number| with_parallel(false, || body(&grid.point(number), args)));
}

/// The numbers of the corners and of `tiles` others, in order.
fn choose(counts: &[usize], tiles: usize, seed: u64) -> Vec<usize> {
    let mut corners = vec![0];
    for &count in counts {
        let ends = if count > 1 { vec![0, count - 1] } else { vec![0] };
        corners = corners.iter().flat_map(|&corner| ends.iter().map(move |end| corner * count + end)).collect();
    }
    let of: usize = counts.iter().product();
    let mut chosen: std::collections::BTreeSet<usize> = corners.into_iter().collect();
    let wanted = (chosen.len() + tiles).min(of);
    let mut random = SplitMix(seed);
    while chosen.len() < wanted {
        chosen.insert((random.next() % of as u64) as usize);
    }
    chosen.into_iter().collect()
}

/// Steele, Lea and Flood 2014, *Fast splittable pseudorandom number generators*.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_corners() {
        let chosen = choose(&[4, 1, 5], 3, 7);
        assert_eq!(chosen.len(), 7);
        assert!([0, 4, 15, 19].iter().all(|corner| chosen.contains(corner)));
        assert_eq!(chosen, choose(&[4, 1, 5], 3, 7));
        assert_eq!(choose(&[2, 2], 99, 0), [0, 1, 2, 3]);
    }
}
