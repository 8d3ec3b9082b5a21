//! Operands that are computed once, before the products that multiply them: each by a kernel of its own, into a tensor that the products'
//! kernel is given beside its arguments.
//!
//! ```text
//! acc += dot(a[(i, k)], (w[(j, k)] - zero[j]).to::<f16>().t())
//! ```
//! becomes
//! ```text
//! for (j, k) in (N, K)        weights[(j, k)] = (w[(j, k)] - zero[j]).to::<f16>()
//! for (i, j) in (M, N) …      acc += dot(a[(i, k)], weights[(j, k)].t())
//! ```
//! A block of the products computes its operand's tile itself, as often as there are blocks along the other axes and steps of loops that
//! the operand does not run along, while its tensor cores wait. The launch weighs one against the other, once it sees the sizes.

use super::analysis::{DotFact, Facts, OperandSource, axes_in, inputs, is_tiled, untransposed};
use super::columns;
use crate::nest::{
    Axis, AxisId, AxisKind, Block, DimId, Dtype, Extent, Int, Nest, Op, Predicate, Stmt, Tensor, TensorId, TileType,
    Value, ValueId,
};
use crate::schedule::ScheduleError;
use std::collections::BTreeSet;

/// Tensors of a launch: what is said of more, code knows nothing of.
const MOST_TENSORS: usize = 16;

/// A kernel in parts.
pub struct Precomputed {
    /// With the operands as tensors, behind those that the kernel was given.
    pub nest: Nest,
    /// One that computes each of them; its tensors are those, up to its own.
    pub operands: Vec<Nest>,
}

/// Nothing where each operand is a tensor already, or is computed once anyway.
pub fn precomputed(nest: &Nest) -> Option<Precomputed> {
    let facts = Facts::of(nest);
    let mut parts = Precomputed { nest: nest.clone(), operands: Vec::new() };
    let mut done = BTreeSet::new();
    for dot in &facts.dots {
        for (source, other) in [(&dot.a, dot.m), (&dot.b, dot.n)] {
            let OperandSource::Computed { value } = source else { continue };
            // Rounding to tf32 happens as fragments are read.
            let value = match nest.value(*value) {
                Value { op: Op::Cast(inner), ty, .. } if ty.dtype == Dtype::Tf32 => untransposed(nest, *inner),
                _ => *value,
            };
            if done.insert(value)
                && let Some(operand) = Operand::of(nest, &facts, value, dot, other)
            {
                parts.take_out(operand);
            }
        }
    }
    if parts.operands.is_empty() || parts.nest.tensors.len() > MOST_TENSORS {
        return None;
    }
    let live = live(&parts.nest);
    prune(&mut parts.nest.body, &live);
    Some(parts)
}

/// The same, where a schedule asks for it.
pub fn wanted(nest: &Nest) -> Result<Precomputed, ScheduleError> {
    let none = || {
        let message = "no operand of a product here is computed again by other blocks -- leave the option out";
        ScheduleError::about("precomputed", message)
    };
    precomputed(nest).ok_or_else(none)
}

/// An operand that nothing but its place decides.
struct Operand {
    value: ValueId,
    /// What it is computed from, and itself, in program order.
    cone: Vec<ValueId>,
    /// Scalar loops of the grid that it differs in, and its own axes in the order in which they lie best.
    axes: Vec<AxisId>,
}

