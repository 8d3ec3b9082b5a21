//! The gated half of a feed-forward layer, fused: `cargo run --release --example swiglu -- --m 4096 --n 14336 --k 4096 --time`

mod workbench;

use clap::Parser;
use std::error::Error;
use std::process::ExitCode;
use tracea::prelude::*;
use workbench::{DtypeName, Flags, Sample, Work, Workbench};

#[derive(Parser)]
#[command(about = "y = silu(x · gateᵀ) ∘ (x · upᵀ), x (m, k), gate and up (n, k)")]
struct Options {
    #[command(flatten)]
    flags: Flags,
    #[arg(long, default_value_t = 512)]
    m: usize,
    #[arg(long, default_value_t = 512)]
    n: usize,
    #[arg(long, default_value_t = 512)]
    k: usize,
}

/// `y = silu(x · gateᵀ) ∘ (x · upᵀ)` ([Shazeer](https://arxiv.org/abs/2002.05202)).
///
/// Two products share each tile of x, and neither is stored.
#[kernel(T = [f16, bf16])]
fn swiglu<T: Float, M: Dim, N: Dim, K: Dim>(
    x: &Tensor<T, (M, K)>,
    gate: &Tensor<T, (N, K)>,
    up: &Tensor<T, (N, K)>,
    y: &mut Tensor<T, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut g = zeros::<f32>((i, j));
        let mut u = zeros::<f32>((i, j));
        tile!(for k in K {
            let rows = x[(i, k)];
            g += dot(rows, gate[(j, k)].t());
            u += dot(rows, up[(j, k)].t());
        });
        y[(i, j)] = (g.map(silu) * u).to();
    });
}

fn main() -> ExitCode {
    let options = Options::parse();
    workbench::exit(match options.flags.dtype {
        DtypeName::F16 => run::<f16>(&options),
        DtypeName::Bf16 => run::<bf16>(&options),
        DtypeName::F32 | DtypeName::Tf32 => Err("swiglu takes f16 and bf16".into()),
    })
}

fn run<T: Sample>(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let Options { m, n, k, .. } = *options;
    let mut bench = Workbench::new(&options.flags)?;
    let x = bench.normal::<T, _>((m, k))?;
    // Both products are of about 1 then. With plain weights they are of about √k, and one times the other overflows f16.
    let deviation = 1.0 / (k as f32).sqrt();
    let gate = bench.normal_with::<T, _>(deviation, (n, k))?;
    let up = bench.normal_with::<T, _>(deviation, (n, k))?;
    let mut y = bench.zeros::<T, _>((m, n))?;
    let work = Work {
        kernel: "swiglu".into(),
        shape: vec![("m", m), ("n", n), ("k", k)],
        dtype: options.flags.dtype,
        flops: Some(4.0 * m as f64 * n as f64 * k as f64),
        bytes: (x.len() + gate.len() + up.len() + y.len()) * size_of::<T>(),
    };
    bench.run(work, swiglu(&x, &gate, &up, &mut y))
}
