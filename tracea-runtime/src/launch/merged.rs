//! Axes that a variant may take as one: sizes and tensors as its code is given them, where nothing lies between rows.
//!
//! ```text
//! x, y (4095, 4097), contiguous ──▶ (1, 16777215): one row, which is aligned as the tensor is
//! ```

use super::arg::MAX_TENSORS;
use super::check::{INDEX_LIMIT, Sizes, Tensors};
use super::copies::Replaced;
use crate::plan::{KernelDef, Variant};
use crate::tensor::{Layout, RawTensor};

/// How many of each tensor's last axes have nothing between them, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gapless([u8; MAX_TENSORS]);

impl Gapless {
    pub fn of(tensors: &Tensors<'_>) -> Gapless {
        let mut gapless = [0; MAX_TENSORS];
        for (slot, tensor) in gapless.iter_mut().zip(tensors.iter()) {
            *slot = tensor.layout().gapless_axes() as u8;
        }
        Gapless(gapless)
    }

    fn get(&self, tensor: usize) -> usize {
        self.0.get(tensor).map_or(0, |axes| usize::from(*axes))
    }
}

/// What a variant's merged dims are in one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Merged {
    dims: &'static [usize],
    elements: usize,
}

impl Merged {
    /// Nothing where the variant takes each axis by itself, or has to: something lies between a tensor's rows, or there are more
    /// elements than its code counts.
    pub fn of(kernel: &KernelDef, variant: &Variant, sizes: &Sizes, gapless: &Gapless) -> Option<Merged> {
        let dims = variant.merged;
        let last = dims.last()?;
        let mut merging = kernel.tensors.iter().enumerate().filter(|(_, def)| def.dims.ends_with(dims));
        let block = variant.grid.iter().find(|axis| axis.dims == [*last]).map_or(1, |axis| axis.block);
        let elements = sizes.product(dims);
        let counted = elements.saturating_add(u64::from(block)) <= INDEX_LIMIT;
        (counted && merging.all(|(tensor, _)| gapless.get(tensor) >= dims.len()))
            .then_some(Merged { dims, elements: elements as usize })
    }

    pub fn elements(&self) -> usize {
        self.elements
    }

