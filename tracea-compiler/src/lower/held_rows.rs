//! Rows along flat axes in scalar loops: what a row has for itself of its place takes divisions, and is worked out before the loops; a step
//! adds what is the same for all rows.
//!
//! ```text
//! for r { for s { … x[(n, p + r - pad, q + s - pad, c)] … } }       (n, p, q) = npq.coords()
//! ```
//! becomes
//! ```text
//! rows = (n, p, q, 0) of each of this thread's rows
//! for r { for s { … rows + (0, r - pad, s - pad, c) … } }
//! ```

use super::Lowering;
use super::separable;
use crate::nest::{AxisId, AxisKind, Extent, Int};
use crate::program::{AccessForm, Domain, Held, Parts, Stmt};

impl Lowering<'_> {
    /// Of the loop that was lowered last, and of those inside of it, all of them scalar.
    pub fn hold_rows(&mut self, from: usize) {
        let mut loops = self.out.split_off(from);
        let mut held = Vec::new();
        self.hold_in(&mut loops, false, &mut held);
        self.out.extend(held);
        self.out.extend(loops);
    }

    fn hold_in(&mut self, stmts: &mut Vec<Stmt>, in_loop: bool, held: &mut Vec<Stmt>) {
        for stmt in stmts.iter_mut() {
            match stmt {
                Stmt::For { var, body, .. } if self.is_scalar_loop(var) => self.hold_in(body, true, held),
                Stmt::Load { .. } if in_loop => self.hold(stmt, held),
                _ => {}
            }
        }
        // Inner loops' go before this one.
        if in_loop {
            held.extend(stmts.extract_if(.., |stmt| matches!(stmt, Stmt::HoldRows { .. })));
        }
    }

    fn hold(&mut self, load: &mut Stmt, held: &mut Vec<Stmt>) {
        let Stmt::Load { target, source, kept: None } = load else { return };
        let Domain::Tile(layout) = self.program.var(*target).domain else { return };
        let AccessForm::Contiguous { rows: Some(rows), cols } = source.form else { return };
        let is_flat = matches!(self.nest.axis(rows).extent, Extent::Flat(_));
        if !is_flat || rows == cols || source.held.is_some() {
            return;
        }
        let Some(Parts { rows: step, columns: own }) = separable::parts(&source.index, rows) else { return };
        if own.iter().all(|part| *part == Int::Const(0)) {
            return;
        }
        let known = held.iter().find_map(|stmt| match stmt {
            Stmt::HoldRows { layout: known, access } if *known == layout && access.tensor == source.tensor => {
                let same = (&access.limits, &access.inside) == (&source.limits, &source.inside);
                access.held.as_ref().filter(|held| same && held.own == own).map(|held| held.name.clone())
            }
            _ => None,
        });
        let name = known.clone().unwrap_or_else(|| {
            let tensor = self.names.tensor(source.tensor.index()).to_string();
            self.names.fresh(&format!("{tensor}_rows"))
        });
        source.held = Some(Held { name, own, step });
        if known.is_none() {
            held.push(Stmt::HoldRows { layout, access: source.clone() });
        }
    }

    fn is_scalar_loop(&self, var: &str) -> bool {
        let mut axes = (0..self.nest.axes.len()).map(|at| AxisId(at as u32));
        axes.any(|axis| self.nest.axis(axis).kind == AxisKind::Each && self.names.axis(axis) == var)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{cuda, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// A window of 3 × 3 over channels of images, or of rows.
    fn window(item: TokenStream) -> TokenStream {
        quote! {
            #[schedule(sm_80, npq = 32, c = 64, warps = (8, 1))]
            fn f<N: Dim, H: Dim, W: Dim, C: Dim>(
                x: &Tensor<f16, (N, H, W, C)>, z: &Tensor<f16, (N, H, W, C)>, rows: &Tensor<f16, (H, C)>, y: &mut Tensor<f32, (N, H, W, C)>, pad: i32,
            ) {
                tile!(for (npq, c) in (flat(N, H, W), C) {
                    let (n, p, q) = npq.coords();
                    let mut acc = zeros::<f32>((npq, c));
                    tile!(for (r, s) in (each(Const::<3>), each(Const::<3>)) { #item });
                    y[(n, p, q, c)] = acc;
                });
            }
        }
    }

    fn printed(item: TokenStream) -> Vec<String> {
        let text = program(item).to_string();
        let wanted = |line: &&str| ["for r", "for s", "hold", "load"].iter().any(|word| line.starts_with(word));
        text.lines().map(str::trim).filter(wanted).map(str::to_string).collect()
    }

    #[test]
    fn divisions_come_before_the_loops() {
        let item = quote!(acc += x[(n, p + r - pad, q + s, c)].to::<f32>(););
        let text = cuda(window(item));
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let begin = lines.iter().position(|line| line.starts_with("PlacePart<2> x_rows[")).expect("held rows");
        let end = lines.iter().position(|line| line.starts_with("load_tile_vec<")).expect("a load");
        let divisions = |lines: &[&str]| lines.iter().filter(|line| line.contains(".div(")).count();
        assert_eq!((divisions(&lines[begin..end]) > 0, divisions(&lines[end - 5..=end])), (true, 0), "{text}");
        assert_eq!(
            lines[end - 4..=end],
            [
                "float x_tile[NpqCTile::size];",
                "{",
                "const int x_at1 = r - pad;",
                "const int x_at2 = s;",
                "load_tile_vec<NpqCTile, ALIGN_X, true>(x_tile, HeldRows<f16, 2, NpqCTile::row_size>{x_rows, \
                 x + x_at1 * x_stride1 + x_at2 * x_stride2 + c0, {x_at1, x_at2}, AxisSizes<2>{H, W}}, C - c0);",
            ]
        );
    }

    #[test]
    fn loads_of_the_same_rows_share_them() {
        let both = quote!(acc += x[(n, p + r, q + s, c)].to::<f32>() * x[(n, p + r, q - s, c)].to::<f32>(););
        assert_eq!(printed(window(both))[..3], ["hold rows of x by rows", "for r", "for s"]);
        let other = quote!(acc += x[(n, p + r, q + s, c)].to::<f32>() * z[(n, p + r, q + s, c)].to::<f32>(););
        let printed = printed(window(other));
        assert_eq!(printed.iter().filter(|line| line.starts_with("hold")).count(), 2, "{printed:?}");
    }

    #[test]
    fn what_is_no_sum_and_what_has_no_division_is_not_held() {
        let held = |item| printed(window(item)).iter().any(|line| line.starts_with("hold"));
        assert!(held(quote!(acc += x[(n, p * 2 + r, q + s, c)].to::<f32>();)));
        assert!(!held(quote!(acc += x[(n, p * r, q + s, c)].to::<f32>();)), "rows that a step spreads");
        assert!(!held(quote!(acc += rows[(r + s, c)].to::<f32>();)), "the same for all rows");
    }
}
