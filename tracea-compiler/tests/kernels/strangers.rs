/// loss[i] = log(sum(exp(x[i]))) - x[i, label[i]]
#[kernel]
pub fn cross_entropy<R: Dim, C: Dim>(x: &Tensor<f16, (R, C)>, label: &Tensor<i32, (R,)>, loss: &mut Tensor<f32, (R,)>) {
    tile!(for i in R {
        let target = label[i];
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut picked = zeros::<f32>(i);
        tile!(for j in C {
            let s = x[(i, j)].to::<f32>();
            let m_new = m.max(s.row_max());
            l = l * (m - m_new).exp() + (s - m_new).exp().row_sum();
            picked += select(iota(j).eq(target), s, 0.0).row_sum();
            m = m_new;
        });
        loss[i] = m + l.log() - picked;
    });
}

/// y = gelu_tanh(x · w1ᵀ) · w2ᵀ, a hidden block at a time
#[kernel]
pub fn mlp<M: Dim, F: Dim>(
    x: &Tensor<f16, (M, Const<64>)>,
    w1: &Tensor<f16, (F, Const<64>)>,
    w2: &Tensor<f16, (Const<64>, F)>,
    y: &mut Tensor<f16, (M, Const<64>)>,
) {
    tile!(for i in M {
        let mut acc = zeros::<f32>((i, ..));
        tile!(for f in F {
            let h = dot(x[(i, ..)], w1[(f, ..)].t());
            let g = 0.5 * h * (1.0 + (0.7978846 * (h + 0.044715 * h * h * h)).tanh());
            acc += dot(g.to::<f16>(), w2[(.., f)].t());
        });
        y[(i, ..)] = acc.to();
    });
}

#[kernel]
pub fn gemm_residual_scale<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<bf16, (M, K)>,
    b: &Tensor<bf16, (K, N)>,
    scale: &Tensor<f32, (N,)>,
    residual: &Tensor<bf16, (M, N)>,
    c: &mut Tensor<bf16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(k, j)]);
        });
        c[(i, j)] = (acc * scale[j] + residual[(i, j)].to::<f32>()).to();
    });
}

#[kernel]
pub fn batched_matvec<B: Dim, M: Dim, K: Dim>(
    a: &Tensor<f16, (B, M, K)>,
    x: &Tensor<f16, (B, K, Const<16>)>,
    y: &mut Tensor<f32, (B, M, Const<16>)>,
) {
    tile!(for (b, i) in (each(B), M) {
        let mut acc = zeros::<f32>((i, ..));
        tile!(for k in K {
            acc += dot(a[(b, i, k)], x[(b, k, ..)]);
        });
        y[(b, i, ..)] = acc;
    });
}

#[kernel(D = [80, 96, 192, 40])]
pub fn attention_d<B: Dim, H: Dim, S: Dim, T: Dim, const D: usize>(
    q: &Tensor<bf16, (B, H, S, Const<D>)>,
    k: &Tensor<bf16, (B, H, T, Const<D>)>,
    v: &Tensor<bf16, (B, H, T, Const<D>)>,
    o: &mut Tensor<bf16, (B, H, S, Const<D>)>,
    scale: f32,
) {
    tile!(for (b, h, i) in (each(B), each(H), S) {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in T {
            let s = dot(q[(b, h, i, ..)], k[(b, h, j, ..)].t()) * scale;
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<bf16>(), v[(b, h, j, ..)]);
            m = m_new;
        });
        o[(b, h, i, ..)] = (acc / l).to();
    });
}

