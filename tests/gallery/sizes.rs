//! Sizes that several kernels are tried at: nothing, one, primes, full blocks, and one more than that.

use crate::case::{Sizes, Subject};

/// Rows and columns.
pub const MATRICES: Sizes = Sizes {
    fixed: &[&[0, 5], &[5, 0], &[1, 1], &[1, 127], &[7, 1009], &[61, 257], &[64, 128], &[129, 65]],
    random: &[0..=90, 0..=300],
};

/// M, N, K; sums that are long for their few tiles are cut into parts.
pub const PRODUCTS: Sizes = Sizes {
    fixed: &[
        &[0, 5, 7],
        &[5, 0, 7],
        &[5, 7, 0],
        &[1, 1, 1],
        &[2, 3, 5],
        &[31, 37, 41],
        &[1, 257, 67],
        &[129, 65, 33],
        &[64, 128, 96],
        &[67, 131, 137],
        &[136, 72, 1024],
    ],
    random: &[0..=140, 0..=140, 0..=100],
};

impl Subject {
    /// Also at sizes of which a GPU's blocks take several tiles each, or cut sums that are long for few: to the CPU these are only more of the same.
    pub fn in_waves(self, waves: &'static [&'static [usize]]) -> Subject {
        Subject { waves, ..self }
    }
}