impl Operand {
    fn of(nest: &Nest, facts: &Facts, value: ValueId, dot: &DotFact, other: AxisId) -> Option<Operand> {
        let mut cone: Vec<ValueId> = cone(nest, value)?.into_iter().collect();
        cone.sort_by_key(|id| facts.position[id.index()]);
        let mut mentioned = BTreeSet::new();
        cone.iter().for_each(|id| axes_of(nest, *id, &mut mentioned));
        let own = [other, dot.k];
        let outer = |axis: &AxisId| nest.grid.contains(axis) && !is_tiled(nest, *axis) && mentioned.contains(axis);
        let outer: Vec<AxisId> = nest.grid.iter().copied().filter(outer).collect();
        let placed = mentioned.iter().all(|axis| own.contains(axis) || outer.contains(axis));
        // Along another axis of the grid, block for block, or of a loop, step for step.
        let others = |axes: &[AxisId]| axes.iter().any(|axis| !own.contains(axis));
        let blocks: Vec<AxisId> = nest.grid.iter().copied().filter(|axis| is_tiled(nest, *axis)).collect();
        let again = others(&blocks) || others(&loops_around(&nest.body, value).unwrap_or_default());
        // A sum over several dims at once has no one axis of a tensor to run along.
        let has_dim = |axis: &AxisId| matches!(nest.axis(*axis).extent, Extent::Dim(_));
        if !placed || !again || !has_dim(&dot.k) || !outer.iter().all(has_dim) {
            return None;
        }
        let across = dot.dtype != Dtype::Tf32 && lies_along(nest, &cone, other);
        let own = if across { [dot.k, other] } else { own };
        Some(Operand { value, cone, axes: outer.into_iter().chain(own).collect() })
    }
}

impl Precomputed {
    fn take_out(&mut self, operand: Operand) {
        let Operand { value, axes, .. } = &operand;
        let id = TensorId(self.nest.tensors.len() as u32);
        let Value { ty, .. } = self.nest.value(*value).clone();
        let tensor = Tensor {
            name: free_name(&self.nest, name_of(&self.nest, *value).unwrap_or("operand")),
            dtype: ty.dtype,
            dims: axes.iter().flat_map(|axis| dims(&self.nest, *axis)).collect(),
            mutable: false,
            position: self.nest.tensors.len() + self.nest.scalars.len(),
            precomputed: true,
            turned: false,
        };
        let index: Vec<Int> = axes.iter().flat_map(|axis| coordinates(&self.nest, *axis)).collect();
        let alone = alone(&self.nest, &operand, &tensor, &index);
        let known = self.operands.iter().find(|known| computes_the_same(known, &alone));
        let id = match known {
            Some(known) => TensorId(known.tensors.len() as u32 - 1),
            None => {
                self.nest.tensors.push(tensor);
                self.operands.push(alone);
                id
            }
        };
        self.nest.values[value.index()].op = Op::Load { tensor: id, index };
    }
}

/// The kernel that computes an operand: what is left of the nest.
fn alone(nest: &Nest, operand: &Operand, tensor: &Tensor, index: &[Int]) -> Nest {
    let axis = |old: AxisId| AxisId(operand.axes.iter().position(|axis| *axis == old).unwrap_or(0) as u32);
    let value = |old: ValueId| ValueId(operand.cone.iter().position(|id| *id == old).unwrap_or(0) as u32);
    let of_axis = |old: &AxisId| {
        let Axis { name, extent, kind } = nest.axis(*old).clone();
        // What a tile of the products takes whole is an axis like any other here.
        let whole = kind == AxisKind::Whole;
        Axis { name: if whole { "d".into() } else { name }, extent, kind: if whole { AxisKind::Tiled } else { kind } }
    };
    let of_value = |old: &ValueId| {
        let Value { op, ty, name, line } = nest.value(*old).clone();
        let ty = TileType { axes: ty.axes.into_iter().map(axis).collect(), ..ty };
        Value { op: op.renamed(&value, &axis), ty, name, line }
    };
    let target = TensorId(nest.tensors.len() as u32);
    let stored = ValueId(operand.cone.len() as u32 - 1);
    let line = nest.value(operand.value).line;
    let index = index.iter().map(|int| int.renamed(&axis)).collect();
    let values: Vec<Value> = operand.cone.iter().map(of_value).collect();
    let evaluated = (0..values.len()).map(|at| Stmt::Value(ValueId(at as u32)));
    let body = evaluated.chain([Stmt::Store { tensor: target, index, value: stored, line }]).collect();
    // Operands that were computed before are arguments here.
    let given = nest.tensors.iter().map(|tensor| Tensor { precomputed: false, ..tensor.clone() });
    let computed = Tensor { mutable: true, precomputed: false, ..tensor.clone() };
    Nest {
        name: format!("{}_{}", nest.name, tensor.name),
        line,
        tensors: given.chain([computed]).collect(),
        axes: operand.axes.iter().map(of_axis).collect(),
        values,
        grid: (0..operand.axes.len()).map(|at| AxisId(at as u32)).collect(),
        body: Block { stmts: body },
        ..nest.clone()
    }
}

