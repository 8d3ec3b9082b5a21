//! Which code runs: the instance by the selectors' values, the variant by the device and the caller's wish.

use super::Launch;
use super::alignment::Alignments;
use super::joined::joined;
use super::merged::Gapless;
use super::model::{Capacity, Operands, Prediction, fetched, prediction};
use super::params::Shares;
use super::run::Checks;
use super::skew::{Skews, has_room};
use crate::cuda::Gpu;
use crate::error::{Error, Result};
use crate::plan::{Instance, KernelDef, Key, Variant};

/// Which schedule a launch takes, among those that its device runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ScheduleChoice {
    /// The one that the compiler's model predicts to be fastest for these sizes, for the newest target that the device supports.
    #[default]
    Best,
    /// By position, as `explain` counts them.
    Index(usize),
    /// By target and text, as `explain` prints it, or a part of that.
    Named(String),
}

impl ScheduleChoice {
    fn among(
        &self,
        mut variants: impl Iterator<Item = (usize, &'static Variant)>,
    ) -> Option<(usize, &'static Variant)> {
        match self {
            ScheduleChoice::Best => None,
            ScheduleChoice::Index(index) => variants.find(|(position, _)| position == index),
            ScheduleChoice::Named(name) => {
                variants.find(|(_, variant)| print_schedule(variant) == *name || variant.schedule == name)
            }
        }
    }
}

impl From<usize> for ScheduleChoice {
    fn from(index: usize) -> ScheduleChoice {
        ScheduleChoice::Index(index)
    }
}

impl From<&str> for ScheduleChoice {
    /// A number is a position, anything else a name.
    fn from(name: &str) -> ScheduleChoice {
        name.parse().map_or_else(|_| ScheduleChoice::Named(name.to_owned()), ScheduleChoice::Index)
    }
}

impl From<String> for ScheduleChoice {
    fn from(name: String) -> ScheduleChoice {
        name.as_str().into()
    }
}

impl Launch<'_> {
    pub(super) fn instance(&self) -> Result<(usize, &'static Instance)> {
        let instances = self.kernel.instances.iter().enumerate();
        let found = instances.into_iter().find(|(_, instance)| instance.key.iter().copied().eq(self.keys.iter()));
        found.ok_or_else(|| no_instance(self.kernel, &self.keys.iter().collect::<Vec<Key>>()))
    }

