//! The language's three programs as expansion writes them, run natively and in the oracle, against loops in f64.
#![allow(non_camel_case_types, non_snake_case, unused_variables)]
#![allow(clippy::too_many_arguments, clippy::builtin_type_shadow, clippy::extra_unused_type_parameters)]

use tracea_runtime as P;

use P::{Const, Dim};

fn relu<f32: P::Real>(x: f32) -> f32 {
    x.max(P::num(0.0))
}

fn silu<f32: P::Real>(x: f32) -> f32 {
    x / (P::num::<f32>(1.0) + (-x).exp())
}

mod linear_relu {
    use super::*;

    pub fn body<f16, bf16, tf32, f32, M: Dim, N: Dim, K: Dim>(
        __grid: &P::GridPoint,
        a: &P::View<f16, (M, K)>,
        b: &P::View<f16, (N, K)>,
        bias: &P::View<f16, (N,)>,
        c: &mut P::View<f16, (M, N)>,
    ) where
        f16: P::Arithmetic<Acc = f32>,
        bf16: P::Arithmetic<Acc = f32>,
        tf32: P::Arithmetic<Acc = f32>,
        f32: P::Arithmetic<Acc = f32>,
    {
        let M = P::Extent::<M>::new(a.size(0));
        let N = P::Extent::<N>::new(b.size(0));
        let K = P::Extent::<K>::new(a.size(1));
        {
            enum i {}
            impl P::AxisName for i {
                type Ordinal = P::N0;
                const NAME: &'static str = "i";
            }
            enum j {}
            impl P::AxisName for j {
                type Ordinal = P::N1;
                const NAME: &'static str = "j";
            }
            let i = __grid.tile::<i, _>(0, M);
            let j = __grid.tile::<j, _>(1, N);
            {
                let mut acc = P::zeros::<f32, _>((i, j));
                {
                    enum k {}
                    impl P::AxisName for k {
                        type Ordinal = P::N2;
                        const NAME: &'static str = "k";
                    }
                    for k in P::tiles::<k, _>(__grid, K) {
                        acc += P::dot(a.load((i, k)), b.load((j, k)).t());
                    }
                };
                c.store((i, j), (acc.clone() + bias.load(j).to::<f32>()).map(relu).to());
            }
        }
    }

    pub fn kernel<M: Dim, N: Dim, K: Dim>() -> P::HostKernel {
        P::HostKernel::new(
            |grid, args| {
                body::<P::f16, P::bf16, P::tf32, ::core::primitive::f32, M, N, K>(
                    grid,
                    &args[0].view(),
                    &args[1].view(),
                    &args[2].view(),
                    &mut args[3].view_mut(),
                )
            },
            |grid, args| {
                body::<P::Bounded<P::F16>, P::Bounded<P::Bf16>, P::Bounded<P::Tf32>, P::Bounded<P::F32>, M, N, K>(
                    grid,
                    &args[0].view(),
                    &args[1].view(),
                    &args[2].view(),
                    &mut args[3].view_mut(),
                )
            },
            |args| {
                let M = args[0].extent::<M>(0);
                let N = args[1].extent::<N>(0);
                P::GridShape::new(P::Work::Products, &[P::GridAxis::tiled(M), P::GridAxis::tiled(N)])
            },
        )
    }
}

mod attention {
    use super::*;

    pub fn body<f16, bf16, tf32, f32, B: Dim, H: Dim, G: Dim, S: Dim, T: Dim, const D: usize>(
        __grid: &P::GridPoint,
        q: &P::View<f16, (B, H, S, Const<D>)>,
        k: &P::View<f16, (B, G, T, Const<D>)>,
        v: &P::View<f16, (B, G, T, Const<D>)>,
        o: &mut P::View<f16, (B, H, S, Const<D>)>,
        scale: ::core::primitive::f32,
        causal: bool,
    ) where
        f16: P::Arithmetic<Acc = f32>,
        bf16: P::Arithmetic<Acc = f32>,
        tf32: P::Arithmetic<Acc = f32>,
        f32: P::Arithmetic<Acc = f32>,
    {
        let B = P::Extent::<B>::new(q.size(0));
        let H = P::Extent::<H>::new(q.size(1));
        let G = P::Extent::<G>::new(k.size(1));
        let S = P::Extent::<S>::new(q.size(2));
        let T = P::Extent::<T>::new(k.size(2));
        let scale = P::scalar::<f32>(scale);
        {
            enum i {}
            impl P::AxisName for i {
                type Ordinal = P::N0;
                const NAME: &'static str = "i";
            }
            let b = __grid.each(0, B);
            let h = __grid.each(1, H);
            let i = __grid.tile::<i, _>(2, S);
            {
                let g = h / (H / G);
                let mut m = P::full::<f32, _>(i, f32::NEG_INFINITY);
                let mut l = P::zeros::<f32, _>(i);
                let mut acc = P::zeros::<f32, _>((i, ..));
                {
                    enum j {}
                    impl P::AxisName for j {
                        type Ordinal = P::N1;
                        const NAME: &'static str = "j";
                    }
                    for j in P::tiles::<j, _>(__grid, if causal { T.until(i.end()) } else { T }) {
                        let mut s = P::dot(q.load((b, h, i, ..)), k.load((b, g, j, ..)).t()) * scale.clone();
                        if causal {
                            s = s.clone().mask(|i, j| j <= i, f32::NEG_INFINITY);
                        }
                        let m_new = m.clone().max(s.clone().row_max());
                        let p = (s.clone() - m_new.clone()).exp();
                        let fade = (m.clone() - m_new.clone()).exp();
                        l = l.clone() * fade.clone() + p.clone().row_sum();
                        acc = acc.clone() * fade.clone() + P::dot(p.clone().to::<f16>(), v.load((b, g, j, ..)));
                        m = m_new.clone();
                    }
                };
                o.store((b, h, i, ..), (acc.clone() / l.clone()).to());
            }
        }
    }

