//! Kernels that the runtime brings along for its own chores: a source each, loaded once a device.

use super::slot::{KernelSlot, LoadKey};
use crate::cuda::{Gpu, LoadedKernel, Specialization, load};
use crate::error::Result;
use crate::plan::{Instance, KernelDef, Variant};

pub(super) struct Builtin {
    kernel: KernelDef,
    instance: Instance,
    variant: Variant,
    slot: KernelSlot,
}

impl Builtin {
    /// `name` is also the function's.
    pub const fn new(name: &'static str, source: &'static str, threads: u32) -> Builtin {
        let kernel = KernelDef {
            name,
            file: "device",
            line: 1,
            dims: &[],
            tensors: &[],
            scalars: &[],
            selectors: &[],
            instances: &[],
        };
        let instance =
            Instance { key: &[], known_dims: &[], variants: &[], precomputed: &[], unwritten: &[], functions: &[] };
        Builtin { kernel, instance, variant: Variant::of_source(name, source, threads), slot: KernelSlot::new() }
    }

    pub fn loaded(&'static self, gpu: &Gpu) -> Result<&'static LoadedKernel> {
        let specialization = Specialization::default();
        let key = LoadKey { gpu: gpu.id, instance: 0, variant: 0, specialization };
        self.slot.get_or_load(key, || load(gpu, &self.kernel, &self.instance, &self.variant, specialization))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::{compile_variant, nvrtc_version};
    use crate::launch::{flush, realign, transpose};

    #[test]
    fn each_becomes_machine_code() {
        if let Err(error) = nvrtc_version() {
            return println!("skipped: {error}");
        }
        for Builtin { kernel, instance, variant, .. } in [&flush::READ_ALL, &realign::REALIGN, &transpose::TRANSPOSE] {
            for architecture in ["sm_80", "sm_90a"] {
                let none = Specialization::default();
                let compiled = compile_variant(kernel, instance, variant, none, architecture).unwrap();
                let resources = compiled.resources;
                assert!(resources.registers <= 64, "{}", compiled.log);
                assert_eq!(resources.stack_bytes + resources.spill_store_bytes, 0, "{}", compiled.log);
            }
        }
    }
}
