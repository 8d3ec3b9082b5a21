//! Small kernels and the nests that they mean, word for word.

use tracea_compiler::front;
use tracea_compiler::nest::Nest;

fn nests(attr: &str, kernel: &str) -> Vec<Nest> {
    match front(attr.parse().expect("tokens"), kernel.parse().expect("tokens")) {
        Ok((nests, _)) => nests,
        Err(error) => panic!("{}", error.into_iter().map(|error| error.to_string()).collect::<Vec<_>>().join("\n")),
    }
}

/// The block below the grid's line.
fn body(attr: &str, kernel: &str) -> String {
    let printed = nests(attr, kernel)[0].to_string();
    let at = printed.find("  grid").expect("a grid");
    printed[at..].trim_end().to_string()
}

fn errors(attr: &str, kernel: &str) -> Vec<String> {
    match front(attr.parse().expect("tokens"), kernel.parse().expect("tokens")) {
        Ok(_) => Vec::new(),
        Err(error) => error.into_iter().map(|error| error.to_string()).collect(),
    }
}

#[test]
fn a_product_with_an_epilogue() {
    let printed = nests(
        "",
        "fn linear<M: Dim, N: Dim, K: Dim>(
            a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, bias: &Tensor<f16, (N,)>, c: &mut Tensor<f16, (M, N)>,
        ) {
            tile!(for (i, j) in (M, N) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                c[(i, j)] = (acc + bias[j].to::<f32>()).map(relu).to();
            });
        }",
    )[0]
    .to_string();
    assert_eq!(
        printed,
        "\
kernel linear
  dims M, N, K
  in a: f16[M, K]
  in b: f16[N, K]
  in bias: f16[N]
  out c: f16[M, N]
  function relu = relu
  grid i in M, j in N
    v0 acc: f32(i, j) = fill 0
    loop k in K
      carry acc: v1 = v0, then v6, at last v7
      v2: f16(i, k) = load a[i, k]
      v3: f16(j, k) = load b[j, k]
      v4: f16(k, j) = transpose v3
      v5: f32(i, j) = dot v2 v4
      v6 acc: f32(i, j) = add v1 v5
    v8: f16(j) = load bias[j]
    v9: f32(j) = cast v8
    v10: f32(i, j) = add v7 v9
    v11: f32(i, j) = relu(v10)
    v12: f16(i, j) = cast v11
    store c[i, j] = v12
"
    );
}

#[test]
fn each_instance_folds_its_own_flags_and_constants() {
    let all = nests(
        "D = [64, 128], causal = [false, true]",
        "fn scores<S: Dim, const D: usize>(
            q: &Tensor<f16, (S, Const<D>)>, o: &mut Tensor<f32, (S,)>, causal: bool,
        ) {
            tile!(for i in S {
                let mut m = zeros::<f32>(i);
                tile!(for j in if causal { S.until(i.end()) } else { S } {
                    let mut s = dot(q[(i, ..)], q[(j, ..)].t());
                    if causal && D > 64 { s = s.mask(|i, j| j <= i, f32::NEG_INFINITY); }
                    m = m.max(s.row_max());
                });
                o[i] = m;
            });
        }",
    );
    assert_eq!(all.len(), 4);
    let printed: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert!(printed[0].starts_with("kernel scores[D = 64, causal = false]\n  dims S, D = 64\n"));
    assert!(printed[0].contains("loop j in S\n") && !printed[0].contains("select"));
    assert!(printed[1].contains("loop j in S until i.end\n") && !printed[1].contains("select"));
    assert!(printed[3].contains("bool(i, j) = where j <= i\n") && printed[3].contains("select"));
}

#[test]
fn convolution_indices_are_integer_maps() {
    let printed = body(
        "",
        "fn conv<N: Dim, H: Dim, C: Dim, K: Dim, R: Dim, P: Dim>(
            x: &Tensor<f16, (N, H, C)>, w: &Tensor<f16, (K, R, C)>, y: &mut Tensor<f16, (N, P, K)>, stride: i32, pad: i32,
        ) {
            tile!(for (np, ko) in (flat(N, P), K) {
                let (n, p) = np.coords();
                let mut acc = zeros::<f32>((np, ko));
                tile!(for (r, c) in (each(R), C) {
                    acc += dot(x[(n, p * stride + r - pad, c)], w[(ko, r, c)].t());
                });
                y[(n, p, ko)] = acc.to();
            });
        }",
    );
    assert!(printed.starts_with("  grid np in flat(N, P), ko in K\n"), "{printed}");
    assert!(printed.contains("load x[np.0, ((np.1 * stride) + r) - pad, c]"), "{printed}");
    assert!(printed.contains("store y[np.0, np.1, ko]"), "{printed}");
    assert!(printed.contains("loop r in each(R)\n      carry acc: v1 = v0"), "{printed}");
}

#[test]
fn closures_are_inlined_in_f32() {
    assert_eq!(
        body(
            "",
            "fn leaky<M: Dim>(x: &Tensor<f16, (M,)>, y: &mut Tensor<f16, (M,)>, slope: f32) {
                tile!(for i in M {
                    y[i] = x[i].map(|e| if e > 0.0 { e } else { slope * e });
                });
            }",
        ),
        "  grid i in M
    v0 slope: f32 = scalar slope
    v1: f16(i) = load x[i]
    v2 e: f32(i) = cast v1
    v3: f32 = fill 0
    v4: bool(i) = gt v2 v3
    v5: f32(i) = mul v0 v2
    v6: f32(i) = select v4 v2 v5
    v7: f16(i) = cast v6
    store y[i] = v7"
    );
}

