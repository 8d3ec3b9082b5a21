//! Cut tiles that all blocks which had a part put together between them.
//!
//! ```text
//! join parts of acc                     deal parts of acc by 4 panels
//! map y                          →      map y
//! for 4 panels { write, send }          for 4 panels, where they are this part's { write, send }
//! ```
//! One block that reads all parts of a tile takes longer for that than for its share of the products: eight parts of 128 × 128 are
//! half a megabyte. Where what comes after the sum does each register by itself and goes out by panels, the parts' blocks have some of
//! the panels each. They wait for each other, so that all of them must run at a time; the launch sees to that. What the loop carries beside
//! tiles, as a softmax's maximum and sum of each row, is little, and each block puts it together for itself.

use crate::lower::anew::makes_tiles_in_steps;
use crate::program::pressure::CONSUMER_REGISTERS;
use crate::program::{Deal, Domain, Left, PanelSide, Part, Program, Scope, Stmt, Units};
use crate::schedule::WARPGROUP;

/// Registers that addresses and the like take beside tiles.
const BESIDE_TILES: u32 = 64;
/// The same of what makes weights of parts' extremes.
const WEIGHTS: u32 = 48;
/// The same of loops' own bounds, and of what compares them with a unit's place, where units differ in length.
const OWN_BOUNDS: u32 = 16;
/// The same of panels that are turned on their way.
const TURNED: u32 = 16;
/// The same where three warpgroups share the register file: the assembler has no room to arrange loads.
const THREE_WARPGROUPS: u32 = 16;
/// Registers that a thread reads of other parts at a time, where there are as many: 32 KiB are on their way to a warpgroup then.
const MOST_AHEAD: u32 = 64;
/// The same where the loop before has fetched all that it read, and kept no addresses for it. Measured on an H200: 512 x 512 x 16384 takes 21.0 µs by
/// three parts of 32 registers on their way, and 21.5 by two.
const MOST_AHEAD_OF_RINGS: u32 = 96;
/// So many parts hide what one takes.
const MOST_PARTS_AHEAD: u32 = 4;
/// The same where the loop before made tiles of its own: the assembler moves some of what belongs there, and spills it beside more of these.
const MOST_PARTS_AHEAD_OF_CHAINS: u32 = 2;
/// The body of a block's unit of work, with the tile dealt out where it can be; consumers have so many registers each, which must do for
/// their own tile and a panel of another block's.
pub fn deal(program: &mut Program, mut body: Vec<Stmt>, registers: u32) -> Vec<Stmt> {
    let Some(at) = body.iter().position(|stmt| matches!(stmt, Stmt::JoinParts { .. })) else { return body };
    // What warpgroups have asked for themselves, they read: all panels of it.
    if !program.own.is_empty() {
        program.split.iter_mut().for_each(|split| split.most_parts = 1);
        return body;
    }
    let Stmt::JoinParts { values, relative, .. } = &body[at] else { return body };
    let Some(deal) = dealing(program, &body, at, registers) else {
        // Measured on an H100: 3328 x 1536 x 2048 takes 41.7 µs by tiles of 208 rows, 132 whole and 60 in two parts that the last block adds up, and
        // 37.3 on an H200 by tiles of 192 columns.
        if body[at + 1..].iter().any(|stmt| has_uneven_panels(program, values, stmt)) {
            program.split.iter_mut().for_each(|split| split.most_parts = 1);
        }
        return body;
    };
    body[at] = Stmt::DealParts { values: values.clone(), relative: relative.clone(), deal };
    for stmt in &mut body[at..] {
        if let Stmt::Panels { dealt, .. } = stmt {
            *dealt = Some(deal.panels);
        }
    }
    let warpgroups = program.threads / 128;
    if let Some(split) = &mut program.split {
        split.shares = deal.panels * warpgroups;
    }
    body
}

/// How to deal out what is joined there, where the registers do for it.
fn dealing(program: &Program, body: &[Stmt], at: usize, registers: u32) -> Option<Deal> {
    let Stmt::JoinParts { values, relative, .. } = &body[at] else { return None };
    let (panels, each) = panels_after(program, body, at)?;
    let held: u32 = values.iter().map(|left| held(program, left)).sum();
    let bounds = if matches!(program.units, Units::Queue(_)) { OWN_BOUNDS } else { 0 };
    let turned = if body[at + 1..].iter().any(is_turned) { TURNED } else { 0 };
    let crowded = if program.threads > 2 * WARPGROUP { THREE_WARPGROUPS } else { 0 };
    if held + each + bounds + turned + crowded + CONSUMER_REGISTERS > registers {
        return None;
    }
    let beside = if relative.is_empty() { BESIDE_TILES } else { BESIDE_TILES + WEIGHTS };
    let most = if loads_in_steps(&body[..at]) { MOST_AHEAD } else { MOST_AHEAD_OF_RINGS };
    let most_parts = if makes_tiles_in_steps(&body[..at]) { MOST_PARTS_AHEAD_OF_CHAINS } else { MOST_PARTS_AHEAD };
    let ahead = (registers.saturating_sub(beside + held).min(most) / each).clamp(1, most_parts);
    Some(Deal { panels, registers: each, ahead })
}

