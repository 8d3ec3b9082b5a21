//! Units of work that differ in length, which blocks take from a queue.
//!
//! ```text
//! for unit                          the grid's
//!     for k until the block's end   longer from one to the next
//! ```
//! Where blocks have as many steps as each other, they take turns, and each brings its next tile's operands while it writes out the last. Blocks
//! that took turns at units of different lengths would end at different times. Here a block that is done takes the first unit that none has, of
//! which its producer tells the consumers; so it too brings the next one's operands beside the last one's end.

use super::names::Names;
use crate::plan::Arg;
use crate::program::{Counter, Param, ParamType, Program, Queue, Stmt, Units};
use crate::schedule::ScheduleError;

/// Has blocks take units from a queue; these are the bodies of both roles for one unit, the consumers' in the program.
pub fn queue(program: &mut Program, producer: &mut Vec<Stmt>, names: &mut Names) {
    let [taken, name] = ["taken", "unit_queue"].map(|name| names.fresh(name));
    program.params.push(Param { name: taken.clone(), ty: ParamType::Counts, arg: Arg::Taken });
    // A tile that comes once a unit has a counter already, which blocks advance too that leave the unit to others.
    let counted = |body: &[Stmt], counter: &String| {
        let mut all_have = body.iter().take_while(|stmt| !matches!(stmt, Stmt::JoinParts { .. }));
        all_have.any(|stmt| matches!(stmt, Stmt::Advance(advanced) if advanced == counter))
    };
    let counter = program.counters.iter().find_map(|counter| match counter {
        Counter::Plain(name) if counted(&program.body, name) && counted(producer, name) => Some(name),
        _ => None,
    });
    let done = counter.cloned().unwrap_or_else(|| {
        let done = names.fresh("units_done");
        program.counters.push(Counter::Plain(done.clone()));
        for body in [&mut program.body, &mut *producer] {
            body.insert(0, Stmt::Advance(done.clone()));
        }
        done
    });
    producer.push(Stmt::TakeUnit);
    program.units = Units::Queue(Queue { taken, name, done, offset: 0 });
}

/// Whether a producer that has to take units too has too few registers to copy what TMA does not.
pub fn leave_no_registers_for_copies(program: &Program, registers: u32) -> bool {
    const ENOUGH: u32 = 40;
    matches!(program.units, Units::Queue(_)) && registers < ENOUGH
}

pub fn no_registers_for_copies() -> ScheduleError {
    ScheduleError::about(
        "consumers",
        "TMA cannot make all copies, and leaves a producer too few registers -- use fewer consumers",
    )
}

#[cfg(test)]
mod tests {
    use crate::program::{Program, Queue, Stmt, Units};
    use crate::testing::{cuda, lines, lowered, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// Products, each row of blocks over as many terms as `until` says.
    fn sums(until: TokenStream) -> TokenStream {
        quote! {
            #[schedule(sm_90a, i = 128, k = 64, stages = 4, consumers = 2)]
            fn f<B: Dim, H: Dim, M: Dim, K: Dim>(
                a: &Tensor<f16, (B, M, K)>, b: &Tensor<f16, (H, Const<128>, K)>, y: &mut Tensor<f32, (B, H, M, Const<128>)>,
            ) {
                tile!(for (n, h, i) in (each(B), each(H), M) {
                    let mut acc = zeros::<f32>((i, ..));
                    tile!(for k in #until { acc += dot(a[(n, i, k)], b[(h, .., k)].t()); });
                    y[(n, h, i, ..)] = acc;
                });
            }
        }
    }

    fn queue(program: &Program) -> Option<&Queue> {
        if let Units::Queue(queue) = &program.units { Some(queue) } else { None }
    }

    #[test]
    fn blocks_take_turns_at_units_that_are_alike() {
        assert_eq!(program(sums(quote!(K))).units, Units::Turns);
    }

    #[test]
    fn the_producer_takes_units_that_differ_and_passes_them_on() {
        let program = program(sums(quote!(K.until(i.end()))));
        let queue = queue(&program).expect("units that differ");
        let told = lines(&program);
        let place = |line: &str| told.iter().position(|told| told == line);
        assert!(place("take unit") > place("for unit"), "{told:?}");
        let one_more = Stmt::Advance(queue.done.clone());
        let roles = [&program.body, &program.producer.as_ref().expect("a producer").body];
        for units in roles
            .map(|body| body.iter().find_map(|stmt| if let Stmt::ForUnits(unit) = stmt { Some(unit) } else { None }))
        {
            let unit = units.expect("units");
            assert_eq!(unit.iter().filter(|stmt| **stmt == one_more).count(), 1, "{program}");
        }
        assert!(program.shared_bytes >= queue.offset + Queue::BYTES);
    }

    /// All warps of both roles.
    #[test]
    fn whoever_reads_units_is_counted() {
        let text = cuda(sums(quote!(K.until(i.end()))));
        assert!(text.contains("unit_queue.init(THREADS / 32 + PRODUCERS / 32);"), "{text}");
        assert_eq!(text.matches("unit = unit_queue.next(units_done))").count(), 2, "{text}");
        assert_eq!(
            text.matches("if (threadIdx.x == THREADS) unit_queue.take(taken, units, units_done);").count(),
            1,
            "{text}"
        );
    }

    /// Rows of blocks that grow: where there are several, the last of them go by length.
    #[test]
    fn longer_blocks_come_first() {
        let text = cuda(sums(quote!(K.until(i.end()))));
        let place = "longest_first(block, B * H, by_i_blocks, by_rows_together);";
        assert_eq!(text.matches(place).count(), 2, "{text}");
        assert!(!cuda(sums(quote!(K.from(i.end())))).contains("longest_first"), "these get shorter");
    }

    /// A third warpgroup leaves the producer as many registers as TMA needs: no code for other copies, which would spill.
    #[test]
    fn units_and_copies_take_more_registers_than_three_warpgroups_leave() {
        let by_tma = |keys: TokenStream| {
            let lowered = lowered(quote! {
                #[schedule(sm_90a, i = 192, j = 128, stages = 2, consumers = 3)]
                fn f<S: Dim>(
                    q: &Tensor<f16, (S, Const<64>)>, k: &Tensor<f16, (S, Const<64>)>, v: &Tensor<f16, (S, Const<64>)>,
                    o: &mut Tensor<f16, (S, Const<64>)>,
                ) {
                    tile!(for i in S {
                        let mut acc = zeros::<f32>((i, ..));
                        tile!(for j in #keys { acc += dot(dot(q[(i, ..)], k[(j, ..)].t()).exp().to::<f16>(), v[(j, ..)]); });
                        o[(i, ..)] = acc.to();
                    });
                }
            });
            lowered.expect("a schedule that fits").program.by_tma
        };
        assert!(!by_tma(quote!(S)), "blocks take turns");
        assert!(by_tma(quote!(S.until(i.end()))));
    }
}
