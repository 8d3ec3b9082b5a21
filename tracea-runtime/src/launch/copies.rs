//! Operands that a launch copies first, since a kernel cannot fetch them as they lie, or computes first, since its blocks would each
//! compute them again; and results that it copies afterwards, since a kernel would write them element by element as they lie.
//!
//! ```text
//! a (8191, 8191) of f16, rows of 16382 bytes ─realign──▶ the stream's room: rows of 16384 bytes, all sizes as they were ─TMA─▶ tiles
//! b (k, n) of f32, which wgmma wants along k ─transpose▶ the stream's room: (n, k), rows at multiples of 16 bytes       ─TMA─▶ tiles
//! w (n, k) of i32 ─a kernel of its own: (w − zero) as f16▶ the stream's room: an operand (n, k) that no argument is      ─TMA─▶ tiles
//! tiles of y (m, n, c) for each c ─TMA─▶ the stream's room: (m, c, n)                                                   ─transpose▶ y
//! ```
//! A copy costs memory's bandwidth once; what it saves are a warpgroup's threads that would copy each tile through registers, or
//! products by slower instructions.

use super::alignment::{Alignments, LINE, TMA_ALIGNMENT};
use super::arg::{List, MAX_TENSORS};
use super::check::{Sizes, Tensors};
use super::tensor_map::MOST_AXES;
use crate::cuda::MOST_ROOM;
use crate::dtype::Dtype;
use crate::plan::{Arg, KernelDef, Precomputed, Relaid, Variant};
use crate::tensor::{Layout, RawTensor};

/// Of one launch: what `device/realign.cuh` and `device/transpose.cuh` take.
pub(super) const MOST_COPIES: usize = 4;

/// Of a row, what its copy may be longer by, one part in so many.
const PADDED: usize = 8;

/// Bytes, read and written, that copying moves in a cycle for each multiprocessor: 3.5 TB/s of an H200 at 1.75 GHz.
const MOVED_BYTES: u64 = 15;
/// Cycles from one kernel's end to the next one's full speed: 3 µs.
const LAUNCH: u64 = 5000;

/// The copies of a launch, one behind the other in the room.
#[derive(Clone, Copy)]
pub(crate) struct Copies {
    copies: List<Copied, MOST_COPIES>,
    /// That they take.
    bytes: u64,
    /// That are read and written.
    moved: u64,
}

/// A tensor's copy, or a computed operand.
#[derive(Clone, Copy)]
pub(super) struct Copied {
    /// An operand's is behind the launch's own.
    pub tensor: usize,
    pub dtype: Dtype,
    pub way: Way,
    /// The axis of the tensor that is the copy's last; the others stay in order.
    pub last: usize,
    /// Of the copy.
    pub layout: Layout,
    /// Bytes from the room's begin.
    pub offset: u64,
}

/// Which kernel makes a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Rows as they are, each at a multiple of 16 bytes.
    Realigned,
    /// Such rows along another axis.
    Transposed,
    /// The same, which the kernel writes: what it is a copy of comes of it afterwards.
    TurnedBack,
    /// By a kernel of the operand's own.
    Computed,
}

/// Tensors in the place of some of a launch's, by position. That there are none takes no time to say, since most launches have none.
pub(super) struct Replaced(Option<[Option<RawTensor>; MAX_TENSORS]>);

impl Copied {
    /// From row to row.
    pub fn alignment(&self) -> u32 {
        let outer = self.layout.strides().iter().take(self.layout.rank().saturating_sub(1));
        let all = outer.fold(u64::from(LINE), |all, stride| all | (stride * self.dtype.bytes()) as u64);
        1 << all.trailing_zeros()
    }
}

impl Copies {
    pub fn none() -> Copies {
        Copies { copies: List::new(), bytes: 0, moved: 0 }
    }

    /// Of all tensors that the variant reads laid anew, and its computed operands; nothing where there is no room for one of them.
    pub fn needed(
        variant: &Variant,
        operands: &'static [Precomputed],
        sizes: &Sizes,
        tensors: &Tensors<'_>,
    ) -> Option<Copies> {
        let operands = if variant.precomputed { operands } else { &[] };
        let computed =
            operands.iter().try_fold(Copies::none(), |all, operand| all.with_operand(operand, sizes, tensors));
        let with = |all: Copies, &Relaid { tensor, last, written }: &Relaid| {
            let raw = tensors.get(tensor)?;
            if written { all.with_result(tensor, raw, last) } else { all.with(tensor, raw, last) }
        };
        variant.relaid.iter().try_fold(computed?, with)
    }

