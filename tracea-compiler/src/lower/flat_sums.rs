//! Sums over several axes as sums over one: a product multiplies 64 terms at a time, and where the innermost axis has few, most of them
//! would be zeros.
//!
//! ```text
//! for r in each(R), s in each(S), c in C      acc += dot(x[(n, p + r, q + s, c)], w[(o, r, s, c)].t())
//! ```
//! becomes
//! ```text
//! for rsc in flat(R, S, C)                    the same, with (r, s, c) = rsc.coords()
//! ```
//! An operand that ends in the axes has rows along the flat one, where nothing lies between them; others come element by element. The
//! launch chooses, once it sees the sizes.

use super::analysis::{Facts, OperandSource, axes_in, mentions};
use super::loops::nest_of;
use crate::nest::{
    Axis, AxisId, AxisKind, BinaryOp, Dim, DimId, Extent, Int, Loop, Nest, Op, Stmt, TensorId, TileType, ValueId,
};

/// As many as a product multiplies at a time.
const MANY_TERMS: i64 = 64;

/// The same nest with such loops taken as one, where there are any.
pub fn flattened(nest: &Nest) -> Option<Nest> {
    let (at, outer) = nest.body.stmts.iter().enumerate().find_map(|(at, stmt)| match stmt {
        Stmt::Loop(outer) => Some((at, outer)),
        _ => None,
    })?;
    let levels = nest_of(outer);
    let (inner, scalar) = levels.split_last()?;
    let alone = nest.body.stmts.iter().filter(|stmt| matches!(stmt, Stmt::Loop(_))).count() == 1;
    let chain = !scalar.is_empty()
        && scalar.iter().all(|level| nest.axis(level.axis).kind == AxisKind::Each)
        && nest.axis(inner.axis).kind == AxisKind::Tiled;
    let whole = levels.iter().all(|level| level.from.is_none() && level.until.is_none());
    if !alone || !chain || !whole {
        return None;
    }
    let parts = levels.iter().map(|level| match nest.axis(level.axis).extent {
        Extent::Dim(dim) => Some(dim),
        Extent::Flat(_) => None,
    });
    let dims = parts.collect::<Option<Vec<_>>>()?;
    if dims.last().is_some_and(|last| nest.dim(*last).known >= Some(MANY_TERMS)) {
        return None;
    }
    let axes: Vec<AxisId> = levels.iter().map(|level| level.axis).collect();
    if !sums_of_products(nest, inner, &axes) {
        return None;
    }
    let mut flat = nest.clone();
    let name = axes.iter().map(|axis| nest.axis(*axis).name.as_str()).collect();
    flat.axes[inner.axis.index()] = Axis { name, extent: Extent::Flat(dims.clone()), kind: AxisKind::Tiled };
    let whole: Vec<bool> =
        (0..nest.tensors.len()).map(|at| is_whole(nest, TensorId(at as u32), &axes, &dims)).collect();
    let joined = DimId(nest.dims.len() as u32);
    let name = dims.iter().map(|dim| nest.dim(*dim).name.as_str()).collect();
    flat.dims.push(Dim { name, known: None, parts: dims.clone() });
    let outer_dims = |rank: usize| rank - dims.len();
    for (tensor, _) in flat.tensors.iter_mut().zip(&whole).filter(|(_, whole)| **whole) {
        tensor.dims.truncate(outer_dims(tensor.dims.len()));
        tensor.dims.push(joined);
    }
    for stmt in &inner.body.stmts {
        if let Stmt::Value(id) = stmt
            && let Op::Load { tensor, index } = &mut flat.values[id.index()].op
        {
            if whole[tensor.index()] {
                index.truncate(outer_dims(index.len()));
                index.push(Int::Axis(inner.axis));
            } else {
                index.iter_mut().for_each(|int| *int = as_parts(int, &axes, inner.axis));
            }
        }
    }
    let mut carried = inner.carried.clone();
    for (carried, of_outer) in carried.iter_mut().zip(&outer.carried) {
        carried.init = of_outer.init;
        carried.result = of_outer.result;
        if let Op::LoopResult(axis, _) = &mut flat.values[of_outer.result.index()].op {
            *axis = inner.axis;
        }
    }
    flat.body.stmts[at] = Stmt::Loop(Loop { carried, line: outer.line, ..(*inner).clone() });
    Some(flat)
}

