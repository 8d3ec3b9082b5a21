//! What is checked before anything is enqueued: the arguments against the kernel's declaration, and against each other.

use super::arg::{List, MAX_DIMS, MAX_SCALARS, MAX_TENSORS, Scalar};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::plan::{Instance, KernelDef};
use crate::tensor::RawTensor;

/// Extents, and products of them, are `i32` in device code.
const INDEX_LIMIT: u64 = i32::MAX as u64;

pub(super) type Tensors<'t> = List<&'t RawTensor, MAX_TENSORS>;
pub(super) type Scalars = List<Scalar, MAX_SCALARS>;

/// The size of every dim of a kernel.
pub(crate) struct Sizes([usize; MAX_DIMS]);

impl Sizes {
    #[cfg(test)]
    pub fn of(sizes: &[usize]) -> Sizes {
        let mut all = [1; MAX_DIMS];
        all[..sizes.len()].copy_from_slice(sizes);
        Sizes(all)
    }

    pub fn get(&self, dim: usize) -> usize {
        self.0.get(dim).copied().unwrap_or(1)
    }

    /// Product of some dims; saturates far above every limit.
    pub fn product(&self, dims: &[usize]) -> u64 {
        dims.iter().fold(1u64, |product, &dim| product.saturating_mul(self.get(dim) as u64))
    }
}

pub(super) fn check_counts(kernel: &'static KernelDef, tensors: &Tensors<'_>, scalars: &Scalars, keys: usize) -> Result<()> {
    let counts = [
        ("tensors", tensors.len(), kernel.tensors.len(), MAX_TENSORS),
        ("scalars", scalars.len(), kernel.scalars.len(), MAX_SCALARS),
        ("selectors", keys, kernel.selectors.len(), super::MAX_SELECTORS),
        ("dims", kernel.dims.len(), kernel.dims.len(), MAX_DIMS),
    ];
    match counts.into_iter().find(|(_, given, expected, limit)| given != expected || given > limit) {
        None => Ok(()),
        Some((what, given, expected, limit)) => {
            Err(Error::Arguments { kernel: kernel.name, what, given, expected: expected.min(limit) })
        }
    }
}