    /// And of all operands of products that the variant would fetch by TMA and whose rows are aligned to less; of none where one of them
    /// cannot be copied, since tiles that come together come by the same way. What only a result takes in comes apart from them and
    /// once: a copy would move as many bytes as threads that read it, and the model has no price for either.
    pub fn with_misaligned(
        &self,
        kernel: &KernelDef,
        variant: &Variant,
        tensors: &Tensors<'_>,
        alignments: &Alignments,
        wanted: u32,
    ) -> Copies {
        let mut all = *self;
        for arg in variant.args {
            let tensor = match *arg {
                Arg::TensorMap { tensor, .. } => tensor,
                Arg::WindowMap(window) => match variant.windows.get(window) {
                    Some(window) => window.tensor,
                    None => continue,
                },
                _ => continue,
            };
            let is_input = kernel.tensors.get(tensor).is_some_and(|def| def.reads && !def.writes);
            let is_operand = variant.cost.fetches.iter().any(|fetch| fetch.tensor == tensor);
            if !is_input || !is_operand || alignments.of_lines(tensor) >= wanted || all.has(tensor) {
                continue;
            }
            let raw = tensors.get(tensor).filter(|raw| !raw.layout().is_empty());
            match raw.and_then(|raw| all.with(tensor, raw, raw.layout().rank().checked_sub(1)?)) {
                Some(more) => all = more,
                None => return *self,
            }
        }
        all
    }

    fn with(self, tensor: usize, raw: &RawTensor, last: usize) -> Option<Copies> {
        let (layout, dtype) = (raw.layout(), raw.dtype());
        let way = if last + 1 == layout.rank() { Way::Realigned } else { Way::Transposed };
        let copied =
            Copied { tensor, dtype, way, last, layout: relaid(layout, last, dtype.bytes())?, offset: self.bytes };
        self.beside(copied, bytes_of(raw))
    }

    /// Of a result whose axes but the last two lie evenly behind each other, and whose rows lie no further apart than the kernel counts.
    fn with_result(self, tensor: usize, raw: &RawTensor, last: usize) -> Option<Copies> {
        let (layout, dtype) = (raw.layout(), raw.dtype());
        let (sizes, strides) = (layout.sizes(), layout.strides());
        let is_even = |axis: usize| strides[axis + 1].checked_mul(sizes[axis + 1]) == Some(strides[axis]);
        if last + 2 != layout.rank() || !(0..last).all(is_even) || i32::try_from(strides[last]).is_err() {
            return None;
        }
        let copy = relaid(layout, last, dtype.bytes())?;
        self.beside(
            Copied { tensor, dtype, way: Way::TurnedBack, last, layout: copy, offset: self.bytes },
            bytes_of(raw),
        )
    }

    fn with_operand(self, operand: &'static Precomputed, sizes: &Sizes, tensors: &Tensors<'_>) -> Option<Copies> {
        let KernelDef { tensors: defs, .. } = operand.kernel;
        let (def, others) = defs.split_last()?;
        let (dtype, last) = (def.dtype?, def.dims.len().checked_sub(1)?);
        let axes: Vec<usize> = def.dims.iter().map(|dim| sizes.get(*dim)).collect();
        let layout = padded(&axes, dtype.bytes())?;
        let copied = Copied { tensor: others.len(), dtype, way: Way::Computed, last, layout, offset: self.bytes };
        let read = others.iter().zip(tensors.iter()).filter(|(def, _)| def.reads).map(|(_, raw)| bytes_of(raw));
        self.beside(copied, read.sum())
    }

