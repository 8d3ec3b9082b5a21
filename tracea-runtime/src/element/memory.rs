//! What a tensor's memory holds, and how tiles read and write it.

use std::fmt::Debug;

use super::value::{Arithmetic, Value};
use crate::dtype::Dtype;
use crate::oracle::{Bf16, Bounded, F16, F32};

/// A type in a tensor's memory.
pub trait Element: Copy + Debug + Default + Send + Sync + Stored<Storage = Self> + 'static {
    const DTYPE: Dtype;
    /// The same element in the oracle.
    type Oracle: Stored<Storage = Self>;
}

/// A floating-point element: the bound of a kernel's own `T: Float`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a floating-point element",
    label = "expected f16, bf16 or f32"
)]
pub trait Float: Element<Oracle: Arithmetic<Acc = Bounded<F32>>> + Arithmetic<Acc = f32> {}

/// A value that has a form in memory.
pub trait Stored: Value {
    type Storage: Element;
    fn load(stored: Self::Storage) -> Self;
    fn store(self) -> Self::Storage;
}

impl Element for super::f16 {
    const DTYPE: Dtype = Dtype::F16;
    type Oracle = Bounded<F16>;
}
impl Element for super::bf16 {
    const DTYPE: Dtype = Dtype::Bf16;
    type Oracle = Bounded<Bf16>;
}
impl Element for f32 {
    const DTYPE: Dtype = Dtype::F32;
    type Oracle = Bounded<F32>;
}
impl Element for i32 {
    const DTYPE: Dtype = Dtype::I32;
    type Oracle = i32;
}
impl Float for super::f16 {}
impl Float for super::bf16 {}
impl Float for f32 {}

macro_rules! in_place {
    ($($t:ty)*) => {$(
        impl Stored for $t {
            type Storage = $t;
            #[inline(always)]
            fn load(stored: $t) -> $t {
                stored
            }
            #[inline(always)]
            fn store(self) -> $t {
                self
            }
        }
    )*};
}
in_place!(super::f16 super::bf16 f32 i32);
