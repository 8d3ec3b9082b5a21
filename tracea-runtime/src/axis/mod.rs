//! Axes as types: what rustc knows about a tile and an index.
//!
//! A loop introduces a name with a number of its own ([`ordinal`]); a tile's type lists the axes that it spans ([`list`]), and
//! operators and indices compute lists from lists. Values of these types carry the block that runs ([`index`], [`extent`]).
pub mod axes;
pub mod boolean;
pub mod coord;
pub mod extent;
pub mod index;
pub mod list;
pub mod ordinal;

pub use axes::{Axes, KnownDim, ReducedAxis};
pub use coord::{Coord, CoordMap};
pub use extent::{Extent, Flat, Integer, flat};
pub use index::{Component, Index, Ix, Slot};
pub use list::{Axis, AxisName, Insert, Remove, Union, Whole, Within};
