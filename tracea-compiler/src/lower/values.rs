//! Element-wise work and reductions: which values get registers of their own, and the loops that fill them.
//!
//! A value that one neighbour of the same shape reads stays an expression inside its reader's loop. A running value is
//! updated in place where nothing reads its old content afterwards.

use super::Lowering;
use super::analysis::{Use, inputs, is_tiled, untransposed};
use crate::nest::{AxisId, BinaryOp, Dtype, Int, Loop, Op, Predicate, ReduceOp, Stmt as NestStmt, UnaryOp, ValueId};
use crate::program::{Domain, Expr, Scalar, Stmt, Var, VarId};
use crate::schedule::ScheduleError;

impl Lowering<'_> {
    /// A value at its place in program order.
    pub fn value(&mut self, id: ValueId) -> Result<(), ScheduleError> {
        if self.skipped.contains(&id) || self.vars.contains_key(&id) || self.waits_for_store(id) {
            return Ok(());
        }
        if self.is_folded(id) {
            return Ok(());
        }
        if let Some(fold) = self.fold_to(id) {
            return self.fold(fold);
        }
        let value = self.nest.value(id);
        match &value.op {
            // A transposed tile is the same registers under other names.
            Op::Carried(..) | Op::LoopResult(..) | Op::Transpose(_) => Ok(()),
            Op::Dot { .. } if self.sum_of(id).is_some() => Ok(()),
            Op::Dot { .. } => {
                let target = self.fresh(id, Scalar::Float);
                self.map(target, Expr::Number(0.0));
                self.vars.insert(id, target);
                self.dot(id, target)
            }
            Op::Binary(BinaryOp::Add, a, b) if self.product_in(id, *a, *b).is_some() => {
                let (sum, product) = self.product_in(id, *a, *b).unwrap_or((*a, *b));
                let target = self.accumulator(id, sum)?;
                self.vars.insert(id, target);
                self.dot(product, target)
            }
            Op::Load { tensor, index } => {
                let domain = self.domain(id);
                // What is only widened arrives wide: a load converts on its way.
                let wide = self.widened(id);
                let named = wide.filter(|wide| self.nest.value(*wide).name.is_some()).unwrap_or(id);
                let ty = scalar_of(self.nest.value(wide.unwrap_or(id)).ty.dtype);
                let target = self.declare(&self.name(named), ty, domain);
                self.load(id, *tensor, index, target);
                self.vars.insert(wide.unwrap_or(id), target);
                Ok(())
            }
            Op::Reduce(op, input, axis) => match self.own_part(id) {
                Some(placed) => self.reduce_own(placed),
                None => self.reduce(id, *op, *input, *axis),
            },
            Op::Select(condition, yes, no) if self.split_select(id, *condition, *yes, *no)? => Ok(()),
            _ if self.stays_inline(id) => Ok(()),
            _ => {
                self.materialize(id)?;
                self.note_extreme(id)
            }
        }
    }

    pub fn domain(&self, id: ValueId) -> Domain {
        let axes: Vec<AxisId> =
            self.nest.value(id).ty.axes.iter().copied().filter(|axis| is_tiled(self.nest, *axis)).collect();
        self.domains.of(&axes)
    }

    pub fn name(&self, id: ValueId) -> String {
        let value = self.nest.value(id);
        match (&value.name, &value.op) {
            (Some(name), _) => name.clone(),
            (None, Op::Load { tensor, .. }) => format!("{}_tile", self.nest.tensor(*tensor).name),
            (None, Op::Dot { .. }) => "product".into(),
            (None, Op::Reduce(ReduceOp::Sum, ..)) => "total".into(),
            (None, Op::Reduce(ReduceOp::Max, ..)) => "largest".into(),
            (None, Op::Reduce(ReduceOp::Min, ..)) => "smallest".into(),
            _ => "value".into(),
        }
    }

    fn fresh(&mut self, id: ValueId, ty: Scalar) -> VarId {
        let domain = self.domain(id);
        self.declare(&self.name(id), ty, domain)
    }

    pub fn map(&mut self, target: VarId, value: Expr) {
        self.masked.retain(|(var, ..)| *var != target);
        self.out.push(Stmt::Map { target, value, unless_all: None });
    }

    /// Puts a value into registers, if it is not there, and says which.
    pub fn materialize(&mut self, id: ValueId) -> Result<VarId, ScheduleError> {
        if let Some(var) = self.vars.get(&id) {
            return Ok(*var);
        }
        let domain = self.domain(id);
        let value = self.computed(id, domain)?;
        let running = self.running(id, id);
        let target = running.unwrap_or_else(|| self.fresh(id, scalar_of(self.nest.value(id).ty.dtype)));
        self.map(target, value);
        if running.is_none() {
            self.note_computed(target, id);
        }
        self.vars.insert(id, target);
        Ok(target)
    }

    /// The value as an expression where a loop runs over `domain`.
    pub fn expr(&mut self, id: ValueId, domain: Domain) -> Result<Expr, ScheduleError> {
        if let Some(var) = self.vars.get(&id).copied() {
            let var = self.moved(id, var, domain)?;
            return Ok(Expr::Var(var));
        }
        // A value of fewer axes is computed once an element of its own, not once an element of its reader.
        if self.domain(id) != domain && !self.is_free(id) {
            let var = self.materialize(id)?;
            let var = self.moved(id, var, domain)?;
            return Ok(Expr::Var(var));
        }
        self.computed(id, domain)
    }

    /// Costs nothing wherever it is computed: constants, parameters, coordinates.
    pub fn is_free(&self, id: ValueId) -> bool {
        match &self.nest.value(id).op {
            Op::Fill(_) | Op::Scalar(_) | Op::Int(_) | Op::Predicate(_) => true,
            Op::Transpose(inner) | Op::Broadcast(inner) => self.is_free(*inner),
            // Of scalars: the assembler makes one number of both.
            Op::Binary(BinaryOp::Mul, a, b) => {
                let value = self.nest.value(id);
                value.ty.axes.is_empty() && value.ty.dtype == Dtype::F32 && self.is_free(*a) && self.is_free(*b)
            }
            _ => false,
        }
    }

    fn computed(&mut self, id: ValueId, domain: Domain) -> Result<Expr, ScheduleError> {
        let value = self.nest.value(id);
        let dtype = value.ty.dtype;
        let boxed = Box::new;
        let expr = match &value.op {
            Op::Fill(number) => match dtype {
                Dtype::I32 => Expr::Int(Int::Const(*number as i64)),
                Dtype::Bool => Expr::Predicate(Predicate::Const(*number != 0.0)),
                _ => Expr::Number(*number),
            },
            Op::Scalar(scalar) => Expr::Param(scalar.index()),
            Op::Int(int) => Expr::Int(int.clone()),
            Op::Predicate(predicate) => Expr::Predicate(predicate.clone()),
            Op::Transpose(inner) | Op::Broadcast(inner) => return self.expr(*inner, domain),
            Op::Unary(op, a) => rounded(dtype, Expr::Unary(*op, boxed(self.expr(*a, domain)?))),
            Op::Binary(BinaryOp::Div, a, b) if dtype == Dtype::F32 && self.is_slice(*b, domain) => {
                let (a, inverse) = (self.expr(*a, domain)?, self.inverse(*b, domain)?);
                Expr::Binary(BinaryOp::Mul, boxed(a), boxed(Expr::Var(inverse)))
            }
            // One reciprocal serves all elements.
            Op::Binary(BinaryOp::Div, a, b) if dtype == Dtype::F32 && self.is_scalar(*b, domain) => {
                let (a, b) = (self.expr(*a, domain)?, self.expr(*b, domain)?);
                Expr::Binary(BinaryOp::Mul, boxed(a), boxed(Expr::Unary(UnaryOp::Recip, boxed(b))))
            }
            Op::Binary(op, a, b) => {
                let finite = self.finite.get(b).filter(|_| *op == BinaryOp::Sub).copied();
                let a = self.expr(*a, domain)?;
                let b = if let Some(finite) = finite { Expr::Var(finite) } else { self.expr(*b, domain)? };
                match op {
                    BinaryOp::Div if dtype == Dtype::F32 => Expr::quotient(a, b),
                    op => rounded(dtype, Expr::Binary(*op, boxed(a), boxed(b))),
                }
            }
            Op::Compare(op, a, b) => {
                let (a, b) = (self.expr(*a, domain)?, self.expr(*b, domain)?);
                Expr::Compare(*op, boxed(a), boxed(b))
            }
            Op::Select(c, a, b) => {
                let c = self.expr(*c, domain)?;
                let (a, b) = (self.expr(*a, domain)?, self.expr(*b, domain)?);
                Expr::Select(boxed(c), boxed(a), boxed(b))
            }
            Op::Cast(a) => {
                let from = self.nest.value(*a).ty.dtype;
                let a = self.expr(*a, domain)?;
                if from == dtype { a } else { Expr::Convert(scalar_of(dtype), boxed(a)) }
            }
            Op::Call(function, args) => {
                let args = args.iter().map(|arg| self.expr(*arg, domain)).collect::<Result<_, _>>()?;
                rounded(dtype, Expr::Call(self.nest.functions[function.index()].name.clone(), args))
            }
            Op::Dot { .. } | Op::Load { .. } | Op::Reduce(..) | Op::Carried(..) | Op::LoopResult(..) => {
                return Err(ScheduleError::new(format!(
                    "a value of `{}` is read before it is computed -- this is a fault in the compiler",
                    self.nest.name
                )));
            }
        };
        Ok(expr)
    }

    /// Whether it is a number of the launch's that a tile's elements share.
    fn is_scalar(&self, id: ValueId, domain: Domain) -> bool {
        match self.nest.value(id).op {
            Op::Scalar(_) => matches!(domain, Domain::Tile(_)),
            Op::Transpose(inner) | Op::Broadcast(inner) => self.is_scalar(inner, domain),
            _ => false,
        }
    }

    /// Whether a tile's elements share values of this one.
    fn is_slice(&self, id: ValueId, domain: Domain) -> bool {
        matches!(domain, Domain::Tile(_)) && self.domain(id) != domain && !self.is_free(id)
    }

    /// A divisor's reciprocal, once an element of the divisor: a product each takes the place of a division each.
    fn inverse(&mut self, divisor: ValueId, domain: Domain) -> Result<VarId, ScheduleError> {
        let Expr::Var(divisor) = self.expr(divisor, domain)? else {
            return Err(ScheduleError::new("a divisor has no registers -- this is a fault in the compiler"));
        };
        let Var { name, ty, domain } = self.program.var(divisor).clone();
        let inverse = self.declare(&format!("{name}_inverse"), ty, domain);
        self.map(inverse, Expr::Unary(UnaryOp::Recip, Box::new(Expr::Var(divisor))));
        Ok(inverse)
    }

    /// A slice that sits in other registers than the reader wants is passed through scratch memory.
    fn moved(&mut self, id: ValueId, var: VarId, domain: Domain) -> Result<VarId, ScheduleError> {
        let from = self.program.var(var).domain;
        if self.domains.agrees(&self.program.layouts, from, domain) || matches!(from, Domain::Tile(_)) && from == domain
        {
            return Ok(var);
        }
        let Some(axis) = self.nest.value(id).ty.axes.iter().copied().find(|axis| is_tiled(self.nest, *axis)) else {
            return Ok(var);
        };
        let layout = match domain {
            Domain::Tile(layout) | Domain::Rows(layout) | Domain::Cols(layout) => layout,
            Domain::Once => return Ok(var),
        };
        let to = match domain {
            Domain::Tile(_) if self.program.layout(layout).row_axis == Some(axis) => Domain::Rows(layout),
            Domain::Tile(_) => Domain::Cols(layout),
            other => other,
        };
        if let Op::Load { tensor, index } = &self.nest.value(id).op {
            let again = self.declare(&self.name(id), self.program.var(var).ty, to);
            self.load(id, *tensor, index, again);
            return Ok(again);
        }
        let target = self.declare(&self.name(id), self.program.var(var).ty, to);
        let block = self.schedule.blocks[axis.index()].unwrap_or(1);
        self.scratch = self.scratch.max(block * 4);
        self.out.push(Stmt::Exchange { value: var, target, transposed: false });
        Ok(target)
    }

    fn load(&mut self, id: ValueId, tensor: crate::nest::TensorId, index: &[Int], target: VarId) {
        let source = match self.program.var(target).domain {
            Domain::Tile(id) => {
                let (rows, cols) = (self.program.layout(id).row_axis, self.program.layout(id).col_axis);
                self.access(tensor, index, rows, Some(cols))
            }
            Domain::Rows(id) => {
                let rows = self.program.layout(id).row_axis;
                self.access(tensor, index, rows, None)
            }
            Domain::Cols(id) => {
                let cols = self.program.layout(id).col_axis;
                self.access(tensor, index, None, Some(cols))
            }
            Domain::Once => self.access(tensor, index, None, None),
        };
        self.note_loaded(target, &source);
        let kept = self.place_kept(id);
        let natural = self.program.var(target).domain == self.domain(id);
        let read = Stmt::Load { target, source, kept: kept.filter(|_| natural) };
        match self.fetch_of(id).filter(|_| natural) {
            Some(fetch) => self.read_panel(&fetch, target, read),
            None => self.out.push(read),
        }
    }

    /// The conversion to f32 that is a value's only reader.
    fn widened(&self, id: ValueId) -> Option<ValueId> {
        let [Use::Value(reader)] = self.facts.uses[id.index()][..] else { return None };
        let value = self.nest.value(reader);
        let widens = matches!(value.op, Op::Cast(_)) && value.ty.dtype == Dtype::F32 && !self.skipped.contains(&reader);
        (widens && self.home.get(&reader) == self.home.get(&id)).then_some(reader)
    }

    /// Whether the value's only reader folds it into its own loop.
    fn stays_inline(&self, id: ValueId) -> bool {
        if self.is_free(id) {
            return true;
        }
        let [usage] = self.readers(id)[..] else { return false };
        match usage {
            Use::Value(reader) => {
                let together = self.home.get(&reader) == self.home.get(&id);
                together && self.is_elementwise(reader) && self.domain(reader) == self.domain(id)
                    || self.rounds_operand(id, reader) && (together || self.stays_put(id))
            }
            // A store rounds to the tensor's dtype itself.
            Use::Store => matches!(self.nest.value(id).op, Op::Cast(_)),
            Use::Carry => false,
        }
    }

    /// Who reads the value, transposed or not.
    fn readers(&self, id: ValueId) -> Vec<Use> {
        let mut readers = Vec::new();
        for usage in &self.facts.uses[id.index()] {
            match usage {
                Use::Value(reader) if matches!(self.nest.value(*reader).op, Op::Transpose(_)) => {
                    readers.extend(self.readers(*reader));
                }
                other => readers.push(*other),
            }
        }
        readers
    }

    /// A conversion that a dot makes as it packs its operand.
    fn rounds_operand(&self, id: ValueId, reader: ValueId) -> bool {
        matches!(self.nest.value(reader).op, Op::Dot { .. }) && matches!(self.nest.value(id).op, Op::Cast(_))
    }

    /// Whether what a conversion reads is in registers that nothing changes while a later loop runs.
    fn stays_put(&self, id: ValueId) -> bool {
        let Op::Cast(input) = self.nest.value(id).op else { return false };
        let input = untransposed(self.nest, input);
        self.vars.contains_key(&input) && !matches!(self.nest.value(input).op, Op::Carried(..))
    }

    pub fn is_elementwise(&self, id: ValueId) -> bool {
        !matches!(self.nest.value(id).op, Op::Dot { .. } | Op::Load { .. } | Op::Reduce(..))
            && !inputs(&self.nest.value(id).op).is_empty()
    }

    /// The sum that takes the dot up, where it is the dot's only reader.
    fn sum_of(&self, dot: ValueId) -> Option<ValueId> {
        let [Use::Value(reader)] = self.facts.uses[dot.index()][..] else { return None };
        match self.nest.value(reader).op {
            Op::Binary(BinaryOp::Add, a, b) => self.product_in(reader, a, b).filter(|(_, d)| *d == dot).map(|_| reader),
            _ => None,
        }
    }

    /// `(sum, dot)` where one term of an addition is a dot that can accumulate onto the other.
    pub fn product_in(&self, id: ValueId, a: ValueId, b: ValueId) -> Option<(ValueId, ValueId)> {
        [(a, b), (b, a)].into_iter().find(|(sum, product)| {
            matches!(self.nest.value(*product).op, Op::Dot { .. })
                && self.facts.used_once(*product)
                && self.home.get(product) == self.home.get(&id)
                && self.nest.value(*product).ty == self.nest.value(id).ty
                && self.nest.value(*sum).ty.dtype == Dtype::F32
                && sum != product
        })
    }

    /// Registers that hold `sum` and that `id` may accumulate onto.
    fn accumulator(&mut self, id: ValueId, sum: ValueId) -> Result<VarId, ScheduleError> {
        let domain = self.domain(id);
        if let Some(head) = self.running_sum(id) {
            if self.vars.get(&sum) != Some(&head) {
                let value = self.expr(sum, domain)?;
                self.map(head, value);
            }
            return Ok(head);
        }
        let owned = self.given_up(sum).filter(|_| self.home.get(&sum) == self.home.get(&id));
        if let Some(var) = owned.filter(|var| self.program.var(*var).domain == domain) {
            return Ok(var);
        }
        let value = self.expr(sum, domain)?;
        let target = self.fresh(id, Scalar::Float);
        self.map(target, value);
        Ok(target)
    }

    /// Registers of a value that has one reader; it may overwrite them if it stands in the same block.
    pub fn given_up(&self, id: ValueId) -> Option<VarId> {
        let computed = !matches!(self.nest.value(id).op, Op::Carried(..) | Op::LoopResult(..) | Op::Transpose(_));
        self.vars.get(&id).copied().filter(|_| computed && self.facts.used_once(id))
    }

    /// The running variable that the sum of `id` and more products becomes the next value of, where its old content has no reader left.
    fn running_sum(&self, id: ValueId) -> Option<VarId> {
        let mut last = id;
        while let [Use::Value(reader)] = self.facts.uses[last.index()][..]
            && let Op::Binary(BinaryOp::Add, a, b) = self.nest.value(reader).op
            && self.product_in(reader, a, b).is_some_and(|(sum, _)| sum == last)
            && self.home.get(&reader) == self.home.get(&last)
        {
            last = reader;
        }
        self.running(id, last)
    }

    /// The running variable that `last` becomes the next value of, where its old content has no reader left but `id`.
    fn running(&self, id: ValueId, last: ValueId) -> Option<VarId> {
        let (head, next) = find_carried(&self.nest.body.stmts, last)?;
        let var = *self.vars.get(&head)?;
        let same = self.program.var(var).domain == self.domain(id)
            && self.program.var(var).ty == scalar_of(self.nest.value(id).ty.dtype);
        let dead = self.facts.uses[head.index()].iter().all(|usage| match usage {
            Use::Value(reader) => {
                [id, next].contains(reader) || self.vars.contains_key(reader) || self.folds_into(*reader, next)
            }
            Use::Store | Use::Carry => false,
        });
        (same && dead).then_some(var)
    }

    /// Whether `id` is computed nowhere but inside `reader`'s own loop.
    fn folds_into(&self, id: ValueId, reader: ValueId) -> bool {
        if !self.stays_inline(id) {
            return false;
        }
        match self.facts.uses[id.index()][..] {
            [Use::Value(next)] => {
                self.is_elementwise(next)
                    && (next == reader || self.vars.contains_key(&next) || self.folds_into(next, reader))
            }
            _ => false,
        }
    }
}

