//! On the CPU, against the kernel's own f64 form.

use crate::case::{Setting, Subject};
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
    for sizes in subject.sizes.all() {
        for strided in [false, true] {
            let setting = Setting::new(&device, &sizes, strided);
            let verify = (subject.case)(&setting, &mut |launch| Ok(launch.verify_with(Verify::All).map(drop)?));
            verify
                .map_err(|failed| format!("{sizes:?}, strided {strided}: {}", failed.message().unwrap_or_default()))?;
        }
    }
    Ok(())
}
