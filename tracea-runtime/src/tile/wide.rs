//! Loops compiled twice: for any processor of the target, and for one with wider vectors, chosen when the program runs.

use crate::element::Value;

/// Runs `f`, compiled for the vectors that this processor has where `T` is not the oracle's model.
#[inline(always)]
pub(crate) fn wide<T: Value, R>(f: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if !T::MODELLED && std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        #[target_feature(enable = "avx2,fma")]
        fn avx2<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        // SAFETY: the processor has both features.
        return unsafe { avx2(f) };
    }
    f()
}
