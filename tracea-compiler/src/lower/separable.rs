//! Places of elements as sums: what rows have a share in, and what columns have, so that each is worked out once for all that share it.
//!
//! ```text
//! x[(n, p * stride + r - pad, q * stride + s - pad, c)]     rows (n, p, q), columns (r, s, c)
//!     rows       n, p * stride - pad, q * stride - pad, 0
//!     columns    0, r, s, c
//! ```

use super::analysis::mentions;
use super::windows::folded;
use crate::nest::{AxisId, Int, IntOp};
use crate::program::Parts;

/// Nothing where an index is no such sum, or all are coordinates as they are, of which there is nothing to work out.
pub fn parts(index: &[Int], columns: AxisId) -> Option<Parts> {
    if index.iter().all(|int| matches!(int, Int::Axis(_) | Int::Const(_))) {
        return None;
    }
    let (rows, columns) = index.iter().map(|int| split(int, columns)).collect::<Option<Vec<_>>>()?.into_iter().unzip();
    Some(Parts { rows, columns })
}

/// What is the same in all columns, and what a column adds to it.
fn split(int: &Int, columns: AxisId) -> Option<(Int, Int)> {
    if !mentions(int, columns) {
        return Some((int.clone(), Int::Const(0)));
    }
    match int {
        Int::Axis(_) | Int::FlatCoord(..) => Some((Int::Const(0), int.clone())),
        Int::Element(..) => {
            let others = int.any(&|part| matches!(part, Int::Axis(axis) | Int::FlatCoord(axis, _) if *axis != columns));
            (!others).then(|| (Int::Const(0), int.clone()))
        }
        Int::Binary(op @ (IntOp::Add | IntOp::Sub), a, b) => {
            let ((rows_a, columns_a), (rows_b, columns_b)) = (split(a, columns)?, split(b, columns)?);
            Some((folded(*op, rows_a, rows_b), folded(*op, columns_a, columns_b)))
        }
        Int::Binary(IntOp::Mul, a, b) => {
            let (sum, factor) = if is_number(b) { (a, b) } else { (b, a) };
            let (rows, columns) = is_number(factor).then(|| split(sum, columns))??;
            let times = |part: Int| folded(IntOp::Mul, part, (**factor).clone());
            Some((times(rows), times(columns)))
        }
        _ => None,
    }
}

/// The same for all elements of a tile.
fn is_number(int: &Int) -> bool {
    !int.any(&|part| matches!(part, Int::Axis(_) | Int::FlatCoord(..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: AxisId = AxisId(0);
    const COLUMNS: AxisId = AxisId(1);

    fn binary(op: IntOp, a: Int, b: Int) -> Int {
        Int::Binary(op, Box::new(a), Box::new(b))
    }

    fn split_of(int: Int) -> Option<(Int, Int)> {
        let Parts { rows, columns } = parts(&[int], COLUMNS)?;
        Some((rows[0].clone(), columns[0].clone()))
    }

    #[test]
    fn what_a_column_looks_up_is_its_own() {
        let tensor = crate::nest::TensorId(0);
        let element = |axis: AxisId| Int::Element(tensor, vec![Int::Axis(axis)]);
        let both = Int::Element(tensor, vec![Int::Axis(ROWS), Int::Axis(COLUMNS)]);
        let sum = binary(IntOp::Add, Int::Axis(ROWS), element(COLUMNS));
        assert_eq!(split_of(sum), Some((Int::Axis(ROWS), element(COLUMNS))));
        let sum = binary(IntOp::Add, element(ROWS), Int::Axis(COLUMNS));
        assert_eq!(split_of(sum), Some((element(ROWS), Int::Axis(COLUMNS))));
        assert_eq!(split_of(both), None);
    }

    #[test]
    fn sums_come_apart() {
        let (row, column, stride) =
            (Int::FlatCoord(ROWS, 1), Int::FlatCoord(COLUMNS, 0), Int::Scalar(crate::nest::ScalarId(0)));
        let scaled = binary(IntOp::Mul, row.clone(), stride.clone());
        let sum = binary(IntOp::Sub, binary(IntOp::Add, scaled.clone(), column.clone()), Int::Const(3));
        let of_rows = binary(IntOp::Sub, scaled.clone(), Int::Const(3));
        assert_eq!(split_of(sum.clone()), Some((of_rows.clone(), column.clone())));
        let twice = |int: Int| binary(IntOp::Mul, int, stride.clone());
        assert_eq!(split_of(twice(sum)), Some((twice(of_rows), twice(column.clone()))));
        assert_eq!(split_of(row.clone()), Some((row, Int::Const(0))));
        assert_eq!(split_of(column.clone()), Some((Int::Const(0), column)));
        assert_eq!(parts(&[Int::Axis(ROWS), Int::Axis(COLUMNS)], COLUMNS), None, "coordinates");
    }

    #[test]
    fn what_is_no_sum_stays_whole() {
        let (row, column) = (Int::Axis(ROWS), Int::Axis(COLUMNS));
        assert_eq!(split_of(binary(IntOp::Mul, row.clone(), column.clone())), None);
        assert_eq!(split_of(binary(IntOp::Min, row.clone(), column.clone())), None);
        assert_eq!(split_of(binary(IntOp::Div, binary(IntOp::Add, row, column), Int::Const(2))), None);
    }
}
