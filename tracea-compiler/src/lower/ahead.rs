//! Reading ahead: what a loop's step needs was asked for some steps before, by asynchronous copies into slots that take turns.
//!
//! ```text
//! for stage in 0..stages-1 { if stage < steps { bring step `stage` into slot `stage` }; commit }
//! for step {
//!     wait until the step's copies have landed
//!     if step + stages - 1 < steps { bring that step into the slot that the last step has left }; commit
//!     the body, with slot `step % stages`
//! }
//! ```

use super::Lowering;
use super::loops::less;
use super::roles::step_loop;
use crate::program::{IntText, Stmt};
use crate::schedule::ScheduleError;

type Lowered<T = ()> = Result<T, ScheduleError>;

impl Lowering<'_> {
    /// The loop over `steps`; `bring` asks for what a step, by the name of its number, needs in a slot.
    pub fn ahead(
        &mut self,
        stages: u32,
        steps: String,
        bring: impl Fn(&mut Self, &str, IntText) -> Lowered,
        body: impl FnOnce(&mut Self) -> Lowered,
    ) -> Lowered {
        let first = self.nested(|this| this.bring_step(&steps, "stage", IntText::name("stage"), &bring))?;
        self.out.push(Stmt::For {
            var: "stage".into(),
            from: IntText::Const(0),
            until: IntText::Const(i64::from(stages) - 1),
            step: IntText::Const(1),
            unroll: true,
            body: first,
        });
        let turn = |step: &str| IntText::Rem(Box::new(IntText::name(step)), stages);
        let body = self.nested(|this| {
            this.out.push(Stmt::Wait(stages - 2));
            let ahead = IntText::name("step").plus(IntText::Const(i64::from(stages) - 1));
            this.out.push(Stmt::Let { name: "ahead".into(), value: ahead });
            this.bring_step(&steps, "ahead", turn("ahead"), &bring)?;
            this.out.push(Stmt::Let { name: "slot".into(), value: turn("step") });
            body(this)
        })?;
        self.out.push(step_loop(steps, body));
        Ok(())
    }

    fn bring_step(
        &mut self,
        steps: &str,
        step: &str,
        slot: IntText,
        bring: impl Fn(&mut Self, &str, IntText) -> Lowered,
    ) -> Lowered {
        let body = self.nested(|this| bring(this, step, slot))?;
        self.out.push(Stmt::If { condition: less(step, steps), body });
        self.out.push(Stmt::Commit);
        Ok(())
    }
}
