//! The text that NVRTC gets: a variant's source with its device functions put in.

use crate::plan::{FUNCTIONS_MARK, Function, Instance, Variant};
use std::fmt::Write;

/// The final source of one variant.
pub fn render_source(instance: &Instance, variant: &Variant) -> String {
    let mut functions = String::new();
    for function in instance.functions {
        write_function(&mut functions, function.alias, function);
    }
    let mut source = String::with_capacity(variant.source.len() + functions.len());
    for line in variant.source.lines() {
        if line.trim() == FUNCTIONS_MARK {
            source.push_str(&functions);
        } else {
            source.push_str(line);
            source.push('\n');
        }
    }
    source
}

/// Callees first, as C++ wants them. A callee's symbol names its caller, so that two functions may call different things by one name.
fn write_function(out: &mut String, symbol: &str, function: &Function) {
    for callee in function.def.uses {
        write_function(out, &callee_symbol(symbol, callee.alias), callee);
    }
    let mut rest = function.def.source;
    while let Some(dollar) = rest.find('$') {
        out.push_str(&rest[..dollar]);
        let tail = &rest[dollar + 1..];
        let end = tail.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(tail.len());
        let (word, after) = tail.split_at(end);
        match word {
            "name" => out.push_str(symbol),
            alias => {
                let _ = write!(out, "{}", callee_symbol(symbol, alias));
            }
        }
        rest = after;
    }
    out.push_str(rest);
    if !out.ends_with('\n') {
        out.push('\n');
    }
}

fn callee_symbol(caller: &str, alias: &str) -> String {
    format!("{alias}_of_{caller}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::FunctionDef;

    static SIGMOID: FunctionDef = FunctionDef {
        source: "__device__ __forceinline__ float $name(float x) { return 1.0f / (1.0f + exp(-x)); }",
        uses: &[],
    };
    static SILU: FunctionDef = FunctionDef {
        source: "__device__ __forceinline__ float $name(float x) { return x * $gate(x); }",
        uses: &[Function { alias: "gate", def: &SIGMOID }],
    };

    #[test]
    fn functions_replace_the_mark_callees_first() {
        let source = "#include \"tracea/kernel.cuh\"\n// [device functions]\nvoid k() { silu(1.0f); }\n";
        let variant = Variant::of_source("k", source, 1);
        static INSTANCE: Instance = Instance {
            key: &[],
            known_dims: &[],
            variants: &[],
            precomputed: &[],
            unwritten: &[],
            functions: &[Function { alias: "silu", def: &SILU }],
        };
        assert_eq!(
            render_source(&INSTANCE, &variant),
            "#include \"tracea/kernel.cuh\"\n\
             __device__ __forceinline__ float gate_of_silu(float x) { return 1.0f / (1.0f + exp(-x)); }\n\
             __device__ __forceinline__ float silu(float x) { return x * gate_of_silu(x); }\n\
             void k() { silu(1.0f); }\n"
        );
    }
}