    /// Behind the others in the room, from so many bytes.
    fn beside(mut self, copied: Copied, read: u64) -> Option<Copies> {
        let Copied { layout, dtype, .. } = copied;
        self.copies.push(copied);
        let room = layout.sizes().first().zip(layout.strides().first()).map_or(0, |(size, stride)| size * stride);
        // An empty tensor's copy has a place too, at which nothing is read.
        let room = (room * dtype.bytes()).max(1).next_multiple_of(TMA_ALIGNMENT as usize) as u64;
        self.bytes += room;
        self.moved += room + read;
        (self.copies.len() <= MOST_COPIES && self.bytes <= MOST_ROOM).then_some(self)
    }

    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Whether any is made before the kernel runs.
    pub fn come_first(&self) -> bool {
        self.iter().any(|copied| copied.way != Way::TurnedBack)
    }

    pub fn count(&self) -> usize {
        self.copies.len()
    }

    pub fn has(&self, tensor: usize) -> bool {
        self.iter().any(|copied| copied.tensor == tensor)
    }

    pub(super) fn has_any(&self, way: Way) -> bool {
        self.by(way).next().is_some()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Copied> + '_ {
        self.copies.iter()
    }

    /// Those that one kernel makes.
    pub(super) fn by(&self, way: Way) -> impl Iterator<Item = Copied> + '_ {
        self.iter().filter(move |copied| copied.way == way)
    }

    /// Of the room.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Read and written.
    pub fn moved_bytes(&self) -> u64 {
        self.moved
    }

    /// What making them takes, in clock cycles.
    pub fn cycles(&self, multiprocessors: u32) -> u64 {
        let copying =
            [Way::Realigned, Way::Transposed, Way::TurnedBack].into_iter().filter(|way| self.has_any(*way)).count();
        let launches = copying + self.by(Way::Computed).count();
        launches as u64 * LAUNCH + self.moved / (MOVED_BYTES * u64::from(multiprocessors))
    }

    /// As tensors, where the room is at this address.
    pub(super) fn in_room(&self, address: u64, tensors: &Tensors<'_>) -> Replaced {
        // As most launches: what is said so is not moved as a whole list.
        if self.is_empty() {
            return Replaced::none();
        }
        let mut replaced = Replaced::none();
        for Copied { tensor, dtype, layout, offset, .. } in self.iter() {
            if let Some(raw) = tensors.get(tensor).or_else(|| tensors.get(0)) {
                let start = std::ptr::without_provenance_mut((address + offset) as usize);
                replaced.put(tensor, RawTensor::borrowing(dtype, layout, start, raw.device().clone()));
            }
        }
        replaced
    }
}

impl Replaced {
    pub fn none() -> Replaced {
        Replaced(None)
    }

    pub fn put(&mut self, position: usize, tensor: RawTensor) {
        let all = self.0.get_or_insert([const { None }; MAX_TENSORS]);
        if let Some(slot) = all.get_mut(position) {
            *slot = Some(tensor);
        }
    }

    /// And computed operands behind them.
    pub fn among<'a>(&'a self, tensors: &Tensors<'a>) -> Tensors<'a> {
        let Some(replaced) = &self.0 else { return *tensors };
        let mut all = Tensors::new();
        for (position, tensor) in tensors.iter().enumerate() {
            all.push(replaced.get(position).and_then(Option::as_ref).unwrap_or(tensor));
        }
        replaced.iter().skip(tensors.len()).flatten().for_each(|operand| all.push(operand));
        all
    }
}

/// Row-major with this axis last, each row at a multiple of 16 bytes, and of as much of a line as makes it little longer; nothing where
/// TMA could not fetch it or its size not be counted.
pub(super) fn relaid(layout: &Layout, last: usize, element_bytes: usize) -> Option<Layout> {
    let rank = layout.rank();
    if last >= rank || rank > MOST_AXES {
        return None;
    }
    let mut sizes = [1; MOST_AXES];
    let order = (0..rank).filter(|axis| *axis != last).chain([last]);
    order.zip(&mut sizes).for_each(|(axis, size)| *size = layout.sizes()[axis]);
    padded(&sizes[..rank], element_bytes)
}

