//! What a sum is taken up with along its columns, fetched before the loop that comes first: by a tile's result, or at each step of a loop around
//! the sum.
//!
//! ```text
//! for step { acc += a · b }                 fetch bias
//! load bias                          →      for step { acc += a · b }
//! acc + bias …                              wait for what was fetched; load bias
//!                                           acc + bias …
//! ```
//! A warpgroup's thread has two of each eight columns, and loads them from global memory by as many instructions, while no product runs:
//! on an H100, 128 x 256 tiles took 1300 to 2700 cycles for that, of 10 500 for six steps and all. From shared memory it takes a quarter of the
//! instructions, of values that came while the tensor cores were busy. Of rows it has two in 64, and loads them where they are wanted:
//! before each of 32 groups of 32 terms, 1024 x 2048 takes 26.4 µs, and 24.4 after it.

use crate::lower::names::Names;
use crate::nest::{Int, Nest};
use crate::program::layout::{LayoutId, LayoutKind};
use crate::program::shared::{self, Shared, SharedId};
use crate::program::{Access, AccessForm, Domain, Kept, Program, Stmt, VarId};
use crate::schedule::WARPGROUP;

/// Slices are read by so many columns: `early_cols` in `device/early_cols.cuh`.
const COLUMNS: u32 = 32;
/// Fewer bytes by themselves do not come asynchronously.
const LEAST_ASYNC_BYTES: u32 = 4;

/// What is read along a tile's columns, into these variables.
struct Slice {
    source: Access,
    layout: LayoutId,
    targets: Vec<VarId>,
}

impl Slice {
    fn is_loaded_by(&self, stmt: &Stmt) -> bool {
        matches!(stmt, Stmt::Load { target, .. } if self.targets.contains(target))
    }
}

/// As far as a block has room in shared memory.
pub fn fetch(nest: &Nest, program: &mut Program, names: &mut Names, room: u32, scratch: u32) {
    for slice in slices(nest, program) {
        let mut early = program.clone();
        let kept = Kept::Early { shared: place(nest, &mut early, names, &slice), layout: slice.layout };
        early.body.iter_mut().for_each(|stmt| insert_within(stmt, &slice, &kept));
        let mut planned = early.clone();
        shared::plan(&mut planned, scratch);
        if planned.shared_bytes <= room {
            *program = early;
        }
    }
}

fn is_loop(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::For { .. })
}

/// What follows the last loop of a unit of work, or of a step that has loops inside.
fn after_loops<'p>(stmt: &'p Stmt, bodies: &mut Vec<&'p [Stmt]>) {
    if let Stmt::ForUnits(body) | Stmt::For { body, .. } = stmt {
        body.iter().for_each(|inner| after_loops(inner, bodies));
        if let Some(last) = body.iter().rposition(is_loop) {
            bodies.push(&body[last..]);
        }
    }
}

/// Those that could be read before the loops.
fn slices(nest: &Nest, program: &Program) -> Vec<Slice> {
    let mut found: Vec<Slice> = Vec::new();
    let mut bodies = Vec::new();
    program.body.iter().for_each(|stmt| after_loops(stmt, &mut bodies));
    for stmt in bodies.into_iter().flatten() {
        let Stmt::Load { target, source, kept: None } = stmt else { continue };
        let Domain::Cols(layout) = program.var(*target).domain else { continue };
        if !may_wait_in_shared_memory(nest, program, source, layout) || !may_be_early(nest, source) {
            continue;
        }
        match found.iter_mut().find(|slice| slice.layout == layout && slice.source == *source) {
            Some(slice) => slice.targets.push(*target),
            None => found.push(Slice { source: source.clone(), layout, targets: vec![*target] }),
        }
    }
    found
}

/// Whether each warp has all columns, and they come by whole rows or by themselves.
fn may_wait_in_shared_memory(nest: &Nest, program: &Program, source: &Access, layout: LayoutId) -> bool {
    let comes = match source.form {
        AccessForm::Contiguous { rows: None, .. } => true,
        AccessForm::Scattered { rows: None, cols: Some(_) } => {
            nest.tensor(source.tensor).dtype.bytes() >= LEAST_ASYNC_BYTES
        }
        _ => false,
    };
    matches!(program.layout(layout).kind, LayoutKind::Mma16816 { warps_n: 1, .. }) && comes
}

/// Whether nothing that says where the slice lies, or what it is, comes about while the loops run.
fn may_be_early(nest: &Nest, source: &Access) -> bool {
    source.held.is_none() && !nest.tensor(source.tensor).mutable && source.index.iter().all(is_known)
}

fn is_known(int: &Int) -> bool {
    match int {
        Int::Const(_) | Int::Dim(_) | Int::Scalar(_) | Int::Axis(_) | Int::FlatCoord(..) => true,
        Int::Binary(_, a, b) => is_known(a) && is_known(b),
        Int::Element(..) | Int::BlockStart(_) | Int::BlockEnd(_) => false,
    }
}

/// Of each warpgroup its own.
fn place(nest: &Nest, program: &mut Program, names: &mut Names, slice: &Slice) -> SharedId {
    let tensor = nest.tensor(slice.source.tensor);
    let columns = program.layout(slice.layout).cols.next_multiple_of(COLUMNS);
    let shape = (program.threads / WARPGROUP, columns);
    let name = names.fresh(&format!("{}_cols", tensor.name));
    program.shared.push(Shared { private: true, ..Shared::new(name, tensor.dtype, shape, 1) });
    SharedId(program.shared.len() as u32 - 1)
}