#[kernel]
pub fn attention_fixed_kv<B: Dim, S: Dim>(
    q: &Tensor<f16, (B, S, Const<64>)>,
    k: &Tensor<f16, (B, Const<256>, Const<64>)>,
    v: &Tensor<f16, (B, Const<256>, Const<64>)>,
    o: &mut Tensor<f16, (B, S, Const<64>)>,
    scale: f32,
) {
    tile!(for (b, i) in (each(B), S) {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in Const::<256> {
            let s = dot(q[(b, i, ..)], k[(b, j, ..)].t()) * scale;
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
pub fn average_pool<N: Dim, H: Dim, W: Dim, C: Dim, P: Dim, Q: Dim>(
    x: &Tensor<f16, (N, H, W, C)>,
    y: &mut Tensor<f16, (N, P, Q, C)>,
    stride: i32,
) {
    tile!(for (npq, c) in (flat(N, P, Q), C) {
        let (n, p, q) = npq.coords();
        let mut total = zeros::<f32>((npq, c));
        tile!(for (r, s) in (each(Const::<3>), each(Const::<3>)) {
            total += x[(n, p * stride + r, q * stride + s, c)].to::<f32>();
        });
        y[(n, p, q, c)] = (total / 9.0).to();
    });
}

#[kernel]
pub fn group_norm<N: Dim, G: Dim, L: Dim>(
    x: &Tensor<f16, (N, G, L, Const<32>)>,
    gamma: &Tensor<f32, (G, Const<32>)>,
    y: &mut Tensor<f16, (N, G, L, Const<32>)>,
    eps: f32,
) {
    tile!(for (n, g) in (each(N), each(G)) {
        let mut s = zeros::<f32>(());
        let mut q = zeros::<f32>(());
        tile!(for l in L {
            let v = x[(n, g, l, ..)].to::<f32>();
            s += v.row_sum().sum(l);
            q += (v * v).row_sum().sum(l);
        });
        let count = (L as f32) * 32.0;
        let mean = s / count;
        let inverse = (q / count - mean * mean + eps).rsqrt();
        tile!(for l in L {
            y[(n, g, l, ..)] = ((x[(n, g, l, ..)].to::<f32>() - mean) * inverse * gamma[(g, ..)]).to();
        });
    });
}

#[kernel]
pub fn spread<R: Dim, C: Dim>(x: &Tensor<f32, (R, C)>, y: &mut Tensor<f32, (R,)>) {
    tile!(for i in R {
        let mut high = full::<f32>(i, f32::NEG_INFINITY);
        let mut low = full::<f32>(i, f32::INFINITY);
        tile!(for j in C {
            let v = x[(i, j)];
            high = high.max(v.row_max());
            low = low.min(v.row_min());
        });
        y[i] = high - low;
    });
}

#[kernel]
pub fn outer<M: Dim, N: Dim>(x: &Tensor<f32, (M,)>, y: &Tensor<f32, (N,)>, z: &mut Tensor<f32, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        z[(i, j)] = x[i] * y[j];
    });
}

#[kernel]
pub fn masked_mean<R: Dim, C: Dim>(x: &Tensor<f16, (R, C)>, length: &Tensor<i32, (R,)>, y: &mut Tensor<f16, (R,)>) {
    tile!(for i in R {
        let n = length[i];
        let mut total = zeros::<f32>(i);
        tile!(for j in C {
            total += select(iota(j).lt(n), x[(i, j)].to::<f32>(), 0.0).row_sum();
        });
        y[i] = (total / n.to::<f32>().max(1.0)).to();
    });
}

#[kernel]
pub fn complex_multiply<M: Dim, N: Dim, K: Dim>(
    ar: &Tensor<f16, (M, K)>,
    ai: &Tensor<f16, (M, K)>,
    br: &Tensor<f16, (K, N)>,
    bi: &Tensor<f16, (K, N)>,
    cr: &mut Tensor<f32, (M, N)>,
    ci: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut re = zeros::<f32>((i, j));
        let mut im = zeros::<f32>((i, j));
        let mut minus = zeros::<f32>((i, j));
        tile!(for k in K {
            re += dot(ar[(i, k)], br[(k, j)]);
            minus += dot(ai[(i, k)], bi[(k, j)]);
            im += dot(ar[(i, k)], bi[(k, j)]);
            im += dot(ai[(i, k)], br[(k, j)]);
        });
        cr[(i, j)] = re - minus;
        ci[(i, j)] = im;
    });
}

