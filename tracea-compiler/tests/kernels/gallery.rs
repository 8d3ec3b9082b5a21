#[kernel]
pub fn swiglu<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<f16, (M, K)>,
    gate: &Tensor<f16, (N, K)>,
    up: &Tensor<f16, (N, K)>,
    y: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut g = zeros::<f32>((i, j));
        let mut u = zeros::<f32>((i, j));
        tile!(for k in K {
            let rows = x[(i, k)];
            g += dot(rows, gate[(j, k)].t());
            u += dot(rows, up[(j, k)].t());
        });
        y[(i, j)] = (g.map(silu) * u).to();
    });
}

#[kernel]
pub fn gemm_row_sums<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (K, N)>,
    c: &mut Tensor<f16, (M, N)>,
    sums: &mut Tensor<f32, (M,)>,
) {
    tile!(for i in M {
        let mut total = zeros::<f32>(i);
        tile!(for j in N {
            let mut acc = zeros::<f32>((i, j));
            tile!(for k in K {
                acc += dot(a[(i, k)], b[(k, j)]);
            });
            total += acc.row_sum();
            c[(i, j)] = acc.to();
        });
        sums[i] = total;
    });
}

#[kernel]
pub fn low_rank<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    u: &Tensor<f16, (K, Const<64>)>,
    v: &Tensor<f16, (Const<64>, N)>,
    c: &mut Tensor<f16, (M, N)>,
) {
    tile!(for i in M {
        let mut inner = zeros::<f32>((i, ..));
        tile!(for k in K {
            inner += dot(a[(i, k)], u[(k, ..)]);
        });
        let inner = inner.to::<f16>();
        tile!(for j in N {
            c[(i, j)] = dot(inner, v[(.., j)]).to();
        });
    });
}

#[kernel]
pub fn batched_shared<B: Dim, M: Dim, N: Dim, K: Dim>(
    a: &Tensor<bf16, (B, M, K)>,
    w: &Tensor<bf16, (K, N)>,
    c: &mut Tensor<bf16, (B, M, N)>,
) {
    tile!(for (b, i, j) in (each(B), M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(b, i, k)], w[(k, j)]);
        });
        c[(b, i, j)] = acc.to();
    });
}

#[kernel]
pub fn attention_alibi<B: Dim, H: Dim, S: Dim, T: Dim>(
    q: &Tensor<f16, (B, H, S, Const<64>)>,
    k: &Tensor<f16, (B, H, T, Const<64>)>,
    v: &Tensor<f16, (B, H, T, Const<64>)>,
    slope: &Tensor<f32, (H,)>,
    o: &mut Tensor<f16, (B, H, S, Const<64>)>,
    scale: f32,
) {
    tile!(for (b, h, i) in (each(B), each(H), S) {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in T {
            let distance = (iota(j) - iota(i)).to::<f32>();
            let s = dot(q[(b, h, i, ..)], k[(b, h, j, ..)].t()) * scale + distance * slope[h];
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v[(b, h, j, ..)]);
            m = m_new;
        });
        o[(b, h, i, ..)] = (acc / l).to();
    });
}

#[kernel]
pub fn attention_window<B: Dim, S: Dim>(
    q: &Tensor<f16, (B, S, Const<64>)>,
    k: &Tensor<f16, (B, S, Const<64>)>,
    v: &Tensor<f16, (B, S, Const<32>)>,
    o: &mut Tensor<f16, (B, S, Const<32>)>,
    scale: f32,
    window: i32,
    cap: f32,
) {
    tile!(for (b, i) in (each(B), S) {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in S.range(i.start() - window + 1..i.end()) {
            let s = dot(q[(b, i, ..)], k[(b, j, ..)].t()) * scale;
            let s = (s / cap).tanh() * cap;
            let s = s.mask(|i, j| j <= i && i - j < window, f32::NEG_INFINITY);
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v[(b, j, ..)]);
            m = m_new;
        });
        o[(b, i, ..)] = (acc / l).to();
    });
}

#[kernel]
pub fn conv1d<N: Dim, L: Dim, C: Dim, K: Dim, R: Dim, P: Dim>(
    x: &Tensor<f16, (N, L, C)>,
    w: &Tensor<f16, (K, R, C)>,
    y: &mut Tensor<f16, (N, P, K)>,
    stride: i32,
    pad: i32,
) {
    tile!(for (n, p, ko) in (each(N), P, K) {
        let mut acc = zeros::<f32>((p, ko));
        tile!(for (r, c) in (each(R), C) {
            acc += dot(x[(n, p * stride + r - pad, c)], w[(ko, r, c)].t());
        });
        y[(n, p, ko)] = acc.to();
    });
}

