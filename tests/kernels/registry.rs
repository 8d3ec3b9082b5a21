//! Every kernel that ships, at every instance.

use crate::case::{Number, Outcome, Setting, Sizes, Subject};
use crate::expected::{Expected, TF32_PRODUCT};
use crate::reference::{self, Window};
use libtest_mimic::Failed;
use tracea::kernels::attention::attention;
use tracea::kernels::conv::*;
use tracea::kernels::gemm::*;
use tracea::kernels::linear::*;
use tracea::kernels::norm::*;
use tracea::kernels::softmax::softmax;
use tracea::prelude::*;

type Vector<T> = Tensor<T, (Dyn,)>;
type Matrix<T> = Tensor<T, (Dyn, Dyn)>;
type Batch<T> = Tensor<T, (Dyn, Dyn, Dyn)>;
type Images<T> = Tensor<T, (Dyn, Dyn, Dyn, Dyn)>;
type Heads<T, const D: usize> = Tensor<T, (Dyn, Dyn, Dyn, Const<D>)>;
type Act = fn(f64) -> f64;

pub fn shipped() -> Vec<Subject> {
    let mut all = Vec::new();
    dtype_of_products::<f16>(&mut all, "f16");
    dtype_of_products::<bf16>(&mut all, "bf16");
    products::<f32>(&mut all, "f32");
    rows::<f16>(&mut all, "f16");
    rows::<bf16>(&mut all, "bf16");
    rows::<f32>(&mut all, "f32");
    all.push(gemm("gemm_nn_tf32", gemm_nn_tf32, false, false, TF32_PRODUCT));
    all.push(gemm("gemm_nt_tf32", gemm_nt_tf32, false, true, TF32_PRODUCT));
    all.push(gemm("gemm_tn_tf32", gemm_tn_tf32, true, false, TF32_PRODUCT));
    all.push(gemm("gemm_tt_tf32", gemm_tt_tf32, true, true, TF32_PRODUCT));
    all
}

fn products<T: Number>(all: &mut Vec<Subject>, dtype: &str) {
    all.push(gemm::<T>(&format!("gemm_nn {dtype}"), gemm_nn, false, false, 0.0));
    all.push(gemm::<T>(&format!("gemm_nt {dtype}"), gemm_nt, false, true, 0.0));
    all.push(gemm::<T>(&format!("gemm_tn {dtype}"), gemm_tn, true, false, 0.0));
    all.push(gemm::<T>(&format!("gemm_tt {dtype}"), gemm_tt, true, true, 0.0));
    all.push(batched::<T>(&format!("gemm_batched {dtype}"), gemm_batched));
}

fn dtype_of_products<T: Number>(all: &mut Vec<Subject>, dtype: &str) {
    use reference::{gelu, gelu_tanh, identity, relu, silu};
    products::<T>(all, dtype);

    let layers: [(&str, Linear<T>, LinearResidual<T>, Act); 5] = [
        ("linear", linear, linear_residual, identity),
        ("linear_relu", linear_relu, linear_relu_residual, relu),
        ("linear_gelu", linear_gelu, linear_gelu_residual, gelu),
        ("linear_gelu_tanh", linear_gelu_tanh, linear_gelu_tanh_residual, gelu_tanh),
        ("linear_silu", linear_silu, linear_silu_residual, silu),
    ];
    for (name, plain, with_residual, act) in layers {
        all.push(layer(format!("{name} {dtype}"), plain, act));
        all.push(layer_residual(format!("{name}_residual {dtype}"), with_residual, act));
    }

    let convolutions: [Convolutions<T>; 3] = [
        ("", conv2d, conv2d_residual, conv2d_norm, conv2d_norm_residual, identity),
        ("_relu", conv2d_relu, conv2d_relu_residual, conv2d_norm_relu, conv2d_norm_relu_residual, relu),
        ("_silu", conv2d_silu, conv2d_silu_residual, conv2d_norm_silu, conv2d_norm_silu_residual, silu),
    ];
    for (suffix, plain, with_residual, norm, norm_residual, act) in convolutions {
        all.push(conv(format!("conv2d{suffix} {dtype}"), plain, act));
        all.push(conv_residual(format!("conv2d{suffix}_residual {dtype}"), with_residual, act));
        all.push(conv_norm(format!("conv2d_norm{suffix} {dtype}"), norm, act));
        all.push(conv_norm_residual(format!("conv2d_norm{suffix}_residual {dtype}"), norm_residual, act));
    }

    for causal in [false, true] {
        all.push(heads::<T, 64>(dtype, attention, causal));
        all.push(heads::<T, 128>(dtype, attention, causal));
        all.push(heads::<T, 256>(dtype, attention, causal));
    }
}