#[kernel]
pub fn three_way<M: Dim, N: Dim>(
    x: &Tensor<f32, (M, N)>,
    row: &Tensor<f32, (N,)>,
    col: &Tensor<f32, (M,)>,
    y: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        y[(i, j)] = x[(i, j)] * row[j] + col[i];
    });
}

#[kernel]
pub fn gram<M: Dim, K: Dim>(a: &Tensor<f16, (M, K)>, c: &mut Tensor<f32, (M, M)>) {
    tile!(for (i, j) in (M, M) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], a[(j, k)].t());
        });
        c[(i, j)] = acc;
    });
}

#[kernel]
pub fn rank_update<M: Dim, K: Dim>(a: &Tensor<f16, (M, K)>, c: &mut Tensor<f32, (M, M)>, alpha: f32, beta: f32) {
    tile!(for (i, j) in (M, M) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], a[(j, k)].t());
        });
        c[(i, j)] = alpha * acc + beta * c[(i, j)];
    });
}

#[kernel]
pub fn integers<N: Dim>(x: &Tensor<i32, (N,)>, y: &Tensor<i32, (N,)>, z: &mut Tensor<i32, (N,)>, shift: i32) {
    tile!(for i in N {
        z[i] = (x[i] + 3) * y[i] % 7 - shift;
    });
}

/// state = kᵀ · v
#[kernel(D = [64, 80])]
pub fn linear_attention_state<B: Dim, T: Dim, const D: usize>(
    k: &Tensor<f16, (B, T, Const<D>)>,
    v: &Tensor<f16, (B, T, Const<64>)>,
    state: &mut Tensor<f32, (B, Const<D>, Const<64>)>,
) {
    tile!(for (b, d, e) in (each(B), Const::<D>, Const::<64>) {
        let mut acc = zeros::<f32>((d, e));
        tile!(for t in T {
            acc += dot(k[(b, t, d)].t(), v[(b, t, e)]);
        });
        state[(b, d, e)] = acc;
    });
}

#[kernel]
pub fn half_select<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, y: &mut Tensor<f32, (M, N)>, n: i32) {
    tile!(for (i, j) in (M, N) {
        let w = select(iota(j).lt(n), full::<f16>((i, j), 1.0), full::<f16>((i, j), -2.0)).to::<f32>();
        y[(i, j)] = x[(i, j)].to::<f32>() - w * x[(i, j)].to::<f32>();
    });
}

#[kernel]
pub fn from_known<R: Dim>(x: &Tensor<f32, (R, Const<2048>)>, y: &mut Tensor<f32, (R,)>, first: i32) {
    tile!(for i in R {
        let mut total = zeros::<f32>(i);
        tile!(for j in Const::<2048>.from(first) {
            total += x[(i, j)].row_sum();
        });
        y[i] = total;
    });
}

#[kernel]
pub fn copy_bf16<M: Dim, N: Dim>(x: &Tensor<bf16, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    tile!(for (i, j) in (M, N) {
        y[(i, j)] = x[(i, j)].to();
    });
}

#[kernel]
pub fn layer_norm<R: Dim, C: Dim>(
    x: &Tensor<bf16, (R, C)>,
    gamma: &Tensor<bf16, (C,)>,
    beta: &Tensor<bf16, (C,)>,
    y: &mut Tensor<bf16, (R, C)>,
    eps: f32,
) {
    tile!(for i in R {
        let mut s = zeros::<f32>(i);
        let mut q = zeros::<f32>(i);
        tile!(for j in C {
            let v = x[(i, j)].to::<f32>();
            s += v.row_sum();
            q += (v * v).row_sum();
        });
        let mean = s / (C as f32);
        let inverse = (q / (C as f32) - mean * mean + eps).rsqrt();
        tile!(for j in C {
            let v = x[(i, j)].to::<f32>();
            y[(i, j)] = ((v - mean) * inverse * gamma[j].to::<f32>() + beta[j].to::<f32>()).to();
        });
    });
}

