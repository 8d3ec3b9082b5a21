//! Where a unit's tile is, worked out a second time for what comes after its loops.
//!
//! ```text
//! locate                                locate
//! for step { products, tiles }          for step { products, tiles }
//! deal parts of acc              →      locate anew
//!                                       deal parts of acc
//! ```
//! A step that makes tiles of its own wants all of a thread's registers, and where a tile may be cut, its place, its parts, and this block's
//! among them are as many numbers that nobody needs until the sum is there. The same where a result takes in columns that registers hold
//! beside it. The assembler would spill them; to divide again takes a few instructions a tile.

use crate::program::{Domain, Program, Stmt, VarId};

/// Where a block's units may be parts of tiles, and registers are full in their loops or after them.
pub fn locate(program: &mut Program) {
    if program.split.as_ref().is_none_or(|split| split.whole.is_none()) {
        return;
    }
    let Some(units) = program.body.iter().position(|stmt| matches!(stmt, Stmt::ForUnits(_))) else { return };
    let at = match &program.body[units] {
        Stmt::ForUnits(body) => place(program, body),
        _ => None,
    };
    if let (Stmt::ForUnits(body), Some(at)) = (&mut program.body[units], at) {
        body.insert(at, Stmt::LocateAnew);
    }
}

/// Where the sum is there, of a unit in which that is of use.
fn place(program: &Program, body: &[Stmt]) -> Option<usize> {
    let at = body.iter().position(|stmt| matches!(stmt, Stmt::JoinParts { .. } | Stmt::DealParts { .. }))?;
    let holds_columns = |stmt: &Stmt| match stmt {
        Stmt::Load { target, kept: None, .. } => matches!(program.var(*target).domain, Domain::Cols(_)),
        _ => false,
    };
    // Measured on an H100: attention of 64 and 128 numbers a head takes 3 and 1.5 % less time so, and of 256, whose consumers have their
    // producer's registers too, 2 % more.
    let has_more =
        program.producer.as_ref().and_then(|producer| Some((producer.registers, producer.alone.as_ref()?.registers)));
    let has_more = has_more.is_some_and(|(usual, by_tma)| by_tma.consumer > usual.consumer);
    let is_full = makes_tiles_in_steps(&body[..at]) && !has_more || body[at..].iter().any(holds_columns);
    is_full.then_some(at)
}

/// Whether a loop has products that only its own steps see.
pub fn makes_tiles_in_steps(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| matches!(stmt, Stmt::For { body, .. } if has_own_products(body, body)))
}

fn has_own_products(step: &[Stmt], body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::Dot(dot) => declares(step, dot.target),
        _ => stmt.bodies().into_iter().any(|body| has_own_products(step, body)),
    })
}

fn declares(body: &[Stmt], tile: VarId) -> bool {
    body.iter().any(|stmt| *stmt == Stmt::Declare(tile) || stmt.bodies().into_iter().any(|body| declares(body, tile)))
}

#[cfg(test)]
mod tests {
    use crate::testing::{chain, cuda, gemm};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn times_anew(item: TokenStream) -> usize {
        cuda(item).matches("work_out_anew<CUT>(unit);").count()
    }

    #[test]
    fn loops_that_make_tiles_keep_no_place() {
        assert_eq!(times_anew(gemm(quote!(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2))), 0);
        let chain = chain(quote!(sm_90a, i = 128, h = 128, stages = 4, consumers = 2));
        let text = cuda(chain.clone());
        assert_eq!(times_anew(chain), 1);
        let (_, after) = text.split_once("work_out_anew<CUT>(unit);").expect("a second place");
        assert!(after.contains("cut_tile<CUT>(") && after.contains("const int i0 = "), "{text}");
    }

    /// Of a result that takes in these columns; shared memory has room for those of one tensor.
    fn with_columns(result: TokenStream) -> TokenStream {
        quote! {
            #[schedule(sm_90a, i = 128, j = 256, k = 64, stages = 4, consumers = 2)]
            fn f<M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, scale: &Tensor<f32, (N,)>, shift: &Tensor<f32, (N,)>,
                c: &mut Tensor<f16, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                    c[(i, j)] = (#result).to();
                });
            }
        }
    }

    #[test]
    fn nor_is_one_kept_beside_columns_in_registers() {
        assert_eq!(times_anew(with_columns(quote!(acc * scale[j]))), 0, "columns that came before the loop");
        assert_eq!(times_anew(with_columns(quote!(acc * scale[j] + shift[j]))), 1);
    }
}
