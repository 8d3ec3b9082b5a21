//! Kernels spelled as somebody might who has read one page about the language: chains in any order, blocks, references, consts,
//! closures that capture. Each must compile without a warning and agree with its own oracle.
#![deny(warnings, clippy::all, clippy::pedantic)]

use tracea::prelude::*;

#[kernel]
pub fn softmax_two<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    tile!(for i in M {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        tile!(for j in N {
            m = m.max(x[(i, j)].row_max());
        });
        let mut l = zeros::<f32>(i);
        tile!(for j in N {
            l += (x[(i, j)] - m).exp().row_sum();
        });
        tile!(for j in N {
            y[(i, j)] = (x[(i, j)] - m).exp() / l;
        });
    });
}

#[kernel(T = [f16, bf16, f32])]
pub fn layer_norm2<T: Float, M: Dim, N: Dim>(
    x: &Tensor<T, (M, N)>,
    g: &Tensor<T, (N,)>,
    y: &mut Tensor<T, (M, N)>,
    eps: f32,
) {
    tile!(for i in M {
        let (mut s, mut q) = (zeros::<f32>(i), zeros::<f32>(i));
        tile!(for j in N {
            let v = x[(i, j)].to::<f32>();
            s += v.row_sum();
            q += (v * v).row_sum();
        });
        let n = N as f32;
        let mean = s / n;
        let var = q / n - mean * mean;
        let rstd = (var + eps).max(f32::EPSILON).rsqrt();
        tile!(for j in N {
            let v = (x[(i, j)].to::<f32>() - mean) * rstd;
            y[(i, j)] = (v * g[j].to()).to();
        });
    });
}

#[kernel]
pub fn swiglu<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (N, K)>,
    v: &Tensor<f16, (N, K)>,
    y: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut a = zeros::<f32>((i, j));
        let mut b = zeros::<f32>((i, j));
        tile!(for k in K {
            let xs = x[(i, k)];
            a += dot(xs, w[(j, k)].t());
            b += dot(xs, v[(j, k)].t());
        });
        y[(i, j)] = a.zip_map(b, |a, b| a / (1.0 + (-a).exp()) * b).to();
    });
}

#[kernel]
pub fn alibi<S: Dim, T: Dim>(s: &Tensor<f32, (S, T)>, o: &mut Tensor<f32, (S, T)>, slope: f32) {
    tile!(for (i, j) in (S, T) {
        let bias = (iota(j) - iota(i)).to::<f32>() * slope;
        o[(i, j)] = (s[(i, j)] + bias).mask(|i, j| j <= i && i - j < 7, f32::NEG_INFINITY);
    });
}

#[kernel(D = [32])]
pub fn window<S: Dim, const D: usize>(
    q: &Tensor<f16, (S, Const<D>)>,
    k: &Tensor<f16, (S, Const<D>)>,
    v: &Tensor<f16, (S, Const<D>)>,
    o: &mut Tensor<f16, (S, Const<D>)>,
    w: i32,
) {
    tile!(for i in S {
        let scale = 1.0 / (D as f32).sqrt();
        let mut m = full::<f32>(i, f32::MIN);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        let lo = (i.start() - w).max(0);
        tile!(for j in S.range(lo..i.end().min(100_000)) {
            let s = (dot(q[(i, ..)], k[(j, ..)].t()) * scale).mask(|i, j| j <= i && j > i - w, f32::NEG_INFINITY);
            let m2 = m.max(s.row_max());
            let p = (s - m2).exp();
            let f = (m - m2).exp();
            l = l * f + p.row_sum();
            acc = acc * f + dot(p.to(), v[(j, ..)]);
            m = m2;
        });
        o[(i, ..)] = (acc / l).to();
    });
}

#[kernel]
pub fn transpose<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N, M)>) {
    tile!(for (i, j) in (M, N) {
        y[(j, i)] = x[(i, j)].t();
    });
}

#[kernel]
pub fn stencil<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        let around = x[(i + 1, j)] + x[(i - 1, j)] + x[(i, j + 1)] + x[(i, j - 1)];
        y[(i, j)] = 0.25 * around + -1.0 * x[(i, j)];
    });
}

