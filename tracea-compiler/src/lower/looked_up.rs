//! Numbers that are looked up, once wherever all that tells which they are is known: steps within do not ask memory for them again.
//!
//! ```text
//! for unit {                                          for unit {
//!     locate                                              locate
//!                                                         length_number = length[b]
//!     p_end = min((length[b] + 63) / 64, P)               p_end = min((length_number + 63) / 64, P)
//!     for step { … length[b] … pages[(b, p)] …      →     for step { … pages_number = pages[(b, p)]; … length_number …
//! ```
//! Numbers that rows or columns of a tile have for themselves stay where they are read.

use super::analysis::axes_in;
use super::names::Names;
use super::params;
use crate::nest::{AxisId, AxisKind, Int, Nest};
use crate::program::{Program, Stmt};
use std::collections::BTreeSet;

/// Puts [`Stmt::LookUp`] into the bodies of both roles.
pub fn name_numbers(nest: &Nest, program: &mut Program, names: &mut Names) {
    let dims = program.names.dims.clone();
    let mut numbers: Vec<Number> = Vec::new();
    let producer = program.producer.as_ref().map_or(&[][..], |producer| &producer.body);
    for number in [&program.body[..], producer].into_iter().flat_map(|body| params::numbers(nest, &dims, body)) {
        let Int::Element(tensor, _) = &number else { continue };
        if is_one(nest, &number) && numbers.iter().all(|known| known.number != number) {
            let name = names.fresh(&format!("{}_number", nest.tensor(*tensor).name));
            let mut axes = BTreeSet::new();
            axes_in(&number, &mut |axis| {
                axes.insert(axis);
            });
            numbers.push(Number { name, number, axes });
        }
    }
    let is_variable = |axis: &AxisId| nest.axis(*axis).kind == AxisKind::Each;
    let variables = (0..nest.axes.len() as u32).map(AxisId).filter(is_variable);
    let variables = variables.map(|axis| (program.names.axes[axis.index()].clone(), axis)).collect();
    let grid: BTreeSet<AxisId> = nest.grid.iter().copied().filter(is_variable).collect();
    let pass = Pass { nest, dims, numbers, variables, grid };
    let bodies = std::iter::once(&mut program.body).chain(program.producer.as_mut().map(|producer| &mut producer.body));
    for body in bodies {
        // Where blocks take several units, each says where it is.
        let takes_units = body.iter().any(|stmt| matches!(stmt, Stmt::ForUnits(_)));
        let known = if takes_units { BTreeSet::new() } else { pass.grid.clone() };
        pass.place(body, known, None);
    }
}

/// Whether it is the same for all elements of a tile, and of a tensor that nobody writes.
fn is_one(nest: &Nest, number: &Int) -> bool {
    match number {
        Int::Const(_) | Int::Dim(_) | Int::Scalar(_) => true,
        Int::Axis(axis) => nest.axis(*axis).kind == AxisKind::Each,
        Int::FlatCoord(..) | Int::BlockStart(_) | Int::BlockEnd(_) => false,
        Int::Element(tensor, index) => !nest.tensor(*tensor).mutable && index.iter().all(|int| is_one(nest, int)),
        Int::Binary(_, a, b) => is_one(nest, a) && is_one(nest, b),
    }
}

struct Number {
    name: String,
    number: Int,
    /// The scalar loops that it depends on.
    axes: BTreeSet<AxisId>,
}

struct Pass<'p> {
    nest: &'p Nest,
    dims: Vec<String>,
    numbers: Vec<Number>,
    /// Of scalar loops.
    variables: Vec<(String, AxisId)>,
    grid: BTreeSet<AxisId>,
}

