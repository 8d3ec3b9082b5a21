//! Constants of the standard library and of the float types, by path.

use crate::nest::Dtype;
use proc_macro2::Ident;
use std::f64::consts;
use syn::Path;

pub enum Constant {
    /// With its dtype, where the path fixes one.
    Float(f64, Option<Dtype>),
    Int(i64),
}

pub fn lookup(path: &Path, dtype: impl Fn(&Ident) -> Option<Dtype>) -> Option<Constant> {
    let mut segments = path.segments.iter().rev().map(|segment| &segment.ident);
    let (name, of) = (segments.next()?.to_string(), segments.next()?);
    if of == "consts" {
        return mathematical(&name).map(|value| Constant::Float(value, None));
    }
    match dtype(of)? {
        Dtype::I32 => match name.as_str() {
            "MAX" => Some(Constant::Int(i64::from(i32::MAX))),
            "MIN" => Some(Constant::Int(i64::from(i32::MIN))),
            _ => None,
        },
        Dtype::Bool => None,
        float => limit(&name, float).map(|value| Constant::Float(value, Some(float))),
    }
}

fn mathematical(name: &str) -> Option<f64> {
    Some(match name {
        "PI" => consts::PI,
        "TAU" => consts::TAU,
        "E" => consts::E,
        "SQRT_2" => consts::SQRT_2,
        "FRAC_1_SQRT_2" => consts::FRAC_1_SQRT_2,
        "LN_2" => consts::LN_2,
        "LN_10" => consts::LN_10,
        "LOG2_E" => consts::LOG2_E,
        "LOG2_10" => consts::LOG2_10,
        "LOG10_E" => consts::LOG10_E,
        "LOG10_2" => consts::LOG10_2,
        "FRAC_PI_2" => consts::FRAC_PI_2,
        "FRAC_PI_3" => consts::FRAC_PI_3,
        "FRAC_PI_4" => consts::FRAC_PI_4,
        "FRAC_PI_6" => consts::FRAC_PI_6,
        "FRAC_PI_8" => consts::FRAC_PI_8,
        "FRAC_1_PI" => consts::FRAC_1_PI,
        "FRAC_2_PI" => consts::FRAC_2_PI,
        "FRAC_2_SQRT_PI" => consts::FRAC_2_SQRT_PI,
        _ => return None,
    })
}

fn limit(name: &str, dtype: Dtype) -> Option<f64> {
    // Stored bits: mantissa of each format.
    let (max, smallest_normal, epsilon) = match dtype {
        Dtype::F16 => (65504.0, 2f64.powi(-14), 2f64.powi(-10)),
        Dtype::Bf16 => (f64::from(f32::from_bits(0x7f7f_0000)), 2f64.powi(-126), 2f64.powi(-7)),
        Dtype::Tf32 => (f64::from(f32::from_bits(0x7f7f_e000)), 2f64.powi(-126), 2f64.powi(-10)),
        _ => (f64::from(f32::MAX), 2f64.powi(-126), 2f64.powi(-23)),
    };
    Some(match name {
        "INFINITY" => f64::INFINITY,
        "NEG_INFINITY" => f64::NEG_INFINITY,
        "NAN" => f64::NAN,
        "MAX" => max,
        "MIN" => -max,
        "MIN_POSITIVE" => smallest_normal,
        "EPSILON" => epsilon,
        "ZERO" => 0.0,
        "ONE" => 1.0,
        _ => return None,
    })
}