/// Whatever the axes and the values are called.
fn computes_the_same(known: &Nest, other: &Nest) -> bool {
    let axes = |nest: &Nest| nest.axes.iter().map(|axis| (axis.extent.clone(), axis.kind)).collect::<Vec<_>>();
    let values = |nest: &Nest| nest.values.iter().map(|value| (value.op.clone(), value.ty.clone())).collect::<Vec<_>>();
    axes(known) == axes(other) && values(known) == values(other)
}

/// All that a value is computed from, element by element; nothing where sums, products or what a loop carries are among that, or a tensor
/// that the kernel writes, or a block's own place.
pub fn cone(nest: &Nest, value: ValueId) -> Option<BTreeSet<ValueId>> {
    let mut seen = BTreeSet::from([value]);
    let mut open = vec![value];
    let written = |tensor: &TensorId| nest.tensor(*tensor).mutable;
    let elsewhere = |int: &Int| match int {
        Int::BlockStart(_) | Int::BlockEnd(_) => true,
        Int::Element(tensor, _) => written(tensor),
        _ => false,
    };
    while let Some(id) = open.pop() {
        let op = &nest.value(id).op;
        match op {
            Op::Dot { .. } | Op::Reduce(..) | Op::Carried(..) | Op::LoopResult(..) | Op::Transpose(_) => return None,
            Op::Load { tensor, .. } if written(tensor) => return None,
            _ if ints(op).into_iter().any(|int| int.any(&elsewhere)) => return None,
            _ => open.extend(inputs(op).into_iter().filter(|input| seen.insert(*input))),
        }
    }
    Some(seen)
}

/// Axes of the loops in which a value is evaluated, outermost first.
fn loops_around(block: &Block, value: ValueId) -> Option<Vec<AxisId>> {
    block.stmts.iter().find_map(|stmt| match stmt {
        Stmt::Value(id) => (*id == value).then(Vec::new),
        Stmt::Store { .. } => None,
        Stmt::Loop(inner) => loops_around(&inner.body, value).map(|loops| [vec![inner.axis], loops].concat()),
    })
}

/// All axes on which an element of the value depends.
fn axes_of(nest: &Nest, id: ValueId, found: &mut BTreeSet<AxisId>) {
    let Value { op, ty, .. } = nest.value(id);
    found.extend(&ty.axes);
    ints(op).into_iter().for_each(|int| axes_in(int, &mut |axis| _ = found.insert(axis)));
}

/// The integers that an operation takes.
fn ints(op: &Op) -> Vec<&Int> {
    fn of_predicate(predicate: &Predicate) -> Vec<&Int> {
        match predicate {
            Predicate::Const(_) => Vec::new(),
            Predicate::Compare(_, a, b) => vec![a, b],
            Predicate::And(a, b) | Predicate::Or(a, b) => [of_predicate(a), of_predicate(b)].concat(),
            Predicate::Not(inner) => of_predicate(inner),
        }
    }
    match op {
        Op::Load { index, .. } => index.iter().collect(),
        Op::Int(int) => vec![int],
        Op::Predicate(predicate) => of_predicate(predicate),
        _ => Vec::new(),
    }
}

/// Whether the largest of what a value is computed from lies along the axis.
fn lies_along(nest: &Nest, cone: &[ValueId], axis: AxisId) -> bool {
    cone.iter().any(|id| match nest.value(*id) {
        Value { op: Op::Load { tensor, index }, ty, .. } => {
            ty.axes.len() == 2 && columns::are_contiguous(nest, *tensor, index, axis)
        }
        _ => false,
    })
}

fn dims(nest: &Nest, axis: AxisId) -> Vec<DimId> {
    match &nest.axis(axis).extent {
        Extent::Dim(dim) => vec![*dim],
        Extent::Flat(parts) => parts.clone(),
    }
}