fn rows<T: Number>(all: &mut Vec<Subject>, dtype: &str) {
    let unary: Unary<T> = softmax;
    all.push(Subject::new(format!("softmax {dtype}"), ROWS, move |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (x, values) = setting.input::<T, _>((m, n))?;
        let mut y = setting.output::<T, _>((m, n))?;
        visit(unary(&*x.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || reference::softmax(&values))
    }));
    let normal: LayerNorm<T> = layer_norm;
    all.push(Subject::new(format!("layer_norm {dtype}"), ROWS, move |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (x, x_values) = setting.input::<T, _>((m, n))?;
        let (gamma, gamma_values) = setting.input::<T, _>((n,))?;
        let (beta, beta_values) = setting.input::<T, _>((n,))?;
        let mut y = setting.output::<T, _>((m, n))?;
        visit(normal(&*x.view()?, &*gamma.view()?, &*beta.view()?, &mut *y.view_mut()?, EPSILON))?;
        Outcome::new(y, move || reference::layer_norm(&x_values, &gamma_values, &beta_values, EPSILON.into()))
    }));
    let root: RmsNorm<T> = rms_norm;
    all.push(Subject::new(format!("rms_norm {dtype}"), ROWS, move |setting, visit| {
        let [m, n] = setting.sizes()?;
        let (x, x_values) = setting.input::<T, _>((m, n))?;
        let (gamma, gamma_values) = setting.input::<T, _>((n,))?;
        let mut y = setting.output::<T, _>((m, n))?;
        visit(root(&*x.view()?, &*gamma.view()?, &mut *y.view_mut()?, EPSILON))?;
        Outcome::new(y, move || reference::rms_norm(&x_values, &gamma_values, EPSILON.into()))
    }));
}

const EPSILON: f32 = 1e-5;

type Unary<T> = for<'t> fn(&'t Matrix<T>, &'t mut Matrix<T>) -> Launch<'t>;
type LayerNorm<T> = for<'t> fn(&'t Matrix<T>, &'t Vector<T>, &'t Vector<T>, &'t mut Matrix<T>, f32) -> Launch<'t>;
type RmsNorm<T> = for<'t> fn(&'t Matrix<T>, &'t Vector<T>, &'t mut Matrix<T>, f32) -> Launch<'t>;
type Gemm<T> = for<'t> fn(&'t Matrix<T>, &'t Matrix<T>, &'t mut Matrix<T>) -> Launch<'t>;
type GemmBatched<T> = for<'t> fn(&'t Batch<T>, &'t Batch<T>, &'t mut Batch<T>) -> Launch<'t>;
type Linear<T> = for<'t> fn(&'t Matrix<T>, &'t Matrix<T>, &'t Vector<T>, &'t mut Matrix<T>) -> Launch<'t>;
type LinearResidual<T> =
    for<'t> fn(&'t Matrix<T>, &'t Matrix<T>, &'t Vector<T>, &'t Matrix<T>, &'t mut Matrix<T>) -> Launch<'t>;