fn insert_within(stmt: &mut Stmt, slice: &Slice, early: &Kept) {
    if let Stmt::ForUnits(body) | Stmt::For { body, .. } = stmt {
        body.iter_mut().for_each(|inner| insert_within(inner, slice, early));
        if body.iter().any(|stmt| slice.is_loaded_by(stmt)) {
            insert(body, slice, early);
        }
    }
}

/// Before the first loop, and where it is loaded.
fn insert(body: &mut Vec<Stmt>, slice: &Slice, early: &Kept) {
    for stmt in body.iter_mut() {
        if slice.is_loaded_by(stmt)
            && let Stmt::Load { kept, .. } = stmt
        {
            *kept = Some(early.clone());
        }
    }
    let reads_early = |stmt: &Stmt| matches!(stmt, Stmt::Load { kept: Some(Kept::Early { .. }), .. });
    let awaited = body.iter().any(|stmt| matches!(stmt, Stmt::AwaitEarly));
    if let Some(read) = body.iter().position(reads_early).filter(|_| !awaited) {
        body.insert(read, Stmt::AwaitEarly);
    }
    if let Some(first) = body.iter().position(is_loop) {
        body.insert(first, Stmt::Keep { kept: early.clone(), source: slice.source.clone() });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::cuda;
    use proc_macro2::TokenStream;
    use quote::quote;

    fn text(schedule: TokenStream, indices: TokenStream, epilogue: TokenStream) -> String {
        cuda(quote! {
            #[schedule(#schedule)]
            fn f<M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, bias: &Tensor<f16, (N,)>, scale: &Tensor<f32, (M,)>, #indices
                c: &mut Tensor<f16, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(i, k)], b[(j, k)].t()); });
                    c[(i, j)] = #epilogue;
                });
            }
        })
    }

    fn with_bias(schedule: TokenStream) -> String {
        text(schedule, quote!(), quote!((acc * scale[i] + bias[j].to::<f32>()).to()))
    }

    #[test]
    fn columns_come_before_the_loop_and_are_read_after_it() {
        let text = with_bias(quote!(sm_90a, i = 128, j = 144, k = 64, stages = 4, consumers = 2));
        let order = [
            "fetch_cols_early<IJTile, ALIGN_BIAS>(bias_cols, ",
            "wgdot_issue<",
            "await_early_cols();",
            "early_cols_of_panel<IJTile, 32>(bias_tile, panel, bias_cols);",
        ];
        let (_, consumers) = text.split_once("setmaxnreg_inc").expect("roles");
        let found: Vec<Option<usize>> = order.iter().map(|part| consumers.find(part)).collect();
        assert!(found[0].is_some() && found.is_sorted(), "{text}");
        assert!(
            text.contains("using BiasColsBuffer = SharedTile<f16, 2, 160>;"),
            "each warpgroup's, by 32 columns: {text}"
        );
        assert!(text.contains("load_rows<IJTile>("), "of rows, a thread has few: {text}");
    }

    #[test]
    fn other_roles_and_blocks_beside_others_load_as_they_did() {
        let all = with_bias(quote!(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2)));
        assert!(all.contains("load_cols_vec<") && !all.contains("early"), "{all}");
        let beside = with_bias(quote!(sm_90a, i = 64, j = 64, k = 64, stages = 6, consumers = 1, resident = 2));
        assert!(beside.contains("load_cols_vec<") && !beside.contains("early"), "{beside}");
        let full = with_bias(quote!(sm_90a, i = 128, j = 256, k = 64, stages = 4, consumers = 2));
        assert!(full.contains("early_cols_of_panel<"), "{full}");
    }

    #[test]
    fn groups_of_terms_take_theirs_in_from_before_their_products() {
        let text = cuda(quote! {
            #[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2)]
            fn f<M: Dim, N: Dim, K: Dim, G: Dim>(
                a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, r: &Tensor<f32, (M, G)>, s: &Tensor<f32, (N, G)>, t: &Tensor<f16, (N, G)>,
                u: &Tensor<f32, (G, N)>, c: &mut Tensor<f16, (M, N)>,
            ) {
                tile!(for (i, j) in (M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for g in each(G) {
                        let mut part = zeros::<f32>((i, j));
                        tile!(for k in K.range(g * 64..g * 64 + 64) { part += dot(a[(i, k)], b[(j, k)].t()); });
                        acc += part * r[(i, g)] * s[(j, g)] * t[(j, g)].to::<f32>() * u[(g, j)];
                    });
                    c[(i, j)] = acc.to();
                });
            }
        });
        let (_, consumers) = text.split_once("setmaxnreg_inc").expect("roles");
        let place = |part: &str| consumers.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        let (group, product) = (place("for (int g"), place("wgdot_issue<"));
        for early in ["fetch_elements_early<IJTile>(s_cols, ", "fetch_cols_early<IJTile, ALIGN_U>(u_cols, "] {
            assert!((group..product).contains(&place(early)), "{text}");
        }
        for late in ["load_rows<IJTile>(r_tile", "early_cols<IJTile>(s_tile", "early_cols<IJTile>(u_tile"] {
            assert!(place(late) > product, "{text}");
        }
        assert!(
            place("load_cols<IJTile>(t_tile") > product,
            "two bytes by themselves do not come asynchronously: {text}"
        );
    }
}
