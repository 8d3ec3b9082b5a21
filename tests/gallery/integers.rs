//! Inputs of integers.

use crate::case::{Setting, Stored};
use crate::expected::Array;
use libtest_mimic::Failed;
use rand::Rng;
use std::ops::Range;
use tracea::dim::IntoShape;

impl Setting<'_> {
    /// Evenly distributed.
    pub fn integers<I: IntoShape>(&self, shape: I, range: Range<i32>) -> Result<(Stored<i32, I>, Array), Failed> {
        let random = &mut *self.random.borrow_mut();
        let sizes = shape.sizes();
        let numbers: Vec<i32> = (0..sizes.iter().product()).map(|_| random.random_range(range.clone())).collect();
        let values = numbers.iter().map(|number| f64::from(*number)).collect();
        Ok((self.store(shape, &numbers, i32::MIN)?, Array { sizes, values }))
    }
}