#[test]
fn ranges_stay_at_or_above_zero() {
    let printed = body(
        "",
        "fn band<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>, w: i32) {
            tile!(for i in M {
                let mut sum = zeros::<f32>(i);
                tile!(for j in N.range(i.start() - w..i.end() + w) { sum += x[(i, j)].row_sum(); });
                y[i] = sum;
            });
        }",
    );
    assert!(printed.contains("loop j in N from max(i.start - w, 0) until i.end + w\n"), "{printed}");
}

#[test]
fn coordinates_span_axes_in_the_order_of_their_loops() {
    let printed = body(
        "",
        "fn alibi<S: Dim, T: Dim>(s: &Tensor<f32, (S, T)>, o: &mut Tensor<f32, (S, T)>, slope: f32) {
            tile!(for (i, j) in (S, T) { o[(i, j)] = s[(i, j)] + (iota(j) - iota(i)).to::<f32>() * slope; });
        }",
    );
    assert!(printed.contains("i32(i, j) = int j - i\n"), "{printed}");
}

#[test]
fn what_nothing_needs_is_left_out() {
    let printed = body(
        "",
        "fn copy<M: Dim, K: Dim>(x: &Tensor<f32, (M, K)>, z: &Tensor<f32, (M,)>, y: &mut Tensor<f32, (M,)>, unused: f32) {
            tile!(for i in M {
                let nothing = z[i] * 2.0;
                let mut same = z[i];
                tile!(for k in K { let lost = x[(i, k)]; same = same.to::<f32>(); });
                y[i] = same;
            });
        }",
    );
    assert_eq!(printed, "  grid i in M\n    v0 same: f32(i) = load z[i]\n    store y[i] = v0");
}

#[test]
fn inference_runs_backwards_from_the_use() {
    assert_eq!(
        body(
            "",
            "fn infer<M: Dim, N: Dim>(
                p: &Tensor<f32, (M, N)>, v: &Tensor<bf16, (N, Const<16>)>, y: &mut Tensor<bf16, (M, Const<16>)>,
            ) {
                tile!(for i in M {
                    let mut acc = zeros((i, ..));
                    tile!(for j in N { acc = 0.5 * acc + dot(p[(i, j)].to(), v[(j, ..)]); });
                    y[(i, ..)] = acc.to();
                });
            }",
        ),
        "  grid i in M
    v0 acc: f32(i, const_16) = fill 0
    loop j in N
      carry acc: v1 = v0, then v8, at last v9
      v2: f32 = fill 0.5
      v3: f32(i, const_16) = mul v2 v1
      v4: f32(i, j) = load p[i, j]
      v5: bf16(i, j) = cast v4
      v6: bf16(j, const_16) = load v[j, const_16]
      v7: f32(i, const_16) = dot v5 v6
      v8 acc: f32(i, const_16) = add v3 v7
    v10: bf16(i, const_16) = cast v9
    store y[i, const_16] = v10"
    );
}

#[test]
fn every_fault_is_told_once() {
    let told = errors(
        "D = [1, 2, 3]",
        "fn faulty<M: Dim, const D: usize>(x: &Tensor<f32, (M, Const<D>)>, y: &mut Tensor<f32, (M,)>) {
            tile!(for i in M {
                let s = 1.0;
                y[0] = x[(i, ..)].row_sum() * s;
                y[D] = UNKNOWN;
            });
        }",
    );
    assert_eq!(told.iter().filter(|text| text.contains("UNKNOWN")).count(), 1, "{told:#?}");
    assert!(told.iter().any(|text| text.contains("spans `i`")), "{told:#?}");
}

#[test]
fn numbers_that_a_tensor_holds_are_integers() {
    assert_eq!(
        body(
            "",
            "fn f<B: Dim, N: Dim, V: Dim>(
                x: &Tensor<f32, (V, N)>, ids: &Tensor<i32, (B,)>, length: &Tensor<i32, (B,)>, y: &mut Tensor<f32, (B, N)>, z: &mut Tensor<f32, (B,)>,
            ) {
                tile!(for b in each(B) {
                    let n = length[b];
                    let mut total = zeros::<f32>(());
                    tile!(for j in N.until(n - 1) { total += x[(2 * ids[b] + 1, j)].mask(|j| j > n, 0.0).sum(j); });
                    z[b] = total;
                    tile!(for j in N { y[(b, j)] = x[(ids[b], j)]; });
                });
            }",
        ),
        "  grid b in each(B)
    v0 total: f32 = fill 0
    loop j in N until length[b] - 1
      carry total: v1 = v0, then v7, at last v8
      v2: f32(j) = load x[(2 * ids[b]) + 1, j]
      v3: bool(j) = where j > length[b]
      v4: f32 = fill 0
      v5: f32(j) = select v3 v2 v4
      v6: f32 = reduce sum v5 over j
      v7 total: f32 = add v1 v6
    store z[b] = v8
    loop j in N
      v9: f32(j) = load x[ids[b], j]
      store y[b, j] = v9"
    );
}
