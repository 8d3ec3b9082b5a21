//! Rows that walk a tensor by steps, as TMA's im2col mode reads them (PTX ISA, "im2col mode").
//!
//! ```text
//! x[(n, p * stride + r * dilation - pad, q * stride + s * dilation - pad, c)]     (n, p, q) = npq.coords()
//! ```
//! Rows run along a flat axis. Its first part is the tensor's first index, and each further one moves its own axis of the tensor:
//! the index there is `part * step + rest`, where `step` is the same for the whole launch and `rest` for all rows of a tile. Over
//! all tiles, `rest` lies between a `corner` and `corner + reach`; both are worked out at launch, from the ends of the scalar loops
//! that `rest` is linear in.

use crate::nest::{Axis, AxisId, AxisKind, DimId, Extent, Int, IntOp, Nest, TensorId};
use crate::plan::{Number, WindowAxis};

/// How rows lie along one axis of the tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Along {
    pub step: Int,
    pub rest: Int,
    /// Whether any loop changes `rest`.
    pub moves: bool,
    pub plan: WindowAxis,
}

/// For each axis of the tensor but the first and the last; `outer` is the index but for the last.
pub fn find(nest: &Nest, tensor: TensorId, outer: &[Int], rows: AxisId, tile_rows: u32) -> Option<Vec<Along>> {
    /// Beside the first and the last.
    const MOST_AXES: usize = 3;
    const MOST_ROWS: u32 = 1024;
    let Extent::Flat(parts) = &nest.axis(rows).extent else { return None };
    let (first, moving) = outer.split_first()?;
    let fits = (1..=MOST_AXES).contains(&moving.len())
        && tile_rows <= MOST_ROWS
        && parts.len() == outer.len()
        && parts[0] == nest.tensor(tensor).dims[0]
        && *first == Int::FlatCoord(rows, 0);
    if !fits {
        return None;
    }
    moving.iter().zip(1..).map(|(int, part)| along(nest, int, rows, part, parts[part].index())).collect()
}

fn along(nest: &Nest, int: &Int, rows: AxisId, part: usize, count: usize) -> Option<Along> {
    let part = Int::FlatCoord(rows, part);
    let (step, rest) = (slope(int, &part)?, at_zero(int, &part));
    let mut variables = Vec::new();
    coordinates(&rest, &mut variables);
    let (mut origin, mut corner, mut reach) = (rest.clone(), Int::Const(0), Int::Const(0));
    for variable in &variables {
        let far = folded(IntOp::Mul, slope(&rest, variable)?, last(nest, variable)?);
        let low = folded(IntOp::Min, far.clone(), Int::Const(0));
        let high = folded(IntOp::Max, far, Int::Const(0));
        reach = folded(IntOp::Add, reach, folded(IntOp::Sub, high, low.clone()));
        corner = folded(IntOp::Add, corner, low);
        origin = at_zero(&origin, variable);
    }
    let corner = folded(IntOp::Add, origin, corner);
    let plan = WindowAxis { count, step: number(&step)?, corner: number(&corner)?, reach: number(&reach)? };
    Some(Along { step, rest, moves: !variables.is_empty(), plan })
}

/// How much the expression grows with the variable, where it is linear in it.
pub fn slope(int: &Int, variable: &Int) -> Option<Int> {
    if int == variable {
        return Some(Int::Const(1));
    }
    if !holds(int, variable) {
        return Some(Int::Const(0));
    }
    let Int::Binary(op, a, b) = int else { return None };
    match op {
        IntOp::Add | IntOp::Sub => Some(folded(*op, slope(a, variable)?, slope(b, variable)?)),
        IntOp::Mul if !holds(b, variable) => Some(folded(IntOp::Mul, slope(a, variable)?, (**b).clone())),
        IntOp::Mul if !holds(a, variable) => Some(folded(IntOp::Mul, (**a).clone(), slope(b, variable)?)),
        IntOp::Mul | IntOp::Div | IntOp::Rem | IntOp::Min | IntOp::Max => None,
    }
}

/// What is left of the expression where the variable is 0.
pub fn at_zero(int: &Int, variable: &Int) -> Int {
    match int {
        _ if int == variable => Int::Const(0),
        Int::Binary(op, a, b) => folded(*op, at_zero(a, variable), at_zero(b, variable)),
        other => other.clone(),
    }
}

fn holds(int: &Int, variable: &Int) -> bool {
    int.any(&|part| part == variable)
}

/// Coordinates in the expression, each once.
fn coordinates(int: &Int, found: &mut Vec<Int>) {
    match int {
        Int::Axis(_) | Int::FlatCoord(..) if !found.contains(int) => found.push(int.clone()),
        _ => int.parts().into_iter().for_each(|part| coordinates(part, found)),
    }
}

/// The greatest value of a scalar loop's coordinate.
fn last(nest: &Nest, variable: &Int) -> Option<Int> {
    let (Int::Axis(axis) | Int::FlatCoord(axis, _)) = variable else { return None };
    let Axis { extent, kind: AxisKind::Each, .. } = nest.axis(*axis) else { return None };
    let dims = match (variable, extent) {
        (Int::FlatCoord(_, part), Extent::Flat(parts)) => &parts[*part..=*part],
        (_, Extent::Flat(parts)) => parts,
        (_, Extent::Dim(dim)) => std::slice::from_ref(dim),
    };
    let size = |dim: &DimId| nest.dim(*dim).known.map_or(Int::Dim(*dim), Int::Const);
    let extent = dims.iter().fold(Int::Const(1), |product, dim| folded(IntOp::Mul, product, size(dim)));
    Some(folded(IntOp::Sub, extent, Int::Const(1)))
}

/// The expression for the launch to work out, where it is the same for all of it.
fn number(int: &Int) -> Option<Number> {
    Some(match int {
        Int::Const(value) => Number::Const(*value),
        Int::Dim(dim) => Number::Dim(dim.index()),
        Int::Scalar(scalar) => Number::Scalar(scalar.index()),
        Int::Binary(op, a, b) => Number::Binary(*op, Box::new(number(a)?), Box::new(number(b)?)),
        Int::Axis(_) | Int::FlatCoord(..) | Int::BlockStart(_) | Int::BlockEnd(_) | Int::Element(..) => return None,
    })
}

/// The operation, worked out as far as it is known.
pub fn folded(op: IntOp, a: Int, b: Int) -> Int {
    match (op, &a, &b) {
        (_, Int::Const(x), Int::Const(y)) => match worked_out(op, *x, *y) {
            Some(value) => Int::Const(value),
            None => Int::Binary(op, Box::new(a), Box::new(b)),
        },
        (IntOp::Add, Int::Const(0), _) | (IntOp::Mul, Int::Const(1), _) => b,
        (IntOp::Add | IntOp::Sub, _, Int::Const(0)) | (IntOp::Mul, _, Int::Const(1)) => a,
        (IntOp::Mul, Int::Const(0), _) | (IntOp::Mul, _, Int::Const(0)) => Int::Const(0),
        _ => Int::Binary(op, Box::new(a), Box::new(b)),
    }
}

fn worked_out(op: IntOp, a: i64, b: i64) -> Option<i64> {
    match op {
        IntOp::Add => a.checked_add(b),
        IntOp::Sub => a.checked_sub(b),
        IntOp::Mul => a.checked_mul(b),
        IntOp::Div => a.checked_div(b),
        IntOp::Rem => a.checked_rem(b),
        IntOp::Min => Some(a.min(b)),
        IntOp::Max => Some(a.max(b)),
    }
}
