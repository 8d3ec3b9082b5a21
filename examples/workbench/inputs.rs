//! Random inputs: the same seed gives the same numbers on any number of cores.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use tracea::prelude::*;

/// An element type that random numbers are rounded to.
pub trait Sample: Float {
    fn from_f32(value: f32) -> Self;
}

impl Sample for f16 {
    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }
}

impl Sample for bf16 {
    fn from_f32(value: f32) -> Self {
        bf16::from_f32(value)
    }
}

impl Sample for f32 {
    fn from_f32(value: f32) -> Self {
        value
    }
}

pub struct Inputs {
    seed: u64,
    /// Chunks drawn so far; each has a generator of its own.
    chunks: u64,
}

impl Inputs {
    const CHUNK: usize = 1 << 16;

    pub fn new(seed: u64) -> Self {
        Inputs { seed, chunks: 0 }
    }

    /// Of mean 0.
    pub fn normal<T: Sample>(&mut self, len: usize, deviation: f32) -> Vec<T> {
        let (seed, first) = (self.seed, self.chunks);
        self.chunks += len.div_ceil(Self::CHUNK) as u64;
        let mut values = vec![T::from_f32(0.0); len];
        values.par_chunks_mut(Self::CHUNK).enumerate().for_each(|(at, values)| {
            let chunk = first + at as u64;
            let mut generator = SmallRng::seed_from_u64(seed ^ chunk.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            for value in values {
                let standard: f32 = StandardNormal.sample(&mut generator);
                *value = T::from_f32(standard * deviation);
            }
        });
        values
    }
}