/// Such rows of these sizes.
fn padded(sizes: &[usize], element_bytes: usize) -> Option<Layout> {
    let rank = sizes.len();
    if rank == 0 || rank > MOST_AXES {
        return None;
    }
    let mut strides = [1; MOST_AXES];
    let row = sizes[rank - 1].max(1);
    let multiple_of = |bytes: u32| row.checked_next_multiple_of(bytes as usize / element_bytes);
    let little_longer = |bytes: u32| multiple_of(bytes).filter(|padded| padded - row <= row / PADDED);
    let mut next =
        [LINE, LINE / 2, LINE / 4].into_iter().find_map(little_longer).or_else(|| multiple_of(TMA_ALIGNMENT))?;
    for axis in (0..rank - 1).rev() {
        strides[axis] = next;
        next = next.checked_mul(sizes[axis].max(1))?;
    }
    (next as u64 <= MOST_ROOM).then_some(())?;
    Layout::strided(sizes, &strides[..rank]).ok()
}

fn bytes_of(raw: &RawTensor) -> u64 {
    (raw.layout().elements() * raw.dtype().bytes()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::launch::KernelSlot;
    use crate::launch::tensor_map::{fetchable, merges};
    use crate::plan::{Cost, Fetch, TensorDef, Window};
    use std::slice;

    const BOXES: &[u32] = &[128, 64];

    static KERNEL: KernelDef = KernelDef {
        name: "product",
        file: "product.rs",
        line: 1,
        dims: &[],
        tensors: &[input("a", 0), input("b", 1), input("residual", 2), TensorDef { writes: true, ..input("c", 3) }],
        scalars: &[],
        selectors: &[],
        instances: &[],
    };

    const fn input(name: &'static str, position: usize) -> TensorDef {
        TensorDef { name, position, dtype: None, dims: &[0, 1], reads: true, writes: false }
    }

    const fn fetch(tensor: usize) -> Fetch {
        Fetch {
            tensor,
            bytes: 128 * 64 * 2,
            row_bytes: 128,
            blocks: 1,
            scattered: 0,
            narrow: None,
            short: None,
            over: &[],
        }
    }

    const fn map(tensor: usize) -> Arg {
        Arg::TensorMap { tensor, merged: 1, boxes: BOXES, narrow: false, short: false }
    }

    /// Multiplies `a`, which comes by windows, and `b`, takes in `residual`, and writes `c`, all by boxes.
    const VARIANT: Variant = Variant {
        target: "sm_90a",
        persistent: true,
        cost: Cost {
            once: 0,
            ending: 0,
            alone: 0,
            resident: 1,
            steps: &[],
            fetches: &[fetch(0), fetch(1)],
            growing: None,
        },
        args: &[Arg::Pointer(2), Arg::WindowMap(0), map(1), map(1), map(2), map(3)],
        aligned: &[0, 1, 2, 3],
        windows: &[Window { tensor: 0, rows: 128, channels: 64, narrow: false, axes: &[] }],
        ..Variant::of_source("product", "", 384)
    };

    fn tensor(dtype: Dtype, address: usize, sizes: &[usize], strides: &[usize]) -> RawTensor {
        let start = std::ptr::without_provenance_mut(address);
        RawTensor::borrowing(dtype, Layout::strided(sizes, strides).unwrap(), start, Device::cpu())
    }

    fn dense(sizes: &[usize]) -> RawTensor {
        tensor(Dtype::F16, 0x1000, sizes, Layout::contiguous(sizes).unwrap().strides())
    }

    fn copies(tensors: [&RawTensor; 4]) -> Vec<(usize, Vec<usize>, u64)> {
        with_copies(tensors, |copies, _| {
            copies.iter().map(|copied| (copied.tensor, copied.layout.strides().to_vec(), copied.offset)).collect()
        })
    }

    fn with_copies<R>(tensors: [&RawTensor; 4], look: impl FnOnce(&Copies, &Tensors<'_>) -> R) -> R {
        let mut list = Tensors::new();
        tensors.into_iter().for_each(|tensor| list.push(tensor));
        let copies = Copies::none().with_misaligned(&KERNEL, &VARIANT, &list, &Alignments::of(&list), TMA_ALIGNMENT);
        look(&copies, &list)
    }

    #[test]
    fn what_tma_cannot_fetch_as_it_lies_is_copied() {
        let (odd, even) = (dense(&[10, 67]), dense(&[10, 64]));
        assert_eq!(copies([&even, &even, &odd, &odd]), [], "others are no operands, or are written");
        assert_eq!(copies([&even, &odd, &even, &even]), [(1, vec![72, 1], 0)]);
        assert_eq!(copies([&even, &dense(&[10, 1027]), &even, &even]), [(1, vec![1088, 1], 0)], "whole lines");
        let images = dense(&[2, 5, 7, 3]);
        let strides = vec![5 * 7 * 8, 7 * 8, 8, 1];
        assert_eq!(
            copies([&images, &odd, &even, &even]),
            [(0, strides, 0), (1, vec![72, 1], 2 * 5 * 7 * 8 * 2)],
            "a row is 16 bytes, and one copy begins where the other ends"
        );
        let shifted = tensor(Dtype::F32, 0x1004, &[10, 64], &[64, 1]);
        assert_eq!(copies([&even, &shifted, &even, &even]), [(1, vec![64, 1], 0)]);
    }

    #[test]
    fn all_are_copied_or_none() {
        let (odd, even) = (dense(&[10, 67]), dense(&[10, 64]));
        let empty = tensor(Dtype::F16, 0x1002, &[10, 0], &[1, 1]);
        assert_eq!(copies([&empty, &odd, &even, &even]), []);
        let deep = dense(&[2, 2, 2, 2, 2, 3]);
        assert_eq!(copies([&deep, &odd, &even, &even]), [], "more axes than a tensor map has");
        let large = dense(&[1 << 15, (1 << 14) - 1]);
        assert_eq!(copies([&large, &even, &even, &even]), [(0, vec![1 << 14, 1], 0)], "as much as there is room for");
        assert_eq!(copies([&large, &odd, &even, &even]), []);
        let larger = tensor(Dtype::F16, 0x1000, &[1 << 40, 1 << 14], &[0, 1]);
        assert_eq!(copies([&larger, &even, &even, &even]), []);
    }

    /// Of a variant that reads `b` with its first axis last: tensors, strides and ways.
    fn relaid_copies(b: &RawTensor, a: &RawTensor) -> Option<Vec<(usize, Vec<usize>, Way)>> {
        const RELAID: Variant = Variant { relaid: &[Relaid { tensor: 1, last: 0, written: false }], ..VARIANT };
        let mut list = Tensors::new();
        [a, b, b, b].into_iter().for_each(|tensor| list.push(tensor));
        let needed = Copies::needed(&RELAID, &[], &Sizes::of(&[]), &list)?;
        let copies = needed.with_misaligned(&KERNEL, &RELAID, &list, &Alignments::of(&list), TMA_ALIGNMENT);
        Some(copies.iter().map(|copied| (copied.tensor, copied.layout.strides().to_vec(), copied.way)).collect())
    }

    #[test]
    fn what_a_variant_reads_laid_anew_is_copied_in_any_case() {
        let f32s = |sizes: &[usize]| tensor(Dtype::F32, 0x1000, sizes, Layout::contiguous(sizes).unwrap().strides());
        let (even, odd) = (f32s(&[10, 64]), f32s(&[10, 67]));
        let turned = (1, vec![12, 1], Way::Transposed);
        assert_eq!(relaid_copies(&even, &even).unwrap(), slice::from_ref(&turned));
        assert_eq!(relaid_copies(&odd, &even).unwrap(), slice::from_ref(&turned), "whatever its alignment");
        let realigned = (0, vec![72, 1], Way::Realigned);
        assert_eq!(relaid_copies(&odd, &odd).unwrap(), [turned, realigned]);
        let batched = relaid_copies(&f32s(&[6, 3, 5]), &even).unwrap();
        assert_eq!(batched, [(1, vec![40, 8, 1], Way::Transposed)], "(3, 5, 6)");
        assert_eq!(relaid_copies(&f32s(&[0, 64]), &even).unwrap().len(), 1, "though there is nothing to copy");
        let halves = relaid_copies(&dense(&[10, 64]), &even).unwrap();
        assert_eq!(halves, [(1, vec![16, 1], Way::Transposed)], "of two bytes each");
    }

    #[test]
    fn what_cannot_be_laid_anew_leaves_no_copies() {
        let even = dense(&[10, 64]);
        let large = tensor(Dtype::F32, 0x1000, &[1 << 14, (1 << 14) + 1], &[1 << 15, 1]);
        assert_eq!(relaid_copies(&large, &even), None, "more than there is room for");
    }

    #[test]
    fn results_are_copied_back_where_they_lie_evenly() {
        const TURNED: Variant = Variant { relaid: &[Relaid { tensor: 3, last: 1, written: true }], ..VARIANT };
        let even = dense(&[10, 64]);
        let copies = |strides: &[usize]| {
            let mut list = Tensors::new();
            let result = tensor(Dtype::F16, 0x1000, &[6, 30, 5], strides);
            [&even, &even, &even, &result].into_iter().for_each(|tensor| list.push(tensor));
            let copies = Copies::needed(&TURNED, &[], &Sizes::of(&[]), &list)?;
            assert!(!copies.come_first() && copies.has_any(Way::TurnedBack));
            copies.iter().next().map(|copied| copied.layout)
        };
        let copy = copies(&[150, 5, 1]).expect("a copy");
        assert_eq!((copy.sizes(), copy.strides()), (&[6, 5, 30][..], &[160, 32, 1][..]), "rows of whole chunks");
        assert_eq!(copies(&[180, 6, 1]), Some(copy), "columns that are others' lie between");
        assert_eq!(copies(&[151, 5, 1]), None, "rows that are others' lie between");
        assert_eq!(copies(&[30 << 31, 1 << 31, 1]), None, "further than 31 bits count");
    }

    #[test]
    fn what_is_computed_stands_behind_the_others() {
        static SLOT: KernelSlot = KernelSlot::new();
        static WEIGHTS: KernelDef = KernelDef {
            name: "product_weights",
            tensors: &[
                TensorDef { reads: false, ..input("a", 0) },
                input("b", 1),
                TensorDef { dtype: Some(Dtype::F16), dims: &[1, 0], writes: true, ..input("weights", 2) },
            ],
            ..KERNEL
        };
        static OPERANDS: &[Precomputed] = &[Precomputed { kernel: &WEIGHTS, slot: &SLOT }];
        const VARIANT_OF_OPERANDS: Variant = Variant { precomputed: true, ..VARIANT };
        let (even, packed) = (dense(&[10, 64]), tensor(Dtype::I32, 0x1000, &[10, 8], &[8, 1]));
        let mut list = Tensors::new();
        [&even, &packed].into_iter().for_each(|tensor| list.push(tensor));
        let needed = |variant, sizes| Copies::needed(variant, OPERANDS, &Sizes::of(sizes), &list);
        assert!(needed(&VARIANT, &[10, 67]).unwrap().is_empty(), "who computes it itself");
        let copies = needed(&VARIANT_OF_OPERANDS, &[10, 67]).unwrap();
        let told: Vec<_> = copies.iter().map(|copied| (copied.tensor, copied.way, copied.layout)).collect();
        assert_eq!(told, [(2, Way::Computed, Layout::strided(&[67, 10], &[16, 1]).unwrap())]);
        assert_eq!((copies.bytes(), copies.moved_bytes()), (67 * 16 * 2, 67 * 16 * 2 + 10 * 8 * 4), "b is read");
        let replaced = copies.in_room(0x20000, &list);
        let all = replaced.among(&list);
        assert_eq!((all.len(), all.get(2).map(|operand| operand.device_address())), (3, Some(0x20000)));
        assert!(needed(&VARIANT_OF_OPERANDS, &[1 << 15, 1 << 15]).is_none(), "more than there is room for");
    }

    #[test]
    fn copies_stand_for_their_tensors() {
        let (odd, even) = (dense(&[4, 5, 67]), dense(&[10, 64]));
        with_copies([&even, &odd, &even, &odd], |copies, tensors| {
            assert_eq!((copies.bytes(), copies.moved_bytes()), (4 * 5 * 72 * 2, 4 * 5 * (72 + 67) * 2));
            let replaced = copies.in_room(0x20000, tensors);
            let all = replaced.among(tensors);
            assert_eq!(all.len(), 4);
            let addresses: Vec<u64> = all.iter().map(|tensor| tensor.device_address()).collect();
            assert_eq!(addresses, [0x1000, 0x20000, 0x1000, 0x1000]);
            let copy = all.get(1).unwrap();
            assert!(fetchable(copy) && !fetchable(&odd));
            assert!(merges(copy, 2), "leading axes still count as one");
            assert_eq!(copy.layout().sizes(), odd.layout().sizes());
        });
    }
}
