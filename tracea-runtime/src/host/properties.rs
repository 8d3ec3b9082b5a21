//! Loads and stores at any coordinates and strides against loops over indices.

use proptest::prelude::*;

use super::arg::{HostArg, HostArray};
use crate::axis::ordinal::{N0, N1};
use crate::axis::{AxisName, Extent, flat};
use crate::dtype::Dtype;
use crate::oracle::{Bounded, F32};

enum I {}
impl AxisName for I {
    type Ordinal = N0;
    const NAME: &'static str = "i";
}
enum J {}
impl AxisName for J {
    type Ordinal = N1;
    const NAME: &'static str = "j";
}

/// A tensor of shape (rows, cols) whose element (r, c) is r * 100 + c + 1.
struct Tensor {
    memory: Vec<f32>,
    sizes: [usize; 2],
    strides: [usize; 2],
}

impl Tensor {
    fn new(sizes: [usize; 2], gap: usize, by_columns: bool) -> Self {
        let strides = if by_columns { [1, sizes[0] + gap] } else { [sizes[1] + gap, 1] };
        let mut memory = vec![-1.0; (sizes[0] + gap) * (sizes[1] + gap) + 1];
        for r in 0..sizes[0] {
            for c in 0..sizes[1] {
                memory[r * strides[0] + c * strides[1]] = element(r as i32, c as i32);
            }
        }
        Tensor { memory, sizes, strides }
    }

    fn array(&mut self) -> HostArray {
        HostArray::new(self.memory.as_mut_ptr().cast(), Dtype::F32, &self.sizes, &self.strides)
    }

    fn has(&self, r: i32, c: i32) -> bool {
        (0..self.sizes[0] as i32).contains(&r) && (0..self.sizes[1] as i32).contains(&c)
    }
}

fn element(r: i32, c: i32) -> f32 {
    (r * 100 + c + 1) as f32
}

proptest! {
    #[test]
    fn shifted_loads_read_zero_outside(
        sizes in [1usize..7, 1usize..7], gap in 0usize..3, by_columns in any::<bool>(), output in any::<bool>(),
        shift in [-3i32..4, -3i32..4], step in 1i32..3, point in -1i32..8,
    ) {
        let mut tensor = Tensor::new(sizes, gap, by_columns);
        let array = tensor.array();
        // SAFETY: the tensor outlives the argument, and nobody else touches it.
        let arg = unsafe { if output { HostArg::output(array) } else { HostArg::input(array) } };
        let view = arg.view::<f32, ((), ())>();
        let (i, j) = (Extent::<()>::new(5).ix::<I>(0, 5), Extent::<()>::new(4).ix::<J>(1, 4));
        let reads = |r: i32, c: i32| if tensor.has(r, c) { element(r, c) } else { 0.0 };

        let (_, values) = view.load((i * step + shift[0], j + shift[1])).raw.into_values();
        let want: Vec<f32> =
            (0..5).flat_map(|i| (1..4).map(move |j| (i * step + shift[0], j + shift[1]))).map(|(r, c)| reads(r, c)).collect();
        prop_assert_eq!(values, want);

        let (_, values) = view.load((point, i + shift[0])).raw.into_values();
        prop_assert_eq!(values, (0..5).map(|i| reads(point, i + shift[0])).collect::<Vec<_>>());

        // One axis in two places: a diagonal.
        let (form, values) = view.load((i + shift[0], i * step)).raw.into_values();
        prop_assert_eq!(form.rank, 1);
        prop_assert_eq!(values, (0..5).map(|i| reads(i + shift[0], i * step)).collect::<Vec<_>>());

        // The oracle reads the same, exactly.
        let (_, values) = arg.view::<Bounded<F32>, ((), ())>().load((i + shift[0], j)).raw.into_values();
        let want = (0..5).flat_map(|i| (1..4).map(move |j| (i, j)));
        let exact = values.iter().zip(want).all(|(x, (i, j))| {
            x.value == f64::from(reads(i + shift[0], j)) && x.error == 0.0
        });
        prop_assert!(exact);
    }

    #[test]
    fn stores_write_inside_only(
        sizes in [1usize..7, 1usize..7], gap in 0usize..3, by_columns in any::<bool>(), shift in [-3i32..4, -3i32..4],
    ) {
        let (mut tensor, mut source) = (Tensor::new(sizes, gap, by_columns), Tensor::new([5, 4], 0, !by_columns));
        let mut want = tensor.memory.clone();
        for (i, j) in (0..5).flat_map(|i| (1..4).map(move |j| (i, j))) {
            let (r, c) = (i + shift[0], j + shift[1]);
            if tensor.has(r, c) {
                want[r as usize * tensor.strides[0] + c as usize * tensor.strides[1]] = -element(i, j);
            }
        }
        let (i, j) = (Extent::<()>::new(5).ix::<I>(0, 5), Extent::<()>::new(4).ix::<J>(1, 4));
        // SAFETY: both tensors outlive the arguments, and nobody else touches them.
        let (to, from) = unsafe { (HostArg::output(tensor.array()), HostArg::input(source.array())) };
        let tile = -from.view::<f32, ((), ())>().load((i, j));
        to.view_mut::<f32, ((), ())>().store((i + shift[0], j + shift[1]), tile);
        prop_assert_eq!(tensor.memory, want);
    }

    #[test]
    fn flat_coordinates_find_their_elements(sizes in [1usize..5, 1usize..6], from in 0i32..6, len in 0i32..9) {
        let mut tensor = Tensor::new(sizes, 1, false);
        let arg = {
            // SAFETY: as above.
            unsafe { HostArg::input(tensor.array()) }
        };
        let both = flat((Extent::<u8>::new(sizes[0] as i32), Extent::<u16>::new(sizes[1] as i32)));
        let (start, end) = (from.min(both.size()), (from + len).min(both.size()));
        let (r, c) = both.ix::<I>(start, end).coords();
        let (_, values) = arg.view::<f32, (u8, u16)>().load((r, c)).raw.into_values();
        let cols = sizes[1] as i32;
        prop_assert_eq!(values, (start..end).map(|at| element(at / cols, at % cols)).collect::<Vec<_>>());
    }
}

#[test]
fn a_row_is_stored_down_a_tile() {
    let (mut to, mut from) = (Tensor::new([3, 4], 0, false), Tensor::new([1, 4], 0, false));
    let (i, j) = (Extent::<()>::new(3).ix::<I>(0, 3), Extent::<()>::new(4).ix::<J>(0, 4));
    // SAFETY: both tensors outlive the arguments, and nobody else touches them.
    let (target, source) = unsafe { (HostArg::output(to.array()), HostArg::input(from.array())) };
    target.view_mut::<f32, ((), ())>().store((i, j), source.view::<f32, ((), ())>().load((0, j)));
    assert_eq!(to.memory[..12], [1.0, 2.0, 3.0, 4.0].repeat(3));
}
