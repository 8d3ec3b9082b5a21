//! Tiles of one warpgroup each, multiplied in turn.
//!
//! ```text
//! for unit {                             for unit {
//!     locate                                 steps = …; unless it is my turn: the other one takes these steps
//!     steps = …                    →         locate
//!     for step { acc += a · b }              take the token; for step { acc += a · b }; pass the token
//!     write the tile out                     write the tile out
//! }                                      }
//! ```
//! So tensor cores multiply one warpgroup's tile while the other one's is on its way out, which many short sums have much of. The producer fills
//! the rings for one unit after the other, as it does for warpgroups that share tiles. The token also keeps a warpgroup from waiting for a slot
//! in a round that is not the next: barriers tell only whether a round is even. Panels that a warpgroup fetches for itself are asked for before its
//! turn comes.

use crate::program::{Counter, IntText, PingPong, Program, Scope, Stmt};
use crate::schedule::ScheduleError;

/// Warpgroups that take turns.
const WARPGROUPS: u32 = 2;

/// Has the consumers' units be one warpgroup's or the other's.
pub fn take_turns(program: &mut Program) -> Result<(), ScheduleError> {
    let [Counter::Turns { name: counter, .. }] = &program.counters[..] else {
        return Err(refused("operands come by more rings than one"));
    };
    let counter = counter.clone();
    for stmt in &mut program.body {
        if let Stmt::ForUnits(unit) = stmt {
            take_turn(unit, &counter)?;
        }
    }
    let last = program.body.iter().rposition(|stmt| matches!(stmt, Stmt::ForUnits(_))).map_or(0, |at| at + 1);
    program.body.insert(last, Stmt::PingPong(PingPong::EndAtTurn, WARPGROUPS));
    program.body.insert(0, Stmt::PingPong(PingPong::BeginTurns, WARPGROUPS));
    Ok(())
}

fn take_turn(unit: &mut Vec<Stmt>, counter: &str) -> Result<(), ScheduleError> {
    let loops: Vec<usize> = (0..unit.len()).filter(|at| matches!(unit[*at], Stmt::For { .. })).collect();
    let [at] = loops[..] else { return Err(refused("there is more than one loop")) };
    let Stmt::For { until: IntText::Name(steps), .. } = &unit[at] else {
        return Err(refused("the loop has no number of steps"));
    };
    let counted = |stmt: &Stmt| matches!(stmt, Stmt::Let { name, .. } if name == steps);
    let by = IntText::name(steps);
    let known =
        unit[..at].iter().position(counted).ok_or_else(|| refused("the loop's steps are not counted before it"))?;
    unit.insert(at + 1, Stmt::PingPong(PingPong::Pass, WARPGROUPS));
    unit.insert(at, Stmt::PingPong(PingPong::Take, WARPGROUPS));
    let steps = unit.remove(known);
    unit.splice(0..0, [steps, Stmt::LeaveToOther { counter: counter.to_string(), by }]);
    Ok(())
}

/// Warpgroups that have tiles of their own do not come to a barrier of all threads together, and pass nothing through what they all share.
pub fn check(program: &Program) -> Result<(), ScheduleError> {
    fn meets(stmt: &Stmt) -> bool {
        matches!(stmt, Stmt::Barrier(Scope::Tile)) || stmt.bodies().into_iter().flatten().any(meets)
    }
    let (_, scratch_bytes) = program.scratch;
    match scratch_bytes > 0 || program.body.iter().any(meets) {
        true => Err(refused("all consumers put something together")),
        false => Ok(()),
    }
}