/// Whether the last panel of a row of what is joined is narrower than the others.
fn has_uneven_panels(program: &Program, values: &[Left], stmt: &Stmt) -> bool {
    let size = values.iter().map(|left| held(program, left)).max();
    matches!(stmt, Stmt::Panels { count, registers, .. } if Some(count * registers) != size)
}

/// Whether threads load by themselves in a loop.
fn loads_in_steps(body: &[Stmt]) -> bool {
    fn loads(body: &[Stmt]) -> bool {
        body.iter().any(|stmt| matches!(stmt, Stmt::Load { .. }) || stmt.bodies().into_iter().any(loads))
    }
    body.iter().any(|stmt| matches!(stmt, Stmt::For { body, .. } if loads(body)))
}

/// Whether panels leave with the tile's columns as their rows.
fn is_turned(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::WritePanel { side: PanelSide::Columns, .. })
        || stmt.bodies().into_iter().flatten().any(is_turned)
}

/// Registers of a thread.
fn held(program: &Program, left: &Left) -> u32 {
    match program.var(left.var).domain {
        Domain::Tile(layout) => program.layout(layout).size(),
        Domain::Rows(layout) => program.layout(layout).row_size(),
        Domain::Cols(layout) => program.layout(layout).col_size(),
        Domain::Once => 1,
    }
}

/// By how many panels what follows can be dealt out, and how many registers of a thread each has. Slices of rows come whole to all.
fn panels_after(program: &Program, body: &[Stmt], at: usize) -> Option<(u32, u32)> {
    let Stmt::JoinParts { values, relative, .. } = &body[at] else { return None };
    let tile = |left: &Left| match program.var(left.var).domain {
        Domain::Tile(layout) => Some(layout),
        _ => None,
    };
    let is_row = |left: &Left| matches!(program.var(left.var).domain, Domain::Rows(_));
    let held = values.iter().all(|left| left.part == Part::Registers && (tile(left).is_some() || is_row(left)));
    let mut layouts = values.iter().filter_map(tile);
    let layout = layouts.next()?;
    let after = &body[at + 1..];
    let by_row = relative.iter().all(|relative| is_row(&relative.extreme));
    if !held || !by_row || layouts.any(|other| other != layout) || !after.iter().all(is_by_registers) {
        return None;
    }
    let each_way = || {
        after.iter().filter_map(|stmt| match stmt {
            Stmt::Panels { count, registers, .. } => Some((*count, *registers)),
            _ => None,
        })
    };
    let (panels, registers) = each_way().min()?;
    // Narrower panels lie in wider ones, where the last of a row has fewer as well.
    let alike = each_way().all(|(count, each)| count.is_multiple_of(panels) && count * each == panels * registers);
    alike.then_some((panels, registers))
}

