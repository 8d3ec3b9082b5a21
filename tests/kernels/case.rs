//! One kernel over inputs of given sizes: tensors with their values as plain arrays, and the output beside what was expected.

use crate::expected::{Array, BF16, Expected, F16, F32};
use libtest_mimic::Failed;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use std::cell::RefCell;
use std::sync::Arc;
use tracea::dim::IntoShape;
use tracea::prelude::*;

/// An element type that tests make numbers of.
pub trait Number: Float {
    /// Unit roundoff.
    const ROUNDING: f64;
    /// Half of the smallest subnormal.
    const UNDERFLOW: f64;
    fn of(value: f32) -> Self;
    fn read(self) -> f64;
}

impl Number for f16 {
    const ROUNDING: f64 = F16;
    const UNDERFLOW: f64 = 2.98e-8;
    fn of(value: f32) -> Self {
        f16::from_f32(value)
    }
    fn read(self) -> f64 {
        self.to_f64()
    }
}

impl Number for bf16 {
    const ROUNDING: f64 = BF16;
    const UNDERFLOW: f64 = 1e-40;
    fn of(value: f32) -> Self {
        bf16::from_f32(value)
    }
    fn read(self) -> f64 {
        self.to_f64()
    }
}

impl Number for f32 {
    const ROUNDING: f64 = F32;
    const UNDERFLOW: f64 = 1e-45;
    fn of(value: f32) -> Self {
        value
    }
    fn read(self) -> f64 {
        self.into()
    }
}

/// How tensors lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    Dense,
    /// They start off alignment and have gaps between their rows.
    OffAlignment,
    /// The same, but rows are aligned as far as any code asks, wherever they end.
    Aligned,
}

/// That rows of [`Placing::Aligned`] are aligned to.
const ALIGNMENT: usize = 16;

impl Placing {
    /// Elements before the first one, and a row's length in memory.
    fn offset_and_row<T>(self, columns: usize) -> (usize, usize) {
        match self {
            Placing::Dense => (0, columns),
            Placing::OffAlignment => (1, columns + 3),
            Placing::Aligned => {
                let chunk = ALIGNMENT / size_of::<T>();
                (chunk, (columns + 1).next_multiple_of(chunk))
            }
        }
    }
}

pub struct Setting<'d> {
    pub device: &'d Device,
    pub sizes: Vec<usize>,
    pub placing: Placing,
    pub random: RefCell<SmallRng>,
}

