use crate::program::{Program, Stmt};
use crate::testing::{cuda, flat, gated, lines, program};
use proc_macro2::TokenStream;
use quote::quote;

/// A product and what becomes of it; `r` and `s` have the result's shape.
fn kernel(schedule: TokenStream, dtype: TokenStream, results: TokenStream, end: TokenStream) -> TokenStream {
    quote! {
        #[schedule(sm_90a, #schedule, stages = 3, consumers = 2)]
        fn f<M: Dim, N: Dim, K: Dim>(
            a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, r: &Tensor<#dtype, (M, N)>, s: &Tensor<#dtype, (M, N)>,
            bias: &Tensor<f16, (N,)>, #results,
        ) {
            tile!(for (i, j) in (M, N) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                #end
            });
        }
    }
}

fn product(dtype: TokenStream, results: TokenStream, end: TokenStream) -> Program {
    program(kernel(quote!(i = 128, j = 256, k = 64), dtype, results, end))
}

fn halves(end: TokenStream) -> Program {
    product(quote!(f16), quote!(c: &mut Tensor<f16, (M, N)>), end)
}

/// The producer's statements from the first that starts so, or the consumers'.
fn from(program: &Program, producer: bool, start: &str) -> Vec<String> {
    let lines = lines(program);
    let consumers = lines.iter().position(|line| line.starts_with("consumers")).expect("warp roles");
    let part = if producer { &lines[..consumers] } else { &lines[consumers..] };
    part.iter().skip_while(|line| !line.starts_with(start)).cloned().collect()
}

/// What a role's panels do with shared memory, in order.
fn read(program: &Program) -> Vec<String> {
    let of_panels =
        |line: &String| line.starts_with("read ") || line.starts_with("load ") || line.starts_with("write ");
    from(program, false, "for ").into_iter().filter(of_panels).collect()
}

/// The second store would find what the first one has left.
#[test]
fn what_a_result_held_before_another_store_is_read_before_that() {
    let end = quote!(let old = c[(i, j)].to::<f32>(); c[(i, j)] = acc.to(); c[(i, j)] = (acc + old).to(););
    let lines = lines(&halves(end));
    let at = |what: &str| lines.iter().position(|line| line.contains(what));
    let (read, stored) = (at("load c_tile <- c").or(at("load old <- c")), at("write f16_panels"));
    assert!(read.is_some() && read < stored, "{lines:#?}");
}

