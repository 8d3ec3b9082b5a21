//! Names in `#[schedule(…)]`: targets, options and block sizes by axis. What the values mean is lowering's to judge.

use crate::ast::Kernel;
use crate::errors::Failure;
use crate::lower::flat_sums;
use crate::nest::{AxisKind, Nest};
use std::collections::BTreeSet;

const TARGETS: [&str; 2] = ["sm_80", "sm_90a"];
const OPTIONS: [&str; 10] =
    ["stages", "warps", "consumers", "pingpong", "swapped", "cluster", "raster", "resident", "precomputed", "turned"];

pub fn check_options(kernel: &Kernel, nests: &[Nest], failure: &mut Failure) {
    let names = |wanted: fn(AxisKind) -> bool| -> BTreeSet<&str> {
        nests
            .iter()
            .flat_map(|nest| &nest.axes)
            .filter(|axis| wanted(axis.kind))
            .map(|axis| axis.name.as_str())
            .collect()
    };
    let flat: BTreeSet<String> = nests.iter().filter_map(flat_sums::axis_name).collect();
    let mut tiled = names(|kind| kind == AxisKind::Tiled);
    tiled.extend(flat.iter().map(String::as_str));
    let scalar = names(|kind| kind == AxisKind::Each);
    for schedule in &kernel.schedules {
        if !TARGETS.contains(&schedule.target.as_str()) {
            let text = format!("unknown target `{}` -- {} are known", schedule.target, list(TARGETS));
            failure.ours.push(syn::Error::new(schedule.target_span, text));
        }
        for option in &schedule.options {
            let name = option.name.as_str();
            if OPTIONS.contains(&name) || tiled.contains(name) {
                continue;
            }
            // Without a nest the axes are not known, and the body's own fault comes first.
            if nests.is_empty() {
                continue;
            }
            let text = if scalar.contains(name) {
                format!("`{name}` is a scalar loop (`each`), it has no block size -- leave the option out")
            } else {
                let axes = if tiled.is_empty() {
                    String::new()
                } else {
                    format!("the kernel's axes are {}; ", list(tiled.iter().copied()))
                };
                format!("`{name}` is no axis of this kernel and no option -- {axes}options are {}", list(OPTIONS))
            };
            failure.ours.push(syn::Error::new(option.name_span, text));
        }
    }
}

fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
