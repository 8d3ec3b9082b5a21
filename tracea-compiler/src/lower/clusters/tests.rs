use crate::lower::lower_portfolio;
use crate::plan::Arg;
use crate::program::{Cluster, Program, Stmt};
use crate::schedule::target::SM_90A;
use crate::testing::{cuda, flat, gemm, lines, lowered, nest, program};
use proc_macro2::TokenStream;
use quote::quote;
use std::collections::BTreeSet;

/// `c = a · b` in tiles of 128 × 256, with this option beside.
fn product(a: TokenStream, b: TokenStream, option: TokenStream) -> TokenStream {
    quote! {
        #[schedule(sm_90a, i = 128, j = 256, k = 64, stages = 4, #option)]
        fn product<X: Dim>(a: &Tensor<f16, (X, X)>, b: &Tensor<f16, (X, X)>, c: &mut Tensor<f16, (X, X)>) {
            tile!(for (i, j) in (X, X) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in X { acc += dot(#a, #b); });
                c[(i, j)] = acc.to();
            });
        }
    }
}

fn along_the_sum(option: TokenStream) -> TokenStream {
    product(quote!(a[(i, k)]), quote!(b[(j, k)].t()), option)
}

/// How the producer's boxes come: `b: boxes of 128 × 64`, and for all blocks so many of them.
fn boxes(program: &Program) -> Vec<String> {
    let producer = program.producer.as_ref().expect("warp roles");
    let copies = flat(&producer.body).into_iter().filter_map(|stmt| match stmt {
        Stmt::Bulk { copies, .. } => Some(copies),
        _ => None,
    });
    let text = copies.flatten().map(|copy| {
        let param = program.params.iter().find(|param| param.name == copy.map).expect("a map");
        let Arg::TensorMap { boxes, .. } = &param.arg else { return "windows".to_string() };
        let sides: Vec<String> = boxes.iter().map(u32::to_string).collect();
        let name = &program.names.tensors[copy.tensor.index()];
        let shared = copy.part.as_ref().map_or(String::new(), |part| format!(", {} for all", part.panels));
        format!("{name}: boxes of {}{shared}", sides.join(" × "))
    });
    text.collect()
}

/// The loads of a tensor in emitted code, without the slot's offset.
fn loads(text: &str, tensor: &str) -> Vec<String> {
    let of = |line: &&str| line.starts_with("tma_load") && line.contains(&format!("({tensor}_ring "));
    text.lines().map(str::trim).filter(of).map(str::to_string).collect()
}

fn refused(item: TokenStream) -> String {
    let error = lowered(item).expect_err("a cluster that cannot be");
    assert_eq!(error.option.as_deref(), Some("cluster"));
    error.message
}

#[test]
fn a_tile_of_one_panel_is_cut_by_rows() {
    let pairs = along_the_sum(quote!(cluster = 2));
    assert_eq!(boxes(&program(pairs.clone())), ["a: boxes of 128 × 64", "b: boxes of 128 × 64, 1 for all"]);
    let text = cuda(pairs);
    assert_eq!(loads(&text, "a"), ["tma_load(a_ring + slot * 8192, a_map128, a_ready_full + slot, k0, i0);"]);
    let to = "b_ring + slot * 16384 + rank * 8192, b_map128, a_ready_full + slot, CLUSTER_BLOCKS, k0, j0 + rank * 128";
    assert_eq!(loads(&text, "b"), [format!("tma_load_multicast({to});")]);
}

#[test]
fn a_tile_of_several_panels_is_cut_between_them() {
    let pairs = product(quote!(a[(k, i)].t()), quote!(b[(k, j)]), quote!(cluster = (2, 1)));
    assert_eq!(boxes(&program(pairs.clone())), ["a: boxes of 64 × 64", "b: boxes of 64 × 64, 2 for all"]);
    let text = cuda(pairs);
    let load = |offset: &str, col: &str| {
        let to = format!("b_ring + slot * 16384 + rank * 8192{offset}");
        format!("tma_load_multicast({to}, b_map64, a_ready_full + slot, CLUSTER_BLOCKS, j0 + rank * 128{col}, k0);")
    };
    assert_eq!(loads(&text, "b"), [load("", ""), load(" + 4096", " + 64")]);
}

#[test]
fn a_slot_is_free_when_the_consumers_of_all_blocks_say_so() {
    let text = cuda(along_the_sum(quote!(cluster = 2)));
    for line in [
        "constexpr int CLUSTER = 2;",
        "mbarrier_init(a_ready_full + stage, A_READY_BULK ? 1 : PRODUCERS);",
        "mbarrier_init(a_ready_empty + stage, CLUSTER * THREADS / 32);",
        "mbarrier_arrive_expect_tx(a_ready_full + slot, a_rows * ARingBuffer::row_bytes + BRingBuffer::bytes);",
    ] {
        assert_eq!(text.matches(line).count(), 1, "{line} in\n{text}");
    }
    // In the loop, and once after it.
    assert_eq!(text.matches("release_in_cluster<CLUSTER>(a_ready_empty + k_turn.slot_before());").count(), 2, "{text}");
    assert!(lines(&program(along_the_sum(quote!(cluster = 2)))).contains(&"release a_ready in all blocks".into()));
}

#[test]
fn no_block_ends_before_the_other_one_has_released_its_slots() {
    let text = cuda(along_the_sum(quote!(cluster = 2)));
    let drained = [
        "for (int slots = 0; slots < 4; ++slots) {",
        "const int slot = k_turn.slot();",
        "const int phase = k_turn.phase();",
        "mbarrier_wait(a_ready_empty + slot, phase ^ 1);",
        "k_turn.advance();",
        "}",
        "} else {",
    ];
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert!(lines.windows(drained.len()).any(|window| window == drained), "{text}");
    assert!(!cuda(along_the_sum(quote!(cluster = 1))).contains("slots"));
}

#[test]
fn pairs_lie_where_they_share_most() {
    let axis = |item| program(item).cluster.map(|Cluster { axis, blocks }| (axis.index(), blocks));
    assert_eq!(axis(along_the_sum(quote!(cluster = 2))), Some((0, 2)), "256 rows of b");
    assert_eq!(axis(gemm(quote!(sm_90a, i = 128, j = 64, k = 64, cluster = 2))), Some((1, 2)), "128 rows of a");
    assert_eq!(axis(along_the_sum(quote!(cluster = (1, 2)))), Some((1, 2)));
    assert_eq!(axis(along_the_sum(quote!(cluster = (1, 1)))), None);
    assert_eq!(axis(along_the_sum(quote!(cluster = 1))), None);
}

#[test]
fn pairs_take_neighbouring_tiles() {
    let text = cuda(along_the_sum(quote!(cluster = 2, raster = 8)));
    for line in [
        "for (int unit = blockIdx.x; unit < units; unit += gridDim.x) {",
        "const CutTile work = cut_tile<CUT>(unit, by_cut_tiles, whole_tiles, parts);",
        "const int rank = work.tile % CLUSTER;",
        "int block = work.tile / CLUSTER;",
        "const int i_clusters = (X + CLUSTER * BLOCK_I - 1) / (CLUSTER * BLOCK_I);",
        "const BlockPosition at = grouped<4>(block, i_clusters, j_blocks, by_j_blocks, by_last_group);",
        "const int i0 = tile_begin<BLOCK_I>(at.row * CLUSTER + rank, X, A_READY_BULK && (!CUT || (whole_tiles == 0 && parts <= 2)));",
        "const int j0 = tile_begin<BLOCK_J>(at.col, X, A_READY_BULK && (!CUT || (whole_tiles == 0 && parts <= 2)));",
    ] {
        assert_eq!(text.matches(line).count(), 2, "{line} for each role in\n{text}");
    }
}

#[test]
fn keys_and_values_are_shared_by_blocks_of_queries() {
    let program = program(quote! {
        #[schedule(sm_90a, i = 128, j = 128, stages = 2, cluster = 2)]
        fn attention<H: Dim, S: Dim, T: Dim>(
            q: &Tensor<f16, (H, S, Const<64>)>, k: &Tensor<f16, (H, T, Const<64>)>, v: &Tensor<f16, (H, T, Const<128>)>,
            o: &mut Tensor<f16, (H, S, Const<128>)>,
        ) {
            tile!(for (h, i) in (each(H), S) {
                let mut acc = zeros::<f32>((i, ..));
                tile!(for j in T {
                    let s = dot(q[(h, i, ..)], k[(h, j, ..)].t());
                    acc += dot(s.to::<f16>(), v[(h, j, ..)]);
                });
                o[(h, i, ..)] = acc.to();
            });
        }
    });
    let shared =
        ["q: boxes of 1 × 128 × 64", "k: boxes of 1 × 64 × 64, 1 for all", "v: boxes of 1 × 128 × 64, 1 for all"];
    assert_eq!(boxes(&program), shared);
    let joint: Vec<_> = program.rings.iter().map(|ring| (&ring.name[..], ring.joint)).collect();
    assert_eq!(joint, [("q_ready", false), ("k_ready", true), ("v_ready", true)]);
}

#[test]
fn what_cannot_be_a_cluster_is_refused() {
    let warps = refused(gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2), cluster = 2)));
    assert_eq!(warps, "sm_80 has no clusters -- leave the option out");
    for option in [quote!(cluster = 4), quote!(cluster = (2, 2)), quote!(cluster = (1, 2, 1))] {
        assert!(refused(along_the_sum(option)).starts_with("a cluster has 2 blocks -- say cluster = 2, or"));
    }
    // Every other row is no box.
    let apart = refused(product(quote!(a[(i, k)]), quote!(b[(j * 2, k)].t()), quote!(cluster = 2)));
    assert!(
        apart.starts_with("TMA fetches no operand of a product that is the same for neighbouring blocks along `i`")
    );
    let odd = refused(quote! {
        #[schedule(sm_90a, i = 128, j = 128, cluster = (2, 1))]
        fn f<N: Dim, K: Dim>(a: &Tensor<f16, (Const<384>, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f16, (Const<384>, N)>) {
            tile!(for (i, j) in (Const::<384>, N) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                c[(i, j)] = acc.to();
            });
        }
    });
    assert_eq!(odd, "`i` has 3 blocks, which make no pairs -- leave the option out");
}

