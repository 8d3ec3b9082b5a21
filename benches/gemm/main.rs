//! Matrix products beside a library's, in turn and in one process: `cargo bench --bench gemm -- 4096x4096x4096`
//!
//! On a GPU the products are of f16 and the library is cuBLASLt, found by the loader (`LD_LIBRARY_PATH`); times are those of CUDA events,
//! each after a flush of the L2 cache. Without a GPU the products are of f32, the library is the crate `gemm`, and the clock is the
//! host's. Rates are in floating-point operations a second.
//!
//! Every iteration runs both, whichever of them criterion is told about: they find the same clocks and the same heat.

mod clock;
mod cublaslt;

use clock::Clock;
use criterion::{BenchmarkId, Criterion, Throughput};
use cublaslt::Product;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, StandardNormal};
use std::error::Error;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use tracea::kernels::gemm::{gemm_nn, gemm_nt};
use tracea::prelude::*;

const ON_GPU: &[Shape] = &[
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 28672, 4096),
    (4096, 4096, 14336),
    (16, 4096, 4096),
    (64, 4096, 4096),
    (128, 28672, 8192),
    (512, 512, 16384),
    (2048, 2048, 256),
    (65536, 256, 256),
    (25216, 1536, 384),
    (32768, 1024, 1024),
    (4096, 3840, 1280),
    (4095, 4097, 4104),
];
const ON_CPU: &[Shape] = &[(512, 512, 512), (1024, 1024, 1024), (1000, 1001, 1003)];

/// m, n, k
type Shape = (usize, usize, usize);
type Matrix<T> = Tensor<T, (Dyn, Dyn)>;
type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[derive(Clone, Copy)]
enum Layout {
    /// B is (n, k)
    Nt,
    /// B is (k, n)
    Nn,
}

impl Layout {
    fn b<T>(self, n: T, k: T) -> (T, T) {
        match self {
            Layout::Nt => (n, k),
            Layout::Nn => (k, n),
        }
    }

    fn launch<'t, T: Float>(self, a: &'t Matrix<T>, b: &'t Matrix<T>, c: &'t mut Matrix<T>) -> Launch<'t> {
        match self {
            Layout::Nt => gemm_nt(a, b, c),
            Layout::Nn => gemm_nn(a, b, c),
        }
    }
}

fn main() -> ExitCode {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let device = match Device::best() {
        Ok(device) => device,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    if device.is_cuda() && !cublaslt::is_there() {
        eprintln!("cuBLASLt was not found: only Tracea is timed -- add the library's folder to LD_LIBRARY_PATH");
    }
    for (name, layout) in [("gemm_nt", Layout::Nt), ("gemm_nn", Layout::Nn)] {
        match device.is_cuda() {
            true => on_gpu(&mut criterion, name, layout, &device),
            false => on_cpu(&mut criterion, name, layout, &device),
        }
    }
    criterion.final_summary();
    ExitCode::SUCCESS
}

fn on_gpu(criterion: &mut Criterion, name: &str, layout: Layout, device: &Device) {
    let beside = cublaslt::is_there();
    let contenders: &[&str] = if beside { &["tracea", "cublaslt"] } else { &["tracea"] };
    for &shape in ON_GPU {
        bench(criterion, &format!("{name} f16"), shape, contenders, || {
            let (m, n, k) = shape;
            let mut random = SmallRng::seed_from_u64(0);
            let mut operand = |sizes: (usize, usize)| {
                let values: Vec<f16> = normal(&mut random, sizes).map(f16::from_f32).collect();
                device.tensor(&values, sizes).map(Rc::new)
            };
            let (a, b) = (operand((m, k))?, operand(layout.b(n, k))?);
            let mut c = device.zeros((m, n))?;
            let mut clock = Clock::of(device)?;
            layout.launch(&a, &b, &mut c).launch()?;
            let library = match beside {
                true => Some(Product::new(layout, a.clone(), b.clone(), device.zeros((m, n))?, &mut clock)?),
                false => None,
            };
            if let Some(library) = &library {
                let wide =
                    |c: &Matrix<f16>| Ok::<_, Box<dyn Error>>(c.to_vec()?.into_iter().map(f16::to_f32).collect());
                agree(wide(&c)?, wide(library.result())?, k)?;
            }
            let tracea: Contender = Box::new(move || Ok(layout.launch(&a, &b, &mut c).launch()?));
            let library = library.map(|mut library| -> Contender { Box::new(move || library.run()) });
            Ok(Contest::new(clock, std::iter::once(tracea).chain(library)))
        });
    }
}

fn on_cpu(criterion: &mut Criterion, name: &str, layout: Layout, device: &Device) {
    for &shape in ON_CPU {
        bench(criterion, &format!("{name} f32"), shape, &["tracea", "gemm"], || {
            let (m, n, k) = shape;
            let mut random = SmallRng::seed_from_u64(0);
            let a: Vec<f32> = normal(&mut random, (m, k)).collect();
            let b: Vec<f32> = normal(&mut random, (n, k)).collect();
            let (a_tensor, b_tensor) = (device.tensor(&a, (m, k))?, device.tensor(&b, layout.b(n, k))?);
            let mut c_tensor = device.zeros((m, n))?;
            let mut c = vec![0.0; m * n];
            layout.launch(&a_tensor, &b_tensor, &mut c_tensor).launch()?;
            multiply(layout, shape, &a, &b, &mut c);
            agree(c_tensor.to_vec()?, c.clone(), k)?;
            let tracea: Contender =
                Box::new(move || Ok(layout.launch(&a_tensor, &b_tensor, &mut c_tensor).launch()?));
            let library: Contender = Box::new(move || {
                multiply(layout, shape, &a, &b, &mut c);
                Ok(())
            });
            Ok(Contest::new(Clock::of(device)?, [tracea, library]))
        });
    }
}

fn normal(random: &mut SmallRng, (rows, cols): (usize, usize)) -> impl Iterator<Item = f32> {
    StandardNormal.sample_iter(random).take(rows * cols)
}

/// The same by the crate `gemm`, on all cores.
fn multiply(layout: Layout, (m, n, k): Shape, a: &[f32], b: &[f32], c: &mut [f32]) {
    assert!(a.len() == m * k && b.len() == n * k && c.len() == m * n, "operands of another shape");
    let (b_row, b_col) = match layout {
        Layout::Nt => (1, k as isize),
        Layout::Nn => (n as isize, 1),
    };
    let (a_row, c_row) = (k as isize, n as isize);
    let (alpha, beta) = (0.0, 1.0);
    // SAFETY: three slices of the asserted lengths are read and written within their rows and columns, and c is borrowed exclusively.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            c_row,
            false,
            a.as_ptr(),
            1,
            a_row,
            b.as_ptr(),
            b_col,
            b_row,
            alpha,
            beta,
            false,
            false,
            false,
            gemm::Parallelism::Rayon(0),
        );
    }
}

