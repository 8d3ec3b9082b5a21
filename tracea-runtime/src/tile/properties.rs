//! Tiles of any form against loops over indices.

use proptest::prelude::*;

use super::elements::{binary, select, unary};
use super::form::Form;
use super::matrix::Accumulator;
use super::raw::{Data, Raw};
use super::reduce::{Reduction, reduce};
use crate::element::{Arithmetic, Value, f16};
use crate::oracle::{Bounded, F16, F32};

/// Sizes of the axes 0, 1 and 2 wherever they stand in one example.
type Sizes = [usize; 3];

#[derive(Clone, Debug)]
struct Layout {
    /// Axes in order, each at most once.
    ids: Vec<u8>,
    /// Order of the axes in memory, and the gap behind each.
    memory: Vec<usize>,
    gap: usize,
    uniform: bool,
}

fn sizes() -> impl Strategy<Value = Sizes> {
    (0usize..4, 1usize..9, prop_oneof![1usize..6, 250usize..520]).prop_map(Sizes::from)
}

fn layout() -> impl Strategy<Value = Layout> {
    let ids = prop::sample::subsequence(vec![0u8, 1, 2], 0..=3).prop_shuffle();
    (ids, 0usize..3, prop::bool::weighted(0.2)).prop_flat_map(|(ids, gap, uniform)| {
        let memory: Vec<usize> = (0..ids.len()).collect();
        (Just(ids), Just(memory).prop_shuffle(), Just(gap), Just(uniform))
            .prop_map(|(ids, memory, gap, uniform)| Layout { ids, memory, gap, uniform })
    })
}

/// The value of an element by its coordinates.
fn value(seed: usize, at: [usize; 3], has: impl Fn(u8) -> bool) -> f32 {
    let hash = (0..3).filter(|&id| has(id as u8)).fold(seed, |hash, id| hash * 31 + at[id] * (id + 7));
    ((hash * 2654435761) % 2048) as f32 / 512.0 - 2.0
}

/// A tile with these values, and its memory.
fn tile(layout: &Layout, sizes: &Sizes, seed: usize) -> (Raw<f32>, Vec<f32>) {
    let mut form = Form::default();
    layout.ids.iter().for_each(|&id| form.push(id, sizes[id as usize], 0));
    if layout.uniform {
        return (Raw::uniform(form, value(seed, [0; 3], |_| false)), Vec::new());
    }
    let mut stride = 1;
    for &axis in layout.memory.iter().rev() {
        form.strides[axis] = stride;
        stride = stride * form.sizes[axis] + layout.gap;
    }
    let mut memory = vec![f32::NAN; stride + 1];
    for_each(&form, |at, offset| memory[offset] = value(seed, at, |id| layout.ids.contains(&id)));
    (Raw { data: Data::Borrowed(memory.as_ptr()), form }, memory)
}

/// Every element's coordinates by axis number, and its offset.
fn for_each(form: &Form, mut f: impl FnMut([usize; 3], usize)) {
    for p0 in 0..form.sizes[0] {
        for p1 in 0..form.sizes[1] {
            for p2 in 0..form.sizes[2] {
                let position = [p0, p1, p2];
                let mut at = [0; 3];
                (0..form.rank).for_each(|axis| at[form.ids[axis] as usize] = position[axis]);
                f(at, (0..3).map(|axis| position[axis] * form.strides[axis]).sum());
            }
        }
    }
}

fn seen(layout: &Layout, seed: usize, at: [usize; 3]) -> f32 {
    if layout.uniform { value(seed, [0; 3], |_| false) } else { value(seed, at, |id| layout.ids.contains(&id)) }
}

