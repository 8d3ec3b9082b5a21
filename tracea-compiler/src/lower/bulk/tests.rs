use crate::plan::{Number, Window};
use crate::program::Program;
use crate::program::shared::SharedId;
use crate::testing::{cuda, gemm, lines, program};
use proc_macro2::TokenStream;
use quote::quote;

/// A convolution whose window lies at this index; more arguments than most need.
fn convolution(window: TokenStream) -> TokenStream {
    quote! {
        #[schedule(sm_90a, npq = 128, ko = 128, c = 64, stages = 4)]
        fn conv<N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, R: Dim, S: Dim, P: Dim, Q: Dim>(
            x: &Tensor<f16, (N, H, W, C)>, w: &Tensor<f16, (K, R, S, C)>, y: &mut Tensor<f16, (N, P, Q, K)>,
            stride: i32, pad: i32, dilation: i32,
        ) {
            tile!(for (npq, ko) in (flat(N, P, Q), K) {
                let (n, p, q) = npq.coords();
                let mut acc = zeros::<f32>((npq, ko));
                tile!(for (r, s, c) in (each(R), each(S), C) {
                    acc += dot(x[#window], w[(ko, r, s, c)].t());
                });
                y[(n, p, q, ko)] = acc.to();
            });
        }
    }
}

/// How the producer fills its rings, where not by threads alone.
fn filled(program: &Program) -> Vec<String> {
    lines(program).into_iter().filter(|line| line.starts_with("fill ")).collect()
}

fn is_windowed(window: TokenStream) -> bool {
    let program = program(convolution(window));
    match &filled(&program)[..] {
        [] => program.windows.is_empty(),
        [line] => {
            assert_eq!(line, "fill x_ready by windows of x and boxes of w");
            assert_eq!(program.windows.len(), 1);
            return true;
        }
        lines => panic!("{lines:?}"),
    };
    assert!(program.params.iter().all(|param| param.name != "w_map128"), "a ring of threads needs no map");
    false
}

/// `corner + reach * step`-like text of a number, dims as `d0`, scalars as `s0`.
fn text(number: &Number) -> String {
    match number {
        Number::Const(value) => value.to_string(),
        Number::Dim(dim) => format!("d{dim}"),
        Number::Scalar(scalar) => format!("s{scalar}"),
        Number::Binary(op, a, b) => format!("{op:?}({}, {})", text(a), text(b)),
    }
}

#[test]
fn rows_that_walk_a_tensor_by_steps_are_windows() {
    for window in [
        quote!((n, p * stride + r * dilation - pad, q * stride + s * dilation - pad, c)),
        quote!((n, p, q, c)),
        quote!((n, p + 1, q - s, c)),
        quote!((n, 2 * p + r - 3, (q + s) * stride, c)),
        quote!((n, p + (r + 1) * (dilation - 1), q * (stride * 2) + pad / 2, c)),
        quote!((n, p + r + s, q, c)),
    ] {
        assert!(is_windowed(window.clone()), "{window}");
    }
}

#[test]
fn what_tma_cannot_walk_is_copied_by_threads() {
    for window in [
        // Steps that change from tile to tile, or from row to row.
        quote!((n, p * r, q, c)),
        quote!((n, p * q, q, c)),
        quote!((n, p * p, q, c)),
        quote!((n, p / 2, q, c)),
        // Not linear in a loop.
        quote!((n, p + r * s, q, c)),
        quote!((n, p + r % 2, q, c)),
        // Another part's axis, or none.
        quote!((n, q, p, c)),
        quote!((n, p + q, q, c)),
        // The first and the last axis are as they are.
        quote!((n + 1, p, q, c)),
        quote!((n, p, q, c + 1)),
        quote!((n, p, q, c * stride)),
        // An axis cut into blocks.
        quote!((n, p, q + c, c)),
    ] {
        assert!(!is_windowed(window.clone()), "{window}");
    }
}

#[test]
fn corners_come_from_the_ends_of_loops() {
    let program = program(convolution(quote!((n, p * stride + r * dilation - pad, 2 * q - s, c))));
    let [Window { tensor: 0, rows: 128, channels: 64, narrow: true, axes }] = &program.windows[..] else {
        panic!("{:?}", program.windows)
    };
    // N, H, W, C, K, R, S, P, Q; stride, pad, dilation
    let far = "Mul(s2, Sub(d5, 1))";
    assert_eq!((axes[0].count, text(&axes[0].step)), (7, "s0".into()));
    assert_eq!(text(&axes[0].corner), format!("Add(Sub(0, s1), Min({far}, 0))"));
    assert_eq!(text(&axes[0].reach), format!("Sub(Max({far}, 0), Min({far}, 0))"));
    assert_eq!((axes[1].count, text(&axes[1].step)), (8, "2".into()));
    assert_eq!(text(&axes[1].corner), "Min(Mul(-1, Sub(d6, 1)), 0)");
}

/// The first coordinates of the boxes of `b` in `a · b`, where TMA brings it.
fn box_of_b(dims: TokenStream, b: TokenStream) -> Option<String> {
    let text = cuda(quote! {
        #[schedule(sm_90a, i = 128, j = 64, k = 64, stages = 4)]
        fn f<M: Dim, N: Dim, K: Dim>(
            a: &Tensor<f16, (M, K)>, b: &Tensor<f16, #dims>, start: &Tensor<i32, (M,)>, c: &mut Tensor<f32, (M, N)>,
        ) {
            tile!(for (i, j) in (M, N) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in K { acc += dot(a[(i, k)], #b); });
                c[(i, j)] = acc;
            });
        }
    });
    let copy = text.lines().map(str::trim).find(|line| line.starts_with("tma_load(b_ring "))?;
    Some(copy.split_once("+ slot, ").expect("a barrier").1.trim_end_matches(");").to_string())
}

#[test]
fn rows_that_begin_further_on_are_boxes() {
    assert_eq!(box_of_b(quote!((N, K)), quote!(b[(j, k)].t())).as_deref(), Some("k0, j0"));
    assert_eq!(box_of_b(quote!((N, K)), quote!(b[(N + j, k)].t())).as_deref(), Some("k0, j0 + N"));
    assert_eq!(box_of_b(quote!((N, K)), quote!(b[(start[N] + j, k)].t())).as_deref(), Some("k0, j0 + start_number"));
}

/// A sum over rows that begin further on would take in those past its end.
#[test]
fn sums_that_begin_where_a_vector_does_are_boxes() {
    let of_x = |from: TokenStream| {
        let text = cuda(quote! {
            #[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2)]
            fn f<M: Dim, N: Dim>(
                x: &Tensor<f16, (M, N)>, l: &Tensor<f16, (N, N)>, y: &mut Tensor<f16, (M, N)>, first: i32,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in N.from(#from) { acc += dot(x[(i, k)], l[(k, j)]); });
                    y[(i, j)] = acc.to();
                });
            }
        });
        (text.contains("tma_load(x_ring"), text.contains("copy_elements<XRingBuffer"))
    };
    for from in [quote!(j.start()), quote!(16), quote!((j.start() - 64).max(0))] {
        assert_eq!(of_x(from.clone()), (true, false), "{from}");
    }
    for from in [quote!(j.start() + 4), quote!(4), quote!(first)] {
        assert_eq!(of_x(from.clone()), (false, true), "{from}");
    }
}

#[test]
fn rows_of_a_sum_begin_with_the_tensor() {
    assert_eq!(box_of_b(quote!((K, N)), quote!(b[(k, j)])).as_deref(), Some("j0, k0"));
    assert_eq!(box_of_b(quote!((K, N)), quote!(b[(k + 1, j)])), None);
    assert_eq!(box_of_b(quote!((N, K)), quote!(b[(j * 2, k)].t())), None);
}

#[test]
fn the_first_row_is_found_once_a_block() {
    let text = cuda(convolution(quote!((n, p * stride + r * dilation - pad, q - pad, c))));
    let of = |start: &str| {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with(start)).collect();
        assert_eq!(lines.len(), 1, "{start} in\n{text}");
        lines[0].to_string()
    };
    assert_eq!(of("const int x_first1"), "const int x_first1 = by_Q.div(by_P_Q.rem(npq0)) * stride + x_corner1;");
    assert_eq!(of("const int x_first2"), "const int x_first2 = by_Q.rem(npq0) + x_corner2;");
    assert!(text.find("x_first2 =") < text.find("for (int step"));
    let copy = of("tma_load_im2col(");
    assert!(copy.ends_with(", c0, x_first2, x_first1, x_first0, 0, r * dilation - pad - x_corner1);"), "{copy}");
    assert_eq!(of("constexpr bool X_READY_BULK"), "constexpr bool X_READY_BULK = TRACEA_WINDOW_0 && ALIGN_W >= 16;");
}

#[test]
fn boxes_are_as_narrow_as_the_innermost_of_several_sums() {
    let item = convolution(quote!((n, p * stride + r * dilation - pad, q - pad, c)));
    let narrow = program(item.clone()).narrow;
    assert_eq!(narrow.iter().map(|narrow| narrow.shared).collect::<Vec<_>>(), [SharedId(0), SharedId(1)]);
    let text = cuda(item);
    let clear = |tile: &str, ring: &str| {
        format!("if constexpr (X_READY_BULK) clear_beside<{tile}, THREADS + PRODUCERS>({ring}, 32768, c_columns);")
    };
    for line in [
        "const int c_columns = XRingBuffer::columns_of(C);".to_string(),
        clear("XRingBuffer", "x_ring"),
        clear("WRingBuffer", "w_ring"),
        "XRingBuffer::bytes_of(c_columns) + w_rows * WRingBuffer::bytes_of(c_columns) / WRingBuffer::rows);"
            .to_string(),
    ] {
        assert_eq!(text.matches(&line).count(), 1, "{line} in\n{text}");
    }
    assert!(text.find("c_columns);") < text.find("__syncthreads();"), "all threads see the zeros");
}

#[test]
fn boxes_of_a_sum_alone_or_of_known_length_are_whole() {
    let alone = program(gemm(quote!(sm_90a, i = 128, j = 128, k = 64)));
    let known = program(quote! {
        #[schedule(sm_90a, p = 128, ko = 128, c = 64, stages = 4)]
        fn conv<L: Dim, P: Dim, K: Dim, R: Dim>(
            x: &Tensor<f16, (L, Const<32>)>, w: &Tensor<f16, (K, R, Const<32>)>, y: &mut Tensor<f16, (P, K)>,
        ) {
            tile!(for (p, ko) in (P, K) {
                let mut acc = zeros::<f32>((p, ko));
                tile!(for (r, c) in (each(R), Const::<32>) { acc += dot(x[(p + r, c)], w[(ko, r, c)].t()); });
                y[(p, ko)] = acc.to();
            });
        }
    });
    for program in [alone, known] {
        assert!(program.narrow.is_empty(), "{program}");
    }
}

#[test]
fn boxes_of_products_are_no_taller_than_the_tensor() {
    let short = |schedule: TokenStream| {
        let program = program(gemm(schedule));
        program.short.iter().map(|short| short.rows.clone()).collect::<Vec<_>>()
    };
    assert_eq!(short(quote!(sm_90a, i = 64, j = 64, k = 64, stages = 4, consumers = 1)), ["a_rows"], "b's run along k");
    assert_eq!(short(quote!(sm_90a, i = 128, j = 64, k = 64, stages = 4, consumers = 2)), ["a_rows"]);
    assert_eq!(short(quote!(sm_90a, i = 96, j = 128, k = 64, stages = 4, consumers = 2, swapped = true)), ["a_rows"]);
    let shared = "of rows that the blocks of a pair fetch for each other each brings half";
    assert!(
        short(quote!(sm_90a, i = 64, j = 64, k = 64, stages = 4, consumers = 1, cluster = (1, 2))).is_empty(),
        "{shared}"
    );
    let text = cuda(gemm(quote!(sm_90a, i = 64, j = 64, k = 128, stages = 4, consumers = 1)));
    let at = [
        "const int a_rows = ARingBuffer::rows_of(M);",
        "__syncthreads();",
        "a_rows * ARingBuffer::row_bytes + BRingBuffer::bytes);",
    ]
    .map(|line| text.find(line));
    assert!(at[0].is_some() && at.is_sorted(), "{at:?}\n{text}");
}

/// What follows the tensor's rows is another sequence's.
#[test]
fn rows_that_end_within_a_tensor_come_whole() {
    let program = program(quote! {
        #[schedule(sm_90a, i = 64, j = 64, k = 64, stages = 4, consumers = 1)]
        fn f<L: Dim, M: Dim, N: Dim, K: Dim>(
            a: &Tensor<f16, (L, K)>, b: &Tensor<f16, (N, K)>, start: &Tensor<i32, (M,)>, c: &mut Tensor<f16, (M, N)>,
        ) {
            tile!(for (i, j) in (M, N) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in K { acc += dot(a[(i + start[0], k)], b[(j, k)].t()); });
                c[(i, j)] = acc.to();
            });
        }
    });
    assert!(program.short.iter().all(|short| short.rows != "a_rows"), "{program}");
}

