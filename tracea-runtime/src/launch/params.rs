//! A kernel's parameters as the driver reads them: one after the other, without heap memory.

use super::arg::Scalar;
use super::check::{Scalars, Sizes, Tensors, check_index};
use super::skew::CHUNK;
use super::tensor_map::{EncodedMaps, UNUSED_MAP, box_map, window_map};
use super::window::Windows;
use crate::error::{Error, Result};
use crate::plan::{Arg, GridAxis, Variant};
use std::cell::OnceCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// What every CUDA device takes.
const CAPACITY: usize = 4096;

/// More than any kernel has: tensors, their strides and maps, sizes and scalars.
pub(crate) const MOST_PARAMETERS: usize = 256;

/// Where parameters and pointers to them are written; nothing of it is cleared before, which would take longer than writing what most kernels
/// have.
#[repr(C, align(64))]
pub(crate) struct ParameterRoom {
    bytes: [MaybeUninit<u8>; CAPACITY],
    pointers: [MaybeUninit<*mut c_void>; MOST_PARAMETERS],
}

impl ParameterRoom {
    pub fn new() -> ParameterRoom {
        ParameterRoom {
            bytes: [const { MaybeUninit::uninit() }; CAPACITY],
            pointers: [const { MaybeUninit::uninit() }; MOST_PARAMETERS],
        }
    }
}

pub(crate) struct Parameters<'r> {
    room: &'r mut ParameterRoom,
    /// Bytes, and parameters, that are written.
    len: usize,
    count: usize,
}

/// Parameters of a plan's launch as they were packed before. All of them follow from the plan, but for those that change.
pub(crate) struct Packed {
    bytes: Box<[u8]>,
    starts: Box<[usize]>,
    /// Positions among the variant's.
    changing: Box<[usize]>,
}

/// Whether the parameter may differ from one launch to the next by the same plan: by addresses, or by a number that is only passed on.
fn changes(arg: &Arg) -> bool {
    match arg {
        Arg::Pointer(_) | Arg::TensorMap { .. } | Arg::WindowMap(_) | Arg::Scalar(_) => true,
        Arg::Workspace | Arg::Arrivals | Arg::Taken => true,
        Arg::Stride(..) | Arg::Extent(_) | Arg::DivideByDims(_) | Arg::DivideByBlocks(_) => false,
        Arg::DivideByLastGroup(..) | Arg::DivideByRowsTogether | Arg::WindowCorner(..) | Arg::KeptColumns => false,
        Arg::Parts | Arg::DivideByParts | Arg::WholeTiles | Arg::DivideByCutTiles => false,
    }
}

/// Division by a number that is known at launch, as `device/fast_div.cuh` does it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FastDiv {
    pub divisor: u32,
    pub multiplier: u32,
    pub shift: u32,
}

impl FastDiv {
    /// For quotients of 0 ..= i32::MAX; 0 counts as 1, since nothing is divided by it.
    pub fn new(divisor: u32) -> FastDiv {
        let divisor = divisor.clamp(1, i32::MAX as u32);
        let shift = 32 - (divisor - 1).leading_zeros();
        let multiplier = ((((1u64 << shift) - u64::from(divisor)) << 32) / u64::from(divisor) + 1) as u32;
        FastDiv { divisor, multiplier, shift }
    }
}

/// Blocks along a grid axis.
pub(crate) fn blocks(axis: &GridAxis, sizes: &Sizes) -> u64 {
    sizes.product(axis.dims).div_ceil(u64::from(axis.block.max(1)))
}

/// What a launch's parameters are made of.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub variant: &'a Variant,
    pub sizes: &'a Sizes,
    pub tensors: &'a Tensors<'a>,
    pub scalars: &'a Scalars,
    pub windows: &'a Windows,
    pub maps: &'a EncodedMaps,
    pub cut: Cut,
}

/// How a launch cuts its tiles: the first ones are whole, and the loop of each of the others is cut into so many parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    pub whole: u32,
    pub parts: u32,
}

impl Shares {
    pub const WHOLE: Shares = Shares { whole: 0, parts: 1 };

    /// How many tiles are cut.
    pub fn cut(self, tiles: u64) -> u64 {
        tiles.saturating_sub(u64::from(self.whole))
    }

    /// What blocks have to do, in tiles and parts of tiles.
    pub fn units(self, tiles: u32) -> u32 {
        self.whole + self.cut(u64::from(tiles)) as u32 * self.parts
    }
}

