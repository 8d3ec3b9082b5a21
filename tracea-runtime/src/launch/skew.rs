//! Where rows begin in memory, as far as code cares that walks them from the chunk in which they begin: it serves launches whose
//! tensors all have their rows equally far past a multiple of a chunk.

use super::alignment::{LINE, TMA_ALIGNMENT, row_alignment_of};
use super::arg::MAX_TENSORS;
use super::check::{Sizes, Tensors};
use crate::plan::Variant;
use crate::tensor::RawTensor;

/// Elements of the widest chunk.
pub(super) const CHUNK: usize = 8;

/// For each tensor, by position, what its address and the strides of its outer axes leave of a chunk, three bits each: tensors for which
/// that is the same have rows that lie alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Skews([u32; MAX_TENSORS]);

impl Skews {
    pub fn of(tensors: &Tensors<'_>) -> Skews {
        let mut skews = [0; MAX_TENSORS];
        for (slot, tensor) in skews.iter_mut().zip(tensors.iter()) {
            *slot = skew_of(tensor);
        }
        Skews(skews)
    }

    /// Whether the variant's tensors lie as it needs them.
    pub fn serve(&self, variant: &Variant) -> bool {
        let mut skews = variant.skewed.iter().map(|tensor| self.0.get(*tensor));
        let first = skews.next();
        skews.all(|skew| Some(skew) == first)
    }
}

/// Whether the variant takes rows as long as these. What it takes in one step has one: a loop over nothing has none.
pub(super) fn has_room(variant: &Variant, sizes: &Sizes) -> bool {
    variant.longest.is_none_or(|axis| (1..=u64::from(axis.block)).contains(&sizes.product(axis.dims)))
}

/// How many blocks take whole rows in turn, where so many run at a time: the rows of each begin equally far past a line of memory, if so many
/// blocks do, and surely past a chunk.
pub(super) fn alike_in_turn(variant: &Variant, tensors: &Tensors<'_>, at_a_time: u32) -> u32 {
    let all = || variant.skewed.iter().filter_map(|tensor| tensors.get(*tensor));
    let by_lines = all().map(|tensor| rows_until_alike(tensor, LINE as usize)).max().unwrap_or(1);
    let by_chunks = all().map(|tensor| rows_until_alike(tensor, CHUNK * tensor.dtype().bytes())).max().unwrap_or(1);
    let rows = if by_lines <= at_a_time { by_lines } else { by_chunks };
    (at_a_time / rows * rows).max(by_chunks)
}

/// Of a matrix: from one row to the next that begins equally far past a multiple of so many bytes, a power of two.
fn rows_until_alike(tensor: &RawTensor, bytes: usize) -> u32 {
    let stride = tensor.layout().strides().first().map_or(0, |stride| stride * tensor.dtype().bytes());
    let left = 1 << stride.trailing_zeros().min(bytes.ilog2());
    (bytes / left) as u32
}

fn skew_of(tensor: &RawTensor) -> u32 {
    let layout = tensor.layout();
    let outer = layout.rank().saturating_sub(1);
    let axes = layout.sizes().iter().zip(layout.strides()).take(outer);
    let first = tensor.device_address() as usize / tensor.dtype().bytes();
    // The stride of an axis of one element is never taken.
    axes.fold((first % CHUNK) as u32, |all, (size, stride)| {
        all << 3 | if *size > 1 { (stride % CHUNK) as u32 } else { 0 }
    })
}