#[test]
fn images_of_one_and_three_axes_are_walked_too() {
    let line = program(quote! {
        #[schedule(sm_90a, np = 128, ko = 64, c = 128, stages = 3)]
        fn conv1d<N: Dim, L: Dim, C: Dim, K: Dim, R: Dim, P: Dim>(
            x: &Tensor<bf16, (N, L, C)>, w: &Tensor<bf16, (K, R, C)>, y: &mut Tensor<bf16, (N, P, K)>, pad: i32,
        ) {
            tile!(for (np, ko) in (flat(N, P), K) {
                let (n, p) = np.coords();
                let mut acc = zeros::<f32>((np, ko));
                tile!(for (r, c) in (each(R), C) { acc += dot(x[(n, p + r - pad, c)], w[(ko, r, c)].t()); });
                y[(n, p, ko)] = acc.to();
            });
        }
    });
    assert_eq!(filled(&line), ["fill x_ready by windows of x and boxes of w"]);
    let volume = program(quote! {
        #[schedule(sm_90a, rows = 128, ko = 64, c = 64, stages = 3)]
        fn conv3d<N: Dim, D: Dim, H: Dim, W: Dim, C: Dim, K: Dim, O: Dim, P: Dim, Q: Dim>(
            x: &Tensor<f16, (N, D, H, W, C)>, w: &Tensor<f16, (K, Const<3>, Const<3>, C)>,
            y: &mut Tensor<f16, (N, O, P, Q, K)>,
        ) {
            tile!(for (rows, ko) in (flat(N, O, P, Q), K) {
                let (n, o, p, q) = rows.coords();
                let mut acc = zeros::<f32>((rows, ko));
                tile!(for (rs, c) in (each(flat(Const::<3>, Const::<3>)), C) {
                    let (r, s) = rs.coords();
                    acc += dot(x[(n, o, p + r - 1, q + s - 1, c)], w[(ko, r, s, c)].t());
                });
                y[(n, o, p, q, ko)] = acc.to();
            });
        }
    });
    assert_eq!(filled(&volume), ["fill x_ready by windows of x and boxes of w"]);
    assert_eq!(text(&volume.windows[0].axes[1].corner), "-1");
}

