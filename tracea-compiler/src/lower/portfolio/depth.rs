//! How deep rings get: with as many stages as shared memory has room for.

use super::super::analysis::Facts;
use super::super::relaid::Laid;
use super::super::{Lowered, lower};
use crate::program::Program;
use crate::schedule::{self, ENOUGH_STAGES, Schedule, ScheduleError};
use std::ops::RangeInclusive;

/// The schedule with as many of these stages as fit, and as suit what became of it. Of more than fit by far, none but the first are lowered.
pub fn deepest(
    laid: &Laid,
    facts: &Facts,
    schedule: &Schedule,
    stages: RangeInclusive<u32>,
    suits: impl Fn(&Schedule, &Program) -> bool,
) -> Result<Option<Lowered>, ScheduleError> {
    let (least, most) = stages.into_inner();
    let mut next = Some(most);
    while let Some(stages) = next.filter(|stages| *stages >= least) {
        let tried = Schedule { stages, ..schedule.clone() };
        let mut fewer = 1;
        if schedule::check(&laid.nest, facts, &tried).is_ok() {
            let program = lower(laid, facts, &tried)?;
            let room = tried.shared_room();
            if program.shared_bytes <= room && suits(&tried, &program) {
                return Ok(Some(Lowered::of(laid, facts, tried, program)));
            }
            // One that is not past enough of them may take less beside its stages.
            let past_enough = stages.saturating_sub(ENOUGH_STAGES).max(1);
            fewer = program.stages_too_many(room).clamp(1, past_enough);
        }
        next = stages.checked_sub(fewer);
    }
    Ok(None)
}
