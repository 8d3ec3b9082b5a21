//! Which code runs: the instance by the selectors' values, the variant by the device and the caller's wish.

use super::Launch;
use super::check::Sizes;
use super::params::{blocks, shared_bytes};
use crate::cuda::{Gpu, MOST_TILES, PARTS_BYTES};
use crate::error::{Error, Result};
use crate::plan::{GridAxis, Instance, KernelDef, Key, Variant};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Which schedule a launch takes, among those that its device runs.
#[derive(Clone, Debug, Default)]
pub enum ScheduleChoice {
    /// The one that the compiler's model predicts to be fastest for these sizes, for the newest target that the device supports.
    #[default]
    Best,
    /// By position, as `explain` counts them.
    Index(usize),
    /// By target and text, as `explain` prints it, or a part of that.
    Named(String),
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

    pub(super) fn variant(
        &self,
        gpu: &Gpu,
        instance: &'static Instance,
        sizes: &Sizes,
    ) -> Result<(usize, &'static Variant, u32)> {
        let candidates = candidates(gpu, instance);
        let picked: Option<(usize, &'static Variant)> = match &self.schedule {
            ScheduleChoice::Best => {
                if let Some((index, parts)) = ranked(gpu, instance, sizes) {
                    return Ok((index, &instance.variants[index], parts));
                }
                None
            }
            ScheduleChoice::Index(index) => candidates.clone().find(|(position, _)| position == index),
            ScheduleChoice::Named(name) => candidates.clone().find(|(_, variant)| {
                let printed = print_schedule(variant);
                printed == *name || variant.schedule == name
            }),
        };
        if let Some((index, variant)) = picked {
            return Ok((index, variant, prediction(variant, sizes, gpu).parts));
        }
        let (kernel, device) = (self.kernel.name, gpu.to_string());
        let listed: Vec<String> =
            candidates.map(|(position, variant)| format!("{position}: {}", print_schedule(variant))).collect();
        if listed.is_empty() {
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
        let asked = match &self.schedule {
            ScheduleChoice::Best => "best".to_owned(),
            ScheduleChoice::Index(index) => index.to_string(),
            ScheduleChoice::Named(name) => name.clone(),
        };
        Err(Error::NoSchedule { kernel, device, asked, listed: listed.join("; ") })
    }
}

/// The best variant for these sizes and its parts. Ranking takes microseconds, so each thread remembers what it ranked lately.
fn ranked(gpu: &Gpu, instance: &'static Instance, sizes: &Sizes) -> Option<(usize, u32)> {
    struct Ranked {
        gpu: usize,
        instance: *const Instance,
        sizes: Sizes,
        answer: Option<(usize, u32)>,
    }
    const REMEMBERED: u64 = 64;
    thread_local! {
        static LATELY: RefCell<[Option<Ranked>; REMEMBERED as usize]> = const { RefCell::new([const { None }; REMEMBERED as usize]) };
    }
    let key = (gpu.id, std::ptr::from_ref(instance));
    let mut hasher = DefaultHasher::new();
    (key, sizes).hash(&mut hasher);
    let at = (hasher.finish() % REMEMBERED) as usize;
    LATELY.with_borrow_mut(|lately| match &lately[at] {
        Some(known) if (known.gpu, known.instance) == key && known.sizes == *sizes => known.answer,
        _ => {
            let all =
                candidates(gpu, instance).map(|(index, variant)| (index, variant, prediction(variant, sizes, gpu)));
            // The first of the equal ones: a portfolio's widest comes first.
            let best = all.min_by_key(|(_, variant, said)| (Reverse(newness(variant.target)), said.cycles));
            let answer = best.map(|(index, _, said)| (index, said.parts));
            lately[at] = Some(Ranked { gpu: key.0, instance: key.1, sizes: *sizes, answer });
            answer
        }
    })
}

/// What the model says of a launch: its time, and into how many parts the loop is best cut.
pub(super) struct Prediction {
    pub cycles: u64,
    pub parts: u32,
}

pub(super) fn prediction(variant: &Variant, sizes: &Sizes, gpu: &Gpu) -> Prediction {
    let whole = Prediction { cycles: cycles_of(variant, sizes, gpu, 1), parts: 1 };
    let Some(split) = variant.split else { return whole };
    let tiles = count(variant.grid, sizes);
    let room = PARTS_BYTES / (tiles.max(1) * u64::from(split.part_bytes)).max(1);
    let steps = variant.cost.steps.iter().map(|step| count(step.over, sizes)).max().unwrap_or(1);
    let most = if tiles <= MOST_TILES { room.min(steps).min(u64::from(split.most_parts)) } else { 1 };
    // Doubling, and one and a half times that: 2, 3, 4, 6, 8, 12 …
    let wanted = (1..).flat_map(|doubled| [1u64 << doubled, 3 << (doubled - 1)]).take_while(|parts| *parts <= most);
    wanted.fold(whole, |best, parts| {
        let cycles = cycles_of(variant, sizes, gpu, parts);
        if cycles < best.cycles { Prediction { cycles, parts: parts as u32 } } else { best }
    })
}

fn count(axes: &[GridAxis], sizes: &Sizes) -> u64 {
    axes.iter().fold(1u64, |all, axis| all.saturating_mul(blocks(axis, sizes)))
}

/// As many waves as it takes, each as long as one block on its own, but no less than all the work that comes to one
/// multiprocessor.
fn cycles_of(variant: &Variant, sizes: &Sizes, gpu: &Gpu, parts: u64) -> u64 {
    let (mut latency, mut work) = (u64::from(variant.cost.once), 0u64);
    for step in variant.cost.steps {
        // Loops are what is cut; what stands outside of them every part does.
        let steps = if step.over.is_empty() { 1 } else { count(step.over, sizes).div_ceil(parts) };
        latency = latency.saturating_add(u64::from(step.latency).saturating_mul(steps));
        work = work.saturating_add(u64::from(step.work).saturating_mul(steps));
    }
    let each = count(variant.grid, sizes).saturating_mul(parts).div_ceil(u64::from(gpu.multiprocessors.max(1)));
    let by_shared =
        (gpu.block_shared_bytes + SHARED_OF_A_BLOCK) / (shared_bytes(variant, sizes, parts as u32) + SHARED_OF_A_BLOCK);
    let resident = u64::from(variant.cost.resident.min(by_shared).max(1));
    let joining = match variant.split {
        Some(split) if parts > 1 => {
            latency = latency.saturating_add(LEAVING);
            JOINING + u64::from(split.part_bytes) * (parts + 1) / JOINED_BYTES
        }
        _ => 0,
    };
    each.div_ceil(resident).saturating_mul(latency).max(each.saturating_mul(work)).saturating_add(joining)
}

/// What the driver takes of a multiprocessor's shared memory for each block.
const SHARED_OF_A_BLOCK: u32 = 1024;
/// What each block takes to leave its part, and the last one to see that all have come, in cycles; and the bytes of parts that one
/// block writes or reads in a cycle.
const LEAVING: u64 = 1500;
const JOINING: u64 = 1500;
const JOINED_BYTES: u64 = 64;

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

    const fn instance(key: &'static [Key]) -> Instance {
        Instance { key, known_dims: &[], variants: &[], functions: &[] }
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
