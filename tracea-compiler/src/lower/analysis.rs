//! What a nest's values are used for: who reads a value, and how each dot gets its operands.

use super::columns;
use crate::nest::{
    Axis, AxisId, AxisKind, Block, DimId, Dtype, Extent, Int, IntOp, Loop, Nest, Op, Predicate, Stmt, TensorId, ValueId,
};
use crate::program::Major;

/// A reader of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Value(ValueId),
    Store,
    /// The initial or next value of a loop-carried variable.
    Carry,
}

/// How a dot's operand comes to the tensor cores.
#[derive(Clone, Debug, PartialEq)]
pub enum OperandSource {
    /// Straight from a tensor, through shared memory. `major` is how the tensor holds it.
    Tensor { load: ValueId, tensor: TensorId, major: Major },
    /// Computed in registers.
    Computed { value: ValueId },
}

#[derive(Clone, Debug, PartialEq)]
pub struct DotFact {
    pub value: ValueId,
    pub m: AxisId,
    pub n: AxisId,
    pub k: AxisId,
    /// What the multiplication sees.
    pub dtype: Dtype,
    pub a: OperandSource,
    pub b: OperandSource,
    /// Enclosing loops, outermost first.
    pub loops: Vec<AxisId>,
}

/// The dim that a sum's innermost loop runs along, where there are other loops around and the launch says how long it is: each of their steps
/// would bring all that it is short of a tile.
pub fn inner_sum(nest: &Nest, facts: &Facts, axis: AxisId) -> Option<DimId> {
    let Axis { extent: Extent::Dim(dim), kind: AxisKind::Tiled, .. } = nest.axis(axis) else { return None };
    let innermost = |dot: &DotFact| dot.k == axis && dot.loops.len() > 1 && dot.loops.last() == Some(&axis);
    (nest.dim(*dim).known.is_none() && facts.dots.iter().any(innermost)).then_some(*dim)
}

pub struct Facts {
    pub uses: Vec<Vec<Use>>,
    pub dots: Vec<DotFact>,
    /// Values that some block evaluates, in program order.
    pub order: Vec<ValueId>,
    /// Position of a value in program order.
    pub position: Vec<usize>,
    /// Loads that only dots read.
    pub operand_loads: Vec<ValueId>,
}

impl Facts {
    pub fn of(nest: &Nest) -> Facts {
        let mut facts = Facts {
            uses: vec![Vec::new(); nest.values.len()],
            dots: Vec::new(),
            order: Vec::new(),
            position: vec![usize::MAX; nest.values.len()],
            operand_loads: Vec::new(),
        };
        facts.walk(nest, &nest.body, &mut Vec::new());
        let mut loads = Vec::new();
        for dot in &facts.dots {
            for source in [&dot.a, &dot.b] {
                if let OperandSource::Tensor { load, .. } = source {
                    loads.push(*load);
                }
            }
        }
        facts.operand_loads = loads;
        facts
    }

    fn walk(&mut self, nest: &Nest, block: &Block, loops: &mut Vec<AxisId>) {
        for stmt in &block.stmts {
            match stmt {
                Stmt::Value(id) => self.value(nest, *id, loops),
                Stmt::Store { value, .. } => self.uses[value.index()].push(Use::Store),
                Stmt::Loop(inner) => {
                    for carried in &inner.carried {
                        self.uses[carried.init.index()].push(Use::Carry);
                    }
                    loops.push(inner.axis);
                    self.walk(nest, &inner.body, loops);
                    loops.pop();
                    for carried in &inner.carried {
                        self.uses[carried.next.index()].push(Use::Carry);
                    }
                }
            }
        }
    }

    fn value(&mut self, nest: &Nest, id: ValueId, loops: &[AxisId]) {
        self.position[id.index()] = self.order.len();
        self.order.push(id);
        for input in inputs(&nest.value(id).op) {
            self.uses[input.index()].push(Use::Value(id));
        }
        if let Op::Dot { a, b } = nest.value(id).op {
            let (ta, tb) = (&nest.value(a).ty, &nest.value(b).ty);
            let (m, k, n) = (ta.axes[0], ta.axes[1], tb.axes[1]);
            self.dots.push(DotFact {
                value: id,
                m,
                n,
                k,
                dtype: ta.dtype,
                a: operand_source(nest, a, m),
                b: operand_source(nest, b, n),
                loops: loops.to_vec(),
            });
        }
    }