#[test]
fn blocks_whose_loops_end_apart_make_no_pairs() {
    let message = refused(quote! {
        #[schedule(sm_90a, i = 128, j = 128, stages = 2, cluster = 2)]
        fn causal<S: Dim>(q: &Tensor<f16, (S, Const<64>)>, k: &Tensor<f16, (S, Const<64>)>, o: &mut Tensor<f32, (S,)>) {
            tile!(for i in S {
                let mut total = zeros::<f32>(i);
                tile!(for j in S.until(i.end()) { total += dot(q[(i, ..)], k[(j, ..)].t()).row_sum(); });
                o[i] = total;
            });
        }
    });
    assert!(message.starts_with("blocks of a cluster walk loops together, and one here has bounds of its own"));
}

/// A pair halves what it shares: of columns, panels of 64; of rows of B along the sum, any.
#[test]
fn the_portfolio_has_pairs_of_its_larger_tiles_and_of_one_warpgroups() {
    let item = gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2)));
    let portfolio = lower_portfolio(&nest(item).0, &SM_90A).expect("a portfolio");
    let paired: Vec<_> = portfolio.iter().filter(|lowered| lowered.program.cluster.is_some()).collect();
    let tiles = paired
        .iter()
        .map(|lowered| (lowered.schedule.swapped, lowered.program.layouts[0].rows, lowered.program.layouts[0].cols));
    let tiles: BTreeSet<_> = tiles.collect();
    let plain = [(128, 256), (192, 192), (64, 128)].map(|(rows, cols)| (false, rows, cols));
    let swapped = [(128, 256), (128, 208), (128, 192), (128, 160), (128, 104), (128, 80), (256, 160)]
        .map(|(rows, cols)| (true, rows, cols));
    assert_eq!(tiles, plain.into_iter().chain(swapped).collect::<BTreeSet<_>>());
    assert_eq!(paired.len(), tiles.len());
    for paired in paired {
        assert!(paired.program.split.is_some(), "both blocks of a pair take the same part");
        assert!(paired.program.promised_sass.contains(&".MULTICAST".to_string()));
    }
}

