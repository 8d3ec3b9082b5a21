use tracea::prelude::*;

#[kernel]
fn wrong_dim<M: Dim, N: Dim, K: Dim>(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(k, j)]);
        });
        c[(i, j)] = acc;
    });
}

#[kernel]
fn unequal_axes<M: Dim, N: Dim, K: Dim>(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(j, k)]);
        });
        c[(i, j)] = acc;
    });
}

#[kernel]
fn mixed_dtypes<M: Dim>(x: &Tensor<f16, (M,)>, y: &Tensor<f32, (M,)>, z: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        z[i] = x[i] + y[i];
    });
}

#[kernel]
fn unknown_name<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        y[i] = x[i] + missing;
    });
}

#[kernel]
fn no_device_function<M: Dim>(x: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        y[i] = x[i].map(plain);
    });
}

fn plain(x: f32) -> f32 {
    x
}

fn main() {}