type Conv<T> = for<'t> fn(&'t Images<T>, &'t Images<T>, &'t Vector<T>, &'t mut Images<T>, i32, i32, i32) -> Launch<'t>;
type ConvResidual<T> = for<'t> fn(
    &'t Images<T>,
    &'t Images<T>,
    &'t Vector<T>,
    &'t Images<T>,
    &'t mut Images<T>,
    i32,
    i32,
    i32,
) -> Launch<'t>;
type ConvNorm<T> = for<'t> fn(
    &'t Images<T>,
    &'t Images<T>,
    &'t Vector<f32>,
    &'t Vector<f32>,
    &'t mut Images<T>,
    i32,
    i32,
    i32,
) -> Launch<'t>;
type ConvNormResidual<T> = for<'t> fn(
    &'t Images<T>,
    &'t Images<T>,
    &'t Vector<f32>,
    &'t Vector<f32>,
    &'t Images<T>,
    &'t mut Images<T>,
    i32,
    i32,
    i32,
) -> Launch<'t>;
type Convolutions<T> = (&'static str, Conv<T>, ConvResidual<T>, ConvNorm<T>, ConvNormResidual<T>, Act);
type Attention<T, const D: usize> =
    for<'t> fn(&'t Heads<T, D>, &'t Heads<T, D>, &'t Heads<T, D>, &'t mut Heads<T, D>, f32, bool) -> Launch<'t>;

/// Rows and their length.
const ROWS: Sizes = Sizes {
    // Rows of 40009 are longer than what a block keeps of them.
    fixed: &[
        &[0, 5],
        &[5, 0],
        &[1, 1],
        &[3, 1],
        &[1, 127],
        &[7, 1009],
        &[61, 257],
        &[64, 128],
        &[3, 40009],
        // The longest that fit into registers, of aligned ones too; nine odd ones begin everywhere in a vector.
        &[33, 256],
        &[17, 263],
        &[17, 519],
        &[9, 1031],
        &[9, 4103],
        &[2, 8199],
        // The longest that blocks take in turn; more rows than blocks run at a time.
        &[2, 32655],
        &[2, 51087],
        &[2, 53135],
        &[523, 71],
        &[9, 14],
    ],
    random: &[0..=40, 0..=300],
};

/// M, N, K; sums that are long for their few tiles are cut into parts.
const PRODUCTS: Sizes = Sizes {
    fixed: &[
        &[0, 5, 7],
        &[5, 0, 7],
        &[5, 7, 0],
        &[1, 1, 1],
        &[1, 17, 1],
        &[2, 3, 5],
        &[31, 37, 41],
        &[64, 64, 64],
        &[127, 131, 137],
        &[1, 257, 67],
        &[257, 1, 64],
        &[129, 65, 33],
        &[128, 256, 96],
        &[136, 72, 1024],
    ],
    random: &[0..=150, 0..=150, 0..=150],
};

/// Batch, M, N, K.
const BATCHES: Sizes = Sizes {
    fixed: &[&[0, 3, 4, 5], &[1, 1, 1, 1], &[3, 17, 19, 23], &[2, 64, 64, 64], &[5, 33, 2, 65]],
    random: &[0..=4, 0..=70, 0..=70, 0..=70],
};

/// Images, height, width, channels, output channels, rows and columns of the window, stride, padding, dilation.
const WINDOWS: Sizes = Sizes {
    fixed: &[
        &[0, 4, 4, 3, 5, 3, 3, 1, 1, 1],
        &[1, 1, 1, 1, 1, 1, 1, 1, 0, 1],
        &[1, 4, 4, 0, 3, 3, 3, 1, 1, 1],
        &[1, 2, 2, 3, 3, 5, 5, 1, 1, 1],
        &[2, 8, 8, 16, 32, 3, 3, 1, 1, 1],
        &[1, 7, 5, 67, 61, 3, 3, 1, 1, 1],
        &[1, 11, 13, 17, 19, 3, 3, 2, 1, 1],
        &[1, 9, 9, 8, 16, 3, 3, 1, 2, 2],
        &[2, 8, 8, 64, 64, 1, 1, 1, 0, 1],
        &[1, 15, 15, 3, 8, 7, 7, 2, 3, 1],
        &[1, 10, 6, 4, 4, 2, 3, 3, 0, 1],
    ],
    random: &[0..=2, 1..=9, 1..=9, 1..=20, 1..=20, 1..=3, 1..=3, 1..=3, 0..=2, 1..=2],
};

/// Batch, heads, heads of k and v, queries, keys.
const HEADS: Sizes = Sizes {
    fixed: &[
        &[0, 1, 1, 4, 4],
        &[1, 1, 1, 0, 4],
        &[1, 1, 1, 4, 0],
        &[1, 1, 1, 1, 1],
        &[1, 2, 1, 37, 37],
        &[2, 4, 2, 64, 64],
        &[1, 3, 3, 17, 131],
        &[1, 1, 1, 131, 17],
        &[1, 2, 2, 129, 129],
    ],
    random: &[1..=2, 2..=2, 1..=2, 0..=150, 0..=150],
};

fn gemm<T: Number>(name: &str, kernel: Gemm<T>, ta: bool, tb: bool, rounding: f64) -> Subject {
    Subject::new(name, PRODUCTS, move |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<T, _>(if ta { (k, m) } else { (m, k) })?;
        let (b, b_values) = setting.input::<T, _>(if tb { (n, k) } else { (k, n) })?;
        let mut c = setting.output::<T, _>((m, n))?;
        visit(kernel(&*a.view()?, &*b.view()?, &mut *c.view_mut()?))?;
        Outcome::new(c, move || reference::gemm(&a_values, &b_values, ta, tb, rounding))
    })
}