fn refused(why: &str) -> ScheduleError {
    ScheduleError::about("pingpong", format!("warpgroups take no turns where {why} -- leave the option out"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{cuda, gated, gemm, lines, lowered, program};
    use quote::quote;

    #[test]
    fn the_other_ones_steps_are_counted_and_the_token_goes_round_the_loop() {
        let all =
            lines(&program(gemm(quote!(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2, pingpong = true))));
        let consumers = all.iter().position(|line| line.starts_with("consumers")).expect("consumers");
        let lines = &all[consumers..];
        let at = |start: &str| {
            let found = lines.iter().position(|line| line.trim_start().starts_with(start));
            found.unwrap_or_else(|| panic!("{start}: {lines:#?}"))
        };
        let order = [
            "ping-pong: BeginTurns",
            "unless",
            "locate",
            "ping-pong: Take",
            "for step",
            "dot ",
            "ping-pong: Pass",
            "ping-pong: EndAtTurn",
        ];
        let places = order.map(at);
        assert!(places.is_sorted(), "{places:?} {lines:#?}");
    }

    #[test]
    fn a_slot_is_free_when_one_warpgroup_has_released_it() {
        let text = cuda(gemm(quote!(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2, pingpong = true)));
        for line in [
            "#define TRACEA_TILES_APART",
            "constexpr int TILE_THREADS = 128;",
            "using IJTile = Mma16816<BLOCK_I, BLOCK_J, 4, 1, 64>;",
            "mbarrier_init(a_ready_empty + stage, TILE_THREADS / 32);",
            "if (visited++ % 2 != own_turn) { k_turn.advance_by(steps); continue; }",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    /// Of 96 columns, two panels to each 64 rows, of which the second has 32.
    #[test]
    fn panels_of_the_next_rows_begin_where_those_of_the_first_end() {
        let text = cuda(gated(quote!(sm_90a, i = 128, j = 96, k = 64, stages = 4, consumers = 2, pingpong = true)));
        for line in [
            "wgdot_issue_beside<IJTile, 64>(g, u, ",
            "for (int panel = 0; panel < 4; ++panel) {",
            "reg < first_register<IJTile, 32>(panel) + 32; ++reg) if (reg < end_register<IJTile, 32>(panel)) y_tile[reg] = ",
            "tma_store(panel % 2 == 1 ? y_map64x32 : y_map64, ",
            "j0 + panel % 2 * 64, i0 + panel_row(panel, 2));",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    /// Each warpgroup fetches its own panels of what the result takes in, past the rings of both products.
    #[test]
    fn products_side_by_side_take_in_panels_in_turn() {
        let text = cuda(quote! {
            #[schedule(sm_90a, i = 128, j = 96, k = 64, stages = 4, consumers = 2, pingpong = true)]
            fn f<M: Dim, N: Dim, K: Dim>(
                x: &Tensor<f16, (M, K)>, v: &Tensor<f16, (N, K)>, w: &Tensor<f16, (N, K)>, r: &Tensor<f16, (M, N)>,
                y: &mut Tensor<f16, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut a = zeros::<f32>((i, j));
                    let mut b = zeros::<f32>((i, j));
                    tile!(for k in K {
                        a += dot(x[(i, k)], v[(j, k)].t());
                        b += dot(x[(i, k)], w[(j, k)].t());
                    });
                    y[(i, j)] = (a * b + r[(i, j)].to::<f32>()).to();
                });
            }
        });
        for line in ["wgdot_issue_beside<IJTile, 64>(a, b, ", "fetch_own_panel<", "read_panel<IJTile, "] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    #[test]
    fn what_takes_no_turns_is_refused() {
        let why = |schedule| {
            let error = lowered(gemm(schedule)).expect_err("no turns");
            assert_eq!(error.option.as_deref(), Some("pingpong"));
            error.message
        };
        assert!(
            why(quote!(sm_90a, i = 64, j = 128, k = 64, stages = 4, consumers = 1, pingpong = true))
                .contains("consumers = 2")
        );
        assert!(
            why(quote!(sm_90a, i = 128, j = 64, k = 64, stages = 3, resident = 2, pingpong = true))
                .contains("resident = 1")
        );
        assert!(why(quote!(sm_80, i = 128, j = 128, k = 32, pingpong = true)).contains("no warp roles"));
    }
}
