//! How long a launch takes: a median over many runs, each with a cold L2 cache on a GPU.

use super::Launch;
use super::flush::Flush;
use super::run::Checks;
use crate::cuda::{Gpu, Stopwatch};
use crate::error::Result;
use crate::tensor::RawTensor;
use crate::verify::Saved;
use cudarc::driver::CudaStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

const RUNS: usize = 30;
const WARM_UP: usize = 3;
/// On the CPU a slow kernel is run less often than asked, at least three times, once this much time has gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    pub median_ms: f64,
    pub min_ms: f64,
    pub max_ms: f64,
    pub runs: usize,
    pub clock: Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// CUDA events around each launch.
    Events,
    /// The host's clock around each run.
    Wall,
}

impl Launch<'_> {
    /// Runs the kernel 30 times after a warm-up. Outputs that it also reads are put back afterwards.
    pub fn time(&self) -> Result<Timing> {
        self.time_with(RUNS)
    }

    pub fn time_with(&self, runs: usize) -> Result<Timing> {
        let checks = self.checks()?;
        let updated = self.kernel().tensors.iter().zip(self.tensors()).filter(|(def, _)| def.reads && def.writes);
        let saved = updated.map(|(_, tensor)| Saved::take(tensor)).collect::<Result<Vec<Saved>>>()?;
        let timing = match checks.device.cuda_parts() {
            Some((gpu, stream)) => self.time_events(&checks, gpu, stream, runs.max(1)),
            None => self.time_wall(&checks, runs.max(1)),
        };
        let updated = self.kernel().tensors.iter().zip(self.tensors()).filter(|(def, _)| def.reads && def.writes);
        for ((_, tensor), saved) in updated.zip(&saved) {
            saved.restore(tensor)?;
        }
        timing
    }

    fn time_events(
        &self,
        checks: &Checks<'_>,
        gpu: &'static Gpu,
        stream: &Arc<CudaStream>,
        runs: usize,
    ) -> Result<Timing> {
        let flush = Flush::new(gpu, stream)?;
        let watch = Stopwatch::new(gpu)?;
        let mut times = Vec::with_capacity(runs);
        for run in 0..WARM_UP + runs {
            gpu.bind()?;
            // While that runs the launch is enqueued, so that the events do not time the host.
            flush.enqueue(stream)?;
            watch.start(stream)?;
            self.run_checked(checks)?;
            watch.stop(stream)?;
            let milliseconds = watch.milliseconds()?;
            if run >= WARM_UP {
                times.push(milliseconds);
            }
        }
        Ok(Timing::of(times, Clock::Events))
    }

    fn time_wall(&self, checks: &Checks<'_>, runs: usize) -> Result<Timing> {
        let begin = Instant::now();
        self.run_checked(checks)?;
        let mut times = Vec::with_capacity(runs);
        while times.len() < runs && (times.len() < 3 || begin.elapsed() < PATIENCE) {
            let start = Instant::now();
            self.run_checked(checks)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(Timing::of(times, Clock::Wall))
    }
}

impl Timing {
    fn of(mut times: Vec<f64>, clock: Clock) -> Timing {
        times.sort_by(f64::total_cmp);
        let middle = times.len() / 2;
        let median =
            if times.len().is_multiple_of(2) { (times[middle - 1] + times[middle]) / 2.0 } else { times[middle] };
        Timing { median_ms: median, min_ms: times[0], max_ms: times[times.len() - 1], runs: times.len(), clock }
    }
}

/// Bytes of all tensors, each once: what a launch moves at least.
pub(super) fn bytes_moved<'t>(tensors: impl Iterator<Item = &'t RawTensor>) -> usize {
    tensors.map(|tensor| tensor.layout().elements() * tensor.dtype().bytes()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let odd = Timing::of(vec![3.0, 1.0, 2.0], Clock::Wall);
        assert_eq!((odd.median_ms, odd.min_ms, odd.max_ms, odd.runs), (2.0, 1.0, 3.0, 3));
        assert_eq!(Timing::of(vec![4.0, 1.0, 2.0, 3.0], Clock::Wall).median_ms, 2.5);
    }
}
