//! `f16` and `bf16`: stored in 16 bits, computed in `f32`.

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

half_float!(f16, f16c::widen, f16c::narrow);
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

/// Rows of `f16` by the processor's own conversions where it has them.
mod f16c {
    use half::slice::HalfFloatSliceExt;

    use super::f16;

    const LANES: usize = 8;

    pub fn widen(from: &[f16], to: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("f16c") {
            // SAFETY: the processor has the feature.
            return unsafe { widen_wide(from, to) };
        }
        from.convert_to_f32_slice(to);
    }

    pub fn narrow(from: &[f32], to: &mut [f16]) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("f16c") {
            // SAFETY: the processor has the feature.
            return unsafe { narrow_wide(from, to) };
        }
        to.convert_from_f32_slice(from);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx,f16c")]
    fn widen_wide(from: &[f16], to: &mut [f32]) {
        use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
        let (chunks, rest) = from.as_chunks::<LANES>();
        let (to_chunks, to_rest) = to.as_chunks_mut::<LANES>();
        for (from, to) in chunks.iter().zip(to_chunks) {
            // SAFETY: both chunks hold eight elements, and the instructions ask for no alignment.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast()))) };
        }
        rest.iter().zip(to_rest).for_each(|(from, to)| *to = from.to_f32());
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx,f16c")]
    fn narrow_wide(from: &[f32], to: &mut [f16]) {
        use std::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps};
        let (chunks, rest) = from.as_chunks::<LANES>();
        let (to_chunks, to_rest) = to.as_chunks_mut::<LANES>();
        for (from, to) in chunks.iter().zip(to_chunks) {
            // SAFETY: as above.
            unsafe {
                let narrow = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.as_ptr()));
                _mm_storeu_si128(to.as_mut_ptr().cast(), narrow);
            }
        }
        rest.iter().zip(to_rest).for_each(|(from, to)| *to = f16::from_f32(*from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_f16_as_single_values() {
        let every: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let mut wide = vec![0.0; every.len()];
        f16::widen_row(&every, &mut wide);
        assert!(every.iter().zip(&wide).all(|(x, y)| x.to_f32() == *y || x.is_nan() && y.is_nan()));
        let between: Vec<f32> = wide.iter().map(|x| x * 1.000_244_1).chain([1.0; 3]).collect();
        let mut back = vec![f16::ZERO; between.len()];
        f16::narrow_row(&between, &mut back);
        assert!(between.iter().zip(&back).all(|(x, y)| f16::from_f32(*x) == *y || x.is_nan() && y.is_nan()));
    }

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
