//! Results that are worked out panel by panel, as they leave.
//!
//! ```text
//! t = acc · s
//! y = gelu(t + b)                            for 4 panels {
//! for 4 panels { write y, send it }    →         t = acc · s; y = gelu(t + b)
//!                                                write y, send it
//!                                            }
//! ```
//! While a panel leaves, threads wait: until what they have written is seen, for each other, until TMA has read what lay there. The assembler fills
//! that time with what the next panel consists of.

use crate::program::pressure::{mentions, reads, writes};
use crate::program::{Domain, Kept, Program, Stmt, VarId};

/// Moves into the panels of a unit's results what these alone read.
pub fn sink(program: &mut Program) {
    let mut body = std::mem::take(&mut program.body);
    for stmt in &mut body {
        if let Stmt::ForUnits(unit) = stmt {
            sink_into_panels(program, unit);
        }
    }
    program.body = body;
}

fn sink_into_panels(program: &Program, body: &mut Vec<Stmt>) {
    let mut panels = body.len();
    while let Some(at) = body[..panels].iter().rposition(|stmt| matches!(stmt, Stmt::Panels { .. })) {
        panels = at;
        while let Some(last) = last_sinking(program, body, panels) {
            let sunk = body.remove(last);
            panels -= 1;
            let declared = |stmt: &Stmt| matches!(stmt, Stmt::Declare(var) if Some(*var) == writes(&sunk));
            let declare = body[..last].iter().rposition(declared).map(|at| {
                panels -= 1;
                body.remove(at)
            });
            if let Stmt::Panels { body: panel, .. } = &mut body[panels] {
                let at = place(program, panel, &sunk);
                panel.splice(at..at, declare.into_iter().chain([sunk]));
            }
        }
    }
}

/// Before anything that waits for a panel to have come or left, but after what takes in tiles by a ring, whose slots are wanted for the next tile.
fn place(program: &Program, panel: &[Stmt], sunk: &Stmt) -> usize {
    let first = panel.iter().position(|stmt| writes(sunk).is_some_and(|var| mentions(stmt, var))).unwrap_or(0);
    panel[..first].iter().rposition(|stmt| takes_in(program, stmt)).map_or(0, |at| at + 1)
}

fn takes_in(program: &Program, stmt: &Stmt) -> bool {
    match stmt {
        Stmt::ReadPanel { shared, .. } => !program.shared(*shared).is_warpgroups_own(),
        Stmt::Load { target, .. } => matches!(program.var(*target).domain, Domain::Tile(_)),
        _ => stmt.bodies().into_iter().flatten().any(|stmt| takes_in(program, stmt)),
    }
}

/// The last statement before the panels that may be theirs.
fn last_sinking(program: &Program, body: &[Stmt], panels: usize) -> Option<usize> {
    let straight = |stmt: &Stmt| {
        let values = matches!(stmt, Stmt::Map { .. } | Stmt::Load { .. } | Stmt::Declare(_));
        values || matches!(stmt, Stmt::AwaitEarly | Stmt::Line(_) | Stmt::Let { .. })
    };
    let first = body[..panels].iter().rposition(|stmt| !straight(stmt)).map_or(0, |at| at + 1);
    (first..panels).rev().find(|at| sinks(program, body, *at, panels))
}

fn sinks(program: &Program, body: &[Stmt], at: usize, panels: usize) -> bool {
    let (target, layout) = match &body[at] {
        Stmt::Map { target, unless_all: None, .. } => match program.var(*target).domain {
            Domain::Tile(layout) => (*target, layout),
            _ => return false,
        },
        Stmt::Load { target, kept: Some(Kept::Early { layout, .. }), .. } => (*target, *layout),
        _ => return false,
    };
    let inputs = reads(&body[at]);
    let of_another = |var: VarId| matches!(program.var(var).domain, Domain::Tile(id) if id != layout);
    let declares = |stmt: &Stmt| matches!(stmt, Stmt::Declare(_));
    let beside = body.iter().enumerate().filter(|(n, stmt)| ![at, panels].contains(n) && !declares(stmt));
    let overwrites = |stmt: &Stmt| any(stmt, &mut |var, written| written && inputs.contains(&var));
    !beside.into_iter().any(|(_, stmt)| mentions(stmt, target))
        && !body[at + 1..=panels].iter().any(overwrites)
        && !any(&body[panels], &mut |var, _| of_another(var))
        && !inputs.iter().any(|var| of_another(*var) || *var == target)
}

/// Whether any variable that the statement reads, or writes, is such a one.
fn any(stmt: &Stmt, is: &mut impl FnMut(VarId, bool) -> bool) -> bool {
    writes(stmt).is_some_and(|var| is(var, true))
        || reads(stmt).into_iter().any(|var| is(var, false))
        || stmt.bodies().into_iter().flatten().any(|stmt| any(stmt, is))
}

#[cfg(test)]
mod tests {
    use crate::testing::{lines, program};
    use proc_macro2::TokenStream;
    use quote::quote;

    /// What a kernel of these results does from its product on, each line indented as it is nested.
    fn epilogue(results: TokenStream, stores: TokenStream) -> Vec<String> {
        let lines = lines(&program(quote! {
            #[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2)]
            fn f<M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, bias: &Tensor<f16, (N,)>, #results
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                    #stores
                });
            }
        }));
        let after = lines.iter().rposition(|line| line.trim_start().starts_with("dot ")).expect("a product");
        lines[after..].to_vec()
    }

    fn place(lines: &[String], start: &str) -> usize {
        lines
            .iter()
            .position(|line| line.trim_start().starts_with(start))
            .unwrap_or_else(|| panic!("{start}: {lines:#?}"))
    }

    #[test]
    fn what_a_panel_alone_reads_is_worked_out_with_it() {
        let result = quote!(c: &mut Tensor<f16, (M, N)>);
        let lines = epilogue(
            result,
            quote! {
                let shifted = acc + bias[j].to::<f32>();
                c[(i, j)] = (shifted * shifted.exp()).to();
            },
        );
        let panels = place(&lines, "for 2 panels");
        assert!(place(&lines, "await what came early") < panels, "{lines:#?}");
        assert!(place(&lines, "load bias_tile") > panels && place(&lines, "map c_tile") > panels, "{lines:#?}");
        assert!(place(&lines, "load bias_tile") < place(&lines, "map c_tile"), "{lines:#?}");
    }

    #[test]
    fn what_others_read_too_stays() {
        let results = quote!(h: &mut Tensor<f16, (M, N)>, c: &mut Tensor<f16, (M, N)>);
        let lines = epilogue(
            results,
            quote! {
                let shifted = acc.exp();
                h[(i, j)] = shifted.to();
                c[(i, j)] = (shifted * 2.0).to();
            },
        );
        let first = place(&lines, "for 2 panels");
        assert!(place(&lines, "map shifted") < first, "{lines:#?}");
        assert!(place(&lines, "map c_tile") > first, "{lines:#?}");
    }
}
