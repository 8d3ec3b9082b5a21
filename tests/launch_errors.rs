//! What a launch refuses, before anything runs, and that nothing is lost by it.

use tracea::Error;
use tracea::kernels::attention::attention;
use tracea::kernels::gemm::{gemm_nn, gemm_nt};
use tracea::kernels::softmax::softmax;
use tracea::prelude::*;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The message, or what is wrong with there being none.
fn refusal(outcome: Result<(), Error>) -> Result<String, &'static str> {
    outcome.map_or_else(|error| Ok(error.to_string()), |()| Err("the launch was not refused"))
}

#[test]
fn disagreeing_shapes_are_named_by_tensor_and_axis() -> Outcome {
    let device = Device::cpu();
    let a = device.zeros::<f32, _>((4, 512))?;
    let b = device.zeros::<f32, _>((8, 384))?;
    let mut c = device.full(7.0f32, (4, 8))?;
    let message = refusal(gemm_nt(&a, &b, &mut c).launch())?;
    assert_eq!(message, "K is 512 in `a` (axis 1) but 384 in `b` (axis 1)");
    assert_eq!(c.to_vec()?, [7.0; 32]);
    Ok(())
}

#[test]
fn every_way_of_running_checks_shapes() -> Outcome {
    let device = Device::cpu();
    let x = device.zeros::<f16, _>((4, 5))?;
    let mut y = device.zeros::<f16, _>((4, 6))?;
    let launch = softmax(&x, &mut y);
    let expected = "N is 5 in `x` (axis 1) but 6 in `y` (axis 1)";
    assert_eq!(refusal(launch.launch())?, expected);
    assert_eq!(refusal(launch.verify().map(drop))?, expected);
    assert_eq!(refusal(launch.time().map(drop))?, expected);
    assert_eq!(refusal(launch.explain().map(drop))?, expected);
    Ok(())
}

#[test]
fn an_instance_that_was_not_compiled_is_named_with_those_that_were() -> Outcome {
    let device = Device::cpu();
    let q = device.zeros::<f16, _>((1, 1, 4, Const::<32>))?;
    let mut o = device.zeros::<f16, _>((1, 1, 4, Const::<32>))?;
    let message = refusal(attention(&q, &q, &q, &mut o, 1.0, false).launch())?;
    assert_eq!(message, "`attention` was not compiled for D = 32 -- listed are 64, 128, 256");
    Ok(())
}

#[test]
fn an_output_that_shares_memory_with_an_input_is_refused() -> Outcome {
    let device = Device::cpu();
    let mut memory = vec![1.0f32; 32];
    let address = memory.as_mut_ptr().expose_provenance();
    // SAFETY: both lie within `memory`; the overlap is what the launch has to find before it touches either.
    let x = unsafe { TensorRef::<f32, (Dyn, Dyn)>::from_address(&device, address, &[4, 4], &[4, 1])? };
    // SAFETY: as above.
    let mut y = unsafe { TensorMut::<f32, (Dyn, Dyn)>::from_address(&device, address + 32, &[4, 4], &[4, 1])? };
    let message = refusal(softmax(&x, &mut y).launch())?;
    assert_eq!(message, "`y` is written and shares memory with `x` -- give the output memory of its own");
    assert_eq!(memory, [1.0; 32]);
    Ok(())
}

#[test]
fn an_output_whose_elements_share_memory_is_refused() -> Outcome {
    let device = Device::cpu();
    let x = device.zeros::<f32, _>((4, 4))?;
    let mut memory = vec![1.0f32; 4];
    let address = memory.as_mut_ptr().expose_provenance();
    // SAFETY: every element lies within `memory`; that rows coincide is what the launch has to find.
    let mut y = unsafe { TensorMut::<f32, (Dyn, Dyn)>::from_address(&device, address, &[4, 4], &[0, 1])? };
    let message = refusal(softmax(&x, &mut y).launch())?;
    assert!(message.starts_with("`y` is written and several of its elements share memory"), "{message}");
    Ok(())
}

#[test]
fn sizes_beyond_the_index_arithmetic_are_refused() -> Outcome {
    let device = Device::cpu();
    let one = [1.0f32];
    let address = one.as_ptr().expose_provenance();
    let k = 3_000_000_000;
    // SAFETY: all strides are 0, so each of the many elements is the one that `one` holds.
    let a = unsafe { TensorRef::<f32, (Dyn, Dyn)>::from_address(&device, address, &[1, k], &[0, 0])? };
    let mut c = device.zeros::<f32, _>((1, 1))?;
    let outcome = gemm_nt(&a, &a, &mut c).launch();
    assert!(matches!(outcome, Err(Error::TooLarge { .. })), "{outcome:?}");
    Ok(())
}

#[test]
fn tensors_on_different_devices_are_refused() -> Outcome {
    let cpu = Device::cpu();
    let gpu = match Device::cuda(0) {
        Ok(gpu) => gpu,
        Err(error) => {
            println!("skipped: {error}");
            return Ok(());
        }
    };
    let x = cpu.zeros::<f32, _>((4, 4))?;
    let mut y = gpu.zeros::<f32, _>((4, 4))?;
    let outcome = softmax(&x, &mut y).launch();
    assert!(matches!(outcome, Err(Error::DeviceMismatch { .. })), "{outcome:?}");
    Ok(())
}

#[test]
fn tensors_are_usable_after_a_refusal() -> Outcome {
    let device = Device::best()?;
    let a = device.full(0.5f32, (3, 4))?;
    let b = device.full(2.0f32, (4, 5))?;
    let wrong = device.full(2.0f32, (5, 5))?;
    let mut c = device.zeros::<f32, _>((3, 5))?;
    refusal(gemm_nn(&a, &wrong, &mut c).launch())?;
    gemm_nn(&a, &b, &mut c).launch()?;
    assert_eq!(c.to_vec()?, [4.0; 15]);
    Ok(())
}

#[test]
fn elements_and_shapes_must_agree_in_number() -> Outcome {
    let device = Device::cpu();
    let outcome = device.tensor(&[1.0f32; 5], (2, 3));
    assert!(matches!(outcome, Err(Error::Shape(_))), "{outcome:?}");
    Ok(())
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let outcome = Device::cuda(Device::cuda_count());
    assert!(matches!(outcome, Err(Error::NoDevice { .. })), "{outcome:?}");
}
