//! Runs a launch once: on the host, or on a device's stream.

use super::Launch;
use super::arg::Scalar;
use super::check::{Sizes, check_aliases, check_counts, check_places, check_shapes, check_sizes, check_strides};
use super::params::{Cut, Given, Parameters, shared_bytes, tiles};
use super::slot::LoadKey;
use super::tensor_map::{alignment_of, merges, row_alignment_of};
use super::window::Windows;
use crate::cuda::{Checked, Gpu, LoadedKernel, Specialization, load};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::host::{HostArg, HostArray};
use crate::plan::{Arg, Instance, Variant};
use crate::tensor::RawTensor;
use cudarc::driver::CudaStream;
use std::sync::Arc;

/// An alignment, in bytes, that TMA takes no part in.
const BY_THREADS: u32 = 8;

/// A launch that has passed its checks.
pub(crate) struct Checks<'a> {
    pub sizes: Sizes,
    pub device: &'a Device,
    pub instance_index: usize,
    pub instance: &'static Instance,
}

/// A launch with its code, as it will be enqueued.
pub(crate) struct Plan {
    pub variant: &'static Variant,
    pub variant_index: usize,
    /// Into how many parts the kernel's loop is cut.
    pub parts: u32,
    pub blocks: u32,
    /// Dynamic shared memory of each.
    pub shared_bytes: u32,
    pub specialization: Specialization,
    pub windows: Windows,
}

impl Launch<'_> {
    pub(super) fn run(&self) -> Result<()> {
        let checks = self.checks()?;
        self.run_checked(&checks)
    }

    pub(crate) fn run_checked(&self, checks: &Checks<'_>) -> Result<()> {
        match checks.device.cuda_parts() {
            None => self.run_on_host(),
            Some((gpu, stream)) => self.enqueue(checks, gpu, stream),
        }
    }

    pub(crate) fn checks(&self) -> Result<Checks<'_>> {
        check_counts(self.kernel, &self.tensors, &self.scalars, self.keys.len())?;
        let (instance_index, instance) = self.instance()?;
        let sizes = check_shapes(self.kernel, instance, &self.tensors)?;
        check_sizes(self.kernel, &sizes)?;
        let place = check_places(self.kernel, &self.tensors)?;
        check_aliases(self.kernel, &self.tensors)?;
        let device = match (&self.device, place) {
            (Some(asked), Some((tensor, place))) if !asked.same_place(place) => {
                let (device, asked) = (place.to_string(), asked.to_string());
                return Err(Error::AskedElsewhere { tensor, device, asked });
            }
            (Some(asked), _) => asked,
            (None, Some((_, place))) => place,
            (None, None) => &Device::CPU,
        };
        Ok(Checks { sizes, device, instance_index, instance })
    }

    fn run_on_host(&self) -> Result<()> {
        let args = self.host_args(|position, tensor| {
            let array = host_array(tensor)?;
            // SAFETY: the launch borrows its tensors, those that the kernel writes exclusively, and no two of them share an element
            // that is written; the arguments are used while `self` lives only.
            Ok(unsafe {
                if self.kernel.tensors[position].writes { HostArg::output(array) } else { HostArg::input(array) }
            })
        })?;
        self.host.run(&args);
        Ok(())
    }

    /// The kernel's arguments in its own order, with tensors as `view` shows them.
    pub(crate) fn host_args<'a>(
        &self,
        mut view: impl FnMut(usize, &RawTensor) -> Result<HostArg<'a>>,
    ) -> Result<Vec<HostArg<'a>>> {
        let mut args = Vec::with_capacity(self.tensors.len() + self.scalars.len());
        for (index, (def, tensor)) in self.kernel.tensors.iter().zip(self.tensors.iter()).enumerate() {
            args.push((def.position, view(index, tensor)?));
        }
        for (def, scalar) in self.kernel.scalars.iter().zip(self.scalars.iter()) {
            let arg = match scalar {
                Scalar::F32(value) => HostArg::from_f32(value),
                Scalar::I32(value) => HostArg::from_i32(value),
            };
            args.push((def.position, arg));
        }
        args.sort_by_key(|(position, _)| *position);
        Ok(args.into_iter().map(|(_, arg)| arg).collect())
    }

    /// The code that a GPU would run, and how much of it.
    pub(super) fn plan(&self, checks: &Checks<'_>, gpu: &Gpu) -> Result<Plan> {
        check_strides(self.kernel, &self.tensors)?;
        let (variant_index, variant, parts) = self.variant(gpu, checks.instance, &checks.sizes)?;
        let tiles = tiles(self.kernel.name, variant, &checks.sizes)?;
        let units = tiles * parts;
        let blocks = match variant.persistent {
            true => units.min(gpu.multiprocessors * variant.cost.resident.max(1)),
            false => units,
        };
        let mut specialization = Specialization::default();
        for &tensor in variant.aligned {
            if let Some(raw) = self.tensors.get(tensor) {
                let alignment = if variant.whole_vectors { row_alignment_of(raw) } else { alignment_of(raw) };
                specialization = specialization.aligned(tensor, alignment);
            }
        }
        for arg in variant.args {
            if let Arg::TensorMap { tensor, merged: merged @ 2.., .. } = *arg
                && let Some(raw) = self.tensors.get(tensor)
                && !merges(raw, merged)
            {
                // What no map can say is written by threads, as what is aligned to less.
                specialization = specialization.aligned(tensor, alignment_of(raw).min(BY_THREADS));
            }
        }
        let windows = Windows::of(variant.windows, &checks.sizes, &self.tensors, &self.scalars);
        for tensor in variant.windowed() {
            specialization = specialization.windowed(tensor, windows.fit(tensor));
        }
        let shared_bytes = shared_bytes(variant, &checks.sizes, parts);
        Ok(Plan { variant, variant_index, parts, blocks, shared_bytes, specialization, windows })
    }

    pub(super) fn loaded(&self, checks: &Checks<'_>, plan: &Plan, gpu: &Gpu) -> Result<&'static LoadedKernel> {
        let specialization = plan.specialization;
        let key = LoadKey { gpu: gpu.id, instance: checks.instance_index, variant: plan.variant_index, specialization };
        self.slot.get_or_load(key, || load(gpu, self.kernel, checks.instance, plan.variant, specialization))
    }

    fn enqueue(&self, checks: &Checks<'_>, gpu: &'static Gpu, stream: &Arc<CudaStream>) -> Result<()> {
        let plan = self.plan(checks, gpu)?;
        if plan.blocks == 0 {
            return Ok(());
        }
        let loaded = self.loaded(checks, &plan, gpu)?;
        let cut = match (plan.parts, checks.device.workspace()) {
            (2.., Some(workspace)) => {
                let (arrivals, workspace) = workspace.addresses(gpu, stream)?;
                Cut { parts: plan.parts, arrivals, workspace }
            }
            _ => Cut::WHOLE,
        };
        let mut parameters = Parameters::new();
        parameters.pack(&Given {
            variant: plan.variant,
            sizes: &checks.sizes,
            tensors: &self.tensors,
            scalars: &self.scalars,
            windows: &plan.windows,
            cut,
        })?;
        gpu.bind()?;
        for other in self.other_streams(stream) {
            stream.join(other).doing("ordering two streams")?;
        }
        // SAFETY: the parameters follow the variant's own plan, the shapes were checked against it, and the tensors' memory stays
        // valid in the order of this stream: it is freed on a stream that waits for this launch.
        unsafe { loaded.enqueue(stream, plan.blocks, plan.shared_bytes, &mut parameters.pointers())? };
        for other in self.other_streams(stream) {
            other.join(stream).doing("ordering two streams")?;
        }
        Ok(())
    }

    /// Streams of tensors that the launch's own stream must be ordered with.
    fn other_streams<'s>(&'s self, stream: &'s CudaStream) -> impl Iterator<Item = &'s CudaStream> + 's {
        let streams = self.tensors.iter().filter_map(|tensor| tensor.device().stream());
        streams.map(|other| &**other).filter(move |other| other.cu_stream() != stream.cu_stream())
    }

    pub(crate) fn tensors(&self) -> impl Iterator<Item = &RawTensor> {
        self.tensors.iter()
    }

    pub(crate) fn host(&self) -> &crate::host::HostKernel {
        &self.host
    }
}