fn coordinates(nest: &Nest, axis: AxisId) -> Vec<Int> {
    match &nest.axis(axis).extent {
        Extent::Dim(_) => vec![Int::Axis(axis)],
        Extent::Flat(parts) => (0..parts.len()).map(|part| Int::FlatCoord(axis, part)).collect(),
    }
}

/// What the user calls it, or what it is rounded from.
fn name_of(nest: &Nest, value: ValueId) -> Option<&str> {
    let Value { op, name, .. } = nest.value(value);
    match op {
        Op::Cast(inner) => name.as_deref().or_else(|| name_of(nest, *inner)),
        _ => name.as_deref(),
    }
}

/// That no other tensor has.
fn free_name(nest: &Nest, wanted: &str) -> String {
    let taken: BTreeSet<&str> = nest.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let candidates = (1u32..).map(|count| if count == 1 { wanted.to_string() } else { format!("{wanted}_{count}") });
    candidates.into_iter().find(|name| !taken.contains(name.as_str())).unwrap_or_default()
}

/// Values that something is stored or carried from.
fn live(nest: &Nest) -> BTreeSet<ValueId> {
    fn roots(block: &Block, open: &mut Vec<ValueId>) {
        for stmt in &block.stmts {
            match stmt {
                Stmt::Value(_) => {}
                Stmt::Store { value, .. } => open.push(*value),
                Stmt::Loop(inner) => {
                    open.extend(inner.carried.iter().flat_map(|carried| [carried.init, carried.next]));
                    roots(&inner.body, open);
                }
            }
        }
    }
    let mut open = Vec::new();
    roots(&nest.body, &mut open);
    let mut live = BTreeSet::new();
    while let Some(id) = open.pop() {
        if live.insert(id) {
            open.extend(inputs(&nest.value(id).op));
        }
    }
    live
}

