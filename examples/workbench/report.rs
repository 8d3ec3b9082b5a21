//! What an example says about a run: a small table, or one line of JSON.

use super::{DtypeName, Work};
use serde::{Serialize, Serializer};
use std::fmt;
use std::time::Duration;
use tracea::prelude::*;
use tracea::verify::Mismatch;

#[derive(Serialize)]
pub struct Report {
    kernel: String,
    #[serde(serialize_with = "as_object")]
    shape: Vec<(&'static str, usize)>,
    dtype: DtypeName,
    device: String,
    schedule: String,
    ms: Option<f64>,
    flops: Option<f64>,
    tflops: Option<f64>,
    bytes: usize,
    gbytes_per_s: Option<f64>,
    max_error: Option<f64>,
    bound: Option<f64>,
    verified: Option<bool>,
    portfolio: Vec<Tried>,
    #[serde(skip)]
    runs: usize,
    /// What was compared, for people.
    #[serde(skip)]
    checked: String,
    #[serde(skip)]
    mismatch: Option<String>,
}

/// One of the schedules that could have been chosen, and what the model says that it takes.
#[derive(Serialize)]
struct Tried {
    schedule: String,
    ms: f64,
    predicted_ms: Option<f64>,
}

impl Report {
    pub fn new(work: Work, device: &Device, schedule: String) -> Self {
        Report {
            kernel: work.kernel,
            shape: work.shape,
            dtype: work.dtype,
            device: device.name().to_string(),
            schedule,
            ms: None,
            flops: work.flops,
            tflops: None,
            bytes: work.bytes,
            gbytes_per_s: None,
            max_error: None,
            bound: None,
            verified: None,
            portfolio: Vec::new(),
            runs: 0,
            checked: String::new(),
            mismatch: None,
        }
    }

    pub fn verified(&mut self, verified: &Verified) {
        self.verified = Some(true);
        self.max_error = Some(verified.max_error);
        self.bound = Some(verified.bound);
        let Verified { elements, unbounded, points, points_of, .. } = *verified;
        self.checked = match points == points_of {
            true => format!("all {elements} elements"),
            false => format!("{elements} elements ({points} of {points_of} tiles)"),
        };
        if unbounded > 0 {
            self.checked += &format!(", {unbounded} of them without a bound,");
        }
    }

    pub fn mismatch(&mut self, mismatch: &Mismatch) {
        self.verified = Some(false);
        self.max_error = Some((mismatch.actual - mismatch.expected).abs());
        self.bound = Some(mismatch.bound);
        self.mismatch = Some(mismatch.to_string());
    }

    pub fn timed(&mut self, timing: &Timing) {
        let seconds = timing.median_ms * 1e-3;
        self.ms = Some(timing.median_ms);
        self.tflops = self.flops.map(|flops| flops / seconds * 1e-12);
        self.gbytes_per_s = Some(self.bytes as f64 / seconds * 1e-9);
        self.runs = timing.runs;
    }

    pub fn tried(&mut self, schedule: String, timing: &Timing, predicted: Option<Duration>) {
        let predicted_ms = predicted.map(|time| time.as_secs_f64() * 1e3);
        self.portfolio.push(Tried { schedule, ms: timing.median_ms, predicted_ms });
    }

    pub fn failed(&self) -> bool {
        self.verified == Some(false)
    }

    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<_> = self.shape.iter().map(|(name, size)| format!("{name} {size}")).collect();
        writeln!(f, "{} {}", self.kernel, self.dtype)?;
        writeln!(f, "  shape     {}", shape.join(" · "))?;
        writeln!(f, "  device    {}", self.device)?;
        writeln!(f, "  schedule  {}", self.schedule)?;
        if let Some(ms) = self.ms {
            writeln!(f, "  time      {} (median of {} runs)", Quantity(ms * 1e-3, "s"), self.runs)?;
        }
        if let Some(gbytes) = self.gbytes_per_s {
            write!(f, "  rate      ")?;
            if let Some(tflops) = self.tflops {
                write!(f, "{} · ", Quantity(tflops * 1e12, "FLOP/s"))?;
            }
            writeln!(f, "{}", Quantity(gbytes * 1e9, "B/s"))?;
        }
        for Tried { schedule, ms, predicted_ms } in &self.portfolio {
            let seconds = |ms: f64| Quantity(ms * 1e-3, "s").to_string();
            let predicted = predicted_ms.map_or(String::new(), seconds);
            writeln!(f, "  {:>10} (predicted {predicted:>10}) {schedule}", seconds(*ms))?;
        }
        match (&self.mismatch, self.max_error, self.bound) {
            (Some(mismatch), ..) => write!(f, "  result    WRONG\n{mismatch}"),
            (None, Some(error), Some(bound)) => write!(
                f,
                "  result    right: {} against f64, largest error {error:.2e} (bound {bound:.2e})",
                self.checked
            ),
            _ => write!(f, "  result    not verified"),
        }
    }
}

/// A number with the SI prefix that leaves it between 1 and 1000.
struct Quantity(f64, &'static str);

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PREFIXES: [(f64, &str); 7] =
            [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ")];
        let (size, prefix) = PREFIXES.into_iter().find(|(size, _)| self.0 >= *size).unwrap_or((1e-9, "n"));
        write!(f, "{:.3} {prefix}{}", self.0 / size, self.1)
    }
}

fn as_object<S: Serializer>(shape: &[(&'static str, usize)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(shape.iter().copied())
}
