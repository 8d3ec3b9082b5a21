//! `exp2`, `exp` and `tanh` in single precision without a branch, so that loops over them vectorise.
//!
//! 2^x = 2^n · 2^f with n the nearest integer: 2^f is a Taylor polynomial of degree 7 in f·ln 2 (truncation below 2^-31 for
//! |f| <= 1/2), 2^n is put into the exponent in two halves, so that results down to the smallest subnormal are right. The
//! error is below 2 units in the last place.

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts; products of the first with integers below 2^9 are exact (Cody and Waite 1980).
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Adding and subtracting it rounds to the nearest integer.
const ROUNDER: f32 = 12_582_912.0;

/// e^r for |r| <= (ln 2)/2, times 2^n.
#[inline(always)]
fn scaled(r: f32, n: f32) -> f32 {
    let p = 1.0 / 5040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    let p = (p * r) * r + r + 1.0;
    // SAFETY: callers clamp to |n| <= 152, and a NaN has become a number before it came here.
    let n = unsafe { n.to_int_unchecked::<i32>() };
    let half = n >> 1;
    p * f32::from_bits(((half + 127) << 23) as u32) * f32::from_bits(((n - half + 127) << 23) as u32)
}

#[inline(always)]
fn keep_nan(x: f32, result: f32) -> f32 {
    if x.is_nan() { x } else { result }
}

#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let inside = x.clamp_number(-104.5, 89.0);
    let n = (inside * LOG2_E + ROUNDER) - ROUNDER;
    let r = (inside - n * LN_2_HIGH) - n * LN_2_LOW;
    keep_nan(x, scaled(r, n))
}

#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    let inside = x.clamp_number(-151.0, 129.0);
    let n = (inside + ROUNDER) - ROUNDER;
    keep_nan(x, scaled((inside - n) * std::f32::consts::LN_2, n))
}

/// tanh x = x + x³·q(x²) near 0 (Cephes' `tanhf`), and 1 - 2 / (e^2x + 1) elsewhere.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let z = x * x;
    let q = -5.704_988_4e-3;
    let q = q * z + 2.063_909e-2;
    let q = q * z - 5.373_972e-2;
    let q = q * z + 1.333_144_2e-1;
    let q = q * z - 3.333_328_3e-1;
    let near = x + x * z * q;
    let far = (1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0)).copysign(x);
    if x.abs() < 0.625 { near } else { far }
}

trait ClampNumber {
    fn clamp_number(self, low: f32, high: f32) -> f32;
}

impl ClampNumber for f32 {
    /// A NaN becomes `low`.
    #[inline(always)]
    fn clamp_number(self, low: f32, high: f32) -> f32 {
        let x = if self > low { self } else { low };
        if x < high { x } else { high }
    }
}

#[cfg(test)]
mod tests {
    fn ulps(got: f32, want: f64) -> f64 {
        let unit = f64::from(f32::from_bits((want.abs() as f32).to_bits() + 1)) - f64::from(want.abs() as f32);
        (f64::from(got) - want).abs() / unit
    }

    #[test]
    fn within_two_ulps() {
        for step in -87_000..88_000 {
            let x = step as f32 / 1000.0;
            assert!(ulps(super::exp(x), f64::from(x).exp()) <= 2.0, "exp({x}) = {}", super::exp(x));
            assert!(ulps(super::exp2(x), f64::from(x).exp2()) <= 2.0, "exp2({x})");
            assert!(ulps(super::tanh(x / 8.0), (f64::from(x) / 8.0).tanh()) <= 3.0, "tanh({})", x / 8.0);
        }
    }

    #[test]
    fn ends() {
        assert_eq!(super::exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(super::exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(super::exp(0.0), 1.0);
        assert!(super::exp(f32::NAN).is_nan() && super::exp2(f32::NAN).is_nan() && super::tanh(f32::NAN).is_nan());
        assert_eq!(super::exp2(-149.0), f32::from_bits(1));
        assert_eq!(super::exp2(-200.0), 0.0);
        assert_eq!(super::exp2(128.0), f32::INFINITY);
        assert_eq!(super::exp2(127.0), 2f32.powi(127));
        assert_eq!(super::tanh(f32::NEG_INFINITY), -1.0);
    }
}
