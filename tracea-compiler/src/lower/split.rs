//! Sums whose terms several blocks share out.
//!
//! ```text
//! for k { acc += dot(a[(i, k)], b[(k, j)]) }      steps [first, last) of all, by this block's part
//! c[(i, j)] = acc                                 leave the part in a workspace; the block that comes last adds all up and goes on,
//!                                                 or all share that out (`results::dealing`)
//! ```
//! Where the grid has fewer tiles than the device has multiprocessors, or leaves a few tiles over when each multiprocessor has had as
//! many, the launch cuts a kernel's one loop into parts, for all tiles or, where there is a dot, for the last ones. That is
//! possible where all that the loop carries are sums, or greatest or least values, of terms that do not read them.

use super::analysis::is_tiled;
use super::loops::nest_of;
use super::{Lowering, rejoined};
use crate::nest::{AxisId, Block, Loop, Nest, Stmt as NestStmt, ValueId};
use crate::plan;
use crate::program::layout::LayoutKind;
use crate::program::{
    Domain, IntText, Left, Param, ParamType, Part, Rejoin, Relative, Scalar, Split, Stmt, VarId, WholeTiles,
};
use crate::schedule::WARPGROUP;

/// Parts of a tile: adding up many takes longer than they save.
const MOST_OF_TILES: u32 = 16;
/// Parts of slices, which are small and read side by side.
const MOST_OF_SLICES: u32 = 1024;

/// The loop that can be cut, and how each of the values that it carries is put together again.
pub fn find(nest: &Nest) -> Option<(&Loop, Vec<Rejoin>)> {
    let mut loops = nest.body.stmts.iter().filter_map(|stmt| match stmt {
        NestStmt::Loop(inner) => Some(inner),
        _ => None,
    });
    let (outer, None) = (loops.next()?, loops.next()) else { return None };
    let before = nest.body.stmts.iter().take_while(|stmt| !matches!(stmt, NestStmt::Loop(_)));
    let levels = nest_of(outer);
    let innermost = levels[levels.len() - 1];
    if outer.carried.is_empty() || stores(&innermost.body) {
        return None;
    }
    if before.into_iter().any(|stmt| matches!(stmt, NestStmt::Store { .. })) {
        return None;
    }
    rejoined::of_parts(nest, outer, innermost).map(|ways| (outer, ways))
}

fn stores(block: &Block) -> bool {
    block.stmts.iter().any(|stmt| match stmt {
        NestStmt::Store { .. } => true,
        NestStmt::Loop(inner) => stores(&inner.body),
        NestStmt::Value(_) => false,
    })
}

/// What blocks do that leave a tile to another one.
pub fn leaving(body: &mut [Stmt]) -> Option<&mut Vec<Stmt>> {
    body.iter_mut().rev().find_map(|stmt| match stmt {
        Stmt::JoinParts { leaving, .. } => Some(leaving),
        _ => None,
    })
}

