//! Host functions beside the kernels: activations to their documented errors and limits, and sizes of convolutions' results.

use tracea::activation::{gelu, gelu_tanh, silu};
use tracea::kernels::conv::output_size;

#[test]
fn gelu_is_right_to_its_documented_error() {
    for step in -120_000..=120_000 {
        let x = step as f32 / 10_000.0;
        let truth = 0.5 * f64::from(x) * libm::erfc(-f64::from(x) * std::f64::consts::FRAC_1_SQRT_2);
        let error = (f64::from(gelu(x)) - truth).abs();
        assert!(error <= 2f64.powi(-22) * f64::from(x).abs(), "gelu({x}) = {}", gelu(x));
        assert!(error <= 2f64.powi(-13) * truth.abs() || x < -5.5, "gelu({x}) = {}", gelu(x));
    }
}

#[test]
fn activations_have_limits() {
    for (name, f) in [("gelu", gelu as fn(f32) -> f32), ("gelu_tanh", gelu_tanh), ("silu", silu)] {
        assert_eq!(f(0.0), 0.0, "{name}");
        assert_eq!(f(-1e30), 0.0, "{name}");
        assert_eq!(f(1e30), 1e30, "{name}");
        assert_eq!(f(f32::INFINITY), f32::INFINITY, "{name}");
        assert!(f(f32::NAN).is_nan(), "{name}");
    }
}

#[test]
fn output_sizes() {
    assert_eq!(output_size(56, 3, 1, 1, 1), 56);
    assert_eq!(output_size(224, 7, 2, 3, 1), 112);
    assert_eq!(output_size(10, 3, 1, 0, 2), 6);
    assert_eq!(output_size(2, 5, 1, 1, 1), 0);
}