    pub fn dot(&self, value: ValueId) -> Option<&DotFact> {
        self.dots.iter().find(|dot| dot.value == value)
    }

    pub fn used_once(&self, value: ValueId) -> bool {
        self.uses[value.index()].len() == 1
    }
}

/// The values that an operation reads.
pub fn inputs(op: &Op) -> Vec<ValueId> {
    match op {
        Op::Dot { a, b } | Op::Binary(_, a, b) | Op::Compare(_, a, b) => vec![*a, *b],
        Op::Transpose(v) | Op::Unary(_, v) | Op::Cast(v) | Op::Broadcast(v) | Op::Reduce(_, v, _) => vec![*v],
        Op::Select(c, a, b) => vec![*c, *a, *b],
        Op::Call(_, args) => args.clone(),
        Op::Fill(_)
        | Op::Scalar(_)
        | Op::Int(_)
        | Op::Predicate(_)
        | Op::Load { .. }
        | Op::Carried(..)
        | Op::LoopResult(..) => Vec::new(),
    }
}

/// Looks through transposes.
pub fn untransposed(nest: &Nest, mut id: ValueId) -> ValueId {
    while let Op::Transpose(inner) = nest.value(id).op {
        id = inner;
    }
    id
}

fn operand_source(nest: &Nest, operand: ValueId, other: AxisId) -> OperandSource {
    let mut id = untransposed(nest, operand);
    let dtype = nest.value(operand).ty.dtype;
    // Rounding to tf32 happens as fragments are read.
    if let (Dtype::Tf32, Op::Cast(inner)) = (dtype, &nest.value(id).op) {
        id = untransposed(nest, *inner);
    }
    if let Op::Load { tensor, index } = &nest.value(id).op {
        let stored = nest.tensor(*tensor).dtype;
        if stored == dtype || (stored, dtype) == (Dtype::F32, Dtype::Tf32) {
            let major = if columns::are_contiguous(nest, *tensor, index, other) { Major::Mn } else { Major::K };
            return OperandSource::Tensor { load: id, tensor: *tensor, major };
        }
    }
    OperandSource::Computed { value: untransposed(nest, operand) }
}

/// Calls `each` with every axis that the expression names as an element's coordinate.
pub fn axes_in(int: &Int, each: &mut impl FnMut(AxisId)) {
    if let Int::Axis(axis) | Int::FlatCoord(axis, _) = int {
        each(*axis);
    }
    for part in int.parts() {
        axes_in(part, each);
    }
}

pub fn mentions(int: &Int, axis: AxisId) -> bool {
    let mut found = false;
    axes_in(int, &mut |a| found |= a == axis);
    found
}

/// Whether the index is another one in another block of the axis.
pub fn depends_on(int: &Int, axis: AxisId) -> bool {
    mentions(int, axis) || is_bound_of(int, axis)
}

fn is_bound_of(int: &Int, axis: AxisId) -> bool {
    int.any(&|part| matches!(part, Int::BlockStart(a) | Int::BlockEnd(a) if *a == axis))
}

/// Whether all tiles take as long: then blocks may share them out beforehand, and each bring its next tile's operands while it
/// writes out the last. Where loops have bounds of their own, a block that is done takes the next tile.
pub fn steps_are_alike(block: &Block) -> bool {
    block.stmts.iter().all(|stmt| match stmt {
        Stmt::Loop(inner) => inner.from.is_none() && inner.until.is_none() && steps_are_alike(&inner.body),
        _ => true,
    })
}

/// The first loop that gets longer from one block along the axis to the next: then the last blocks are best begun first, so that none is long
/// that runs when most are done.
pub fn longer_along(block: &Block, axis: AxisId) -> Option<&Loop> {
    block.stmts.iter().find_map(|stmt| match stmt {
        Stmt::Loop(growing @ Loop { from: None, until: Some(until), .. }) if grows_along(until, axis) => Some(growing),
        Stmt::Loop(inner) => longer_along(&inner.body, axis),
        _ => None,
    })
}

