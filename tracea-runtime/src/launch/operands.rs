//! Operands that a launch computes before its kernel reads them: a launch each, of a kernel that has the same arguments.

use super::Launch;
use super::arg::List;
use super::check::Tensors;
use super::pick::ScheduleChoice;
use super::run::Checks;
use super::time::Timed;
use crate::error::Result;
use crate::plan::Precomputed;
use std::marker::PhantomData;

impl Launch<'_> {
    /// Into memory that the caller holds: the tensors that stand behind the launch's own.
    pub(super) fn compute_operands(&self, checks: &Checks<'_>, tensors: &Tensors<'_>) -> Result<()> {
        for operand in checks.instance.precomputed {
            // As they were given: copies of them are made later.
            let operands = tensors.iter().skip(self.tensors.len());
            let mut all = Tensors::new();
            self.tensors.iter().chain(operands).take(operand.kernel.tensors.len()).for_each(|tensor| all.push(tensor));
            self.computing(operand, checks, all).run()?;
        }
        Ok(())
    }

    /// The launch that computes one. It takes no copies itself: their room is in use.
    fn computing<'a>(&self, operand: &Precomputed, checks: &Checks<'_>, tensors: Tensors<'a>) -> Launch<'a> {
        Launch {
            kernel: operand.kernel,
            slot: operand.slot,
            keys: List::new(),
            tensors,
            scalars: self.scalars,
            host: self.host,
            schedule: ScheduleChoice::Best,
            may_copy: false,
            device: Some(checks.device.clone()),
            timed: Timed::default(),
            not_shared: PhantomData,
        }
    }
}
