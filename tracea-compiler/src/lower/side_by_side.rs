//! Products of one operand with two others, by the same instructions.
//!
//! ```text
//! dot g += x . gate
//! dot u += x . up        →      dot g, u += x . gate, up
//! ```
//! So tensor cores read the operand that both have once: of tiles that lie one behind the other, with columns that go on from the first one's to
//! the second one's. Measured on an H100: two products of 8192 x 28672 x 8192 by 128 columns each take 10.8 ms so, and 11.1 one after the other,
//! which takes as much power as there is.

use super::Lowering;
use super::overlap::runs_alone;
use crate::program::shared::{Shared, SharedId};
use crate::program::{Beside, Dot, Major, Operand, Stmt};

/// Columns of an instruction.
const MOST_COLUMNS: u32 = 256;
/// A row of a panel, bytes.
const PANEL_BYTES: u32 = 128;

impl Lowering<'_> {
    /// A step's statements with its first two products joined, where they can be.
    pub fn side_by_side(&mut self, body: Vec<Stmt>) -> Vec<Stmt> {
        let Some((first, second)) = neighbours(&body) else { return body };
        let (Stmt::Dot(left), Stmt::Dot(right)) = (&body[first], &body[second]) else { return body };
        let Some((left_tile, right_tile)) = self.tiles_to_join(left, right) else { return body };
        let beside = Some(Beside { target: right.target, b: right.b.clone() });
        let joined = Stmt::Dot(Dot { beside, ..left.clone() });
        let results = vec![left.target, right.target];
        let (between, after) = (&body[first + 2..second], &body[second + 2..]);
        let (waits, releases): (Vec<Stmt>, Vec<Stmt>) = between
            .iter()
            .filter(|stmt| !matches!(stmt, Stmt::Line(_)))
            .cloned()
            .partition(|stmt| matches!(stmt, Stmt::WaitFull(_)));
        let joined = [joined, Stmt::DotWait { pending: 0, results }];
        self.lay_behind(left_tile, right_tile);
        body[..first].iter().cloned().chain(waits).chain(joined).chain(releases).chain(after.iter().cloned()).collect()
    }

    /// The tiles that would lie one behind the other.
    fn tiles_to_join(&self, left: &Dot, right: &Dot) -> Option<(SharedId, SharedId)> {
        let (
            Operand::Shared { shared: first, slot, major },
            Operand::Shared { shared: second, slot: other, major: across },
        ) = (&left.b, &right.b)
        else {
            return None;
        };
        let domain = |dot: &Dot| self.program.var(dot.target).domain;
        let alike = left.target != right.target
            && left.a == right.a
            && left.k == right.k
            && domain(left) == domain(right)
            && (slot, major) == (other, across);
        let (one, another) = (self.program.shared(*first), self.program.shared(*second));
        let shape = |shared: &Shared| (shared.dtype, shared.rows, shared.cols, shared.stages);
        let row = one.cols * one.dtype.bytes();
        let (columns, go_on) = match major {
            Major::K => (one.rows, row == PANEL_BYTES),
            Major::Mn => (one.cols, row.is_multiple_of(PANEL_BYTES)),
        };
        let apart =
            |shared: &Shared| shared.others == 0 && shared.pitch == shared.tile_bytes() && shared.host.is_none();
        let known = another.behind == Some(*first);
        let may_be_laid = first != second && (known || apart(one) && apart(another));
        let joins = alike && go_on && may_be_laid && shape(one) == shape(another) && 2 * columns <= MOST_COLUMNS;
        joins.then_some((*first, *second))
    }

    fn lay_behind(&mut self, first: SharedId, second: SharedId) {
        let tile = self.program.shared(first).tile_bytes();
        for (id, shared) in (0..).map(SharedId).zip(&mut self.program.shared) {
            let in_one = |place: SharedId| place == first || place == second;
            if in_one(id) || shared.host.is_some_and(in_one) {
                (shared.pitch, shared.others) = (2 * tile, tile);
            }
        }
        self.program.shared[second.0 as usize].behind = Some(first);
    }
}

/// Two products, each waited for, with nothing between them but what has to do with rings.
fn neighbours(body: &[Stmt]) -> Option<(usize, usize)> {
    let is_dot = |at: &usize| matches!(&body[*at], Stmt::Dot(dot) if runs_alone(dot) && dot.beside.is_none());
    let is_waited_for = |at: &usize| matches!(body.get(at + 1), Some(Stmt::DotWait { pending: 0, .. }));
    let first = (0..body.len()).find(is_dot).filter(is_waited_for)?;
    let second = (first + 1..body.len()).find(is_dot).filter(is_waited_for)?;
    let is_of_rings = |stmt: &Stmt| matches!(stmt, Stmt::Line(_) | Stmt::WaitFull(_) | Stmt::Release(_));
    body[first + 2..second].iter().all(is_of_rings).then_some((first, second))
}

