//! Kernels that move more than they compute: `cargo run --release --example memory -- --kernel gelu --rows 4096 --cols 4096 --time`
//!
//! Softmax and the norms are ready kernels; the others are this example's own.

mod workbench;

use clap::{Parser, ValueEnum};
use std::error::Error;
use std::process::ExitCode;
use tracea::kernels::norm::{layer_norm, rms_norm};
use tracea::kernels::softmax::softmax;
use tracea::prelude::*;
use workbench::{DtypeName, Flags, Sample, Work, Workbench};

#[derive(Parser)]
#[command(
    about = "Kernels without a product over an x (rows, cols): norms along its rows, element-wise, sums, transpose"
)]
struct Options {
    #[command(flatten)]
    flags: Flags,
    #[arg(long, value_enum, default_value = "softmax")]
    kernel: Kernel,
    #[arg(long, default_value_t = 1024)]
    rows: usize,
    #[arg(long, default_value_t = 1024)]
    cols: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kernel {
    /// Along each row
    Softmax,
    /// Along each row, with gain and offset by column
    LayerNorm,
    /// Along each row, with gain by column
    RmsNorm,
    /// gelu(x)
    Gelu,
    /// x + y
    Add,
    /// The sum of each row, in f32
    RowSum,
    /// The sum of each column, in f32
    ColSum,
    /// xᵀ
    Transpose,
}

impl Kernel {
    fn name(self) -> &'static str {
        match self {
            Kernel::Softmax => "softmax",
            Kernel::LayerNorm => "layer_norm",
            Kernel::RmsNorm => "rms_norm",
            Kernel::Gelu => "gelu",
            Kernel::Add => "add",
            Kernel::RowSum => "row_sum",
            Kernel::ColSum => "col_sum",
            Kernel::Transpose => "transpose",
        }
    }
}

/// `y = gelu(x)`
#[kernel(T = [f16, bf16, f32])]
fn gelu_each<T: Float, M: Dim, N: Dim>(x: &Tensor<T, (M, N)>, y: &mut Tensor<T, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        y[(i, j)] = x[(i, j)].to::<f32>().map(gelu).to();
    });
}

/// `z = x + y`
#[kernel(T = [f16, bf16, f32])]
fn add<T: Float, M: Dim, N: Dim>(x: &Tensor<T, (M, N)>, y: &Tensor<T, (M, N)>, z: &mut Tensor<T, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        z[(i, j)] = (x[(i, j)].to::<f32>() + y[(i, j)].to::<f32>()).to();
    });
}

/// `sums = Σ over columns of x`
#[kernel(T = [f16, bf16, f32])]
fn row_sum<T: Float, M: Dim, N: Dim>(x: &Tensor<T, (M, N)>, sums: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        let mut sum = zeros::<f32>(i);
        tile!(for j in N {
            sum += x[(i, j)].to::<f32>().row_sum();
        });
        sums[i] = sum;
    });
}

/// `sums = Σ over rows of x`
#[kernel(T = [f16, bf16, f32])]
fn col_sum<T: Float, M: Dim, N: Dim>(x: &Tensor<T, (M, N)>, sums: &mut Tensor<f32, (N,)>) {
    tile!(for j in N {
        let mut sum = zeros::<f32>(j);
        tile!(for i in M {
            sum += x[(i, j)].to::<f32>().col_sum();
        });
        sums[j] = sum;
    });
}

/// `y = xᵀ`
#[kernel(T = [f16, bf16, f32])]
fn transpose<T: Float, M: Dim, N: Dim>(x: &Tensor<T, (M, N)>, y: &mut Tensor<T, (N, M)>) {
    tile!(for (i, j) in (M, N) {
        y[(j, i)] = x[(i, j)].t();
    });
}

fn main() -> ExitCode {
    let options = Options::parse();
    workbench::exit(match options.flags.dtype {
        DtypeName::F16 => run::<f16>(&options),
        DtypeName::Bf16 => run::<bf16>(&options),
        DtypeName::F32 => run::<f32>(&options),
        DtypeName::Tf32 => Err("memory takes f16, bf16 and f32: tf32 is for products".into()),
    })
}

fn run<T: Sample>(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let Options { rows, cols, kernel, .. } = *options;
    let mut bench = Workbench::new(&options.flags)?;
    let x = bench.normal::<T, _>((rows, cols))?;
    let work = |bytes: usize| Work {
        kernel: kernel.name().into(),
        shape: vec![("rows", rows), ("cols", cols)],
        dtype: options.flags.dtype,
        flops: None,
        bytes,
    };
    let (whole, row) = (x.len() * size_of::<T>(), cols * size_of::<T>());
    match kernel {
        Kernel::Softmax => {
            let mut y = bench.zeros::<T, _>((rows, cols))?;
            bench.run(work(2 * whole), softmax(&x, &mut y))
        }
        Kernel::LayerNorm => {
            let (gamma, beta) = (bench.normal::<T, _>((cols,))?, bench.normal::<T, _>((cols,))?);
            let mut y = bench.zeros::<T, _>((rows, cols))?;
            bench.run(work(2 * whole + 2 * row), layer_norm(&x, &gamma, &beta, &mut y, 1e-5))
        }
        Kernel::RmsNorm => {
            let gamma = bench.normal::<T, _>((cols,))?;
            let mut y = bench.zeros::<T, _>((rows, cols))?;
            bench.run(work(2 * whole + row), rms_norm(&x, &gamma, &mut y, 1e-5))
        }
        Kernel::Gelu => {
            let mut y = bench.zeros::<T, _>((rows, cols))?;
            bench.run(work(2 * whole), gelu_each(&x, &mut y))
        }
        Kernel::Add => {
            let y = bench.normal::<T, _>((rows, cols))?;
            let mut z = bench.zeros::<T, _>((rows, cols))?;
            bench.run(work(3 * whole), add(&x, &y, &mut z))
        }
        Kernel::RowSum => {
            let mut sums = bench.zeros::<f32, _>((rows,))?;
            bench.run(work(whole + rows * size_of::<f32>()), row_sum(&x, &mut sums))
        }
        Kernel::ColSum => {
            let mut sums = bench.zeros::<f32, _>((cols,))?;
            bench.run(work(whole + cols * size_of::<f32>()), col_sum(&x, &mut sums))
        }
        Kernel::Transpose => {
            let mut y = bench.zeros::<T, _>((cols, rows))?;
            bench.run(work(2 * whole), transpose(&x, &mut y))
        }
    }
}
