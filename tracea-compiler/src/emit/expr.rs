//! Expressions: registers, coordinates and numbers as C++ spells them.

use super::Emitter;
use crate::nest::{AxisId, AxisKind, BinaryOp, CompareOp, DimId, Extent, Int, IntOp, Predicate, TensorId, UnaryOp};
use crate::plan;
use crate::program::{Domain, Expr, Scalar, VarId, When, stride_name};

impl Emitter<'_> {
    /// The expression as a value of the type.
    pub fn converted(&self, expr: &Expr, ty: Scalar, domain: Domain) -> String {
        match (expr, self.type_of(expr)) {
            (Expr::Convert(to, inner), _) if *to == ty => {
                let from = self.type_of(inner);
                let text = self.expr(inner, domain);
                if from == ty { text } else { format!("to<{}>({text})", ty.cuda()) }
            }
            (_, from) if from == ty => self.expr(expr, domain),
            _ => format!("to<{}>({})", ty.cuda(), self.expr(expr, domain)),
        }
    }

    fn type_of(&self, expr: &Expr) -> Scalar {
        match expr {
            Expr::Number(_) => Scalar::Float,
            Expr::Int(_) => Scalar::Int,
            Expr::Predicate(_) | Expr::Compare(..) => Scalar::Bool,
            Expr::Param(at) | Expr::Factor(at, _) => match self.nest.scalars[*at].dtype {
                crate::nest::Dtype::I32 => Scalar::Int,
                _ => Scalar::Float,
            },
            Expr::Var(id) => self.program.var(*id).ty,
            Expr::Convert(ty, _) => *ty,
            Expr::Unary(UnaryOp::Not, _) => Scalar::Bool,
            Expr::Unary(_, a) => arithmetic(self.type_of(a)),
            Expr::Binary(BinaryOp::And | BinaryOp::Or, ..) => Scalar::Bool,
            Expr::Binary(_, a, _) => arithmetic(self.type_of(a)),
            Expr::Select(_, a, b) => match (self.type_of(a), self.type_of(b)) {
                (a, b) if a == b => a,
                (a, _) => arithmetic(a),
            },
            Expr::Call(..) | Expr::Left(..) | Expr::Rate { .. } | Expr::OverSum(..) => Scalar::Float,
        }
    }

    /// An operand of arithmetic: 16-bit values widen to float.
    fn operand_of(&self, expr: &Expr, domain: Domain) -> String {
        let ty = self.type_of(expr);
        self.converted_to_arithmetic(expr, arithmetic(ty), domain)
    }

    fn converted_to_arithmetic(&self, expr: &Expr, ty: Scalar, domain: Domain) -> String {
        if self.type_of(expr) == ty {
            let text = self.expr(expr, domain);
            return if self.is_tight(expr) { text } else { format!("({})", strip(&text)) };
        }
        format!("to<{}>({})", ty.cuda(), self.expr(expr, domain))
    }

    pub fn expr(&self, expr: &Expr, domain: Domain) -> String {
        match expr {
            Expr::Number(number) => float_literal(*number),
            Expr::Int(int) => self.int(int, domain),
            Expr::Predicate(predicate) => self.predicate(predicate, domain),
            Expr::Param(at) => self.program.names.scalars[*at].clone(),
            Expr::Factor(at, when) => {
                let name = &self.program.names.scalars[*at];
                match when {
                    When::AtOnce => format!("{} ? 1.0f : {name}", positive(name)),
                    When::Later => format!("{} ? {name} : 1.0f", positive(name)),
                }
            }
            Expr::Rate { most, of } => {
                format!("exponent_rate({}, {})", strip(&self.operand_of(of, domain)), float_literal(*most))
            }
            Expr::Var(id) => self.read(*id, domain),
            Expr::Convert(ty, inner) => self.converted(&Expr::Convert(*ty, inner.clone()), *ty, domain),
            Expr::Unary(op, a) => {
                let text = self.operand_of(a, domain);
                match op {
                    UnaryOp::Neg => format!("-{text}"),
                    UnaryOp::Not => format!("!{text}"),
                    _ => format!("{}({})", unary_name(*op), strip(&text)),
                }
            }
            Expr::Binary(op, a, b) => {
                let ty = arithmetic(self.type_of(a));
                let (a, b) = (self.converted_to_arithmetic(a, ty, domain), self.converted_to_arithmetic(b, ty, domain));
                match op {
                    BinaryOp::Add => format!("{a} + {b}"),
                    BinaryOp::Sub => format!("{a} - {b}"),
                    BinaryOp::Mul => format!("{a} * {b}"),
                    BinaryOp::Div => format!("{a} / {b}"),
                    BinaryOp::Rem if ty == Scalar::Float => format!("fmodf({}, {})", strip(&a), strip(&b)),
                    BinaryOp::Rem => format!("{a} % {b}"),
                    BinaryOp::Min => format!("min({}, {})", strip(&a), strip(&b)),
                    BinaryOp::Max => format!("max({}, {})", strip(&a), strip(&b)),
                    BinaryOp::Pow => format!("pow({}, {})", strip(&a), strip(&b)),
                    BinaryOp::And => format!("{a} && {b}"),
                    BinaryOp::Or => format!("{a} || {b}"),
                    BinaryOp::BitAnd => format!("{a} & {b}"),
                    BinaryOp::BitOr => format!("{a} | {b}"),
                    BinaryOp::BitXor => format!("{a} ^ {b}"),
                    BinaryOp::Shl => format!("shift_left({}, {})", strip(&a), strip(&b)),
                    BinaryOp::Shr => format!("shift_right({}, {})", strip(&a), strip(&b)),
                }
            }
            Expr::OverSum(a, number, b) => {
                let (a, b) = (self.operand_of(a, domain), self.operand_of(b, domain));
                format!("over_sum({}, {}, {})", strip(&a), float_literal(*number), strip(&b))
            }
            Expr::Compare(op, a, b) => {
                let ty = arithmetic(self.type_of(a));
                let (a, b) = (self.converted_to_arithmetic(a, ty, domain), self.converted_to_arithmetic(b, ty, domain));
                format!("{a} {} {b}", compare_name(*op))
            }
            Expr::Select(c, a, b) => {
                let ty = self.type_of(expr);
                let c = self.expr(c, domain);
                let (a, b) = (self.converted_to_arithmetic(a, ty, domain), self.converted_to_arithmetic(b, ty, domain));
                format!("{c} ? {a} : {b}")
            }
            Expr::Call(name, args) => {
                let args: Vec<String> =
                    args.iter().map(|arg| strip(&self.operand_of(arg, domain)).to_string()).collect();
                format!("functions::{name}({})", args.join(", "))
            }
            Expr::Left(part, offset) => self.left(*part, *offset, domain),
        }
    }

    /// Whether the text of the expression binds as tightly as a factor.
    fn is_tight(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Number(number) => *number >= 0.0,
            Expr::Param(_) | Expr::Var(_) | Expr::Call(..) | Expr::Left(..) | Expr::Rate { .. } | Expr::OverSum(..) => {
                true
            }
            // A conversion that changes nothing leaves its operand's text.
            Expr::Convert(ty, inner) => self.type_of(inner) != *ty || self.is_tight(inner),
            Expr::Unary(op, _) => !matches!(op, UnaryOp::Neg | UnaryOp::Not),
            Expr::Binary(op, ..) => {
                matches!(op, BinaryOp::Min | BinaryOp::Max | BinaryOp::Pow | BinaryOp::Shl | BinaryOp::Shr)
            }
            Expr::Int(int) => matches!(int, Int::Const(_) | Int::Dim(_) | Int::Scalar(_)),
            Expr::Predicate(_) | Expr::Compare(..) | Expr::Select(..) | Expr::Factor(..) => false,
        }
    }

    /// A variable at the place where a loop over `domain` is.
    fn read(&self, id: VarId, domain: Domain) -> String {
        let var = self.program.var(id);
        let slot = |name: &str, kind: &str| format!("{}[{name}::{kind}(reg)]", var.name);
        match (var.domain, domain) {
            (Domain::Once, _) => var.name.clone(),
            (a, b) if a == b => format!("{}[reg]", var.name),
            (Domain::Rows(_), Domain::Tile(id)) => slot(&self.program.layout(id).name, "row_slot"),
            (Domain::Cols(_), Domain::Tile(id)) => slot(&self.program.layout(id).name, "col_slot"),
            _ => format!("{}[reg]", var.name),
        }
    }

    /// An element's coordinate along an axis, for the register that a loop over `domain` is at.
    pub fn coordinate(&self, axis: AxisId, domain: Domain) -> String {
        let start = self.start(axis);
        if self.nest.axis(axis).kind == AxisKind::Each {
            return start;
        }
        if let Some(column) = self.column_of_row(axis, domain) {
            return format!("({start} + {column})");
        }
        let layout = |id| self.program.layout(id);
        let offset = match domain {
            Domain::Tile(id) if layout(id).row_axis == Some(axis) => format!("{}::row(reg)", layout(id).name),
            Domain::Tile(id) => format!("{}::col(reg)", layout(id).name),
            Domain::Rows(id) => format!("{}::row_at(reg)", layout(id).name),
            Domain::Cols(id) => format!("{}::col_at(reg)", layout(id).name),
            Domain::Once => return start,
        };
        if start == "0" { offset } else { format!("({start} + {offset})") }
    }

    pub fn int(&self, int: &Int, domain: Domain) -> String {
        self.int_with(int, &|axis| self.coordinate(axis, domain), &|axis, part| {
            self.flat_part(axis, part, &self.coordinate(axis, domain))
        })
    }

    /// Component `part` of a flat axis at `at`, by division.
    pub fn flat_part(&self, axis: AxisId, part: usize, at: &str) -> String {
        let Extent::Flat(dims) = &self.nest.axis(axis).extent else { return at.to_string() };
        let tail = |from: usize| -> Vec<usize> { dims[from..].iter().map(|dim| dim.index()).collect() };
        let divide = |text: &str, dims: &[usize], rest: bool| {
            let known: Option<i64> = dims.iter().map(|dim| self.nest.dims[*dim].known).product();
            match known {
                Some(size) => format!("{text} {} {size}", if rest { "%" } else { "/" }),
                None => format!("{}.{}({text})", self.divisor(dims), if rest { "rem" } else { "div" }),
            }
        };
        if dims.len() == 1 {
            return at.to_string();
        }
        let inner = if part == 0 { at.to_string() } else { divide(at, &tail(part), true) };
        if part + 1 == dims.len() {
            return inner;
        }
        let inner = if part == 0 || inner.ends_with(')') { inner } else { format!("({inner})") };
        divide(&inner, &tail(part + 1), false)
    }

    fn divisor(&self, dims: &[usize]) -> String {
        self.program
            .params
            .iter()
            .find(|param| matches!(&param.arg, plan::Arg::DivideByDims(known) if known == dims))
            .map_or_else(String::new, |param| param.name.clone())
    }

    pub fn int_with(
        &self,
        int: &Int,
        coordinate: &dyn Fn(AxisId) -> String,
        flat: &dyn Fn(AxisId, usize) -> String,
    ) -> String {
        match int {
            Int::Const(value) => value.to_string(),
            Int::Dim(dim) => self.program.names.dims[dim.index()].clone(),
            Int::Scalar(scalar) => self.program.names.scalars[scalar.index()].clone(),
            Int::Axis(axis) => coordinate(*axis),
            Int::FlatCoord(axis, part) => flat(*axis, *part),
            Int::BlockStart(axis) => self.start(*axis),
            Int::BlockEnd(axis) => {
                format!("min({} + {}, {})", self.start(*axis), self.block_name(*axis), self.limit(*axis))
            }
            Int::Element(tensor, index) => match self.numbers.iter().rev().find(|(number, _)| number == int) {
                Some((_, name)) => name.clone(),
                None => self.element(*tensor, index, coordinate, flat),
            },
            Int::Binary(op, a, b) => {
                let inner = |int: &Int| {
                    let text = self.int_with(int, coordinate, flat);
                    match int {
                        Int::Binary(IntOp::Min | IntOp::Max, ..) => text,
                        Int::Const(value) if *value < 0 => format!("({text})"),
                        Int::FlatCoord(..) if text.contains(' ') => format!("({text})"),
                        // A product binds tighter than the sum around it.
                        Int::Binary(IntOp::Mul, ..) if matches!(op, IntOp::Add | IntOp::Sub) => text,
                        Int::Binary(..) => format!("({text})"),
                        _ => text,
                    }
                };
                let plain = matches!(**b, Int::Const(1..)) && self.never_negative(a);
                let (a, b) = (inner(a), inner(b));
                match op {
                    // Without a look at the sign.
                    IntOp::Div if plain => format!("int({a} / {b}u)"),
                    IntOp::Rem if plain => format!("int({a} % {b}u)"),
                    IntOp::Add => format!("{a} + {b}"),
                    IntOp::Sub => format!("{a} - {b}"),
                    IntOp::Mul => format!("{a} * {b}"),
                    IntOp::Div => format!("{a} / {b}"),
                    IntOp::Rem => format!("{a} % {b}"),
                    IntOp::Min => format!("min({}, {})", strip(&a), strip(&b)),
                    IntOp::Max => format!("max({}, {})", strip(&a), strip(&b)),
                }
            }
        }
    }

    /// Coordinates are not, but for those of rows that are walked from before their begin.
    fn never_negative(&self, int: &Int) -> bool {
        let all = |a: &Int, b: &Int| self.never_negative(a) && self.never_negative(b);
        match int {
            Int::Const(value) => *value >= 0,
            Int::Dim(_) => true,
            Int::Axis(_) | Int::FlatCoord(..) | Int::BlockStart(_) | Int::BlockEnd(_) => {
                self.program.skew.is_none() && self.program.whole.is_none()
            }
            Int::Scalar(_) | Int::Element(..) | Int::Binary(IntOp::Sub, ..) => false,
            Int::Binary(IntOp::Max, a, b) => self.never_negative(a) || self.never_negative(b),
            Int::Binary(_, a, b) => all(a, b),
        }
    }

    /// How a number comes by its name.
    pub fn looked_up(&self, number: &Int) -> String {
        let coordinate = |axis| self.coordinate(axis, Domain::Once);
        match number {
            Int::Element(tensor, index) => {
                self.element(*tensor, index, &coordinate, &|axis, part| self.flat_part(axis, part, &coordinate(axis)))
            }
            other => self.int(other, Domain::Once),
        }
    }

    /// A number of a tensor's, or 0 outside of it.
    fn element(
        &self,
        tensor: TensorId,
        index: &[Int],
        coordinate: &dyn Fn(AxisId) -> String,
        flat: &dyn Fn(AxisId, usize) -> String,
    ) -> String {
        let (name, dims) = (&self.program.names.tensors[tensor.index()], &self.nest.tensor(tensor).dims);
        let at: Vec<String> = index.iter().map(|int| self.int_with(int, coordinate, flat)).collect();
        let factor = |text: &str| if text.contains(' ') { format!("({text})") } else { text.to_string() };
        let offset = at.iter().enumerate().map(|(axis, text)| match axis + 1 == at.len() {
            true => text.clone(),
            false => format!("{} * {}", factor(text), stride_name(name, axis)),
        });
        // A scalar loop over the dim stays inside of it.
        let stays = |int: &Int, dim: DimId| matches!(int, Int::Axis(axis) if self.nest.axis(*axis).kind == AxisKind::Each && self.nest.runs_over(*axis, dim));
        let checked = index.iter().zip(&at).zip(dims).filter(|((int, _), dim)| !stays(int, **dim));
        let inside =
            checked.map(|((_, text), dim)| format!("is_inside({text}, {})", self.program.names.dims[dim.index()]));
        let offset = offset.collect::<Vec<_>>().join(" + ");
        match inside.collect::<Vec<_>>() {
            all if all.is_empty() => format!("{name}[{offset}]"),
            all => format!("element_or_zero({name}, {offset}, {})", all.join(" && ")),
        }
    }

    pub fn predicate(&self, predicate: &Predicate, domain: Domain) -> String {
        match predicate {
            Predicate::Const(value) => value.to_string(),
            Predicate::Compare(op, a, b) => {
                format!("{} {} {}", self.int(a, domain), compare_name(*op), self.int(b, domain))
            }
            Predicate::And(a, b) => format!("({}) && ({})", self.predicate(a, domain), self.predicate(b, domain)),
            Predicate::Or(a, b) => format!("({}) || ({})", self.predicate(a, domain), self.predicate(b, domain)),
            Predicate::Not(a) => format!("!({})", self.predicate(a, domain)),
        }
    }
}