    pub fn kernel<const D: usize>(causal: bool) -> P::HostKernel {
        type A = P::Dyn;
        P::HostKernel::new(
            |grid, args| {
                body::<P::f16, P::bf16, P::tf32, ::core::primitive::f32, A, A, A, A, A, D>(
                    grid,
                    &args[0].view(),
                    &args[1].view(),
                    &args[2].view(),
                    &mut args[3].view_mut(),
                    args[4].f32(),
                    args[5].flag(),
                )
            },
            |grid, args| {
                body::<P::Bounded<P::F16>, P::Bounded<P::Bf16>, P::Bounded<P::Tf32>, P::Bounded<P::F32>, A, A, A, A, A, D>(
                    grid,
                    &args[0].view(),
                    &args[1].view(),
                    &args[2].view(),
                    &mut args[3].view_mut(),
                    args[4].f32(),
                    args[5].flag(),
                )
            },
            |args| {
                let (b, h, s) = (args[0].extent::<A>(0), args[0].extent::<A>(1), args[0].extent::<A>(2));
                P::GridShape::new(
                    P::Work::Products,
                    &[P::GridAxis::each(b), P::GridAxis::each(h), P::GridAxis::tiled(s)],
                )
            },
        )
        .flag(causal)
    }
}

mod conv2d {
    use super::*;

    pub fn body<f16, bf16, tf32, f32, N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, R: Dim, S: Dim, Pd: Dim, Q: Dim>(
        __grid: &P::GridPoint,
        x: &P::View<f16, (N, H, W, C)>,
        w: &P::View<f16, (K, R, S, C)>,
        bias: &P::View<f16, (K,)>,
        y: &mut P::View<f16, (N, Pd, Q, K)>,
        stride: i32,
        pad: i32,
        dilation: i32,
    ) where
        f16: P::Arithmetic<Acc = f32>,
        bf16: P::Arithmetic<Acc = f32>,
        tf32: P::Arithmetic<Acc = f32>,
        f32: P::Arithmetic<Acc = f32>,
    {
        let N = P::Extent::<N>::new(x.size(0));
        let Pd = P::Extent::<Pd>::new(y.size(1));
        let Q = P::Extent::<Q>::new(y.size(2));
        let K = P::Extent::<K>::new(w.size(0));
        let R = P::Extent::<R>::new(w.size(1));
        let S = P::Extent::<S>::new(w.size(2));
        let C = P::Extent::<C>::new(x.size(3));
        {
            enum npq {}
            impl P::AxisName for npq {
                type Ordinal = P::N0;
                const NAME: &'static str = "npq";
            }
            enum ko {}
            impl P::AxisName for ko {
                type Ordinal = P::N1;
                const NAME: &'static str = "ko";
            }
            let npq = __grid.tile::<npq, _>(0, P::flat((N, Pd, Q)));
            let ko = __grid.tile::<ko, _>(1, K);
            {
                let (n, p, q) = npq.coords();
                let mut acc = P::zeros::<f32, _>((npq, ko));
                {
                    enum c {}
                    impl P::AxisName for c {
                        type Ordinal = P::N2;
                        const NAME: &'static str = "c";
                    }
                    for r in P::each(R) {
                        for s in P::each(S) {
                            for c in P::tiles::<c, _>(__grid, C) {
                                let window =
                                    x.load((n, p * stride + r * dilation - pad, q * stride + s * dilation - pad, c));
                                acc += P::dot(window.clone(), w.load((ko, r, s, c)).t());
                            }
                        }
                    }
                };
                y.store((n, p, q, ko), (acc.clone() + bias.load(ko).to::<f32>()).map(silu).to());
            }
        }
    }

