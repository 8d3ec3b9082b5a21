//! Axes of one element, whose values are numbers.
//!
//! ```text
//! for o in Const::<1> { s = 0 over o; for (i, j) { s += … }; y[o] = s }    →    for o in each(Const::<1>) { s = 0; … }
//! ```
//! A block's threads would each hold some of the tile's places, and a part of a sum would be as large as the block, so that few blocks share it out: on
//! an H100 all of 4096 x 1536 numbers added up took 222 µs. Of numbers as many parts as there are multiprocessors, and more, are quick to join.

use crate::nest::{AxisId, AxisKind, Extent, Int, Nest, Op, ValueId};
use crate::schedule::spec::ScheduleSpec;

/// The nest with numbers for them, where it has any.
pub fn as_numbers(nest: &Nest) -> Option<Nest> {
    let single: Vec<AxisId> = nest.grid.iter().copied().filter(|axis| is_single(nest, *axis)).collect();
    if single.is_empty() {
        return None;
    }
    let mut numbers = nest.clone();
    for axis in &single {
        numbers.axes[axis.index()].kind = AxisKind::Each;
    }
    for value in &mut numbers.values {
        value.ty.axes.retain(|axis| !single.contains(axis));
    }
    Some(numbers)
}

/// Whether the schedule gives any of them a block.
pub fn is_any_named(nest: &Nest, numbers: &Nest, spec: &ScheduleSpec) -> bool {
    let changed = nest.axes.iter().zip(&numbers.axes).filter(|(one, other)| one.kind != other.kind);
    changed.into_iter().any(|(axis, _)| spec.options.iter().any(|option| option.name == axis.name))
}

/// Whether the axis has one element, and no more is asked of it than its place.
fn is_single(nest: &Nest, axis: AxisId) -> bool {
    let of_one = |extent: &Extent| matches!(extent, Extent::Dim(dim) if nest.dim(*dim).known == Some(1));
    let asks_for_block = |int: &Int| matches!(int, Int::BlockStart(of) | Int::BlockEnd(of) if *of == axis);
    let spans = |value: ValueId| nest.value(value).ty.axes.contains(&axis);
    let as_tile = |op: &Op| match op {
        Op::Dot { a, b } => spans(*a) || spans(*b),
        Op::Transpose(a) => spans(*a),
        Op::Reduce(_, _, along) => *along == axis,
        _ => false,
    };
    nest.axis(axis).kind == AxisKind::Tiled
        && of_one(&nest.axis(axis).extent)
        && !nest.values.iter().any(|value| as_tile(&value.op))
        && !nest.any_int(&asks_for_block)
}

#[cfg(test)]
mod tests {
    use super::as_numbers;
    use crate::lower::lower_portfolio;
    use crate::nest::Nest;
    use crate::program::{Part, Stmt};
    use crate::schedule::target::SM_80;
    use crate::testing::nest;
    use proc_macro2::TokenStream;
    use quote::quote;

    /// A kernel with this result of this shape.
    fn kernel(result: TokenStream, body: TokenStream) -> Nest {
        let (nest, _) = nest(quote! {
            fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, w: &Tensor<f32, (N, Const<1>)>, y: &mut Tensor<f32, #result>) { #body }
        });
        nest
    }

    #[test]
    fn all_that_is_added_up_is_a_number() {
        let nest = kernel(
            quote!((Const<1>,)),
            quote! {
                tile!(for o in Const::<1> {
                    let mut sum = zeros::<f32>(o);
                    tile!(for (i, j) in (M, N) { sum += x[(i, j)].row_sum().sum(i); });
                    y[o] = sum;
                });
            },
        );
        assert!(as_numbers(&nest).is_some());
        for lowered in lower_portfolio(&nest, &SM_80).expect("it lowers") {
            let split = lowered.program.split.expect("blocks share it out");
            assert_eq!((split.floats, split.most_parts), (4, 1024), "{}", lowered.program.schedule);
            let joined = lowered.program.body.iter().any(|stmt| {
                matches!(stmt, Stmt::JoinParts { values, .. } if values.iter().all(|left| left.part == Part::Number))
            });
            assert!(joined, "{}", lowered.program.schedule);
        }
    }

    #[test]
    fn what_products_and_sums_run_over_stays_a_tile() {
        let product = kernel(
            quote!((M, Const<1>)),
            quote! {
                tile!(for (i, o) in (M, Const::<1>) {
                    let mut acc = zeros::<f32>((i, o));
                    tile!(for k in N { acc += dot(x[(i, k)], w[(k, o)]); });
                    y[(i, o)] = acc;
                });
            },
        );
        let summed = kernel(
            quote!((N, Const<1>)),
            quote! { tile!(for (j, o) in (N, Const::<1>) { y[(j, o)] = w[(j, o)] / (w[(j, o)] + x[(0, j)]).row_sum(); }); },
        );
        assert!(as_numbers(&product).is_none() && as_numbers(&summed).is_none());
    }
}
