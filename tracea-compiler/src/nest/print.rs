//! A nest as a person reads it: one line a value, loops indented.
//!
//! ```text
//! kernel rows[T = f16]
//!   dims M, N
//!   in x: f16[M, N]
//!   out y: f32[M]
//!   grid i in M
//!     v0: f32(i) = fill 0
//!     loop j in N
//!       carry sum: v1 = v0, then v4, at last v5
//!       v2: f16(i, j) = load x[i, j]
//!       v3: f32(i) = reduce sum v2 over j
//!       v4 sum: f32(i) = add v1 v3
//!     store y[i] = v5
//! ```

use super::*;
use std::fmt::{Display, Formatter, Result};

impl Display for Nest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "kernel {}", self.name)?;
        if !self.instance.is_empty() {
            let chosen: Vec<String> = self.instance.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            write!(f, "[{}]", chosen.join(", "))?;
        }
        let dims: Vec<String> = self
            .dims
            .iter()
            .map(|dim| dim.known.map_or_else(|| dim.name.clone(), |size| format!("{} = {size}", dim.name)))
            .collect();
        writeln!(f, "\n  dims {}", dims.join(", "))?;
        for tensor in &self.tensors {
            let dims: Vec<&str> = tensor.dims.iter().map(|dim| self.dim(*dim).name.as_str()).collect();
            let way = if tensor.mutable { "out" } else { "in" };
            writeln!(f, "  {way} {}: {}[{}]", tensor.name, tensor.dtype.name(), dims.join(", "))?;
        }
        for scalar in &self.scalars {
            writeln!(f, "  scalar {}: {}", scalar.name, scalar.dtype.name())?;
        }
        for function in &self.functions {
            writeln!(f, "  function {} = {}", function.name, function.path)?;
        }
        let grid: Vec<String> = self.grid.iter().map(|axis| self.header(*axis)).collect();
        writeln!(f, "  grid {}", grid.join(", "))?;
        self.print_block(f, &self.body, 4)
    }
}

impl Display for InstanceValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            InstanceValue::Int(value) => write!(f, "{value}"),
            InstanceValue::Bool(value) => write!(f, "{value}"),
            InstanceValue::Dtype(dtype) => f.write_str(dtype.name()),
        }
    }
}

impl Nest {
    fn header(&self, axis: AxisId) -> String {
        let Axis { name, extent, kind } = self.axis(axis);
        let range = match extent {
            Extent::Dim(dim) => self.dim(*dim).name.clone(),
            Extent::Flat(dims) => {
                let dims: Vec<&str> = dims.iter().map(|dim| self.dim(*dim).name.as_str()).collect();
                format!("flat({})", dims.join(", "))
            }
        };
        match kind {
            AxisKind::Each => format!("{name} in each({range})"),
            AxisKind::Tiled | AxisKind::Whole => format!("{name} in {range}"),
        }
    }

    fn print_block(&self, f: &mut Formatter<'_>, block: &Block, indent: usize) -> Result {
        for stmt in &block.stmts {
            match stmt {
                Stmt::Value(id) => self.print_value(f, *id, indent)?,
                Stmt::Store { tensor, index, value, .. } => {
                    writeln!(
                        f,
                        "{:indent$}store {}[{}] = v{}",
                        "",
                        self.tensor(*tensor).name,
                        self.index(index),
                        value.0
                    )?;
                }
                Stmt::Loop(inner) => self.print_loop(f, inner, indent)?,
            }
        }
        Ok(())
    }

    fn print_loop(&self, f: &mut Formatter<'_>, inner: &Loop, indent: usize) -> Result {
        write!(f, "{:indent$}loop {}", "", self.header(inner.axis))?;
        if let Some(from) = &inner.from {
            write!(f, " from {}", self.int(from))?;
        }
        if let Some(until) = &inner.until {
            write!(f, " until {}", self.int(until))?;
        }
        writeln!(f)?;
        let deeper = indent + 2;
        for Carried { name, init, head, next, result } in &inner.carried {
            writeln!(
                f,
                "{:deeper$}carry {name}: v{} = v{}, then v{}, at last v{}",
                "", head.0, init.0, next.0, result.0
            )?;
        }
        self.print_block(f, &inner.body, deeper)
    }

    fn print_value(&self, f: &mut Formatter<'_>, id: ValueId, indent: usize) -> Result {
        let Value { op, ty, name, .. } = self.value(id);
        let axes: Vec<&str> = ty.axes.iter().map(|axis| self.axis(*axis).name.as_str()).collect();
        let name = name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        let axes = if axes.is_empty() { String::new() } else { format!("({})", axes.join(", ")) };
        writeln!(f, "{:indent$}v{}{name}: {}{axes} = {}", "", id.0, ty.dtype.name(), self.op(op))
    }

