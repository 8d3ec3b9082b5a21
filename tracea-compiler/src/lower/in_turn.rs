//! Whole rows that a block takes in turn: while it works on one, the next ones are on their way to shared memory, where each thread keeps
//! what it will read of them itself. What the rows share, threads have in registers throughout.
//!
//! ```text
//! x = a row, in registers                   keep gain; hold gain
//! s = sum of x                              keep the first rows
//! y = x * s * gain                  →       for each row of this block's
//! store y                                       for each part { load x;  fold s };  spread s
//!                                               for each part { load x;  y = x * s * gain;  store;  keep the row that comes next }
//! ```
//! Elements of a row are computed for each part that reads them. Slices pass through the last slots that rows are kept in: rows of the other slots
//! come beside the first slice, those of these after the last one.

use super::Lowering;
use super::reductions::identity;
use crate::nest::{AxisId, Op, ReduceOp};
use crate::program::layout::LayoutId;
use crate::program::pressure::{MOST_REGISTERS, at_launch, reads, writes};
use crate::program::{
    Access, AccessForm, Along, Counter, Domain, Expr, IntText, Kept, Program, Scalar, Scope, Stmt, StoreWay, VarId,
};
use crate::schedule::ScheduleError;
use std::collections::BTreeSet;

/// Places for vectors before a row's first one, at most: as a line of memory has, of elements of a byte.
pub const MOST_PASSED_OVER: u32 = 15;

/// Registers that a thread needs beside slices, and for where each matrix is.
const BESIDE_SLICES: u32 = 26;
const OF_A_MATRIX: u32 = 10;

/// Of so many vectors that a thread may have of a row, those that it goes through before it looks for the row's end: of many, a few that nobody
/// has count for less.
pub fn vectors_at_once(vectors: u32) -> u32 {
    if vectors > 16 { 5 } else { 2 }
}

