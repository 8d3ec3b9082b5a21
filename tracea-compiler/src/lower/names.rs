//! Names in emitted code: the user's own where C++ allows them.

use crate::identifier;
use crate::nest::{AxisId, Nest};
use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

/// Words that emitted code cannot use for a variable: C++'s own, and what the headers and the emitter name.
const RESERVED: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "asm",
    "auto",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "constexpr",
    "continue",
    "default",
    "delete",
    "do",
    "double",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "not",
    "operator",
    "or",
    "private",
    "protected",
    "public",
    "register",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "template",
    "this",
    "throw",
    "true",
    "try",
    "typedef",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "while",
    "xor",
    "shared",
    "scratch",
    "row",
    "col",
    "reg",
    "step",
    "slots",
    "visited",
    "own_turn",
    "follows_from",
    "follows_from_of",
    "follow",
    "lead",
    "TILE_THREADS",
    "stage",
    "ahead",
    "slot",
    "tracea",
    "block",
    "matrix",
    "at",
    "functions",
    "dot",
    "dot_fma",
    "to",
    "min",
    "max",
    "abs",
    "exp",
    "exp2",
    "log",
    "log2",
    "sqrt",
    "rsqrt",
    "recip",
    "tanh",
    "sin",
    "cos",
    "erf",
    "floor",
    "ceil",
    "round",
    "pow",
    "infinity",
    "nan",
    "exchange",
    "grouped",
    "f16",
    "bf16",
    "tf32",
    "fmodf",
    "load_tile",
    "beyond_cols",
    "clear_rows",
    "access_bytes",
    "load_tile_vec",
    "load_rows",
    "load_cols",
    "load_cols_vec",
    "fetch_cols_early",
    "await_early_cols",
    "early_cols",
    "early_cols_of_panel",
    "load_kept",
    "load_kept_once",
    "keep_tile",
    "keep_tile_once",
    "cp_async_wait_first",
    "Span",
    "Whole",
    "walk_columns",
    "skew_of",
    "load_skewed",
    "load_cols_skewed",
    "load_kept_skewed",
    "keep_skewed",
    "store_skewed",
    "mask_outside",
    "RowParts",
    "parts_of",
    "by_parts",
    "slots",
    "load_whole",
    "keep_slice",
    "load_slice",
    "RowPartsInTurn",
    "parts_in_turn",
    "RowEnds",
    "keep_row",
    "load_row",
    "hold_slice",
    "load_held",
    "store_whole",
    "mask_ends",
    "narrowest",
    "VEC",
    "store_tile",
    "store_tile_elements",
    "store_tile_staged",
    "store_tile_by_scratch",
    "store_rows",
    "store_cols",
    "write_tile",
    "copy_rows_async",
    "copy_elements",
    "copy_gathered",
    "PlacePart",
    "HeldRows",
    "hold_rows",
    "AxisSizes",
    "reduce_rows",
    "reduce_cols",
    "reduce_row_slice",
    "reduce_col_slice",
    "fold_rows",
    "fold_cols",
    "spread_rows",
    "spread_cols",
    "exchange_rows",
    "exchange_cols",
    "exchange_rows_to_cols",
    "exchange_cols_to_rows",
    "exchange_transposed",
    "copy_turned",
    "panel",
    "panel_row",
    "own_panel",
    "sends_panels",
    "await_panel",
    "read_panel",
    "read_transposed_panel",
    "load_panel",
    "load_panel_elements",
    "write_panel",
    "write_transposed_panel",
    "store_panel",
    "store_transposed_panel",
    "finish_panels",
    "unit",
    "UnitQueue",
    "rank",
    "CLUSTER",
    "CLUSTER_BLOCKS",
    "CUT",
    "units",
    "gridDim",
    "share",
    "threadIdx",
    "blockIdx",
    "THREADS",
];

pub struct Names {
    taken: Taken,
    tensors: Vec<String>,
    dims: Vec<String>,
    scalars: Vec<String>,
    axes: Vec<String>,
}

impl Names {
    pub fn new(nest: &Nest) -> Names {
        let mut taken = Taken::default();
        let tensors = nest.tensors.iter().map(|tensor| taken.claim(&tensor.name)).collect();
        let dims = nest.dims.iter().map(|dim| taken.claim_word(&dim.name)).collect();
        let scalars = nest.scalars.iter().map(|scalar| taken.claim(&scalar.name)).collect();
        let axes: Vec<String> = nest
            .axes
            .iter()
            .map(|axis| taken.claim_axis(if axis.name == ".." { "whole" } else { &axis.name }))
            .collect();
        Names { taken, tensors, dims, scalars, axes }
    }

    pub fn fresh(&mut self, wanted: &str) -> String {
        self.taken.claim(wanted)
    }
    pub fn tensor(&self, index: usize) -> &str {
        &self.tensors[index]
    }
    pub fn dims(&self) -> &[String] {
        &self.dims
    }
    pub fn tensors(&self) -> &[String] {
        &self.tensors
    }
    pub fn scalars(&self) -> &[String] {
        &self.scalars
    }
    pub fn axes(&self) -> &[String] {
        &self.axes
    }
    pub fn axis(&self, axis: AxisId) -> &str {
        &self.axes[axis.index()]
    }
}

