//! What is checked before anything is enqueued: the arguments against the kernel's declaration, and against each other.

use super::arg::{List, MAX_DIMS, MAX_SCALARS, MAX_TENSORS, Scalar};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::plan::{GridAxis, Instance, KernelDef, Variant};
use crate::tensor::RawTensor;

/// Extents, and products of them, are `i32` in device code.
pub(super) const INDEX_LIMIT: u64 = i32::MAX as u64;

pub(super) type Tensors<'t> = List<&'t RawTensor, MAX_TENSORS>;
pub(super) type Scalars = List<Scalar, MAX_SCALARS>;

/// The size of every dim of a kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
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

    /// The same but for one of them.
    pub fn with(mut self, dim: usize, size: usize) -> Sizes {
        if let Some(slot) = self.0.get_mut(dim) {
            *slot = size;
        }
        self
    }

    /// Product of some dims; saturates far above every limit.
    pub fn product(&self, dims: &[usize]) -> u64 {
        dims.iter().fold(1u64, |product, &dim| product.saturating_mul(self.get(dim) as u64))
    }
}

pub(super) fn check_counts(
    kernel: &'static KernelDef,
    tensors: &Tensors<'_>,
    scalars: &Scalars,
    keys: usize,
) -> Result<()> {
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
                    let instance_size =
                        instance.known_dims.iter().find(|(known, _)| *known == dim).map(|(_, size)| *size);
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

/// The first tensor's name and device, where all tensors are on that; nothing for a kernel without tensors.
pub(super) fn check_places<'t>(
    kernel: &'static KernelDef,
    tensors: &Tensors<'t>,
) -> Result<Option<(&'static str, &'t Device)>> {
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
    Ok(Some((other, first.device())))
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
    let inner =
        axes.map(|(size, stride)| (size.saturating_sub(1), stride * bytes)).filter(|(_, stride)| stride % pitch != 0);
    bytes + inner.map(|(steps, stride)| steps * stride).sum::<usize>()
}

/// Index arithmetic is in `i32`, on the host as on a GPU.
pub(super) fn check_sizes(kernel: &'static KernelDef, sizes: &Sizes) -> Result<()> {
    for (dim, def) in kernel.dims.iter().enumerate() {
        check_index(|| format!("dim {} of `{}`", def.name, kernel.name), sizes.get(dim) as u64)?;
    }
    Ok(())
}

/// GPU code reads neighbours along the last axis as vectors.
pub(super) fn check_strides(kernel: &'static KernelDef, tensors: &Tensors<'_>) -> Result<()> {
    for (def, tensor) in kernel.tensors.iter().zip(tensors.iter()) {
        let stride = tensor.layout().inner_stride();
        if stride != 1 && !tensor.layout().is_empty() {
            return Err(Error::InnerStride { tensor: def.name, stride });
        }
    }
    Ok(())
}

/// Whether code that takes elements one by one can count along its loops: other code for the same sums has loops of its own for each axis.
pub(super) fn is_counted(variant: &Variant, sizes: &Sizes) -> bool {
    let mut axes = variant.cost.steps.iter().flat_map(|step| step.over);
    let counted = |axis: &GridAxis| sizes.product(axis.dims).saturating_add(u64::from(axis.block)) <= INDEX_LIMIT;
    !variant.cost.is_scattered() || axes.all(counted)
}

