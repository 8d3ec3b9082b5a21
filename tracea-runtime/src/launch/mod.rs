//! A launch: a kernel with its arguments, checked, run, verified, timed or explained.
//!
//! ```text
//! arguments ─check─▶ dims' sizes, device ─pick─▶ instance, variant ─copies─▶ operands ─slot─▶ loaded code ─params─▶ enqueued
//!                                     └─ on the CPU: the host function, all cores
//! ```
//!
//! Nothing is enqueued before all checks have passed. A warm launch allocates nothing, formats nothing and takes no lock, but for the
//! one of a stream's room where it copies operands first.

mod alignment;
mod arg;
mod builtin;
mod check;
mod copies;
mod copying;
mod explain;
mod flush;
mod joined;
mod merged;
mod model;
mod number;
mod operands;
mod outer_axes;
mod params;
mod pick;
mod realign;
mod remembered;
mod run;
mod skew;
mod slot;
mod tensor_map;
mod time;
mod transpose;
mod window;

pub use arg::{ArgRef, MAX_DIMS, MAX_SCALARS, MAX_SELECTORS, MAX_TENSORS};
pub use pick::ScheduleChoice;
pub use slot::KernelSlot;
pub use time::{Clock, Timing};

pub(crate) use run::host_array;

use crate::device::Device;
use crate::error::Result;
use crate::host::HostKernel;
use crate::plan::{KernelDef, Key};
use crate::verify::{Verified, Verify};
use arg::{ArgKind, List};
use check::{Scalars, Tensors};
use std::marker::PhantomData;
use std::sync::OnceLock;
use time::Timed;

/// What calling a kernel gives: nothing runs until [`launch`](Launch::launch), and one launch may be run, verified, timed and explained in
/// turn.
#[must_use = "a launch does nothing until `launch()` or `verify()`"]
pub struct Launch<'t> {
    kernel: &'static KernelDef,
    slot: &'static KernelSlot,
    keys: List<Key, MAX_SELECTORS>,
    tensors: Tensors<'t>,
    scalars: Scalars,
    host: HostKernel,
    schedule: ScheduleChoice,
    may_copy: bool,
    device: Option<Device>,
    timed: Timed,
    /// Tensors that are written are borrowed exclusively, so that two threads must not run one launch.
    not_shared: PhantomData<*mut ()>,
}

impl<'t> Launch<'t> {
    /// Called by what `#[kernel]` expands to.
    #[doc(hidden)]
    pub fn new(
        kernel: &'static KernelDef,
        slot: &'static KernelSlot,
        keys: &[Key],
        args: &[ArgRef<'t>],
        host: HostKernel,
    ) -> Launch<'t> {
        let mut launch = Launch {
            kernel,
            slot,
            keys: List::new(),
            tensors: List::new(),
            scalars: List::new(),
            host,
            schedule: ScheduleChoice::Best,
            may_copy: true,
            device: None,
            timed: Timed::default(),
            not_shared: PhantomData,
        };
        keys.iter().for_each(|key| launch.keys.push(*key));
        for arg in args {
            match arg.0 {
                ArgKind::Tensor(tensor) => launch.tensors.push(tensor),
                ArgKind::Scalar(scalar) => launch.scalars.push(scalar),
            }
        }
        launch
    }

    /// Takes this schedule instead of the best: by position or text, as [`explain`](Launch::explain) prints them. The CPU runs none
    /// of them, and shows its [`source`](Launch::source).
    pub fn schedule(mut self, choice: impl Into<ScheduleChoice>) -> Launch<'t> {
        self.schedule = choice.into();
        self
    }

    /// Reads every operand, and writes every result, where it lies. Otherwise a launch on a GPU copies operands first where that is worth its
    /// time: those that TMA cannot fetch, since their rows do not begin at multiples of 16 bytes, those that do not lie along the sum, as the
    /// fastest instructions want them, and those that are computed, which each block would compute again otherwise. Results that would leave
    /// element by element come from a copy afterwards. Copies go into memory of the stream's own, which grows to 1 GiB at most and is kept for
    /// the next launch.
    pub fn without_copies(mut self) -> Launch<'t> {
        self.may_copy = false;
        self
    }

    /// Runs on the stream of this handle instead of the first tensor's; the device must be the tensors'.
    pub fn on(mut self, device: &Device) -> Launch<'t> {
        self.device = Some(device.clone());
        self
    }

    /// Checks the arguments and runs the kernel: on a GPU asynchronously, on the device's stream; on the CPU at once, on all cores.
    /// With `TRACEA_VERIFY=1` in the environment every launch is a [`verify`](Launch::verify).
    pub fn launch(&self) -> Result<()> {
        if verify_every_launch() {
            return self.verify().map(drop);
        }
        self.run()
    }

    /// Runs the kernel, waits, and compares its results with the same kernel in f64, over a sample of the grid (all of a small one).
    /// Outputs keep what the kernel wrote.
    pub fn verify(&self) -> Result<Verified> {
        self.verify_with(Verify::default())
    }

    #[doc(hidden)]
    pub fn kernel(&self) -> &'static KernelDef {
        self.kernel
    }
}

fn verify_every_launch() -> bool {
    static ASKED: OnceLock<bool> = OnceLock::new();
    *ASKED.get_or_init(|| std::env::var_os("TRACEA_VERIFY").is_some_and(|value| !value.is_empty() && value != "0"))
}
