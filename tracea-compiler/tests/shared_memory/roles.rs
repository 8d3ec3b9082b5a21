//! The rings of every kernel that has roles, played out: nobody waits for ever, nothing is read before it has come or given back while it is
//! read, nothing is filled that has not been given back, and each block leaves its rings as they were.

use crate::kernels::{self, Kernel};
use crate::trace::{self, Event, Setting, Slot};
use std::collections::BTreeMap;
use tracea_compiler::lower::Lowered;
use tracea_compiler::program::shared::SharedId;
use tracea_compiler::program::{Program, RingId, Stmt};
use tracea_compiler::schedule::target::SM_90A;

/// What has happened to a slot so far.
#[derive(Default)]
struct History {
    filled: i64,
    awaited: i64,
    released: i64,
    /// What the last filling brought.
    holds: Vec<SharedId>,
}

/// Between the two roles.
struct Play<'a> {
    slots: BTreeMap<Slot, History>,
    /// Products under way, and what they read.
    under_way: Vec<&'a [(Slot, SharedId)]>,
}

impl<'a> Play<'a> {
    /// False where it is too early for the event.
    fn happens(&mut self, event: &'a Event) -> Result<bool, String> {
        match event {
            Event::AwaitEmpty(slot, parity) => return Ok(is_over(self.slot(*slot).released, *parity)),
            Event::AwaitFull(slot, parity) => {
                let history = self.slot(*slot);
                if !is_over(history.filled, *parity) {
                    return Ok(false);
                }
                // Who has waited for a filling may do so again.
                let again = history.awaited == history.filled && history.released < history.awaited;
                history.awaited += i64::from(!again);
                if history.filled != history.awaited {
                    return Err(format!("takes filling {} for filling {}", history.filled, history.awaited));
                }
            }
            Event::Fill(slot, buffers) => {
                let history = self.slot(*slot);
                if history.filled != history.released {
                    return Err(format!("{} of {} fillings have been given back", history.released, history.filled));
                }
                (history.filled, history.holds) = (history.filled + 1, buffers.clone());
            }
            Event::Read(slot, buffer) => self.reads(*slot, *buffer)?,
            Event::Issue(operands) => {
                for (slot, buffer) in operands {
                    self.reads(*slot, *buffer)?;
                }
                self.under_way.push(operands);
            }
            // What threads of one role do between them.
            Event::Copy(..) | Event::Commit | Event::Land(_) | Event::Write(_) | Event::Barrier | Event::Use(..) => {}
            Event::Settle(pending) => {
                let over = self.under_way.len().saturating_sub(*pending as usize);
                self.under_way.drain(..over);
            }
            Event::Release(slot) => {
                if self.under_way.iter().any(|operands| operands.iter().any(|(read, _)| read == slot)) {
                    return Err("a product still reads it".into());
                }
                let history = self.slot(*slot);
                history.released += 1;
                if history.released != history.awaited {
                    return Err(format!("filling {} was never waited for", history.released));
                }
            }
        }
        Ok(true)
    }

    fn slot(&mut self, slot: Slot) -> &mut History {
        self.slots.entry(slot).or_default()
    }

    fn reads(&mut self, slot: Slot, buffer: SharedId) -> Result<(), String> {
        let history = self.slot(slot);
        match history.awaited == history.released + 1 && history.holds.contains(&buffer) {
            true => Ok(()),
            false => Err(format!("{buffer:?} is not there")),
        }
    }
}

/// Whether a barrier that has completed so many phases lets through who waits for this parity.
fn is_over(phases: i64, parity: i64) -> bool {
    phases % 2 != parity
}

/// However much faster one role is than the other.
fn play(roles: &[Vec<Event>; 2]) -> Result<(), String> {
    [[usize::MAX, 1], [1, usize::MAX]].into_iter().try_for_each(|at_a_time| play_by_turns(roles, at_a_time))
}

/// Each role in turn, so many events at a time, or as many as it can.
fn play_by_turns(roles: &[Vec<Event>; 2], at_a_time: [usize; 2]) -> Result<(), String> {
    let mut play = Play { slots: BTreeMap::new(), under_way: Vec::new() };
    let mut left = roles.each_ref().map(Vec::as_slice);
    while left.iter().any(|events| !events.is_empty()) {
        let before = left.map(<[Event]>::len);
        for (events, most) in left.iter_mut().zip(at_a_time) {
            let all = *events;
            for (event, after) in all.iter().zip(1..).take(most) {
                if !play.happens(event).map_err(|why| format!("{event:?}: {why}"))? {
                    break;
                }
                *events = &all[after..];
            }
        }
        if left.map(<[Event]>::len) == before {
            return Err(format!("each waits for the other: {:?}", left.map(|events| events.first())));
        }
    }
    let uneven = play.slots.iter().find(|(_, history)| history.filled != history.released);
    uneven.map_or(Ok(()), |(slot, history)| {
        Err(format!("{slot:?} was filled {} times and given back {} times", history.filled, history.released))
    })
}

