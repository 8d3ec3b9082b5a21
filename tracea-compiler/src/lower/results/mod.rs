//! Results: how what a block of threads has computed gets into tensors, and what it takes in on the way.
//!
//! In the order in which these decide:
//!
//! - `epilogue` finds the stores that take in tiles panel by panel, such as a residual's, before any statement beside them is lowered: the
//!   loads of those tiles wait for their store;
//! - `stores` gives each result its way out where its store stands: straight from registers, through shared memory, or by panels of a
//!   warpgroup's rows; `turned` has one for what was loaded and only has its axes in another order;
//! - `lent` has panels pass through a slot of the ring before, where there is no room beside it;
//! - `dealing` lets all blocks that had a part of a cut tile put it together, some panels each;
//! - `sent` waits, before a panel is written, until TMA has read what lies in its place;
//! - `early` fetches what is taken in along columns before the first loop, as far as there is room in shared memory;
//! - `sunk` moves into the panels what these alone read, what came early among it.
//!
//! The first four see the nest, a store at a time. The others see the finished statements of consumers: only where warps have roles do
//! results leave by panels.

pub(super) mod dealing;
pub(super) mod early;
pub(super) mod epilogue;
pub(super) mod lent;
pub(super) mod sent;
pub(super) mod stores;
pub(super) mod sunk;
pub mod turned;