fn batched<T: Number>(name: &str, kernel: GemmBatched<T>) -> Subject {
    Subject::new(name, BATCHES, move |setting, visit| {
        let [batch, m, n, k] = setting.sizes()?;
        let (a, a_values) = setting.input::<T, _>((batch, m, k))?;
        let (b, b_values) = setting.input::<T, _>((batch, k, n))?;
        let mut c = setting.output::<T, _>((batch, m, n))?;
        visit(kernel(&*a.view()?, &*b.view()?, &mut *c.view_mut()?))?;
        Outcome::new(c, move || reference::gemm_batched(&a_values, &b_values))
    })
}

fn layer<T: Number>(name: String, kernel: Linear<T>, act: Act) -> Subject {
    Subject::new(name, PRODUCTS, move |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (x, x_values) = setting.input::<T, _>((m, k))?;
        let (w, w_values) = setting.input::<T, _>((n, k))?;
        let (bias, bias_values) = setting.input::<T, _>((n,))?;
        let mut y = setting.output::<T, _>((m, n))?;
        visit(kernel(&*x.view()?, &*w.view()?, &*bias.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || reference::linear(&x_values, &w_values, &bias_values, None, act))
    })
}

fn layer_residual<T: Number>(name: String, kernel: LinearResidual<T>, act: Act) -> Subject {
    Subject::new(name, PRODUCTS, move |setting, visit| {
        let [m, n, k] = setting.sizes()?;
        let (x, x_values) = setting.input::<T, _>((m, k))?;
        let (w, w_values) = setting.input::<T, _>((n, k))?;
        let (bias, bias_values) = setting.input::<T, _>((n,))?;
        let (residual, residual_values) = setting.input::<T, _>((m, n))?;
        let mut y = setting.output::<T, _>((m, n))?;
        visit(kernel(&*x.view()?, &*w.view()?, &*bias.view()?, &*residual.view()?, &mut *y.view_mut()?))?;
        Outcome::new(y, move || reference::linear(&x_values, &w_values, &bias_values, Some(&residual_values), act))
    })
}

/// The sizes of a convolution's tensors, and its window.
struct ConvSizes {
    x: (usize, usize, usize, usize),
    w: (usize, usize, usize, usize),
    y: (usize, usize, usize, usize),
    window: Window,
    /// Stride, padding, dilation.
    steps: (i32, i32, i32),
}

impl ConvSizes {
    fn of(setting: &Setting) -> Result<Self, Failed> {
        let [n, h, w, c, k, r, s, stride, pad, dilation] = setting.sizes()?;
        let p = output_size(h, r, stride, pad, dilation);
        let q = output_size(w, s, stride, pad, dilation);
        Ok(ConvSizes {
            x: (n, h, w, c),
            w: (k, r, s, c),
            y: (n, p, q, k),
            window: Window { output: [n, p, q, k], stride, pad, dilation },
            steps: (stride as i32, pad as i32, dilation as i32),
        })
    }
}

fn conv<T: Number>(name: String, kernel: Conv<T>, act: Act) -> Subject {
    Subject::new(name, WINDOWS, move |setting, visit| {
        let sizes = ConvSizes::of(setting)?;
        let (stride, pad, dilation) = sizes.steps;
        let (x, x_values) = setting.input::<T, _>(sizes.x)?;
        let (w, w_values) = setting.input::<T, _>(sizes.w)?;
        let (bias, bias_values) = setting.input::<T, _>((sizes.y.3,))?;
        let mut y = setting.output::<T, _>(sizes.y)?;
        visit(kernel(&*x.view()?, &*w.view()?, &*bias.view()?, &mut *y.view_mut()?, stride, pad, dilation))?;
        Outcome::new(y, move || reference::conv2d(&x_values, &w_values, None, &bias_values, None, &sizes.window, act))
    })
}

