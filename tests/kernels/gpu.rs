//! On a GPU, against the kernel's own f64 form and the naive loops: under every schedule, every size, wherever tensors
//! lie, and with operands read as they lie where they would be copied first.

use crate::case::{Placing, Setting, Subject};
use libtest_mimic::{Completion, Failed, Trial};
use tracea::prelude::*;

/// How often one case is repeated: a result that moves is a race.
const REPEATS: usize = 20;
/// The same where compute-sanitizer watches.
const SHORT_REPEATS: usize = 4;

/// For each subject the whole trial, and a short one that compute-sanitizer can watch.
pub fn trials(subjects: &[Subject]) -> Vec<Trial> {
    type Check = fn(&Subject, &Device) -> Result<(), Failed>;
    let kinds: [(&str, Check); 2] = [("gpu", agrees), ("gpu, short", runs)];
    let trial = |subject: &Subject, kind: &str, check: Check| {
        let subject = subject.clone();
        Trial::ignorable_test(format!("{kind}: {}", subject.name), move || match Device::cuda(0) {
            Ok(device) => check(&subject, &device).map(|()| Completion::Completed),
            Err(error) => Ok(Completion::ignored_with(error)),
        })
    };
    kinds.iter().flat_map(|(kind, check)| subjects.iter().map(|subject| trial(subject, kind, *check))).collect()
}

/// Every schedule at one size, on and off alignment, against the naive loops, and the same bits each time.
fn runs(subject: &Subject, device: &Device) -> Result<(), Failed> {
    for Served { schedule, sizes } in &schedules(subject, device)? {
        repeats(subject, device, schedule, sizes, SHORT_REPEATS)?;
        for placing in [Placing::Dense, Placing::OffAlignment] {
            let setting = Setting::new(device, sizes, placing);
            let outcome = (subject.case)(&setting, &mut |launch| launch_by(launch, schedule))?;
            outcome.compare().map_err(|failed| {
                format!("{schedule}: {sizes:?}, {placing:?}: {}", failed.message().unwrap_or_default())
            })?;
        }
    }
    Ok(())
}

fn agrees(subject: &Subject, device: &Device) -> Result<(), Failed> {
    let schedules = schedules(subject, device)?;
    if schedules.is_empty() {
        return Err("no schedule runs on this device".into());
    }
    for Served { schedule, sizes } in &schedules {
        repeats(subject, device, schedule, sizes, REPEATS)?;
        for sizes in subject.all_sizes() {
            for (placing, may_copy) in [
                (Placing::Dense, true),
                (Placing::Aligned, true),
                (Placing::OffAlignment, true),
                (Placing::OffAlignment, false),
            ] {
                let setting = Setting::new(device, &sizes, placing);
                let mut verify = |launch: Launch<'_>| {
                    let launch = if may_copy { launch } else { launch.without_copies() };
                    // Some read nothing but copies, some take no long rows.
                    if launch.schedules()?.contains(schedule) {
                        launch.schedule(schedule.as_str()).verify_with(Verify::All)?;
                    } else {
                        launch.verify_with(Verify::All)?;
                    }
                    Ok(())
                };
                let outcome = (subject.case)(&setting, &mut verify).and_then(|outcome| outcome.compare());
                outcome.map_err(|failed| {
                    let message = failed.message().unwrap_or_default();
                    format!("{schedule}: {sizes:?}, {placing:?}, copies {may_copy}: {message}")
                })?;
            }
        }
    }
    Ok(())
}

/// A schedule, and the last of a subject's sizes that it serves.
struct Served {
    schedule: String,
    sizes: Vec<usize>,
}

fn schedules(subject: &Subject, device: &Device) -> Result<Vec<Served>, Failed> {
    let mut all: Vec<Served> = Vec::new();
    for sizes in subject.fixed_sizes().rev() {
        (subject.case)(&Setting::new(device, sizes, Placing::Dense), &mut |launch| {
            for schedule in launch.schedules()? {
                if all.iter().all(|served| served.schedule != schedule) {
                    all.push(Served { schedule, sizes: sizes.to_vec() });
                }
            }
            Ok(())
        })?;
    }
    Ok(all)
}

/// Where tensors lie so that the schedule does not serve, by the one that the launch chooses.
fn launch_by(launch: Launch<'_>, schedule: &str) -> Result<(), Failed> {
    let serves = launch.schedules()?.iter().any(|served| served == schedule);
    Ok(if serves { launch.schedule(schedule) } else { launch }.launch()?)
}

fn repeats(subject: &Subject, device: &Device, schedule: &str, sizes: &[usize], times: usize) -> Result<(), Failed> {
    let run = || {
        (subject.case)(&Setting::new(device, sizes, Placing::Dense), &mut |launch| {
            Ok(launch.schedule(schedule).launch()?)
        })
    };
    let first: Vec<u64> = run()?.actual.iter().map(|value| value.to_bits()).collect();
    for repeat in 1..times {
        let again = run()?.actual;
        if let Some(at) = again.iter().zip(&first).position(|(value, first)| value.to_bits() != *first) {
            let (first, now) = (f64::from_bits(first[at]), again[at]);
            return Err(
                format!("{schedule}: {sizes:?}: element {at} was {first}, then {now} in repeat {repeat}").into()
            );
        }
    }
    Ok(())
}