fn grows_along(int: &Int, axis: AxisId) -> bool {
    match int {
        Int::BlockStart(of) | Int::BlockEnd(of) => *of == axis,
        Int::Binary(IntOp::Add | IntOp::Min | IntOp::Max, a, b) => grows_along(a, axis) || grows_along(b, axis),
        _ => false,
    }
}

/// Axes whose element coordinates a predicate reads.
pub fn predicate_axes(predicate: &Predicate, each: &mut impl FnMut(AxisId)) {
    match predicate {
        Predicate::Const(_) => {}
        Predicate::Compare(_, a, b) => {
            axes_in(a, each);
            axes_in(b, each);
        }
        Predicate::And(a, b) | Predicate::Or(a, b) => {
            predicate_axes(a, each);
            predicate_axes(b, each);
        }
        Predicate::Not(a) => predicate_axes(a, each),
    }
}

/// Axes that have blocks: all but scalar loops.
pub fn is_tiled(nest: &Nest, axis: AxisId) -> bool {
    nest.axis(axis).kind != AxisKind::Each
}

/// Values that never need registers: tensor tiles that only dots read, with the transposes and roundings between.
pub fn operand_only(nest: &Nest, facts: &Facts) -> std::collections::BTreeSet<ValueId> {
    let mut skipped = std::collections::BTreeSet::new();
    for id in facts.order.iter().rev() {
        let direct = facts.operand_loads.contains(id)
            || matches!(nest.value(*id).op, Op::Transpose(inner) | Op::Cast(inner) if leads_to_operand(nest, facts, inner));
        if !direct {
            continue;
        }
        let all = facts.uses[id.index()].iter().all(|usage| match usage {
            Use::Value(reader) => match nest.value(*reader).op {
                Op::Dot { .. } => facts.dot(*reader).is_some_and(|dot| reads_straight(nest, dot, *id)),
                _ => skipped.contains(reader),
            },
            Use::Store | Use::Carry => false,
        });
        if all {
            skipped.insert(*id);
        }
    }
    skipped
}

fn leads_to_operand(nest: &Nest, facts: &Facts, mut id: ValueId) -> bool {
    loop {
        if facts.operand_loads.contains(&id) {
            return true;
        }
        match nest.value(id).op {
            Op::Transpose(inner) | Op::Cast(inner) => id = inner,
            _ => return false,
        }
    }
}

/// Whether every operand of the dot that comes from `id` comes straight from a tensor.
fn reads_straight(nest: &Nest, dot: &DotFact, id: ValueId) -> bool {
    let Op::Dot { a, b } = nest.value(dot.value).op else { return false };
    (a != id || matches!(dot.a, OperandSource::Tensor { .. }))
        && (b != id || matches!(dot.b, OperandSource::Tensor { .. }))
}

/// Numbers blocks (loop bodies) and records which one evaluates each value.
pub fn homes(block: &Block, next: &mut usize, homes: &mut std::collections::BTreeMap<ValueId, usize>) {
    let here = *next;
    *next += 1;
    for stmt in &block.stmts {
        match stmt {
            Stmt::Value(id) => {
                homes.insert(*id, here);
            }
            Stmt::Loop(inner) => self::homes(&inner.body, next, homes),
            Stmt::Store { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::cuda;
    use proc_macro2::TokenStream;
    use quote::quote;

    #[test]
    fn blocks_that_take_longer_begin_first() {
        let first = |until: TokenStream| {
            let text = cuda(quote! {
                #[schedule(sm_80, i = 4, j = 512)]
                fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M,)>) {
                    tile!(for i in M {
                        let mut total = zeros::<f32>(i);
                        tile!(for j in #until { total += x[(i, j)].row_sum(); });
                        y[i] = total;
                    });
                }
            });
            text.lines().find_map(|line| line.trim().strip_prefix("const int i0 = ").map(str::to_string)).expect("i0")
        };
        assert_eq!(first(quote!(N)), "block * BLOCK_I;");
        assert_eq!(first(quote!(N.until(i.end()))), "(((M + BLOCK_I - 1) / BLOCK_I) - 1 - block) * BLOCK_I;");
        assert_eq!(first(quote!(N.range(i.start()..i.end()))), "block * BLOCK_I;", "as long as any other");
    }
}
