//! The compiler of Tracea.
pub mod nest;
pub mod plan;
pub mod schedule;