    /// The schedules that may serve this launch.
    pub(super) fn runnable(&self, gpu: &Gpu, checks: &Checks<'_>) -> Vec<&'static Variant> {
        let operands = self.operands(checks, self.may_copy);
        let runs = |variant: &Variant| prediction(variant, &checks.sizes, Capacity::of(gpu), &operands).is_some();
        candidates(gpu, checks.instance).map(|(_, variant)| variant).filter(|variant| runs(variant)).collect()
    }

    fn operands(&self, checks: &Checks<'_>, may_copy: bool) -> Operands<'_> {
        let alignments = Alignments::of(&self.tensors);
        let gapless = Gapless::of(&self.tensors);
        let skews = Skews::of(&self.tensors);
        let precomputed = checks.instance.precomputed;
        Operands { kernel: self.kernel, precomputed, tensors: &self.tensors, alignments, gapless, skews, may_copy }
    }

    /// Cycles that the model says of a variant; nothing where it does not run, or does not serve these operands.
    pub(super) fn predicted(&self, gpu: &Gpu, checks: &Checks<'_>, variant: &Variant) -> Option<u64> {
        let runs = candidates(gpu, checks.instance).any(|(_, candidate)| std::ptr::eq(candidate, variant));
        let said =
            runs.then(|| prediction(variant, &checks.sizes, Capacity::of(gpu), &self.operands(checks, self.may_copy)));
        said.flatten().map(|said| said.cycles)
    }

    /// Why a variant that somebody asked for does not run.
    fn not_served(&self, variant: &Variant, checks: &Checks<'_>) -> Error {
        let (instance, sizes) = (checks.instance, &checks.sizes);
        let names = |tensors: &mut dyn Iterator<Item = usize>| {
            let defs = tensors.filter_map(|tensor| instance.tensor(self.kernel, tensor));
            defs.map(|def| format!("`{}`", def.name)).collect::<Vec<_>>().join(" and ")
        };
        let schedule = print_schedule(variant);
        let skews = Skews::of(&self.tensors);
        if !skews.serve(variant) {
            return Error::NotAlike { schedule, tensors: names(&mut variant.skewed.iter().copied()) };
        }
        if variant.by_tma {
            let mut tensors = fetched(self.kernel, variant).map(|(tensor, _)| tensor);
            return Error::NotAligned { schedule, tensors: names(&mut tensors) };
        }
        if joined(variant, &self.tensors).is_none() {
            let tensors = names(&mut variant.joined.iter().map(|joined| joined.tensor));
            return Error::NotGapless { schedule, tensors };
        }
        if let Some(axis) = variant.longest.filter(|_| !has_room(variant, sizes)) {
            let given = axis.dims.iter().map(|dim| sizes.get(*dim)).product();
            return Error::RowLength { schedule, most: axis.block as usize, given };
        }
        let operands = if variant.precomputed { instance.precomputed.len() } else { 0 };
        let operands = (0..operands).map(|at| self.kernel.tensors.len() + at);
        let relaid = variant.relaid.iter().map(|relaid| relaid.tensor);
        Error::NotCopied { schedule, tensors: names(&mut operands.chain(relaid)) }
    }

    pub(super) fn variant(&self, gpu: &Gpu, checks: &Checks<'_>, may_copy: bool) -> Result<Picked> {
        let (instance, sizes) = (checks.instance, &checks.sizes);
        let operands = self.operands(checks, may_copy);
        let candidates = candidates(gpu, instance);
        let predicted = |variant: &Variant| prediction(variant, sizes, Capacity::of(gpu), &operands);
        let picked = match &self.schedule {
            ScheduleChoice::Best => match best(candidates.clone(), predicted) {
                Some(picked) => return Ok(picked),
                None => None,
            },
            asked => asked.among(candidates.clone()),
        };
        if let Some((index, variant)) = picked {
            return match predicted(variant) {
                Some(said) => Ok(Picked::of(index, variant, &said)),
                None => Err(self.not_served(variant, checks)),
            };
        }
        let (kernel, device) = (self.kernel.name, gpu.to_string());
        if candidates.clone().next().is_none() {
            let why = match instance.variants {
                [] => "it was lowered for the CPU only -- run it there".to_owned(),
                variants => {
                    let needs = variants.iter().map(|variant| {
                        let kib = variant.most_shared_bytes().div_ceil(1024);
                        format!("{} with {kib} KiB of shared memory", variant.target)
                    });
                    format!(
                        "it was lowered for {} -- add a schedule for this device",
                        needs.collect::<Vec<_>>().join(", ")
                    )
                }
            };
            return Err(Error::NoVariant { kernel, device, why });
        }
        Err(self.no_schedule(device, candidates))
    }

    /// On the CPU: the schedule that was asked for, of all that there are, else the first of them.
    pub(super) fn shown_variant(&self, checks: &Checks<'_>) -> Result<&'static Variant> {
        let all = checks.instance.variants.iter().enumerate();
        match &self.schedule {
            ScheduleChoice::Best => checks.instance.variants.first().ok_or_else(|| self.no_source()),
            asked => match asked.among(all.clone()) {
                Some((_, variant)) => Ok(variant),
                None => Err(self.no_schedule(checks.device.to_string(), all)),
            },
        }
    }

    fn no_schedule(&self, device: String, of: impl Iterator<Item = (usize, &'static Variant)>) -> Error {
        let listed: Vec<String> =
            of.map(|(position, variant)| format!("{position}: {}", print_schedule(variant))).collect();
        let asked = match &self.schedule {
            ScheduleChoice::Best => "best".to_owned(),
            ScheduleChoice::Index(index) => index.to_string(),
            ScheduleChoice::Named(name) => name.clone(),
        };
        Error::NoSchedule { kernel: self.kernel.name, device, asked, listed: listed.join("; ") }
    }
}

/// What runs, and how.
#[derive(Clone, Copy)]
pub(super) struct Picked {
    pub index: usize,
    pub variant: &'static Variant,
    pub shares: Shares,
    /// Operands whose rows are aligned to less are copied first, beside those that the variant reads laid anew.
    pub realigned_to: u32,
}

impl Picked {
    fn of(index: usize, variant: &'static Variant, said: &Prediction) -> Picked {
        Picked { index, variant, shares: said.shares, realigned_to: said.realigned_to }
    }
}

/// How many times as long older targets' code is taken to run as it is said to, beside newer code: of its products the model knows less. Measured on an
/// H100: 8192³ takes 1.78 times what is said by it, and 1.29 by newer code; attention's gradients, for which newer code has one warpgroup, 1.44 and 1.4.
const OF_OLDER_CODE: (u64, u64) = (3, 2);
/// Threads of a block whose products are one warpgroup's, with those that copy.
const OF_ONE_WARPGROUP: u32 = 256;

/// The fastest for the newest target whose code serves, or for an older one where that is said to be much faster than what one warpgroup does alone. What
/// takes copies competes with the code that does without; so does older code that copies element by element, for which newer targets have nothing.
fn best(
    candidates: impl Iterator<Item = (usize, &'static Variant)> + Clone,
    predict: impl Fn(&Variant) -> Option<Prediction>,
) -> Option<Picked> {
    let without = candidates.clone().filter(|(_, variant)| variant.relaid.is_empty() && !variant.precomputed);
    let newest = without.map(|(_, variant)| newness(variant.target)).max();
    let is_old = |variant: &Variant| Some(newness(variant.target)) < newest && !variant.cost.is_scattered();
    let newer = candidates.clone().filter(|(_, variant)| Some(newness(variant.target)) == newest);
    let alone = newer.into_iter().all(|(_, variant)| variant.threads <= OF_ONE_WARPGROUP);
    let predicted = candidates.filter_map(|(index, variant)| Some((index, variant, predict(variant)?)));
    // The first of the equal ones: a portfolio's widest comes first.
    let best = predicted.min_by_key(|(_, variant, said)| match is_old(variant) {
        true => (!alone, said.cycles.saturating_mul(OF_OLDER_CODE.0) / OF_OLDER_CODE.1, true),
        false => (false, said.cycles, false),
    });
    best.map(|(index, variant, said)| Picked::of(index, variant, &said))
}

/// The variants that a device runs, with their positions among all.
pub(super) fn candidates(
    gpu: &Gpu,
    instance: &'static Instance,
) -> impl Iterator<Item = (usize, &'static Variant)> + Clone {
    let (capability, shared_bytes) = (gpu.capability, gpu.block_shared_bytes);
    let runs =
        move |variant: &Variant| supports(capability, variant.target) && variant.most_shared_bytes() <= shared_bytes;
    instance.variants.iter().enumerate().filter(move |(_, variant)| runs(variant))
}

/// `sm_80, i = 128, j = 128`.
pub(super) fn print_schedule(variant: &Variant) -> String {
    match variant.schedule {
        "" => variant.target.to_owned(),
        schedule if schedule.starts_with(variant.target) => schedule.to_owned(),
        schedule => format!("{}, {schedule}", variant.target),
    }
}

/// `sm_80` code runs on 8.0 and everything newer; `sm_90a` uses features that 9.0 alone has.
fn supports(capability: (u32, u32), target: &str) -> bool {
    let device = capability.0 * 10 + capability.1;
    match newness(target) {
        (0, _) => false,
        (number, true) => number == device,
        (number, false) => number <= device,
    }
}

/// `(90, true)` for `sm_90a`; 0 where the text is no target.
fn newness(target: &str) -> (u32, bool) {
    let text = target.strip_prefix("sm_").unwrap_or("");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    (digits.parse().unwrap_or(0), digits.len() < text.len())
}

fn no_instance(kernel: &'static KernelDef, given: &[Key]) -> Error {
    // The first selector with a value that no instance has; else the last one, with what there is beside the other values.
    let values = |position: usize, fits: &dyn Fn(&Instance) -> bool| {
        let mut values: Vec<Key> = Vec::new();
        for instance in kernel.instances.iter().filter(|instance| fits(instance)) {
            if let Some(value) = instance.key.get(position)
                && !values.contains(value)
            {
                values.push(*value);
            }
        }
        values
    };
    let unlisted = (0..given.len()).find(|&position| !values(position, &|_| true).contains(&given[position]));
    let position = unlisted.unwrap_or(given.len().saturating_sub(1));
    let mut listed = values(position, &|instance| {
        unlisted.is_some() || instance.key.iter().zip(given).take(position).all(|(key, given)| key == given)
    });
    if listed.is_empty() {
        listed = values(position, &|_| true);
    }
    let listed: Vec<String> = listed.iter().map(print_key).collect();
    Error::NoInstance {
        kernel: kernel.name,
        selector: kernel.selectors.get(position).copied().unwrap_or("its arguments"),
        given: given.get(position).map_or_else(String::new, print_key),
        listed: if listed.is_empty() { "none".to_owned() } else { listed.join(", ") },
    }
}

fn print_key(key: &Key) -> String {
    match key {
        Key::Int(value) => value.to_string(),
        Key::Bool(value) => value.to_string(),
        Key::Dtype(dtype) => dtype.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Cost, Fetch, Relaid};

    const fn instance(key: &'static [Key]) -> Instance {
        Instance { key, known_dims: &[], variants: &[], precomputed: &[], unwritten: &[], functions: &[] }
    }

    static ATTENTION: KernelDef = KernelDef {
        name: "attention",
        file: "attention.rs",
        line: 1,
        dims: &[],
        tensors: &[],
        scalars: &[],
        selectors: &["D", "causal"],
        instances: &[
            instance(&[Key::Int(64), Key::Bool(false)]),
            instance(&[Key::Int(128), Key::Bool(false)]),
            instance(&[Key::Int(256), Key::Bool(true)]),
        ],
    };

    #[test]
    fn an_unlisted_value_is_named_with_the_listed_ones() {
        let message = |keys: &[Key]| no_instance(&ATTENTION, keys).to_string();
        assert_eq!(
            message(&[Key::Int(96), Key::Bool(false)]),
            "`attention` was not compiled for D = 96 -- listed are 64, 128, 256"
        );
        assert_eq!(
            message(&[Key::Int(128), Key::Bool(true)]),
            "`attention` was not compiled for causal = true -- listed are false",
            "each value is listed, the pair is not"
        );
    }

    #[test]
    fn what_takes_copies_competes_with_older_code() {
        const fn variant(target: &'static str, relaid: &'static [Relaid]) -> Variant {
            Variant { target, relaid, ..Variant::of_source("k", "", 128) }
        }
        static OLD: Variant = variant("sm_80", &[]);
        static NEW: Variant = variant("sm_90a", &[]);
        static WIDE: Variant = Variant { threads: 384, ..variant("sm_90a", &[]) };
        static COPYING: Variant = variant("sm_90a", &[Relaid { tensor: 0, last: 0, written: false }]);
        // A variant and what the model says of it; position of what is picked.
        let picked = |said: &[(&'static Variant, Option<u64>)]| {
            let candidates = said.iter().map(|(variant, _)| *variant).enumerate();
            let predict = |variant: &Variant| {
                let (_, cycles) = said.iter().find(|(other, _)| std::ptr::eq(*other, variant))?;
                cycles.map(|cycles| Prediction { cycles, shares: Shares::WHOLE, realigned_to: 0 })
            };
            best(candidates, predict).map(|picked| picked.index)
        };
        assert_eq!(picked(&[(&OLD, Some(14)), (&NEW, Some(20))]), Some(1), "the newest, unless much slower");
        assert_eq!(picked(&[(&OLD, Some(13)), (&NEW, Some(20))]), Some(0));
        assert_eq!(picked(&[(&OLD, Some(1)), (&NEW, Some(30)), (&WIDE, Some(20))]), Some(2), "two warpgroups multiply");
        assert_eq!(picked(&[(&OLD, Some(10)), (&COPYING, Some(20))]), Some(0));
        assert_eq!(picked(&[(&OLD, Some(30)), (&COPYING, Some(20))]), Some(1));
        assert_eq!(picked(&[(&OLD, Some(30)), (&COPYING, None)]), Some(0), "a copy that cannot be made");
        assert_eq!(picked(&[(&OLD, Some(14)), (&NEW, Some(30)), (&COPYING, Some(20))]), Some(2));
        assert_eq!(picked(&[(&COPYING, None)]), None);
        assert_eq!(picked(&[(&OLD, Some(10)), (&NEW, None)]), Some(0), "operands that newer code does not serve");
        static SCATTERED: Variant = {
            const FETCHES: &[Fetch] = &[Fetch {
                tensor: 0,
                bytes: 1024,
                row_bytes: 2,
                blocks: 1,
                scattered: 2,
                narrow: None,
                short: None,
                over: &[],
            }];
            let cost = Cost { once: 0, ending: 0, alone: 0, resident: 1, steps: &[], fetches: FETCHES, growing: None };
            Variant { cost, ..variant("sm_80", &[]) }
        };
        assert_eq!(
            picked(&[(&SCATTERED, Some(10)), (&NEW, Some(20))]),
            Some(0),
            "newer code copies elements no faster"
        );
        assert_eq!(picked(&[(&SCATTERED, Some(30)), (&NEW, Some(20))]), Some(1));
    }

    #[test]
    fn targets_run_on_their_devices() {
        for (target, device, runs) in [
            ("sm_80", (8, 0), true),
            ("sm_80", (8, 9), true),
            ("sm_80", (9, 0), true),
            ("sm_80", (12, 0), true),
            ("sm_80", (7, 5), false),
            ("sm_90a", (9, 0), true),
            ("sm_90a", (10, 0), false),
            ("sm_90a", (8, 9), false),
            ("gfx942", (9, 0), false),
        ] {
            assert_eq!(supports(device, target), runs, "{target} on {device:?}");
        }
        assert!(newness("sm_90a") > newness("sm_80"));
        assert!(newness("sm_90a") > newness("sm_90"));
    }
}