impl Lowering<'_> {
    /// Says where rows are kept that tiles will be loaded from.
    pub fn keep_rows(&mut self) -> Result<(), ScheduleError> {
        let turn = self.names.fresh("turn");
        let slot = IntText::Rem(Box::new(IntText::name(&turn)), self.schedule.stages);
        self.program.counters.push(Counter::Plain(turn));
        let facts = self.facts;
        for id in &facts.order {
            let Op::Load { tensor, index } = &self.nest.value(*id).op else { continue };
            let Domain::Tile(layout) = self.domain(*id) else { continue };
            let (rows, cols, along) = {
                let layout = self.program.layout(layout);
                (layout.rows, layout.cols, layout.col_axis)
            };
            let kept = self.nest.tensor(*tensor);
            if kept.mutable || !self.runs_along(*tensor, index, along) {
                return Err(not_in_turn());
            }
            let shared = self.shared(&format!("{}_kept", kept.name), kept.dtype, rows, cols, self.schedule.stages);
            self.program.shared[shared.0 as usize].private = true;
            let ends = self.names.fresh(&format!("{}_ends", kept.name));
            self.kept_values.push((*id, Kept::Row { shared, layout, slot: slot.clone(), ends }));
        }
        Ok(())
    }

    /// The program so far, which is for one row, for all rows of a block.
    pub fn take_in_turn(&mut self) -> Result<(), ScheduleError> {
        let mut of_a_row = std::mem::take(&mut self.out);
        // What rows consist of, and where their columns count from, is the same for all.
        let known =
            of_a_row.iter().position(|stmt| matches!(stmt, Stmt::FindParts { .. })).map_or(0, |found| found + 2);
        self.out = of_a_row.drain(..known).collect();
        let (slices, slots) = self.hold_slices(&mut of_a_row)?;
        let rows: Vec<Row> = of_a_row.iter().filter_map(Row::of).collect();
        let mut unit = Unit { program: &self.program, elements: Vec::new(), out: Vec::new(), last_part: None };
        of_a_row.into_iter().try_for_each(|stmt| unit.take(stmt))?;
        let (mut unit, last_part) = (unit.out, unit.last_part);
        let Some(Stmt::ByParts { body, .. }) = last_part.and_then(|at| unit.get_mut(at)) else {
            return Err(not_in_turn());
        };
        let stages = self.schedule.stages;
        body.push(Stmt::Ahead { turns: stages, body: rows.iter().map(|row| row.keep(None)).collect() });
        self.bring_first(slices, slots, &rows);
        unit.splice(0..0, [Stmt::Locate, Stmt::Wait(stages - 1)]);
        unit.push(Stmt::Commit);
        unit.extend(self.program.counters.iter().map(|counter| Stmt::Advance(counter.name().to_string())));
        self.out.push(Stmt::ForUnits(unit));
        Ok(())
    }

    /// Has column slices loaded from registers, and says how each comes there: as threads keep it, and under which name they then have it. Beside
    /// them, how many slots of rows they pass through.
    fn hold_slices(&mut self, stmts: &mut [Stmt]) -> Result<(Vec<(Stmt, Stmt)>, u32), ScheduleError> {
        let host = self.kept_values.iter().find_map(|(_, kept)| match kept {
            Kept::Row { shared, .. } => Some(*shared),
            _ => None,
        });
        let host = host.ok_or_else(not_in_turn)?;
        let stages = self.schedule.stages;
        let pitch = self.program.shared(host).pitch;
        let (mut slices, mut words, mut slots) = (Vec::new(), 0, 0);
        for stmt in stmts {
            let Stmt::Load { target, source, kept } = stmt else { continue };
            let Domain::Cols(layout) = self.program.var(*target).domain else { continue };
            let tensor = self.nest.tensor(source.tensor);
            let shape = self.program.layout(layout);
            if tensor.mutable || !self.runs_along(source.tensor, &source.index, shape.col_axis) {
                return Err(not_in_turn());
            }
            words += (shape.col_size() * tensor.dtype.bytes()).div_ceil(4);
            let held = self.names.fresh(&format!("{}_held", tensor.name));
            let (slice, buffer) = self.kept_slice(source.tensor, layout);
            buffer.host = Some(host);
            slots = slots.max(buffer.pitch.div_ceil(pitch));
            *kept = Some(Kept::Held { name: held.clone(), layout });
            let keep = Stmt::Keep { kept: slice.clone(), source: source.clone() };
            slices.push((keep, Stmt::HoldSlice { name: held, slice }));
        }
        let registers = at_launch(self.program.threads, 1).min(MOST_REGISTERS);
        let matrices = self.program.whole.as_ref().map_or(0, |whole| whole.tensors.len() as u32);
        if slots >= stages || words + BESIDE_SLICES + OF_A_MATRIX * matrices > registers {
            return Err(not_in_turn());
        }
        let hosted = self.program.shared.iter_mut().filter(|shared| shared.host == Some(host));
        hosted.for_each(|shared| shared.host_stage = stages - slots);
        Ok((slices, slots))
    }

    /// Slices, through so many slots, and the first rows.
    fn bring_first(&mut self, slices: Vec<(Stmt, Stmt)>, slots: u32, rows: &[Row]) {
        self.out.extend(rows.iter().map(|row| Stmt::DeclareEnds { row: row.kept.clone() }));
        let ahead = |turns: u32| {
            let slot = IntText::Const(turns.into());
            let body = rows.iter().map(|row| row.keep(Some(&slot))).collect();
            [Stmt::Ahead { turns, body }, Stmt::Commit]
        };
        let stages = self.schedule.stages;
        let mut beside: Vec<[Stmt; 2]> = (0..stages - slots).map(ahead).collect();
        for (keep, hold) in slices {
            self.out.extend([keep, Stmt::Commit]);
            let pending = beside.len() as u32;
            self.out.extend(beside.drain(..).flatten().chain([Stmt::Wait(pending), hold]));
        }
        self.out.extend(beside.into_iter().flatten());
        if slots > 0 {
            self.out.push(Stmt::Barrier(Scope::Tile));
        }
        self.out.extend((stages - slots..stages).flat_map(ahead));
    }
}

fn not_in_turn() -> ScheduleError {
    ScheduleError::new("rows of this kernel cannot be taken in turn")
}

/// A row that is kept, and where it comes from.
struct Row {
    kept: Kept,
    source: Access,
}

impl Row {
    fn of(stmt: &Stmt) -> Option<Row> {
        let Stmt::Load { source, kept: Some(kept @ Kept::Row { .. }), .. } = stmt else { return None };
        let mut source = source.clone();
        // There may be none so many turns later.
        source.limits.extend(rows_of(&source).filter(|axis| !source.limits.contains(axis)));
        Some(Row { kept: kept.clone(), source })
    }

    /// In that slot, or in the one of the row at work.
    fn keep(&self, in_slot: Option<&IntText>) -> Stmt {
        let mut kept = self.kept.clone();
        if let (Kept::Row { slot, .. }, Some(wanted)) = (&mut kept, in_slot) {
            *slot = wanted.clone();
        }
        Stmt::Keep { kept, source: self.source.clone() }
    }
}

fn rows_of(source: &Access) -> Option<AxisId> {
    let (AccessForm::Contiguous { rows, .. } | AccessForm::Scattered { rows, .. }) = source.form;
    rows
}

