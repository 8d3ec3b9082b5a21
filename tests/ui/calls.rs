use tracea::prelude::*;

#[kernel]
fn itself<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        itself(x, y);
        y[i] = x[i];
    });
}

#[kernel]
fn on_a_tile<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        y[i] = relu(x[i]);
    });
}

#[device]
fn factorial(n: f32) -> f32 {
    if n > 1.0 { n * factorial(n - 1.0) } else { 1.0 }
}

#[device]
fn generic<T>(x: T, s: &str) {}

#[device]
fn looping(x: f32) -> f32 {
    let mut y = x;
    for _ in 0..3 {
        y = y * x;
    }
    y
}

#[device]
fn unknown_method(x: f32) -> f32 {
    x.gamma()
}

fn main() {}