/// q·kᵀ without softmax, two heads' worth of scores held at once: computed operands on both sides
#[kernel]
pub fn both_computed<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f32, (M, K)>,
    b: &Tensor<f32, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            let x = a[(i, k)].exp().to::<bf16>();
            let y = b[(j, k)].abs().to::<bf16>();
            acc += dot(x, y.t());
        });
        c[(i, j)] = acc;
    });
}

#[kernel(D = [64, 80])]
pub fn whole_rows<B: Dim, T: Dim, N: Dim, const D: usize>(
    k: &Tensor<f16, (B, T, Const<D>)>,
    v: &Tensor<f16, (B, T, N)>,
    state: &mut Tensor<f32, (B, Const<D>, N)>,
) {
    tile!(for (b, e) in (each(B), N) {
        let mut acc = zeros::<f32>((.., e));
        tile!(for t in T {
            acc += dot(k[(b, t, ..)].t(), v[(b, t, e)]);
        });
        state[(b, .., e)] = acc;
    });
}

#[kernel]
pub fn transposed_result<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (K, N)>,
    c: &mut Tensor<f16, (N, M)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(k, j)]);
        });
        c[(j, i)] = acc.to().t();
    });
}

#[kernel]
pub fn row_and_column<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (K, N)>,
    rows: &mut Tensor<f32, (M, N)>,
    both: &mut Tensor<f32, (N, M)>,
    gate: &Tensor<f32, (N, M)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(k, j)]);
        });
        rows[(i, j)] = acc - acc.row_max();
        both[(j, i)] = (acc.t() - acc.col_sum()) * gate[(j, i)];
    });
}

#[kernel]
pub fn no_loop<M: Dim, N: Dim>(
    a: &Tensor<f16, (M, Const<64>)>,
    b: &Tensor<f16, (Const<64>, N)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        c[(i, j)] = dot(a[(i, ..)], b[(.., j)]);
    });
}

#[kernel]
pub fn ring_in_ring<M: Dim, N: Dim, K: Dim, L: Dim>(
    a: &Tensor<f16, (M, K)>,
    w: &Tensor<f16, (K, L)>,
    b: &Tensor<f16, (L, N)>,
    x: &Tensor<f16, (K, N)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            let rows = a[(i, k)];
            acc += dot(rows, x[(k, j)]);
            tile!(for l in L {
                let inner = dot(rows, w[(k, l)]);
                acc += dot(inner.to::<f16>(), b[(l, j)]);
            });
            acc += dot(rows, x[(k, j)]);
        });
        c[(i, j)] = acc;
    });
}

#[kernel]
pub fn block_diagonal<G: Dim, M: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (K, Const<64>)>,
    c: &mut Tensor<f32, (G, M, Const<64>)>,
    width: i32,
) {
    tile!(for (g, i) in (each(G), M) {
        let mut acc = zeros::<f32>((i, ..));
        tile!(for k in K.range(g * width..(g + 1) * width) {
            acc += dot(a[(i, k)], b[(k, ..)]);
        });
        c[(g, i, ..)] = acc;
    });
}

#[kernel]
pub fn diagonal<N: Dim>(x: &Tensor<f32, (N, N)>, y: &mut Tensor<f32, (N,)>) {
    tile!(for i in N {
        y[i] = x[(i, i)];
    });
}

#[kernel]
pub fn shifted_columns<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, y: &mut Tensor<f16, (M, N)>, by: i32) {
    tile!(for (i, j) in (M, N) {
        y[(i, j)] = x[(i, j + by)];
    });
}

#[kernel]
pub fn nchw<N: Dim, C: Dim, H: Dim, W: Dim, K: Dim, P: Dim, Q: Dim>(
    x: &Tensor<f16, (N, C, H, W)>,
    w: &Tensor<f16, (K, C, Const<3>, Const<3>)>,
    y: &mut Tensor<f16, (N, K, P, Q)>,
) {
    tile!(for (npq, ko) in (flat(N, P, Q), K) {
        let (n, p, q) = npq.coords();
        let mut acc = zeros::<f32>((npq, ko));
        tile!(for (r, s, c) in (each(Const::<3>), each(Const::<3>), C) {
            acc += dot(x[(n, c, p + r - 1, q + s - 1)], w[(ko, c, r, s)].t());
        });
        y[(n, ko, p, q)] = acc.to();
    });
}

