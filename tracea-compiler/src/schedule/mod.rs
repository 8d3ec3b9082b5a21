//! Schedules: where they come from ([`spec`]) and what they do.
pub mod spec;