fn settings(program: &Program) -> Vec<Setting> {
    let is_cut = program.split.as_ref().is_some_and(|split| split.most_parts > 1);
    let parts: &[((i64, i64), bool)] =
        if is_cut { &[((0, 1), false), ((1, 3), true), ((2, 3), false)] } else { &[((0, 1), false)] };
    let mut all = Vec::new();
    for size in [1, 5, 200, 450] {
        for by_tma in [false, true] {
            all.extend(parts.iter().map(|(part, leaves)| Setting { size, by_tma, part: *part, leaves: *leaves }));
        }
    }
    all
}

/// Of every kernel and schedule that has roles: its nest and program.
fn with_roles() -> Vec<Lowered> {
    let kernels: Vec<Kernel> = kernels::files().iter().flat_map(|file| kernels::read(file)).collect();
    let nests = kernels.iter().flat_map(|kernel| kernel.nests.iter().map(move |nest| (kernel, nest)));
    let lowered = nests.flat_map(|(kernel, nest)| kernels::lower(kernel, nest, &SM_90A).expect(&kernel.name));
    lowered.filter(|lowered| lowered.program.producer.is_some()).collect()
}

#[test]
fn no_role_waits_for_ever_or_reads_what_is_not_there() {
    let (mut played, mut rings) = (0, 0);
    for Lowered { nest, program, .. } in with_roles() {
        for setting in settings(&program) {
            let roles = trace::of(&nest, &program, setting);
            if let Err(why) = play(&roles) {
                panic!("{} [{}], {setting:?}: {why}", program.entry, program.schedule);
            }
            played += roles.iter().map(Vec::len).sum::<usize>();
        }
        rings += program.rings.len();
    }
    assert!(rings > 300 && played > 100_000, "{played} events at {rings} rings");
}

/// Where TMA fills one ring and threads another, those that ask TMA for nothing may come late: a slot that they waited for could have been filled
/// and emptied again, with the parity of before.
#[test]
fn a_slot_is_waited_for_by_those_who_fill_it() {
    fn check(body: &[Stmt]) {
        let rings = |pick: fn(&Stmt) -> Option<RingId>| body.iter().filter_map(pick).collect::<Vec<_>>();
        let acquired = rings(|stmt| if let Stmt::Acquire(turn) = stmt { Some(turn.ring) } else { None });
        let published = rings(|stmt| if let Stmt::Publish { turn, .. } = stmt { Some(turn.ring) } else { None });
        assert_eq!(acquired, published);
        assert!(body.iter().all(|stmt| !matches!(stmt, Stmt::Bulk { waits: false, .. })));
        // At the end nobody fills a slot again, and whoever comes late finds it as it stays.
        let drains = |stmt: &&Stmt| matches!(stmt, Stmt::For { var, .. } if var == "slots");
        body.iter().filter(|stmt| !drains(stmt)).flat_map(Stmt::bodies).for_each(check);
    }
    let mut checked = 0;
    for Lowered { program, .. } in with_roles() {
        if program.rings.iter().any(|ring| ring.bulk != program.rings[0].bulk) {
            check(&program.producer.expect("roles").body);
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked}");
}

/// Otherwise the test above would find nothing either.
#[test]
fn what_is_left_out_is_noticed() {
    let all = with_roles();
    // Of several rings, one's slots may be known to be empty by another one's.
    let product = all.iter().find(|lowered| lowered.program.rings.len() == 1).expect("a product");
    let setting = Setting { size: 450, by_tma: true, part: (0, 1), leaves: false };
    let roles = trace::of(&product.nest, &product.program, setting);
    assert_eq!(play(&roles), Ok(()));
    for (role, events) in roles.iter().enumerate() {
        let mut rounds = BTreeMap::new();
        for (at, event) in events.iter().enumerate() {
            let matters = match event {
                // In the first round, all slots are empty.
                Event::AwaitEmpty(slot, _) => {
                    let round = rounds.entry(*slot).or_insert(0);
                    *round += 1;
                    *round > 1
                }
                Event::AwaitFull(..) | Event::Fill(..) | Event::Release(_) => true,
                // The next one settles more, and nothing is given back before.
                Event::Settle(_) => matches!(events.get(at + 1), Some(Event::Release(_))),
                _ => false,
            };
            let mut without = roles.clone();
            without[role].remove(at);
            assert!(!matters || play(&without).is_err(), "{event:?} at {at} was not missed");
        }
    }
}
