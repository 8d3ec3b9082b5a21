//! Runs a launch once: on the host, or on a device's stream.

use super::Launch;
use super::alignment::{Alignments, alignment_of, parts_alignment_of, row_alignment_of};
use super::arg::Scalar;
use super::check::{
    Sizes, Tensors, check_aliases, check_counts, check_places, check_shapes, check_sizes, check_strides,
};
use super::copies::{Copies, Replaced};
use super::copying::Copying;
use super::joined::joined;
use super::merged::{Gapless, Merged};
use super::model::{Capacity, rows_together};
use super::params::{Cut, Given, Packed, ParameterRoom, Parameters, Shares, shared_bytes, tiles};
use super::pick::Picked;
use super::remembered::{self, Asked};
use super::skew::alike_in_turn;
use super::slot::LoadKey;
use super::tensor_map::{EncodedMaps, merges, writable};
use super::window::Windows;
use crate::cuda::{Addresses, Checked, Gpu, Grid, LoadedKernel, Room, Specialization, load};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::host::{HostArg, HostArray};
use crate::plan::{Arg, Instance, Variant};
use crate::tensor::RawTensor;
use cudarc::driver::CudaStream;
use std::cell::OnceCell;
use std::rc::Rc;
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
    pub shares: Shares,
    pub grid: Grid,
    pub specialization: Specialization,
    pub windows: Windows,
    /// Axes that the code takes as one.
    pub merged: Option<Merged>,
    /// Of operands, made before the kernel runs.
    pub copies: Copies,
    pub maps: EncodedMaps,
    /// Whether blocks count the units of work that they take.
    pub counts: bool,
    /// [`Arg::DivideByRowsTogether`].
    pub rows_together: u32,
    /// What its first launch packed.
    pub packed: OnceCell<Packed>,
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

    fn planned(&self, checks: &Checks<'_>, gpu: &Gpu, may_copy: bool) -> Result<Rc<Plan>> {
        let (instance, schedule) = (checks.instance, &self.schedule);
        let asked = Asked { gpu: gpu.id, instance, schedule, may_copy, tensors: &self.tensors, scalars: &self.scalars };
        remembered::plan(&asked, || self.plan(checks, gpu, may_copy))
    }

    /// The code that a GPU would run, and how much of it.
    pub(super) fn plan(&self, checks: &Checks<'_>, gpu: &Gpu, may_copy: bool) -> Result<Plan> {
        check_strides(self.kernel, &self.tensors)?;
        let picked = self.variant(gpu, checks, may_copy)?;
        // What is picked has what its code needs, and can be copied.
        let joined = joined(picked.variant, &self.tensors).unwrap_or_else(Replaced::none);
        let tensors = &joined.among(&self.tensors);
        let operands = checks.instance.precomputed;
        let needed = Copies::needed(picked.variant, operands, &checks.sizes, tensors).unwrap_or_else(Copies::none);
        if picked.realigned_to > 0 {
            let alignments = Alignments::of(tensors);
            let wanted = picked.realigned_to;
            let all = needed.with_misaligned(self.kernel, picked.variant, tensors, &alignments, wanted);
            let plan = self.plan_with(checks, gpu, picked, all, tensors)?;
            if picked.variant.windowed().all(|tensor| plan.windows.fit(tensor)) {
                return Ok(plan);
            }
            // TMA cannot walk the windows anyway.
        }
        self.plan_with(checks, gpu, picked, needed, tensors)
    }

    fn plan_with(
        &self,
        checks: &Checks<'_>,
        gpu: &Gpu,
        picked: Picked,
        copies: Copies,
        tensors: &Tensors<'_>,
    ) -> Result<Plan> {
        let Picked { index: variant_index, variant, shares, .. } = picked;
        let merged = Merged::of(self.kernel, variant, &checks.sizes, &Gapless::of(&self.tensors));
        let sizes = merged.map_or(checks.sizes, |merged| merged.sizes(&checks.sizes));
        let tiles = tiles(self.kernel.name, variant, &sizes)?;
        let cluster = variant.cluster.max(1);
        let units = shares.units(tiles).next_multiple_of(cluster);
        let at_a_time = Capacity::of(gpu).blocks_at_a_time(variant.cost.resident.max(1), cluster);
        let blocks = match variant.persistent {
            true if variant.takes_rows_in_turn() => units.min(alike_in_turn(variant, tensors, at_a_time)),
            true => units.min(at_a_time),
            false => units,
        };
        // Where the room is does not matter yet.
        let replaced = copies.in_room(0, tensors);
        let tensors = replaced.among(tensors);
        let rows = merged.map(|merged| merged.tensors(self.kernel, &tensors));
        let tensors = rows.as_ref().map_or(tensors, |rows| rows.among(&tensors));
        let mut specialization = Specialization::default().cut(variant.bakes_in_cuts() && shares.parts > 1);
        let of_parts = |tensor, raw| parts_alignment_of(variant, (tensor, raw), &sizes, &self.scalars);
        for &tensor in variant.aligned {
            if let Some(raw) = tensors.get(tensor) {
                let alignment = if variant.whole_vectors { row_alignment_of(raw) } else { alignment_of(raw) };
                specialization = specialization.aligned(tensor, alignment.min(of_parts(tensor, raw)));
            }
        }
        for &scalar in variant.positive {
            let is_positive = self.scalars.get(scalar).is_some_and(Scalar::is_ordinary_and_positive);
            specialization = specialization.positive(scalar, is_positive);
        }
        for arg in variant.args {
            // What no map can say is written by threads, as what is aligned to less.
            if let Arg::TensorMap { tensor, merged, .. } = *arg
                && let Some(raw) = tensors.get(tensor)
                && (!merges(raw, merged) || self.writes(tensor) && !writable(raw))
            {
                let alignment = alignment_of(raw).min(BY_THREADS);
                specialization = specialization.aligned(tensor, alignment.min(of_parts(tensor, raw)));
            }
        }
        let windows = Windows::of(variant.windows, &sizes, &tensors, &self.scalars);
        for tensor in variant.windowed() {
            specialization = specialization.windowed(tensor, windows.fit(tensor));
        }
        let cooperative = shares.parts > 1 && variant.split.is_some_and(|split| split.shares > 0);
        // A cooperative launch begins when nothing else runs.
        let early = copies.come_first() && variant.awaits && !cooperative;
        let shared_bytes = shared_bytes(variant, &sizes, shares.parts);
        let grid = Grid { blocks, cluster, shared_bytes, cooperative, early };
        Ok(Plan {
            variant,
            variant_index,
            shares,
            grid,
            specialization,
            windows,
            merged,
            copies,
            maps: EncodedMaps::of(gpu.l2_bytes, gpu.bandwidth),
            rows_together: rows_together(variant, &sizes, Capacity::of(gpu)),
            counts: variant.counts_units(),
            packed: OnceCell::new(),
        })
    }

    fn writes(&self, tensor: usize) -> bool {
        self.kernel.tensors.get(tensor).is_some_and(|def| def.writes)
    }

    pub(super) fn loaded(&self, checks: &Checks<'_>, plan: &Plan, gpu: &Gpu) -> Result<&'static LoadedKernel> {
        let specialization = plan.specialization;
        let key = LoadKey { gpu: gpu.id, instance: checks.instance_index, variant: plan.variant_index, specialization };
        self.slot.get_or_load(key, || load(gpu, self.kernel, checks.instance, plan.variant, specialization))
    }

    fn enqueue(&self, checks: &Checks<'_>, gpu: &'static Gpu, stream: &Arc<CudaStream>) -> Result<()> {
        let mut plan = self.planned(checks, gpu, self.may_copy)?;
        if plan.grid.blocks == 0 {
            return Ok(());
        }
        // Before the room is taken, since compiling takes long.
        let mut loaded = self.loaded(checks, &plan, gpu)?;
        let copying = Copying::loaded(gpu, &plan.copies)?;
        let workspace = checks.device.workspace();
        let room = match workspace {
            Some(workspace) if !plan.copies.is_empty() => workspace.room(gpu, stream, plan.copies.bytes()),
            _ => None,
        };
        if !plan.copies.is_empty() && room.is_none() {
            plan = self.planned(checks, gpu, false)?;
            loaded = self.loaded(checks, &plan, gpu)?;
        }
        let cut = match workspace {
            Some(workspace) if plan.shares.parts > 1 || plan.counts => {
                let Addresses { arrivals, taken, parts } = workspace.addresses(gpu, stream)?;
                Cut { shares: plan.shares, arrivals, workspace: parts, taken, rows_together: plan.rows_together }
            }
            _ => Cut { rows_together: plan.rows_together, ..Cut::WHOLE },
        };
        let joined = joined(plan.variant, &self.tensors);
        let given = joined.as_ref().map_or(self.tensors, |joined| joined.among(&self.tensors));
        let replaced = plan.copies.in_room(room.as_ref().map_or(0, Room::address), &given);
        let tensors = replaced.among(&given);
        let rows = plan.merged.map(|merged| merged.tensors(self.kernel, &tensors));
        let of_code = Given {
            variant: plan.variant,
            sizes: &plan.merged.map_or(checks.sizes, |merged| merged.sizes(&checks.sizes)),
            tensors: &rows.as_ref().map_or(tensors, |rows| rows.among(&tensors)),
            scalars: &self.scalars,
            windows: &plan.windows,
            maps: &plan.maps,
            cut,
        };
        let mut parameter_room = ParameterRoom::new();
        let parameters = Parameters::pack(&of_code, &mut parameter_room, &plan.packed)?;
        gpu.bind()?;
        for other in self.other_streams(stream) {
            stream.join(other).doing("ordering two streams")?;
        }
        if let Some(room) = &room {
            if plan.variant.precomputed {
                self.compute_operands(checks, &tensors)?;
            }
            // SAFETY: as below. The room has as many bytes as was asked for, and is this launch's until the kernel is enqueued too.
            unsafe { copying.enqueue(stream, &plan.copies, &given, room)? };
        }
        // SAFETY: the parameters follow the variant's own plan, the shapes were checked against it, and the tensors' memory stays
        // valid in the order of this stream: it is freed on a stream that waits for this launch.
        unsafe { loaded.enqueue(stream, plan.grid, parameters.pointers())? };
        if let Some(room) = &room {
            // SAFETY: as for the copies before.
            unsafe { copying.enqueue_back(stream, &plan.copies, &given, room)? };
        }
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