/// That, where blocks leave parts and count, and in which order tiles are visited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub shares: Shares,
    pub arrivals: u64,
    pub workspace: u64,
    /// A count of units that blocks have taken.
    pub taken: u64,
    pub rows_together: u32,
}

impl Cut {
    pub const WHOLE: Cut = Cut { shares: Shares::WHOLE, arrivals: 0, workspace: 0, taken: 0, rows_together: 1 };
}

/// Blocks of columns that threads keep.
fn kept_blocks(variant: &Variant, sizes: &Sizes, parts: u32) -> u32 {
    let Some(kept) = variant.kept else { return 0 };
    // Rows that begin inside a chunk are walked from where that begins.
    let before = if variant.skewed.is_empty() { 0 } else { CHUNK as u64 - 1 };
    let columns = match sizes.product(kept.columns.dims) {
        0 => 0,
        columns => columns.saturating_add(before),
    };
    let blocks = columns.div_ceil(u64::from(kept.columns.block.max(1)));
    let share = match parts {
        1 => blocks,
        // Parts differ by one block at most.
        parts => blocks.div_ceil(u64::from(parts)),
    };
    share.min(u64::from(kept.most_blocks)) as u32
}

/// Dynamic shared memory of a launch, bytes.
pub(crate) fn shared_bytes(variant: &Variant, sizes: &Sizes, parts: u32) -> u32 {
    variant.shared_bytes_with(kept_blocks(variant, sizes, parts))
}

/// Tiles of a launch, with those outside that make whole clusters.
pub(super) fn tile_count(variant: &Variant, sizes: &Sizes) -> u64 {
    variant.grid.iter().enumerate().fold(1, |total: u64, (at, axis)| {
        let blocks = blocks(axis, sizes);
        let whole = if variant.paired == Some(at) { u64::from(variant.cluster.max(1)) } else { 1 };
        total.saturating_mul(blocks.next_multiple_of(whole))
    })
}

/// The same, checked; 0 where there is nothing to do.
pub(super) fn tiles(kernel: &'static str, variant: &Variant, sizes: &Sizes) -> Result<u32> {
    for axis in variant.grid {
        let size = sizes.product(axis.dims);
        check_index(|| format!("an axis of `{kernel}`'s grid"), size)?;
    }
    let total = tile_count(variant, sizes);
    check_index(|| format!("the number of thread blocks of `{kernel}`"), total)?;
    Ok(total as u32)
}

