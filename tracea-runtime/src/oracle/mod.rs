//! The oracle: a kernel's own body, computed in `f64` with a bound of the error that the device may make.
//!
//! The body is generic in its arithmetic. With [`Bounded`] in place of each float type it computes every element in `f64` and
//! carries a first-order running error bound (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., section 3.3): each
//! operation in a precision with unit roundoff u adds u·|result| to the operands' errors, which pass through the derivative.
//! So the tolerance of a comparison is derived from the kernel and the data, and nobody chooses it.
mod bounded;
mod precision;
mod product;
mod scalar;

pub use bounded::Bounded;
pub use precision::{Bf16, F16, F32, Precision, Tf32};
