use tracea::prelude::*;

#[kernel]
fn loops<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        for _ in 0..3 {}
        while true {}
        loop {}
        let v = match 1 {
            _ => x[i],
        };
        y[i] = v;
    });
}

#[kernel]
fn macros<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        println!("hello");
        y[i] = x[i];
    });
}

#[kernel]
fn conditions<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>, n: i32) {
    tile!(for i in M {
        if n > 3 {
            y[i] = x[i];
        }
    });
}

#[kernel]
fn constant<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        y[i] = x[i] * SCALE;
    });
}

const SCALE: f32 = 2.0;

fn main() {}
