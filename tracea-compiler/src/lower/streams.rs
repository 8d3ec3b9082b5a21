//! Streams: what a loop reads as it walks down the rows of a tensor comes some steps ahead of its use.
//!
//! ```text
//! for i { sum += x[(i, j)].col_sum() }
//! ```
//! brings each step's elements into the slots of a stream, as [`super::ahead`] has it.
//!
//! A thread keeps exactly the elements that its registers will hold, so that nobody waits for anybody else.

use super::Lowering;
use super::loops::{Level, nest_of};
use crate::nest::{Loop, Op, Stmt as NestStmt, ValueId};
use crate::program::layout::LayoutId;
use crate::program::shared::SharedId;
use crate::program::{CHUNK_BYTES, Domain, IntText, Kept, Stmt, VarId};
use crate::schedule::ScheduleError;

const MOST_STAGES: u32 = 4;
/// Of all streams of a block, in bytes.
const MOST_BYTES: u32 = 64 * 1024;

/// A load and the slots that its elements pass through.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    load: ValueId,
    layout: LayoutId,
    slots: SharedId,
}

impl Lowering<'_> {
    /// Makes room for what the loop streams; nothing where a step is too large to have two under way.
    pub fn choose_streams(&mut self, outer: &Loop) -> Vec<Stream> {
        let levels = nest_of(outer);
        let whole = levels.iter().all(|level| level.from.is_none() && level.until.is_none());
        if !self.facts.dots.is_empty() || !whole || self.program.skew.is_some() {
            return Vec::new();
        }
        let loads = self.loads_down(levels[levels.len() - 1]);
        let bytes: u32 = loads.iter().map(|(load, layout)| self.step_bytes(*load, *layout)).sum();
        let stages = MOST_BYTES.checked_div(bytes).unwrap_or(0).min(MOST_STAGES);
        if stages < 2 {
            return Vec::new();
        }
        let make = |(load, layout)| {
            let Op::Load { tensor, .. } = self.nest.value(load).op else { return None };
            let tensor = self.nest.tensor(tensor);
            let (rows, cols) = (self.program.layout(layout).rows, self.program.layout(layout).cols);
            let slots = self.shared(&format!("{}_stream", tensor.name), tensor.dtype, rows, cols, stages);
            let buffer = &mut self.program.shared[slots.0 as usize];
            (buffer.private, buffer.pitch) = (true, buffer.tile_bytes() + rows * CHUNK_BYTES);
            let kept = Kept::Slot { stream: slots, layout, slot: IntText::name("slot") };
            self.kept_values.push((load, kept));
            Some(Stream { load, layout, slots })
        };
        loads.into_iter().filter_map(make).collect()
    }

    /// The loads of a loop over rows that read whole rows of tiles.
    fn loads_down(&mut self, inner: &Loop) -> Vec<(ValueId, LayoutId)> {
        let mut loads = Vec::new();
        for stmt in &inner.body.stmts {
            let NestStmt::Value(value) = stmt else { continue };
            let Op::Load { tensor, index } = &self.nest.value(*value).op else { continue };
            let Domain::Tile(layout) = self.domain(*value) else { continue };
            let (rows, cols) = (self.program.layout(layout).row_axis, self.program.layout(layout).col_axis);
            let down = rows == Some(inner.axis) && !self.nest.tensor(*tensor).mutable;
            if down && self.runs_along(*tensor, index, cols) {
                loads.push((*value, layout));
            }
        }
        loads
    }

    fn step_bytes(&self, load: ValueId, layout: LayoutId) -> u32 {
        let layout = self.program.layout(layout);
        layout.rows * (layout.cols * self.nest.value(load).ty.dtype.bytes() + CHUNK_BYTES)
    }

    pub fn stream(&mut self, levels: &[Level], streams: &[Stream], running: &[VarId]) -> Result<(), ScheduleError> {
        let Some(stages) = streams.first().map(|stream| self.program.shared(stream.slots).stages) else {
            return Ok(());
        };
        let steps = self.total_steps(levels);
        let innermost = levels[levels.len() - 1].inner;
        let bring = |this: &mut Self, step: &str, slot: IntText| {
            this.coordinates(levels, IntText::name(step));
            for stream in streams {
                let Op::Load { tensor, index } = &this.nest.value(stream.load).op else { continue };
                let layout = this.program.layout(stream.layout);
                let (rows, cols) = (layout.row_axis, layout.col_axis);
                let source = this.access(*tensor, index, rows, Some(cols));
                let kept = Kept::Slot { stream: stream.slots, layout: stream.layout, slot: slot.clone() };
                this.promise("LDGSTS");
                this.out.push(Stmt::Keep { kept, source });
            }
            Ok(())
        };
        self.ahead(stages, steps, bring, |this| {
            this.coordinates(levels, IntText::name("step"));
            this.block(&innermost.body)?;
            this.finish_running(innermost, running)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{cuda, lines, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn sums(dtype: TokenStream) -> TokenStream {
        quote! {
            fn f<M: Dim, N: Dim>(x: &Tensor<#dtype, (M, N)>, y: &mut Tensor<f32, (N,)>) {
                tile!(for j in N {
                    let mut sum = zeros::<f32>(j);
                    tile!(for i in M { sum += x[(i, j)].to::<f32>().col_sum(); });
                    y[j] = sum;
                });
            }
        }
    }

    #[test]
    fn a_walk_down_rows_reads_ahead() {
        let program = program(sums(quote!(f16)));
        let lines = lines(&program);
        let at = |wanted: &str| {
            let found = lines.iter().enumerate().filter(|(_, line)| line.starts_with(wanted));
            found.map(|(at, _)| at).collect::<Vec<usize>>()
        };
        let (keeps, commits, waits, loads) = (at("keep x_stream"), at("commit"), at("wait 2"), at("load x_tile"));
        assert_eq!((keeps.len(), commits.len(), waits.len(), loads.len()), (2, 2, 1, 1), "{lines:?}");
        assert!(keeps[0] < commits[0] && commits[0] < waits[0], "{lines:?}");
        assert!(waits[0] < keeps[1] && keeps[1] < commits[1] && commits[1] < loads[0], "{lines:?}");
    }

    #[test]
    fn streams_stay_within_their_room() {
        for dtype in [quote!(f16), quote!(f32)] {
            let program = program(sums(dtype));
            let bytes: u32 = program.shared.iter().filter(|shared| shared.private).map(|shared| shared.bytes()).sum();
            assert!((1..=super::MOST_BYTES).contains(&bytes), "{bytes}");
        }
    }

    #[test]
    fn a_slot_is_loaded_by_the_thread_that_filled_it() {
        let text = cuda(sums(quote!(f16)));
        assert!(text.contains("keep_tile_once<IJTile, ALIGN_X, true>(x_stream + stage * 4352"), "{text}");
        assert!(text.contains("load_kept_once<IJTile, ALIGN_X>(x_tile, x_stream + slot"), "{text}");
        assert!(!text.contains("__syncthreads"), "{text}");
    }
}
