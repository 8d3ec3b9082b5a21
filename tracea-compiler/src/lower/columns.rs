//! Rows of a tile that begin within rows of a tensor, where vectors begin.
//!
//! ```text
//! x[(i, j)] * x[(i, j + N)]         a half from column N on: whole vectors where N has whole ones
//! qkv[(b, s, h * 64 + d)]           a head's part
//! y[(i, j + 8)]                     the same
//! y[(i, j + 1)]                     not so: element by element
//! ```
//! How many columns such a row begins past the tensor's is known at launch at most, which counts it as an address: code is made for what
//! it is a multiple of.

use super::analysis::{axes_in, depends_on, is_tiled, mentions};
use super::windows;
use crate::nest::{AxisId, AxisKind, DimId, Extent, Int, IntOp, Nest, TensorId};
use crate::plan::Number;

/// The widest vectors, in bytes.
const VECTOR: i64 = 16;

/// Whether rows along the axis are rows of the tensor, from end to end.
pub fn are_whole(nest: &Nest, tensor: TensorId, index: &[Int], axis: AxisId) -> bool {
    let Some((last, others)) = index.split_last() else { return false };
    let dim = nest.tensor(tensor).dims.last();
    *last == Int::Axis(axis)
        && dim.is_some_and(|dim| nest.runs_over(axis, *dim))
        && !others.iter().any(|int| mentions(int, axis))
}

/// Of rows along the axis that are parts of the tensor's rows: the numbers of elements that must be whole vectors for their parts to be.
/// Nothing where the rows are not contiguous, or where no vector may begin with them.
pub fn of_parts(nest: &Nest, tensor: TensorId, index: &[Int], axis: AxisId) -> Option<Vec<Number>> {
    let (last, others) = index.split_last()?;
    let bytes = i64::from(nest.tensor(tensor).dtype.bytes());
    let along = Int::Axis(axis);
    if windows::slope(last, &along) != Some(Int::Const(1)) || others.iter().any(|int| mentions(int, axis)) {
        return None;
    }
    let before = windows::at_zero(last, &along);
    let mut numbers = multiples(nest, &before, bytes)?;
    // A part ends with its loop.
    let Extent::Dim(end) = nest.axis(axis).extent else { return None };
    match nest.dim(end).known {
        Some(end) if end * bytes % VECTOR == 0 => {}
        Some(end) => numbers.push(Number::Const(end)),
        None => numbers.push(product(&[end.index()])),
    }
    Some(numbers)
}

/// Whether rows along the axis are contiguous in the tensor.
pub fn are_contiguous(nest: &Nest, tensor: TensorId, index: &[Int], axis: AxisId) -> bool {
    are_whole(nest, tensor, index, axis) || of_parts(nest, tensor, index, axis).is_some()
}

/// Of how many coordinates along the axis, from each multiple of as many on, a component of an index is the same: a power of two.
pub fn alike(int: &Int, axis: AxisId) -> u32 {
    const ALL: u32 = 1 << 31;
    match int {
        _ if !depends_on(int, axis) => ALL,
        Int::Binary(IntOp::Div, a, b) => match (&**a, &**b) {
            (Int::Axis(_), Int::Const(divisor @ 1..)) => 1 << divisor.trailing_zeros().min(31),
            (a, b) => alike(a, axis).min(alike(b, axis)),
        },
        Int::Binary(_, a, b) => alike(a, axis).min(alike(b, axis)),
        Int::Element(_, index) => index.iter().map(|int| alike(int, axis)).min().unwrap_or(ALL),
        _ => 1,
    }
}

/// The axis whose elements are neighbours in memory, where an index has one.
pub fn side_by_side(nest: &Nest, index: &[Int]) -> Option<AxisId> {
    let mut found = Vec::new();
    axes_in(index.last()?, &mut |axis| {
        if is_tiled(nest, axis) && !found.contains(&axis) {
            found.push(axis);
        }
    });
    match found[..] {
        [axis] => windows::slope(index.last()?, &Int::Axis(axis)).filter(|slope| *slope == Int::Const(1)).map(|_| axis),
        _ => None,
    }
}

/// Whether coordinates along the axis, with what the index adds, are columns of the tensor for certain.
pub fn surely_inside(nest: &Nest, int: &Int, axis: AxisId, dim: DimId) -> bool {
    let Extent::Dim(extent) = nest.axis(axis).extent else { return false };
    let known = (nest.dim(extent).known, nest.dim(dim).known);
    match (windows::at_zero(int, &Int::Axis(axis)), known) {
        (Int::Const(before), (Some(columns), Some(size))) => before >= 0 && before + columns <= size,
        _ => false,
    }
}

/// Numbers of elements that an offset is a sum of multiples of, but for whole vectors; nothing where it may be negative or anything.
fn multiples(nest: &Nest, int: &Int, bytes: i64) -> Option<Vec<Number>> {
    let constant = |value: i64| (value >= 0 && value * bytes % VECTOR == 0).then(Vec::new);
    match int {
        Int::Const(value) => constant(*value),
        Int::Dim(dim) => match nest.dim(*dim).known {
            Some(size) => constant(size),
            None => Some(vec![product(&parts(nest, *dim))]),
        },
        Int::Binary(IntOp::Add, a, b) => {
            let mut all = multiples(nest, a, bytes)?;
            all.extend(multiples(nest, b, bytes)?);
            Some(all)
        }
        Int::Binary(IntOp::Mul, a, b) => {
            let of = |int: &Int, times: &Int| multiples(nest, int, bytes).filter(|_| is_count(nest, times));
            of(a, b).or_else(|| of(b, a))
        }
        _ => None,
    }
}