    pub fn kernel() -> P::HostKernel {
        type A = P::Dyn;
        P::HostKernel::new(
            |grid, args| {
                body::<P::f16, P::bf16, P::tf32, ::core::primitive::f32, A, A, A, A, A, A, A, A, A>(
                    grid,
                    &args[0].view(),
                    &args[1].view(),
                    &args[2].view(),
                    &mut args[3].view_mut(),
                    args[4].i32(),
                    args[5].i32(),
                    args[6].i32(),
                )
            },
            |grid, args| {
                body::<
                    P::Bounded<P::F16>,
                    P::Bounded<P::Bf16>,
                    P::Bounded<P::Tf32>,
                    P::Bounded<P::F32>,
                    A,
                    A,
                    A,
                    A,
                    A,
                    A,
                    A,
                    A,
                    A,
                >(
                    grid,
                    &args[0].view(),
                    &args[1].view(),
                    &args[2].view(),
                    &mut args[3].view_mut(),
                    args[4].i32(),
                    args[5].i32(),
                    args[6].i32(),
                )
            },
            |args| {
                let (n, p, q) = (args[0].extent::<A>(0), args[3].extent::<A>(1), args[3].extent::<A>(2));
                P::GridShape::new(
                    P::Work::Products,
                    &[P::GridAxis::tiled(P::flat((n, p, q))), P::GridAxis::tiled(args[1].extent::<A>(0))],
                )
            },
        )
    }
}

/// A dense tensor of f16 with reproducible values in -1..1.
struct Host {
    values: Vec<P::f16>,
    sizes: Vec<usize>,
}

impl Host {
    fn random(sizes: &[usize], seed: u64) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            P::f16::from_f64((state >> 33) as f64 / (1u64 << 30) as f64 - 1.0)
        };
        Host { values: (0..sizes.iter().product()).map(|_| next()).collect(), sizes: sizes.to_vec() }
    }

    fn poisoned(sizes: &[usize]) -> Self {
        Host { values: vec![P::f16::NAN; sizes.iter().product()], sizes: sizes.to_vec() }
    }

    fn array(&mut self) -> P::HostArray {
        let mut strides = vec![1; self.sizes.len()];
        for axis in (1..self.sizes.len()).rev() {
            strides[axis - 1] = strides[axis] * self.sizes[axis];
        }
        P::HostArray::new(self.values.as_mut_ptr().cast(), P::Dtype::F16, &self.sizes, &strides)
    }

    fn at(&self, index: &[usize]) -> f64 {
        self.values[index.iter().zip(&self.sizes).fold(0, |at, (i, size)| at * size + i)].to_f64()
    }
}