fn arithmetic(ty: Scalar) -> Scalar {
    match ty {
        Scalar::F16 | Scalar::Bf16 | Scalar::Tf32 | Scalar::Float => Scalar::Float,
        Scalar::Int => Scalar::Int,
        Scalar::Bool => Scalar::Bool,
    }
}

/// Without the parentheses that enclose all of it.
fn strip(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else { return text };
    let mut depth = 0;
    for c in inner.chars() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return text,
            ')' => depth -= 1,
            _ => {}
        }
    }
    inner
}

/// The constant that says whether a scalar parameter is positive and of ordinary size.
pub(super) fn positive(scalar: &str) -> String {
    format!("{}_POSITIVE", scalar.to_uppercase())
}

fn float_literal(number: f64) -> String {
    if number.is_nan() {
        return "nan()".into();
    }
    if number.is_infinite() || (number as f32).is_infinite() {
        return if number > 0.0 { "infinity()".into() } else { "-infinity()".into() };
    }
    let text = format!("{:?}", number as f32);
    format!("{text}f")
}

fn compare_name(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
    }
}

fn unary_name(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Neg | UnaryOp::Not => "",
        UnaryOp::Abs => "abs",
        UnaryOp::Exp => "exp",
        UnaryOp::Exp2 => "exp2",
        UnaryOp::Log => "log",
        UnaryOp::Log2 => "log2",
        UnaryOp::Sqrt => "sqrt",
        UnaryOp::Rsqrt => "rsqrt",
        UnaryOp::Recip => "recip",
        UnaryOp::Tanh => "tanh",
        UnaryOp::Sin => "sin",
        UnaryOp::Cos => "cos",
        UnaryOp::Erf => "erf",
        UnaryOp::Floor => "floor",
        UnaryOp::Ceil => "ceil",
        UnaryOp::Round => "round",
    }
}

