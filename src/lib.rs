//! A kernel language embedded in Rust.
//!
//! A function under [`#[kernel]`](macro@kernel) is written as tiled loop nests in Rust syntax. rustc type-checks it, it runs on the
//! CPU as it stands, and it was lowered at compile time, under a chosen schedule, to readable CUDA C++.
//!
//! ```no_run
//! use tracea::prelude::*;
//!
//! /// C = relu(A · Bᵀ + bias)
//! #[kernel]
//! pub fn linear_relu<M: Dim, N: Dim, K: Dim>(
//!     a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, bias: &Tensor<f16, (N,)>, c: &mut Tensor<f16, (M, N)>,
//! ) {
//!     tile!(for (i, j) in (M, N) {
//!         let mut acc = zeros::<f32>((i, j));
//!         tile!(for k in K {
//!             acc += dot(a[(i, k)], b[(j, k)].t());
//!         });
//!         c[(i, j)] = (acc + bias[j].to::<f32>()).map(relu).to();
//!     });
//! }
//!
//! fn main() -> Result<(), Error> {
//!     let dev = Device::best()?; // CUDA where there is a GPU, else the CPU
//!     let (m, n, k) = (512, 256, 128);
//!     let a = dev.zeros::<f16, _>((m, k))?;
//!     let b = dev.zeros::<f16, _>((n, k))?;
//!     let bias = dev.zeros::<f16, _>((n,))?;
//!     let mut c = dev.zeros::<f16, _>((m, n))?;
//!     linear_relu(&a, &b, &bias, &mut c).launch()?; // asynchronous, on the device's stream
//!     linear_relu(&a, &b, &bias, &mut c).verify()?; // launch, then compare with the same kernel in f64
//!     Ok(())
//! }
//! ```
//!
//! # The language
//!
//! * A kernel's arguments are tensors (`&Tensor<f16, (M, K)>`, outputs `&mut`), scalars (`f32`, `i32`) and flags (`bool`). Dims are
//!   generics bounded by [`Dim`], or [`Const<N>`](Const) where the types fix a size.
//! * `tile!(for (i, j) in (M, N) { … })` at the top is the grid: its blocks run in parallel. Inside, `tile!` is a loop in order, and a
//!   `mut` variable that it assigns is carried from one iteration to the next. `each(D)` is a scalar loop, `flat(A, B, C)` one axis over a
//!   product of dims, `T.until(e)`, `T.from(e)`, `T.range(a..b)` bound a loop.
//! * `x[(i, k)]` loads a tile, `c[(i, j)] = …` stores one. An index is a loop variable, integer arithmetic on it, `i.start()`, or `..`
//!   for the whole of an axis whose size is known; of a load, also a number that a tensor of `i32` holds, as in `table[(ids[i], d)]`.
//!   Outside reads give 0.
//! * Tiles are typed by their axes and broadcast by them. [`zeros`], [`full`], [`iota`] and
//!   [`dot`] make them; methods of [`Tile`] compute with them.
//! * The algorithm names no block size: those belong to `#[schedule(…)]`, or to the compiler.
//! * `const` generics, dtype generics (`T: Float`) and flags are listed in the attribute and compiled one by one:
//!   `#[kernel(D = [64, 128], T = [f16, bf16], causal = [false, true])]`.

extern crate self as tracea;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod activation;
pub mod kernels;
pub mod prelude;

pub use prelude::*;
pub use tracea_runtime::{axis, cuda, device, dim, dtype, element, error, launch, plan, tensor, tile, verify};