/// What schedules call the flat axis.
pub fn axis_name(nest: &Nest) -> Option<String> {
    let flat = flattened(nest)?;
    let mut made = flat.axes.iter().zip(&nest.axes).filter(|(new, old)| new != old);
    made.next().map(|(new, _)| new.name.clone())
}

/// Whether the body does nothing but to sum products along the innermost axis: then it is all the same in how many steps. Nothing but
/// their operands asks where along the axes it is.
fn sums_of_products(nest: &Nest, inner: &Loop, axes: &[AxisId]) -> bool {
    let facts = Facts::of(nest);
    let from_tensors = facts.dots.iter().all(|dot| {
        let sources = [&dot.a, &dot.b];
        dot.k == inner.axis && sources.iter().all(|source| matches!(source, OperandSource::Tensor { .. }))
    });
    let reads_any = |int: &Int| {
        let mut found = false;
        axes_in(int, &mut |axis| found |= axes.contains(&axis));
        found
    };
    let is_sum = |a: ValueId, b: ValueId| {
        let is = |id: ValueId, wanted: fn(&Op) -> bool| wanted(&nest.value(id).op);
        is(a, |op| matches!(op, Op::Carried(..))) && is(b, |op| matches!(op, Op::Dot { .. }))
    };
    let fits = |ty: &TileType, op: &Op| match op {
        Op::Load { index, .. } => !index.iter().any(reads_any) || ty.axes.contains(&inner.axis),
        Op::Binary(BinaryOp::Add, a, b) => is_sum(*a, *b) || is_sum(*b, *a),
        Op::Dot { .. } | Op::Transpose(_) | Op::Cast(_) | Op::Carried(..) => true,
        _ => false,
    };
    let values = inner.body.stmts.iter().all(|stmt| match stmt {
        Stmt::Value(id) => fits(&nest.value(*id).ty, &nest.value(*id).op),
        _ => false,
    });
    !facts.dots.is_empty() && from_tensors && values
}

/// Whether all that is read of the tensor lies along the axes, in this order, as its last ones: then they are one where it has no gaps.
fn is_whole(nest: &Nest, wanted: TensorId, axes: &[AxisId], dims: &[DimId]) -> bool {
    let tensor = nest.tensor(wanted);
    let last: Vec<Int> = axes.iter().map(|axis| Int::Axis(*axis)).collect();
    let mut loads = nest.values.iter().filter_map(|value| match &value.op {
        Op::Load { tensor, index } if *tensor == wanted => Some(index),
        _ => None,
    });
    let outer = |index: &[Int]| !index.iter().any(|int| axes.iter().any(|axis| mentions(int, *axis)));
    !tensor.mutable
        && tensor.dims.ends_with(dims)
        && loads.all(|index| index.strip_suffix(&last[..]).is_some_and(outer))
}