/// Words that are in use, beside those that are reserved; and in capitals, as parts of constants' names, those of axes and of what else has constants.
#[derive(Default)]
struct Taken {
    words: BTreeSet<String>,
    capitals: BTreeSet<String>,
    axes: BTreeSet<String>,
}

impl Taken {
    fn is_free(&self, word: &str) -> bool {
        static ALL_RESERVED: LazyLock<HashSet<&str>> = LazyLock::new(|| RESERVED.iter().copied().collect());
        !ALL_RESERVED.contains(word) && !self.words.contains(word)
    }

    fn claim_word(&mut self, wanted: &str) -> String {
        let name = candidates(wanted).find(|name| self.is_free(name)).unwrap_or_default();
        self.words.insert(name.clone());
        name
    }

    fn claim(&mut self, wanted: &str) -> String {
        let free = |name: &String| self.is_free(name) && !self.capitals.contains(&name.to_uppercase());
        let name = candidates(wanted).find(free).unwrap_or_default();
        self.words.insert(name.clone());
        self.capitals.insert(name.to_uppercase());
        name
    }

    /// An axis' name is also the stem of its start, its bounds and its number of blocks.
    fn claim_axis(&mut self, wanted: &str) -> String {
        let stems = |name: &str| ["", "0", "_from", "_end", "_blocks"].map(|suffix| format!("{name}{suffix}"));
        let free = |name: &String| {
            stems(name).iter().all(|stem| self.is_free(stem)) && !self.axes.contains(&name.to_uppercase())
        };
        let name = candidates(wanted).find(free).unwrap_or_default();
        self.words.extend(stems(&name));
        self.axes.insert(name.to_uppercase());
        name
    }
}

/// `k`, `k_2`, `k_3`, …
fn candidates(wanted: &str) -> impl Iterator<Item = String> {
    let wanted = identifier::of(wanted);
    (1u32..).map(move |count| if count == 1 { wanted.clone() } else { format!("{wanted}_{count}") })
}

#[cfg(test)]
mod tests {
    use crate::testing::{cuda, program};
    use quote::quote;

    #[test]
    fn the_users_names_are_kept() {
        let names = program(quote! {
            fn f<Rows: Dim>(input: &Tensor<f32, (Rows,)>, output: &mut Tensor<f32, (Rows,)>, factor: f32) {
                tile!(for place in Rows { output[place] = input[place] * factor; });
            }
        })
        .names;
        assert_eq!(names.tensors, ["input", "output"]);
        assert_eq!((&names.dims[..], &names.scalars[..]), (&["Rows".to_string()][..], &["factor".to_string()][..]));
        assert_eq!(names.axes, ["place"]);
    }

    #[test]
    fn words_of_the_other_language_are_avoided() {
        let names = program(quote! {
            fn f<N: Dim>(float: &Tensor<f32, (N,)>, shared: &mut Tensor<f32, (N,)>, THREADS: f32) {
                tile!(for template in N { shared[template] = float[template] * THREADS; });
            }
        })
        .names;
        assert_eq!(names.tensors, ["float_2", "shared_2"]);
        assert_eq!(names.scalars, ["THREADS_2"]);
        assert_eq!(names.axes, ["template_2"]);
    }

    #[test]
    fn constants_are_told_apart_though_names_differ_in_case_alone() {
        let item = quote! {
            fn f<M: Dim, N: Dim>(a: &Tensor<f32, (M, N)>, A: &Tensor<f32, (M, N)>, c: &mut Tensor<f32, (M, N)>) {
                tile!(for (i, I) in (M, N) { c[(i, I)] = a[(i, I)] * A[(i, I)]; });
            }
        };
        let text = cuda(item.clone());
        let once = |line: &str| assert_eq!(text.matches(line).count(), 1, "{line}: {text}");
        [
            "constexpr int ALIGN_A = ",
            "constexpr int ALIGN_A_2 = ",
            "constexpr int BLOCK_I = ",
            "constexpr int BLOCK_I_2 = ",
        ]
        .into_iter()
        .for_each(once);
        assert_eq!(program(item).names.tensors, ["a", "A_2", "c"]);
    }

    #[test]
    fn names_have_letters_that_cuda_reads_and_macros_are_numbered() {
        let text = cuda(quote! {
            fn f<N: Dim>(λ: &Tensor<f32, (N,)>, r#type: &mut Tensor<f32, (N,)>) { tile!(for δ in N { r#type[δ] = λ[δ]; }); }
        });
        assert!(text.contains("constexpr int ALIGN_U3BB = TRACEA_ALIGN_0;"), "{text}");
        assert!(text.contains("constexpr int ALIGN_TYPE = TRACEA_ALIGN_1;"), "{text}");
    }

    #[test]
    fn an_axis_keeps_clear_of_what_its_start_is_called() {
        let names = program(quote! {
            fn f<N: Dim>(k0: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) { tile!(for k in N { y[k] = k0[k]; }); }
        })
        .names;
        assert_eq!((&names.tensors[0][..], &names.axes[0][..]), ("k0", "k_2"));
    }

    #[test]
    fn no_layout_is_called_as_a_header_type() {
        let text = cuda(quote! {
            fn f<N: Dim>(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) { tile!(for shared in N { y[shared] = x[shared]; }); }
        });
        assert!(text.contains("using SharedTile2 = "), "{text}");
    }
}
