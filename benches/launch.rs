//! What a warm launch costs the host, beside the driver's own call for the same code and parameters: `cargo bench --bench launch`
//!
//! Needs a GPU. Both enqueue in turn, in bursts that the stream's queue holds; waiting for the device is not counted.

use criterion::Criterion;
use cudarc::driver::{CudaStream, result, sys};
use std::error::Error;
use std::ffi::{CString, c_void};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracea::cuda::{Specialization, compile_variant};
use tracea::kernels::gemm::gemm_nt;
use tracea::plan::{Arg, KernelDef, Variant};
use tracea::prelude::*;

/// Fewer than a stream's queue holds, so that no call waits for the device.
const BURST: u64 = 200;

/// Elements: one thread block.
const SIZE: usize = 64;

/// Of `increment`: two tensors and a size.
const MOST_PARAMETERS: usize = 8;

type Vector = Tensor<f32, (Dyn,)>;
type Outcome<T = ()> = Result<T, Box<dyn Error>>;
type Contender<'a> = &'a mut dyn FnMut() -> Outcome;

/// `y = x + 1`
#[kernel]
fn increment<N: Dim>(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    tile!(for i in N {
        y[i] = x[i] + 1.0;
    });
}

fn main() -> ExitCode {
    let mut criterion = Criterion::default().configure_from_args();
    match run(&mut criterion) {
        Ok(()) => {
            criterion.final_summary();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(criterion: &mut Criterion) -> Outcome {
    let device = Device::best()?;
    if device.is_cpu() {
        eprintln!("no CUDA device: there is no launch to measure");
        return Ok(());
    }
    let bare = BareLaunch::new(&device)?;
    let x = device.zeros::<f32, _>((SIZE,))?;
    let mut y = device.zeros::<f32, _>((SIZE,))?;
    increment(&x, &mut y).launch()?;
    let (a, b) = (device.zeros::<f16, _>((SIZE, SIZE))?, device.zeros::<f16, _>((SIZE, SIZE))?);
    let mut c = device.zeros::<f16, _>((SIZE, SIZE))?;
    gemm_nt(&a, &b, &mut c).launch()?;

    let contenders: [(&str, Contender<'_>); 3] = [
        ("cuLaunchKernel", &mut || bare.launch()),
        ("increment", &mut || Ok(increment(&x, &mut y).launch()?)),
        ("gemm_nt", &mut || Ok(gemm_nt(&a, &b, &mut c).launch()?)),
    ];
    bench(criterion, &device, contenders)
}

fn bench<const N: usize>(
    criterion: &mut Criterion,
    device: &Device,
    mut contenders: [(&str, Contender<'_>); N],
) -> Outcome {
    let mut times = [const { Vec::new() }; N];
    let mut group = criterion.benchmark_group("launch");
    for counted in 0..N {
        group.bench_function(contenders[counted].0, |bencher| {
            bencher.iter_custom(|launches| {
                let mut total = Duration::ZERO;
                for done in (0..launches).step_by(BURST as usize) {
                    let burst = BURST.min(launches - done);
                    for (at, (name, launch)) in contenders.iter_mut().enumerate() {
                        let time = time(device, burst, launch).unwrap_or_else(|error| panic!("{name}: {error}"));
                        times[at].push(time / burst as u32);
                        if at == counted {
                            total += time;
                        }
                    }
                }
                total
            });
        });
    }
    group.finish();
    let medians = times.map(|mut times| {
        times.sort();
        times.get(times.len() / 2).copied()
    });
    if let [Some(bare), launches @ ..] = &medians[..] {
        for ((name, _), launch) in contenders[1..].iter().zip(launches) {
            let over = launch.map_or(f64::NAN, |launch| launch.as_secs_f64() - bare.as_secs_f64());
            println!("{name}: {:.3} µs over the driver's call of {bare:.3?}", over * 1e6);
        }
    }
    Ok(())
}

/// Of so many calls; what they enqueued is waited for before and after.
fn time(device: &Device, calls: u64, launch: &mut dyn FnMut() -> Outcome) -> Outcome<Duration> {
    device.synchronize()?;
    let start = Instant::now();
    for _ in 0..calls {
        launch()?;
    }
    let time = start.elapsed();
    device.synchronize()?;
    Ok(time)
}

/// `increment` without the runtime: its function and its parameters, ready for the driver.
struct BareLaunch {
    stream: Arc<CudaStream>,
    function: sys::CUfunction,
    blocks: u32,
    threads: u32,
    shared_bytes: u32,
    parameters: Vec<u64>,
    /// Where the parameters' addresses point.
    _tensors: [Vector; 2],
}

impl BareLaunch {
    fn new(device: &Device) -> Outcome<BareLaunch> {
        let x = device.zeros::<f32, _>((SIZE,))?;
        let mut y = device.zeros::<f32, _>((SIZE,))?;
        let launch = increment(&x, &mut y);
        let (kernel, chosen) = (launch.kernel(), launch.chosen()?);
        let [instance] = kernel.instances else { return Err("`increment` has one instance".into()) };
        let variant = instance.variants.iter().find(|variant| variant.schedule == chosen);
        let variant = variant.ok_or_else(|| format!("no variant has the schedule `{chosen}`"))?;

        let facts = variant.aligned.iter().fold(Specialization::default(), |facts, &tensor| facts.aligned(tensor, 16));
        let code = compile_variant(kernel, instance, variant, facts, &architecture(device, variant)?)?;
        let stream = device.stream().ok_or("the CPU launches nothing")?.clone();
        stream.context().bind_to_thread()?;
        // SAFETY: the image is a whole cubin, whose header tells the driver its size; the driver copies it.
        let module = unsafe { result::module::load_data(code.cubin.as_ptr().cast())? };
        // SAFETY: the module was loaded just now and is never unloaded.
        let function = unsafe { result::module::get_function(module, CString::new(variant.entry)?)? };
        let blocks = variant.grid.iter().map(|axis| SIZE.div_ceil(axis.block as usize)).product::<usize>();
        let parameters = parameters(kernel, variant, [x.address(), y.address()])?;
        Ok(BareLaunch {
            stream,
            function,
            blocks: u32::try_from(blocks)?,
            threads: variant.threads,
            shared_bytes: variant.shared_bytes,
            parameters,
            _tensors: [x, y],
        })
    }

    fn launch(&self) -> Outcome {
        let mut pointers = [std::ptr::null_mut::<c_void>(); MOST_PARAMETERS];
        for (pointer, value) in pointers.iter_mut().zip(&self.parameters) {
            *pointer = (value as *const u64).cast_mut().cast();
        }
        // SAFETY: the context was bound to this thread, the values are those that the variant's plan asks for, in its order, the
        // tensors live as long as this launch and its stream's work, and the driver reads the values during the call.
        let launched = unsafe {
            sys::cuLaunchKernel(
                self.function,
                self.blocks,
                1,
                1,
                self.threads,
                1,
                1,
                self.shared_bytes,
                self.stream.cu_stream(),
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        Ok(launched.result()?)
    }
}

/// What the cubin is made for: `sm_90a` code runs on that alone, other code is made for the device at hand.
fn architecture(device: &Device, variant: &Variant) -> Outcome<String> {
    if variant.target.ends_with(|letter: char| letter.is_ascii_alphabetic()) {
        return Ok(variant.target.to_owned());
    }
    let (major, minor) = device.compute_capability().ok_or("the CPU runs no machine code")?;
    Ok(format!("sm_{major}{minor}"))
}

/// The values of the parameters, each in as many of 8 bytes as it takes.
fn parameters(kernel: &KernelDef, variant: &Variant, addresses: [usize; 2]) -> Outcome<Vec<u64>> {
    let value = |arg: &Arg| match *arg {
        Arg::Pointer(tensor) => Ok(addresses[tensor] as u64),
        Arg::Extent(_) => {
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&(SIZE as i32).to_ne_bytes());
            Ok(u64::from_ne_bytes(bytes))
        }
        ref other => Err(format!("this bench does not know how to pass {other:?} to `{}`", kernel.name).into()),
    };
    if variant.args.len() > MOST_PARAMETERS {
        return Err(format!("`{}` has more than {MOST_PARAMETERS} parameters", kernel.name).into());
    }
    variant.args.iter().map(value).collect()
}
