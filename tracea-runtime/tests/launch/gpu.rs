//! On a GPU; each test says that it was skipped where there is none.

use crate::kernels::{Matrix, Vector, scaled, update};
use crate::numbers;
use tracea_runtime::cuda::nvrtc_version;
use tracea_runtime::device::Device;
use tracea_runtime::error::Error;
use tracea_runtime::launch::Clock;
use tracea_runtime::tensor::{Tensor, TensorMut, TensorRef};
use tracea_runtime::verify::Verify;

fn gpu() -> Option<Device> {
    let device = nvrtc_version().and_then(|_| Device::cuda(0));
    device.inspect_err(|error| println!("skipped: {error}")).ok()
}

fn vectors(device: &Device, count: usize) -> (Vector, Vector) {
    (device.tensor(&numbers(count), (count,)).unwrap(), device.zeros((count,)).unwrap())
}

#[test]
fn a_launch_gives_its_results() {
    let Some(device) = gpu() else { return };
    for count in [1, 127, 128, 129, 100_003] {
        let (x, mut y) = vectors(&device, count);
        scaled(&x, &mut y, 2.0).launch().unwrap();
        assert!(y.to_vec().unwrap().iter().zip(numbers(count)).all(|(y, x)| *y == 2.0 * x), "{count}");
    }
}

#[test]
fn blocks_of_a_cluster_read_one_another() {
    let Some(device) = gpu() else { return };
    let pairs = "sm_90a, by pairs";
    for count in [1, 127, 128, 129, 256, 100_003] {
        let (x, mut y) = vectors(&device, count);
        let launch = scaled(&x, &mut y, 2.0).schedule(pairs);
        if !launch.schedules().unwrap().iter().any(|schedule| schedule == pairs) {
            return println!("skipped: {device} has no clusters");
        }
        assert!(launch.explain().unwrap().contains("clusters   of 2 blocks"));
        launch.launch().unwrap();
        assert!(y.to_vec().unwrap().iter().zip(numbers(count)).all(|(y, x)| *y == 2.0 * x), "{count}");
    }
}

#[test]
fn strides_alignment_and_large_shared_memory() {
    let Some(device) = gpu() else { return };
    for (rows, columns) in [(1, 1), (3, 4), (5, 67), (130, 259)] {
        for gap in [0, 1, 4] {
            let x: Matrix = device.tensor(&numbers(rows * (columns + gap)), (rows, columns + gap)).unwrap();
            let mut y: Matrix = device.full(1.0, (rows, columns + gap)).unwrap();
            let x = x.narrow(1, 0..columns).unwrap();
            {
                let mut y = y.narrow_mut(1, gap..columns + gap).unwrap();
                update(&x, &mut y).launch().unwrap();
                let expected = x.to_vec().unwrap();
                assert!(y.to_vec().unwrap().iter().zip(expected).all(|(y, x)| *y == x + 1.0));
            }
            assert!(
                gap == 0 || y.to_vec().unwrap().chunks(columns + gap).all(|row| row[..gap].iter().all(|y| *y == 1.0))
            );
        }
    }
}

#[test]
fn verification_finds_what_is_wrong() {
    let Some(device) = gpu() else { return };
    let (x, mut y) = vectors(&device, 1000);
    let verified = scaled(&x, &mut y, 0.1).verify_with(Verify::All).unwrap();
    assert_eq!(verified.elements, 1000);
    assert!(verified.max_error <= verified.bound);
    match scaled(&x, &mut y, 0.1).schedule("sm_80, wrong").verify_with(Verify::All) {
        Err(Error::Mismatch(mismatch)) => {
            assert_eq!((mismatch.tensor, &mismatch.index[..], mismatch.failures), ("y", &[5][..], 1));
            assert!(!mismatch.unwritten);
        }
        other => panic!("{other:?}"),
    }
    match scaled(&x, &mut y, 0.1).schedule(2).verify_with(Verify::All) {
        Err(Error::Mismatch(mismatch)) => assert!(mismatch.unwritten && mismatch.index == [5]),
        other => panic!("{other:?}"),
    }
    scaled(&x, &mut y, 0.1).verify().unwrap();
}

#[test]
fn an_updated_tensor_keeps_its_contents() {
    let Some(device) = gpu() else { return };
    let ones: Matrix = device.full(1.0, (33, 65)).unwrap();
    let mut sum = device.full(4.0, (33, 65)).unwrap();
    update(&ones, &mut sum).verify_with(Verify::All).unwrap();
    assert_eq!(sum.to_vec().unwrap(), [5.0; 33 * 65]);
    let timing = update(&ones, &mut sum).time().unwrap();
    assert!(timing.runs >= 30 && timing.clock == Clock::Events);
    assert!(0.0 < timing.min_ms && timing.min_ms <= timing.median_ms && timing.median_ms < 10.0, "{timing:?}");
    assert_eq!(sum.to_vec().unwrap(), [5.0; 33 * 65]);
}

