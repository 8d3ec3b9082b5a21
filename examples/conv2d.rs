//! Convolution, channels last: `cargo run --release --example conv2d -- --n 64 --c 64 --h 56 --w 56 --k 64 --act relu --time`

mod workbench;

use clap::{Parser, ValueEnum};
use std::error::Error;
use std::process::ExitCode;
use tracea::kernels::conv::{conv2d, conv2d_relu, conv2d_silu, output_size};
use tracea::prelude::*;
use workbench::{DtypeName, Flags, Sample, Work, Workbench};

#[derive(Parser)]
#[command(about = "y = act(conv(x, w) + bias), x (n, h, w, c), w (k, rs, rs, c)")]
struct Options {
    #[command(flatten)]
    flags: Flags,
    /// Images
    #[arg(long, default_value_t = 2)]
    n: usize,
    /// Input channels
    #[arg(long, default_value_t = 32)]
    c: usize,
    #[arg(long, default_value_t = 28)]
    h: usize,
    #[arg(long, default_value_t = 28)]
    w: usize,
    /// Output channels
    #[arg(long, default_value_t = 32)]
    k: usize,
    /// Height and width of the window
    #[arg(long, default_value_t = 3)]
    rs: usize,
    #[arg(long, default_value_t = 1)]
    stride: usize,
    #[arg(long, default_value_t = 1)]
    pad: usize,
    #[arg(long, default_value_t = 1)]
    dilation: usize,
    #[arg(long, value_enum, default_value = "relu")]
    act: Act,
}

#[derive(Clone, Copy, ValueEnum)]
enum Act {
    None,
    Relu,
    Silu,
}

fn main() -> ExitCode {
    let options = Options::parse();
    workbench::exit(match options.flags.dtype {
        DtypeName::F16 => run::<f16>(&options),
        DtypeName::Bf16 => run::<bf16>(&options),
        DtypeName::F32 | DtypeName::Tf32 => Err("conv2d takes f16 and bf16".into()),
    })
}

fn run<T: Sample>(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let Options { n, c, h, w, k, rs, stride, pad, dilation, .. } = *options;
    let p = output_size(h, rs, stride, pad, dilation);
    let q = output_size(w, rs, stride, pad, dilation);
    let mut bench = Workbench::new(&options.flags)?;
    let x = bench.normal::<T, _>((n, h, w, c))?;
    let weights = bench.normal::<T, _>((k, rs, rs, c))?;
    let bias = bench.normal::<T, _>((k,))?;
    let mut y = bench.zeros::<T, _>((n, p, q, k))?;
    let work = Work {
        kernel: match options.act {
            Act::None => "conv2d".into(),
            Act::Relu => "conv2d_relu".into(),
            Act::Silu => "conv2d_silu".into(),
        },
        shape: vec![
            ("n", n),
            ("c", c),
            ("h", h),
            ("w", w),
            ("k", k),
            ("rs", rs),
            ("stride", stride),
            ("pad", pad),
            ("dilation", dilation),
        ],
        dtype: options.flags.dtype,
        flops: Some(2.0 * (n * p * q) as f64 * (k * rs * rs * c) as f64),
        bytes: (x.len() + weights.len() + bias.len() + y.len()) * size_of::<T>(),
    };
    let (stride, pad, dilation) = (i32::try_from(stride)?, i32::try_from(pad)?, i32::try_from(dilation)?);
    let launch = match options.act {
        Act::None => conv2d(&x, &weights, &bias, &mut y, stride, pad, dilation),
        Act::Relu => conv2d_relu(&x, &weights, &bias, &mut y, stride, pad, dilation),
        Act::Silu => conv2d_silu(&x, &weights, &bias, &mut y, stride, pad, dilation),
    };
    bench.run(work, launch)
}