/// A tensor in host memory, as the host function sees it.
pub(crate) fn host_array(tensor: &RawTensor) -> Result<HostArray> {
    let (sizes, strides) = tensor.layout().padded();
    Ok(HostArray { address: tensor.start()?, dtype: tensor.dtype(), rank: tensor.layout().rank(), sizes, strides })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;
    use crate::tensor::Layout;

    #[test]
    fn alignment_divides_address_and_outer_strides() {
        let at = |address: usize, sizes: &[usize], strides: &[usize]| {
            let start = std::ptr::without_provenance_mut(address);
            let layout = Layout::strided(sizes, strides).unwrap();
            alignment_of(&RawTensor::borrowing(Dtype::F16, layout, start, Device::cpu()))
        };
        assert_eq!(at(0x1000, &[8, 64], &[64, 1]), 16);
        assert_eq!(at(0x1000, &[8, 67], &[67, 1]), 2);
        assert_eq!(at(0x1000, &[8, 68], &[68, 1]), 8);
        assert_eq!(at(0x1004, &[8, 64], &[64, 1]), 4);
        assert_eq!(at(0x1000, &[1, 67], &[67, 1]), 16);
        assert_eq!(at(0x1000, &[67], &[1]), 16);
        assert_eq!(at(0x1002, &[67], &[1]), 2);
    }

    #[test]
    fn alignment_of_rows_divides_their_ends() {
        let at = |sizes: &[usize], strides: &[usize]| {
            let start = std::ptr::without_provenance_mut(0x1000);
            let layout = Layout::strided(sizes, strides).unwrap();
            row_alignment_of(&RawTensor::borrowing(Dtype::F16, layout, start, Device::cpu()))
        };
        assert_eq!(at(&[8, 64], &[64, 1]), 16);
        assert_eq!(at(&[8, 68], &[72, 1]), 8);
        assert_eq!(at(&[8, 67], &[72, 1]), 2);
        assert_eq!(at(&[], &[]), 16);
    }
}