#[test]
fn streams_of_different_tensors_are_ordered() {
    let Some(device) = gpu() else { return };
    let (first, second) = (device.new_stream().unwrap(), device.new_stream().unwrap());
    let count = 1 << 22;
    for round in 0..20 {
        let value = round as f32;
        let x = first.full(value, (count,)).unwrap();
        let mut y = second.zeros((count,)).unwrap();
        let mut z = device.zeros((count,)).unwrap();
        scaled(&x, &mut y, 2.0).launch().unwrap();
        scaled(&y, &mut z, 2.0).on(&first).launch().unwrap();
        drop((x, y));
        assert!(z.to_vec().unwrap().iter().all(|z| *z == 4.0 * value), "round {round}");
    }
}

#[test]
fn cudarc_slices_are_borrowed_and_taken_over() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap().context().new_stream().unwrap();
    let x = stream.clone_htod(&numbers(500)).unwrap();
    let mut y = stream.alloc_zeros::<f32>(500).unwrap();
    {
        let x = TensorRef::from_cuda(&x, (500,)).unwrap();
        let mut y = TensorMut::from_cuda(&mut y, (500,)).unwrap();
        assert_eq!(y.device().stream().unwrap().cu_stream(), stream.cu_stream());
        scaled(&x, &mut y, 4.0).launch().unwrap();
    }
    assert_eq!(stream.clone_dtoh(&y).unwrap(), numbers(500).iter().map(|x| 4.0 * x).collect::<Vec<_>>());
    let part = TensorRef::from_cuda(&x.slice(100..200), (100,)).map(|part| part.to_vec().unwrap()).unwrap();
    assert_eq!(part, numbers(500)[100..200]);
    let y: Vector = Tensor::from_cuda(y, (500,)).unwrap();
    assert_eq!(y.to_vec().unwrap()[499], 4.0 * 499.0 / 8.0);
}

#[test]
fn refusals_leave_the_device_usable() {
    let Some(device) = gpu() else { return };
    let (x, mut y) = vectors(&device, 64);
    let on_host = Device::cpu().zeros((64,)).unwrap();
    assert!(matches!(scaled(&on_host, &mut y, 1.0).launch(), Err(Error::DeviceMismatch { .. })));
    assert!(matches!(scaled(&x, &mut y, 1.0).on(&Device::cpu()).launch(), Err(Error::AskedElsewhere { .. })));
    let listed = scaled(&x, &mut y, 1.0).schedule("sm_80, greedy").launch().unwrap_err().to_string();
    assert!(
        listed.contains("no schedule `sm_80, greedy`") && listed.contains("0: sm_80, right; 1: sm_80, wrong"),
        "{listed}"
    );
    let square: Matrix = device.zeros((8, 8)).unwrap();
    let mut sum = device.zeros((8, 8)).unwrap();
    assert!(matches!(update(&square.transpose(), &mut sum).launch(), Err(Error::InnerStride { tensor: "x", .. })));
    let (none, mut nothing) = vectors(&device, 0);
    scaled(&none, &mut nothing, 1.0).launch().unwrap();
    scaled(&x, &mut y, 1.0).verify().unwrap();
}

#[test]
fn an_explanation_tells_what_runs() {
    let Some(device) = gpu() else { return };
    let (x, mut y) = vectors(&device, 1 << 20);
    let launch = scaled(&x, &mut y, 1.0).schedule(0);
    let text = launch.explain().unwrap();
    for part in ["sm_80, right", "written by hand", "8192 blocks of 128 threads", "registers", "TB/s", "__global__"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(text.contains("time       predicted ") && !text.contains("measured "), "{text}");
    launch.time().unwrap();
    let text = launch.explain().unwrap();
    assert!(text.contains(" µs, measured "), "{text}");
    assert_eq!(launch.chosen().unwrap(), "sm_80, right");
    let schedules = launch.schedules().unwrap();
    assert_eq!(schedules[..3], ["sm_80, right", "sm_80, wrong", "sm_80, forgetful"]);
    assert_eq!(schedules.contains(&"sm_90a, wide".to_owned()), device.compute_capability() == Some((9, 0)));
}

#[test]
fn threads_share_loaded_code() {
    let Some(device) = gpu() else { return };
    std::thread::scope(|scope| {
        for thread in 1..8 {
            let device = device.new_stream().unwrap();
            scope.spawn(move || {
                let (x, mut y) = vectors(&device, 10_000);
                for _ in 0..50 {
                    scaled(&x, &mut y, thread as f32).launch().unwrap();
                }
                assert_eq!(y.to_vec().unwrap()[9_999], thread as f32 * 9_999.0 / 8.0);
            });
        }
    });
}

/// The host's part of a warm launch, beside a bare call of the driver with the same parameters.
#[test]
fn a_warm_launch_costs_little() {
    let Some(device) = gpu() else { return };
    let (x, mut y) = vectors(&device, 128);
    let launch = scaled(&x, &mut y, 1.0);
    let time = || {
        device.synchronize().unwrap();
        let start = std::time::Instant::now();
        (0..500).for_each(|_| launch.launch().unwrap());
        let each = start.elapsed().as_secs_f64() / 500.0;
        device.synchronize().unwrap();
        each
    };
    let best = (0..20).map(|_| time()).fold(f64::INFINITY, f64::min);
    println!("a warm launch takes the host {:.2} µs", best * 1e6);
    assert!(best < 50e-6);
}