/// The dims' sizes, where all tensors agree about them.
pub(super) fn check_shapes(kernel: &'static KernelDef, instance: &Instance, tensors: &Tensors<'_>) -> Result<Sizes> {
    let mut sizes = Sizes([1; MAX_DIMS]);
    let mut seen: [Option<(&'static str, usize)>; MAX_DIMS] = [None; MAX_DIMS];
    for (def, tensor) in kernel.tensors.iter().zip(tensors.iter()) {
        if let Some(expected) = def.dtype
            && expected != tensor.dtype()
        {
            return Err(Error::DtypeMismatch { tensor: def.name, given: tensor.dtype(), expected });
        }
        if tensor.layout().rank() != def.dims.len() {
            let (given, expected) = (tensor.layout().rank(), def.dims.len());
            return Err(Error::Shape(format!("`{}` has {given} axes, the kernel takes {expected}", def.name)));
        }
        for (axis, (&dim, &size)) in def.dims.iter().zip(tensor.layout().sizes()).enumerate() {
            let (Some(slot), Some(first)) = (sizes.0.get_mut(dim), seen.get_mut(dim)) else { continue };
            let name = kernel.dims[dim].name;
            match *first {
                Some((other, other_axis)) if *slot != size => {
                    return Err(Error::ShapeMismatch {
                        dim: name,
                        size: *slot,
                        tensor: other,
                        axis: other_axis,
                        other_size: size,
                        other: def.name,
                        other_axis: axis,
                    });
                }
                Some(_) => {}
                None => {
                    *slot = size;
                    *first = Some((def.name, axis));
                    let instance_size = instance.known_dims.iter().find(|(known, _)| *known == dim).map(|(_, size)| *size);
                    if let Some(fixed) = kernel.dims[dim].known.or(instance_size)
                        && fixed != size
                    {
                        return Err(Error::FixedSize { dim: name, size, tensor: def.name, axis, fixed });
                    }
                }
            }
        }
    }
    Ok(sizes)
}

/// The device of all tensors; the CPU for a kernel without any.
pub(super) fn check_places(kernel: &'static KernelDef, tensors: &Tensors<'_>) -> Result<Option<Device>> {
    let mut named = kernel.tensors.iter().map(|def| def.name).zip(tensors.iter());
    let Some((other, first)) = named.next() else { return Ok(None) };
    for (tensor, raw) in named {
        if !raw.device().same_place(first.device()) {
            return Err(Error::DeviceMismatch {
                tensor,
                device: raw.device().to_string(),
                other,
                other_device: first.device().to_string(),
            });
        }
    }
    Ok(Some(first.device().clone()))
}

/// No element that is written is also another one's memory.
pub(super) fn check_aliases(kernel: &'static KernelDef, tensors: &Tensors<'_>) -> Result<()> {
    for (position, (def, output)) in kernel.tensors.iter().zip(tensors.iter()).enumerate() {
        output.start()?;
        if !def.writes {
            continue;
        }
        if !output.layout().is_injective() {
            return Err(Error::SelfAlias { output: def.name });
        }
        for (other_position, (other_def, other)) in kernel.tensors.iter().zip(tensors.iter()).enumerate() {
            if other_position != position && may_share(output, other) {
                return Err(Error::Alias { output: def.name, other: other_def.name });
            }
        }
    }
    Ok(())
}

/// Whether two tensors of one device may have an element in common. Ranges that overlap are still apart where the tensors are
/// different columns of one pitch.
fn may_share(a: &RawTensor, b: &RawTensor) -> bool {
    let (range_a, range_b) = (a.byte_range(), b.byte_range());
    if range_a.is_empty() || range_b.is_empty() || range_a.end <= range_b.start || range_b.end <= range_a.start {
        return false;
    }
    let pitches = a.layout().strides().iter().map(|stride| stride * a.dtype().bytes());
    !pitches.filter(|pitch| *pitch > 0).any(|pitch| {
        let (width_a, width_b) = (width_within(a, pitch), width_within(b, pitch));
        let distance = (range_b.start as i128 - range_a.start as i128).rem_euclid(pitch as i128) as usize;
        distance >= width_a && distance + width_b <= pitch
    })
}

/// Bytes that a tensor covers in each period of `pitch`, counted from its first element.
fn width_within(tensor: &RawTensor, pitch: usize) -> usize {
    let bytes = tensor.dtype().bytes();
    let axes = tensor.layout().sizes().iter().zip(tensor.layout().strides());
    let inner = axes.map(|(size, stride)| (size.saturating_sub(1), stride * bytes)).filter(|(_, stride)| stride % pitch != 0);
    bytes + inner.map(|(steps, stride)| steps * stride).sum::<usize>()
}

/// What the GPU code's arithmetic and addressing ask for.
pub(super) fn check_for_gpu(kernel: &'static KernelDef, sizes: &Sizes, tensors: &Tensors<'_>) -> Result<()> {
    for (dim, def) in kernel.dims.iter().enumerate() {
        check_index(|| format!("dim {} of `{}`", def.name, kernel.name), sizes.get(dim) as u64)?;
    }
    for (def, tensor) in kernel.tensors.iter().zip(tensors.iter()) {
        let stride = tensor.layout().inner_stride();
        if stride != 1 && !tensor.layout().is_empty() {
            return Err(Error::InnerStride { tensor: def.name, stride });
        }
    }
    Ok(())
}

pub(super) fn check_index(what: impl FnOnce() -> String, size: u64) -> Result<()> {
    if size <= INDEX_LIMIT {
        return Ok(());
    }
    Err(Error::TooLarge { what: what(), size: size.into(), limit: INDEX_LIMIT })
}