impl<'r> Parameters<'r> {
    /// Packs them in the room; `known` has what an earlier launch by the same plan packed.
    pub fn pack(given: &Given<'_>, room: &'r mut ParameterRoom, known: &OnceCell<Packed>) -> Result<Parameters<'r>> {
        let mut parameters = Parameters { room, len: 0, count: 0 };
        match known.get() {
            Some(packed) => parameters.repeat(packed, given)?,
            None => {
                let packed = parameters.pack_all(given)?;
                known.get_or_init(|| packed);
            }
        }
        Ok(parameters)
    }

    fn pack_all(&mut self, given: &Given<'_>) -> Result<Packed> {
        let args = given.variant.args;
        let mut starts = Vec::with_capacity(args.len());
        for (place, arg) in args.iter().enumerate() {
            let start = self.len.next_multiple_of(alignment(arg));
            self.push(place, arg, given)?;
            self.point(place, start)?;
            starts.push(start);
        }
        let changing = args.iter().enumerate().filter(|(_, arg)| changes(arg)).map(|(place, _)| place).collect();
        Ok(Packed { bytes: self.bytes().into(), starts: starts.into(), changing })
    }

    fn repeat(&mut self, packed: &Packed, given: &Given<'_>) -> Result<()> {
        self.put_bytes(0, &packed.bytes)?;
        for &place in &packed.changing {
            let (Some(arg), Some(start)) = (given.variant.args.get(place), packed.starts.get(place)) else {
                return unplanned();
            };
            self.len = *start;
            self.push(place, arg, given)?;
        }
        self.len = packed.bytes.len();
        packed.starts.iter().enumerate().try_for_each(|(place, start)| self.point(place, *start))
    }

    /// The parameter at this place begins so many bytes from the first one, until all are written.
    fn point(&mut self, place: usize, start: usize) -> Result<()> {
        let Some(pointer) = self.room.pointers.get_mut(place) else {
            return Err(Error::Shape(format!(
                "the kernel has more than {MOST_PARAMETERS} parameters -- pass fewer tensors"
            )));
        };
        pointer.write(std::ptr::without_provenance_mut(start));
        self.count = place + 1;
        Ok(())
    }

    /// A pointer to each parameter, as the driver takes them: it alone knows where the kernel wants them, since what is aligned to
    /// more than 16 bytes is so in the device's constant bank, not in a packed struct.
    pub fn pointers(self) -> &'r mut [*mut c_void] {
        let ParameterRoom { bytes, pointers } = self.room;
        let written = &mut pointers[..self.count];
        // SAFETY: `pack` has written as many as it has counted.
        let pointers =
            unsafe { std::slice::from_raw_parts_mut(written.as_mut_ptr().cast::<*mut c_void>(), written.len()) };
        let base = bytes.as_mut_ptr();
        for pointer in &mut *pointers {
            *pointer = base.wrapping_add(pointer.addr()).cast();
        }
        pointers
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: every byte below `len` has been written, padding included.
        unsafe { std::slice::from_raw_parts(self.room.bytes.as_ptr().cast(), self.len) }
    }

    fn push(&mut self, place: usize, arg: &Arg, given: &Given<'_>) -> Result<()> {
        let Given { variant, sizes, tensors, scalars, windows, maps, cut } = *given;
        match *arg {
            Arg::Pointer(tensor) => match tensors.get(tensor) {
                Some(tensor) => self.put(&tensor.device_address().to_ne_bytes(), 8),
                None => unplanned(),
            },
            Arg::Stride(tensor, axis) => {
                match tensors.get(tensor).and_then(|tensor| tensor.layout().strides().get(axis)) {
                    Some(stride) => self.put(&(*stride as i64).to_ne_bytes(), 8),
                    None => unplanned(),
                }
            }
            Arg::Extent(dim) => self.put(&(sizes.get(dim) as i32).to_ne_bytes(), 4),
            Arg::Scalar(scalar) => match scalars.get(scalar) {
                Some(Scalar::F32(value)) => self.put(&value.to_ne_bytes(), 4),
                Some(Scalar::I32(value)) => self.put(&value.to_ne_bytes(), 4),
                None => unplanned(),
            },
            Arg::DivideByDims(dims) => self.put_fast_div(sizes.product(dims)),
            Arg::DivideByBlocks(axis) => self.put_fast_div(blocks(&axis, sizes)),
            Arg::DivideByLastGroup(axis, rows) => {
                let (blocks, rows) = (blocks(&axis, sizes), u64::from(rows.max(1)));
                self.put_fast_div(blocks - blocks.div_ceil(rows).saturating_sub(1) * rows)
            }
            Arg::Parts => self.put(&(cut.shares.parts as i32).to_ne_bytes(), 4),
            Arg::DivideByParts => self.put_fast_div(cut.shares.parts.into()),
            Arg::WholeTiles => self.put(&(cut.shares.whole as i32).to_ne_bytes(), 4),
            Arg::DivideByCutTiles => self.put_fast_div(cut.shares.cut(tile_count(variant, sizes))),
            Arg::Arrivals => self.put(&cut.arrivals.to_ne_bytes(), 8),
            Arg::Taken => self.put(&cut.taken.to_ne_bytes(), 8),
            Arg::Workspace => self.put(&cut.workspace.to_ne_bytes(), 8),
            Arg::DivideByRowsTogether => self.put_fast_div(cut.rows_together.into()),
            Arg::KeptColumns => {
                let block = variant.kept.map_or(0, |kept| kept.columns.block);
                let columns = kept_blocks(variant, sizes, cut.shares.parts) * block;
                self.put(&(columns as i32).to_ne_bytes(), 4)
            }
            Arg::TensorMap { tensor, merged, boxes, narrow, short } => match tensors.get(tensor) {
                Some(tensor) => {
                    let encode = || box_map(tensor, merged, boxes, narrow, short, maps.pairs_above);
                    maps.read(place, tensor.device_address(), encode, |map| self.put(map, 64))
                }
                None => unplanned(),
            },
            Arg::WindowMap(window) => {
                let walked = windows.get(window);
                match walked.and_then(|(window, corners)| Some((window, corners, tensors.get(window.tensor)?))) {
                    Some((window, corners, tensor)) => {
                        let encode = || window_map(tensor, window, corners, maps.pairs_above);
                        maps.read(place, tensor.device_address(), encode, |map| self.put(map, 64))
                    }
                    None => self.put(&UNUSED_MAP, 64),
                }
            }
            Arg::WindowCorner(window, axis) => {
                let lower = windows.get(window).and_then(|(_, corners)| corners.lower(axis));
                self.put(&lower.unwrap_or(0).to_ne_bytes(), 4)
            }
        }
    }

    fn put_fast_div(&mut self, divisor: u64) -> Result<()> {
        check_index(|| "a product of dims".to_owned(), divisor)?;
        let FastDiv { divisor, multiplier, shift } = FastDiv::new(divisor as u32);
        [divisor, multiplier, shift].iter().try_for_each(|field| self.put(&field.to_ne_bytes(), 4))
    }

    fn put<const N: usize>(&mut self, value: &[u8; N], alignment: usize) -> Result<()> {
        let start = self.len.next_multiple_of(alignment);
        self.put_bytes(start, value)?;
        if self.len < start {
            self.room.bytes[self.len..start].fill(MaybeUninit::new(0));
        }
        self.len = start + N;
        Ok(())
    }

    fn put_bytes(&mut self, start: usize, value: &[u8]) -> Result<()> {
        let Some(slots) = self.room.bytes.get_mut(start..).and_then(|rest| rest.get_mut(..value.len())) else {
            return Err(Error::Shape(format!("the kernel's parameters exceed {CAPACITY} bytes -- pass fewer tensors")));
        };
        slots.iter_mut().zip(value).for_each(|(slot, byte)| {
            slot.write(*byte);
        });
        Ok(())
    }
}