#[cfg(test)]
mod tests {
    use super::{float_literal, strip};
    use crate::testing::cuda;
    use proc_macro2::TokenStream;
    use quote::quote;

    /// The right side of the only assignment that mentions `y_tile`.
    fn assigned(value: TokenStream) -> String {
        let text = cuda(quote! {
            #[schedule(sm_80, i = 8, j = 256)]
            fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, w: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>, s: f32, n: i32) {
                tile!(for (i, j) in (M, N) {
                    let u = x[(i, j)];
                    let v = w[(i, j)];
                    y[(i, j)] = #value;
                });
            }
        });
        let (_, value) = text
            .lines()
            .filter_map(|line| line.split_once("[reg] = "))
            .next_back()
            .unwrap_or_else(|| panic!("an assignment in\n{text}"));
        value.to_string()
    }

    #[test]
    fn operands_keep_their_grouping() {
        assert_eq!(assigned(quote!(u - (v - u))), "u[reg] - (v[reg] - u[reg]);");
        assert_eq!(assigned(quote!(u / (v * s))), "u[reg] / (v[reg] * s);");
        assert_eq!(assigned(quote!(-(u + v))), "-(u[reg] + v[reg]);");
        assert_eq!(assigned(quote!(u - -v)), "u[reg] - (-v[reg]);");
        assert_eq!(assigned(quote!((u + v).exp())), "exp(u[reg] + v[reg]);");
    }

    #[test]
    fn a_sum_that_is_known_to_be_ordinary_divides_at_once() {
        assert_eq!(assigned(quote!(u / (1.0 + (-v).exp()) - v)), "over_sum(u[reg], 1.0f, exp(-v[reg])) - v[reg];");
        assert_eq!(assigned(quote!((u - v) / (u * u + 2.0))), "over_sum(u[reg] - v[reg], 2.0f, u[reg] * u[reg]);");
        assert_eq!(assigned(quote!(u / (v + 1.0))), "u[reg] / (v[reg] + 1.0f);");
        assert_eq!(assigned(quote!(u / (v.abs() + 1e-38))), "u[reg] / (abs(v[reg]) + 1e-38f);");
    }

    #[test]
    fn choices_keep_their_grouping() {
        assert_eq!(assigned(quote!(select(u.lt(v), u, v) * 2.0)), "(u[reg] < v[reg] ? u[reg] : v[reg]) * 2.0f;");
        assert_eq!(
            assigned(quote!(select(u.lt(v).and(u.gt(0.0)), u, v))),
            "(u[reg] < v[reg]) && (u[reg] > 0.0f) ? u[reg] : v[reg];"
        );
    }

    #[test]
    fn a_conversion_that_changes_nothing_keeps_its_operands_grouping() {
        // Both halves of the choice are numbers, which are floats whatever their tile says.
        let text = cuda(quote! {
            #[schedule(sm_80, i = 8, j = 256)]
            fn f<M: Dim, N: Dim>(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
                tile!(for (i, j) in (M, N) {
                    let u = x[(i, j)];
                    y[(i, j)] = u - select(u.gt(0.0), full::<f16>((i, j), 1.0), full::<f16>((i, j), 2.0)).to::<f32>();
                });
            }
        });
        assert!(text.contains("u[reg] - (u[reg] > 0.0f ? 1.0f : 2.0f);"), "{text}");
    }

    #[test]
    fn coordinates_are_spelled_once_in_brackets() {
        let chosen = assigned(quote!(select(iota(j).eq(n), u, v)));
        assert_eq!(chosen, "(j0 + IJTile::col(reg)) == n ? u[reg] : v[reg];");
    }

    #[test]
    fn sixteen_bit_arithmetic_rounds_after_each_operation() {
        let text = cuda(quote! {
            #[schedule(sm_80, i = 256)]
            fn f<N: Dim>(x: &Tensor<bf16, (N,)>, y: &mut Tensor<bf16, (N,)>) {
                tile!(for i in N { y[i] = (x[i] + x[i]) * x[i]; });
            }
        });
        assert!(text.contains("= to<bf16>(to<float>(to<bf16>("), "{text}");
    }

    #[test]
    fn numbers_are_float_literals() {
        assert_eq!(float_literal(1.0), "1.0f");
        assert_eq!(float_literal(1e-5), "1e-5f");
        assert_eq!(float_literal(-0.0), "-0.0f");
        assert_eq!(float_literal(0.1), "0.1f");
        assert_eq!(float_literal(f64::from(f32::MIN)), "-3.4028235e38f");
        assert_eq!(float_literal(f64::NEG_INFINITY), "-infinity()");
        assert_eq!(float_literal(1e300), "infinity()");
        assert_eq!(float_literal(f64::NAN), "nan()");
    }

    #[test]
    fn only_brackets_around_all_of_it_go() {
        assert_eq!(strip("(a + b)"), "a + b");
        assert_eq!(strip("(a) + (b)"), "(a) + (b)");
        assert_eq!(strip("a"), "a");
    }

    #[test]
    fn flat_coordinates_divide_by_what_lies_inside_them() {
        let text = cuda(quote! {
            #[schedule(sm_80, npq = 8, c = 256)]
            fn f<N: Dim, P: Dim, C: Dim>(x: &Tensor<f32, (N, P, Const<5>, C)>, y: &mut Tensor<f32, (N, P, Const<5>, C)>) {
                tile!(for (npq, c) in (flat(N, P, Const::<5>), C) {
                    let (n, p, q) = npq.coords();
                    y[(n, p, q, c)] = x[(n, p, q, c)];
                });
            }
        });
        // P * 5 is known at launch only; 5 is known here.
        assert!(text.contains("= by_P_const_5.div(npq);"), "{text}");
        assert!(text.contains("= by_P_const_5.rem(npq) / 5;"), "{text}");
        assert!(text.contains("= npq % 5;"), "{text}");
    }

    #[test]
    fn one_reciprocal_of_a_scalar_serves_a_tile() {
        let text = cuda(quote! {
            #[schedule(sm_80, i = 256)]
            fn f<N: Dim>(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, z: &mut Tensor<f32, (N,)>, s: f32) {
                tile!(for i in N { y[i] = x[i] / s; z[i] = s / x[i]; });
            }
        });
        assert!(text.contains("= x_tile[reg] * recip(s);") && text.contains("= s / x_tile_2[reg];"), "{text}");
    }

    #[test]
    fn a_number_that_is_looked_up_is_read_where_the_tensor_has_it() {
        let text = |rows: TokenStream| {
            cuda(quote! {
                fn f<M: Dim, N: Dim, V: Dim>(x: &Tensor<f32, (V, N)>, ids: &Tensor<i32, (M, M)>, y: &mut Tensor<f32, (M, N)>) {
                    tile!(for (i, j) in (#rows, N) { y[(i, j)] = x[(ids[(i, 2)] - 1, j)]; });
                }
            })
        };
        let by_tile = "element_or_zero(ids, i * ids_stride0 + 2, is_inside(i, M) && is_inside(2, M)) - 1;";
        assert!(text(quote!(M)).contains(by_tile), "{}", text(quote!(M)));
        // A scalar loop stays inside.
        let one_by_one = "= element_or_zero(ids, i * ids_stride0 + 2, is_inside(2, M));";
        assert!(text(quote!(each(M))).contains(one_by_one), "{}", text(quote!(each(M))));
    }
}