/// Whether each register's result depends on no other register of the tile, and nobody waits for other threads than those of the
/// warpgroup.
fn is_by_registers(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Line(_)
        | Stmt::Declare(_)
        | Stmt::Let { .. }
        | Stmt::Map { .. }
        | Stmt::MaskEdge { .. }
        | Stmt::Load { kept: None, .. }
        | Stmt::WaitFull(_)
        | Stmt::Advance(_)
        | Stmt::Release(_)
        | Stmt::FinishStores
        | Stmt::Fence
        | Stmt::Barrier(Scope::Warpgroup)
        | Stmt::AwaitPanel { .. }
        | Stmt::WritePanel { .. }
        | Stmt::SendPanel { .. }
        | Stmt::StorePanel { .. } => true,
        Stmt::Where { .. } | Stmt::Panels { .. } => stmt.bodies().into_iter().flatten().all(is_by_registers),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{chain, cuda, gemm, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn shares(item: TokenStream) -> u32 {
        program(item).split.expect("a sum").shares
    }

    fn with(schedule: TokenStream, after: TokenStream, result: TokenStream) -> TokenStream {
        quote! {
            #[schedule(#schedule)]
            fn f<M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, r: &Tensor<f16, (M, N)>, c: &mut Tensor<#result>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                    #after
                });
            }
        }
    }

    #[test]
    fn panels_of_each_warpgroup_are_shares() {
        let wide = quote!(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2);
        assert_eq!(shares(gemm(wide.clone())), 2 * 2);
        assert_eq!(shares(with(wide.clone(), quote!(c[(i, j)] = acc;), quote!(f32, (M, N)))), 4 * 2, "narrower panels");
        assert_eq!(shares(with(wide, quote!(c[(j, i)] = acc.t().to();), quote!(f16, (N, M)))), 2 * 2);
        assert_eq!(shares(gemm(quote!(sm_90a, i = 64, j = 256, k = 64, stages = 4, consumers = 1))), 4);
    }

    #[test]
    fn the_last_panel_of_a_row_may_be_narrower() {
        let of = |rows: u32| {
            let schedule = quote!(sm_90a, i = #rows, j = 128, k = 64, stages = 4, consumers = 2, swapped = true);
            let split = program(gemm(schedule)).split.expect("a sum");
            (split.shares, split.most_parts)
        };
        assert_eq!(of(192), (3 * 2, 16));
        assert_eq!(of(208), (4 * 2, 16), "the last panel has 16 columns");
    }

    /// One block has all columns of a row.
    #[test]
    fn sums_along_rows_keep_the_tile_together() {
        let schedule = quote!(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2);
        assert_eq!(shares(with(schedule, quote!(c[(i, j)] = (acc / acc.row_sum()).to();), quote!(f16, (M, N)))), 0);
    }

    /// Two blocks of three warpgroups have 80 registers a thread.
    #[test]
    fn registers_must_do_for_a_panel_more() {
        let wide = |resident: u32| {
            shares(gemm(quote!(sm_90a, i = 128, j = 64, k = 64, stages = 2, consumers = 2, resident = #resident)))
        };
        assert_eq!((wide(1), wide(2)), (2, 0));
        assert_eq!(shares(gemm(quote!(sm_90a, i = 64, j = 64, k = 64, stages = 2, consumers = 1, resident = 2))), 1);
        let by_three =
            |columns: u32| shares(gemm(quote!(sm_90a, i = 192, j = #columns, k = 64, stages = 3, consumers = 3)));
        assert_eq!((by_three(128), by_three(192)), (2 * 3, 0));
    }

    /// The softmax's maximum and sum are slices that all blocks of a tile read.
    #[test]
    fn tiles_that_are_relative_to_a_row_are_dealt_out_too() {
        let attention = |result: TokenStream, after: TokenStream| {
            quote! {
                #[schedule(sm_90a, i = 128, j = 128, stages = 2, consumers = 2)]
                fn f<S: Dim, T: Dim>(
                    q: &Tensor<f16, (S, Const<128>)>, k: &Tensor<f16, (T, Const<128>)>, v: &Tensor<f16, (T, Const<128>)>,
                    o: &mut Tensor<f16, (S, Const<128>)>, #result
                ) {
                    tile!(for i in S {
                        let mut m = full::<f32>(i, f32::NEG_INFINITY);
                        let mut l = zeros::<f32>(i);
                        let mut acc = zeros::<f32>((i, ..));
                        tile!(for j in T {
                            let s = dot(q[(i, ..)], k[(j, ..)].t());
                            let m_new = m.max(s.row_max());
                            let p = (s - m_new).exp();
                            let fade = (m - m_new).exp();
                            l = l * fade + p.row_sum();
                            acc = acc * fade + dot(p.to::<f16>(), v[(j, ..)]);
                            m = m_new;
                        });
                        o[(i, ..)] = (acc / l).to();
                        #after
                    });
                }
            }
        };
        assert_eq!(shares(attention(quote!(), quote!())), 2 * 2);
        let text = cuda(attention(quote!(), quote!()));
        let (_, met) = text.split_once("if (meet_parts<2>(").expect("parts");
        let order =
            ["m_left[reg] = m[reg];", "read_parts<Max, THREADS>(m, ", "join_weighted_panels<IConst128Tile, 32, "];
        let places: Vec<Option<usize>> = order.iter().map(|line| met.find(line)).collect();
        assert!(places[0].is_some() && places.is_sorted(), "{text}");
        let logs = attention(quote!(logs: &mut Tensor<f32, (S,)>,), quote!(logs[i] = m + l.log();));
        assert_eq!(shares(logs), 0, "one block has the row");
    }

    #[test]
    fn steps_with_products_of_their_own_leave_room_for_two_parts() {
        let gemm = cuda(gemm(quote!(sm_90a, i = 128, j = 64, k = 64, stages = 4, consumers = 2)));
        assert!(gemm.contains("join_panels<Sum, IJTile, 32, THREADS, 3>("), "{gemm}");
        let chain = cuda(chain(quote!(sm_90a, i = 128, h = 128, stages = 4, consumers = 2)));
        assert!(chain.contains(", 32, THREADS, 2>("), "{chain}");
    }

    #[test]
    fn threads_without_roles_have_no_panels() {
        assert_eq!(shares(gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2)))), 0);
    }

    /// A ring would bring the residual's panels to every block, whether they are its own or not.
    #[test]
    fn what_a_ring_brings_after_the_sum_keeps_the_tile_together() {
        let schedule = quote!(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2);
        let residual = quote!(c[(i, j)] = (acc + r[(i, j)].to::<f32>()).to(););
        assert_eq!(shares(with(schedule.clone(), residual, quote!(f16, (M, N)))), 0);
        let by_threads = quote!(c[(i, j)] = (acc + r[(i - 1, j)].to::<f32>()).to(););
        assert_eq!(shares(with(schedule, by_threads, quote!(f16, (M, N)))), 2 * 2);
    }
}
