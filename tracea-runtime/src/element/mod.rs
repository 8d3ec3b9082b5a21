//! What tensors and tiles hold.
//!
//! A tensor's memory holds [`Element`]s. A tile holds [`Value`]s: the same types, `tf32`, `bool`, or a model of one in the
//! oracle. A kernel's body is generic over [`Arithmetic`], so one text runs in each of them. All arithmetic happens in the value's
//! accumulator type and is rounded once, as on the device.
mod half;
mod integer;
mod memory;
mod ring;
mod single;
mod tensor_float;
mod value;

pub use self::half::{bf16, f16};
pub use memory::{Element, Float, Stored};
pub use ring::Ring;
pub(crate) use ring::fold;
pub use tensor_float::tf32;
pub use value::{Arithmetic, Number, Value};
