//! A linear layer, fused: `cargo run --release --example linear -- --m 4096 --n 4096 --k 4096 --act gelu --time`
//!
//! The usual layout is a ready kernel; the transposed ones are this example's own.

mod workbench;

use clap::{Parser, ValueEnum};
use std::error::Error;
use std::process::ExitCode;
use tracea::kernels::linear::*;
use tracea::prelude::*;
use workbench::{DtypeName, Flags, Sample, Work, Workbench};

#[derive(Parser)]
#[command(about = "y = act(x · wᵀ + bias), x (m, k), w (n, k)")]
struct Options {
    #[command(flatten)]
    flags: Flags,
    #[arg(long, default_value_t = 512)]
    m: usize,
    #[arg(long, default_value_t = 512)]
    n: usize,
    #[arg(long, default_value_t = 512)]
    k: usize,
    /// x lies transposed in memory, (k, m)
    #[arg(long)]
    ta: bool,
    /// w lies transposed in memory, (k, n)
    #[arg(long)]
    tb: bool,
    #[arg(long, value_enum, default_value = "relu")]
    act: Act,
    /// Add a tensor like y after the activation
    #[arg(long, conflicts_with_all = ["ta", "tb"])]
    residual: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Act {
    None,
    Relu,
    Gelu,
    Silu,
}

impl Act {
    fn suffix(self) -> &'static str {
        match self {
            Act::None => "",
            Act::Relu => "_relu",
            Act::Gelu => "_gelu",
            Act::Silu => "_silu",
        }
    }
}

type Matrix<T> = Tensor<T, (Dyn, Dyn)>;

/// The layouts that the ready kernels leave out, with one activation.
macro_rules! transposed {
    ($($module:ident: $act:ident;)*) => {$(
        mod $module {
            use super::*;

            #[kernel(T = [f16, bf16])]
            pub fn w<T: Float, M: Dim, N: Dim, K: Dim>(
                x: &Tensor<T, (M, K)>, w: &Tensor<T, (K, N)>, bias: &Tensor<T, (N,)>, y: &mut Tensor<T, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(x[(i, k)], w[(k, j)]); });
                    y[(i, j)] = (acc + bias[j].to::<f32>()).map($act).to();
                });
            }

            #[kernel(T = [f16, bf16])]
            pub fn x<T: Float, M: Dim, N: Dim, K: Dim>(
                x: &Tensor<T, (K, M)>, w: &Tensor<T, (N, K)>, bias: &Tensor<T, (N,)>, y: &mut Tensor<T, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(x[(k, i)].t(), w[(j, k)].t()); });
                    y[(i, j)] = (acc + bias[j].to::<f32>()).map($act).to();
                });
            }

            #[kernel(T = [f16, bf16])]
            pub fn both<T: Float, M: Dim, N: Dim, K: Dim>(
                x: &Tensor<T, (K, M)>, w: &Tensor<T, (K, N)>, bias: &Tensor<T, (N,)>, y: &mut Tensor<T, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(x[(k, i)].t(), w[(k, j)]); });
                    y[(i, j)] = (acc + bias[j].to::<f32>()).map($act).to();
                });
            }
        }
    )*};
}

transposed! {
    transposed: identity;
    transposed_relu: relu;
    transposed_gelu: gelu;
    transposed_silu: silu;
}

fn main() -> ExitCode {
    let options = Options::parse();
    workbench::exit(match options.flags.dtype {
        DtypeName::F16 => run::<f16>(&options),
        DtypeName::Bf16 => run::<bf16>(&options),
        DtypeName::F32 | DtypeName::Tf32 => Err("linear takes f16 and bf16".into()),
    })
}

fn run<T: Sample>(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let Options { m, n, k, ta, tb, act, .. } = *options;
    let mut bench = Workbench::new(&options.flags)?;
    let x = bench.normal::<T, _>(if ta { (k, m) } else { (m, k) })?;
    let w = bench.normal::<T, _>(if tb { (k, n) } else { (n, k) })?;
    let bias = bench.normal::<T, _>((n,))?;
    let residual = if options.residual { Some(bench.normal::<T, _>((m, n))?) } else { None };
    let mut y = bench.zeros::<T, _>((m, n))?;
    let elements = x.len() + w.len() + bias.len() + y.len() + residual.as_ref().map_or(0, |residual| residual.len());
    let work = Work {
        kernel: format!("linear{}{}", act.suffix(), if options.residual { "_residual" } else { "" }),
        shape: vec![("m", m), ("n", n), ("k", k)],
        dtype: options.flags.dtype,
        flops: Some(2.0 * m as f64 * n as f64 * k as f64),
        bytes: elements * size_of::<T>(),
    };
    let launch = match &residual {
        Some(residual) => match act {
            Act::None => linear_residual(&x, &w, &bias, residual, &mut y),
            Act::Relu => linear_relu_residual(&x, &w, &bias, residual, &mut y),
            Act::Gelu => linear_gelu_residual(&x, &w, &bias, residual, &mut y),
            Act::Silu => linear_silu_residual(&x, &w, &bias, residual, &mut y),
        },
        None => plain(options, &x, &w, &bias, &mut y),
    };
    bench.run(work, launch)
}

fn plain<'t, T: Float>(
    options: &Options,
    x: &'t Matrix<T>,
    w: &'t Matrix<T>,
    bias: &'t Tensor<T, (Dyn,)>,
    y: &'t mut Matrix<T>,
) -> Launch<'t> {
    match (options.act, options.ta, options.tb) {
        (Act::None, false, false) => linear(x, w, bias, y),
        (Act::None, false, true) => transposed::w(x, w, bias, y),
        (Act::None, true, false) => transposed::x(x, w, bias, y),
        (Act::None, true, true) => transposed::both(x, w, bias, y),
        (Act::Relu, false, false) => linear_relu(x, w, bias, y),
        (Act::Relu, false, true) => transposed_relu::w(x, w, bias, y),
        (Act::Relu, true, false) => transposed_relu::x(x, w, bias, y),
        (Act::Relu, true, true) => transposed_relu::both(x, w, bias, y),
        (Act::Gelu, false, false) => linear_gelu(x, w, bias, y),
        (Act::Gelu, false, true) => transposed_gelu::w(x, w, bias, y),
        (Act::Gelu, true, false) => transposed_gelu::x(x, w, bias, y),
        (Act::Gelu, true, true) => transposed_gelu::both(x, w, bias, y),
        (Act::Silu, false, false) => linear_silu(x, w, bias, y),
        (Act::Silu, false, true) => transposed_silu::w(x, w, bias, y),
        (Act::Silu, true, false) => transposed_silu::x(x, w, bias, y),
        (Act::Silu, true, true) => transposed_silu::both(x, w, bias, y),
    }
}