/// What is done for one row.
struct Unit<'p> {
    program: &'p Program,
    /// What makes elements of the row, in order.
    elements: Vec<Stmt>,
    out: Vec<Stmt>,
    /// Where in `out` the last parts are gone through.
    last_part: Option<usize>,
}

impl Unit<'_> {
    fn take(&mut self, stmt: Stmt) -> Result<(), ScheduleError> {
        match stmt {
            Stmt::Declare(target) if self.is_of_elements(target) => self.elements.push(stmt),
            Stmt::Load { target, kept: Some(_), .. } | Stmt::Map { target, .. } | Stmt::MaskEdge { target, .. }
                if self.is_of_elements(target) =>
            {
                self.elements.push(stmt)
            }
            Stmt::Reduce { op, value, target, along: Along::Cols } if self.layout_of(value).is_some() => {
                self.reduce(op, value, target)
            }
            Stmt::Store { value, way: StoreWay::Direct, .. } if self.layout_of(value).is_some() => {
                self.add_part(value, stmt, None)
            }
            stmt if !stmt.bodies().is_empty() || self.touches_elements(&stmt) => return Err(not_in_turn()),
            stmt => self.out.push(stmt),
        }
        Ok(())
    }

    fn is_of_elements(&self, var: VarId) -> bool {
        matches!(self.program.var(var).domain, Domain::Tile(_) | Domain::Cols(_))
    }

    fn touches_elements(&self, stmt: &Stmt) -> bool {
        reads(stmt).into_iter().chain(writes(stmt)).any(|var| self.is_of_elements(var))
    }

    /// Of a tile of floats, or a narrower type.
    fn layout_of(&self, var: VarId) -> Option<LayoutId> {
        let var = self.program.var(var);
        match var.domain {
            Domain::Tile(layout) if !matches!(var.ty, Scalar::Int | Scalar::Bool) => Some(layout),
            _ => None,
        }
    }

    fn reduce(&mut self, op: ReduceOp, value: VarId, target: VarId) {
        let neutral = identity(op).number();
        let begin = Stmt::Map { target, value: Expr::Number(neutral), unless_all: None };
        self.add_part(value, Stmt::Fold { op, value, target, along: Along::Cols }, Some((target, begin)));
        self.out.push(Stmt::Spread { op, target, along: Along::Cols });
    }

    /// Something that is done with a value by parts: where the last parts are gone through, if all is there that it takes, or anew. A running
    /// result begins before.
    fn add_part(&mut self, value: VarId, stmt: Stmt, running: Option<(VarId, Stmt)>) {
        let Some(layout) = self.layout_of(value) else { return };
        let made = self.made_of(value);
        let last = self.last_part.filter(|at| {
            let since: BTreeSet<VarId> = self.out[*at..].iter().flat_map(written_inside).collect();
            made.iter().flat_map(reads).all(|var| self.is_of_elements(var) || !since.contains(&var))
        });
        match last {
            Some(at) => {
                if let Some((target, begin)) = running {
                    let declared =
                        self.out.iter().rposition(|stmt| matches!(stmt, Stmt::Declare(var) if *var == target));
                    let declared = declared.filter(|declared| *declared > at).map(|declared| self.out.remove(declared));
                    let before: Vec<Stmt> = declared.into_iter().chain([begin]).collect();
                    self.last_part = Some(at + before.len());
                    self.out.splice(at..at, before);
                }
                let Some(Stmt::ByParts { body, .. }) = self.last_part.and_then(|at| self.out.get_mut(at)) else {
                    return;
                };
                let missing: Vec<Stmt> = made.into_iter().filter(|stmt| !body.contains(stmt)).collect();
                body.extend(missing.into_iter().chain([stmt]));
            }
            None => {
                self.out.extend(running.map(|(_, begin)| begin));
                self.last_part = Some(self.out.len());
                self.out.push(Stmt::ByParts { layout, body: made.into_iter().chain([stmt]).collect() });
            }
        }
    }

    /// The statements that make a value of a row's elements.
    fn made_of(&self, value: VarId) -> Vec<Stmt> {
        let mut wanted = BTreeSet::from([value]);
        let mut made: Vec<Stmt> = Vec::new();
        for stmt in self.elements.iter().rev() {
            let target = match stmt {
                Stmt::Declare(target) | Stmt::MaskEdge { target, .. } => Some(*target),
                stmt => writes(stmt),
            };
            if target.is_some_and(|target| wanted.contains(&target)) {
                wanted.extend(reads(stmt));
                made.push(stmt.clone());
            }
        }
        made.reverse();
        made
    }
}

