use tracea::prelude::*;

#[kernel]
fn shadowed<M: Dim, K: Dim>(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        let mut sum = zeros::<f32>(i);
        tile!(for k in K {
            let sum = sum + x[(i, k)].row_sum();
        });
        y[i] = sum;
    });
}

#[kernel]
fn integer<M: Dim, K: Dim>(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        let mut sum = zeros::<f32>(i);
        let mut count = 0;
        tile!(for k in K {
            sum += x[(i, k)].row_sum();
            count += 1;
        });
        y[i] = sum;
    });
}

#[kernel]
fn grows<M: Dim, K: Dim>(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        let mut sum = zeros::<f32>(i);
        tile!(for k in K {
            sum = sum + x[(i, k)];
        });
        y[i] = sum;
    });
}

fn main() {}