fn alignment(arg: &Arg) -> usize {
    match arg {
        Arg::Pointer(_) | Arg::Stride(..) => 8,
        Arg::Extent(_) | Arg::Scalar(_) | Arg::DivideByDims(_) | Arg::DivideByBlocks(_) => 4,
        Arg::DivideByLastGroup(..) | Arg::DivideByRowsTogether | Arg::WindowCorner(..) | Arg::KeptColumns => 4,
        Arg::Parts | Arg::DivideByParts | Arg::WholeTiles | Arg::DivideByCutTiles => 4,
        Arg::Workspace | Arg::Arrivals | Arg::Taken => 8,
        Arg::TensorMap { .. } | Arg::WindowMap(_) => 64,
    }
}

/// The launch plan names something that the kernel's declaration lacks, which only a broken expansion does.
fn unplanned() -> Result<()> {
    Err(Error::Shape(
        "the kernel's launch plan disagrees with its arguments -- rebuild the crate that has the kernel".to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::launch::ArgRef;
    use crate::launch::arg::ArgKind;
    use proptest::prelude::*;

    fn divide(by: FastDiv, n: u32) -> u32 {
        let high = ((u64::from(n) * u64::from(by.multiplier)) >> 32) as u32;
        high.checked_add(n).expect("the sum stays below 2^32") >> by.shift
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn fast_div_divides(
            divisor in prop_oneof![1u32..2000, 1u32..=i32::MAX as u32, (0u32..31).prop_map(|power| 1 << power)],
            n in prop_oneof![0u32..5000, 0u32..=i32::MAX as u32],
        ) {
            let by = FastDiv::new(divisor);
            for n in [n, n / divisor * divisor, (n / divisor * divisor).saturating_sub(1), i32::MAX as u32, 0] {
                prop_assert_eq!(divide(by, n), n / divisor);
                prop_assert_eq!(n - divide(by, n) * by.divisor, n % divisor);
            }
        }
    }

    #[test]
    fn parameters_are_packed_as_c_does() {
        let device = Device::cpu();
        let tensor = device.zeros::<f32, _>((3, 5)).unwrap();
        let (mut tensors, mut scalars) = (Tensors::new(), Scalars::new());
        if let ArgRef(ArgKind::Tensor(raw)) = ArgRef::input(&tensor) {
            tensors.push(raw);
        }
        scalars.push(Scalar::F32(1.5));
        scalars.push(Scalar::I32(-2));
        let variant = Variant {
            grid: &[GridAxis { dims: &[0], block: 2 }, GridAxis { dims: &[1], block: 1 }],
            args: &[
                Arg::Extent(1),
                Arg::Pointer(0),
                Arg::Scalar(1),
                Arg::Stride(0, 0),
                Arg::DivideByDims(&[0, 1]),
                Arg::DivideByBlocks(GridAxis { dims: &[0], block: 2 }),
                Arg::DivideByLastGroup(GridAxis { dims: &[1], block: 1 }, 2),
                Arg::DivideByLastGroup(GridAxis { dims: &[1], block: 1 }, 5),
                Arg::WholeTiles,
                Arg::DivideByCutTiles,
                Arg::Parts,
                Arg::DivideByParts,
                Arg::DivideByRowsTogether,
                Arg::Scalar(0),
            ],
            ..Variant::of_source("k", "", 128)
        };
        let sizes = Sizes::of(&[3, 5]);
        let windows = Windows::of(variant.windows, &sizes, &tensors, &scalars);
        let windows = &windows;
        let cut = Cut { shares: Shares { whole: 7, parts: 2 }, rows_together: 3, ..Cut::WHOLE };
        let maps = &EncodedMaps::of(0, 0.0);
        let given =
            Given { variant: &variant, sizes: &sizes, tensors: &tensors, scalars: &scalars, windows, maps, cut };
        let (mut room, known) = (ParameterRoom::new(), OnceCell::new());
        let parameters = Parameters::pack(&given, &mut room, &known).unwrap();
        let mut expected = Vec::new();
        expected.extend(5i32.to_ne_bytes());
        expected.extend([0; 4]);
        expected.extend(tensor.raw().device_address().to_ne_bytes());
        expected.extend((-2i32).to_ne_bytes());
        expected.extend([0; 4]);
        expected.extend(5i64.to_ne_bytes());
        let fast_div = |divisor: u32| {
            let FastDiv { divisor, multiplier, shift } = FastDiv::new(divisor);
            [divisor, multiplier, shift].map(u32::to_ne_bytes).concat()
        };
        expected.extend([fast_div(15), fast_div(2), fast_div(1), fast_div(5)].concat());
        expected.extend(7i32.to_ne_bytes());
        expected.extend(fast_div(2 * 5 - 7));
        expected.extend(2i32.to_ne_bytes());
        expected.extend([fast_div(2), fast_div(3)].concat());
        expected.extend(1.5f32.to_ne_bytes());
        assert_eq!(cut.shares.units(2 * 5), 7 + (2 * 5 - 7) * 2);
        assert_eq!(parameters.bytes(), expected);
        let places = |parameters: Parameters<'_>| {
            let pointers = parameters.pointers();
            pointers.iter().map(|pointer| pointer.addr() - pointers[0].addr()).collect::<Vec<_>>()
        };
        let first = places(parameters);
        assert_eq!(first.len(), variant.args.len());
        assert_eq!(first[..5], [0, 8, 16, 24, 32], "an extent, a pointer, a scalar, a stride, a divisor");

        // The next launch by the same plan.
        let other = device.zeros::<f32, _>((3, 5)).unwrap();
        let (mut tensors, mut scalars) = (Tensors::new(), Scalars::new());
        tensors.push(other.raw());
        scalars.push(Scalar::F32(2.5));
        scalars.push(Scalar::I32(-2));
        let given = Given { tensors: &tensors, scalars: &scalars, ..given };
        let mut room = ParameterRoom::new();
        let parameters = Parameters::pack(&given, &mut room, &known).unwrap();
        expected[8..16].copy_from_slice(&other.raw().device_address().to_ne_bytes());
        let last = expected.len() - 4;
        expected[last..].copy_from_slice(&2.5f32.to_ne_bytes());
        assert_eq!(parameters.bytes(), expected);
        assert_eq!(places(parameters), first);
        assert_eq!(tiles("k", &variant, &sizes).unwrap(), 2 * 5);
        assert_eq!(tiles("k", &variant, &Sizes::of(&[0, 5])).unwrap(), 0);
        let paired = |axis| Variant { cluster: 2, paired: Some(axis), ..variant };
        assert_eq!(tiles("k", &paired(0), &sizes).unwrap(), 2 * 5);
        assert_eq!(tiles("k", &paired(1), &sizes).unwrap(), 2 * 6, "the last pair's second tile lies outside");
        assert_eq!(tiles("k", &paired(0), &Sizes::of(&[0, 5])).unwrap(), 0);
        let variant = paired(0);
        assert!(tiles("k", &variant, &Sizes::of(&[1 << 31, 5])).is_err());
        assert!(tiles("k", &variant, &Sizes::of(&[1 << 30, 1 << 10])).is_err());
    }
}