/// Both computed the same product: sums of k terms of about 1 are about √k, and are rounded at most to f16.
fn agree(c: Vec<f32>, other: Vec<f32>, k: usize) -> Outcome {
    let bound = 0.01 * (k as f32).sqrt();
    match c.iter().zip(&other).position(|(c, other)| (c - other).abs() > bound || c.is_nan() != other.is_nan()) {
        Some(at) => Err(format!("element {at} is {} here and {} in the library's product", c[at], other[at]).into()),
        None => Ok(()),
    }
}

type Contender = Box<dyn FnMut() -> Outcome>;

/// Contenders that run in turn.
struct Contest {
    clock: Clock,
    contenders: Vec<Contender>,
    times: Vec<Vec<Duration>>,
}

impl Contest {
    fn new(clock: Clock, contenders: impl IntoIterator<Item = Contender>) -> Contest {
        let contenders: Vec<Contender> = contenders.into_iter().collect();
        Contest { clock, times: vec![Vec::new(); contenders.len()], contenders }
    }

    /// Runs each of them so often; the time of one of them is the answer.
    fn run(&mut self, counted: usize, runs: u64) -> Outcome<Duration> {
        let mut total = Duration::ZERO;
        for _ in 0..runs {
            for (at, contender) in self.contenders.iter_mut().enumerate() {
                let time = self.clock.time(contender)?;
                self.times[at].push(time);
                if at == counted {
                    total += time;
                }
            }
        }
        Ok(total)
    }

    fn medians(&mut self) -> Vec<f64> {
        let median = |times: &mut Vec<Duration>| {
            times.sort();
            times.get(times.len() / 2).map_or(f64::NAN, Duration::as_secs_f64)
        };
        self.times.iter_mut().map(median).collect()
    }
}

fn bench(
    criterion: &mut Criterion,
    name: &str,
    (m, n, k): Shape,
    contenders: &[&str],
    prepare: impl Fn() -> Outcome<Contest>,
) {
    let shape = format!("{m}x{n}x{k}");
    let give_up = |error: Box<dyn Error>| -> ! {
        eprintln!("error: {name} {shape}: {error}");
        std::process::exit(1)
    };
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(2 * (m * n * k) as u64));
    // Made when the first of them is not filtered out.
    let mut contest: Option<Contest> = None;
    for (counted, contender) in contenders.iter().enumerate() {
        group.bench_function(BenchmarkId::new(*contender, &shape), |bencher| {
            let contest = contest.get_or_insert_with(|| prepare().unwrap_or_else(|error| give_up(error)));
            bencher.iter_custom(|runs| contest.run(counted, runs).unwrap_or_else(|error| give_up(error)));
        });
    }
    group.finish();
    if let Some(&[tracea, library]) = contest.as_mut().map(Contest::medians).as_deref() {
        println!("{name} {shape}: {:.3} x the speed of {}", library / tracea, contenders[1]);
    }
}
