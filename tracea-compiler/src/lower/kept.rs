//! Rows that loops walk through: threads keep them in shared memory, so that all of a row is under way at once, and what
//! several loops read is read once.
//!
//! ```text
//! for j { m = max(m, x[(i, j)]) }          for j0 { keep x; commit }            all of a row on its way at once
//! for j { y[(i, j)] = x[(i, j)] - m }      for j0 { wait for the block; … }
//! ```
//! becomes the copies on the right and, after them, both loops with their loads from what was kept; the first one runs while later
//! blocks are still on their way. A thread keeps exactly the elements that its registers will hold, so that nobody waits for anybody
//! else.

use super::Lowering;
use super::analysis::mentions;
use crate::nest::{AxisId, Block, Int, Loop, Op, Stmt as NestStmt, TensorId, ValueId};
use crate::plan;
use crate::program::layout::LayoutId;
use crate::program::{Domain, IntText, Kept, KeptId, KeptRows, KeptTile, Param, ParamType, Stmt};

/// Bytes that a block may keep: enough for long rows, few enough for two blocks on a multiprocessor, and for devices of 99 KiB a block.
const MOST_BYTES: u32 = 96 * 1024;

/// One loop's read of a row's tile.
struct Read<'n> {
    value: ValueId,
    tensor: TensorId,
    index: &'n [Int],
    axis: AxisId,
    layout: LayoutId,
}