impl Lowering<'_> {
    /// Whether the loop over the axis is cut into parts.
    pub fn is_split(&self, axis: AxisId) -> bool {
        self.program.split.as_ref().is_some_and(|split| split.axis == axis)
    }

    /// Makes room for the parts, before anything counts the loop's steps.
    pub fn prepare_split(&mut self) {
        // Warpgroups with tiles of their own share those out.
        let may_be_cut = !self.schedule.pingpong && self.program.skew.is_none();
        let whole = |outer: &Loop| outer.from.is_none() && outer.until.is_none();
        let plain = |outer: &Loop| is_tiled(self.nest, outer.axis) && whole(outer);
        let cut = |outer: &Loop| may_be_cut && (self.brings_operands(outer) || plain(outer));
        let Some((outer, ways)) = find(self.nest).filter(|(outer, _)| cut(outer)) else { return };
        let [parts, by_all_parts, workspace, arrived] =
            ["parts", "by_all_parts", "workspace", "arrived"].map(|name| self.names.fresh(name));
        let shares_operands = !self.facts.dots.is_empty();
        let whole = shares_operands.then(|| {
            let [count, by_cut, work] = ["whole_tiles", "by_cut_tiles", "work"].map(|name| self.names.fresh(name));
            WholeTiles { count, by_cut, work }
        });
        let (part, parts_here, tile) = match &whole {
            Some(WholeTiles { count, by_cut, work }) => {
                for (name, ty, arg) in [
                    (count, ParamType::Int, plan::Arg::WholeTiles),
                    (by_cut, ParamType::FastDiv, plan::Arg::DivideByCutTiles),
                ] {
                    self.program.params.push(Param { name: name.clone(), ty, arg });
                }
                (format!("{work}.part"), format!("{work}.parts"), format!("{work}.tile"))
            }
            None => {
                let [part, parts_here, tile] = ["part", "parts_here", "tile"].map(|name| self.names.fresh(name));
                (part, parts_here, tile)
            }
        };
        for (name, ty, arg) in [
            (&parts, ParamType::Int, plan::Arg::Parts),
            (&by_all_parts, ParamType::FastDiv, plan::Arg::DivideByParts),
            (&workspace, ParamType::Workspace, plan::Arg::Workspace),
            (&arrived, ParamType::Counts, plan::Arg::Arrivals),
        ] {
            self.program.params.push(Param { name: name.clone(), ty, arg });
        }
        self.program.split = Some(Split {
            axis: outer.axis,
            ways,
            part,
            parts,
            by_all_parts,
            whole,
            parts_here,
            panels_here: self.names.fresh("panels_here"),
            workspace,
            arrived,
            first: self.names.fresh("first_step"),
            tile,
            floats: 0,
            most_parts: 1,
            shares: 0,
        });
    }

    /// This block's share of the steps: names its first, and answers with their number.
    pub fn share_of(&mut self, steps: IntText) -> IntText {
        let Some(split) = self.program.split.clone() else { return steps };
        let at = |part: IntText| IntText::Share {
            steps: Box::new(steps.clone()),
            part: Box::new(part),
            parts: Box::new(IntText::name(&split.parts_here)),
            by_all_parts: split.by_all_parts.clone(),
        };
        self.out.push(Stmt::Let { name: split.first.clone(), value: at(IntText::name(&split.part)) });
        let end = at(IntText::name(&split.part).plus(IntText::Const(1)));
        IntText::Sub(Box::new(end), Box::new(IntText::name(split.first)))
    }

    /// Whether the loop brings a dot's operands from tensors, step by step.
    fn brings_operands(&self, outer: &Loop) -> bool {
        let levels = nest_of(outer);
        !self.operands_of(levels[levels.len() - 1]).is_empty()
    }

    /// The same for a loop that brings none: names the coordinates where this block's part begins and ends.
    pub fn share_plain(&mut self, inner: &Loop) {
        if !self.is_split(inner.axis) || self.brings_operands(inner) {
            return;
        }
        let axis = inner.axis;
        let block = self.schedule.blocks[axis.index()].unwrap_or(1);
        let stem = self.names.axis(axis).to_string();
        let [all, steps, first, until] =
            ["all_steps".to_string(), "steps".into(), format!("{stem}_first"), format!("{stem}_until")]
                .map(|name| self.names.fresh(&name));
        let value = IntText::CeilDiv(Box::new(IntText::Extent(axis)), block);
        self.out.push(Stmt::Let { name: all.clone(), value });
        let value = self.share_of(IntText::name(all));
        self.out.push(Stmt::Let { name: steps.clone(), value });
        let first_step = self.program.split.as_ref().map_or(String::new(), |split| split.first.clone());
        self.out.push(Stmt::Let { name: first.clone(), value: IntText::name(first_step).times(block) });
        let end = IntText::name(&first).plus(IntText::name(steps).times(block));
        let value = IntText::Min(Box::new(end), Box::new(IntText::Extent(axis)));
        self.out.push(Stmt::Let { name: until.clone(), value });
        self.split_range = Some((first, until));
    }

    /// What blocks do that leave a tile to another one, where the loop before has been cut into parts.
    pub fn leaving(&mut self) -> Option<&mut Vec<Stmt>> {
        leaving(&mut self.out)
    }

    /// After the loop: the values that it carried become the sums of all parts, in the block that comes last.
    pub fn join_parts(&mut self, running: &[VarId]) {
        let Some(mut split) = self.program.split.clone() else { return };
        let mut values = Vec::new();
        let mut only_slices = true;
        for (var, way) in running.iter().zip(&split.ways) {
            let domain = self.program.var(*var).domain;
            let layout = |id| self.program.layout(id);
            let (part, floats) = match domain {
                Domain::Once => (Part::Number, 1),
                Domain::Cols(id) if matches!(layout(id).kind, LayoutKind::Blocked { .. }) => {
                    (Part::Columns, layout(id).cols)
                }
                Domain::Rows(id) if matches!(layout(id).kind, LayoutKind::Blocked { .. }) => {
                    (Part::Rows, layout(id).rows)
                }
                Domain::Tile(id) => (Part::Registers, layout(id).size() * self.program.threads),
                Domain::Rows(id) => (Part::Registers, layout(id).row_size() * self.program.threads),
                Domain::Cols(id) => (Part::Registers, layout(id).col_size() * self.program.threads),
            };
            only_slices &= part != Part::Registers;
            // Threads that hold the same one pass their shares between warps.
            let (warps, each) = match domain {
                Domain::Rows(id) => (layout(id).parts_along_cols(), layout(id).rows),
                Domain::Cols(id) => (layout(id).parts_along_rows(), layout(id).cols),
                Domain::Tile(_) | Domain::Once => (1, 0),
            };
            if warps > 1 {
                self.scratch = self.scratch.max(4 * warps * each);
            }
            let op = match way {
                Rejoin::Reduced(op) => Some(*op),
                Rejoin::Relative { .. } => None,
            };
            values.push(Left { var: *var, op, part, offset: split.floats });
            split.floats += floats.next_multiple_of(4);
        }
        let relative = self.relative(&split.ways, &values);
        split.most_parts = if only_slices && relative.is_empty() { MOST_OF_SLICES } else { MOST_OF_TILES };
        self.program.split = Some(split);
        self.out.push(Stmt::JoinParts { values, relative, leaving: Vec::new() });
    }

    /// Sums that are relative to a part's own extreme, by that and by how they fade.
    fn relative(&mut self, ways: &[Rejoin], values: &[Left]) -> Vec<Relative> {
        let mut found: Vec<((ValueId, usize), Relative)> = Vec::new();
        for (way, sum) in ways.iter().zip(values) {
            let Rejoin::Relative { fade, extreme } = *way else { continue };
            if let Some((_, known)) = found.iter_mut().find(|(key, _)| *key == (fade, extreme)) {
                known.sums.push(*sum);
                continue;
            }
            let all = values[extreme];
            let (name, domain) = (self.program.var(all.var).name.clone(), self.program.var(all.var).domain);
            let [own, weight] = ["left", "weight"].map(|what| {
                let var = self.declare(&format!("{name}_{what}"), Scalar::Float, domain);
                self.out.pop();
                var
            });
            let weigh = self.weight(fade, own, all.var);
            // Beside three warpgroups' tiles there is room for fewer.
            let slices_at_a_time = if self.program.threads > 2 * WARPGROUP { 2 } else { 4 };
            let sums = vec![*sum];
            found.push(((fade, extreme), Relative { extreme: all, own, weight, weigh, sums, slices_at_a_time }));
        }
        found.into_iter().map(|(_, relative)| relative).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{cuda, gemm, gram, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn column(body: TokenStream) -> TokenStream {
        quote! {
            fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N,)>) {
                tile!(for j in N { #body });
            }
        }
    }

    fn is_split(item: TokenStream) -> bool {
        program(item).split.is_some()
    }

    #[test]
    fn sums_and_products_are_cut_into_parts() {
        assert!(is_split(gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2)))));
        assert!(is_split(column(quote! {
            let mut total = zeros::<f32>(j);
            tile!(for i in M { total += x[(i, j)].col_sum(); });
            y[j] = total;
        })));
        assert!(is_split(column(quote! {
            let mut most = full::<f32>(j, f32::NEG_INFINITY);
            tile!(for i in M { most = most.max(x[(i, j)].col_max()); });
            y[j] = most;
        })));
    }

    #[test]
    fn each_part_may_begin_with_a_least_value_but_not_with_a_term() {
        assert!(is_split(column(quote! {
            let mut most = zeros::<f32>(j);
            tile!(for i in M { most = most.max(x[(i, j)].abs().col_max()); });
            y[j] = most;
        })));
        assert!(!is_split(column(quote! {
            let mut total = full::<f32>(j, 1.0);
            tile!(for i in M { total += x[(i, j)].col_sum(); });
            y[j] = total;
        })));
    }

    /// The second product's operand comes whether this block is the last one or not.
    #[test]
    fn blocks_that_leave_give_back_what_came_for_the_rest() {
        let text = cuda(quote! {
            #[schedule(sm_90a, i = 64, j = 64, k = 64, stages = 2, consumers = 1)]
            fn f<M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (M, K)>, u: &Tensor<f16, (K, Const<64>)>, v: &Tensor<f16, (Const<64>, N)>,
                c: &mut Tensor<f32, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut low = zeros::<f32>((i, ..));
                    tile!(for k in K { low += dot(a[(i, k)], u[(k, ..)]); });
                    c[(i, j)] = dot(low.to::<f16>(), v[(.., j)]);
                });
            }
        });
        let (_, rest) = text.split_once("if (!last_to_arrive(").expect("parts");
        let (left, _) = rest.split_once("continue;").expect("the next tile");
        for line in ["mbarrier_wait(v_ready_full, ", "mbarrier_arrive(v_ready_empty)", "++once_visits;"] {
            assert!(left.contains(line), "{line}\n{text}");
        }
    }

    /// Both operands are computed, so that no ring brings them.
    #[test]
    fn a_loop_that_feeds_no_ring_runs_over_its_part_alone() {
        for (schedule, join) in [
            (quote!(sm_80, i = 64, j = 64, m = 32, stages = 2, warps = (2, 2)), "read_parts<Sum, THREADS>(acc, "),
            (quote!(sm_90a, i = 64, j = 64, m = 64, stages = 2, consumers = 1), "join_panels<Sum, "),
        ] {
            let text = cuda(gram(quote!(#[schedule(#schedule)])));
            assert!(text.contains("for (int m0 = m_first; m0 < m_until; m0 += "), "{text}");
            assert!(text.contains(join), "{text}");
        }
    }

    #[test]
    fn what_reads_itself_is_not() {
        assert!(!is_split(column(quote! {
            let mut total = zeros::<f32>(j);
            tile!(for i in M { total += (x[(i, j)] * total).col_sum(); });
            y[j] = total;
        })));
        assert!(!is_split(column(quote! {
            let mut total = full::<f32>(j, 1.0);
            tile!(for i in M { total += x[(i, j)].col_sum(); });
            y[j] = total;
        })));
    }

    #[test]
    fn two_loops_are_not() {
        assert!(!is_split(column(quote! {
            let mut total = zeros::<f32>(j);
            tile!(for i in M { total += x[(i, j)].col_sum(); });
            let mut squares = zeros::<f32>(j);
            tile!(for i in M { let d = x[(i, j)] - total; squares += (d * d).col_sum(); });
            y[j] = squares;
        })));
    }

    #[test]
    fn the_last_block_goes_on() {
        let text = cuda(gemm(quote!(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2))));
        assert!(
            text.contains("if (!last_to_arrive(arrived + (work.tile - whole_tiles), work.parts)) return;"),
            "{text}"
        );
        assert!(text.contains("read_parts<Sum, THREADS>(acc, "), "{text}");
    }

    /// A launch that cuts no tile has code of its own, in which nothing depends on parts.
    #[test]
    fn whether_tiles_are_cut_is_known_to_the_assembler() {
        let text = cuda(gemm(quote!(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2)));
        assert!(text.contains("constexpr bool CUT = TRACEA_CUT;"), "{text}");
        assert_eq!(text.matches("const CutTile work = cut_tile<CUT>(").count(), 2, "{text}");
        assert!(text.contains("if (!has_panel(panels_here, panel)) continue;"));
        let of_column = column(quote! {
            let mut total = zeros::<f32>(j);
            tile!(for i in M { total += x[(i, j)].col_sum(); });
            y[j] = total;
        });
        let text = cuda(of_column);
        assert!(text.contains("constexpr bool CUT = TRACEA_CUT;"), "{text}");
        assert!(text.contains("const int parts_here = CUT ? parts : 1;"), "{text}");
        assert!(text.contains("if (parts_here > 1) {"), "{text}");
    }
}