    fn op(&self, op: &Op) -> String {
        match op {
            Op::Fill(value) => format!("fill {value}"),
            Op::Scalar(id) => format!("scalar {}", self.scalars[id.index()].name),
            Op::Int(value) => format!("int {}", self.int(value)),
            Op::Predicate(predicate) => format!("where {}", self.predicate(predicate)),
            Op::Load { tensor, index } => format!("load {}[{}]", self.tensor(*tensor).name, self.index(index)),
            Op::Dot { a, b } => format!("dot v{} v{}", a.0, b.0),
            Op::Transpose(a) => format!("transpose v{}", a.0),
            Op::Unary(op, a) => format!("{} v{}", lower(op), a.0),
            Op::Binary(op, a, b) => format!("{} v{} v{}", lower(op), a.0, b.0),
            Op::Compare(op, a, b) => format!("{} v{} v{}", lower(op), a.0, b.0),
            Op::Select(condition, a, b) => format!("select v{} v{} v{}", condition.0, a.0, b.0),
            Op::Cast(a) => format!("cast v{}", a.0),
            Op::Broadcast(a) => format!("broadcast v{}", a.0),
            Op::Call(function, arguments) => {
                let arguments: Vec<String> = arguments.iter().map(|argument| format!("v{}", argument.0)).collect();
                format!("{}({})", self.functions[function.index()].name, arguments.join(", "))
            }
            Op::Reduce(op, a, axis) => format!("reduce {} v{} over {}", lower(op), a.0, self.axis(*axis).name),
            Op::Carried(axis, index) => format!("carried {} {index}", self.axis(*axis).name),
            Op::LoopResult(axis, index) => format!("result {} {index}", self.axis(*axis).name),
        }
    }

    fn index(&self, index: &[Int]) -> String {
        index.iter().map(|component| self.int(component)).collect::<Vec<_>>().join(", ")
    }

    fn int(&self, value: &Int) -> String {
        match value {
            Int::Const(value) => value.to_string(),
            Int::Dim(dim) => self.dim(*dim).name.clone(),
            Int::Scalar(id) => self.scalars[id.index()].name.clone(),
            Int::Axis(axis) => self.axis(*axis).name.clone(),
            Int::FlatCoord(axis, part) => format!("{}.{part}", self.axis(*axis).name),
            Int::BlockStart(axis) => format!("{}.start", self.axis(*axis).name),
            Int::BlockEnd(axis) => format!("{}.end", self.axis(*axis).name),
            Int::Element(tensor, index) => format!("{}[{}]", self.tensor(*tensor).name, self.index(index)),
            Int::Binary(op @ (IntOp::Min | IntOp::Max), left, right) => {
                format!("{}({}, {})", lower(op), self.int(left), self.int(right))
            }
            Int::Binary(op, left, right) => {
                let sign = match op {
                    IntOp::Add => "+",
                    IntOp::Sub => "-",
                    IntOp::Mul => "*",
                    IntOp::Div => "/",
                    _ => "%",
                };
                format!("{} {sign} {}", self.operand(left), self.operand(right))
            }
        }
    }

    fn operand(&self, value: &Int) -> String {
        match value {
            Int::Binary(IntOp::Min | IntOp::Max, ..) => self.int(value),
            Int::Binary(..) => format!("({})", self.int(value)),
            leaf => self.int(leaf),
        }
    }

    fn predicate(&self, predicate: &Predicate) -> String {
        match predicate {
            Predicate::Const(value) => value.to_string(),
            Predicate::Compare(op, left, right) => {
                let sign = match op {
                    CompareOp::Lt => "<",
                    CompareOp::Le => "<=",
                    CompareOp::Gt => ">",
                    CompareOp::Ge => ">=",
                    CompareOp::Eq => "==",
                    CompareOp::Ne => "!=",
                };
                format!("{} {sign} {}", self.int(left), self.int(right))
            }
            Predicate::And(left, right) => format!("({}) && ({})", self.predicate(left), self.predicate(right)),
            Predicate::Or(left, right) => format!("({}) || ({})", self.predicate(left), self.predicate(right)),
            Predicate::Not(inner) => format!("!({})", self.predicate(inner)),
        }
    }
}

fn lower(name: &impl fmt::Debug) -> String {
    format!("{name:?}").to_lowercase()
}