#[kernel]
pub fn integer_max<R: Dim, C: Dim>(
    x: &Tensor<i32, (R, C)>,
    y: &mut Tensor<i32, (R,)>,
    z: &mut Tensor<f16, (R,)>,
    h: &Tensor<f16, (R, C)>,
) {
    tile!(for i in R {
        let mut high = full::<i32>(i, -1);
        let mut half = full::<f16>(i, -60000.0);
        tile!(for j in C {
            high = high.max(x[(i, j)].row_max());
            half = half.max(h[(i, j)].row_max());
        });
        y[i] = high;
        z[i] = half;
    });
}

#[kernel]
pub fn swap<N: Dim, K: Dim>(x: &Tensor<f32, (K, N)>, y: &mut Tensor<f32, (N,)>) {
    tile!(for i in N {
        let mut a = zeros::<f32>(i);
        let mut b = full::<f32>(i, 1.0);
        tile!(for k in each(K) {
            let next = a + b * x[(k, i)];
            a = b;
            b = next;
        });
        y[i] = a + b;
    });
}

#[kernel]
pub fn total<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, s: &mut Tensor<f32, (M,)>, logic: &mut Tensor<i32, (M, N)>) {
    tile!(for i in M {
        let mut t = zeros::<f32>(i);
        tile!(for j in N {
            let v = x[(i, j)].to::<f32>();
            let big = v.gt(1.0).and(v.lt(2.0)).or(v.eq(5.0));
            t += select(big, v, -v).row_sum();
            logic[(i, j)] = select(big, iota(i), iota(j) * 2 - 1);
        });
        s[i] = t;
    });
}

#[kernel]
pub fn two_results<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<bf16, (M, K)>,
    b: &Tensor<bf16, (K, N)>,
    wide: &mut Tensor<f32, (M, N)>,
    narrow: &mut Tensor<bf16, (M, N)>,
    mask: &mut Tensor<i32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(k, j)]);
        });
        wide[(i, j)] = acc;
        narrow[(i, j)] = acc.to();
        mask[(i, j)] = acc.gt(0.0).to::<i32>();
    });
}

#[kernel]
pub fn column_softmax<R: Dim, C: Dim>(x: &Tensor<f16, (R, C)>, y: &mut Tensor<f16, (R, C)>) {
    tile!(for j in C {
        let mut m = full::<f32>(j, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(j);
        tile!(for i in R {
            let s = x[(i, j)].to::<f32>();
            let m_new = m.max(s.col_max());
            l = l * (m - m_new).exp() + (s - m_new).exp().col_sum();
            m = m_new;
        });
        tile!(for i in R {
            y[(i, j)] = ((x[(i, j)].to::<f32>() - m).exp() / l).to();
        });
    });
}

#[kernel]
pub fn lower_triangular<M: Dim, K: Dim>(a: &Tensor<f32, (M, M)>, b: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, (M, K)>) {
    tile!(for (i, j) in (M, K) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for k in M.until(i.end()) {
            let l = a[(i, k)].mask(|i, k| k <= i, 0.0);
            acc += dot(l, b[(k, j)]);
        });
        c[(i, j)] = acc;
    });
}

#[kernel]
pub fn pairwise_l1<M: Dim, N: Dim, D: Dim>(
    a: &Tensor<f32, (M, D)>,
    b: &Tensor<f32, (N, D)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j));
        tile!(for d in each(D) {
            acc += (a[(i, d)] - b[(j, d)]).abs();
        });
        c[(i, j)] = acc;
    });
}

