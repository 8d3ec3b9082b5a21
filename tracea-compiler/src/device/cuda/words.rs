//! C++ by the Rust that means it: operators, types, literals, and names to stay away from.

use crate::nest::Dtype;
use syn::BinOp;

pub(super) const FLOAT_FUNCTIONS: [&str; 16] = [
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "recip", "tanh", "sin", "cos", "erf", "abs", "floor", "ceil",
    "round", "ln",
];

/// Rust names that C++ or CUDA reads otherwise.
pub(super) const KEYWORDS: [&str; 40] = [
    "alignas",
    "and",
    "asm",
    "auto",
    "bool",
    "case",
    "catch",
    "char",
    "class",
    "default",
    "delete",
    "double",
    "explicit",
    "export",
    "float",
    "friend",
    "goto",
    "inline",
    "int",
    "long",
    "namespace",
    "new",
    "not",
    "operator",
    "or",
    "private",
    "public",
    "register",
    "short",
    "signed",
    "sizeof",
    "switch",
    "template",
    "this",
    "throw",
    "typedef",
    "union",
    "unsigned",
    "void",
    "xor",
];

/// Sign, C++ precedence, and whether the result is a bool.
pub(super) fn operator(op: &BinOp) -> Option<(&'static str, u8, bool)> {
    Some(match op {
        BinOp::Mul(_) => ("*", 12, false),
        BinOp::Div(_) => ("/", 12, false),
        BinOp::Rem(_) => ("%", 12, false),
        BinOp::Add(_) => ("+", 11, false),
        BinOp::Sub(_) => ("-", 11, false),
        BinOp::Lt(_) => ("<", 9, true),
        BinOp::Le(_) => ("<=", 9, true),
        BinOp::Gt(_) => (">", 9, true),
        BinOp::Ge(_) => (">=", 9, true),
        BinOp::Eq(_) => ("==", 8, true),
        BinOp::Ne(_) => ("!=", 8, true),
        BinOp::And(_) => ("&&", 4, true),
        BinOp::Or(_) => ("||", 3, true),
        _ => return None,
    })
}

pub(super) fn compound(op: &BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::AddAssign(_) => "+=",
        BinOp::SubAssign(_) => "-=",
        BinOp::MulAssign(_) => "*=",
        BinOp::DivAssign(_) => "/=",
        BinOp::RemAssign(_) => "%=",
        _ => return None,
    })
}

pub(super) fn cpp(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::I32 => "int",
        Dtype::Bool => "bool",
        _ => "float",
    }
}

/// The shortest decimal that reads back as the same f32.
pub(super) fn float(value: f32) -> String {
    if value.is_finite() { format!("{value:?}f") } else { format!("__int_as_float(0x{:08x})", value.to_bits()) }
}

/// The least integer has no literal of its own.
pub(super) fn int(value: i64) -> String {
    if value == i64::from(i32::MIN) { "(-2147483647 - 1)".into() } else { value.to_string() }
}