proptest! {
    #[test]
    fn operators_broadcast_by_axis(sizes in sizes(), a in layout(), b in layout(), own in any::<bool>()) {
        let ((mut x, _x), (y, _y)) = (tile(&a, &sizes, 1), tile(&b, &sizes, 2));
        if own {
            let (form, values) = x.into_values();
            x = Raw::owned(form, values);
        }
        let (form, values) = binary::<f32, f32, f32>(x, y, |x, y| x * 2.0 - y).into_values();
        let ids: std::collections::BTreeSet<u8> = a.ids.iter().chain(&b.ids).copied().collect();
        prop_assert_eq!(form.rank, ids.len());
        let mut good = true;
        for_each(&form, |at, offset| good &= values[offset] == seen(&a, 1, at) * 2.0 - seen(&b, 2, at));
        prop_assert!(good);
    }

    #[test]
    fn shared_elements_are_not_written(sizes in sizes(), a in layout()) {
        let (x, _x) = tile(&a, &sizes, 1);
        let (form, values) = x.into_values();
        let x = Raw::owned(form, values);
        let before = x.clone().into_values().1;
        unary::<f32, f32>(x.clone(), |x| x + 1.0);
        prop_assert_eq!(x.into_values().1, before);
    }

    #[test]
    fn select_takes_the_branch(sizes in sizes(), c in layout(), a in layout(), b in layout()) {
        let ((c_tile, _c), (x, _x), (y, _y)) = (tile(&c, &sizes, 3), tile(&a, &sizes, 1), tile(&b, &sizes, 2));
        let condition = unary::<f32, bool>(c_tile, |x| x > 0.0);
        let (form, values) = select(condition, x, y).into_values();
        let mut good = true;
        for_each(&form, |at, offset| {
            good &= values[offset] == if seen(&c, 3, at) > 0.0 { seen(&a, 1, at) } else { seen(&b, 2, at) };
        });
        prop_assert!(good);
    }

    #[test]
    fn reductions_over_any_axis(sizes in sizes(), a in layout(), pick in 0usize..3) {
        prop_assume!(!a.ids.is_empty());
        let axis = pick % a.ids.len();
        let removed = a.ids[axis] as usize;
        for (reduction, identity, f) in [
            (Reduction::Sum, 0.0, (|x, y| x + y) as fn(f32, f32) -> f32),
            (Reduction::Max, f32::NEG_INFINITY, f32::max),
            (Reduction::Min, f32::INFINITY, f32::min),
        ] {
            let (x, _x) = tile(&a, &sizes, 1);
            let (form, values) = reduce(x, axis, reduction).into_values();
            prop_assert_eq!(form.rank, a.ids.len() - 1);
            let mut good = true;
            for_each(&form, |mut at, offset| {
                let mut want = identity;
                for p in 0..sizes[removed] {
                    at[removed] = p;
                    want = f(want, seen(&a, 1, at));
                }
                // The values are multiples of 2^-9 below 2: sums are exact in any order.
                good &= values[offset] == want;
            });
            prop_assert!(good);
        }
    }

    #[test]
    fn products_of_any_layout(m in 0usize..9, n in 0usize..9, k in 0usize..200, swap in any::<[bool; 2]>(), fresh in any::<bool>()) {
        fn run<T: Arithmetic>(m: usize, n: usize, k: usize, swap: [bool; 2], fresh: bool) -> (Vec<(f64, f64)>, Vec<f64>) {
            let element = |seed, r, c| f64::from(f16::from_f32(value(seed, [r, c, 0], |_| true)));
            let operand = |rows: usize, cols: usize, seed, swap| {
                let (outer, inner) = if swap { (cols, rows) } else { (rows, cols) };
                let mut form = Form::default();
                form.push(0, outer, 0);
                form.push(1, inner, 0);
                let values = (0..outer).flat_map(|o| (0..inner).map(move |i| if swap { (i, o) } else { (o, i) }));
                let values = values.map(|(r, c)| T::from_f64(element(seed, r, c), 0.0)).collect();
                let raw = Raw::owned(form, values);
                if swap { Raw { form: raw.form.transposed(), data: raw.data } } else { raw }
            };
            let (a, b) = (operand(m, k, 1, swap[0]), operand(k, n, 2, swap[1]));
            let start = if fresh { 0.0 } else { 3.0 };
            let mut into = Accumulator {
                values: vec![T::Acc::from_f64(start, 0.0); m * n], rows: m, cols: n, is_fresh: fresh,
            };
            T::accumulate(a.matrix(), b.matrix(), &mut into);
            let want = (0..m * n).map(|at| {
                start + (0..k).map(|p| element(1, at / n, p) * element(2, p, at % n)).sum::<f64>()
            });
            (into.values.iter().map(|x| x.to_f64()).collect(), want.collect())
        }
        let (got, want) = run::<f32>(m, n, k, swap, fresh);
        let (half, _) = run::<f16>(m, n, k, swap, fresh);
        let (oracle, _) = run::<Bounded<F16>>(m, n, k, swap, fresh);
        let (oracle_f32, _) = run::<Bounded<F32>>(m, n, k, swap, fresh);
        for at in 0..m * n {
            let (value, bound) = oracle[at];
            prop_assert!((value - want[at]).abs() < 1e-9 && oracle_f32[at].0 == value);
            prop_assert!((got[at].0 - want[at]).abs() <= bound, "{} {} {}", got[at].0, want[at], bound);
            prop_assert!((half[at].0 - want[at]).abs() <= bound);
            prop_assert!(bound < 1e-3);
        }
    }
}