fn arguments<'a>(arrays: &[P::HostArray], output: P::HostArg<'a>, scalars: &[P::HostArg<'a>]) -> Vec<P::HostArg<'a>> {
    // SAFETY: the arrays are vectors that outlive the runs.
    let inputs = arrays.iter().map(|&array| unsafe { P::HostArg::input(array) });
    inputs.chain([output]).chain(scalars.iter().copied()).collect()
}

/// Runs natively; checks against the naive loop and against the oracle.
fn run(
    kernel: P::HostKernel,
    inputs: &mut [Host],
    output: &mut Host,
    scalars: &[P::HostArg],
    naive: impl Fn(&[Host], &[usize]) -> f64,
) {
    let arrays: Vec<_> = inputs.iter_mut().map(Host::array).collect();
    // SAFETY: inputs and output are distinct vectors that outlive the runs.
    kernel.run(&arguments(&arrays, unsafe { P::HostArg::output(output.array()) }, scalars));

    let sizes = output.sizes.clone();
    // Every element of a small result; of a large one a share whose stride has no factor in common with the tiles.
    let every = if output.values.len() > 4096 { 61 } else { 1 };
    for at in (0..output.values.len()).step_by(every) {
        let mut rest = at;
        let mut index = vec![0; sizes.len()];
        for axis in (0..sizes.len()).rev() {
            index[axis] = rest % sizes[axis];
            rest /= sizes[axis];
        }
        let (got, want) = (output.values[at].to_f64(), naive(inputs, &index));
        assert!((got - want).abs() <= 2e-3 * (1.0 + want.abs()), "at {index:?}: {got} for {want}");
    }

    // SAFETY: the output is only read while it is compared.
    let comparator = unsafe { P::Comparator::new(output.array()) };
    // SAFETY: as above.
    let taken = kernel.check(
        &arguments(&arrays, unsafe { P::HostArg::checked(output.array(), &comparator) }, scalars),
        P::Sample::All,
    );
    let found = comparator.finish();
    println!("{found:?}");
    assert_eq!(taken.tiles, taken.of);
    assert_eq!((found.compared, found.failures), (output.values.len() as u64, 0), "{found:?}");
    if let Some(worst) = &found.worst {
        assert!(worst.bound < 0.02 * (1.0 + worst.expected.abs()), "a bound that says nothing: {worst:?}");
    }

    // An element that is off is found.
    if let Some(last) = output.values.last_mut() {
        *last = P::f16::from_f64(last.to_f64() * 1.02 + 0.02);
        // SAFETY: as above.
        let comparator = unsafe { P::Comparator::new(output.array()) };
        kernel.check(
            &arguments(&arrays, unsafe { P::HostArg::checked(output.array(), &comparator) }, scalars),
            P::Sample::Some { tiles: 1, seed: 3 },
        );
        let found = comparator.finish();
        assert_eq!(found.failures, 1);
        let index: Vec<usize> = sizes.iter().map(|size| size - 1).collect();
        assert_eq!(found.worst.map(|worst| worst.index), Some(index));
    }
}

#[test]
fn linear() {
    for (m, n, k) in [(1, 1, 1), (67, 130, 300), (0, 5, 7), (5, 0, 7), (3, 4, 0), (513, 3, 1025)] {
        let kernel = linear_relu::kernel::<P::Dyn, P::Dyn, P::Dyn>();
        let mut inputs = [Host::random(&[m, k], 1), Host::random(&[n, k], 2), Host::random(&[n], 3)];
        run(kernel, &mut inputs, &mut Host::poisoned(&[m, n]), &[], |x, at| {
            let sum: f64 = (0..k).map(|p| x[0].at(&[at[0], p]) * x[1].at(&[at[1], p])).sum();
            (sum + x[2].at(&[at[1]])).max(0.0)
        });
    }
}

#[test]
fn attend() {
    const D: usize = 64;
    for (b, h, g, s, t, causal) in [(2, 4, 2, 130, 130, true), (1, 2, 1, 33, 600, false), (1, 1, 1, 1, 1, true)] {
        let mut inputs =
            [Host::random(&[b, h, s, D], 1), Host::random(&[b, g, t, D], 2), Host::random(&[b, g, t, D], 3)];
        let scale = 0.125;
        run(
            attention::kernel::<D>(causal),
            &mut inputs,
            &mut Host::poisoned(&[b, h, s, D]),
            &[P::HostArg::from_f32(scale)],
            |x, at| {
                let kv = at[1] / (h / g);
                let until = if causal { at[2] + 1 } else { t };
                let weight = |j: usize| {
                    let s: f64 = (0..D).map(|d| x[0].at(&[at[0], at[1], at[2], d]) * x[1].at(&[at[0], kv, j, d])).sum();
                    (s * f64::from(scale)).exp()
                };
                let weights: Vec<f64> = (0..until).map(weight).collect();
                let total: f64 = weights.iter().sum();
                (0..until).map(|j| weights[j] * x[2].at(&[at[0], kv, j, at[3]])).sum::<f64>() / total
            },
        );
    }
}

#[test]
fn convolve() {
    for (n, hw, c, k, rs, stride, pad, dilation) in
        [(2, 9, 67, 61, 3, 1, 1, 1), (1, 11, 3, 8, 5, 2, 2, 1), (1, 8, 16, 16, 3, 1, 2, 2), (1, 4, 8, 8, 1, 1, 0, 1)]
    {
        let out = (hw + 2 * pad - dilation * (rs - 1) - 1) / stride + 1;
        let mut inputs = [Host::random(&[n, hw, hw, c], 1), Host::random(&[k, rs, rs, c], 2), Host::random(&[k], 3)];
        let scalars = [stride, pad, dilation].map(|x| P::HostArg::from_i32(x as i32));
        run(conv2d::kernel(), &mut inputs, &mut Host::poisoned(&[n, out, out, k]), &scalars, |x, at| {
            let mut sum = x[2].at(&[at[3]]);
            for r in 0..rs {
                for s in 0..rs {
                    let (h, w) = (at[1] * stride + r * dilation, at[2] * stride + s * dilation);
                    if (pad..pad + hw).contains(&h) && (pad..pad + hw).contains(&w) {
                        sum += (0..c)
                            .map(|c| x[0].at(&[at[0], h - pad, w - pad, c]) * x[1].at(&[at[3], r, s, c]))
                            .sum::<f64>();
                    }
                }
            }
            sum / (1.0 + (-sum).exp())
        });
    }
}