#[kernel]
pub fn rope<S: Dim, H: Dim>(
    x: &Tensor<f16, (S, H, Const<2>, Const<64>)>,
    cosine: &Tensor<f32, (S, Const<64>)>,
    sine: &Tensor<f32, (S, Const<64>)>,
    y: &mut Tensor<f16, (S, H, Const<2>, Const<64>)>,
) {
    tile!(for (s, h) in (S, each(H)) {
        let (c, n) = (cosine[(s, ..)], sine[(s, ..)]);
        let a = x[(s, h, 0, ..)].to::<f32>();
        let b = x[(s, h, 1, ..)].to::<f32>();
        y[(s, h, 0, ..)] = (a * c - b * n).to();
        y[(s, h, 1, ..)] = (b * c + a * n).to();
    });
}

#[kernel]
pub fn wide_bias<M: Dim, N: Dim, K: Dim>(
    a: &Tensor<f16, (M, K)>,
    b: &Tensor<f16, (K, N)>,
    r: &Tensor<f32, (M,)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut acc = zeros::<f32>((i, j)) + r[i];
        tile!(for k in K {
            acc += dot(a[(i, k)], b[(k, j)]) * 0.5;
        });
        c[(i, j)] = acc + 1.0;
    });
}

#[kernel]
pub fn gru_cell<M: Dim, N: Dim, K: Dim>(
    x: &Tensor<f16, (M, K)>,
    h: &Tensor<f16, (M, N)>,
    w: &Tensor<f16, (Const<3>, N, K)>,
    u: &Tensor<f16, (Const<3>, N, N)>,
    h_new: &mut Tensor<f16, (M, N)>,
) {
    tile!(for (i, j) in (M, N) {
        let mut r = zeros::<f32>((i, j));
        let mut z = zeros::<f32>((i, j));
        let mut n = zeros::<f32>((i, j));
        let mut hn = zeros::<f32>((i, j));
        tile!(for k in K {
            r += dot(x[(i, k)], w[(0, j, k)].t());
            z += dot(x[(i, k)], w[(1, j, k)].t());
            n += dot(x[(i, k)], w[(2, j, k)].t());
        });
        tile!(for k in N {
            r += dot(h[(i, k)], u[(0, j, k)].t());
            z += dot(h[(i, k)], u[(1, j, k)].t());
            hn += dot(h[(i, k)], u[(2, j, k)].t());
        });
        let update = z.map(sigmoid);
        let new = (n + r.map(sigmoid) * hn).tanh();
        h_new[(i, j)] = ((1.0 - update) * new + update * h[(i, j)].to::<f32>()).to();
    });
}

#[kernel]
pub fn two_sources<B: Dim, S: Dim, T: Dim, U: Dim>(
    q: &Tensor<f16, (B, S, Const<64>)>,
    k: &Tensor<f16, (B, T, Const<64>)>,
    v: &Tensor<f16, (B, T, Const<64>)>,
    k2: &Tensor<f16, (B, U, Const<64>)>,
    v2: &Tensor<f16, (B, U, Const<64>)>,
    o: &mut Tensor<f16, (B, S, Const<64>)>,
    scale: f32,
) {
    tile!(for (b, i) in (each(B), S) {
        let mut m = full::<f32>(i, f32::NEG_INFINITY);
        let mut l = zeros::<f32>(i);
        let mut acc = zeros::<f32>((i, ..));
        tile!(for j in T {
            let s = dot(q[(b, i, ..)], k[(b, j, ..)].t()) * scale;
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v[(b, j, ..)]);
            m = m_new;
        });
        tile!(for j in U {
            let s = dot(q[(b, i, ..)], k2[(b, j, ..)].t()) * scale;
            let m_new = m.max(s.row_max());
            let p = (s - m_new).exp();
            let fade = (m - m_new).exp();
            l = l * fade + p.row_sum();
            acc = acc * fade + dot(p.to::<f16>(), v2[(b, j, ..)]);
            m = m_new;
        });
        o[(b, i, ..)] = (acc / l).to();
    });
}
