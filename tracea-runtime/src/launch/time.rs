//! How long a launch takes: a median over many runs, each with a cold L2 cache on a GPU.

use super::Launch;
use super::flush::Flush;
use super::run::Checks;
use crate::cuda::{Gpu, Stopwatch};
use crate::error::Result;
use crate::plan::Variant;
use crate::tensor::RawTensor;
use crate::verify::Saved;
use cudarc::driver::CudaStream;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

const RUNS: usize = 30;
/// Before those that count.
const WARM_UP: usize = 3;
/// What runs for so long is run for this time before: clocks sink as far as a kernel's power makes them, which takes large products about 50 ms, and
/// would happen amid the runs that count.
const LONG_MS: f64 = 1.0;
const LONG_WARM_UP: Duration = Duration::from_millis(100);
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
        let updated = self.updated()?;
        let timing = match checks.device.cuda_parts() {
            Some((gpu, stream)) => Timer::new(gpu, stream).and_then(|timer| {
                timer.warm_up(self, &checks)?;
                let times = (0..runs.max(1)).map(|_| timer.time(self, &checks)).collect::<Result<Vec<f64>>>()?;
                let timing = Timing::of(times, Clock::Events);
                self.timed.remember(self.variant(gpu, &checks, self.may_copy)?.variant, timing);
                Ok(timing)
            }),
            None => self.time_wall(&checks, runs.max(1)),
        };
        self.put_back(&updated)?;
        timing
    }

    /// Every schedule that the launch's device runs, as [`schedules`](Launch::schedules) lists them, each 30 times. They take turns, so
    /// that clocks that sink as the device grows hot slow down all of them alike.
    pub fn time_schedules(&mut self) -> Result<Vec<(String, Timing)>> {
        let schedules = self.schedules()?;
        let updated = self.updated()?;
        let own = self.schedule.clone();
        let timings = self.time_in_turn(&schedules);
        self.schedule = own;
        self.put_back(&updated)?;
        Ok(schedules.into_iter().zip(timings?).collect())
    }

    fn time_in_turn(&mut self, schedules: &[String]) -> Result<Vec<Timing>> {
        let device = self.checks()?.device.clone();
        let Some((gpu, stream)) = device.cuda_parts() else { return Ok(Vec::new()) };
        let timer = Timer::new(gpu, stream)?;
        let mut times = vec![Vec::with_capacity(RUNS); schedules.len()];
        for run in 0..WARM_UP + RUNS {
            for (schedule, times) in schedules.iter().zip(&mut times) {
                self.schedule = schedule.as_str().into();
                let time = timer.time(self, &self.checks()?)?;
                if run >= WARM_UP {
                    times.push(time);
                }
            }
        }
        let timings: Vec<Timing> = times.into_iter().map(|times| Timing::of(times, Clock::Events)).collect();
        for (schedule, timing) in schedules.iter().zip(&timings) {
            self.schedule = schedule.as_str().into();
            self.timed.remember(self.variant(gpu, &self.checks()?, self.may_copy)?.variant, *timing);
        }
        Ok(timings)
    }

    /// What the kernel reads and writes.
    fn updated(&self) -> Result<Vec<(usize, Saved)>> {
        let defs = self.kernel().tensors.iter().zip(self.tensors()).enumerate();
        let updated = defs.filter(|(_, (def, _))| def.reads && def.writes);
        updated.map(|(at, (_, tensor))| Ok((at, Saved::take(tensor)?))).collect()
    }

    fn put_back(&self, updated: &[(usize, Saved)]) -> Result<()> {
        updated
            .iter()
            .try_for_each(|(at, saved)| self.tensors().nth(*at).map_or(Ok(()), |tensor| saved.restore(tensor)))
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

/// What a launch was timed at on a GPU, by schedule.
#[derive(Default)]
pub(super) struct Timed(RefCell<Vec<(&'static Variant, Timing)>>);

impl Timed {
    fn remember(&self, variant: &'static Variant, timing: Timing) {
        let mut timed = self.0.borrow_mut();
        timed.retain(|(known, _)| !std::ptr::eq(*known, variant));
        timed.push((variant, timing));
    }

    /// The last one.
    pub fn get(&self, variant: &Variant) -> Option<Timing> {
        self.0.borrow().iter().find(|(known, _)| std::ptr::eq(*known, variant)).map(|(_, timing)| *timing)
    }
}

/// Of launches on a stream, by its events.
struct Timer<'d> {
    gpu: &'static Gpu,
    stream: &'d Arc<CudaStream>,
    flush: Flush,
    watch: Stopwatch,
}

impl<'d> Timer<'d> {
    fn new(gpu: &'static Gpu, stream: &'d Arc<CudaStream>) -> Result<Timer<'d>> {
        Ok(Timer { gpu, stream, flush: Flush::new(gpu, stream)?, watch: Stopwatch::new(gpu)? })
    }

    fn warm_up(&self, launch: &Launch<'_>, checks: &Checks<'_>) -> Result<()> {
        let begin = Instant::now();
        let times = (0..WARM_UP).map(|_| self.time(launch, checks)).collect::<Result<Vec<f64>>>()?;
        let is_long = times.into_iter().fold(f64::INFINITY, f64::min) >= LONG_MS;
        while is_long && begin.elapsed() < LONG_WARM_UP {
            self.time(launch, checks)?;
        }
        Ok(())
    }

    /// One launch, in milliseconds.
    fn time(&self, launch: &Launch<'_>, checks: &Checks<'_>) -> Result<f64> {
        self.gpu.bind()?;
        // While that runs the launch is enqueued, so that the events do not time the host.
        self.flush.enqueue(self.stream)?;
        self.watch.start(self.stream)?;
        launch.run_checked(checks)?;
        self.watch.stop(self.stream)?;
        self.watch.milliseconds()
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
    fn a_launch_knows_its_last_times_by_schedule() {
        static KNOWN: [Variant; 2] = [Variant::of_source("a", "", 128), Variant::of_source("b", "", 128)];
        let timed = Timed::default();
        assert_eq!(timed.get(&KNOWN[0]), None);
        for (variant, milliseconds) in [(&KNOWN[0], 3.0), (&KNOWN[1], 2.0), (&KNOWN[0], 1.0)] {
            timed.remember(variant, Timing::of(vec![milliseconds], Clock::Events));
        }
        let medians = KNOWN.each_ref().map(|variant| timed.get(variant).map(|timing| timing.median_ms));
        assert_eq!(medians, [Some(1.0), Some(2.0)]);
    }

    #[test]
    fn the_median_is_the_middle() {
        let odd = Timing::of(vec![3.0, 1.0, 2.0], Clock::Wall);
        assert_eq!((odd.median_ms, odd.min_ms, odd.max_ms, odd.runs), (2.0, 1.0, 3.0, 3));
        assert_eq!(Timing::of(vec![4.0, 1.0, 2.0, 3.0], Clock::Wall).median_ms, 2.5);
    }
}
