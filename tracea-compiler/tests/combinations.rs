//! Products of all sorts of operands, sizes and results: whatever a kernel puts together, each target has code for it or leaves it to an
//! older one.

use tracea_compiler::emit::emit;
use tracea_compiler::lower::lower_portfolio;
use tracea_compiler::schedule::target::{SM_80, TARGETS};

/// One axis of a product: its dim as a type, the range of its loop, and how tensors are indexed along it.
#[derive(Clone)]
struct Side {
    dim: String,
    range: String,
    index: &'static str,
}

impl Side {
    fn is_whole(&self) -> bool {
        self.index == ".."
    }
}

/// A dim that the launch tells, and constant ones, which loops cut into blocks or tiles have whole.
fn sides(dim: &str, index: &'static str, sizes: &[u32]) -> Vec<Side> {
    let mut sides = vec![Side { dim: dim.into(), range: dim.into(), index }];
    for size in sizes {
        let dim = format!("Const<{size}>");
        sides.push(Side { dim: dim.clone(), range: format!("Const::<{size}>"), index });
        sides.push(Side { dim, range: String::new(), index: ".." });
    }
    sides
}

#[derive(Clone, Copy, PartialEq)]
enum Computed {
    Neither,
    Left,
    Right,
}

#[derive(Clone, Copy, PartialEq)]
enum Stored {
    Plain,
    ByRowSum,
    Transposed,
    WithResidual,
}

/// `c = a · b` over (i, n, k), with operands of this type as products take them.
fn product(
    (dtype, cast): (&str, &str),
    [n, k]: [&Side; 2],
    k_is_outer: bool,
    computed: Computed,
    stored: Stored,
) -> Option<String> {
    let same_axis_twice = n.is_whole() && (k.is_whole() || n.dim == k.dim);
    if same_axis_twice || (stored == Stored::ByRowSum && !n.is_whole()) {
        return None;
    }
    let operand = |load: String, is_computed: bool| match (is_computed, dtype) {
        (false, _) => format!("{load}{cast}"),
        (true, "f32") => format!("({load} * 0.5){cast}"),
        (true, _) => format!("({load}.to::<f32>() * 0.5).to::<{dtype}>()"),
    };
    let a = operand(format!("a[(i, {})]", k.index), computed == Computed::Left);
    let [outer, inner] = if k_is_outer { [k, n] } else { [n, k] };
    let b = operand(format!("b[({}, {})]", outer.index, inner.index), computed == Computed::Right);
    let turn = if k_is_outer { "" } else { ".t()" };
    let step = format!("acc += dot({a}, {b}{turn});");
    let sum = if k.is_whole() { step } else { format!("tile!(for k in {} {{ {step} }});", k.range) };
    let value = match stored {
        Stored::Plain => "acc".to_string(),
        Stored::ByRowSum => "(acc / acc.row_sum())".to_string(),
        Stored::Transposed => "acc.t()".to_string(),
        Stored::WithResidual => format!("(acc + r[(i, {})].to::<f32>())", n.index),
    };
    let to = if dtype == "f32" { "" } else { ".to()" };
    let (shape, at) = match stored {
        Stored::Transposed => (format!("({}, M)", n.dim), format!("({}, i)", n.index)),
        _ => (format!("(M, {})", n.dim), format!("(i, {})", n.index)),
    };
    let grid = if n.is_whole() { "i in M".to_string() } else { format!("(i, j) in (M, {})", n.range) };
    let dims: Vec<&str> = ["N", "K"].into_iter().filter(|dim| n.dim == *dim || k.dim == *dim).collect();
    let dims: String = dims.iter().map(|dim| format!(", {dim}: Dim")).collect();
    Some(format!(
        "fn product<M: Dim{dims}>(a: &Tensor<{dtype}, (M, {k})>, b: &Tensor<{dtype}, ({outer}, {inner})>, \
         r: &Tensor<{dtype}, (M, {n})>, c: &mut Tensor<{dtype}, {shape}>) {{ \
         tile!(for {grid} {{ let mut acc = zeros::<f32>((i, {j})); {sum} c[{at}] = {value}{to}; }}); }}",
        k = k.dim,
        outer = outer.dim,
        inner = inner.dim,
        n = n.dim,
        j = n.index,
    ))
}

fn all() -> Vec<String> {
    let mut all = Vec::new();
    for types in [("f16", ""), ("f32", ".to::<tf32>()"), ("f32", "")] {
        for n in &sides("N", "j", &[8, 24, 80, 128, 200, 256, 320]) {
            for k in &sides("K", "k", &[8, 40, 136]) {
                for k_is_outer in [false, true] {
                    for computed in [Computed::Neither, Computed::Left, Computed::Right] {
                        for stored in [Stored::Plain, Stored::ByRowSum, Stored::Transposed, Stored::WithResidual] {
                            all.extend(product(types, [n, k], k_is_outer, computed, stored));
                        }
                    }
                }
            }
        }
    }
    all
}

/// All of them take a minute without optimisations; these have each value beside most of the others.
#[test]
fn products_lower_whatever_they_are_made_of() {
    const EVERY: usize = 17;
    let all = all();
    assert!(all.len() > 3000, "{}", all.len());
    for text in all.iter().step_by(EVERY) {
        let item = text.parse().expect("Rust");
        let (nests, _) = tracea_compiler::front(Default::default(), item)
            .unwrap_or_else(|errors| panic!("{text}: {}", errors.into_compile_error()));
        for target in TARGETS {
            let portfolio = lower_portfolio(&nests[0], target)
                .unwrap_or_else(|error| panic!("{text}: {}: {}", target.name, error.message));
            assert!(target != &SM_80 || !portfolio.is_empty(), "{text}: sm_80 serves every kernel");
            for lowered in &portfolio {
                let bytes = lowered.program.shared_bytes;
                assert!(bytes <= target.shared_limit, "{text}: {}: {bytes}", lowered.program.schedule);
                assert!(emit(&lowered.nest, &lowered.program).contains("__global__"), "{text}");
            }
        }
    }
}
