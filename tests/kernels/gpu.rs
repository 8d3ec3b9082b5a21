//! On a GPU, against the kernel's own f64 form: every size, dense and strided, under every schedule.

use crate::case::{Setting, Subject};
use libtest_mimic::{Completion, Failed, Trial};
use tracea::prelude::*;

/// How often one case is repeated: a result that moves is a race.
const REPEATS: usize = 20;

pub fn trials(subjects: &[Subject]) -> Vec<Trial> {
    let trial = |subject: &Subject| {
        let subject = subject.clone();
        Trial::ignorable_test(format!("gpu: {}", subject.name), move || match Device::cuda(0) {
            Ok(device) => agrees(&subject, &device).map(|()| Completion::Completed),
            Err(error) => Ok(Completion::ignored_with(error)),
        })
    };
    subjects.iter().map(trial).collect()
}

fn agrees(subject: &Subject, device: &Device) -> Result<(), Failed> {
    for sizes in subject.sizes.all() {
        for strided in [false, true] {
            let setting = Setting::new(device, &sizes, strided);
            let verify = (subject.case)(&setting, &mut |launch| verify_each_schedule(launch));
            verify
                .map_err(|failed| format!("{sizes:?}, strided {strided}: {}", failed.message().unwrap_or_default()))?;
        }
    }
    repeats(subject, device)
}

fn repeats(subject: &Subject, device: &Device) -> Result<(), Failed> {
    let Some(sizes) = subject.sizes.fixed.last() else { return Ok(()) };
    let run = || (subject.case)(&Setting::new(device, sizes, false), &mut |launch| Ok(launch.launch()?));
    let first: Vec<u64> = run()?.actual.iter().map(|value| value.to_bits()).collect();
    for repeat in 1..REPEATS {
        let again = run()?.actual;
        if let Some(at) = again.iter().zip(&first).position(|(value, first)| value.to_bits() != *first) {
            let first = f64::from_bits(first[at]);
            return Err(format!("{sizes:?}: element {at} was {first}, then {} in repeat {repeat}", again[at]).into());
        }
    }
    Ok(())
}

fn verify_each_schedule(mut launch: Launch<'_>) -> Result<(), Failed> {
    for schedule in launch.schedules()? {
        launch = launch.schedule(schedule.as_str());
        launch.verify_with(Verify::All).map_err(|error| format!("{schedule}: {error}"))?;
    }
    Ok(())
}
