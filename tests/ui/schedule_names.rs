use tracea::prelude::*;

#[kernel]
#[schedule(sm_80, i = 64, l = 32)]
#[schedule(sm_81, i = 64)]
#[schedule(sm_80, b = 2, stages = 3, stages = 4)]
#[schedule(sm_80, i = "many")]
fn copy<B: Dim, M: Dim>(x: &Tensor<f32, (B, M)>, y: &mut Tensor<f32, (B, M)>) {
    tile!(for (b, i) in (each(B), M) {
        y[(b, i)] = x[(b, i)];
    });
}

#[kernel]
#[schedule(sm_80, i = 64, l = 32)]
#[schedule(sm_81, i = 64)]
#[schedule(sm_80, b = 2)]
fn names<B: Dim, M: Dim>(x: &Tensor<f32, (B, M)>, y: &mut Tensor<f32, (B, M)>) {
    tile!(for (b, i) in (each(B), M) {
        y[(b, i)] = x[(b, i)];
    });
}

fn main() {}
