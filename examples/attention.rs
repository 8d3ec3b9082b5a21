//! Attention with grouped queries: `cargo run --release --example attention -- --heads 32 --kv-heads 8 --seq 2048 --causal --time`

mod workbench;

use clap::Parser;
use std::error::Error;
use std::process::ExitCode;
use tracea::kernels::attention::attention;
use tracea::prelude::*;
use workbench::{DtypeName, Flags, Sample, Work, Workbench};

#[derive(Parser)]
#[command(about = "o = softmax(q · kᵀ / √dim) · v")]
struct Options {
    #[command(flatten)]
    flags: Flags,
    #[arg(long, default_value_t = 1)]
    batch: usize,
    #[arg(long, default_value_t = 4)]
    heads: usize,
    /// Heads of k and v, a divisor of heads [default: heads]
    #[arg(long)]
    kv_heads: Option<usize>,
    #[arg(long, default_value_t = 256)]
    seq: usize,
    /// Length of k and v [default: seq]
    #[arg(long)]
    kv_seq: Option<usize>,
    /// Size of a head: 64, 128 or 256
    #[arg(long, default_value_t = 64)]
    dim: usize,
    /// Each query sees the keys up to its own position
    #[arg(long)]
    causal: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    workbench::exit(match (options.flags.dtype, options.dim) {
        (DtypeName::F16, 64) => run::<f16, 64>(&options),
        (DtypeName::F16, 128) => run::<f16, 128>(&options),
        (DtypeName::F16, 256) => run::<f16, 256>(&options),
        (DtypeName::Bf16, 64) => run::<bf16, 64>(&options),
        (DtypeName::Bf16, 128) => run::<bf16, 128>(&options),
        (DtypeName::Bf16, 256) => run::<bf16, 256>(&options),
        (DtypeName::F32 | DtypeName::Tf32, _) => Err("attention takes f16 and bf16".into()),
        (_, dim) => Err(format!("no kernel for heads of {dim} -- take --dim 64, 128 or 256").into()),
    })
}

fn run<T: Sample, const D: usize>(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let Options { batch, heads, seq, causal, .. } = *options;
    let kv_heads = options.kv_heads.unwrap_or(heads);
    let kv_seq = options.kv_seq.unwrap_or(seq);
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        return Err(format!("{kv_heads} does not divide {heads} heads -- choose --kv-heads so that it does").into());
    }
    let mut bench = Workbench::new(&options.flags)?;
    let q = bench.normal::<T, _>((batch, heads, seq, Const::<D>))?;
    let k = bench.normal::<T, _>((batch, kv_heads, kv_seq, Const::<D>))?;
    let v = bench.normal::<T, _>((batch, kv_heads, kv_seq, Const::<D>))?;
    let mut o = bench.zeros::<T, _>((batch, heads, seq, Const::<D>))?;
    let pairs = if causal { seen_pairs(seq, kv_seq) } else { seq as f64 * kv_seq as f64 };
    let work = Work {
        kernel: "attention".into(),
        shape: vec![
            ("batch", batch),
            ("heads", heads),
            ("kv_heads", kv_heads),
            ("seq", seq),
            ("kv_seq", kv_seq),
            ("dim", D),
            ("causal", causal as usize),
        ],
        dtype: options.flags.dtype,
        flops: Some(4.0 * (batch * heads * D) as f64 * pairs),
        bytes: (q.len() + k.len() + v.len() + o.len()) * size_of::<T>(),
    };
    let scale = 1.0 / (D as f32).sqrt();
    bench.run(work, attention(&q, &k, &v, &mut o, scale, causal))
}

/// Queries times the keys that each sees, keys `0..=i` of `kv_seq` for query `i`.
fn seen_pairs(seq: usize, kv_seq: usize) -> f64 {
    let growing = seq.min(kv_seq) as f64;
    let full = seq.saturating_sub(kv_seq) as f64;
    growing * (growing + 1.0) / 2.0 + full * kv_seq as f64
}
