//! Loops without dots run their whole blocks apart from a partial last one: only that masks and counts columns.
//!
//! ```text
//! for j in N { sum += x[(i, j)].row_sum() }
//! ```
//! becomes
//! ```text
//! for j0 in 0..j_edge { the body, where all of the block exists }
//! if j_edge < N { the body at j0 = j_edge, masked }
//! ```
//! Of rows that are kept, the first loop is over the blocks that are, and another one, masked, over all that is left.

use super::Lowering;
use super::analysis::is_tiled;
use super::loops::{Level, less};
use crate::nest::Stmt as NestStmt;
use crate::program::{Divisor, IntText, Stmt, VarId};
use crate::schedule::ScheduleError;

impl Lowering<'_> {
    /// Whether that is worth writing the body twice.
    pub fn has_edge(&self, level: &Level) -> bool {
        let inner = level.inner;
        let flat = inner.body.stmts.iter().all(|stmt| !matches!(stmt, NestStmt::Loop(_)));
        let whole = inner.from.is_none() && inner.until.is_none();
        self.facts.dots.is_empty()
            && !self.is_skewed(inner.axis)
            && flat
            && whole
            && is_tiled(self.nest, inner.axis)
            && self.partial(inner.axis)
    }

    pub fn edged(&mut self, level: &Level, running: &[VarId]) -> Result<(), ScheduleError> {
        let axis = level.inner.axis;
        let block = self.schedule.blocks[axis.index()].unwrap_or(1);
        let stem = self.names.axis(axis).to_string();
        let (from, until) = self.plain_range(level);
        let edge = self.names.fresh(&format!("{stem}_edge"));
        let last = IntText::Quotient(Box::new(until.clone()), Divisor::Const(i64::from(block))).times(block);
        let kept = self.kept_until(level.inner, &from);
        let last = match kept.clone() {
            Some(kept) => IntText::Min(Box::new(last), Box::new(kept)),
            None => last,
        };
        let value = match &from {
            IntText::Const(0) => last,
            from => IntText::Max(Box::new(from.clone()), Box::new(last)),
        };
        self.out.push(Stmt::Let { name: edge.clone(), value });

        let (vars, masked) = (self.vars.clone(), self.masked.clone());
        self.inside.insert(axis);
        self.surely_kept = kept.is_some();
        let body = self.nested(|this| this.step(level, running));
        self.surely_kept = false;
        self.inside.remove(&axis);
        (self.vars, self.masked) = (vars, masked);
        let walk = |from: IntText, until: IntText, body: Vec<Stmt>| Stmt::For {
            var: format!("{stem}0"),
            from,
            until,
            step: IntText::Const(block.into()),
            unroll: false,
            body,
        };
        self.out.push(walk(from, IntText::name(&edge), body?));
        if kept.is_some() {
            let body = self.nested(|this| this.step(level, running))?;
            self.out.push(walk(IntText::name(&edge), until, body));
            return Ok(());
        }

        let body = self.nested(|this| {
            this.out.push(Stmt::Let { name: format!("{stem}0"), value: IntText::name(&edge) });
            this.step(level, running)
        })?;
        let condition = match until {
            IntText::Name(until) => less(&edge, &until),
            until => IntText::Less(Box::new(IntText::name(&edge)), Box::new(until)),
        };
        self.out.push(Stmt::If { condition, body });
        Ok(())
    }

    fn step(&mut self, level: &Level, running: &[VarId]) -> Result<(), ScheduleError> {
        self.await_kept(level.inner.axis);
        self.block(&level.inner.body)?;
        self.finish_running(level.inner, running)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{cuda, lines, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn sums(columns: TokenStream) -> TokenStream {
        let range: TokenStream = columns.to_string().replace('<', "::<").parse().expect("a dim");
        let dims = [&columns].into_iter().filter(|dim| dim.to_string().len() == 1);
        quote! {
            #[schedule(sm_80, i = 4, j = 512)]
            fn f<M: Dim, #(#dims: Dim)*>(x: &Tensor<f32, (M, #columns)>, y: &mut Tensor<f32, (M,)>) {
                tile!(for i in M {
                    let mut sum = zeros::<f32>(i);
                    tile!(for j in #range { sum += x[(i, j)].exp().row_sum(); });
                    y[i] = sum;
                });
            }
        }
    }

    fn count(lines: &[String], start: &str) -> usize {
        lines.iter().filter(|line| line.starts_with(start)).count()
    }

    #[test]
    fn only_the_edge_is_masked() {
        let lines = lines(&program(sums(quote!(N))));
        assert_eq!((count(&lines, "load x_tile"), count(&lines, "mask edge")), (2, 1), "{lines:?}");
        let at = |start: &str| lines.iter().position(|line| line.starts_with(start));
        assert!(at("if") < at("mask edge"), "{lines:?}");
    }

    #[test]
    fn blocks_that_always_exist_are_written_once() {
        let lines = lines(&program(sums(quote!(Const<4096>))));
        assert_eq!((count(&lines, "load x_tile"), count(&lines, "mask edge")), (1, 0), "{lines:?}");
    }

    #[test]
    fn whole_blocks_do_not_count_columns() {
        let text = cuda(quote! {
            #[schedule(sm_80, i = 4, j = 512)]
            fn f<M: Dim, N: Dim>(y: &mut Tensor<f32, (M, N)>) {
                tile!(for i in M {
                    tile!(for j in N { y[(i, j)] = y[(i, j)].exp(); });
                });
            }
        });
        assert!(text.contains("}, {BLOCK_J, N - j0});"), "{text}");
        assert!(text.contains("if (j_edge < N)"), "{text}");
    }

    /// Where the loop is cut into parts, each keeps what it has of the rows.
    #[test]
    fn parts_run_what_they_keep_apart_from_the_rest() {
        let text = cuda(sums(quote!(N)));
        let edge = "const int j_edge = max(j_first, min((j_until / 512) * 512, j_first + j_kept));";
        assert!(text.contains(edge), "{text}");
        let (_, kept) = text.split_once("for (int j0 = j_first; j0 < j_edge; j0 += 512) {").expect("whole blocks");
        let (kept, _) = kept.split_once("for (int j0 = j_edge; j0 < j_until; j0 += 512) {").expect("the rest");
        assert!(kept.contains("load_kept_once") && !kept.contains("load_tile_vec"), "{text}");
    }
}