/// Looks at a launch: runs it, verifies it, or reads its plan.
pub type Visit<'v> = &'v mut dyn FnMut(Launch<'_>) -> Result<(), Failed>;

/// What a kernel wrote, and what was expected.
pub struct Outcome {
    /// Of all outputs, one after another.
    pub actual: Vec<f64>,
    outputs: Vec<Output>,
}

struct Output {
    len: usize,
    rounding: f64,
    underflow: f64,
    expected: Box<dyn FnOnce() -> Vec<Expected>>,
}

/// Memory of a tensor: dense, or with gaps.
pub struct Stored<T: Element, I: IntoShape> {
    memory: Tensor<T, (Dyn,)>,
    shape: I,
    strides: Vec<usize>,
    offset: usize,
}

impl<'d> Setting<'d> {
    pub fn new(device: &'d Device, sizes: &[usize], placing: Placing) -> Self {
        let seed =
            sizes.iter().fold(placing as u64, |seed, size| seed.wrapping_mul(1_000_003).wrapping_add(*size as u64));
        Setting { device, sizes: sizes.to_vec(), placing, random: RefCell::new(SmallRng::seed_from_u64(seed)) }
    }

    /// As many as the kernel is tried at.
    pub fn sizes<const COUNT: usize>(&self) -> Result<[usize; COUNT], Failed> {
        Ok(self.sizes[..].try_into().map_err(|_| format!("{} sizes, expected {COUNT}", self.sizes.len()))?)
    }

    /// One of several, by the sizes and the placing.
    pub fn one_of<T: Copy>(&self, choices: &[T]) -> T {
        choices[self.random.borrow_mut().random_range(0..choices.len())]
    }

    /// Normally distributed.
    pub fn input<T: Number, I: IntoShape>(&self, shape: I) -> Result<(Stored<T, I>, Array), Failed> {
        self.input_in_rows(shape, |_| true)
    }

    /// The same in rows that are read; NaN in the others.
    pub fn input_in_rows<T: Number, I: IntoShape>(
        &self,
        shape: I,
        is_read: impl Fn(usize) -> bool,
    ) -> Result<(Stored<T, I>, Array), Failed> {
        let random = &mut *self.random.borrow_mut();
        let sizes = shape.sizes();
        let columns = sizes.last().map_or(1, |columns| (*columns).max(1));
        let number = |at: usize| if is_read(at / columns) { StandardNormal.sample(random) } else { f32::NAN };
        let numbers: Vec<T> = (0..sizes.iter().product()).map(number).map(T::of).collect();
        let values = numbers.iter().map(|number| number.read()).collect();
        Ok((self.store(shape, &numbers, T::of(f32::NAN))?, Array { sizes, values }))
    }

    /// To be overwritten.
    pub fn output<T: Number, I: IntoShape>(&self, shape: I) -> Result<Stored<T, I>, Failed> {
        let numbers = vec![T::of(f32::NAN); shape.sizes().iter().product()];
        self.store(shape, &numbers, T::of(f32::NAN))
    }

    /// `outside` fills the gaps.
    pub fn store<T: Element, I: IntoShape>(&self, shape: I, numbers: &[T], outside: T) -> Result<Stored<T, I>, Failed> {
        let sizes = shape.sizes();
        let columns = sizes.last().map_or(1, |columns| (*columns).max(1));
        let (offset, row) = self.placing.offset_and_row::<T>(columns);
        let mut strides = vec![1; sizes.len()];
        for axis in (1..sizes.len()).rev() {
            strides[axis - 1] = if axis + 1 == sizes.len() { row } else { strides[axis] * sizes[axis].max(1) };
        }
        let len = offset + strides[0] * sizes[0] + row - columns;
        let mut memory = vec![outside; len];
        for (position, number) in positions(&sizes, &strides, offset).zip(numbers) {
            memory[position] = *number;
        }
        Ok(Stored { memory: self.device.tensor(&memory, (len,))?, shape, strides, offset })
    }
}

/// Where the elements lie, in row-major order.
fn positions(sizes: &[usize], strides: &[usize], offset: usize) -> impl Iterator<Item = usize> {
    (0..sizes.iter().product()).map(move |element: usize| {
        let mut rest = element;
        let mut position = offset;
        for (size, stride) in sizes.iter().zip(strides).rev() {
            position += rest % size * stride;
            rest /= size;
        }
        position
    })
}

impl<T: Element, I: IntoShape> Stored<T, I> {
    pub fn view(&self) -> Result<TensorRef<'_, T, I::Shape>, Failed> {
        let address = self.memory.address() + self.offset * size_of::<T>();
        // SAFETY: the elements lie within `memory`, which is initialised and outlives the view.
        Ok(unsafe { TensorRef::from_address(self.memory.device(), address, &self.shape.sizes(), &self.strides)? })
    }

    pub fn view_mut(&mut self) -> Result<TensorMut<'_, T, I::Shape>, Failed> {
        let address = self.memory.address() + self.offset * size_of::<T>();
        // SAFETY: as above, and `memory` is borrowed exclusively.
        Ok(unsafe { TensorMut::from_address(self.memory.device(), address, &self.shape.sizes(), &self.strides)? })
    }
}

impl<T: Number, I: IntoShape> Stored<T, I> {
    /// The elements; fails where a gap was written to.
    fn read(self) -> Result<Vec<f64>, Failed> {
        let mut memory: Vec<Option<f64>> =
            self.memory.to_vec()?.into_iter().map(|number| Some(number.read())).collect();
        let sizes = self.shape.sizes();
        let values =
            positions(&sizes, &self.strides, self.offset).filter_map(|position| memory[position].take()).collect();
        match memory.iter().position(|left| left.is_some_and(|left| !left.is_nan())) {
            Some(position) => {
                Err(format!("position {position} of the memory is outside the tensor and was written").into())
            }
            None => Ok(values),
        }
    }
}

impl Outcome {
    pub fn new<T: Number, I: IntoShape>(
        output: Stored<T, I>,
        expected: impl FnOnce() -> Vec<Expected> + 'static,
    ) -> Result<Self, Failed> {
        Outcome { actual: Vec::new(), outputs: Vec::new() }.and(output, expected)
    }

    /// With one more output.
    pub fn and<T: Number, I: IntoShape>(
        mut self,
        output: Stored<T, I>,
        expected: impl FnOnce() -> Vec<Expected> + 'static,
    ) -> Result<Self, Failed> {
        let values = output.read()?;
        let (len, expected) = (values.len(), Box::new(expected));
        self.actual.extend(values);
        self.outputs.push(Output { len, rounding: T::ROUNDING, underflow: T::UNDERFLOW, expected });
        Ok(self)
    }

