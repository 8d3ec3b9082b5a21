//! On the CPU, against the naive loops.

use crate::case::{Placing, Setting, Subject};
use libtest_mimic::{Failed, Trial};
use tracea::prelude::*;

pub fn trials(subjects: &[Subject]) -> Vec<Trial> {
    let trial = |subject: &Subject| {
        let subject = subject.clone();
        Trial::test(format!("cpu: {}", subject.name), move || agrees(&subject))
    };
    subjects.iter().map(trial).collect()
}

fn agrees(subject: &Subject) -> Result<(), Failed> {
    let device = Device::cpu();
    // The loops are the same wherever elements lie: each size is tried in one placing, the next size in the other.
    let placings = [Placing::Dense, Placing::OffAlignment].into_iter().cycle();
    for (sizes, placing) in subject.sizes.all().into_iter().zip(placings) {
        let setting = Setting::new(&device, &sizes, placing);
        let outcome =
            (subject.case)(&setting, &mut |launch| Ok(launch.launch()?)).and_then(|outcome| outcome.compare());
        outcome.map_err(|failed| format!("{sizes:?}, {placing:?}: {}", failed.message().unwrap_or_default()))?;
    }
    Ok(())
}