fn conv_residual<T: Number>(name: String, kernel: ConvResidual<T>, act: Act) -> Subject {
    Subject::new(name, WINDOWS, move |setting, visit| {
        let sizes = ConvSizes::of(setting)?;
        let (stride, pad, dilation) = sizes.steps;
        let (x, x_values) = setting.input::<T, _>(sizes.x)?;
        let (w, w_values) = setting.input::<T, _>(sizes.w)?;
        let (bias, bias_values) = setting.input::<T, _>((sizes.y.3,))?;
        let (residual, residual_values) = setting.input::<T, _>(sizes.y)?;
        let mut y = setting.output::<T, _>(sizes.y)?;
        let residual = residual.view()?;
        visit(kernel(&*x.view()?, &*w.view()?, &*bias.view()?, &residual, &mut *y.view_mut()?, stride, pad, dilation))?;
        Outcome::new(y, move || {
            reference::conv2d(&x_values, &w_values, None, &bias_values, Some(&residual_values), &sizes.window, act)
        })
    })
}

fn conv_norm<T: Number>(name: String, kernel: ConvNorm<T>, act: Act) -> Subject {
    Subject::new(name, WINDOWS, move |setting, visit| {
        let sizes = ConvSizes::of(setting)?;
        let (stride, pad, dilation) = sizes.steps;
        let (x, x_values) = setting.input::<T, _>(sizes.x)?;
        let (w, w_values) = setting.input::<T, _>(sizes.w)?;
        let (scale, scales) = setting.input::<f32, _>((sizes.y.3,))?;
        let (shift, shifts) = setting.input::<f32, _>((sizes.y.3,))?;
        let mut y = setting.output::<T, _>(sizes.y)?;
        let (scale, shift) = (scale.view()?, shift.view()?);
        visit(kernel(&*x.view()?, &*w.view()?, &scale, &shift, &mut *y.view_mut()?, stride, pad, dilation))?;
        Outcome::new(y, move || {
            reference::conv2d(&x_values, &w_values, Some(&scales), &shifts, None, &sizes.window, act)
        })
    })
}

fn conv_norm_residual<T: Number>(name: String, kernel: ConvNormResidual<T>, act: Act) -> Subject {
    Subject::new(name, WINDOWS, move |setting, visit| {
        let sizes = ConvSizes::of(setting)?;
        let (stride, pad, dilation) = sizes.steps;
        let (x, x_values) = setting.input::<T, _>(sizes.x)?;
        let (w, w_values) = setting.input::<T, _>(sizes.w)?;
        let (scale, scales) = setting.input::<f32, _>((sizes.y.3,))?;
        let (shift, shifts) = setting.input::<f32, _>((sizes.y.3,))?;
        let (residual, residual_values) = setting.input::<T, _>(sizes.y)?;
        let mut y = setting.output::<T, _>(sizes.y)?;
        let (scale, shift, residual) = (scale.view()?, shift.view()?, residual.view()?);
        visit(kernel(&*x.view()?, &*w.view()?, &scale, &shift, &residual, &mut *y.view_mut()?, stride, pad, dilation))?;
        Outcome::new(y, move || {
            reference::conv2d(&x_values, &w_values, Some(&scales), &shifts, Some(&residual_values), &sizes.window, act)
        })
    })
}

fn heads<T: Number, const D: usize>(dtype: &str, kernel: Attention<T, D>, causal: bool) -> Subject {
    let name = format!("attention {dtype} D={D}{}", if causal { " causal" } else { "" });
    Subject::new(name, HEADS, move |setting, visit| {
        let [batch, heads, groups, queries, keys] = setting.sizes()?;
        let (q, q_values) = setting.input::<T, _>((batch, heads, queries, Const::<D>))?;
        let (k, k_values) = setting.input::<T, _>((batch, groups, keys, Const::<D>))?;
        let (v, v_values) = setting.input::<T, _>((batch, groups, keys, Const::<D>))?;
        let mut o = setting.output::<T, _>((batch, heads, queries, Const::<D>))?;
        // Also scores that are alike, that differ by far, and by more than floats beside them.
        let scale = setting.one_of(&[1.0, 1.0, 20.0, -1.0, 0.0, 1e11]) / (D as f32).sqrt();
        visit(kernel(&*q.view()?, &*k.view()?, &*v.view()?, &mut *o.view_mut()?, scale, causal))?;
        Outcome::new(o, move || -> Vec<Expected> {
            reference::attention(&q_values, &k_values, &v_values, scale.into(), causal, T::ROUNDING)
        })
    })
}