/// Coordinates along the axes become parts of one along the flat axis.
fn as_parts(int: &Int, axes: &[AxisId], flat: AxisId) -> Int {
    match int {
        Int::Axis(axis) => match axes.iter().position(|one| one == axis) {
            Some(part) => Int::FlatCoord(flat, part),
            None => int.clone(),
        },
        Int::Binary(op, a, b) => Int::Binary(*op, Box::new(as_parts(a, axes, flat)), Box::new(as_parts(b, axes, flat))),
        Int::Element(tensor, index) => {
            Int::Element(*tensor, index.iter().map(|int| as_parts(int, axes, flat)).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proc_macro2::TokenStream;
    use quote::quote;

    /// `acc += …` over axes (g, k) of unknown sizes, and what remains of the loops.
    fn flat(extents: TokenStream, step: TokenStream) -> Option<Vec<String>> {
        let (nest, _) = testing::nest(quote! {
            fn f<M: Dim, N: Dim, G: Dim, K: Dim>(
                a: &Tensor<f16, (M, G, K)>, b: &Tensor<f16, (G, K, N)>, scale: &Tensor<f32, (G,)>, c: &mut Tensor<f32, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for (g, k) in #extents { #step });
                    c[(i, j)] = acc;
                });
            }
        });
        let flat = flattened(&nest)?;
        let loops = flat.body.stmts.iter().filter_map(|stmt| match stmt {
            Stmt::Loop(one) => Some(flat.axis(one.axis).name.clone()),
            _ => None,
        });
        Some(loops.collect())
    }

    #[test]
    fn loops_of_one_sum_become_one() {
        let step = quote!(acc += dot(a[(i, g, k)], b[(g, k, j)]););
        assert_eq!(flat(quote!((each(G), K)), step), Some(vec!["gk".to_string()]));
    }

    #[test]
    fn what_asks_for_the_outer_axis_keeps_loops_apart() {
        assert_eq!(flat(quote!((each(G), K)), quote!(acc += dot(a[(i, g, k)], b[(g, k, j)]) * scale[g];)), None);
    }

    #[test]
    fn bounds_keep_loops_apart() {
        let step = quote!(acc += dot(a[(i, g, k)], b[(g, k, j)]););
        assert_eq!(flat(quote!((each(G.until(2)), K)), step), None);
    }

    #[test]
    fn what_each_step_does_to_the_sum_keeps_loops_apart() {
        let twice = quote!(acc = acc * 0.5 + dot(a[(i, g, k)], b[(g, k, j)]););
        assert_eq!(flat(quote!((each(G), K)), twice), None);
        assert_eq!(flat(quote!((each(G), K)), quote!(acc += dot(a[(i, g, k)], b[(g, k, j)]).exp();)), None);
    }

    #[test]
    fn tensors_that_end_in_the_axes_have_one_axis_for_them() {
        let (nest, _) = testing::nest(quote! {
            fn f<M: Dim, N: Dim, G: Dim, K: Dim>(
                a: &Tensor<f16, (M, G, K)>, b: &Tensor<f16, (G, K, N)>, c: &Tensor<f16, (K, G, N)>, d: &mut Tensor<f32, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for (g, k) in (each(G), K) { acc += dot(a[(i, g, k)], b[(g, k, j)]) + dot(a[(i, g, k)], c[(k, g, j)]); });
                    d[(i, j)] = acc;
                });
            }
        });
        assert_eq!(flattened(&nest), None, "sums of sums");
        let (nest, _) = testing::nest(quote! {
            fn f<M: Dim, N: Dim, G: Dim, K: Dim>(a: &Tensor<f16, (M, G, K)>, b: &Tensor<f16, (N, K, G)>, d: &mut Tensor<f32, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for (g, k) in (each(G), K) { acc += dot(a[(i, g, k)], b[(j, k, g)].t()); });
                    d[(i, j)] = acc;
                });
            }
        });
        let flat = flattened(&nest).expect("one sum");
        let ranks: Vec<usize> = flat.tensors.iter().map(|tensor| tensor.dims.len()).collect();
        assert_eq!(ranks, [2, 3, 2]);
        assert_eq!(flat.dim(flat.tensors[0].dims[1]).parts, nest.tensors[0].dims[1..]);
    }

    #[test]
    fn loops_of_many_terms_stay_as_they_are() {
        let (nest, _) = testing::nest(quote! {
            fn f<M: Dim, N: Dim, G: Dim>(a: &Tensor<f16, (M, G, Const<64>)>, b: &Tensor<f16, (G, Const<64>, N)>, c: &mut Tensor<f32, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for (g, k) in (each(G), Const::<64>) { acc += dot(a[(i, g, k)], b[(g, k, j)]); });
                    c[(i, j)] = acc;
                });
            }
        });
        assert_eq!(flattened(&nest), None);
    }
}