    /// Fails on the first element that is further off than rounding explains.
    pub fn compare(self) -> Result<(), Failed> {
        let mut rest = &self.actual[..];
        for (at, output) in self.outputs.into_iter().enumerate() {
            let (actual, after) = rest.split_at(output.len);
            output.compare(actual).map_err(|message| format!("output {at}: {message}"))?;
            rest = after;
        }
        Ok(())
    }
}

impl Output {
    fn compare(self, actual: &[f64]) -> Result<(), String> {
        let expected = (self.expected)();
        if actual.len() != expected.len() {
            return Err(format!("{} elements, expected {}", actual.len(), expected.len()));
        }
        for (at, (actual, Expected { value, slack })) in actual.iter().zip(expected).enumerate() {
            let bound = 1.01 * self.rounding * (value.abs() + slack) + slack + self.underflow;
            let agrees = (actual - value).abs() <= bound || (actual.is_nan() && value.is_nan()) || *actual == value;
            if !agrees {
                return Err(format!("element {at} is {actual}, expected {value} ± {bound:.1e}"));
            }
        }
        Ok(())
    }
}

/// Sizes that a kernel is tried at: the given ones, then random ones within ranges.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub fixed: &'static [&'static [usize]],
    pub random: &'static [std::ops::RangeInclusive<usize>],
}

impl Sizes {
    pub fn all(&self) -> Vec<Vec<usize>> {
        let mut random = SmallRng::seed_from_u64(0);
        let mut draw = |_| self.random.iter().map(|range| random.random_range(range.clone())).collect();
        self.fixed.iter().map(|sizes| sizes.to_vec()).chain((0..8).map(&mut draw)).collect()
    }

    /// Sizes to time a kernel at. What is drawn from a few numbers, as batches and filters are, is as large as that gets, and pixels are
    /// some times that; the rest is long, and the longest are halved until a product over all of them takes a millisecond or so.
    pub fn large(&self) -> Vec<Vec<usize>> {
        const FEW: usize = 6;
        const PIXELS: usize = 16;
        const MOST: usize = 1 << 33;
        const LONG: [[usize; 4]; 3] = [[1024, 2048, 1024, 1536], [192, 3072, 2048, 1024], [4096, 1536, 512, 2048]];
        let sizes = |lengths: &[usize; 4]| {
            let mut lengths = lengths.iter().cycle();
            let mut size = |range: &std::ops::RangeInclusive<usize>| match *range.end() {
                few @ ..=FEW => few,
                pixels @ ..=PIXELS => 4 * pixels,
                _ => lengths.next().copied().unwrap_or(1),
            };
            let mut sizes: Vec<usize> = self.random.iter().map(&mut size).collect();
            while sizes.iter().product::<usize>() > MOST
                && let Some(longest) = sizes.iter_mut().max()
            {
                *longest /= 2;
            }
            sizes
        };
        LONG.iter().map(sizes).collect()
    }
}

/// A kernel at one choice of its selectors.
#[derive(Clone)]
pub struct Subject {
    /// `attention f16 D=64 causal`.
    pub name: String,
    pub sizes: Sizes,
    /// Sizes for GPUs alone.
    pub waves: &'static [&'static [usize]],
    pub case: Case,
}

/// Makes tensors of the setting's sizes, shows the launch over them, and gives what came of it.
pub type Case = Arc<dyn Fn(&Setting, Visit) -> Result<Outcome, Failed> + Send + Sync>;

impl Subject {
    pub fn new(
        name: impl Into<String>,
        sizes: Sizes,
        case: impl Fn(&Setting, Visit) -> Result<Outcome, Failed> + Send + Sync + 'static,
    ) -> Subject {
        Subject { name: name.into(), sizes, waves: &[], case: Arc::new(case) }
    }

    /// All that a GPU is tried at.
    pub fn all_sizes(&self) -> Vec<Vec<usize>> {
        self.sizes.all().into_iter().chain(self.waves.iter().map(|sizes| sizes.to_vec())).collect()
    }

    /// Those that are not drawn, the largest last.
    pub fn fixed_sizes(&self) -> impl DoubleEndedIterator<Item = &'static [usize]> {
        self.sizes.fixed.iter().chain(self.waves).copied()
    }
}
