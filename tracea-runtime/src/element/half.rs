//! `f16` and `bf16`: stored in 16 bits, computed in `f32`.

use half::slice::HalfFloatSliceExt;
pub use half::{bf16, f16};

use super::value::{Arithmetic, Number, Value};
use crate::real::Limits;
use crate::tile::{Accumulator, Matrix, product};

macro_rules! half_float {
    ($t:ident, $widen_row:expr, $narrow_row:expr) => {
        impl Value for $t {
            type Acc = f32;
            const ZERO: Self = $t::ZERO;
            #[inline(always)]
            fn widen(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn narrow(wide: f32) -> Self {
                $t::from_f32(wide)
            }
            #[inline(always)]
            fn widen_row(from: &[Self], to: &mut [f32]) {
                let widen: fn(&[Self], &mut [f32]) = $widen_row;
                widen(from, to);
            }
            #[inline(always)]
            fn narrow_row(from: &[f32], to: &mut [Self]) {
                let narrow: fn(&[f32], &mut [Self]) = $narrow_row;
                narrow(from, to);
            }
            fn to_f64(self) -> (f64, f64) {
                (self.to_f64(), 0.0)
            }
            fn from_f64(value: f64, _: f64) -> Self {
                $t::from_f64(value)
            }
        }
        impl Number for $t {}
        impl Arithmetic for $t {
            fn accumulate(a: Matrix<'_, Self>, b: Matrix<'_, Self>, into: &mut Accumulator<f32>) {
                product::widened(a, b, into);
            }
        }
        impl Limits for $t {
            const INFINITY: Self = $t::INFINITY;
            const NEG_INFINITY: Self = $t::NEG_INFINITY;
            const NAN: Self = $t::NAN;
            const MAX: Self = $t::MAX;
            const MIN: Self = $t::MIN;
            const EPSILON: Self = $t::EPSILON;
            const MIN_POSITIVE: Self = $t::MIN_POSITIVE;
        }
    };
}

half_float!(f16, |from, to| from.convert_to_f32_slice(to), |from, to| to.convert_from_f32_slice(from));
half_float!(bf16, widen_bf16, narrow_bf16);

fn widen_bf16(from: &[bf16], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = f32::from_bits(u32::from(from.to_bits()) << 16);
    }
}

/// To nearest, ties to even, without a branch: the carry of the addition rounds.
fn narrow_bf16(from: &[f32], to: &mut [bf16]) {
    for (to, from) in to.iter_mut().zip(from) {
        let bits = from.to_bits();
        let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
        let quiet = (bits >> 16) as u16 | 0x40;
        *to = bf16::from_bits(if from.is_nan() { quiet } else { rounded });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_as_single_values() {
        let values: Vec<f32> =
            (0..4000).map(|i| f32::from_bits((i as u32).wrapping_mul(0x9e37_79b9))).chain([0.0, -0.0, 1e30]).collect();
        let mut row = vec![bf16::ZERO; values.len()];
        bf16::narrow_row(&values, &mut row);
        for (x, y) in values.iter().zip(&row) {
            assert!(y.to_bits() == bf16::from_f32(*x).to_bits() || x.is_nan() && y.is_nan(), "{x}");
        }
        let mut wide = vec![0.0; values.len()];
        bf16::widen_row(&row, &mut wide);
        assert!(row.iter().zip(&wide).all(|(x, y)| x.to_f32().to_bits() == y.to_bits()));
    }
}
