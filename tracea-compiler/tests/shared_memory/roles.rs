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
    /// By each consumer.
    consumed: [Consumed; CONSUMERS],
    /// What the last filling brought.
    holds: Vec<SharedId>,
}

/// Warpgroups of which one may be ahead.
const CONSUMERS: usize = 2;

/// What a consumer has done with a slot.
#[derive(Clone, Copy, Default)]
struct Consumed {
    awaited: i64,
    released: i64,
}

/// Between the roles.
struct Play<'a> {
    slots: BTreeMap<Slot, History>,
    /// Consumers that there are.
    consumers: usize,
    /// Of each, products under way, and what they read.
    under_way: [Vec<&'a [(Slot, SharedId)]>; CONSUMERS],
    /// How often one has led, and another has followed.
    led: usize,
    followed: usize,
}

impl<'a> Play<'a> {
    /// False where it is too early for the event of a consumer, or of the producer.
    fn happens(&mut self, event: &'a Event, consumer: Option<usize>) -> Result<bool, String> {
        // What is filled by consumers passes by no other one.
        let who = consumer.unwrap_or(0);
        match event {
            Event::AwaitEmpty(slot, parity) => return Ok(is_over(self.released(*slot), *parity)),
            Event::AwaitFull(slot, parity) => {
                let history = self.slots.entry(*slot).or_default();
                if !is_over(history.filled, *parity) {
                    return Ok(false);
                }
                // Who has waited for a filling may do so again.
                let consumed = &mut history.consumed[who];
                let again = consumed.awaited == history.filled && consumed.released < consumed.awaited;
                consumed.awaited += i64::from(!again);
                if history.filled != consumed.awaited {
                    return Err(format!("takes filling {} for filling {}", history.filled, consumed.awaited));
                }
            }
            Event::Fill(slot, buffers) => {
                let released = self.released(*slot);
                let history = self.slots.entry(*slot).or_default();
                if history.filled != released {
                    return Err(format!("{released} of {} fillings have been given back", history.filled));
                }
                (history.filled, history.holds) = (history.filled + 1, buffers.clone());
            }
            Event::Read(slot, buffer) => self.reads(*slot, *buffer, who)?,
            Event::Issue(operands) => {
                for (slot, buffer) in operands {
                    self.reads(*slot, *buffer, who)?;
                }
                self.under_way[who].push(operands);
            }
            // What threads of one role do between them.
            Event::Copy(..) | Event::Commit | Event::Land(_) | Event::Write(_) | Event::Barrier | Event::Use(..) => {}
            Event::Settle(pending) => {
                let over = self.under_way[who].len().saturating_sub(*pending as usize);
                self.under_way[who].drain(..over);
            }
            Event::Release(slot) => {
                if self.under_way[who].iter().any(|operands| operands.iter().any(|(read, _)| read == slot)) {
                    return Err("a product still reads it".into());
                }
                let consumed = &mut self.slots.entry(*slot).or_default().consumed[who];
                consumed.released += 1;
                if consumed.released != consumed.awaited {
                    return Err(format!("filling {} was never waited for", consumed.released));
                }
            }
            Event::Lead if self.led > self.followed => {
                return Err("leads a second time before the other one has followed".into());
            }
            Event::Lead => self.led += 1,
            Event::Follow if self.led == self.followed => return Ok(false),
            Event::Follow => self.followed += 1,
        }
        Ok(true)
    }

    /// How often all consumers have given the slot back.
    fn released(&self, slot: Slot) -> i64 {
        let consumed = self.slots.get(&slot).map(|history| &history.consumed[..self.consumers]);
        consumed.and_then(|consumed| consumed.iter().map(|consumed| consumed.released).min()).unwrap_or(0)
    }

    fn reads(&mut self, slot: Slot, buffer: SharedId, who: usize) -> Result<(), String> {
        let history = self.slots.entry(slot).or_default();
        let Consumed { awaited, released } = history.consumed[who];
        match awaited == released + 1 && history.holds.contains(&buffer) {
            true => Ok(()),
            false => Err(format!("{buffer:?} is not there")),
        }
    }
}

/// Whether a barrier that has completed so many phases lets through who waits for this parity.
fn is_over(phases: i64, parity: i64) -> bool {
    phases % 2 != parity
}

/// However much faster one role is than the others.
fn play(roles: &[Vec<Event>]) -> Result<(), String> {
    (0..roles.len()).try_for_each(|fast| play_by_turns(roles, fast))
}

/// Each role in turn, one event at a time, or as many as it can.
fn play_by_turns(roles: &[Vec<Event>], fast: usize) -> Result<(), String> {
    let (under_way, slots) = Default::default();
    let mut play = Play { slots, consumers: roles.len() - 1, under_way, led: 0, followed: 0 };
    let mut left: Vec<&[Event]> = roles.iter().map(Vec::as_slice).collect();
    let lengths = |left: &[&[Event]]| left.iter().map(|events| events.len()).collect::<Vec<_>>();
    while left.iter().any(|events| !events.is_empty()) {
        let before = lengths(&left);
        for (role, events) in left.iter_mut().enumerate() {
            let (all, most) = (*events, if role == fast { usize::MAX } else { 1 });
            for (event, after) in all.iter().zip(1..).take(most) {
                if !play.happens(event, role.checked_sub(1)).map_err(|why| format!("{event:?}: {why}"))? {
                    break;
                }
                *events = &all[after..];
            }
        }
        if lengths(&left) == before {
            let waiting: Vec<Option<&Event>> = left.iter().map(|events| events.first()).collect();
            return Err(format!("each waits for another: {waiting:?}"));
        }
    }
    let slots: Vec<Slot> = play.slots.keys().copied().collect();
    let uneven = slots.into_iter().find(|slot| play.slots[slot].filled != play.released(*slot));
    uneven.map_or(Ok(()), |slot| {
        Err(format!(
            "{slot:?} was filled {} times and given back {} times",
            play.slots[&slot].filled,
            play.released(slot)
        ))
    })
}

fn settings(program: &Program) -> Vec<Setting> {
    let is_cut = program.split.as_ref().is_some_and(|split| split.most_parts > 1);
    let parts: &[((i64, i64), bool)] =
        if is_cut { &[((0, 1), false), ((1, 3), true), ((2, 3), false)] } else { &[((0, 1), false)] };
    let mut all = Vec::new();
    for size in [1, 5, 200, 450] {
        for by_tma in [false, true] {
            all.extend(parts.iter().map(|(part, leaves)| Setting {
                size,
                by_tma,
                part: *part,
                leaves: *leaves,
                warpgroup: 0,
            }));
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
    let setting = Setting { size: 450, by_tma: true, part: (0, 1), leaves: false, warpgroup: 0 };
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
