//! Ready kernels on the best device, launch to completion, under criterion: `cargo bench --bench kernels -- gemm`.
//!
//! Rates are in elements a second, an element being one floating-point operation, or one byte moved for softmax and the norms.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tracea::Error;
use tracea::dim::IntoShape;
use tracea::kernels::attention::attention;
use tracea::kernels::conv::conv2d_relu;
use tracea::kernels::gemm::gemm_nt;
use tracea::kernels::norm::{layer_norm, rms_norm};
use tracea::kernels::softmax::softmax;
use tracea::prelude::*;

criterion_group!(benches, gemm, conv, heads, rows);
criterion_main!(benches);

/// Larger work where there is a GPU.
fn sized(device: &Device, cpu: usize, gpu: usize) -> usize {
    if device.is_cuda() { gpu } else { cpu }
}

fn numbers(len: usize) -> Vec<f16> {
    (0..len).map(|at| f16::from_f32((at % 17) as f32 / 8.0 - 1.0)).collect()
}

fn tensor<I: IntoShape>(device: &Device, shape: I) -> Result<Tensor<f16, I::Shape>, Error> {
    let len = shape.sizes().iter().product();
    device.tensor(&numbers(len), shape)
}

fn bench(c: &mut Criterion, name: &str, work: u64, mut run: impl FnMut() -> Result<(), Error>) {
    let mut group = c.benchmark_group("kernels");
    group.throughput(Throughput::Elements(work)).sample_size(10);
    group.bench_function(name, |bencher| bencher.iter(|| run().unwrap_or_else(|error| panic!("{name}: {error}"))));
    group.finish();
}

fn run(c: &mut Criterion, bench: impl FnOnce(&mut Criterion, Device) -> Result<(), Error>) {
    Device::best().and_then(|device| bench(c, device)).unwrap_or_else(|error| panic!("{error}"));
}

fn gemm(c: &mut Criterion) {
    run(c, |c, device| {
        let n = sized(&device, 512, 4096);
        let (a, b) = (tensor(&device, (n, n))?, tensor(&device, (n, n))?);
        let mut out = device.zeros::<f16, _>((n, n))?;
        bench(c, "gemm_nt", 2 * (n as u64).pow(3), || {
            gemm_nt(&a, &b, &mut out).launch()?;
            device.synchronize()
        });
        Ok(())
    });
}

fn conv(c: &mut Criterion) {
    run(c, |c, device| {
        let images = sized(&device, 1, 64);
        let (size, channels) = (56, 64);
        let x = tensor(&device, (images, size, size, channels))?;
        let w = tensor(&device, (channels, 3, 3, channels))?;
        let bias = tensor(&device, (channels,))?;
        let mut y = device.zeros::<f16, _>((images, size, size, channels))?;
        bench(c, "conv2d_relu", 2 * (y.len() * 9 * channels) as u64, || {
            conv2d_relu(&x, &w, &bias, &mut y, 1, 1, 1).launch()?;
            device.synchronize()
        });
        Ok(())
    });
}

fn heads(c: &mut Criterion) {
    run(c, |c, device| {
        let (heads, length) = (sized(&device, 2, 32), sized(&device, 256, 4096));
        let shape = (1, heads, length, Const::<64>);
        let (q, k, v) = (tensor(&device, shape)?, tensor(&device, shape)?, tensor(&device, shape)?);
        let mut o = device.zeros::<f16, _>(shape)?;
        bench(c, "attention", 4 * (heads * length * length * 64) as u64, || {
            attention(&q, &k, &v, &mut o, 0.125, false).launch()?;
            device.synchronize()
        });
        Ok(())
    });
}

fn rows(c: &mut Criterion) {
    run(c, |c, device| {
        let (m, n) = (sized(&device, 256, 16384), sized(&device, 1024, 4096));
        let x = tensor(&device, (m, n))?;
        let (gamma, beta) = (tensor(&device, (n,))?, tensor(&device, (n,))?);
        let mut y = device.zeros::<f16, _>((m, n))?;
        let bytes = (4 * m * n) as u64;
        bench(c, "softmax", bytes, || {
            softmax(&x, &mut y).launch()?;
            device.synchronize()
        });
        bench(c, "layer_norm", bytes, || {
            layer_norm(&x, &gamma, &beta, &mut y, 1e-5).launch()?;
            device.synchronize()
        });
        bench(c, "rms_norm", bytes, || {
            rms_norm(&x, &gamma, &mut y, 1e-5).launch()?;
            device.synchronize()
        });
        Ok(())
    });
}