/// Of 152 rows each block would fetch 76, and the swizzle repeats over eight.
#[test]
fn pairs_share_what_can_be_cut_in_two() {
    let text = |j: u32| {
        cuda(quote! {
            #[schedule(sm_90a, i = 128, j = #j, k = 64, stages = 4, consumers = 2, cluster = 2)]
            fn f<M: Dim, N: Dim, K: Dim>(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f16, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                    c[(i, j)] = acc.to();
                });
            }
        })
    };
    let (wider, cut) = (text(152), text(160));
    assert!(wider.contains("tma_load(b_ring") && wider.contains("tma_load_multicast(a_ring"), "{wider}");
    assert!(cut.contains("tma_load(a_ring") && cut.contains("tma_load_multicast(b_ring"), "{cut}");
}

#[test]
fn blocks_of_windows_share_what_else_they_multiply() {
    let item = quote! {
        fn conv<N: Dim, L: Dim, P: Dim, C: Dim, K: Dim, R: Dim>(
            x: &Tensor<f16, (N, L, C)>, w: &Tensor<f16, (K, R, C)>, y: &mut Tensor<f16, (N, P, K)>,
        ) {
            tile!(for (np, ko) in (flat(N, P), K) {
                let (n, p) = np.coords();
                let mut acc = zeros::<f32>((np, ko));
                tile!(for (r, c) in (each(R), C) { acc += dot(x[(n, p + r, c)], w[(ko, r, c)].t()); });
                y[(n, p, ko)] = acc.to();
            });
        }
    };
    let portfolio = lower_portfolio(&nest(item).0, &SM_90A).expect("a portfolio");
    let blocks = |cluster: bool| {
        let all = portfolio.iter().filter(move |lowered| lowered.program.cluster.is_some() == cluster);
        all.map(|lowered| (lowered.schedule.blocks[0], lowered.schedule.blocks[1])).collect::<Vec<_>>()
    };
    let tile = |rows, columns| (Some(rows), Some(columns));
    let more_columns = [256, 192, 128, 64].map(|columns| tile(128, columns));
    let more_rows = [64, 192, 208, 176, 160, 144].map(|rows| tile(rows, 128));
    assert_eq!(blocks(true), [&more_columns[..], &more_rows].concat());
    assert!(blocks(true).iter().all(|tile| blocks(false).contains(tile)));
    for lowered in portfolio.iter().filter(|lowered| lowered.program.cluster.is_some()) {
        let text = crate::emit::emit(&lowered.nest, &lowered.program);
        assert_eq!((loads(&text, "x").len(), loads(&text, "w").len()), (1, 1), "{text}");
        assert!(
            loads(&text, "x")[0].starts_with("tma_load_im2col(") && loads(&text, "w")[0].contains("CLUSTER_BLOCKS")
        );
    }
}
