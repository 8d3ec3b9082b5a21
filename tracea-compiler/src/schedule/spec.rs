//! A schedule as somebody wrote it: a target and options by name, with the tokens to blame.
//!
//! Where it comes from (an attribute now, a tuned file later) stays apart from what it does.

use proc_macro2::Span;

#[derive(Clone, Debug)]
pub struct ScheduleSpec {
    /// `sm_80`, `sm_90a`.
    pub target: String,
    pub target_span: Span,
    pub options: Vec<ScheduleOption>,
}

/// `stages = 4`, `warps = (2, 2)`, `swapped = true`, `i = 128` (a block size, by axis name).
#[derive(Clone, Debug)]
pub struct ScheduleOption {
    pub name: String,
    pub name_span: Span,
    /// None where the value is a flag.
    pub values: Vec<u32>,
    pub flag: Option<bool>,
    pub value_span: Span,
}
