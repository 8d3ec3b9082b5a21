//! The kernels' sources through NVRTC, which needs no GPU.

use crate::kernels::{scaled, update};
use tracea_runtime::cuda::{Specialization, compile_variant, nvrtc_version};
use tracea_runtime::device::Device;

#[test]
fn the_sources_become_machine_code() {
    if let Err(error) = nvrtc_version() {
        return println!("skipped: {error}");
    }
    let device = Device::cpu();
    let (x, mut y) = (device.zeros((1,)).unwrap(), device.zeros((1,)).unwrap());
    let (a, mut b) = (device.zeros((1, 1)).unwrap(), device.zeros((1, 1)).unwrap());
    for kernel in [scaled(&x, &mut y, 1.0).kernel(), update(&a, &mut b).kernel()] {
        let instance = &kernel.instances[0];
        for variant in instance.variants.iter().filter(|variant| !variant.source.is_empty()) {
            let architecture = if variant.target == "sm_90a" { "sm_90a" } else { "sm_90" };
            let aligned =
                variant.aligned.iter().fold(Specialization::default().cut(true), |all, tensor| all.aligned(*tensor, 4));
            let compiled = compile_variant(kernel, instance, variant, aligned, architecture).unwrap();
            assert!(compiled.resources.registers > 0 && compiled.resources.stack_bytes == 0, "{}", compiled.log);
        }
    }
}
