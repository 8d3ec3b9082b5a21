//! On the CPU.

use crate::kernels::{Matrix, forgetful, scaled, skewed, update};
use crate::numbers;
use tracea_runtime::device::Device;
use tracea_runtime::error::Error;
use tracea_runtime::launch::Clock;
use tracea_runtime::tensor::{TensorMut, TensorRef};
use tracea_runtime::verify::Verify;

#[test]
fn a_launch_runs_at_once() {
    let device = Device::cpu();
    let x = device.tensor(&numbers(1000), (1000,)).unwrap();
    let mut y = device.zeros((1000,)).unwrap();
    scaled(&x, &mut y, 2.0).launch().unwrap();
    assert!(y.to_vec().unwrap().iter().zip(numbers(1000)).all(|(y, x)| *y == 2.0 * x));
}

#[test]
fn borrowed_and_strided_memory_is_written_in_place() {
    let x = numbers(12);
    let mut host = [1.0f32; 20];
    let mut whole = TensorMut::from_slice(&mut host, (4, 5)).unwrap();
    let x = TensorRef::from_slice(&x, (3, 4)).unwrap();
    update(&x.transpose(), &mut whole.narrow_mut(1, 1..4).unwrap()).launch().unwrap();
    drop(whole);
    assert_eq!(host[..10], [1.0, 1.0, 1.5, 2.0, 1.0, 1.0, 1.125, 1.625, 2.125, 1.0]);
}

#[test]
fn verification_passes_and_counts() {
    let device = Device::cpu();
    let x = device.tensor(&numbers(300), (300,)).unwrap();
    let mut y = device.zeros((300,)).unwrap();
    let verified = scaled(&x, &mut y, 3.0).verify_with(Verify::All).unwrap();
    assert_eq!((verified.elements, verified.points), (300, verified.points_of));
    assert!(verified.max_error <= verified.bound && verified.unbounded == 0);
    let mut sum = device.full(1.0, (5, 7)).unwrap();
    let ones: Matrix = device.full(2.0, (5, 7)).unwrap();
    update(&ones, &mut sum).verify().unwrap();
    assert_eq!(sum.to_vec().unwrap(), [3.0; 35], "what was read was not poisoned");
}

#[test]
fn verification_finds_what_is_wrong() {
    let device = Device::cpu();
    let x = device.full(1.0, (300,)).unwrap();
    let mut y = device.full(2.0, (300,)).unwrap();
    skewed(&x, &mut y, 2.0).launch().unwrap();
    assert_eq!(y.to_vec().unwrap(), [3.0; 300]);
    let error = skewed(&x, &mut y, 2.0).verify_with(Verify::All).unwrap_err().to_string();
    assert!(error.starts_with("`scaled` is wrong: `y`[0] is 3e0, expected 2e0 within "), "{error}");
    assert!(error.ends_with(" -- the worst of 300 wrong among 300 compared"), "{error}");
    let error = forgetful(&x, &mut y, 2.0).verify().unwrap_err().to_string();
    assert!(error.starts_with("`scaled` is wrong: `y`[0] was never written, expected 2e0 -- "), "{error}");
}

/// Runs itself again with the variable set.
#[test]
fn the_environment_makes_every_launch_verify_itself() {
    let device = Device::cpu();
    let x = device.full(1.0, (30,)).unwrap();
    let mut y = device.zeros((30,)).unwrap();
    let outcome = skewed(&x, &mut y, 2.0).launch();
    if std::env::var_os("TRACEA_VERIFY").is_some() {
        assert!(matches!(outcome, Err(Error::Mismatch(_))), "{outcome:?}");
        return;
    }
    outcome.unwrap();
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "cpu::the_environment_makes_every_launch_verify_itself"]).env("TRACEA_VERIFY", "1");
    assert!(program.stdout(std::process::Stdio::null()).status().unwrap().success());
}

#[test]
fn timing_puts_an_updated_tensor_back() {
    let device = Device::cpu();
    let ones: Matrix = device.full(1.0, (3, 3)).unwrap();
    let mut sum = device.full(4.0, (3, 3)).unwrap();
    let timing = update(&ones, &mut sum).time().unwrap();
    assert!(timing.runs >= 30 && timing.clock == Clock::Wall && timing.min_ms <= timing.median_ms);
    assert_eq!(sum.to_vec().unwrap(), [4.0; 9]);
}

#[test]
fn an_explanation_needs_no_gpu() {
    let device = Device::cpu();
    let x = device.zeros((8,)).unwrap();
    let mut y = device.zeros((8,)).unwrap();
    let launch = scaled(&x, &mut y, 1.0);
    let text = launch.explain().unwrap();
    assert!(
        text.starts_with("scaled on the CPU\n") && text.contains("sm_80, wrong") && text.contains("written by hand")
    );
    assert!(launch.source().unwrap().starts_with("extern \"C\" __global__"));
    assert_eq!(launch.chosen().unwrap(), "cpu");
}

#[test]
fn the_schedule_asked_for_is_shown_without_a_gpu() {
    let device = Device::cpu();
    let x = device.zeros((8,)).unwrap();
    let mut y = device.zeros((8,)).unwrap();
    let mut shown = |schedule: &str| scaled(&x, &mut y, 1.0).schedule(schedule).source();
    assert_eq!(shown("sm_80, right").unwrap(), shown("0").unwrap());
    assert_eq!(shown("sm_80, wrong").unwrap(), shown("1").unwrap());
    assert_ne!(shown("0").unwrap(), shown("1").unwrap());
    let error = shown("sm_80, none such").unwrap_err();
    assert!(matches!(error, Error::NoSchedule { .. }), "{error}");
}

#[test]
fn disagreeing_shapes_are_told_before_anything_runs() {
    let device = Device::cpu();
    let x = device.zeros((3,)).unwrap();
    let mut y = device.full(5.0, (4,)).unwrap();
    let error = scaled(&x, &mut y, 1.0).launch().unwrap_err().to_string();
    assert_eq!(error, "N is 3 in `x` (axis 0) but 4 in `y` (axis 0)");
    assert_eq!(y.to_vec().unwrap(), [5.0; 4]);
}

#[test]
fn empty_tensors_are_no_work() {
    let device = Device::cpu();
    let x = device.zeros((0,)).unwrap();
    let mut y = device.zeros((0,)).unwrap();
    scaled(&x, &mut y, 1.0).launch().unwrap();
    assert_eq!(scaled(&x, &mut y, 1.0).verify().unwrap().elements, 0);
}