/// A panel is read before it is written, and no other tile has it.
#[test]
fn what_a_result_holds_passes_as_a_residual_does() {
    let added = |what: TokenStream| halves(quote!(c[(i, j)] = (acc + #what[(i, j)].to::<f32>()).to();));
    let of_residual: Vec<String> = read(&added(quote!(r)));
    let of_result = read(&added(quote!(c)));
    assert_eq!(of_result.len(), of_residual.len(), "{of_result:?} {of_residual:?}");
    assert!(of_result[0].contains("<- c_panel") && of_result.last().unwrap().starts_with("write "), "{of_result:?}");
}

#[test]
fn a_residual_passes_by_the_ring() {
    let program = halves(quote!(c[(i, j)] = (acc + r[(i, j)].to::<f32>()).to();));
    let expected = "for panel
        where R_BY_TMA
        let slot
        let phase
        acquire a_ready
        fill a_ready by boxes of r and boxes of r
        advance k_turn";
    assert_eq!(from(&program, true, "for panel"), expected.lines().map(str::trim).collect::<Vec<_>>());
    let expected = "for 4 panels
        declare r_tile: Float over IJTile
        where R_BY_TMA
        let slot
        let phase
        if
        wait full a_ready
        read r_tile <- r_panel
        if
        fence
        barrier of the warp
        release a_ready
        advance k_turn
        where not R_BY_TMA
        load r_tile <- r by rows
        declare c_tile: Float over IJTile
        map c_tile
        where C_BY_TMA
        await f16_panels
        barrier of the warpgroup
        write f16_panels <- c_tile
        where C_BY_TMA
        fence
        barrier of the warpgroup
        where C_BY_TMA
        send f16_panels by c_map64
        where not C_BY_TMA
        store c by rows <- f16_panels
        finish stores";
    assert_eq!(from(&program, false, "for 4 panels"), expected.lines().map(str::trim).collect::<Vec<_>>());
}

/// Of 96 rows, the first panel has 64; a box has 128 bytes of each, two of them all of the tile's columns.
#[test]
fn the_other_way_round_a_residual_passes_by_panels_that_are_turned_as_they_are_read() {
    let of = |dtype: TokenStream| {
        let schedule = quote!(i = 96, j = 128, k = 64, swapped = true);
        let end = quote!(c[(i, j)] = (acc + r[(i, j)].to::<f32>()).to(););
        cuda(kernel(schedule, dtype, quote!(c: &mut Tensor<f16, (M, N)>), end))
    };
    let halves = of(quote!(f16));
    for line in [
        "using RPanelBuffer = PanelTile<f16, 64, 128>;",
        "constexpr int ALIGN_R = TRACEA_ALIGN_2;",
        "tma_load(r_panel + slot * 8192, r_map64, b_ready_full + slot, j0, i0 + panel * 64);",
        "tma_load(r_panel + slot * 8192 + 4096, r_map64, b_ready_full + slot, j0 + 64, i0 + panel * 64);",
        "read_transposed_panel<JITile, RPanelBuffer>(r_tile, panel, r_panel + slot * 8192);",
        "load_panel_elements<JITile, 32>(r_tile, panel, ",
    ] {
        assert!(halves.contains(line), "{line} in\n{halves}");
    }
    let words = of(quote!(f32));
    assert!(!words.contains("read_transposed_panel") && words.contains("load_panel_elements"), "{words}");
}

/// Of 256 columns, a slot of the second operand holds two panels of 128 rows, of 192 one. Several tiles' panels pass one after the other.
#[test]
fn a_slot_has_as_many_panels_as_its_widest_operand_leaves_room_for() {
    let of = |block: u32, end: TokenStream| {
        let schedule = quote!(i = 128, j = #block, k = 64);
        cuda(kernel(schedule, quote!(f16), quote!(c: &mut Tensor<f16, (M, N)>), end))
    };
    let one = || quote!(c[(i, j)] = (acc + r[(i, j)].to::<f32>()).to(););
    let two = quote!(c[(i, j)] = ((acc + r[(i, j)].to::<f32>()) * s[(i, j)].to::<f32>()).to(););
    let expected = [
        "for (int panel = 0; panel < 4; panel += 2) {",
        "mbarrier_arrive_expect_tx(a_ready_full + slot, RPanelBuffer::bytes + RPanelBuffer::bytes);",
        "tma_load(r_panel + (slot * 2) * 8192, r_map128, a_ready_full + slot, j0 + panel * 64, i0);",
        "tma_load(r_panel + (slot * 2 + 1) * 8192, r_map128, a_ready_full + slot, j0 + panel * 64 + 64, i0);",
        "if (panel % 2 < 1) {",
        "read_panel<IJTile, RPanelBuffer>(r_tile, panel, r_panel + (slot * 2 + panel % 2) * 8192);",
        "if (0 < panel % 2) {",
    ];
    let text = of(256, one());
    for line in expected {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    for text in [of(192, one()), of(256, two)] {
        let read = "read_panel<IJTile, RPanelBuffer>(r_tile, panel, r_panel + slot * 8192);";
        assert!(text.contains(read) && !text.contains("panel % 2 < 1"), "{text}");
    }
}

#[test]
fn panels_that_pass_take_no_room() {
    let plain = halves(quote!(c[(i, j)] = acc.to();));
    let residual = halves(quote!(c[(i, j)] = (acc + r[(i, j)].to::<f32>()).to();));
    assert_eq!(residual.shared_bytes, plain.shared_bytes);
    let find = |name: &str| residual.shared.iter().find(|shared| shared.name == name).expect("a buffer");
    let (guest, host) = (find("r_panel"), find("b_ring"));
    assert_eq!((guest.offset, 2 * guest.pitch, guest.stages), (host.offset, host.pitch, 2 * host.stages));
}

#[test]
fn what_does_not_wait_is_computed_before() {
    let program = halves(quote!(c[(i, j)] = ((acc + bias[j].to::<f32>()).exp() + r[(i, j)].to::<f32>()).to();));
    let maps: Vec<String> =
        from(&program, false, "load bias").into_iter().filter(|line| line.starts_with("map")).collect();
    assert_eq!(maps, ["map value", "map c_tile"]);
    // Two such tiles would not live beside each other.
    let program = halves(quote!(c[(i, j)] = (acc.exp() * r[(i, j)].to::<f32>() + acc.tanh()).to();));
    let maps: Vec<String> = from(&program, false, "join").into_iter().filter(|line| line.starts_with("map")).collect();
    assert_eq!(maps, ["map c_tile"]);
}

#[test]
fn several_tiles_take_turns() {
    let program = halves(quote! {
        let g = s[(i, j)].to::<f32>();
        c[(i, j)] = ((acc + r[(i, j)].to::<f32>()) * g + g).to();
    });
    assert_eq!(
        read(&program),
        [
            "read g <- s_panel",
            "load g <- s by rows",
            "read r_tile <- r_panel",
            "load r_tile <- r by rows",
            "write f16_panels <- c_tile"
        ]
    );
    let fills: Vec<String> =
        from(&program, true, "for panel").into_iter().filter(|line| line.starts_with("fill")).collect();
    assert_eq!(fills, ["fill a_ready by boxes of s", "fill a_ready by boxes of r"]);
}

#[test]
fn a_load_that_stands_before_the_loop_waits_for_the_store() {
    let program = program(quote! {
        #[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 3, consumers = 2)]
        fn f<N: Dim>(a: &Tensor<bf16, (N, N)>, b: &Tensor<bf16, (N, N)>, r: &Tensor<bf16, (N, N)>, c: &mut Tensor<bf16, (N, N)>) {
            tile!(for (i, j) in (N, N) {
                let residual = r[(i, j)].to::<f32>();
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in N { acc += dot(a[(i, k)], b[(k, j)]); });
                c[(i, j)] = (acc + residual).to();
            });
        }
    });
    let lines = from(&program, false, "consumers");
    let at = |start: &str| lines.iter().position(|line| line.starts_with(start)).expect("a statement");
    assert!(at("for step") < at("declare residual"), "{lines:?}");
}

#[test]
fn wide_elements_come_as_several_boxes_and_narrow_ones_by_threads() {
    let wide = product(quote!(f32), quote!(c: &mut Tensor<f16, (M, N)>), quote!(c[(i, j)] = (acc + r[(i, j)]).to();));
    let guest = wide.shared.iter().find(|shared| shared.name == "r_panel").expect("a buffer");
    assert_eq!((guest.rows, guest.cols, guest.tile_bytes()), (128, 64, 32768));
    assert_eq!(guest.host.map(|host| wide.shared(host).name.as_str()), Some("b_ring"));
    let narrow =
        product(quote!(f16), quote!(d: &mut Tensor<f32, (M, N)>), quote!(d[(i, j)] = acc + r[(i, j)].to::<f32>();));
    assert_eq!(read(&narrow), ["load r_tile <- r by rows", "write f32_panels <- value"]);
}

#[test]
fn what_more_than_an_element_wise_end_reads_is_loaded_whole() {
    let half = quote!(c: &mut Tensor<f16, (M, N)>);
    let sum = quote! {
        let tile = r[(i, j)].to::<f32>();
        c[(i, j)] = (acc + tile - tile.row_sum()).to();
    };
    let two = quote! {
        let tile = r[(i, j)].to::<f32>();
        c[(i, j)] = (acc + tile).to();
        d[(i, j)] = acc - tile;
    };
    for (results, end) in [(half.clone(), sum), (quote!(#half, d: &mut Tensor<f32, (M, N)>), two)] {
        let program = product(quote!(f16), results, end);
        let panels = from(&program, false, "for 4 panels");
        assert!(!panels.is_empty() && panels.iter().all(|line| !line.starts_with("load")), "{program}");
        assert!(program.shared.iter().all(|shared| shared.host.is_none()), "{program}");
    }
}

#[test]
fn shifted_rows_are_read_by_threads() {
    let program = halves(quote!(c[(i, j)] = (acc + r[(i - 1, j)].to::<f32>()).to();));
    assert_eq!(read(&program), ["load r_tile <- r by rows", "write f16_panels <- c_tile"]);
}

#[test]
fn blocks_that_leave_a_tile_give_its_panels_back() {
    let program = halves(quote!(c[(i, j)] = (acc + r[(i, j)].to::<f32>()).to();));
    let all = flat(&program.body);
    let leaving = all.iter().find_map(|stmt| match stmt {
        Stmt::JoinParts { leaving, .. } => Some(leaving),
        _ => None,
    });
    let inside = flat(leaving.expect("parts"));
    let releases = inside.iter().filter(|stmt| matches!(stmt, Stmt::Release(_))).count();
    let advances = inside.iter().filter(|stmt| matches!(stmt, Stmt::Advance(_))).count();
    assert_eq!((releases, advances), (1, 1));
}

fn attention(end: TokenStream) -> Program {
    program(quote! {
        #[schedule(sm_90a, i = 128, j = 128, stages = 2, consumers = 2)]
        fn attention<S: Dim, T: Dim>(
            q: &Tensor<f16, (S, Const<128>)>, k: &Tensor<f16, (T, Const<128>)>, v: &Tensor<f16, (T, Const<128>)>,
            gate: &Tensor<f16, (S, Const<128>)>, o: &mut Tensor<f16, (S, Const<128>)>,
        ) {
            tile!(for i in S {
                let mut acc = zeros::<f32>((i, ..));
                tile!(for j in T { acc += dot(dot(q[(i, ..)], k[(j, ..)].t()).to::<f16>(), v[(j, ..)]); });
                o[(i, ..)] = #end;
            });
        }
    })
}

#[test]
fn a_ring_by_which_more_passes_is_counted_for_itself() {
    let names = |program: &Program| program.counters.iter().map(|of| of.name().to_string()).collect::<Vec<_>>();
    let weighted = attention(quote!((acc * gate[(i, ..)].to::<f32>()).to()));
    assert_eq!(names(&weighted), ["k_turn", "v_turn", "j_visits"]);
    let advances = |producer| {
        let lines = from(&weighted, producer, "for");
        ["advance k_turn", "advance v_turn"].map(|advance| lines.iter().filter(|line| *line == advance).count())
    };
    // Consumers take a first step, all others, and the panels; what they multiply a step later, once more behind the last one.
    assert_eq!((advances(true), advances(false)), ([2, 1], [4, 2]));
    let together = program(gated(quote!(sm_90a, i = 64, j = 128, k = 64, stages = 4, consumers = 1)));
    assert_eq!(names(&together), ["k_turn"]);
    assert!(weighted.counts_several_turns() && !together.counts_several_turns());
}

#[test]
fn warpgroups_that_take_turns_fetch_their_own_panels() {
    let program = program(quote! {
        #[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 5, consumers = 2, pingpong = true)]
        fn f<M: Dim, N: Dim, K: Dim>(
            a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, r: &Tensor<f16, (M, N)>, c: &mut Tensor<f16, (M, N)>,
        ) {
            tile!(for (i, j) in (M, N) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                c[(i, j)] = (acc.max(0.0) + r[(i, j)].to::<f32>()).to();
            });
        }
    });
    let lines = lines(&program);
    let consumers = lines.iter().position(|line| line.starts_with("consumers")).expect("roles");
    let at = |line: &str| {
        let found = lines[consumers..].iter().position(|known| known.starts_with(line));
        found.unwrap_or_else(|| panic!("{line} in {lines:#?}"))
    };
    let order = [
        "fetch first of own r_came",
        "ping-pong: Take",
        "ping-pong: Pass",
        "for 4 panels",
        "await own r_came",
        "read r_tile <- r_panels",
        "barrier of the warpgroup",
        "write f16_panels",
        "fetch next of own r_came",
        "advance r_count",
    ];
    let places = order.map(at);
    assert!(places.is_sorted(), "all have read a panel before the next one comes to its place: {places:?} {lines:#?}");
    assert!(lines[..consumers].iter().all(|line| !line.contains("r_came")), "the producer has no part in it");
}
