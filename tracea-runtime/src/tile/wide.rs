//! Loops compiled twice: for any processor of the target, and for one with wider vectors, chosen when the program runs.

use crate::element::Value;

/// A loop over elements of `T`s.
pub(crate) trait Work<T> {
    /// Marked `#[inline(always)]`, since only what is inlined is compiled for the wider vectors.
    fn run(self);
}

/// Runs the loop, compiled for the vectors that this processor has where `T` is not the oracle's model.
pub(crate) fn wide<T: Value>(work: impl Work<T>) {
    #[cfg(target_arch = "x86_64")]
    if !T::MODELLED && std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        #[target_feature(enable = "avx2,fma")]
        fn avx2<T>(work: impl Work<T>) {
            work.run();
        }
        // SAFETY: the processor has both features.
        return unsafe { avx2(work) };
    }
    work.run();
}
