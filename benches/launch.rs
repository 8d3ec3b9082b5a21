//! What a warm launch costs the host, beside the driver's own call for as many parameters of the same sizes: `cargo bench --bench launch`
//!
//! Needs a GPU. Both enqueue in turn, in bursts that the stream's queue holds; waiting for the device is not counted.

use criterion::Criterion;
use cudarc::driver::{CudaStream, result, sys};
use std::cell::RefCell;
use std::error::Error;
use std::ffi::c_void;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracea::cuda::{Specialization, compile_variant};
use tracea::kernels::gemm::gemm_nt;
use tracea::plan::{Arg, Variant};
use tracea::prelude::*;

/// Fewer than a stream's queue holds, so that no call waits for the device.
const BURST: u64 = 200;

/// Elements: one thread block.
const SIZE: usize = 64;

/// Bytes of the largest parameter, a tensor map.
const WIDEST: usize = 128;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;
type Contender<'a> = (&'a str, &'a mut dyn FnMut() -> Outcome);

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
    let x = device.zeros::<f32, _>((SIZE,))?;
    let mut y = device.zeros::<f32, _>((SIZE,))?;
    increment(&x, &mut y).launch()?;
    let few = BareLaunch::of(&increment(&x, &mut y), &device)?;
    let (a, b) = (device.zeros::<f16, _>((SIZE, SIZE))?, device.zeros::<f16, _>((SIZE, SIZE))?);
    let mut c = device.zeros::<f16, _>((SIZE, SIZE))?;
    gemm_nt(&a, &b, &mut c).launch()?;
    let maps = BareLaunch::of(&gemm_nt(&a, &b, &mut c), &device)?;

    few.launch()?;
    maps.launch()?;

    let few_parameters: [Contender<'_>; 2] = [
        ("cuLaunchKernel as increment", &mut || few.launch()),
        ("increment", &mut || Ok(increment(&x, &mut y).launch()?)),
    ];
    bench(criterion, &device, few_parameters)?;
    let tensor_maps: [Contender<'_>; 2] = [
        ("cuLaunchKernel as gemm_nt", &mut || maps.launch()),
        ("gemm_nt", &mut || Ok(gemm_nt(&a, &b, &mut c).launch()?)),
    ];
    bench(criterion, &device, tensor_maps)
}

/// The driver's own call, and a launch.
fn bench(criterion: &mut Criterion, device: &Device, mut contenders: [Contender<'_>; 2]) -> Outcome {
    let mut times = [const { Vec::new() }; 2];
    let mut group = criterion.benchmark_group("launch");
    for counted in 0..2 {
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
    let [bare, launch] = times.map(|mut times| {
        times.sort();
        times.get(times.len() / 2).copied().unwrap_or_default()
    });
    let over = launch.as_secs_f64() - bare.as_secs_f64();
    println!("{}: {:.3} µs over the driver's call of {bare:.3?}", contenders[1].0, over * 1e6);
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

/// A launch without the runtime, of a kernel that does nothing: as many threads, as much shared memory, and parameters of the same sizes.
struct BareLaunch {
    stream: Arc<CudaStream>,
    function: sys::CUfunction,
    blocks: u32,
    threads: u32,
    shared_bytes: u32,
    parameters: Vec<[u8; WIDEST]>,
    pointers: RefCell<Vec<*mut c_void>>,
}

impl BareLaunch {
    fn of(launch: &Launch<'_>, device: &Device) -> Outcome<BareLaunch> {
        let (kernel, chosen) = (launch.kernel(), launch.chosen()?);
        let has_it = |variant: &&Variant| variant.schedule == chosen;
        let found =
            kernel.instances.iter().find_map(|instance| Some((instance, instance.variants.iter().find(has_it)?)));
        let (instance, variant) = found.ok_or_else(|| format!("no variant has the schedule `{chosen}`"))?;
        let empty = Variant::of_source("empty", source_of(variant.args).leak(), variant.threads);
        let (major, minor) = device.compute_capability().ok_or("the CPU runs no machine code")?;
        let code = compile_variant(kernel, instance, &empty, Specialization::default(), &format!("sm_{major}{minor}"))?;

        let stream = device.stream().ok_or("the CPU launches nothing")?.clone();
        stream.context().bind_to_thread()?;
        // SAFETY: the image is a whole cubin, whose header tells the driver its size; the driver copies it.
        let module = unsafe { result::module::load_data(code.cubin.as_ptr().cast())? };
        // SAFETY: the module was loaded just now and is never unloaded.
        let function = unsafe { result::module::get_function(module, c"empty".into())? };
        let most_shared = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is of a module that stays loaded.
        unsafe { result::function::set_function_attribute(function, most_shared, variant.shared_bytes as i32)? };
        let blocks = variant.grid.iter().map(|axis| SIZE.div_ceil(axis.block as usize)).product::<usize>();
        Ok(BareLaunch {
            stream,
            function,
            blocks: u32::try_from(blocks)?,
            threads: variant.threads,
            shared_bytes: variant.shared_bytes,
            parameters: vec![[0; WIDEST]; variant.args.len()],
            pointers: RefCell::default(),
        })
    }

    fn launch(&self) -> Outcome {
        let mut pointers = self.pointers.borrow_mut();
        pointers.clear();
        pointers.extend(self.parameters.iter().map(|value| value.as_ptr().cast_mut().cast()));
        // SAFETY: the context was bound to this thread, the kernel takes as many parameters, none of more bytes than each has here, and
        // the driver reads them during the call.
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

/// A kernel that takes such parameters and does nothing.
fn source_of(args: &[Arg]) -> String {
    let parameter = |(at, arg): (usize, &Arg)| match arg {
        Arg::Pointer(_) | Arg::Stride(..) | Arg::Workspace | Arg::Arrivals | Arg::Taken => format!("long long p{at}"),
        Arg::TensorMap { .. } | Arg::WindowMap(_) => format!("const __grid_constant__ Map p{at}"),
        Arg::Extent(_) | Arg::Scalar(_) | Arg::KeptColumns => format!("int p{at}"),
        Arg::Parts | Arg::WholeTiles | Arg::WindowCorner(..) => format!("int p{at}"),
        Arg::DivideByDims(_) | Arg::DivideByBlocks(_) | Arg::DivideByLastGroup(..) => format!("Divisor p{at}"),
        Arg::DivideByRowsTogether | Arg::DivideByParts | Arg::DivideByCutTiles => format!("Divisor p{at}"),
    };
    let parameters = args.iter().enumerate().map(parameter).collect::<Vec<_>>().join(", ");
    format!(
        "struct __align__(64) Map {{ char bytes[128]; }};\nstruct Divisor {{ unsigned divisor, multiplier, shift; }};\n\
         extern \"C\" __global__ void empty({parameters}) {{}}\n"
    )
}
