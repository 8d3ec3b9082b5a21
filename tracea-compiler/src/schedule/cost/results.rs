//! What a block makes of its products, element by element, before it stores them.

use super::{LANES, instructions_of};
use crate::lower::analysis::DotFact;
use crate::nest::{AxisId, Nest, Op, Stmt, Value};
use crate::schedule::{Schedule, WARPGROUP};

/// Cycles in which a block works out its result after the products, element by element. While one warpgroup does so, another one's last products
/// run, so that half of it shows; where there is one, its warps wait for their own results. Measured on an H100, two products side by side with
/// SiLU by 128 columns each, and by 96 in turn, where nothing of it shows: 8192 x 2816 x 1024 takes 140 and 131 µs, 8192 x 5632 x 2048 548 and 511.
pub fn after_products(nest: &Nest, schedule: &Schedule, dot: &DotFact) -> u32 {
    let (shown, of) = if schedule.threads() > WARPGROUP { (1, 2) } else { (2, 1) };
    let instructions = of_result(nest, schedule, dot, |op| match op {
        // Packing has these in it.
        Op::Cast(_) | Op::Load { .. } => 0,
        op => instructions_of(op),
    });
    instructions * shown / (of * LANES) + columns(nest, schedule, dot)
}

/// Columns that the results take in, which each thread of a row reads. Measured on an H200 by tiles of 128 x 256, and by 256 x 128 the other way round,
/// where a thread has two rows' numbers: 4096³ with a bias and ReLU takes 194.9 and 193.9 µs, 191.7 and 191.3 without them; 1024 x 8192 x 4096 95.2 and 93.6.
fn columns(nest: &Nest, schedule: &Schedule, dot: &DotFact) -> u32 {
    const CYCLES_OF_A_COLUMN: u32 = 16;
    const THREADS_OF_A_ROW: u32 = 4;
    let is_of_columns = |value: &Value| matches!(value.op, Op::Load { .. }) && value.ty.axes[..] == [dot.n];
    let loads = nest.body.stmts.iter().filter(|stmt| matches!(stmt, Stmt::Value(id) if is_of_columns(nest.value(*id))));
    let own = schedule.blocks[dot.n.index()].unwrap_or(1) / THREADS_OF_A_ROW;
    loads.count() as u32 * own * CYCLES_OF_A_COLUMN
}

/// The same of the last tile where warpgroups take turns, which one of them works out alone, and what it reads for that comes when nothing else is
/// under way. Measured on an H100 with f16: 1024 x 2048 x 1024 onto what the result was takes 15.6 µs by 128 x 128 in turn, and 13.6 together.
pub fn by_one(nest: &Nest, schedule: &Schedule, dot: &DotFact) -> u32 {
    const READ: u32 = 8;
    const CALLED: u32 = 4;
    let instructions = of_result(nest, schedule, dot, |op| match op {
        Op::Cast(_) => 0,
        Op::Load { .. } => READ,
        Op::Call(..) => CALLED,
        op => instructions_of(op),
    });
    2 * instructions / LANES
}

/// Instructions after the products, each operation on a tile of results by so many an element.
fn of_result(nest: &Nest, schedule: &Schedule, dot: &DotFact, of: impl Fn(&Op) -> u32) -> u32 {
    let block = |axis: &AxisId| schedule.blocks[axis.index()].unwrap_or(1);
    let instructions = |stmt: &Stmt| match stmt {
        Stmt::Value(id) => match nest.value(*id) {
            Value { op, ty, .. } if ty.axes.contains(&dot.m) && ty.axes.contains(&dot.n) => {
                ty.axes.iter().map(block).product::<u32>() * of(op)
            }
            Value { .. } => 0,
        },
        _ => 0,
    };
    nest.body.stmts.iter().map(instructions).sum()
}

#[cfg(test)]
mod tests {
    use crate::lower::lower_pinned;
    use crate::schedule::target::find;
    use crate::testing::nest;
    use proc_macro2::TokenStream;
    use quote::quote;

    /// Cycles between two tiles, where the result takes in a number of each column, or of each row.
    fn between(schedule: TokenStream, result: TokenStream) -> u32 {
        let (nest, schedules) = nest(quote! {
            #[schedule(sm_90a, #schedule)]
            fn f<M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, r: &Tensor<f16, (M,)>, s: &Tensor<f16, (N,)>, c: &mut Tensor<f16, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                    c[(i, j)] = (#result).to();
                });
            }
        });
        let target = find(&schedules[0].target).expect("a known target");
        lower_pinned(&nest, target, &schedules[0]).expect("the kernel lowers").cost.once
    }

    #[test]
    fn a_number_of_each_column_takes_longer_than_one_of_each_row() {
        let columns = || quote!(acc + s[j].to::<f32>());
        let rows = || quote!(acc + r[i].to::<f32>());
        let wide = || quote!(i = 128, j = 256, k = 64, stages = 4, consumers = 2);
        assert_eq!(between(wide(), columns()) - between(wide(), rows()), 256 / 4 * 16);
        let turned = || quote!(i = 256, j = 128, k = 64, stages = 4, consumers = 2, swapped = true);
        assert_eq!(between(turned(), rows()) - between(turned(), columns()), 256 / 4 * 16, "its columns are rows");
    }
}
