//! Matrix products in four transpositions: `cargo run --release --example gemm -- --m 4096 --n 4096 --k 4096 --tb --time`
//!
//! Plain products are ready kernels; those with an activation are this example's own.

mod workbench;

use clap::{Parser, ValueEnum};
use std::error::Error;
use std::process::ExitCode;
use tracea::kernels::gemm::*;
use tracea::prelude::*;
use workbench::{DtypeName, Flags, Sample, Work, Workbench};

#[derive(Parser)]
#[command(about = "c = act(op(a) · op(b))")]
struct Options {
    #[command(flatten)]
    flags: Flags,
    #[arg(long, default_value_t = 512)]
    m: usize,
    #[arg(long, default_value_t = 512)]
    n: usize,
    #[arg(long, default_value_t = 512)]
    k: usize,
    /// a lies transposed in memory, (k, m)
    #[arg(long)]
    ta: bool,
    /// b lies transposed in memory, (n, k)
    #[arg(long)]
    tb: bool,
    /// Applied to the product
    #[arg(long, value_enum, default_value = "none")]
    act: Act,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Act {
    None,
    Relu,
    /// Slope 0.01 below zero
    LeakyRelu,
    Gelu,
    Silu,
}

impl Act {
    fn suffix(self) -> &'static str {
        match self {
            Act::None => "",
            Act::Relu => "_relu",
            Act::LeakyRelu => "_leaky_relu",
            Act::Gelu => "_gelu",
            Act::Silu => "_silu",
        }
    }
}

fn letter(transposed: bool) -> char {
    if transposed { 't' } else { 'n' }
}

type Matrix<T> = Tensor<T, (Dyn, Dyn)>;

/// Four products and one activation, fused.
macro_rules! activated {
    ($($module:ident: $act:expr;)*) => {$(
        mod $module {
            use super::*;

            #[kernel(T = [f16, bf16, f32])]
            fn nn<T: Float, M: Dim, N: Dim, K: Dim>(a: &Tensor<T, (M, K)>, b: &Tensor<T, (K, N)>, c: &mut Tensor<T, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(k, j)]); });
                    c[(i, j)] = acc.map($act).to();
                });
            }

            #[kernel(T = [f16, bf16, f32])]
            fn nt<T: Float, M: Dim, N: Dim, K: Dim>(a: &Tensor<T, (M, K)>, b: &Tensor<T, (N, K)>, c: &mut Tensor<T, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                    c[(i, j)] = acc.map($act).to();
                });
            }

            #[kernel(T = [f16, bf16, f32])]
            fn tn<T: Float, M: Dim, N: Dim, K: Dim>(a: &Tensor<T, (K, M)>, b: &Tensor<T, (K, N)>, c: &mut Tensor<T, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(k, i)].t(), b[(k, j)]); });
                    c[(i, j)] = acc.map($act).to();
                });
            }

            #[kernel(T = [f16, bf16, f32])]
            fn tt<T: Float, M: Dim, N: Dim, K: Dim>(a: &Tensor<T, (K, M)>, b: &Tensor<T, (N, K)>, c: &mut Tensor<T, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(k, i)].t(), b[(j, k)].t()); });
                    c[(i, j)] = acc.map($act).to();
                });
            }

            pub fn product<'t, T: Float>(ta: bool, tb: bool, a: &'t Matrix<T>, b: &'t Matrix<T>, c: &'t mut Matrix<T>) -> Launch<'t> {
                match (ta, tb) {
                    (false, false) => nn(a, b, c),
                    (false, true) => nt(a, b, c),
                    (true, false) => tn(a, b, c),
                    (true, true) => tt(a, b, c),
                }
            }
        }
    )*};
}

activated! {
    with_relu: relu;
    with_leaky_relu: |x| leaky_relu(x, 0.01);
    with_gelu: gelu;
    with_silu: silu;
}

fn main() -> ExitCode {
    let options = Options::parse();
    workbench::exit(match options.flags.dtype {
        DtypeName::F16 => run(&options, product::<f16>),
        DtypeName::Bf16 => run(&options, product::<bf16>),
        DtypeName::F32 => run(&options, product::<f32>),
        DtypeName::Tf32 => run(&options, product_tf32),
    })
}

/// Picks the kernel.
type Product<T> =
    for<'t> fn(&Options, &'t Matrix<T>, &'t Matrix<T>, &'t mut Matrix<T>) -> Result<Launch<'t>, Box<dyn Error>>;

fn run<T: Sample>(options: &Options, product: Product<T>) -> Result<ExitCode, Box<dyn Error>> {
    let Options { m, n, k, ta, tb, .. } = *options;
    let mut bench = Workbench::new(&options.flags)?;
    let a = bench.normal::<T, _>(if ta { (k, m) } else { (m, k) })?;
    let b = bench.normal::<T, _>(if tb { (n, k) } else { (k, n) })?;
    let mut c = bench.zeros::<T, _>((m, n))?;
    let work = Work {
        kernel: format!("gemm_{}{}{}", letter(ta), letter(tb), options.act.suffix()),
        shape: vec![("m", m), ("n", n), ("k", k)],
        dtype: options.flags.dtype,
        flops: Some(2.0 * m as f64 * n as f64 * k as f64),
        bytes: (a.len() + b.len() + c.len()) * size_of::<T>(),
    };
    bench.run(work, product(options, &a, &b, &mut c)?)
}

fn product<'t, T: Float>(
    options: &Options,
    a: &'t Matrix<T>,
    b: &'t Matrix<T>,
    c: &'t mut Matrix<T>,
) -> Result<Launch<'t>, Box<dyn Error>> {
    let Options { ta, tb, .. } = *options;
    Ok(match options.act {
        Act::None => match (ta, tb) {
            (false, false) => gemm_nn(a, b, c),
            (false, true) => gemm_nt(a, b, c),
            (true, false) => gemm_tn(a, b, c),
            (true, true) => gemm_tt(a, b, c),
        },
        Act::Relu => with_relu::product(ta, tb, a, b, c),
        Act::LeakyRelu => with_leaky_relu::product(ta, tb, a, b, c),
        Act::Gelu => with_gelu::product(ta, tb, a, b, c),
        Act::Silu => with_silu::product(ta, tb, a, b, c),
    })
}

fn product_tf32<'t>(
    options: &Options,
    a: &'t Matrix<f32>,
    b: &'t Matrix<f32>,
    c: &'t mut Matrix<f32>,
) -> Result<Launch<'t>, Box<dyn Error>> {
    if options.act != Act::None {
        return Err("the products in tf32 have no activation -- take --dtype f16, bf16 or f32".into());
    }
    Ok(match (options.ta, options.tb) {
        (false, false) => gemm_nn_tf32(a, b, c),
        (false, true) => gemm_nt_tf32(a, b, c),
        (true, false) => gemm_tn_tf32(a, b, c),
        (true, true) => gemm_tt_tf32(a, b, c),
    })
}