impl Pass<'_> {
    /// In a body before which so many variables are known; `told` are those that are new, all of them if there are none.
    fn place(&self, body: &mut Vec<Stmt>, mut known: BTreeSet<AxisId>, told: Option<&BTreeSet<AxisId>>) {
        let mut at = self.look_up(body, 0, &known, told);
        while at < body.len() {
            let mut told = BTreeSet::new();
            match &mut body[at] {
                Stmt::Locate => told.extend(&self.grid),
                Stmt::Let { name, .. } => told.extend(self.variable(name)),
                Stmt::For { var, body, .. } => {
                    let variable: BTreeSet<AxisId> = self.variable(var).into_iter().collect();
                    self.place(body, known.union(&variable).copied().collect(), Some(&variable));
                }
                stmt => {
                    let bodies = stmt.bodies_mut().into_iter();
                    bodies.for_each(|body| self.place(body, known.clone(), Some(&BTreeSet::new())));
                }
            }
            at += 1;
            if !told.is_empty() {
                known.extend(&told);
                at += self.look_up(body, at, &known, Some(&told));
            }
        }
    }

    fn variable(&self, name: &str) -> Option<AxisId> {
        self.variables.iter().find(|(variable, _)| variable == name).map(|(_, axis)| *axis)
    }

    /// Inserts what is read from here on and has become known; how many.
    fn look_up(
        &self,
        body: &mut Vec<Stmt>,
        at: usize,
        known: &BTreeSet<AxisId>,
        told: Option<&BTreeSet<AxisId>>,
    ) -> usize {
        let is_new = |number: &Number| told.is_none_or(|told| !told.is_disjoint(&number.axes));
        let mut new: Vec<&Number> =
            self.numbers.iter().filter(|number| number.axes.is_subset(known) && is_new(number)).collect();
        if !new.is_empty() {
            let read = params::numbers(self.nest, &self.dims, &body[at..]);
            new.retain(|number| read.contains(&number.number));
        }
        let count = new.len();
        let look_up = |number: &Number| Stmt::LookUp { name: number.name.clone(), number: number.number.clone() };
        body.splice(at..at, new.into_iter().map(look_up));
        count
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::cuda;
    use proc_macro2::TokenStream;
    use quote::quote;

    /// The code's lines that define or read a number that is looked up.
    fn lines(schedule: TokenStream, stmts: TokenStream) -> Vec<String> {
        let text = cuda(quote! {
            #[schedule(#schedule)]
            fn f<B: Dim, M: Dim, N: Dim, V: Dim>(
                x: &Tensor<f32, (V, N)>, pages: &Tensor<i32, (B, M)>, length: &Tensor<i32, (B,)>, ids: &Tensor<i32, (M,)>,
                y: &mut Tensor<f32, (B, N)>,
            ) {
                tile!(for (b, j) in (each(B), N) { #stmts });
            }
        });
        let wanted = ["_number", "pages[", "length[", "ids["];
        let lines = text.lines().map(str::trim).filter(|line| wanted.iter().any(|wanted| line.contains(wanted)));
        lines.map(str::to_string).collect()
    }

    #[test]
    fn each_is_looked_up_where_what_tells_it_is_known() {
        let stmts = quote! {
            let mut sum = zeros::<f32>(j);
            tile!(for p in each(M.until(length[b])) {
                sum += x[(pages[(b, p)], j)] * x[(pages[(b, p)] + length[b], j)];
            });
            y[(b, j)] = sum;
        };
        let lines = lines(quote!(sm_80, j = 512), stmts);
        let text = lines.join("\n");
        let defined = [
            "const int length_number = length[b];",
            "const int p_end = min(length_number, M);",
            "const int pages_number = pages[b * pages_stride0 + p];",
        ];
        let at = defined.map(|line| lines.iter().position(|found| found == line).unwrap_or_else(|| panic!("{text}")));
        assert!(
            at.is_sorted() && text.matches("length[").count() == 1 && text.matches("pages[").count() == 1,
            "{text}"
        );
        assert!(text.contains("pages_number + length_number"), "{text}");
    }

    #[test]
    fn numbers_are_looked_up_by_numbers() {
        let lines = lines(quote!(sm_80, j = 512), quote!(y[(b, j)] = x[(ids[length[b]], j)];));
        let (length, ids) =
            ("const int length_number = length[b];", "const int ids_number = element_or_zero(ids, length_number, ");
        assert!(
            lines[0] == length && lines[1].starts_with(ids) && lines[2..].iter().all(|line| !line.contains('[')),
            "{lines:?}"
        );
    }

    #[test]
    fn what_rows_have_for_themselves_stays_with_them() {
        let text = cuda(quote! {
            fn f<M: Dim, N: Dim, V: Dim>(x: &Tensor<f32, (V, N)>, ids: &Tensor<i32, (M,)>, y: &mut Tensor<f32, (M, N)>) {
                tile!(for (i, j) in (M, N) { y[(i, j)] = x[(ids[i], j)]; });
            }
        });
        assert!(!text.contains("_number") && text.contains("element_or_zero(ids, i, "), "{text}");
    }
}
