//! The floating-point formats that the oracle models.

use std::fmt::Debug;

use crate::element::{Element, bf16, f16, tf32};

/// A binary floating-point format.
pub trait Precision: Copy + Debug + Send + Sync + 'static {
    /// What a tensor of it holds in memory.
    type Storage: Element<Oracle: Sized>;
    /// Half the distance from 1 to the next number: the largest relative error of a rounding.
    const UNIT: f64;
    /// The smallest subnormal: an absolute error that a rounding near 0 may make.
    const TINY: f64;
    /// The largest finite number.
    const MAX: f64;
    const MIN_POSITIVE: f64;
    /// Whether a conversion may cut the last bits off instead of rounding to the nearest number: off by up to two units then, and
    /// never larger in magnitude.
    const CUT: bool;

    /// The nearest number of the format.
    fn rounded(value: f64) -> f64;
    fn from_storage(stored: Self::Storage) -> f64;
    fn to_storage(value: f64) -> Self::Storage;
}

macro_rules! precision {
    ($($(#[$doc:meta])* $name:ident: $storage:ty, $fraction:literal, $min_exponent:literal, $max:expr, $cut:literal, $round:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Precision for $name {
            type Storage = $storage;
            const UNIT: f64 = power_of_two(-$fraction - 1);
            const TINY: f64 = power_of_two($min_exponent - $fraction);
            const MAX: f64 = $max;
            const MIN_POSITIVE: f64 = power_of_two($min_exponent);
            const CUT: bool = $cut;
            fn rounded(value: f64) -> f64 {
                let round: fn(f64) -> f64 = $round;
                round(value)
            }
            fn from_storage(stored: $storage) -> f64 {
                f64::from(stored)
            }
            fn to_storage(value: f64) -> $storage {
                <$storage as crate::element::Value>::from_f64(value, 0.0)
            }
        }
    )*};
}

precision! {
    /// 10 fraction bits, 5 exponent bits.
    F16: f16, 10, -14, 65504.0, false, |x| f16::from_f64(x).to_f64();
    /// 7 fraction bits, 8 exponent bits.
    Bf16: bf16, 7, -126, 3.389_531_389_251_535_5e38, false, |x| bf16::from_f64(x).to_f64();
    /// `f32` that keeps 10 fraction bits. `wgmma` reads plain `f32` from shared memory and ignores the other 13 (PTX ISA, "Matrix
    /// Fragments"); `mma.sync` is given operands rounded to the nearest.
    Tf32: f32, 10, -126, 3.401_162_134_214_653_5e38, true, |x| f64::from(tf32::from_f32(x as f32).to_f32());
    /// 23 fraction bits, 8 exponent bits.
    F32: f32, 23, -126, f32::MAX as f64, false, |x| f64::from(x as f32);
}

const fn power_of_two(exponent: i32) -> f64 {
    // -149 is the least exponent asked for: always a normal f64.
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_match_the_formats() {
        assert_eq!(F16::TINY, f16::from_bits(1).to_f64());
        assert_eq!(F16::MAX, f16::MAX.to_f64());
        assert_eq!(Bf16::TINY, bf16::from_bits(1).to_f64());
        assert_eq!(Bf16::MAX, bf16::MAX.to_f64());
        assert_eq!(F32::TINY, f64::from(f32::from_bits(1)));
        assert_eq!(F32::UNIT * 2.0, f64::from(f32::EPSILON));
        assert_eq!(Tf32::MAX, f64::from(f32::from_bits(0x7f7f_e000)));
        assert_eq!(F16::UNIT * 2.0, f16::EPSILON.to_f64());
    }
}
