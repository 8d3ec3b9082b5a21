//! Products: where each operand lies and what multiplies it.

use super::Lowering;
use super::analysis::{OperandSource, untransposed};
use super::loops::Resident;
use super::roles::Role;
use super::separable;
use crate::nest::{AxisId, Dtype, Op, ValueId};
use crate::program::layout::LayoutKind;
use crate::program::shared::{Shared, SharedId};
use crate::program::{AccessForm, Copy, Domain, Dot, Identity, Major, MathUnit, Operand, Stmt, VarId};
use crate::schedule::{ScheduleError, panel};

impl Lowering<'_> {
    /// Accumulates a dot onto `target`.
    pub fn dot(&mut self, id: ValueId, target: VarId) -> Result<(), ScheduleError> {
        self.masked.retain(|(var, ..)| *var != target);
        let Some(dot) = self.facts.dot(id) else {
            return Err(ScheduleError::new("a dot was not analysed -- this is a fault in the compiler"));
        };
        let (m, n, k, dtype) = (dot.m, dot.n, dot.k, dot.dtype);
        let (a_source, b_source) = (dot.a.clone(), dot.b.clone());
        let natural = self.program.var(target).domain;
        let Domain::Tile(layout) = natural else {
            return Err(ScheduleError::new("a dot's result spans two axes -- this is a fault in the compiler"));
        };
        if self.program.layout(layout).row_axis != Some(m) {
            return Err(ScheduleError::new(format!(
                "two dots give (`{}`, `{}`) tiles that are each other's transposes, which is not supported yet -- write one of them the other way round with .t()",
                self.nest.axis(m).name,
                self.nest.axis(n).name
            )));
        }
        let own_site = self.own_operands(id, [(&a_source, m), (&b_source, n)], k, dtype);
        let a = self.operand(&a_source, k, m, dtype, true)?;
        let b = self.operand(&b_source, k, n, dtype, false)?;
        let terms = self.terms(k);
        // Rows and columns past the edge take part in the product.
        self.masked.retain(|(var, ..)| *var != target);
        if self.role == Role::All {
            let unit = if dtype == Dtype::F32 { MathUnit::Fma } else { MathUnit::Mma };
            self.promise(match dtype {
                Dtype::F16 => "HMMA.16816.F32",
                Dtype::Bf16 => "HMMA.16816.F32.BF16",
                Dtype::Tf32 => "HMMA.1688.F32.TF32",
                _ => "FFMA",
            });
            self.out.push(Stmt::Dot(Dot { target, overwrite: false, k: terms, a, b, unit, beside: None }));
            return Ok(());
        }
        self.await_operands(id);
        self.promise("HGMMA");
        let overwrite = self.drop_zero(target);
        self.out.push(Stmt::Dot(Dot { target, overwrite, k: terms, a, b, unit: MathUnit::Wgmma, beside: None }));
        self.out.push(Stmt::DotWait { pending: 0, results: vec![target] });
        self.release_operands(id);
        if let Some((site, before)) = own_site {
            self.leave_once(&site);
            self.operands.truncate(before);
        }
        Ok(())
    }

    /// A consumer's dot outside of every feeding loop brings its operands itself.
    fn own_operands(
        &mut self,
        id: ValueId,
        sources: [(&OperandSource, AxisId); 2],
        k: AxisId,
        dtype: Dtype,
    ) -> Option<(super::rings::Site, usize)> {
        if self.role == Role::All {
            return None;
        }
        let mut missing: Vec<(Resident, Dtype)> = Vec::new();
        for (source, other) in sources {
            let OperandSource::Tensor { load, major, .. } = source else { continue };
            let wanted = self.resident_key(self.first_like(*load), *major, k, other);
            let mut known = self.operands.iter().chain(missing.iter().map(|(resident, _)| resident));
            if !known.any(|resident| resident.matches(&wanted)) {
                missing.push((wanted, dtype));
            }
        }
        let before = self.operands.len();
        (!missing.is_empty()).then(|| (self.consume_once(id, missing), before))
    }

    /// A product that was just set to zero is overwritten instead: true where the zeros went.
    fn drop_zero(&mut self, target: VarId) -> bool {
        let zero = self.out.iter().rposition(|stmt| {
            matches!(stmt, Stmt::Map { target: to, value: crate::program::Expr::Number(number), unless_all: None }
                if *to == target && *number == 0.0)
        });
        let Some(at) = zero else { return false };
        // Nothing between the zeros and the product touches the target.
        let untouched = self.out[at + 1..]
            .iter()
            .all(|stmt| matches!(stmt, Stmt::WaitFull(_) | Stmt::Line(_) | Stmt::Let { .. } | Stmt::Declare(_)));
        if untouched {
            self.out.remove(at);
        }
        untouched
    }

    pub fn promise(&mut self, sass: &str) {
        if !self.program.promised_sass.iter().any(|known| known == sass) {
            self.program.promised_sass.push(sass.to_string());
        }
    }

    fn operand(
        &mut self,
        source: &OperandSource,
        k: AxisId,
        other: AxisId,
        dtype: Dtype,
        is_a: bool,
    ) -> Result<Operand, ScheduleError> {
        match source {
            OperandSource::Tensor { load, major, .. } => {
                let (shared, slot) = self.resident(*load, *major, k, other, dtype)?;
                let fragments = self.role != Role::All && (dtype, *major) == (Dtype::Tf32, Major::Mn);
                Ok(match is_a && fragments {
                    true => Operand::Fragments { shared, slot },
                    false => Operand::Shared { shared, slot, major: *major },
                })
            }
            OperandSource::Computed { value } => self.computed_operand(*value, k, other, dtype, is_a),
        }
    }

    /// The shared tile that holds a tensor's operand, copied here and now if no loop has brought it.
    fn resident(
        &mut self,
        load: ValueId,
        major: Major,
        k: AxisId,
        other: AxisId,
        dtype: Dtype,
    ) -> Result<(SharedId, Option<crate::program::IntText>), ScheduleError> {
        let wanted = self.resident_key(self.first_like(load), major, k, other);
        if let Some(found) = self.operands.iter().rev().find(|resident| resident.matches(&wanted)) {
            return Ok((found.shared, found.slot.clone()));
        }
        let resident = self.fetch(wanted, dtype, 1, None);
        self.out.push(Stmt::Commit);
        self.out.push(Stmt::Wait(0));
        let answer = (resident.shared, None);
        Ok(answer)
    }

    pub fn resident_key(&self, load: ValueId, major: Major, k: AxisId, other: AxisId) -> Resident {
        let (rows, cols) = match major {
            Major::K => (other, k),
            Major::Mn => (k, other),
        };
        Resident { load, rows, cols, shared: SharedId(0), slot: None }
    }

    /// Makes the buffer and issues one copy into it.
    pub fn fetch(
        &mut self,
        mut wanted: Resident,
        dtype: Dtype,
        stages: u32,
        slot: Option<crate::program::IntText>,
    ) -> Resident {
        self.make_buffer(&mut wanted, dtype, stages, "shared");
        wanted.slot = slot.clone();
        self.copy(&wanted, slot);
        wanted
    }

    /// Shared memory for an operand's tile, `stages` times.
    pub fn make_buffer(&mut self, operand: &mut Resident, dtype: Dtype, stages: u32, suffix: &str) {
        let block = |axis: AxisId| self.schedule.blocks[axis.index()].unwrap_or(1);
        let Op::Load { tensor, .. } = &self.nest.value(operand.load).op else { return };
        let name = format!("{}_{suffix}", self.nest.tensor(*tensor).name);
        let (rows, cols) = (block(operand.rows), block(operand.cols));
        operand.shared = self.shared(&name, dtype, rows, cols, stages);
        let buffer = &mut self.program.shared[operand.shared.0 as usize];
        buffer.panels = self.role != Role::All;
        buffer.fed = self.role != Role::All;
    }

    pub fn copy(&mut self, resident: &Resident, slot: Option<crate::program::IntText>) {
        let Op::Load { tensor, index } = &self.nest.value(resident.load).op else { return };
        let source = self.access(*tensor, index, Some(resident.rows), Some(resident.cols));
        if matches!(source.form, AccessForm::Contiguous { .. }) {
            self.promise("LDGSTS");
        }
        let parts = match source.form {
            AccessForm::Scattered { .. } => separable::parts(index, resident.cols),
            AccessForm::Contiguous { .. } => None,
        };
        self.out.push(Stmt::Copy(Copy { shared: resident.shared, slot, source, parts }));
    }

    pub fn shared(&mut self, name: &str, dtype: Dtype, rows: u32, cols: u32, stages: u32) -> SharedId {
        let id = SharedId(self.program.shared.len() as u32);
        let name = self.names.fresh(name);
        self.program.shared.push(Shared::new(name, dtype, (rows, cols), stages));
        id
    }

    /// Smaller tiles, as panels, in the slots of a ring's buffer, so many in each.
    pub fn guests(
        &mut self,
        name: &str,
        dtype: Dtype,
        (rows, cols): (u32, u32),
        (host, of_a_slot): (SharedId, u32),
    ) -> SharedId {
        let Shared { stages, pitch, others, .. } = *self.program.shared(host);
        let id = self.shared(name, dtype, rows, cols, stages * of_a_slot);
        let buffer = &mut self.program.shared[id.0 as usize];
        (buffer.host, buffer.pitch, buffer.others) = (Some(host), pitch / of_a_slot, others);
        (buffer.panels, buffer.fed) = (true, true);
        id
    }

    /// An operand that was computed: an accumulator's registers as they are where they are A's rows, else by shared memory.
    fn computed_operand(
        &mut self,
        value: ValueId,
        k: AxisId,
        other: AxisId,
        dtype: Dtype,
        is_a: bool,
    ) -> Result<Operand, ScheduleError> {
        // The dot rounds as it packs, so the value before the conversion serves.
        let unrounded = match self.nest.value(value).op {
            Op::Cast(inner) if !self.vars.contains_key(&value) && self.nest.value(inner).ty.dtype == Dtype::F32 => {
                untransposed(self.nest, inner)
            }
            _ => value,
        };
        let var = self.materialize(unrounded)?;
        let Domain::Tile(layout) = self.program.var(var).domain else {
            return Err(ScheduleError::new(
                "a dot's operand does not span both of its axes -- broadcast it by an operation with a tile that does",
            ));
        };
        self.mask_edge(var, k, Identity::Zero);
        let shape = self.program.layout(layout);
        let (row, col, rows, cols) = (shape.row_axis, shape.col_axis, shape.rows, shape.cols);
        let one_warp_a_row = matches!(shape.kind, LayoutKind::Mma16816 { warps_n: 1, .. });

        let is_float = self.program.var(var).ty == crate::program::Scalar::Float;
        if is_a && one_warp_a_row && dtype != Dtype::F32 && is_float && (row, col) == (Some(other), k) {
            return Ok(Operand::Registers { value: var, ty: dtype });
        }
        if self.role != Role::All && !cols.is_multiple_of(panel(dtype)) {
            let (name, panel) = (&self.nest.axis(col).name, panel(dtype));
            let message = format!(
                "a computed operand is read by panels of {panel} along `{name}`, which a block of {cols} does not fill -- use a multiple of {panel}"
            );
            return Err(ScheduleError::about(name.clone(), message));
        }
        let shared = self.shared("staged", dtype, rows, cols, 1);
        self.out.push(Stmt::Stage { value: var, shared });
        self.program.shared[shared.0 as usize].panels = self.role != Role::All;
        let major = if col == k { Major::K } else { Major::Mn };
        Ok(Operand::Shared { shared, slot: None, major })
    }
}

