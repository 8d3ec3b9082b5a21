//! On the CPU, against the kernel's own f64 form.

use crate::case::{Placing, Setting, Subject};
use libtest_mimic::{Failed, Trial};
use tracea::prelude::*;

pub fn trials(subjects: &[Subject]) -> Vec<Trial> {
    let trial = |subject: &Subject| {
        let subject = subject.clone();
        Trial::test(format!("verify: {}", subject.name), move || verifies(&subject))
    };
    subjects.iter().map(trial).collect()
}

fn verifies(subject: &Subject) -> Result<(), Failed> {
    let device = Device::cpu();
    let (mut elements, mut unbounded) = (0, 0);
    for sizes in subject.sizes.all() {
        for placing in [Placing::Dense, Placing::OffAlignment] {
            let setting = Setting::new(&device, &sizes, placing);
            let mut verify = |launch: Launch<'_>| {
                let verified = launch.verify_with(Verify::All)?;
                elements += verified.elements;
                unbounded += verified.unbounded;
                Ok(())
            };
            let outcome = (subject.case)(&setting, &mut verify);
            outcome.map_err(|failed| format!("{sizes:?}, {placing:?}: {}", failed.message().unwrap_or_default()))?;
        }
    }
    // A few may be: where nothing is divided by nothing, any result is right.
    if 2 * unbounded >= elements {
        return Err(format!("the bounds of {unbounded} elements out of {elements} are infinite").into());
    }
    Ok(())
}
