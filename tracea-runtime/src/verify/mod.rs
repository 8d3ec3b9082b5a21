//! Verification: runs a launch, then the same kernel in f64 on the CPU, and compares under a bound that the f64 run carries along.
//!
//! Outputs are poisoned first, so that an element that the kernel forgets is found; those that the kernel also reads keep their
//! contents, of which the f64 run gets a copy from before.

mod comparator;
mod report;
mod saved;

pub use comparator::{Comparator, Comparison};
pub use report::{Mismatch, Verified};

pub(crate) use saved::Saved;

use crate::error::{Error, Result};
use crate::host::{HostArg, Sample};
use crate::launch::{Launch, host_array};
use crate::plan::TensorDef;

/// How much of the grid is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    All,
    /// So many points of the grid, chosen by the seed, beside its corners; all of a grid that has no more.
    Sample {
        seed: u64,
        points: usize,
    },
}

impl Default for Verify {
    fn default() -> Verify {
        Verify::Sample { seed: 0, points: 64 }
    }
}

impl Launch<'_> {
    /// [`verify`](Launch::verify) over all of the grid or a sample of one's own.
    pub fn verify_with(&self, how: Verify) -> Result<Verified> {
        let checks = self.checks()?;
        let kernel = self.kernel();
        // Contents from before the launch; an input on the CPU is read where it is.
        let mut before = Vec::new();
        for (def, tensor) in kernel.tensors.iter().zip(self.tensors()) {
            let in_place = tensor.device().is_cpu() && !def.writes;
            before.push(if in_place { None } else { Some(Saved::take(tensor)?) });
        }
        // What this instance leaves as it is, it leaves to whoever wrote it.
        let is_filled = |position: usize, def: &TensorDef| {
            def.writes && !def.reads && !checks.instance.unwritten.contains(&position)
        };
        for (position, (def, tensor)) in kernel.tensors.iter().zip(self.tensors()).enumerate() {
            if is_filled(position, def) {
                saved::poison(tensor)?;
            }
        }
        self.run_checked(&checks)?;
        checks.device.synchronize()?;
        let mut after = Vec::new();
        for (position, (def, tensor)) in kernel.tensors.iter().zip(self.tensors()).enumerate() {
            if def.writes {
                after.push((position, Saved::take(tensor)?));
            }
        }
        let mut comparators = Vec::new();
        for (position, saved) in &after {
            // SAFETY: `after` outlives the comparators, and nothing writes it.
            comparators.push((*position, unsafe { Comparator::new(saved.array()?) }));
        }
        let args = self.host_args(|position, tensor| {
            let array = before[position].as_ref().map_or_else(|| host_array(tensor), Saved::array)?;
            // SAFETY: `before` and the launch's tensors outlive the arguments, and nothing writes them: outputs go to their comparators.
            Ok(unsafe {
                match comparators.iter().find(|(compared, _)| *compared == position) {
                    Some((_, comparator)) => HostArg::checked(array, comparator),
                    None => HostArg::input(array),
                }
            })
        })?;
        let sample = match how {
            Verify::All => Sample::All,
            Verify::Sample { seed, points } => Sample::Some { tiles: points, seed },
        };
        let taken = self.host().check(&args, sample);
        drop(args);
        let mut comparisons = Vec::new();
        for ((position, comparator), (_, actual)) in comparators.into_iter().zip(&after) {
            let comparison = comparator.finish();
            let def = &kernel.tensors[position];
            if let Some(mismatch) = Mismatch::find(kernel.name, def.name, &comparison, actual, is_filled(position, def))
            {
                return Err(Error::Mismatch(Box::new(mismatch)));
            }
            comparisons.push(comparison);
        }
        Ok(Verified::of(&comparisons, taken.tiles, taken.of))
    }
}