/// The loop-carried variable, if any, whose next value is `id`: its head, and `id` again.
fn find_carried(stmts: &[NestStmt], id: ValueId) -> Option<(ValueId, ValueId)> {
    stmts.iter().find_map(|stmt| match stmt {
        NestStmt::Loop(Loop { carried, body, .. }) => carried
            .iter()
            .find(|carried| carried.next == id)
            .map(|carried| (carried.head, id))
            .or_else(|| find_carried(&body.stmts, id)),
        _ => None,
    })
}

pub fn scalar_of(dtype: Dtype) -> Scalar {
    match dtype {
        Dtype::F16 => Scalar::F16,
        Dtype::Bf16 => Scalar::Bf16,
        Dtype::Tf32 => Scalar::Tf32,
        Dtype::F32 => Scalar::Float,
        Dtype::I32 => Scalar::Int,
        Dtype::Bool => Scalar::Bool,
    }
}

/// Arithmetic on 16-bit tiles runs in f32 and is rounded after each operation, as on the host.
fn rounded(dtype: Dtype, expr: Expr) -> Expr {
    match dtype {
        Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 => Expr::Convert(scalar_of(dtype), Box::new(expr)),
        Dtype::F32 | Dtype::I32 | Dtype::Bool => expr,
    }
}

#[cfg(test)]
mod tests;