#[kernel]
pub fn conv1d<B: Dim, C: Dim, L: Dim, K: Dim, R: Dim>(
    x: &Tensor<f32, (B, L, C)>,
    w: &Tensor<f32, (K, R, C)>,
    y: &mut Tensor<f32, (B, L, K)>,
) {
    tile!(for (bl, ko) in (flat(B, L), K) {
        let (b, l) = bl.coords();
        let mut acc = zeros::<f32>((bl, ko));
        tile!(for (r, c) in (each(R), C) {
            acc += dot(x[(b, l + r - R / 2, c)], w[(ko, r, c)].t());
        });
        y[(b, l, ko)] = acc;
    });
}

#[kernel]
pub fn gemm_row_sums<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (K, N)>,
    c: &mut Tensor<f16, (M, N)>,
    s: &mut Tensor<f32, (M,)>,
) {
    tile!(for i in M {
        let mut total = zeros::<f32>(i);
        tile!(for j in N {
            let mut acc = zeros((i, j));
            tile!(for k in K {
                acc += dot(a[(i, k)], b[(k, j)]);
            });
            c[(i, j)] = acc.to();
            total += acc.row_sum();
        });
        s[i] = total;
    });
}

#[kernel]
pub fn low_rank<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<f16, (M, K)>,
    a: &Tensor<f16, (Const<16>, K)>,
    b: &Tensor<f16, (N, Const<16>)>,
    y: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut h = zeros::<f32>((i, ..));
        tile!(for k in K {
            h += dot(x[(i, k)], a[(.., k)].t());
        });
        y[(i, j)] = dot(h.to::<f16>(), b[(j, ..)].t()).to();
    });
}

#[device]
fn huber(x: f32, d: f32) -> f32 {
    let a = x.abs();
    if a <= d {
        let h = 0.5 * x;
        return h * x;
    }
    let mut r = a - 0.5 * d;
    r *= d;
    r
}

mod deep {
    use tracea::prelude::*;
    #[device]
    pub fn twice(x: f32) -> f32 {
        let y: f32 = x + x;
        y
    }
}

#[kernel(fancy = [true, false])]
pub fn everything<M: Dim, N: Dim>(
    x: &Tensor<f32, (M, N)>,
    z: &Tensor<i32, (M, N)>,
    y: &mut Tensor<f32, (M, N)>,
    alpha: f32,
    n: i32,
    fancy: bool,
) {
    const EPS: f32 = 1e-5;
    let half = 0.5;
    tile!(for (i, j) in (M, N) {
        let v: Tile<f32, _> = x[(i, j)];
        let big = v.gt(alpha + EPS);
        let c: f32 = 2.0;
        let k = {
            let t = n * 2 + 1;
            (t - 1).max(3) % 7
        };
        let w = v
            .map(|e| huber(e, 0.3) + deep::twice(e) * c + if e > 0.0 && e < alpha { e.sqrt() } else { half * e.abs() });
        let w = select(big, w, (w + &v) * (k as f32)).map(|e: f32| e.clamp(-100.0, 100.0));
        let u = w * core::f32::consts::LN_2 + z[(i, j)].to::<f32>();
        let u = if fancy {
            let q = u.tanh();
            q * q.recip()
        } else {
            u
        };
        let masked = u.mask(|i, j| i + n > j || (j - i).abs() < 3 && !(i == 2), 0.0);
        let s = if fancy { iota(i) * 3 } else { iota(i) };
        y[(i, j)] = masked.max(0.0).min(1e4) + s.to::<f32>() * (M as f32 / 3.0);
    });
}

/// A hash of each number: bits beside numbers, coordinates, a loop's variable and scalars, on either side.
#[kernel]
fn scrambled<M: Dim, N: Dim>(x: &Tensor<i32, (M, N)>, salt: &Tensor<i32, (N,)>, y: &mut Tensor<i32, (M, N)>, by: i32) {
    tile!(for (i, j) in (M, N) {
        let mut bits = x[(i, j)] ^ salt[j];
        tile!(for r in each(Const::<3>) {
            bits ^= bits << (by & 3 | r);
            bits ^= (bits >> 5) & 0x00ff_ff0f;
            bits = 1 << (iota(j) & 7) | bits;
        });
        y[(i, j)] ^= bits.ge(0).and(bits.lt(64)).select(bits, bits - N);
    });
}

#[kernel]
pub(crate) fn halves_of<M, N>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>)
where
    M: Dim,
    N: Dim,
{
    tile!(for (i, j) in ((M), N) {
        let at = (i, j);
        let halved = |v: f32| v / 2.0;
        let value;
        {
            let x = &x[at];
            value = (*x).map(halved) + -x;
        }
        y[at] = value;
    });
}