#[test]
fn rows_that_the_sum_runs_over_are_found_at_each_step() {
    let text = cuda(quote! {
        #[schedule(sm_90a, ko = 128, c = 64, npq = 64, stages = 3)]
        fn weights<N: Dim, H: Dim, W: Dim, C: Dim, K: Dim, R: Dim, S: Dim, P: Dim, Q: Dim>(
            x: &Tensor<f16, (N, H, W, C)>, dy: &Tensor<f16, (N, P, Q, K)>, dw: &mut Tensor<f16, (K, R, S, C)>, pad: i32,
        ) {
            tile!(for (r, s, ko, c) in (each(R), each(S), K, C) {
                let mut acc = zeros::<f32>((ko, c));
                tile!(for npq in flat(N, P, Q) {
                    let (n, p, q) = npq.coords();
                    acc += dot(dy[(n, p, q, ko)].t(), x[(n, p + r - pad, q + s - pad, c)]);
                });
                dw[(ko, r, s, c)] = acc.to();
            });
        }
    });
    let copies: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with("tma_load_im2col(")).collect();
    let [dy, _, x] = copies[..] else { panic!("two panels of one window, one of another in\n{text}") };
    assert!(dy.contains("ko0, by_Q.rem(npq0) + dy_corner2, "), "{dy}");
    assert!(x.ends_with("s - pad - x_corner2, r - pad - x_corner1);"), "{x}");
}