/// The variables that a statement, or one inside of it, gives a value.
fn written_inside(stmt: &Stmt) -> Vec<VarId> {
    let own = match stmt {
        Stmt::Fold { target, .. } | Stmt::Spread { target, .. } => Some(*target),
        stmt => writes(stmt),
    };
    own.into_iter().chain(stmt.bodies().into_iter().flatten().flat_map(written_inside)).collect()
}

#[cfg(test)]
mod tests {
    use crate::emit::{emit, launch_plan};
    use crate::lower::{Lowered, lower_portfolio};
    use crate::program::Units;
    use crate::schedule::target::SM_80;
    use crate::testing::{self, lines};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// The portfolio's schedules that take rows in turn.
    fn in_turn(params: TokenStream, body: TokenStream) -> Vec<Lowered> {
        let (nest, _) = testing::nest(quote! {
            fn f<M: Dim, N: Dim>(gain: &Tensor<f16, (N,)>, #params) {
                tile!(for i in M { #body });
            }
        });
        let portfolio = lower_portfolio(&nest, &SM_80).expect("a portfolio");
        portfolio.into_iter().filter(|lowered| lowered.schedule.in_turn).collect()
    }

    fn of_matrices() -> TokenStream {
        quote!(x: &Tensor<f16, (M, N)>, y: &mut Tensor<f16, (M, N)>)
    }

    fn normed() -> Vec<Lowered> {
        in_turn(
            of_matrices(),
            quote! {
                let mut squares = zeros::<f32>(i);
                tile!(for j in N { squares += (x[(i, j)].to::<f32>() * x[(i, j)].to::<f32>()).row_sum(); });
                let rate = squares.rsqrt();
                tile!(for j in N { y[(i, j)] = (x[(i, j)].to::<f32>() * rate * gain[j].to::<f32>()).to(); });
            },
        )
    }

    #[test]
    fn the_next_rows_come_while_one_is_worked_on() {
        let lines = lines(&normed()[0].program);
        let expected = [
            "keep gain_kept <- gain by rows",
            "commit",
            "0 turns ahead",
            "keep x_kept <- x by rows",
            "commit",
            "1 turns ahead",
            "keep x_kept <- x by rows",
            "commit",
            "wait 2",
            "barrier",
            "hold gain_held <- gain_kept",
            "barrier",
            "2 turns ahead",
            "keep x_kept <- x by rows",
            "commit",
            "for unit",
            "wait 2",
            "by parts",
            "load x_tile <- x by rows kept in x_kept",
            "fold total = Sum of value along Cols",
            "spread total (Sum along Cols)",
            "by parts",
            "load x_tile <- x by rows kept in x_kept",
            "load gain_tile <- gain by rows held as gain_held",
            "store y by rows <- y_tile",
            "3 turns ahead",
            "keep x_kept <- x by rows",
            "commit",
            "advance turn",
        ];
        let wanted = [
            "keep", "commit", "wait", "barrier", "hold", "for", "by parts", "load", "fold", "spread", "store",
            "advance",
        ];
        let is_wanted = |line: &str| wanted.iter().any(|word| line.starts_with(word)) || line.contains("ahead");
        let found: Vec<&str> = lines.iter().map(String::as_str).filter(|line| is_wanted(line)).collect();
        assert_eq!(found, expected, "{lines:#?}");
    }

    #[test]
    fn rows_are_as_long_as_shared_memory_and_registers_have_room_for() {
        let normed = normed();
        let plans = normed.iter().map(|lowered| launch_plan(lowered, emit(&lowered.nest, &lowered.program)));
        let found: Vec<(u32, u32, bool)> = plans
            .map(|plan| (plan.longest.map_or(0, |longest| longest.block), plan.threads, plan.persistent))
            .collect();
        // A line may have fifteen places before a row's first vector; less than a vector more is at the ends.
        let longest = |columns: u32| columns + 7 - 15 * 8;
        assert_eq!(found, [(longest(32768), 512, true), (longest(53248), 512, true)]);
        assert!(normed.iter().all(|lowered| lowered.program.units == Units::Turns && lowered.cost.resident == 1));
    }

    #[test]
    fn places_without_a_vector_count_up_to_the_next_check() {
        let at_once = |params: TokenStream, by: TokenStream| -> Vec<u32> {
            let all = in_turn(
                params,
                quote! {
                    let mut sum = zeros::<f32>(i);
                    tile!(for j in N { sum += x[(i, j)].to::<f32>().row_sum(); });
                    tile!(for j in N { y[(i, j)] = (x[(i, j)].to::<f32>() * sum * #by).to(); });
                },
            );
            let along =
                |lowered: &Lowered| lowered.cost.steps.iter().flat_map(|step| &step.over).map(|axis| axis.block).max();
            all.iter().filter_map(along).collect()
        };
        // Two vectors of 512 threads, of the second five of 256.
        assert_eq!(at_once(of_matrices(), quote!(gain[j].to::<f32>())), [8192, 8192]);
        let (matrices, gain) = (of_matrices(), quote!(gain[j].to::<f32>() * offset[j].to::<f32>()));
        assert_eq!(at_once(quote!(offset: &Tensor<f16, (N,)>, #matrices), gain), [8192, 10240]);
    }

    #[test]
    fn what_a_row_masks_may_be_kept() {
        let masked = in_turn(
            quote!(x: &Tensor<f16, (M, N)>, y: &mut Tensor<f16, (M, N)>, used: i32),
            quote! {
                let mut sum = zeros::<f32>(i);
                tile!(for j in N { sum += x[(i, j)].to::<f32>().mask(|_, j| j < used, 0.0).row_sum(); });
                tile!(for j in N { y[(i, j)] = (x[(i, j)].to::<f32>() * sum * gain[j].to::<f32>()).to(); });
            },
        );
        assert_eq!(masked.len(), 2);
    }

    #[test]
    fn a_row_that_does_not_exist_is_not_kept() {
        let (nest, _) = testing::nest(quote! {
            fn f<N: Dim>(gain: &Tensor<f16, (N,)>, x: &Tensor<f16, (Const<1000>, N)>, y: &mut Tensor<f16, (Const<1000>, N)>) {
                tile!(for i in Const::<1000> {
                    let mut sum = zeros::<f32>(i);
                    tile!(for j in N { sum += x[(i, j)].to::<f32>().row_sum(); });
                    tile!(for j in N { y[(i, j)] = (gain[j].to::<f32>() * sum).to(); });
                });
            }
        });
        let portfolio = lower_portfolio(&nest, &SM_80).expect("a portfolio");
        let in_turn = portfolio.iter().find(|lowered| lowered.schedule.in_turn).expect("rows in turn");
        let text = emit(&in_turn.nest, &in_turn.program);
        let ahead = text.split("int block = unit + 3 * gridDim.x;").nth(1).expect("the row three turns ahead");
        assert!(ahead.contains("return {x + i * x_stride0 + j0, i < const_1000};"), "{ahead}");
    }

    #[test]
    fn reductions_that_take_nothing_of_each_other_go_through_a_row_together() {
        let parts = |body: TokenStream| {
            let all = in_turn(of_matrices(), body);
            lines(&all[0].program).iter().filter(|line| *line == "by parts").count()
        };
        let end = quote!(tile!(for j in N { y[(i, j)] = ((x[(i, j)].to::<f32>() - sum) * squares * gain[j].to::<f32>()).to(); }););
        let together = quote! {
            let mut sum = zeros::<f32>(i);
            let mut squares = zeros::<f32>(i);
            tile!(for j in N {
                let value = x[(i, j)].to::<f32>();
                sum += value.row_sum();
                squares += (value * value).row_sum();
            });
            #end
        };
        let one_after_the_other = quote! {
            let mut sum = zeros::<f32>(i);
            tile!(for j in N { sum += x[(i, j)].to::<f32>().row_sum(); });
            let mut squares = zeros::<f32>(i);
            tile!(for j in N {
                let value = x[(i, j)].to::<f32>() - sum;
                squares += (value * value).row_sum();
            });
            #end
        };
        assert_eq!((parts(together), parts(one_after_the_other)), (2, 3));
    }

    #[test]
    fn only_rows_that_share_slices_are_taken_so() {
        let count = |params, read: TokenStream| {
            let body = quote! {
                let mut sum = zeros::<f32>(i);
                tile!(for j in N { sum += #read.to::<f32>().row_sum(); });
                tile!(for j in N { y[(i, j)] = (#read.to::<f32>() * sum).to(); });
            };
            in_turn(params, body).len()
        };
        assert_eq!(count(of_matrices(), quote!(x[(i, j)])), 0, "nothing to have at hand");
        assert_eq!(count(of_matrices(), quote!((x[(i, j)] * gain[j]))), 2);
        let many = quote!(
            x: &Tensor<f16, (M, N)>, a: &Tensor<f32, (N,)>, b: &Tensor<f32, (N,)>, c: &Tensor<f32, (N,)>, y: &mut Tensor<f16, (M, N)>
        );
        let all = quote!((x[(i, j)].to::<f32>() * gain[j].to::<f32>() + a[j] + b[j] + c[j]));
        assert_eq!(count(many, all), 0, "registers for fewer slices");
    }
}
