use super::*;
use crate::nest::Dtype::{Bool, F32, I32};

/// The text below the head, on one line.
fn body(params: &[(&str, Dtype)], block: &str) -> Result<String, String> {
    let params = params.iter().map(|(name, dtype)| (quote::format_ident!("{name}"), *dtype)).collect();
    let signature = Signature { name: quote::format_ident!("f"), params, result: F32 };
    let block: Block = syn::parse_str(block).map_err(|error| error.to_string())?;
    let mut errors = Errors::default();
    let text = translate(&signature, &block, &mut errors);
    errors.finish().map_err(|error| error.to_string())?;
    let (_, inside) = text.source.split_once('{').ok_or("no body")?;
    Ok(inside.trim_end().trim_end_matches('}').split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn expressions_keep_their_meaning() {
    let x = [("x", F32), ("a", F32)];
    assert_eq!(body(&x, "{ if x > 0.0 { x } else { a * x } }").as_deref(), Ok("return x > 0.0f ? x : a * x;"));
    assert_eq!(body(&x, "{ (x + 1.0) * -(a - x) }").as_deref(), Ok("return (x + 1.0f) * -(a - x);"));
    assert_eq!(body(&x, "{ x - (a - 1e-6) }").as_deref(), Ok("return x - (a - 1e-6f);"));
    assert_eq!(body(&x, "{ - -x }").as_deref(), Ok("return -(-x);"));
    assert_eq!(
        body(&x, "{ x.clamp(0.0, f32::INFINITY).powf(2.0) }").as_deref(),
        Ok("return tracea::pow(tracea::min(tracea::max(x, 0.0f), __int_as_float(0x7f800000)), 2.0f);")
    );
    assert_eq!(
        body(&[("n", I32), ("b", Bool)], "{ if b && n != 3 { n as f32 } else { 0.5 } }").as_deref(),
        Ok("return b && n != 3 ? float(n) : 0.5f;")
    );
}

#[test]
fn a_sum_that_is_known_to_be_ordinary_divides_at_once() {
    let x = [("x", F32), ("a", F32)];
    let by_sum = "return tracea::over_sum(x, 1.0f, tracea::exp(-x));";
    assert_eq!(body(&x, "{ x / (1.0 + (-x).exp()) }").as_deref(), Ok(by_sum));
    assert_eq!(body(&x, "{ x / ((-x).exp() + 1.0) }").as_deref(), Ok(by_sum));
    assert_eq!(body(&x, "{ a / (2.0 + x * x) }").as_deref(), Ok("return tracea::over_sum(a, 2.0f, x * x);"));
    assert_eq!(body(&x, "{ a / (0.5 + x * x) }").as_deref(), Ok("return a / (0.5f + x * x);"));
    assert_eq!(body(&x, "{ x / (1.0 + a) }").as_deref(), Ok("return x / (1.0f + a);"));
    assert_eq!(body(&x, "{ x / (1.0 + a * x) }").as_deref(), Ok("return x / (1.0f + a * x);"));
    assert_eq!(body(&x, "{ x / (1e-38 + x.abs()) }").as_deref(), Ok("return x / (1e-38f + tracea::abs(x));"));
    assert_eq!(body(&x, "{ x / (x.abs() - 1.0) }").as_deref(), Ok("return x / (tracea::abs(x) - 1.0f);"));
}

#[test]
fn statements_become_statements() {
    let x = [("x", F32)];
    assert_eq!(body(&x, "{ let x = x * 2.0; x }").as_deref(), Ok("const float x_2 = x * 2.0f; return x_2;"));
    assert_eq!(
        body(&x, "{ let mut r = 0.0; if x > 1.0 { r += x; } r }").as_deref(),
        Ok("float r = 0.0f; if (x > 1.0f) { r += x; } return r;")
    );
    assert_eq!(
        body(&x, "{ let y = if x > 1.0 { let z = x.exp(); z * z } else { x }; y }").as_deref(),
        Ok("float y; if (x > 1.0f) { const float z = tracea::exp(x); y = z * z; } else { y = x; } return y;")
    );
    assert_eq!(body(&[("float", F32)], "{ float }").as_deref(), Ok("return float_;"));
}

#[test]
fn other_functions_are_called_by_alias() {
    assert_eq!(
        body(&[("x", F32)], "{ x * sigmoid(x) + act::name(x) }").as_deref(),
        Ok("return x * $sigmoid(x) + $name_2(x);")
    );
}

#[test]
fn what_the_device_cannot_do_is_told() {
    for (block, part) in [
        ("{ f(x) }", "recursion"),
        ("{ x.gamma() }", "`gamma`"),
        ("{ x as i32 as f32 }", "not supported"),
        ("{ C * x }", "`C`"),
    ] {
        let told = body(&[("x", F32)], block).expect_err(block);
        assert!(told.contains(part), "{told}");
    }
}