#[cfg(test)]
mod tests {
    use crate::program::Program;
    use crate::testing::{cuda, gated, lines, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// Two products of x, each with a right operand of these indices.
    fn two(schedule: TokenStream, types: TokenStream, reads: TokenStream) -> TokenStream {
        quote! {
            #[schedule(sm_90a, #schedule)]
            fn f<M: Dim, N: Dim, K: Dim>(x: &Tensor<f16, (M, K)>, v: #types, w: #types, y: &mut Tensor<f32, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let mut left = zeros::<f32>((i, j));
                    let mut right = zeros::<f32>((i, j));
                    tile!(for k in K { #reads });
                    y[(i, j)] = left * right;
                });
            }
        }
    }

    fn across() -> (TokenStream, TokenStream) {
        let reads = quote! {
            left += dot(x[(i, k)], v[(k, j)]);
            right += dot(x[(i, k)], w[(k, j)]);
        };
        (quote!(&Tensor<f16, (K, N)>), reads)
    }

    fn dots(program: &Program) -> Vec<String> {
        lines(program).into_iter().filter(|line| line.starts_with("dot ")).collect()
    }

    #[test]
    fn two_products_of_an_operand_are_one_whose_tiles_lie_one_behind_the_other() {
        let item = gated(quote!(sm_90a, i = 128, j = 96, k = 64, stages = 3, consumers = 2));
        let program = program(item.clone());
        assert_eq!(dots(&program), ["dot g, u += x_ring (K-major) . gate_ring (K-major), up_ring (K-major) by Wgmma"]);
        let of = |name: &str| program.shared.iter().find(|shared| shared.name == name).expect("a ring");
        let (gate, up) = (of("gate_ring"), of("up_ring"));
        assert_eq!((gate.pitch, up.pitch), (2 * gate.tile_bytes(), 2 * gate.tile_bytes()));
        assert_eq!(up.offset, gate.offset + gate.tile_bytes());
        assert!(!gate.overlaps(up) && !gate.overlaps(of("x_ring")) && !up.overlaps(of("x_ring")));
        assert_eq!(program.scratch.0, 3 * (128 + 2 * 96) * 128 + of("f16_panels").bytes(), "no more room than before");
        let text = cuda(item);
        assert!(text.contains("wgdot_issue_beside<IJTile, 64>(g, u, "), "{text}");
        assert!(text.contains("tma_load(up_ring + slot * 12288, "), "{text}");
    }

    #[test]
    fn columns_go_on_by_whole_panels() {
        let (types, reads) = across();
        let count = |columns: u32| {
            let schedule = quote!(i = 128, j = #columns, k = 64, stages = 3, consumers = 2);
            dots(&program(two(schedule, types.clone(), reads.clone()))).len()
        };
        assert_eq!((count(64), count(128)), (1, 1));
        // More than an instruction has.
        let schedule = quote!(i = 64, j = 256, k = 64, stages = 2, consumers = 1);
        assert_eq!(dots(&program(two(schedule, types.clone(), reads.clone()))).len(), 2);
        // Of two panels of terms, the first one's columns would go on in the second.
        let along = quote! {
            left += dot(x[(i, k)], v[(j, k)].t());
            right += dot(x[(i, k)], w[(j, k)].t());
        };
        let schedule = quote!(i = 64, j = 64, k = 128, stages = 2, consumers = 1);
        assert_eq!(dots(&program(two(schedule, quote!(&Tensor<f16, (N, K)>), along))).len(), 2);
    }

    #[test]
    fn products_onto_one_sum_or_that_wait_for_each_other_stay_apart() {
        let (types, _) = across();
        let count = |reads: TokenStream| {
            let schedule = quote!(i = 64, j = 64, k = 64, stages = 3, consumers = 1);
            dots(&program(two(schedule, types.clone(), reads))).len()
        };
        assert_eq!(count(quote! { left += dot(x[(i, k)], v[(k, j)]); left += dot(x[(i, k)], w[(k, j)]); }), 2);
        assert_eq!(
            count(quote! { left += dot(x[(i, k)], v[(k, j)]); right += left; right += dot(x[(i, k)], w[(k, j)]); }),
            2
        );
    }
}
