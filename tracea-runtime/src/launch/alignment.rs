//! What tensors are aligned to: their addresses, and from row to row.

use super::arg::MAX_TENSORS;
use super::check::{Scalars, Sizes, Tensors};
use crate::plan::Variant;
use crate::tensor::RawTensor;

/// TMA reads rows that begin on multiples of 16 bytes.
pub(super) const TMA_ALIGNMENT: u32 = 16;
/// L2 answers by lines of 128 bytes.
pub(super) const LINE: u32 = 128;

/// The alignment that a tensor's machine code is made for: the largest of 16, 8, 4, 2, 1 that divides the address and, in bytes,
/// every stride but the last.
pub(super) fn alignment_of(tensor: &RawTensor) -> u32 {
    line_alignment_of(tensor).min(TMA_ALIGNMENT)
}

/// The same, up to whole lines.
fn line_alignment_of(tensor: &RawTensor) -> u32 {
    let layout = tensor.layout();
    let outer = layout.rank().saturating_sub(1);
    let axes = layout.sizes().iter().zip(layout.strides()).take(outer).filter(|(size, _)| **size > 1);
    let all = axes.fold(u64::from(LINE) | tensor.device_address(), |all, (_, stride)| {
        // A repeated row has no stride that a tensor map could hold, so its code is the one that needs none.
        let bytes = (stride * tensor.dtype().bytes()) as u64;
        all | if bytes == 0 { 8 } else { bytes }
    });
    1 << all.trailing_zeros()
}

/// The same, where it must divide the end of each row too.
pub(super) fn row_alignment_of(tensor: &RawTensor) -> u32 {
    let end = tensor.layout().sizes().last().map_or(0, |size| size * tensor.dtype().bytes());
    1 << (alignment_of(tensor) as usize | end).trailing_zeros()
}

/// The largest of the same that divides what else counts as the tensor's addresses in this code.
pub(super) fn parts_alignment_of(
    variant: &Variant,
    (tensor, raw): (usize, &RawTensor),
    sizes: &Sizes,
    scalars: &Scalars,
) -> u32 {
    let bytes = raw.dtype().bytes() as i64;
    let numbers = variant.columns.iter().filter(|columns| columns.tensor == tensor);
    let all = numbers.fold(i64::from(TMA_ALIGNMENT), |all, columns| {
        all | columns.number.evaluate(sizes, scalars).map_or(1, |number| number.wrapping_mul(bytes))
    });
    1 << all.trailing_zeros()
}

/// Of a launch's tensors, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alignments([u8; MAX_TENSORS]);

impl Alignments {
    pub fn of(tensors: &Tensors<'_>) -> Alignments {
        let mut alignments = [LINE as u8; MAX_TENSORS];
        for (slot, tensor) in alignments.iter_mut().zip(tensors.iter()) {
            *slot = line_alignment_of(tensor) as u8;
        }
        Alignments(alignments)
    }

    /// What code is made for.
    pub fn get(&self, tensor: usize) -> u32 {
        self.of_lines(tensor).min(TMA_ALIGNMENT)
    }

    /// Up to whole lines.
    pub fn of_lines(&self, tensor: usize) -> u32 {
        self.0.get(tensor).map_or(1, |alignment| u32::from(*alignment))
    }

    /// The same where this tensor is copied to rows of such an alignment.
    pub fn realigned(mut self, tensor: usize, alignment: u32) -> Alignments {
        if let Some(slot) = self.0.get_mut(tensor) {
            *slot = alignment.min(LINE) as u8;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::dtype::Dtype;
    use crate::plan::{Columns, Number};
    use crate::tensor::Layout;

    fn tensor(address: usize, sizes: &[usize], strides: &[usize]) -> RawTensor {
        let start = std::ptr::without_provenance_mut(address);
        RawTensor::borrowing(Dtype::F16, Layout::strided(sizes, strides).unwrap(), start, Device::cpu())
    }

    #[test]
    fn alignment_divides_address_and_outer_strides() {
        let at = |address, sizes: &[usize], strides: &[usize]| alignment_of(&tensor(address, sizes, strides));
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
        let at = |sizes: &[usize], strides: &[usize]| row_alignment_of(&tensor(0x1000, sizes, strides));
        assert_eq!(at(&[8, 64], &[64, 1]), 16);
        assert_eq!(at(&[8, 68], &[72, 1]), 8);
        assert_eq!(at(&[8, 67], &[72, 1]), 2);
        assert_eq!(at(&[], &[]), 16);
    }

    #[test]
    fn parts_of_rows_count_as_addresses() {
        let columns: &'static [Columns] = Box::leak(Box::new([
            Columns { tensor: 0, number: Number::Dim(0) },
            Columns { tensor: 0, number: Number::Const(24) },
            Columns { tensor: 1, number: Number::Const(3) },
        ]));
        let variant = Variant { columns, ..Variant::of_source("f", "", 32) };
        let (raw, scalars) = (tensor(0x1000, &[8, 64], &[64, 1]), Scalars::new());
        let at = |tensor, size| parts_alignment_of(&variant, (tensor, &raw), &Sizes::of(&[size]), &scalars);
        assert_eq!([64, 12, 6, 5].map(|size| at(0, size)), [16, 8, 4, 2]);
        assert_eq!([at(1, 64), at(2, 64)], [2, 16]);
    }

    #[test]
    fn each_tensor_has_an_alignment_of_its_own() {
        let (a, b) = (tensor(0x1000, &[8, 67], &[67, 1]), tensor(0x1000, &[8, 68], &[68, 1]));
        let mut tensors = Tensors::new();
        [&a, &b].into_iter().for_each(|tensor| tensors.push(tensor));
        let alignments = Alignments::of(&tensors);
        assert_eq!([0, 1].map(|tensor| alignments.get(tensor)), [2, 8]);
        assert_eq!([0, 1].map(|tensor| alignments.realigned(0, 128).get(tensor)), [16, 8]);
        assert_eq!([0, 1].map(|tensor| alignments.realigned(0, 64).of_lines(tensor)), [64, 8]);
    }
}
