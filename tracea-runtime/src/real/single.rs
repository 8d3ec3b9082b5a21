//! [`Real`] in `f32`.

use super::{Limits, Real, exponential};

impl Limits for f32 {
    const INFINITY: Self = f32::INFINITY;
    const NEG_INFINITY: Self = f32::NEG_INFINITY;
    const NAN: Self = f32::NAN;
    const MAX: Self = f32::MAX;
    const MIN: Self = f32::MIN;
    const EPSILON: Self = f32::EPSILON;
    const MIN_POSITIVE: Self = f32::MIN_POSITIVE;
}

impl Real for f32 {
    #[inline(always)]
    fn num(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn exp(self) -> Self {
        exponential::exp(self)
    }
    #[inline(always)]
    fn exp2(self) -> Self {
        exponential::exp2(self)
    }
    #[inline(always)]
    fn log(self) -> Self {
        self.ln()
    }
    #[inline(always)]
    fn log2(self) -> Self {
        self.log2()
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        self.sqrt()
    }
    #[inline(always)]
    fn rsqrt(self) -> Self {
        1.0 / self.sqrt()
    }
    #[inline(always)]
    fn recip(self) -> Self {
        1.0 / self
    }
    #[inline(always)]
    fn tanh(self) -> Self {
        exponential::tanh(self)
    }
    #[inline(always)]
    fn sin(self) -> Self {
        self.sin()
    }
    #[inline(always)]
    fn cos(self) -> Self {
        self.cos()
    }
    #[inline(always)]
    fn erf(self) -> Self {
        libm::erff(self)
    }
    #[inline(always)]
    fn abs(self) -> Self {
        self.abs()
    }
    #[inline(always)]
    fn floor(self) -> Self {
        self.floor()
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        self.ceil()
    }
    #[inline(always)]
    fn round(self) -> Self {
        self.round()
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.max(other)
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.min(other)
    }
    #[inline(always)]
    fn powf(self, exponent: Self) -> Self {
        self.powf(exponent)
    }
}