fn prune(block: &mut Block, live: &BTreeSet<ValueId>) {
    block.stmts.retain(|stmt| !matches!(stmt, Stmt::Value(id) if !live.contains(id)));
    for stmt in &mut block.stmts {
        if let Stmt::Loop(inner) = stmt {
            prune(&mut inner.body, live);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::emit;
    use crate::lower::{Lowered, lower_portfolio};
    use crate::program::pressure::{MOST_REGISTERS, peak};
    use crate::schedule::target::{SM_80, SM_90A};
    use crate::testing::{gemm, gram, lowered, nest};
    use proc_macro2::TokenStream;
    use quote::quote;

    fn parts(item: TokenStream) -> Option<Precomputed> {
        precomputed(&nest(item).0)
    }

    /// Integer weights with a zero for each row.
    fn quantised(dot: TokenStream) -> TokenStream {
        quote! {
            fn f<B: Dim, M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (B, M, K)>, w: &Tensor<i32, (B, N, K)>, wt: &Tensor<i32, (B, K, N)>, zero: &Tensor<i32, (N,)>,
                c: &mut Tensor<f16, (B, M, N)>,
            ) {
                tile!(for (batch, i, j) in (each(B), M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += #dot; });
                    c[(batch, i, j)] = acc.to();
                });
            }
        }
    }

    #[test]
    fn an_operand_is_a_tensor_that_a_kernel_of_its_own_computes() {
        let weights = quote!({
            let weights = (w[(batch, j, k)] - zero[j]).to::<f16>();
            dot(a[(batch, i, k)], weights.t())
        });
        let Precomputed { nest, operands } = parts(quantised(weights)).expect("weights");
        let text = nest.to_string();
        assert!(text.contains(" weights: f16(j, k) = load weights[batch, j, k]"), "{text}");
        assert!(!text.contains("zero["), "nobody else asks for what it is computed from: {text}");
        let [operand] = &operands[..] else { panic!("one operand") };
        let text = operand.to_string();
        let code: Vec<&str> = text.lines().map(str::trim).skip_while(|line| !line.starts_with("out weights")).collect();
        assert_eq!(
            code,
            [
                "out weights: f16[B, N, K]",
                "grid batch in each(B), j in N, k in K",
                "v0: i32(j, k) = load w[batch, j, k]",
                "v1: i32(j) = load zero[j]",
                "v2: i32(j, k) = sub v0 v1",
                "v3 weights: f16(j, k) = cast v2",
                "store weights[batch, j, k] = v3",
            ]
        );
    }

    /// Of each operand, its axes in the order in which they lie.
    fn laid(dot: TokenStream) -> Vec<String> {
        let operands = parts(quantised(dot)).map_or_else(Vec::new, |parts| parts.operands);
        let axes = |nest: &Nest| nest.axes.iter().map(|axis| axis.name.as_str()).collect::<Vec<_>>().join(" ");
        operands.iter().map(axes).collect()
    }

    #[test]
    fn it_lies_as_what_it_is_computed_from() {
        let left = quote!(a[(batch, i, k)]);
        assert_eq!(laid(quote!(dot(#left, w[(batch, j, k)].to::<f16>().t()))), ["batch j k"]);
        assert_eq!(laid(quote!(dot(#left, wt[(batch, k, j)].to::<f16>()))), ["batch k j"]);
        assert_eq!(laid(quote!(dot(#left, wt[(0, k, j)].to::<f16>()))), ["k j"], "the same for all");
        let tf32 = quote!(dot(#left.to::<f32>().to::<tf32>(), wt[(batch, k, j)].to::<f32>().to::<tf32>()));
        assert_eq!(laid(tf32), ["batch i k", "batch j k"], "wgmma reads those along the sum");
        let rows = quote!(dot(#left * 2.0, (zero[j] + iota(k)).to::<f16>().t()));
        assert_eq!(laid(rows), ["batch i k", "j k"]);
    }

    #[test]
    fn each_has_a_kernel_that_takes_no_other() {
        let both = quote!(dot(a[(batch, i, k)] * 2.0, w[(batch, j, k)].to::<f16>().t()));
        let Precomputed { nest, operands } = parts(quantised(both)).expect("both sides");
        assert_eq!(nest.tensors.iter().filter(|tensor| tensor.precomputed).count(), 2);
        let written = |nest: &Nest| (nest.tensors.len(), nest.tensors.iter().any(|tensor| tensor.precomputed));
        assert_eq!(operands.iter().map(written).collect::<Vec<_>>(), [(6, false), (7, false)]);
    }

    #[test]
    fn operands_that_are_alike_are_one() {
        let Precomputed { nest, operands } = parts(gram(TokenStream::new())).expect("halves");
        assert_eq!((operands.len(), nest.tensors.len()), (1, 3));
        assert_eq!(nest.to_string().matches("= load a[").count(), 2, "{nest}");
    }

    #[test]
    fn what_only_a_block_knows_or_no_other_computes_again_stays() {
        let none = |item: TokenStream| assert!(parts(item.clone()).is_none(), "{item}");
        none(gemm(quote!(sm_80)));
        none(quantised(quote!(dot(a[(batch, i, k)], (w[(batch, j, k)] - j.start()).to::<f16>().t()))));
        none(rows_times(quote!(let twice = a[(i, ..)] * 2.0;), quote!(twice)));
        // By windows, an element for each of their taps.
        none(quote! {
            fn f<H: Dim, N: Dim, R: Dim, C: Dim>(
                x: &Tensor<f16, (H, C)>, w: &Tensor<f16, (N, R, C)>, y: &mut Tensor<f32, (H, N)>,
            ) {
                tile!(for (p, j) in (H, N) {
                    let mut acc = zeros::<f32>((p, j));
                    tile!(for (r, c) in (each(R), C) { acc += dot(x[(p + r, c)] * 2.0, w[(j, r, c)].t()); });
                    y[(p, j)] = acc;
                });
            }
        });
    }

    /// A block takes all columns of its rows, step by step.
    fn rows_times(before: TokenStream, left: TokenStream) -> TokenStream {
        quote! {
            fn f<M: Dim, N: Dim>(
                a: &Tensor<f16, (M, Const<64>)>, b: &Tensor<f16, (N, Const<64>)>, c: &mut Tensor<f32, (M, N)>,
            ) {
                tile!(for i in M {
                    #before
                    tile!(for j in N { c[(i, j)] = dot(#left, b[(j, ..)].t()); });
                });
            }
        }
    }

    #[test]
    fn what_the_steps_of_a_loop_compute_again_is_computed_first() {
        let Precomputed { operands, .. } = parts(rows_times(quote!(), quote!(a[(i, ..)] * 2.0))).expect("rows");
        let [operand] = &operands[..] else { panic!("one operand") };
        assert!(operand.to_string().contains("grid i in M, d in "), "{operand}");
    }

    #[test]
    fn a_portfolio_has_both() {
        let (nest, _) = nest(quantised(quote!(dot(a[(batch, i, k)], w[(batch, j, k)].to::<f16>().t()))));
        for target in [&SM_80, &SM_90A] {
            let portfolio = lower_portfolio(&nest, target).expect("it lowers");
            let (first, fused): (Vec<_>, Vec<_>) =
                portfolio.iter().partition(|lowered| lowered.program.schedule.contains("precomputed = true"));
            assert!(!first.is_empty() && !fused.is_empty());
            let fetched =
                |lowered: &Lowered| lowered.cost.fetches.iter().any(|fetch| fetch.tensor == nest.tensors.len());
            assert!(first.iter().all(|lowered| fetched(lowered)), "by rings");
            assert!(!fused.iter().any(|lowered| fetched(lowered)));
        }
    }

    #[test]
    fn what_has_no_registers_beside_its_products_is_left_to_an_older_target() {
        let (nest, _) = nest(quote! {
            fn f<S: Dim>(
                q: &Tensor<f16, (S, Const<128>)>, k: &Tensor<f16, (S, Const<128>)>, v: &Tensor<f16, (S, Const<128>)>,
                c: &Tensor<f32, (S, Const<64>)>, o: &mut Tensor<f32, (S, Const<128>)>,
            ) {
                tile!(for i in S {
                    let mut acc = zeros::<f32>((i, ..));
                    tile!(for j in S {
                        let mut s = zeros::<f32>((i, j));
                        tile!(for d in Const::<64> {
                            let left = q[(i, d + 0)].to::<f32>() * c[(i, d)] - q[(i, d + 64)].to::<f32>();
                            let right = k[(j, d + 0)].to::<f32>() * c[(j, d)] - k[(j, d + 64)].to::<f32>();
                            s += dot(left.to::<f16>(), right.to::<f16>().t());
                            s += dot((left * 2.0).to::<f16>(), (right * 2.0).to::<f16>().t());
                        });
                        acc += dot(s.to::<f16>(), v[(j, ..)]);
                    });
                    o[(i, ..)] = acc;
                });
            }
        });
        let beside = |target| {
            let portfolio = lower_portfolio(&nest, target).expect("it lowers");
            assert!(portfolio.iter().any(|lowered| lowered.program.schedule.contains("precomputed = true")));
            let mut fused = portfolio.into_iter().filter(|lowered| !lowered.program.schedule.contains("precomputed"));
            fused.next().map(|lowered| peak(&lowered.program))
        };
        assert_eq!(beside(&SM_90A), None);
        assert!(beside(&SM_80).is_some_and(|registers| registers <= MOST_REGISTERS));
    }

    #[test]
    fn a_schedule_may_ask_for_it() {
        let pinned = |dot: TokenStream| {
            let kernel = quantised(dot);
            lowered(quote! { #[schedule(sm_90a, i = 128, j = 128, precomputed = true)] #kernel })
        };
        let Lowered { nest, program, .. } =
            pinned(quote!(dot(a[(batch, i, k)], w[(batch, j, k)].to::<f16>().t()))).expect("it lowers");
        assert!(program.schedule.contains(", precomputed = true"), "{}", program.schedule);
        let text = emit(&nest, &program);
        assert!(text.contains("// operand: (B, N, K), which the launch computes first\n"), "{text}");
        let error = lowered(gemm(quote!(sm_90a, precomputed = true))).map(|_| ()).expect_err("tensors as they are");
        assert_eq!(error.option.as_deref(), Some("precomputed"));
    }
}