pub(super) fn check_index(what: impl FnOnce() -> String, size: u64) -> Result<()> {
    if size <= INDEX_LIMIT {
        return Ok(());
    }
    Err(Error::TooLarge { what: what(), size: size.into(), limit: INDEX_LIMIT })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim::{Const, Dyn};
    use crate::dtype::Dtype;
    use crate::plan::{Cost, DimDef, Fetch, Key, StepCost, TensorDef};
    use crate::tensor::{Tensor, TensorMut, TensorRef};

    static INSTANCE: Instance = Instance {
        key: &[Key::Int(4)],
        known_dims: &[(3, 4)],
        variants: &[],
        precomputed: &[],
        unwritten: &[],
        functions: &[],
    };

    /// `c[i, j] = a[i, k] · b[j, k]`, with a fourth dim that the instance fixes.
    static KERNEL: KernelDef = KernelDef {
        name: "product",
        file: "product.rs",
        line: 1,
        dims: &[
            DimDef { name: "M", known: None },
            DimDef { name: "N", known: None },
            DimDef { name: "K", known: None },
            DimDef { name: "D", known: None },
        ],
        tensors: &[
            TensorDef { name: "a", position: 0, dtype: Some(Dtype::F32), dims: &[0, 2], reads: true, writes: false },
            TensorDef { name: "b", position: 1, dtype: Some(Dtype::F32), dims: &[1, 2], reads: true, writes: false },
            TensorDef { name: "d", position: 2, dtype: None, dims: &[3], reads: true, writes: false },
            TensorDef { name: "c", position: 3, dtype: Some(Dtype::F32), dims: &[0, 1], reads: false, writes: true },
        ],
        scalars: &[],
        selectors: &["D"],
        instances: &[],
    };

    type Matrix = Tensor<f32, (Dyn, Dyn)>;

    fn matrix(rows: usize, columns: usize) -> Matrix {
        Device::cpu().zeros((rows, columns)).unwrap()
    }

    fn list<'t>(a: &'t Matrix, b: &'t Matrix, d: &'t Tensor<i32, (Dyn,)>, c: &'t Matrix) -> Tensors<'t> {
        let mut tensors = Tensors::new();
        [a.raw(), b.raw(), d.raw(), c.raw()].into_iter().for_each(|raw| tensors.push(raw));
        tensors
    }

    #[test]
    fn shapes_that_disagree_are_named_by_tensor_and_axis() {
        let (a, b, c) = (matrix(7, 512), matrix(9, 384), matrix(7, 9));
        let d = Device::cpu().zeros((4,)).unwrap();
        let error = check_shapes(&KERNEL, &INSTANCE, &list(&a, &b, &d, &c)).err().unwrap().to_string();
        assert_eq!(error, "K is 512 in `a` (axis 1) but 384 in `b` (axis 1)");
        let b = matrix(9, 512);
        let sizes = check_shapes(&KERNEL, &INSTANCE, &list(&a, &b, &d, &c)).unwrap();
        assert_eq!([0, 1, 2, 3].map(|dim| sizes.get(dim)), [7, 9, 512, 4]);
        assert_eq!(sizes.product(&[0, 1, 3]), 7 * 9 * 4);
        let d = Device::cpu().zeros((5,)).unwrap();
        let error = check_shapes(&KERNEL, &INSTANCE, &list(&a, &b, &d, &c)).err().unwrap().to_string();
        assert_eq!(error, "D is 5 in `d` (axis 0), the kernel fixes it at 4 -- pass a tensor of that size");
    }

    #[test]
    fn outputs_must_not_share_memory() {
        let device = Device::cpu();
        let (a, b, c, d) = (matrix(4, 4), matrix(4, 4), matrix(4, 4), device.zeros((4,)).unwrap());
        assert!(check_aliases(&KERNEL, &list(&a, &b, &d, &c)).is_ok());
        assert!(check_aliases(&KERNEL, &list(&a, &a, &d, &c)).is_ok(), "inputs may be the same");
        let error = check_aliases(&KERNEL, &list(&a, &c, &d, &c)).unwrap_err().to_string();
        assert_eq!(error, "`c` is written and shares memory with `b` -- give the output memory of its own");
    }

    #[test]
    fn columns_of_one_matrix_are_apart() {
        let host = Device::cpu().zeros::<f32, _>((6, 10)).unwrap();
        // SAFETY: the views lie within `host`; nothing is read or written.
        let columns = |first: usize, width: usize, pitch: usize| unsafe {
            TensorRef::<f32, (Dyn, Dyn)>::from_address(
                host.device(),
                host.address() + 4 * first,
                &[5, width],
                &[pitch, 1],
            )
            .unwrap()
        };
        assert!(!may_share(columns(0, 4, 10).raw(), columns(4, 6, 10).raw()));
        assert!(!may_share(columns(4, 6, 10).raw(), columns(0, 4, 10).raw()));
        assert!(may_share(columns(0, 5, 10).raw(), columns(4, 6, 10).raw()));
        assert!(may_share(columns(0, 4, 10).raw(), columns(4, 4, 8).raw()));
        assert!(may_share(columns(4, 6, 10).raw(), columns(8, 4, 10).raw()), "a row's end reaches into the next row");
    }

    #[test]
    fn an_output_with_elements_in_one_place_is_refused() {
        let device = Device::cpu();
        let (a, b, d) = (matrix(3, 4), matrix(5, 4), device.zeros((4,)).unwrap());
        let mut row = [0.0f32; 5];
        let address = row.as_mut_ptr().expose_provenance();
        // SAFETY: only the layout is looked at.
        let c = unsafe { TensorMut::<f32, (Dyn, Dyn)>::from_address(&device, address, &[3, 5], &[0, 1]) }.unwrap();
        let error = check_aliases(&KERNEL, &list(&a, &b, &d, &c)).unwrap_err().to_string();
        assert!(error.starts_with("`c` is written and several of its elements share memory"));
    }

    #[test]
    fn strides_and_sizes_have_limits() {
        let device = Device::cpu();
        let (a, b, c, d) = (matrix(4, 3), matrix(4, 4), matrix(4, 4), device.zeros((4,)).unwrap());
        let turned = a.transpose();
        let narrow: TensorRef<'_, f32, (Const<3>, Const<4>)> = turned.as_shape().unwrap();
        let turned: TensorRef<'_, f32, (Dyn, Dyn)> = narrow.as_shape().unwrap();
        let error = check_strides(&KERNEL, &list(&turned, &b, &d, &c)).unwrap_err();
        assert!(error.to_string().starts_with("`a` has stride 3 along its last axis, the GPU code needs 1 -- "));
        let sizes = Sizes::of(&[1 << 31, 4, 4, 4]);
        let error = check_sizes(&KERNEL, &sizes).unwrap_err().to_string();
        assert!(
            error.contains("M of `product` is 2147483648, the kernel's index arithmetic ends at 2147483647"),
            "{error}"
        );
    }

    #[test]
    fn elements_beyond_what_code_counts_are_not_taken_one_by_one() {
        const OVER: &[GridAxis] = &[GridAxis { dims: &[1, 2], block: 64 }];
        const STEPS: &[StepCost] = &[StepCost { latency: 1, work: 1, over: OVER }];
        const SCATTERED: &[Fetch] = &[Fetch {
            tensor: 0,
            bytes: 1024,
            row_bytes: 2,
            blocks: 1,
            scattered: 2,
            narrow: None,
            short: None,
            over: OVER,
        }];
        let counted = |fetches, sizes: [usize; 3]| {
            let cost = Cost { once: 0, ending: 0, alone: 0, resident: 1, steps: STEPS, fetches, growing: None };
            is_counted(&Variant { cost, ..Variant::of_source("product", "", 128) }, &Sizes::of(&sizes))
        };
        assert!(counted(SCATTERED, [1, 1 << 15, 1 << 15]));
        assert!(!counted(SCATTERED, [1, 1 << 16, 1 << 15]));
        assert!(counted(&[], [1, 1 << 16, 1 << 15]), "which fails with an error of its own");
    }
}
