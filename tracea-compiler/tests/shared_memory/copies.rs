//! The copies of every kernel without roles, played out: no product reads what has not come, or has come for another step, and nothing is
//! overwritten that threads may still read.

use crate::kernels;
use crate::trace::{self, Event, Setting, Stage};
use std::collections::BTreeMap;
use tracea_compiler::lower::Lowered;
use tracea_compiler::nest::Op;
use tracea_compiler::schedule::target::SM_80;

/// How far what a stage of a buffer holds has come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Arrival {
    /// In this group of copies.
    UnderWay(usize),
    /// Each thread knows of its own part.
    Landed,
    /// All threads do.
    Known,
}

struct Contents {
    from: Vec<i64>,
    arrival: Arrival,
    /// Threads may read it until the next barrier.
    is_read: bool,
}

fn play(events: &[Event]) -> Result<(), String> {
    let mut stages: BTreeMap<Stage, Contents> = BTreeMap::new();
    let mut group = 0;
    for event in events {
        let filled = |stages: &mut BTreeMap<Stage, Contents>, stage: &Stage, from: &[i64], arrival| {
            let before = stages.insert(*stage, Contents { from: from.to_vec(), arrival, is_read: false });
            match before.is_some_and(|before| before.is_read) {
                true => Err(format!("{event:?}: threads may still read it")),
                false => Ok(()),
            }
        };
        match event {
            Event::Copy(stage, from) => filled(&mut stages, stage, from, Arrival::UnderWay(group))?,
            Event::Write(stage) => filled(&mut stages, stage, &[], Arrival::Landed)?,
            Event::Commit => group += 1,
            Event::Land(pending) => {
                for contents in stages.values_mut() {
                    if matches!(contents.arrival, Arrival::UnderWay(of) if of + (*pending as usize) < group) {
                        contents.arrival = Arrival::Landed;
                    }
                }
            }
            Event::Barrier => {
                for contents in stages.values_mut() {
                    contents.is_read = false;
                    if contents.arrival == Arrival::Landed {
                        contents.arrival = Arrival::Known;
                    }
                }
            }
            Event::Use(stage, from) => {
                let contents = stages.get_mut(stage).ok_or(format!("{event:?}: nothing was copied there"))?;
                if contents.arrival != Arrival::Known {
                    return Err(format!("{event:?}: {:?}", contents.arrival));
                }
                if contents.from != *from {
                    return Err(format!("{event:?}: what is there comes from {:?}", contents.from));
                }
                contents.is_read = true;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Of every kernel that multiplies without roles: its nest and program.
fn without_roles() -> Vec<Lowered> {
    let kernels: Vec<_> = kernels::files().iter().flat_map(|file| kernels::read(file)).collect();
    let nests = kernels.iter().flat_map(|kernel| kernel.nests.iter().map(move |nest| (kernel, nest)));
    let multiply = nests.filter(|(_, nest)| nest.values.iter().any(|value| matches!(value.op, Op::Dot { .. })));
    multiply.flat_map(|(kernel, nest)| kernels::lower(kernel, nest, &SM_80).expect(&kernel.name)).collect()
}

fn setting(size: i64) -> Setting {
    Setting { size, by_tma: false, part: (0, 1), leaves: false, warpgroup: 0 }
}

#[test]
fn products_read_what_has_come_for_them() {
    let mut read = 0;
    for Lowered { nest, program, .. } in without_roles() {
        for size in [1, 5, 200, 450] {
            let events = trace::of_all(&nest, &program, setting(size));
            if let Err(why) = play(&events) {
                panic!("{} [{}], size {size}: {why}", program.entry, program.schedule);
            }
            read += events.iter().filter(|event| matches!(event, Event::Use(..))).count();
        }
    }
    assert!(read > 4000, "{read}");
}

/// Otherwise the test above would find nothing either.
#[test]
fn what_is_left_out_is_noticed() {
    let all = without_roles();
    let product = all.iter().find(|lowered| lowered.program.entry.starts_with("gemm")).expect("a product");
    let events = trace::of_all(&product.nest, &product.program, setting(450));
    assert_eq!(play(&events), Ok(()));
    let last_use = events.iter().rposition(|event| matches!(event, Event::Use(..))).expect("products");
    for (at, event) in events[..last_use].iter().enumerate() {
        // After a loop, nothing is under way any more.
        let matters = matches!(event, Event::Copy(..) | Event::Land(1..) | Event::Barrier);
        let mut without = events.clone();
        without.remove(at);
        assert!(!matters || play(&without).is_err(), "{event:?} at {at} was not missed");
    }
}
