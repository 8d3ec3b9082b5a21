//! The flags that every example has.

use clap::{Args, ValueEnum};
use serde::Serialize;
use std::fmt;

#[derive(Args)]
pub struct Flags {
    /// Where to run; auto takes a GPU where there is one
    #[arg(long, value_enum, default_value = "auto")]
    pub device: DeviceName,
    /// Type of the elements
    #[arg(long, value_enum, default_value = "f16")]
    pub dtype: DtypeName,
    /// Of the random inputs and of the verified sample
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Compare with the same kernel in f64: every element, a sample of tiles, or not at all
    #[arg(long, value_enum, default_value = "sample")]
    pub verify: VerifyMode,
    /// Time the launch: CUDA events with the L2 cache flushed between runs, or the wall clock on the CPU
    #[arg(long)]
    pub time: bool,
    /// Take this schedule of those that the kernel was compiled with (`--show plan` lists them)
    #[arg(long)]
    pub schedule: Option<String>,
    /// Time every schedule that the kernel was compiled with for the GPU
    #[arg(long)]
    pub portfolio: bool,
    /// Print the launch plan, with times where they are asked for, or the CUDA source, and nothing else
    #[arg(long, value_enum)]
    pub show: Option<Show>,
    /// Report in one line of JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum DeviceName {
    Auto,
    Cpu,
    Cuda,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DtypeName {
    F16,
    Bf16,
    F32,
    /// f32 in memory, 10 bits of mantissa in products
    Tf32,
}

impl fmt::Display for DtypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DtypeName::F16 => "f16",
            DtypeName::Bf16 => "bf16",
            DtypeName::F32 => "f32",
            DtypeName::Tf32 => "tf32",
        })
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum VerifyMode {
    All,
    Sample,
    Off,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Show {
    Cuda,
    Plan,
}