/// Two loops over parts of one dim, a tile carried through both.
#[kernel]
fn two_halves<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in M {
        let mut sum = zeros(i);
        tile!(for j in N.range(0..N / 2) {
            sum += x[(i, j)].sum(j)
        });
        tile!(for j in N.range(N / 2..N) {
            sum -= x[(i, j)].sum(j);
        });
        tile!(for j in N.range(3..) {
            sum *= x[(i, j)].max_over(j).max(0.5).ln().exp();
        });
        y[i] = sum;
    });
}

#[kernel]
fn maximum<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
    tile!(for i in each(M) {
        let mut most = full::<f32>((), f32::NEG_INFINITY);
        tile!(for j in each(N) {
            most = most.max(x[(i, j)]);
        });
        y[i] = most;
    });
}

#[device]
pub fn bounded_square(x: f32) -> f32 {
    if x.is_nan() || x.abs() > 1e3 { 0.0 } else { (x + 1.0).powi(2) }
}

/// A running choice, conditions as tiles, and integers beside floats.
#[kernel]
fn choices<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>, rate: f32, steps: i32) {
    tile!(for i in M {
        let mut best = full(i, f32::MIN);
        let mut found = full::<i32>(i, -1);
        tile!(for j in N {
            let highest = x[(i, j)].row_max();
            let better = highest.gt(best);
            found = better.and(found.ne(3)).select(3, found.max(-2));
            best = best.max(highest);
        });
        let limit = (steps as f32) * rate;
        let keep = best.lt(limit).or(best.ge(-limit)).not();
        y[i] = select(keep, best, found.to::<f32>()).powi(2) * (1.0 - limit);
    });
}

/// Numbers that are loaded, in indices and bounds, before and after a loop variable.
#[kernel]
fn looked_up<Z: Dim, B: Dim, M: Dim>(
    x: &Tensor<f32, (Z,)>,
    start: &Tensor<i32, (B,)>,
    order: &Tensor<i32, (M,)>,
    y: &mut Tensor<f32, (B, M)>,
) {
    tile!(for (b, i) in (each(B), M) {
        let first = start[b];
        let shuffled = x[first + order[i]] + x[M - 1 - order[i]] * x[order[i] - i + M - 1];
        let mut total = zeros::<f32>(i);
        tile!(for j in M.range(first / 2..(first + 3).min(7)) {
            total += (x[j + first] * x[2 * first - j + i]).sum(j);
        });
        y[(b, i)] = shuffled.mask(|i| i >= first && i < start[b] + 20, -1.0) + total;
    });
}

/// Scalars that are loaded, inside a closure and outside.
#[kernel]
fn scaled<B: Dim, M: Dim>(x: &Tensor<f32, (B, M)>, s: &Tensor<f32, (B,)>, y: &mut Tensor<f32, (B, M)>) {
    tile!(for (b, i) in (each(B), M) {
        let scale = s[b];
        let first = x[(b, 0)];
        y[(b, i)] = x[(b, i)].map(|v| (v - first.value()) * scale + bounded_square(v)) + scale;
    });
}

macro_rules! mapped {
    ($($name:ident: $function:expr;)*) => {$(
        #[kernel]
        fn $name<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
            tile!(for (i, j) in (M, N) { y[(i, j)] = x[(i, j)].map($function) + 1.0; });
        }
    )*};
}

mapped! {
    by_name: relu;
    by_path: tracea::activation::gelu;
    by_closure: |v| f32::max(v * 2.0, 0.25).ln();
}

fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| f32::from(u8::try_from((i * 37) % 23).unwrap()) / 16.0 - 0.6).collect()
}
fn halves(n: usize) -> Vec<f16> {
    values(n).into_iter().map(f16::from_f32).collect()
}