impl Lowering<'_> {
    /// Decides what the loops of a block keep; the first loop that reads any of it, if one does.
    pub fn choose_kept(&mut self, block: &Block) -> Option<AxisId> {
        if !self.facts.dots.is_empty() || self.program.kept.is_some() {
            return None;
        }
        let loops = block.stmts.iter().filter_map(|stmt| match stmt {
            NestStmt::Loop(inner) if inner.from.is_none() && inner.until.is_none() => Some(inner),
            _ => None,
        });
        let reads: Vec<Read> = loops.flat_map(|inner| self.reads_of_rows(inner)).collect();
        let rows = self.grouped(&reads);
        let first = rows.first()?.first()?;
        let (axis, first_block) = (first.axis, self.schedule.blocks[first.axis.index()]?);
        let extent = &self.nest.axis(axis).extent;
        let mut tiles = Vec::new();
        let mut values = Vec::new();
        for group in &rows {
            let read = group[0];
            let like_first = self.nest.axis(read.axis).extent == *extent
                && self.schedule.blocks[read.axis.index()] == Some(first_block);
            if like_first {
                let kept = Kept::Rows { tile: KeptId(tiles.len()), surely: false };
                values.extend(group.iter().map(|read| (read.value, kept.clone())));
                let tensor = self.nest.tensor(read.tensor);
                let name = self.names.fresh(&format!("{}_kept", tensor.name));
                tiles.push(KeptTile { name, dtype: tensor.dtype, layout: read.layout, once: group.len() == 1 });
            }
        }
        let bytes: u32 = tiles.iter().map(|tile| self.program.kept_bytes(tile)).sum();
        if bytes > MOST_BYTES {
            return None;
        }
        let columns = self.names.fresh(&format!("{}_kept", self.names.axis(axis)));
        self.kept_values.extend(values);
        self.program.params.push(Param { name: columns.clone(), ty: ParamType::Int, arg: plan::Arg::KeptColumns });
        self.program.kept = Some(KeptRows { axis, columns, origin: None, most_blocks: MOST_BYTES / bytes, tiles });
        Some(axis)
    }

    /// Brings what is kept: each tile once, by the first value that reads it.
    pub fn fill_kept(&mut self, axis: AxisId) {
        let range = self.split_range.clone();
        let Some(rows) = &mut self.program.kept else { return };
        rows.origin = range.as_ref().map(|(first, _)| first.clone());
        let rows = rows.clone();
        let outer = std::mem::take(&mut self.out);
        for at in 0..rows.tiles.len() {
            let kept = Kept::Rows { tile: KeptId(at), surely: false };
            let first = self.kept_values.iter().find(|(_, id)| *id == kept).map(|(value, _)| *value);
            let Some(Op::Load { tensor, index }) = first.map(|value| &self.nest.value(value).op) else { continue };
            let layout = self.program.layout(rows.tiles[at].layout);
            let (row_axis, own) = (layout.row_axis, index.last().cloned());
            let index: Vec<Int> =
                index.iter().map(|int| if Some(int) == own.as_ref() { Int::Axis(axis) } else { int.clone() }).collect();
            let source = self.access(*tensor, &index, row_axis, Some(axis));
            self.promise("LDGSTS");
            self.out.push(Stmt::Keep { kept, source });
        }
        self.out.push(Stmt::Commit);
        let body = std::mem::replace(&mut self.out, outer);
        let until = match &range {
            None if let Some(skew) = &self.program.skew => {
                IntText::name(&rows.columns).minus(IntText::name(&skew.name))
            }
            None => IntText::Name(rows.columns),
            Some((first, until)) => IntText::Min(
                Box::new(IntText::name(first).plus(IntText::Name(rows.columns))),
                Box::new(IntText::name(until)),
            ),
        };
        self.out.push(Stmt::For {
            var: format!("{}0", self.names.axis(axis)),
            from: range.map(|(first, _)| IntText::Name(first)).or(self.skewed_start(axis)).unwrap_or(IntText::Const(0)),
            until: until.clone(),
            step: IntText::Const(self.schedule.blocks[axis.index()].unwrap_or(1).into()),
            unroll: false,
            body,
        });
        self.awaited = Some((axis, until));
    }

    /// Where what is kept ends of what the loop reads, if it walks all of it from the first on.
    pub fn kept_until(&self, inner: &Loop, from: &IntText) -> Option<IntText> {
        let reads_kept = inner.body.stmts.iter().any(|stmt| {
            let NestStmt::Value(value) = stmt else { return false };
            self.kept_values.iter().any(|(kept, place)| kept == value && matches!(place, Kept::Rows { .. }))
        });
        let rows = self.program.kept.as_ref().filter(|_| reads_kept)?;
        let columns = IntText::name(&rows.columns);
        match (&rows.origin, from) {
            (None, IntText::Const(0)) => Some(columns),
            (Some(first), IntText::Name(from)) if first == from => Some(IntText::name(first).plus(columns)),
            _ => None,
        }
    }

    /// Where a value is kept that a step loads.
    pub fn place_kept(&self, id: ValueId) -> Option<Kept> {
        let (_, place) = self.kept_values.iter().find(|(value, _)| *value == id)?;
        Some(match place {
            Kept::Rows { tile, .. } => Kept::Rows { tile: *tile, surely: self.surely_kept },
            other => other.clone(),
        })
    }

    /// At the beginning of a step of the first loop that reads what is kept: the later blocks are still on their way.
    pub fn await_kept(&mut self, axis: AxisId) {
        if let Some((_, until)) = self.awaited.clone().filter(|(awaited, _)| *awaited == axis) {
            let start = IntText::Name(format!("{}0", self.names.axis(axis)));
            let block = self.schedule.blocks[axis.index()].unwrap_or(1);
            self.out.push(Stmt::WaitKept { left: IntText::Sub(Box::new(until), Box::new(start)), block });
        }
    }

    /// The loads of a loop over columns that read rows from end to end.
    fn reads_of_rows<'n>(&mut self, inner: &'n Loop) -> Vec<Read<'n>>
    where
        Self: 'n,
    {
        let mut reads = Vec::new();
        for stmt in &inner.body.stmts {
            let NestStmt::Value(value) = stmt else { continue };
            let Op::Load { tensor, index } = &self.nest.value(*value).op else { continue };
            let Domain::Tile(layout) = self.domain(*value) else { continue };
            let cols = self.program.layout(layout).col_axis;
            let along = cols == inner.axis && !self.nest.tensor(*tensor).mutable;
            if along && self.runs_along(*tensor, index, cols) {
                reads.push(Read { value: *value, tensor: *tensor, index, axis: inner.axis, layout });
            }
        }
        reads
    }

    /// Reads of the same elements, together.
    fn grouped<'r, 'n>(&self, reads: &'r [Read<'n>]) -> Vec<Vec<&'r Read<'n>>> {
        let mut groups: Vec<Vec<&Read>> = Vec::new();
        for read in reads {
            match groups.iter_mut().find(|group| self.same_rows(group[0], read)) {
                Some(group) => group.push(read),
                None => groups.push(vec![read]),
            }
        }
        groups
    }

    fn same_rows(&self, a: &Read, b: &Read) -> bool {
        let (la, lb) = (self.program.layout(a.layout), self.program.layout(b.layout));
        a.tensor == b.tensor
            && (la.kind, la.row_axis, la.rows, la.cols) == (lb.kind, lb.row_axis, lb.rows, lb.cols)
            && self.nest.axis(a.axis).extent == self.nest.axis(b.axis).extent
            && a.index.len() == b.index.len()
            && a.index
                .iter()
                .zip(b.index)
                .all(|(x, y)| x == y && !mentions(x, a.axis) || (x, y) == (&Int::Axis(a.axis), &Int::Axis(b.axis)))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{cuda, lines, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn rows(params: TokenStream, body: TokenStream) -> TokenStream {
        quote! {
            #[schedule(sm_80, i = 4, j = 512)]
            fn f<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, #params y: &mut Tensor<f16, (M, N)>) {
                tile!(for i in M { #body });
            }
        }
    }

    fn centred() -> TokenStream {
        quote! {
            let mut total = zeros::<f32>(i);
            tile!(for j in N { total += x[(i, j)].to::<f32>().row_sum(); });
            tile!(for j in N { y[(i, j)] = (x[(i, j)].to::<f32>() - total).to(); });
        }
    }

    #[test]
    fn rows_that_two_loops_read_are_kept() {
        let program = program(rows(quote!(), centred()));
        let kept = program.kept.as_ref().expect("kept rows");
        assert_eq!((kept.tiles.len(), kept.most_blocks), (1, 24));
        let lines = lines(&program);
        let of_x: Vec<&str> = lines.iter().map(String::as_str).filter(|line| line.contains("x by rows")).collect();
        let (keeps, loads): (Vec<&str>, Vec<&str>) = of_x.iter().partition(|line| line.starts_with("keep"));
        assert_eq!(keeps, ["keep x_kept <- x by rows"]);
        // Two loops, each over what is kept and over the rest.
        let (surely, perhaps) = ("x by rows kept in x_kept", "x by rows or x_kept");
        assert_eq!(loads.len(), 4, "{loads:?}");
        assert!(
            [surely, perhaps, surely, perhaps].iter().zip(&loads).all(|(end, load)| load.ends_with(end)),
            "{loads:?}"
        );
        let text = cuda(rows(quote!(), centred()));
        assert!(text.contains("j_edge = min((N / 512) * 512, j_kept);"), "{text}");
        assert!(!lines.contains(&"barrier".to_string()), "a thread reads what it kept itself: {lines:?}");
    }

    #[test]
    fn rows_of_other_coordinates_are_other_rows() {
        let shifted = quote! {
            let mut total = zeros::<f32>(i);
            tile!(for j in N { total += x[(i, j)].to::<f32>().row_sum(); });
            tile!(for j in N { y[(i, j)] = (x[(i - 1, j)].to::<f32>() - total).to(); });
        };
        assert_eq!(program(rows(quote!(), shifted)).kept.map(|rows| rows.tiles.len()), Some(2));
    }

    #[test]
    fn columns_that_a_loop_walks_down_are_not_rows() {
        let program = program(quote! {
            fn f<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, y: &mut Tensor<f32, (N,)>) {
                tile!(for j in N {
                    let mut total = zeros::<f32>(j);
                    tile!(for i in M { total += x[(i, j)].to::<f32>().col_sum(); });
                    y[j] = total;
                });
            }
        });
        assert!(program.kept.is_none());
    }

    #[test]
    fn two_tensors_share_the_room() {
        let both = quote! {
            let mut total = zeros::<f32>(i);
            tile!(for j in N { total += (x[(i, j)].to::<f32>() + z[(i, j)].to::<f32>()).row_sum(); });
            tile!(for j in N { y[(i, j)] = (x[(i, j)].to::<f32>() + z[(i, j)].to::<f32>() - total).to(); });
        };
        let kept = program(rows(quote!(z: &Tensor<f16, (M, N)>,), both)).kept.expect("kept rows");
        assert_eq!((kept.tiles.len(), kept.most_blocks), (2, 12));
    }

    #[test]
    fn what_does_not_fit_is_read_again() {
        let text = cuda(rows(quote!(), centred()));
        assert!(text.contains("if (j_20 < j_kept) {"), "{text}");
    }
}
