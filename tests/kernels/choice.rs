//! On a GPU, at large sizes: the schedule that a launch chooses, beside the fastest of those that the model says might be.

use crate::case::{Placing, Setting, Subject};
use libtest_mimic::{Completion, Failed, Trial};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tracea::prelude::*;

/// The share of the fastest one's speed that the chosen one reaches.
const LEAST: f64 = 0.85;

/// What is predicted to take more than so many times the chosen one's time is not timed.
const LIKELY: f64 = 1.7;

/// Of each schedule, in turn; the best counts.
const TIMINGS: usize = 2;

/// While one trial times, others compile.
static TIMING: Mutex<()> = Mutex::new(());

pub fn trials(subjects: &[Subject]) -> Vec<Trial> {
    let trial = |subject: &Subject| {
        let (subject, name) = (subject.clone(), format!("choice: {}", subject.name));
        let run = move || match Device::cuda(0) {
            Ok(device) => is_near_the_best(&subject, &device).map(|()| Completion::Completed),
            Err(error) => Ok(Completion::ignored_with(error)),
        };
        // Anything else on the device would be timed too.
        Trial::ignorable_test(name, run).with_ignored_flag(true)
    };
    subjects.iter().map(trial).collect()
}

fn is_near_the_best(subject: &Subject, device: &Device) -> Result<(), Failed> {
    let mut slow = Vec::new();
    for sizes in subject.sizes.large() {
        (subject.case)(&Setting::new(device, &sizes, Placing::Dense), &mut |launch| {
            let choice = Choice::timed(launch)?;
            let row = format!("{} {sizes:?}: {choice}", subject.name);
            println!("choice: {row}");
            if choice.share() < LEAST {
                slow.push(row);
            }
            Ok(())
        })?;
    }
    if slow.is_empty() { Ok(()) } else { Err(slow.join("\n").into()) }
}

struct Choice {
    chosen: Timed,
    best: Timed,
}

/// A schedule, and what it takes in microseconds.
#[derive(Clone)]
struct Timed {
    schedule: String,
    predicted: f64,
    measured: f64,
}

impl Choice {
    fn timed(mut launch: Launch<'_>) -> Result<Choice, Failed> {
        let chosen = launch.chosen()?;
        let timed = |(schedule, said): (String, Duration)| {
            let micros = said.as_secs_f64() * 1e6;
            Timed { schedule, predicted: micros, measured: f64::INFINITY }
        };
        let mut all: Vec<Timed> = launch.predictions()?.into_iter().map(timed).collect();
        let said = all.iter().find(|timed| timed.schedule == chosen).map(|timed| timed.predicted);
        let said = said.ok_or_else(|| format!("the model says nothing of {chosen}"))?;
        all.retain(|timed| timed.predicted < LIKELY * said);
        for timed in &all {
            launch = launch.schedule(timed.schedule.as_str());
            launch.explain()?;
        }
        let _turn = TIMING.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..TIMINGS {
            for timed in &mut all {
                launch = launch.schedule(timed.schedule.as_str());
                timed.measured = timed.measured.min(launch.time()?.median_ms * 1e3);
            }
        }
        let best = all.iter().min_by(|a, b| a.measured.total_cmp(&b.measured)).cloned();
        let chosen = all.into_iter().find(|timed| timed.schedule == chosen);
        let (chosen, best) = chosen.zip(best).ok_or("nothing was timed")?;
        Ok(Choice { chosen, best })
    }

    fn share(&self) -> f64 {
        self.best.measured / self.chosen.measured
    }
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} of the fastest, {}; {}", self.share(), self.chosen, self.best)
    }
}

impl std::fmt::Display for Timed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} µs by {}, predicted {:.2}", self.measured, self.schedule, self.predicted)
    }
}