#[test]
#[allow(clippy::many_single_char_names)]
fn each_agrees_with_its_oracle() -> Result<(), Error> {
    let dev = Device::cpu();
    let (m, n, k) = (37, 29, 19);
    let x = dev.tensor(&values(m * n), (m, n))?;
    let g = dev.tensor(&values(n), (n,))?;
    let mut y = dev.zeros::<f32, _>((m, n))?;
    let mut yt = dev.zeros::<f32, _>((n, m))?;
    let rows = dev.tensor(&values(m), (m,))?;
    let mut yr = dev.zeros::<f32, _>((m,))?;
    softmax_two(&x, &mut y).verify()?;
    let sums: Vec<f32> = y.to_vec()?.chunks(n).map(|r| r.iter().sum()).collect();
    assert!(sums.iter().all(|s| (s - 1.0).abs() < 1e-5));
    layer_norm2(&x, &g, &mut y, 1e-5).verify()?;
    alibi(&x, &mut y, 0.5).verify()?;
    let seen =
        y.to_vec()?.chunks(n).map(|row| row.iter().position(|s| s.is_infinite()).unwrap_or(n)).collect::<Vec<_>>();
    assert_eq!(
        seen[..7],
        [1, 2, 3, 4, 5, 6, 7],
        "coordinates come in the order of the loops, whatever the order of the terms"
    );
    transpose(&x, &mut yt).verify()?;
    stencil(&x, &mut y).verify()?;
    let z = dev.tensor(&vec![3i32; m * n], (m, n))?;
    everything(&x, &z, &mut y, 0.5, 4, true).verify()?;
    everything(&x, &z, &mut y, 0.5, 4, false).verify()?;
    halves_of(&x, &mut y).verify()?;
    two_halves(&x, &mut yr).verify()?;
    maximum(&x, &mut yr).verify()?;
    choices(&x, &mut yr, 0.25, 3).verify()?;
    scaled(&x, &rows, &mut y).verify()?;
    let starts = dev.tensor(&[0, 3, 11], (3,))?;
    let order = dev.tensor(&(0..29).rev().collect::<Vec<i32>>(), (29,))?;
    let long = dev.tensor(&values(100), (100,))?;
    let mut z = dev.zeros::<f32, _>((3, 29))?;
    looked_up(&long, &starts, &order, &mut z).verify()?;
    let expected = {
        let x = values(100);
        let (at, i) = (3 + 28 - 5, 5_usize);
        x[at] + x[28 - (28 - i)] * x[28 - i + 28 - i] + (1..6).map(|j| x[j + 3] * x[6 + i - j]).sum::<f32>()
    };
    assert_eq!(z.to_vec()?[29 + 3 + 2].to_bits(), expected.to_bits());
    let numbers: Vec<i32> = (0i32..).map(|at| at.wrapping_mul(-0x61C8_864F)).take(m * n).collect();
    let columns = i32::try_from(n).expect("few columns");
    let (bits, salt) = (dev.tensor(&numbers, (m, n))?, dev.tensor(&numbers[..n], (n,))?);
    let mut hashed = dev.zeros::<i32, _>((m, n))?;
    scrambled(&bits, &salt, &mut hashed, 6).verify()?;
    let scrambled = |i: usize, j: usize| {
        let mut bits = numbers[i * n + j] ^ numbers[j];
        for r in 0..3 {
            bits ^= bits.wrapping_shl(2 | r);
            bits ^= (bits >> 5) & 0x00ff_ff0f;
            bits |= 1 << (j & 7);
        }
        if (0..64).contains(&bits) { bits } else { bits.wrapping_sub(columns) }
    };
    assert!(hashed.to_vec()?.iter().enumerate().all(|(at, hash)| *hash == scrambled(at / n, at % n)));
    by_name(&x, &mut y).verify()?;
    by_path(&x, &mut y).verify()?;
    by_closure(&x, &mut y).verify()?;
    let (a, b, v) =
        (dev.tensor(&halves(m * k), (m, k))?, dev.tensor(&halves(n * k), (n, k))?, dev.tensor(&halves(n * k), (n, k))?);
    let bt = dev.tensor(&halves(n * k), (k, n))?;
    let mut c = dev.zeros::<f16, _>((m, n))?;
    let mut s = dev.zeros::<f32, _>((m,))?;
    swiglu(&a, &b, &v, &mut c).verify()?;
    gemm_row_sums(&a, &bt, &mut c, &mut s).verify()?;
    let q = dev.tensor(&halves(50 * 32), (50, Const::<32>))?;
    let mut o = dev.zeros::<f16, _>((50, Const::<32>))?;
    window(&q, &q, &q, &mut o, 9).verify()?;
    let la = dev.tensor(&halves(16 * k), (Const::<16>, k))?;
    let lb = dev.tensor(&halves(16 * n), (n, Const::<16>))?;
    low_rank(&a, &la, &lb, &mut c).verify()?;
    let cx = dev.tensor(&values(2 * 11 * 5), (2, 11, 5))?;
    let cw = dev.tensor(&values(7 * 3 * 5), (7, 3, 5))?;
    let mut cy = dev.zeros::<f32, _>((2, 11, 7))?;
    conv1d(&cx, &cw, &mut cy).verify()?;
    Ok(())
}