    pub fn dims(&self) -> &'static [usize] {
        self.dims
    }

    pub fn sizes(&self, sizes: &Sizes) -> Sizes {
        let Some((last, outer)) = self.dims.split_last() else { return *sizes };
        outer.iter().fold(sizes.with(*last, self.elements), |sizes, dim| sizes.with(*dim, 1))
    }

    pub fn tensors(&self, kernel: &KernelDef, tensors: &Tensors<'_>) -> Replaced {
        let mut replaced = Replaced::none();
        for (position, (def, raw)) in kernel.tensors.iter().zip(tensors.iter()).enumerate() {
            if def.dims.ends_with(self.dims)
                && let Some(layout) = self.layout(raw.layout())
            {
                let start = std::ptr::without_provenance_mut(raw.device_address() as usize);
                let row = RawTensor::borrowing(raw.dtype(), layout, start, raw.device().clone());
                replaced.put(position, row);
            }
        }
        replaced
    }

    fn layout(&self, layout: &Layout) -> Option<Layout> {
        let (mut sizes, mut strides) = layout.padded();
        let outer = layout.rank().checked_sub(self.dims.len())?;
        for at in outer..layout.rank() {
            let is_last = at + 1 == layout.rank();
            (sizes[at], strides[at]) = if is_last { (self.elements, 1) } else { (1, self.elements) };
        }
        Layout::strided(&sizes[..layout.rank()], &strides[..layout.rank()]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::dtype::Dtype;
    use crate::plan::{GridAxis, TensorDef};

    const fn tensor(name: &'static str, position: usize, dims: &'static [usize], writes: bool) -> TensorDef {
        TensorDef { name, position, dtype: Some(Dtype::F16), dims, reads: !writes, writes }
    }

    /// `y[(b, i, j)] = x[(b, i, j)] * scale[b]`
    static KERNEL: KernelDef = KernelDef {
        name: "scaled",
        file: "scaled.rs",
        line: 1,
        dims: &[],
        tensors: &[
            tensor("x", 0, &[0, 1, 2], false),
            tensor("scale", 1, &[0], false),
            tensor("y", 2, &[0, 1, 2], true),
        ],
        scalars: &[],
        selectors: &[],
        instances: &[],
    };

    const ONE_ROW: Variant = Variant {
        grid: &[
            GridAxis { dims: &[0], block: 1 },
            GridAxis { dims: &[1], block: 1 },
            GridAxis { dims: &[2], block: 4096 },
        ],
        merged: &[1, 2],
        ..Variant::of_source("scaled", "", 256)
    };

    /// Sizes and the strides of x, as the variant's code is given them, where y is contiguous.
    fn given(variant: &Variant, sizes: [usize; 3], strides: [usize; 3]) -> Option<([usize; 3], Vec<usize>)> {
        let borrowed =
            |layout| RawTensor::borrowing(Dtype::F16, layout, std::ptr::without_provenance_mut(0x1000), Device::cpu());
        let x = borrowed(Layout::strided(&sizes, &strides).unwrap());
        let scale = borrowed(Layout::strided(&sizes[..1], &[2]).unwrap());
        let y = borrowed(Layout::contiguous(&sizes).unwrap());
        let mut tensors = Tensors::new();
        [&x, &scale, &y].into_iter().for_each(|tensor| tensors.push(tensor));
        let all = Sizes::of(&sizes);
        let merged = Merged::of(&KERNEL, variant, &all, &Gapless::of(&tensors))?;
        let replaced = merged.tensors(&KERNEL, &tensors);
        let seen = replaced.among(&tensors);
        let layouts = [0, 1, 2].map(|at| *seen.get(at).unwrap().layout());
        assert_eq!(layouts[1], *scale.layout(), "a tensor without those axes stays");
        assert_eq!(layouts.map(|layout| layout.elements())[2], sizes.iter().product::<usize>());
        let sizes = merged.sizes(&all);
        assert_eq!(layouts[0].sizes(), [0, 1, 2].map(|dim| sizes.get(dim)));
        Some(([0, 1, 2].map(|dim| sizes.get(dim)), layouts[0].strides().to_vec()))
    }

    #[test]
    fn rows_without_gaps_become_one() {
        assert_eq!(given(&ONE_ROW, [3, 5, 7], [35, 7, 1]), Some(([3, 1, 35], vec![35, 35, 1])));
        assert_eq!(given(&ONE_ROW, [3, 5, 7], [64, 7, 1]), Some(([3, 1, 35], vec![64, 35, 1])), "a gap between planes");
        assert_eq!(
            given(&ONE_ROW, [3, 1, 7], [35, 99, 1]),
            Some(([3, 1, 7], vec![35, 7, 1])),
            "one row has none behind"
        );
        assert_eq!(given(&ONE_ROW, [3, 0, 7], [35, 7, 1]), Some(([3, 1, 0], vec![35, 0, 1])), "nothing");
    }

    #[test]
    fn gaps_and_too_many_elements_keep_axes_apart() {
        assert_eq!(given(&ONE_ROW, [3, 5, 7], [40, 8, 1]), None, "a gap between rows");
        assert_eq!(given(&ONE_ROW, [3, 5, 7], [7, 0, 1]), None, "the same row again and again");
        assert_eq!(given(&ONE_ROW, [1, 1 << 16, 1 << 15], [1 << 31, 1 << 15, 1]), None);
        assert!(given(&ONE_ROW, [1, 1 << 15, 1 << 15], [1 << 30, 1 << 15, 1]).is_some());
        let apart = Variant { merged: &[], ..ONE_ROW };
        assert_eq!(given(&apart, [3, 5, 7], [35, 7, 1]), None, "code that is not made for it");
    }
}