#[cfg(test)]
mod tests {
    use crate::lower::lower_portfolio;
    use crate::schedule::target::find;
    use crate::testing::{gram, lines, lowered, nest, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn dots(item: TokenStream) -> Vec<String> {
        lines(&program(item)).into_iter().filter(|line| line.starts_with("dot") || line.starts_with("stage")).collect()
    }

    fn chain(warps: TokenStream) -> TokenStream {
        quote! {
            #[schedule(sm_80, i = 64, f = 64, stages = 2, warps = #warps)]
            fn mlp<M: Dim, F: Dim>(
                x: &Tensor<f16, (M, Const<64>)>, up: &Tensor<f16, (F, Const<64>)>, down: &Tensor<f16, (F, Const<64>)>,
                y: &mut Tensor<f32, (M, Const<64>)>,
            ) {
                tile!(for i in M {
                    let mut acc = zeros::<f32>((i, ..));
                    tile!(for f in F {
                        let h = dot(x[(i, ..)], up[(f, ..)].t()).exp();
                        acc += dot(h.to::<f16>(), down[(f, ..)]);
                    });
                    y[(i, ..)] = acc;
                });
            }
        }
    }

    #[test]
    fn a_computed_operand_stays_in_registers_where_a_warp_holds_its_rows() {
        let dots = dots(chain(quote!((4, 1))));
        assert_eq!(dots[1], "dot acc += h (registers) . down_ring (Mn-major) by Mma");
    }

    #[test]
    fn a_computed_operand_is_staged_where_warps_share_its_rows() {
        let dots = dots(chain(quote!((2, 2))));
        assert_eq!(dots[1..], ["stage staged <- h", "dot acc += staged (K-major) . down_ring (Mn-major) by Mma"]);
    }

    /// `wgmma` reads them by panels of 64.
    #[test]
    fn computed_operands_fill_panels() {
        let few = quote!(#[schedule(sm_90a, i = 16, j = 128, m = 128, stages = 2, consumers = 2, swapped = true)]);
        let error = lowered(gram(few)).map(|_| ()).expect_err("16 columns are no panel");
        assert_eq!(error.option.as_deref(), Some("i"), "{}", error.message);
        let (nest, _) = nest(gram(quote!()));
        let portfolio = lower_portfolio(&nest, find("sm_90a").expect("a target")).expect("schedules without few rows");
        let (first, staged): (Vec<_>, Vec<_>) =
            portfolio.iter().partition(|lowered| lowered.program.schedule.contains("precomputed"));
        assert!(!staged.is_empty() && staged.iter().all(|lowered| !lowered.schedule.swapped));
        assert!(first.iter().any(|lowered| lowered.schedule.swapped), "they come by rings");
    }

    fn product(a: TokenStream, b: TokenStream, dtype: TokenStream) -> Vec<String> {
        dots(quote! {
            #[schedule(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2))]
            fn f<N: Dim>(a: &Tensor<#dtype, (N, N)>, b: &Tensor<#dtype, (N, N)>, c: &mut Tensor<f32, (N, N)>) {
                tile!(for (i, j) in (N, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in N { acc += dot(#a, #b); });
                    c[(i, j)] = acc;
                });
            }
        })
    }

    #[test]
    fn operands_are_read_as_the_tensors_hold_them() {
        let of = |a, b| product(a, b, quote!(bf16));
        assert_eq!(
            of(quote!(a[(i, k)]), quote!(b[(k, j)])),
            ["dot acc += a_ring (K-major) . b_ring (Mn-major) by Mma"]
        );
        assert_eq!(
            of(quote!(a[(k, i)].t()), quote!(b[(j, k)].t())),
            ["dot acc += a_ring (Mn-major) . b_ring (K-major) by Mma"]
        );
    }

    #[test]
    fn f32_products_are_exact_unless_the_kernel_asks_for_tf32() {
        assert_eq!(
            product(quote!(a[(i, k)]), quote!(b[(k, j)]), quote!(f32)),
            ["dot acc += a_ring (K-major) . b_ring (Mn-major) by Fma"]
        );
        assert_eq!(
            product(quote!(a[(i, k)].to::<tf32>()), quote!(b[(k, j)].to::<tf32>()), quote!(f32)),
            ["dot acc += a_ring (K-major) . b_ring (Mn-major) by Mma"]
        );
    }

    /// The warp roles' dots for f32 tensors multiplied as tf32, or none where the target has none for them.
    fn by_warpgroups(a: TokenStream, b: TokenStream) -> Vec<String> {
        let (nest, _) = nest(quote! {
            fn f<N: Dim>(a: &Tensor<f32, (N, N)>, b: &Tensor<f32, (N, N)>, c: &mut Tensor<f32, (N, N)>) {
                tile!(for (i, j) in (N, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in N { acc += dot(#a, #b); });
                    c[(i, j)] = acc;
                });
            }
        });
        let target = find("sm_90a").expect("a known target");
        let portfolio = lower_portfolio(&nest, target).expect("a portfolio, or none");
        let reads = |line: &String| line.starts_with("dot") || line.starts_with("load");
        portfolio.iter().flat_map(|lowered| lines(&lowered.program)).filter(reads).collect()
    }

    #[test]
    fn warpgroups_multiply_tf32_however_it_lies() {
        let (a, turned_a) = (quote!(a[(i, k)].to::<tf32>()), quote!(a[(k, i)].to::<tf32>().t()));
        let (turned_b, b) = (quote!(b[(j, k)].to::<tf32>().t()), quote!(b[(k, j)].to::<tf32>()));
        let distinct = |a: &TokenStream, b: &TokenStream| {
            let mut dots = by_warpgroups(a.clone(), b.clone());
            dots.sort();
            dots.dedup();
            dots
        };
        let of = |first: &str, second: &str| format!("dot acc += {first} . {second} by Wgmma");
        assert_eq!(distinct(&a, &b), [of("b_ring (fragments)", "a_ring (K-major)")], "the other way round");
        let both_ways = [of("a_ring (K-major)", "b_ring (K-major)"), of("b_ring (K-major)", "a_ring (K-major)")];
        assert_eq!(distinct(&a, &turned_b), both_ways);
        let copied_for_few_rows =
            [of("a_ring (fragments)", "b_ring (K-major)"), of("b_ring (K-major)", "a_ring (K-major)")];
        assert_eq!(distinct(&turned_a, &turned_b), copied_for_few_rows);
        let one_is_copied =
            [of("a_ring (fragments)", "b_ring (K-major)"), of("b_ring (fragments)", "a_ring (K-major)")];
        assert_eq!(distinct(&turned_a, &b), one_is_copied);
    }

    #[test]
    fn tf32_that_is_read_both_ways_needs_no_copy() {
        let dots = by_warpgroups(quote!(a[(i, k)].to::<tf32>()), quote!(a[(k, j)].to::<tf32>()));
        assert!(!dots.is_empty());
        for line in dots {
            assert_eq!(line, "dot acc += a_ring (fragments) . a_ring_2 (K-major) by Wgmma");
        }
    }

    #[test]
    fn tf32_that_is_computed_by_the_block_is_left_to_warps() {
        let dots = by_warpgroups(quote!(a[(i, k)].exp().to::<tf32>()), quote!(b[(j, k)].to::<tf32>().t()));
        assert!(!dots.is_empty() && dots.iter().all(|line| line.contains("operand_ring")), "{dots:?}");
    }

    #[test]
    fn tf32_that_others_read_as_it_was_rounded_is_left_to_warps() {
        let split = quote! {
            fn f<M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>, lost: &mut Tensor<f32, (M,)>,
            ) {
                tile!(for i in M {
                    let mut rest = zeros::<f32>(i);
                    tile!(for j in N {
                        let mut acc = zeros::<f32>((i, j));
                        tile!(for k in K {
                            let big = a[(i, k)].to::<tf32>();
                            rest += (a[(i, k)] - big.to::<f32>()).row_sum();
                            acc += dot(big, b[(j, k)].to::<tf32>().t());
                        });
                        c[(i, j)] = acc;
                    });
                    lost[i] = rest;
                });
            }
        };
        let portfolio = lower_portfolio(&nest(split).0, find("sm_90a").expect("a known target"));
        assert!(portfolio.expect("none").is_empty());
    }

    #[test]
    fn two_results_that_are_each_others_transposes_are_refused() {
        let error = lowered(quote! {
            fn f<N: Dim>(a: &Tensor<f16, (N, N)>, b: &Tensor<f16, (N, N)>, c: &mut Tensor<f32, (N, N)>) {
                tile!(for (i, j) in (N, N) {
                    let mut acc = zeros::<f32>((i, j));
                    let mut turned = zeros::<f32>((j, i));
                    tile!(for k in N {
                        acc += dot(a[(i, k)], b[(k, j)]);
                        turned += dot(a[(j, k)], b[(k, i)]);
                    });
                    c[(i, j)] = acc + turned.t();
                });
            }
        })
        .expect_err("transposed results");
        assert_eq!(
            error.message,
            "two dots give (`j`, `i`) tiles that are each other's transposes, which is not supported yet -- write one of them the other way round with .t()"
        );
    }

    #[test]
    fn what_a_product_changed_is_masked_again() {
        // Rows past the edge are zero before the second product, not after it.
        let lines = lines(&program(quote! {
            #[schedule(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2))]
            fn f<M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (K, N)>, c: &mut Tensor<f32, (M, N)>, s: &mut Tensor<f32, (N,)>,
            ) {
                tile!(for j in N {
                    let mut total = zeros::<f32>(j);
                    tile!(for i in M {
                        let mut acc = zeros::<f32>((i, j));
                        tile!(for k in K {
                            total += acc.col_sum();
                            acc += dot(a[(i, k)].exp(), b[(k, j)]);
                            total += acc.col_sum();
                        });
                        c[(i, j)] = acc;
                    });
                    s[j] = total;
                });
            }
        }));
        let order: Vec<&str> = lines
            .iter()
            .filter(|line| line.starts_with("mask edge of acc") || line.starts_with("dot"))
            .map(|line| &line[..4])
            .collect();
        assert_eq!(order, ["mask", "dot ", "mask"], "{lines:?}");
    }
}
