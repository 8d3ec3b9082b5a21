use tracea::prelude::*;

#[kernel]
fn returns<M: Dim>(x: &Tensor<f32, (M,)>) -> f32 {
    1.0
}

#[kernel]
fn owned<M: Dim>(x: Tensor<f32, (M,)>, n: usize, s: &str) {}

#[kernel]
fn strange<M: Dim, U>(x: &Tensor<f64, (M,)>, y: &Tensor<f32, (M, U)>, z: &mut Tensor<f32, M>) {}

#[kernel]
fn homeless<M: Dim, Z: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        y[i] = x[i];
    });
}

#[kernel]
struct NotAFunction;

fn main() {}
