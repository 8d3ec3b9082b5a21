//! Softmax over rows: `cargo run --release --example softmax -- --rows 4096 --cols 4096 --time`

mod workbench;

use clap::Parser;
use std::error::Error;
use std::process::ExitCode;
use tracea::kernels::softmax::softmax;
use tracea::prelude::*;
use workbench::{DtypeName, Flags, Sample, Work, Workbench};

#[derive(Parser)]
#[command(about = "y = softmax(x) along each row")]
struct Options {
    #[command(flatten)]
    flags: Flags,
    #[arg(long, default_value_t = 1024)]
    rows: usize,
    #[arg(long, default_value_t = 1024)]
    cols: usize,
}

fn main() -> ExitCode {
    let options = Options::parse();
    workbench::exit(match options.flags.dtype {
        DtypeName::F16 => run::<f16>(&options),
        DtypeName::Bf16 => run::<bf16>(&options),
        DtypeName::F32 => run::<f32>(&options),
        DtypeName::Tf32 => Err("softmax takes f16, bf16 and f32: it has no products for tf32".into()),
    })
}

fn run<T: Sample>(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let Options { rows, cols, .. } = *options;
    let mut bench = Workbench::new(&options.flags)?;
    let x = bench.normal::<T, _>((rows, cols))?;
    let mut y = bench.zeros::<T, _>((rows, cols))?;
    let elements = (rows * cols) as f64;
    let work = Work {
        kernel: "softmax".into(),
        shape: vec![("rows", rows), ("cols", cols)],
        dtype: options.flags.dtype,
        // Comparison, difference, exponential, sum, quotient.
        flops: 5.0 * elements,
        bytes: 2.0 * elements * options.flags.dtype.bytes(),
    };
    bench.run(work, softmax(&x, &mut y))
}
