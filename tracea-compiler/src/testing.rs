//! Tiny kernels for unit tests: tokens in, nest or program out.

use crate::lower::{Lowered, lower_chosen, lower_pinned};
use crate::nest::Nest;
use crate::program::{AccessForm, Copy, Program, Stmt};
use crate::schedule::ScheduleError;
use crate::schedule::spec::ScheduleSpec;
use crate::schedule::target::{SM_80, Target, find};
use proc_macro2::TokenStream;
use quote::quote;

/// The only instance of a kernel, and the schedules written on it.
pub fn nest(item: TokenStream) -> (Nest, Vec<ScheduleSpec>) {
    let (mut nests, schedules) = crate::front(TokenStream::new(), item).expect("the kernel is well formed");
    assert_eq!(nests.len(), 1, "one instance");
    (nests.remove(0), schedules)
}

/// Under the schedule that the kernel pins, else under the compiler's own for sm_80.
pub fn lowered(item: TokenStream) -> Result<Lowered, ScheduleError> {
    let (nest, schedules) = nest(item);
    match schedules.first() {
        Some(spec) => lower_pinned(&nest, target(spec), spec),
        None => lower_chosen(&nest, &SM_80).map(|found| found.expect("sm_80 serves every kernel")),
    }
}

fn target(spec: &ScheduleSpec) -> &'static Target {
    find(&spec.target).expect("a known target")
}

pub fn program(item: TokenStream) -> Program {
    lowered(item).expect("the kernel lowers").program
}

/// The CUDA text of the same.
pub fn cuda(item: TokenStream) -> String {
    let Lowered { nest, program, .. } = lowered(item).expect("the kernel lowers");
    crate::emit::emit(&nest, &program)
}

/// `c = a · b` with this line of schedule.
pub fn gemm(schedule: TokenStream) -> TokenStream {
    quote! {
        #[schedule(#schedule)]
        fn gemm<M: Dim, N: Dim, K: Dim>(
            a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (K, N)>, c: &mut Tensor<f16, (M, N)>,
        ) {
            tile!(for (i, j) in (M, N) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for k in K { acc += dot(a[(i, k)], b[(k, j)]); });
                c[(i, j)] = acc.to();
            });
        }
    }
}

/// `y = relu(x · uᵀ) · v` with this line of schedule: products of what each step has computed.
pub fn chain(schedule: TokenStream) -> TokenStream {
    quote! {
        #[schedule(#schedule)]
        fn chain<M: Dim, H: Dim>(
            x: &Tensor<f16, (M, Const<64>)>, u: &Tensor<f16, (H, Const<64>)>, v: &Tensor<f16, (H, Const<64>)>,
            y: &mut Tensor<f16, (M, Const<64>)>,
        ) {
            tile!(for i in M {
                let mut acc = zeros::<f32>((i, ..));
                tile!(for h in H {
                    let hidden = dot(x[(i, ..)], u[(h, ..)].t()).max(0.0);
                    acc += dot(hidden.to::<f16>(), v[(h, ..)]);
                });
                y[(i, ..)] = acc.to();
            });
        }
    }
}

/// `y = (x · gateᵀ) (x · upᵀ)` with this line of schedule: two products in one loop, of one operand that they share.
pub fn gated(schedule: TokenStream) -> TokenStream {
    quote! {
        #[schedule(#schedule)]
        fn gated<M: Dim, N: Dim, K: Dim>(
            x: &Tensor<f16, (M, K)>, gate: &Tensor<f16, (N, K)>, up: &Tensor<f16, (N, K)>, y: &mut Tensor<f16, (M, N)>,
        ) {
            tile!(for (i, j) in (M, N) {
                let mut g = zeros::<f32>((i, j));
                let mut u = zeros::<f32>((i, j));
                tile!(for k in K {
                    g += dot(x[(i, k)], gate[(j, k)].t());
                    u += dot(x[(i, k)], up[(j, k)].t());
                });
                y[(i, j)] = (g * u).to();
            });
        }
    }
}

/// `c = (x / 2)ᵀ · (x / 2)`: both operands are computed first.
pub fn gram(schedule: TokenStream) -> TokenStream {
    quote! {
        #schedule
        fn gram<M: Dim, N: Dim>(x: &Tensor<f16, (M, N)>, c: &mut Tensor<f32, (N, N)>) {
            tile!(for (i, j) in (N, N) {
                let mut acc = zeros::<f32>((i, j));
                tile!(for m in M {
                    let (a, b) = (x[(m, i)].to::<f32>() * 0.5, x[(m, j)].to::<f32>() * 0.5);
                    acc += dot(a.to::<f16>().t(), b.to::<f16>());
                });
                c[(i, j)] = acc;
            });
        }
    }
}

/// The printed form without its heading: one trimmed line a statement.
pub fn lines(program: &Program) -> Vec<String> {
    let text = program.to_string();
    text.lines()
        .skip(1)
        .filter(|line| !line.starts_with("layout ") && !line.starts_with("shared "))
        .map(|line| line.trim().to_string())
        .collect()
}

/// Every access to global memory in program order: `x by rows, i < end, 1 inside` says which axes are checked against their
/// end, and which of the tensor's axes against 0 and the size.
pub fn accesses(program: &Program) -> Vec<String> {
    flat(&program.body).into_iter().filter_map(|stmt| access(program, stmt)).collect()
}

fn access(program: &Program, stmt: &Stmt) -> Option<String> {
    let access = match stmt {
        Stmt::Copy(Copy { source, .. }) | Stmt::Load { source, .. } | Stmt::Keep { source, .. } => source,
        Stmt::Store { target, .. } | Stmt::StorePanel { target, .. } => target,
        _ => return None,
    };
    let form = match access.form {
        AccessForm::Contiguous { .. } => "rows",
        AccessForm::Scattered { .. } => "elements",
    };
    let mut text = format!("{} by {form}", program.names.tensors[access.tensor.index()]);
    if access.alike > 1 {
        text += &format!(", {} alike", access.alike);
    }
    for axis in &access.limits {
        text += &format!(", {} < end", program.names.axes[axis.index()]);
    }
    for at in &access.inside {
        text += &format!(", {at} inside");
    }
    Some(text)
}

/// Statements of all depths, in program order.
pub fn flat(stmts: &[Stmt]) -> Vec<&Stmt> {
    stmts
        .iter()
        .flat_map(|stmt| {
            let mut all = vec![stmt];
            stmt.bodies().into_iter().for_each(|body| all.extend(flat(body)));
            all
        })
        .collect()
}