#[kernel]
pub fn stem<N: Dim, H: Dim, W: Dim, P: Dim, Q: Dim>(
    x: &Tensor<f16, (N, H, W, Const<3>)>,
    w: &Tensor<f16, (Const<64>, Const<7>, Const<7>, Const<3>)>,
    y: &mut Tensor<f16, (N, P, Q, Const<64>)>,
) {
    tile!(for (npq, ko) in (flat(N, P, Q), Const::<64>) {
        let (n, p, q) = npq.coords();
        let mut acc = zeros::<f32>((npq, ko));
        tile!(for rsc in flat(Const::<7>, Const::<7>, Const::<3>) {
            let (r, s, c) = rsc.coords();
            acc += dot(x[(n, p * 2 + r - 3, q * 2 + s - 3, c)], w[(ko, r, s, c)].t());
        });
        y[(n, p, q, ko)] = acc.to();
    });
}

#[kernel]
pub fn distances<M: Dim, N: Dim, D: Dim>(
    a: &Tensor<f32, (M, D)>,
    b: &Tensor<f32, (N, D)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut product = zeros::<f32>((i, j));
        let mut aa = zeros::<f32>(i);
        let mut bb = zeros::<f32>(j);
        tile!(for d in D {
            let x = a[(i, d)];
            let y = b[(j, d)];
            product += dot(x, y.t());
            aa += (x * x).row_sum();
            bb += (y * y).row_sum();
        });
        c[(i, j)] = (aa + bb - 2.0 * product).max(0.0);
    });
}

#[kernel]
pub fn masked_softmax<R: Dim, C: Dim>(
    x: &Tensor<f32, (R, C)>,
    length: &Tensor<i32, (R,)>,
    y: &mut Tensor<f32, (R, C)>,
) {
    tile!(for i in R {
        let n = length[i];
        let mut m = full::<f32>(i, f32::MIN);
        let mut l = zeros::<f32>(i);
        tile!(for j in C {
            let s = select(iota(j).lt(n), x[(i, j)], f32::NEG_INFINITY);
            let m_new = m.max(s.row_max());
            l = l * (m - m_new).exp() + (s - m_new).exp().row_sum();
            m = m_new;
        });
        tile!(for j in C {
            let s = select(iota(j).lt(n), x[(i, j)], f32::NEG_INFINITY);
            y[(i, j)] = (s - m).exp() / l;
        });
    });
}

#[kernel]
pub fn moments<R: Dim, C: Dim>(
    x: &Tensor<f32, (R, C)>,
    mean: &mut Tensor<f32, (R,)>,
    variance: &mut Tensor<f32, (R,)>,
) {
    tile!(for i in R {
        let mut s = zeros::<f32>(i);
        let mut q = zeros::<f32>(i);
        tile!(for j in C {
            let x = x[(i, j)];
            s += x.row_sum();
            q += (x * x).row_sum();
        });
        let mu = s / (C as f32);
        mean[i] = mu;
        variance[i] = q / (C as f32) - mu * mu;
    });
}

#[kernel]
pub fn stencil<H: Dim, W: Dim>(x: &Tensor<f32, (H, W)>, y: &mut Tensor<f32, (H, W)>) {
    tile!(for (i, j) in (H, W) {
        let around = x[(i - 1, j)] + x[(i + 1, j)] + x[(i, j - 1)] + x[(i, j + 1)];
        y[(i, j)] = 0.25 * around - x[(i, j)];
    });
}

#[kernel]
pub fn axpy<N: Dim>(a: f32, x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    tile!(for i in N {
        y[i] = a * x[i] + y[i];
    });
}

#[kernel]
pub fn column_sums<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, s: &mut Tensor<f32, (N,)>) {
    tile!(for j in N {
        let mut total = zeros::<f32>(j);
        tile!(for i in M {
            total += x[(i, j)].to::<f32>().col_sum();
        });
        s[j] = total;
    });
}

#[kernel]
pub fn dot_product<B: Dim, N: Dim>(x: &Tensor<f32, (B, N)>, y: &Tensor<f32, (B, N)>, s: &mut Tensor<f32, (B,)>) {
    tile!(for b in each(B) {
        let mut total = zeros::<f32>(());
        tile!(for i in N {
            total += (x[(b, i)] * y[(b, i)]).sum(i);
        });
        s[b] = total;
    });
}

#[kernel]
pub fn gemm_tf32<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f32, (M, K)>,
    b: &Tensor<f32, (K, N)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)].to::<tf32>(), b[(k, j)].to::<tf32>());
        });
        c[(i, j)] = acc;
    });
}

#[kernel]
pub fn gemm_tt<M: Dim, N: Dim, K: Dim>(a: &Tensor<f16, (K, M)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f16, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(k, i)].t(), b[(j, k)].t());
        });
        c[(i, j)] = acc.to();
    });
}

#[kernel]
pub fn rms_gemm<M: Dim, N: Dim, K: Dim>(x: &Tensor<f16, (M, K)>, w: &Tensor<f16, (N, K)>, y: &mut Tensor<f16, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        let mut squares = zeros::<f32>(i);
        tile!(for k in K {
            let rows = x[(i, k)];
            let wide = rows.to::<f32>();
            squares += (wide * wide).row_sum();
            acc += dot(rows, w[(j, k)].t());
        });
        y[(i, j)] = (acc * (squares / (K as f32) + 0.00001).rsqrt()).to();
    });
}