/// Whether the integer is never negative and the same for a whole tile.
fn is_count(nest: &Nest, int: &Int) -> bool {
    match int {
        Int::Const(value) => *value >= 0,
        Int::Dim(_) => true,
        Int::Axis(axis) | Int::FlatCoord(axis, _) => nest.axis(*axis).kind == AxisKind::Each,
        Int::Binary(IntOp::Add | IntOp::Mul, a, b) => is_count(nest, a) && is_count(nest, b),
        _ => false,
    }
}

fn parts(nest: &Nest, dim: DimId) -> Vec<usize> {
    match &nest.dim(dim).parts[..] {
        [] => vec![dim.index()],
        parts => parts.iter().map(|part| part.index()).collect(),
    }
}

fn product(dims: &[usize]) -> Number {
    let of = |dim: &usize| Number::Dim(*dim);
    let times = |a: Number, b: Number| Number::Binary(IntOp::Mul, Box::new(a), Box::new(b));
    dims.iter().map(of).reduce(times).unwrap_or(Number::Const(1))
}

#[cfg(test)]
mod tests {
    use crate::plan::Number;
    use crate::testing::{accesses, cuda, lines, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// How `x` is read, 8 × 256 blocks of a result of N columns; it has L itself.
    fn read(index: TokenStream) -> (String, Vec<Number>) {
        let program = program(quote! {
            #[schedule(sm_80, i = 8, j = 256)]
            fn f<M: Dim, H: Dim, N: Dim, L: Dim>(x: &Tensor<f16, (M, L)>, y: &mut Tensor<f16, (H, M, N)>, by: i32) {
                tile!(for (h, i, j) in (each(H), M, N) { y[(h, i, j)] = x[(i, #index)]; });
            }
        });
        (accesses(&program)[0].clone(), program.columns.into_iter().map(|columns| columns.number).collect())
    }

    #[test]
    fn parts_of_rows_are_read_as_rows_as_far_as_numbers_allow() {
        let (as_rows, n) = ("x by rows, i < end, 1 inside".to_string(), Number::Dim(2));
        assert_eq!(read(quote!(j + 0)), (as_rows.clone(), vec![n.clone()]), "a part ends with its loop");
        assert_eq!(read(quote!(j + N)), (as_rows.clone(), vec![n.clone()]));
        assert_eq!(read(quote!(h * N + j)), (as_rows.clone(), vec![n.clone()]));
        assert_eq!(read(quote!(j + h * 64 + 8)), (as_rows, vec![n]));
    }

    #[test]
    fn what_may_begin_within_a_vector_is_read_by_elements() {
        let by_elements = ("x by elements, i < end, j < end, 1 inside".to_string(), vec![]);
        for index in [quote!(j + 1), quote!(j - N), quote!(j + by), quote!(j + h), quote!(j * 2), quote!(N - j)] {
            assert_eq!(read(index.clone()), by_elements, "{index}");
        }
    }

    #[test]
    fn columns_end_with_the_loop_and_with_the_tensor() {
        let text = cuda(quote! {
            #[schedule(sm_80, i = 8, j = 256)]
            fn f<M: Dim, N: Dim, L: Dim>(x: &Tensor<f16, (M, L)>, y: &mut Tensor<f16, (M, N)>) {
                tile!(for (i, j) in (M, N) { y[(i, j)] = x[(i, j + N)]; });
            }
        });
        assert!(text.contains("}, min(N - j0, L - (j0 + N)));"), "{text}");
    }

    #[test]
    fn what_surely_lies_inside_is_not_checked() {
        let halves = program(quote! {
            #[schedule(sm_80, i = 8, j = 64)]
            fn f<M: Dim>(x: &Tensor<f16, (M, Const<128>)>, y: &mut Tensor<f16, (M, Const<64>)>) {
                tile!(for (i, j) in (M, Const::<64>) { y[(i, j)] = x[(i, j + 64)]; });
            }
        });
        assert_eq!((accesses(&halves)[0].as_str(), &halves.columns[..]), ("x by rows, i < end", &[][..]));
    }

    /// Weights times values of a sequence that begins and ends anywhere.
    fn weighted(values: TokenStream, keys: TokenStream) -> Vec<String> {
        lines(&program(quote! {
            #[schedule(sm_90a, i = 128, j = 128, stages = 2, consumers = 2)]
            fn f<S: Dim, T: Dim, Z: Dim>(
                k: &Tensor<f16, (Z, Const<64>)>, v: &Tensor<f16, (Z, Const<64>)>, u: &Tensor<f16, (T, Const<64>)>,
                q: &Tensor<f16, (S, Const<64>)>, y: &mut Tensor<f16, (S, Const<64>)>, start: i32, count: i32,
            ) {
                tile!(for i in S {
                    let mut acc = zeros::<f32>((i, ..));
                    tile!(for j in #keys {
                        let s = dot(q[(i, ..)], k[(start + j, ..)].t());
                        acc += dot(s.to::<f16>(), #values);
                    });
                    y[(i, ..)] = acc.to();
                });
            }
        }))
    }

    #[test]
    fn rows_past_a_loops_end_are_cleared_where_a_sum_runs_over_them() {
        let clears = |lines: Vec<String>| lines.iter().filter(|line| line.trim().starts_with("clear rows")).count();
        assert_eq!(clears(weighted(quote!(v[(start + j, ..)]), quote!(T))), 1, "v goes on behind the sequence");
        assert_eq!(clears(weighted(quote!(u[(j, ..)]), quote!(T.until(count)))), 1, "so does u");
        assert_eq!(clears(weighted(quote!(u[(j, ..)]), quote!(T))), 0, "TMA brings zeros from outside of u");
    }
}