/// Whether rows begin or end elsewhere than at multiples of eight bytes: whole vectors of them are too short then, or lie across chunks.
pub(super) fn are_ragged(variant: &Variant, tensors: &Tensors<'_>) -> bool {
    let all = variant.skewed.iter().filter_map(|tensor| tensors.get(*tensor));
    all.map(row_alignment_of).min().unwrap_or(TMA_ALIGNMENT) < TMA_ALIGNMENT / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::dtype::Dtype;
    use crate::plan::GridAxis;
    use crate::tensor::Layout;

    const BOTH: Variant = Variant { skewed: &[0, 1], ..Variant::of_source("rows", "", 128) };

    /// Whether rows of these serve, and whether they are ragged: dtype, address, sizes, strides.
    fn says(a: (Dtype, usize, [usize; 2], [usize; 2]), b: (Dtype, usize, [usize; 2], [usize; 2])) -> (bool, bool) {
        let tensor = |(dtype, address, sizes, strides): (Dtype, usize, [usize; 2], [usize; 2])| {
            let layout = Layout::strided(&sizes, &strides).unwrap();
            RawTensor::borrowing(dtype, layout, std::ptr::without_provenance_mut(address), Device::cpu())
        };
        let (a, b) = (tensor(a), tensor(b));
        let mut tensors = Tensors::new();
        [&a, &b].into_iter().for_each(|tensor| tensors.push(tensor));
        (Skews::of(&tensors).serve(&BOTH), are_ragged(&BOTH, &tensors))
    }

    #[test]
    fn rows_lie_alike_by_elements() {
        let odd = |dtype, address| (dtype, address, [8, 67], [67, 1]);
        assert_eq!(says(odd(Dtype::F16, 0x1000), odd(Dtype::F16, 0x2000)), (true, true));
        assert_eq!(says(odd(Dtype::F16, 0x1000), odd(Dtype::F16, 0x2002)), (false, true), "one address");
        assert_eq!(says(odd(Dtype::F16, 0x1002), odd(Dtype::F32, 0x2004)), (true, true), "an element past a chunk");
        let padded = (Dtype::F16, 0x2000, [8, 67], [72, 1]);
        assert_eq!(says(odd(Dtype::F16, 0x1000), padded), (false, true), "a stride");
        let congruent = (Dtype::F16, 0x2000, [8, 67], [75, 1]);
        assert_eq!(says(odd(Dtype::F16, 0x1000), congruent), (true, true), "another one that leaves as much");
        assert_eq!(says((Dtype::F16, 0x1000, [1, 67], [67, 1]), (Dtype::F16, 0x2000, [1, 67], [72, 1])), (true, true));
    }

    #[test]
    fn rows_are_taken_from_one_element_to_the_longest() {
        const WHOLE: Variant = Variant { longest: Some(GridAxis { dims: &[1], block: 263 }), ..BOTH };
        let has_room_for = |columns| has_room(&WHOLE, &Sizes::of(&[8, columns]));
        assert_eq!([0, 1, 263, 264].map(has_room_for), [false, true, true, false]);
        assert!(has_room(&BOTH, &Sizes::of(&[8, 264])));
    }

    #[test]
    fn blocks_take_rows_that_lie_alike() {
        let blocks = |dtype: Dtype, columns: usize, at_a_time| {
            let layout = Layout::strided(&[1000, columns], &[columns, 1]).unwrap();
            let rows = RawTensor::borrowing(dtype, layout, std::ptr::without_provenance_mut(0x1000), Device::cpu());
            let mut tensors = Tensors::new();
            tensors.push(&rows);
            alike_in_turn(&Variant { skewed: &[0], ..BOTH }, &tensors, at_a_time)
        };
        assert_eq!([64, 96, 100, 66, 67].map(|columns| blocks(Dtype::F16, columns, 132)), [132, 132, 128, 128, 128]);
        assert_eq!(blocks(Dtype::F32, 67, 132), 128, "32 floats a line");
        assert_eq!(blocks(Dtype::F16, 67, 60), 56, "a line has more rows than blocks run: alike by chunks");
        assert_eq!(blocks(Dtype::F16, 67, 6), 8, "no fewer than that, though not all at a time");
    }

    #[test]
    fn rows_of_whole_vectors_are_not_ragged() {
        let rows = |columns| (Dtype::F16, 0x1000, [8, columns], [columns, 1]);
        assert_eq!([64, 68, 66, 67].map(|columns| says(rows(columns), rows(columns)).1), [false, false, true, true]);
        let padded = (Dtype::F16, 0x1000, [8, 67], [72, 1]);
        assert!(says(padded, padded).1, "an end cuts a vector");
    }
}
