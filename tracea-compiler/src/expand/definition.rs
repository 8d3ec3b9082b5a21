//! The lowered kernel as a static: [`plan`](crate::plan) in the runtime's `'static` form.

use super::{private, tensors};
use crate::ast::{DtypeRef, Kernel, Tile};
use crate::nest::{Block, Dim, Dtype, InstanceValue, IntOp, Nest, Op, ScalarParam, Stmt, Tensor, TensorId};
use crate::plan::{
    Arg, Columns, Cost, GridAxis, Growing, Instance, Joined, Kept, Number, Precomputed, Relaid, Split, Variant, Window,
};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::visit::{self, Visit};
use syn::{ExprPath, Macro, Path};

pub fn kernel_def(kernel: &Kernel, nests: &[Nest], instances: &[Instance]) -> TokenStream {
    let plan = plan();
    let Some(nest) = nests.first() else { return TokenStream::new() };
    let Nest { name, file, line, .. } = nest;
    let line = Literal::u32_unsuffixed(*line);
    let dims = nest.dims.iter().enumerate().map(|(index, Dim { name, known, .. })| {
        // A size that instances choose is theirs to tell.
        let chosen = nests.iter().any(|other| other.dims[index].known != *known)
            || nest.instance.iter().any(|(chosen, _)| chosen == name);
        let known = option(known.filter(|_| !chosen).map(Literal::i64_unsuffixed));
        quote! { #plan::DimDef { name: #name, known: #known } }
    });
    let tensors = tensors(kernel).zip(&nest.tensors).enumerate().map(|(index, ((_, param), tensor))| {
        let dtype = match &param.dtype {
            DtypeRef::Known(known) => option(Some(dtype(*known))),
            DtypeRef::Generic(_) => option(None::<TokenStream>),
        };
        let id = TensorId(index as u32);
        let reads = nests.iter().any(|nest| loads(nest, id));
        let writes = nests.iter().any(|nest| stores(&nest.body, id));
        tensor_def(tensor, dtype, reads, writes)
    });
    let scalars = nest.scalars.iter().map(scalar);
    let selectors = kernel.selectors.iter().map(|selector| selector.name.to_string());
    let none = Instance::default();
    let instances = nests.iter().enumerate().map(|(index, nest)| {
        let Instance { variants, precomputed } = instances.get(index).unwrap_or(&none);
        let operands = (0..precomputed.len()).map(|at| {
            let (def, slot) = operand_names(index, at);
            quote! { #plan::Precomputed { kernel: &#def, slot: &#slot } }
        });
        let written = |tensor: &usize| nests.iter().any(|nest| stores(&nest.body, TensorId(*tensor as u32)));
        let left = |tensor: &usize| written(tensor) && !stores(&nest.body, TensorId(*tensor as u32));
        let unwritten = (0..nest.tensors.len()).filter(left).collect::<Vec<_>>();
        instance(kernel, nest, variants, quote! { #(#operands),* }, &unwritten)
    });
    quote! {
        #plan::KernelDef {
            name: #name,
            file: #file,
            line: #line,
            dims: &[#(#dims),*],
            tensors: &[#(#tensors),*],
            scalars: &[#(#scalars),*],
            selectors: &[#(#selectors),*],
            instances: &[#(#instances),*],
        }
    }
}

/// The kernels that compute operands, each with the place of its loaded code.
pub fn operands(kernel: &Kernel, instances: &[Instance]) -> TokenStream {
    let private = private();
    let of_instance = |(index, instance): (usize, &Instance)| {
        let of_operand = |(at, operand): (usize, &Precomputed)| {
            let (def, slot) = operand_names(index, at);
            let definition = operand_def(kernel, operand);
            quote! {
                static #slot: #private::KernelSlot = #private::KernelSlot::new();
                static #def: #private::plan::KernelDef = #definition;
            }
        };
        instance.precomputed.iter().enumerate().map(of_operand).collect::<TokenStream>()
    };
    instances.iter().enumerate().map(of_instance).collect()
}

fn operand_names(instance: usize, operand: usize) -> (Ident, Ident) {
    (format_ident!("__OPERAND_{instance}_{operand}"), format_ident!("__OPERAND_SLOT_{instance}_{operand}"))
}

fn operand_def(kernel: &Kernel, Precomputed { nest, variants }: &Precomputed) -> TokenStream {
    let plan = plan();
    let Nest { name, file, line, .. } = nest;
    let line = Literal::u32_unsuffixed(*line);
    let dims = nest.dims.iter().map(|Dim { name, known, .. }| {
        let known = option(known.map(Literal::i64_unsuffixed));
        quote! { #plan::DimDef { name: #name, known: #known } }
    });
    let tensors = nest.tensors.iter().enumerate().map(|(index, tensor)| {
        let id = TensorId(index as u32);
        tensor_def(tensor, option(Some(dtype(tensor.dtype))), loads(nest, id), stores(&nest.body, id))
    });
    let scalars = nest.scalars.iter().map(scalar);
    let instance = instance(kernel, &Nest { instance: Vec::new(), ..nest.clone() }, variants, TokenStream::new(), &[]);
    quote! {
        #plan::KernelDef {
            name: #name,
            file: #file,
            line: #line,
            dims: &[#(#dims),*],
            tensors: &[#(#tensors),*],
            scalars: &[#(#scalars),*],
            selectors: &[],
            instances: &[#instance],
        }
    }
}

fn tensor_def(tensor: &Tensor, dtype: TokenStream, reads: bool, writes: bool) -> TokenStream {
    let (plan, name, position) = (plan(), &tensor.name, number(tensor.position));
    let dims = tensor.dims.iter().map(|dim| number(dim.index()));
    quote! {
        #plan::TensorDef {
            name: #name,
            position: #position,
            dtype: #dtype,
            dims: &[#(#dims),*],
            reads: #reads,
            writes: #writes,
        }
    }
}

fn scalar(scalar: &ScalarParam) -> TokenStream {
    let (plan, name) = (plan(), &scalar.name);
    let (position, dtype) = (number(scalar.position), dtype(scalar.dtype));
    quote! { #plan::ScalarDef { name: #name, position: #position, dtype: #dtype } }
}

fn plan() -> TokenStream {
    let private = private();
    quote! { #private::plan }
}

fn instance(
    kernel: &Kernel,
    nest: &Nest,
    variants: &[Variant],
    operands: TokenStream,
    unwritten: &[usize],
) -> TokenStream {
    let plan = plan();
    let key = nest.instance.iter().map(|(_, value)| match value {
        InstanceValue::Int(value) => {
            let value = Literal::i64_unsuffixed(*value);
            quote! { #plan::Key::Int(#value) }
        }
        InstanceValue::Bool(value) => quote! { #plan::Key::Bool(#value) },
        InstanceValue::Dtype(known) => {
            let dtype = dtype(*known);
            quote! { #plan::Key::Dtype(#dtype) }
        }
    });
    let known = nest.dims.iter().enumerate().filter_map(|(index, dim)| {
        let (index, size) = (number(index), Literal::i64_unsuffixed(dim.known?));
        Some(quote! { (#index, #size) })
    });
    let variants = variants.iter().map(variant);
    let unwritten = numbers(unwritten);
    let functions = nest.functions.iter().map(|function| {
        let (alias, path) = (&function.name, written_path(kernel, &function.path));
        let private = private();
        quote! { #plan::Function { alias: #alias, def: <#path as #private::DeviceFunction>::DEF } }
    });
    quote! {
        #plan::Instance {
            key: &[#(#key),*],
            known_dims: &[#(#known),*],
            variants: &[#(#variants),*],
            precomputed: &[#operands],
            unwritten: #unwritten,
            functions: &[#(#functions),*],
        }
    }
}

fn variant(variant: &Variant) -> TokenStream {
    let plan = plan();
    let Variant { target, schedule, why, source, entry, promised_sass, .. } = variant;
    let (threads, shared_bytes) =
        (Literal::u32_unsuffixed(variant.threads), Literal::u32_unsuffixed(variant.shared_bytes));
    let (cluster, max_registers) =
        (Literal::u32_unsuffixed(variant.cluster), Literal::u32_unsuffixed(variant.max_registers));
    let (grid, args) = (variant.grid.iter().map(grid_axis), variant.args.iter().map(arg));
    let (aligned, merged) = (numbers(&variant.aligned), numbers(&variant.merged));
    let positive = numbers(&variant.positive);
    let (skewed, cost) = (numbers(&variant.skewed), cost(&variant.cost));
    let (whole_vectors, persistent, awaits) = (variant.whole_vectors, variant.persistent, variant.awaits);
    let by_tma = variant.by_tma;
    let precomputed = variant.precomputed;
    let split = option(variant.split.as_ref().map(split));
    let kept = option(variant.kept.as_ref().map(kept));
    let paired = option(variant.paired.map(number));
    let longest = option(variant.longest.as_ref().map(grid_axis));
    let windows = variant.windows.iter().map(window);
    let columns = variant.columns.iter().map(|Columns { tensor, number: elements }| {
        let (tensor, elements) = (number(*tensor), launch_number(elements));
        quote! { #plan::Columns { tensor: #tensor, number: #elements } }
    });
    let relaid = variant.relaid.iter().map(|Relaid { tensor, last, written }| {
        let (tensor, last) = (number(*tensor), number(*last));
        quote! { #plan::Relaid { tensor: #tensor, last: #last, written: #written } }
    });
    let joined = variant.joined.iter().map(|Joined { tensor, axes }| {
        let (tensor, axes) = (number(*tensor), number(*axes));
        quote! { #plan::Joined { tensor: #tensor, axes: #axes } }
    });
    quote! {
        #plan::Variant {
            target: #target,
            schedule: #schedule,
            why: #why,
            source: #source,
            entry: #entry,
            threads: #threads,
            persistent: #persistent,
            by_tma: #by_tma,
            awaits: #awaits,
            cluster: #cluster,
            paired: #paired,
            shared_bytes: #shared_bytes,
            kept: #kept,
            split: #split,
            grid: &[#(#grid),*],
            cost: #cost,
            args: &[#(#args),*],
            aligned: #aligned,
            columns: &[#(#columns),*],
            whole_vectors: #whole_vectors,
            positive: #positive,
            relaid: &[#(#relaid),*],
            precomputed: #precomputed,
            merged: #merged,
            joined: &[#(#joined),*],
            skewed: #skewed,
            longest: #longest,
            windows: &[#(#windows),*],
            max_registers: #max_registers,
            promised_sass: &[#(#promised_sass),*],
        }
    }
}

fn split(split: &Split) -> TokenStream {
    let (plan, Split { part_bytes, most_parts, over, some_whole, shares, weighted }) = (plan(), split);
    let over = over.iter().map(grid_axis);
    quote! {
        #plan::Split {
            part_bytes: #part_bytes, most_parts: #most_parts, over: &[#(#over),*], some_whole: #some_whole, shares: #shares, weighted: #weighted,
        }
    }
}

fn kept(kept: &Kept) -> TokenStream {
    let (plan, columns) = (plan(), grid_axis(&kept.columns));
    let (block_bytes, most_blocks) = (kept.block_bytes, kept.most_blocks);
    quote! { #plan::Kept { columns: #columns, block_bytes: #block_bytes, most_blocks: #most_blocks } }
}

fn cost(cost: &Cost) -> TokenStream {
    let (plan, once, ending, alone, resident) = (plan(), cost.once, cost.ending, cost.alone, cost.resident);
    let steps = cost.steps.iter().map(|step| {
        let (latency, work, over) = (step.latency, step.work, step.over.iter().map(grid_axis));
        quote! { #plan::StepCost { latency: #latency, work: #work, over: &[#(#over),*] } }
    });
    let fetches = cost.fetches.iter().map(|fetch| {
        let (tensor, over) = (number(fetch.tensor), fetch.over.iter().map(grid_axis));
        let (bytes, row_bytes, blocks, scattered) = (fetch.bytes, fetch.row_bytes, fetch.blocks, fetch.scattered);
        let narrow = option(fetch.narrow.as_ref().map(grid_axis));
        let short = option(fetch.short.as_ref().map(|short| {
            let (axis, spared) = (grid_axis(&short.axis), short.spared);
            quote! { #plan::Short { axis: #axis, spared: #spared } }
        }));
        quote! {
            #plan::Fetch {
                tensor: #tensor, bytes: #bytes, row_bytes: #row_bytes, blocks: #blocks, scattered: #scattered, narrow: #narrow,
                short: #short, over: &[#(#over),*],
            }
        }
    });
    let growing = option(cost.growing.as_ref().map(|Growing { steps, along }| {
        let (steps, along) = (grid_axis(steps), grid_axis(along));
        quote! { #plan::Growing { steps: #steps, along: #along } }
    }));
    quote! {
        #plan::Cost {
            once: #once, ending: #ending, alone: #alone, resident: #resident, steps: &[#(#steps),*], fetches: &[#(#fetches),*],
            growing: #growing,
        }
    }
}

fn grid_axis(axis: &GridAxis) -> TokenStream {
    let (plan, dims, block) = (plan(), numbers(&axis.dims), Literal::u32_unsuffixed(axis.block));
    quote! { #plan::GridAxis { dims: #dims, block: #block } }
}

fn arg(arg: &Arg) -> TokenStream {
    let plan = plan();
    match arg {
        Arg::Pointer(tensor) => {
            let tensor = number(*tensor);
            quote! { #plan::Arg::Pointer(#tensor) }
        }
        Arg::Stride(tensor, axis) => {
            let (tensor, axis) = (number(*tensor), number(*axis));
            quote! { #plan::Arg::Stride(#tensor, #axis) }
        }
        Arg::Extent(dim) => {
            let dim = number(*dim);
            quote! { #plan::Arg::Extent(#dim) }
        }
        Arg::Scalar(scalar) => {
            let scalar = number(*scalar);
            quote! { #plan::Arg::Scalar(#scalar) }
        }
        Arg::TensorMap { tensor, merged, boxes, narrow, short } => {
            quote! {
                #plan::Arg::TensorMap {
                    tensor: #tensor, merged: #merged, boxes: &[#(#boxes),*], narrow: #narrow, short: #short,
                }
            }
        }
        Arg::DivideByRowsTogether => quote! { #plan::Arg::DivideByRowsTogether },
        Arg::KeptColumns => quote! { #plan::Arg::KeptColumns },
        Arg::Parts => quote! { #plan::Arg::Parts },
        Arg::DivideByParts => quote! { #plan::Arg::DivideByParts },
        Arg::WholeTiles => quote! { #plan::Arg::WholeTiles },
        Arg::DivideByCutTiles => quote! { #plan::Arg::DivideByCutTiles },
        Arg::Workspace => quote! { #plan::Arg::Workspace },
        Arg::Arrivals => quote! { #plan::Arg::Arrivals },
        Arg::Taken => quote! { #plan::Arg::Taken },
        Arg::WindowMap(window) => {
            let window = number(*window);
            quote! { #plan::Arg::WindowMap(#window) }
        }
        Arg::WindowCorner(window, axis) => {
            let (window, axis) = (number(*window), number(*axis));
            quote! { #plan::Arg::WindowCorner(#window, #axis) }
        }
        Arg::DivideByDims(dims) => {
            let dims = numbers(dims);
            quote! { #plan::Arg::DivideByDims(#dims) }
        }
        Arg::DivideByBlocks(axis) => {
            let axis = grid_axis(axis);
            quote! { #plan::Arg::DivideByBlocks(#axis) }
        }
        Arg::DivideByLastGroup(axis, rows) => {
            let axis = grid_axis(axis);
            quote! { #plan::Arg::DivideByLastGroup(#axis, #rows) }
        }
    }
}

fn window(window: &Window) -> TokenStream {
    let (plan, tensor) = (plan(), number(window.tensor));
    let (rows, channels) = (Literal::u32_unsuffixed(window.rows), Literal::u32_unsuffixed(window.channels));
    let axes = window.axes.iter().map(|axis| {
        let (count, step) = (number(axis.count), launch_number(&axis.step));
        let (corner, reach) = (launch_number(&axis.corner), launch_number(&axis.reach));
        quote! { #plan::WindowAxis { count: #count, step: #step, corner: #corner, reach: #reach } }
    });
    let narrow = window.narrow;
    quote! {
        #plan::Window {
            tensor: #tensor, rows: #rows, channels: #channels, narrow: #narrow, axes: &[#(#axes),*],
        }
    }
}

fn launch_number(value: &Number) -> TokenStream {
    let plan = plan();
    match value {
        Number::Const(value) => {
            // A literal has no sign of its own.
            let (sign, size) = ((*value < 0).then(|| quote! { - }), Literal::u64_unsuffixed(value.unsigned_abs()));
            quote! { #plan::Number::Const(#sign #size) }
        }
        Number::Dim(dim) => {
            let dim = number(*dim);
            quote! { #plan::Number::Dim(#dim) }
        }
        Number::Scalar(scalar) => {
            let scalar = number(*scalar);
            quote! { #plan::Number::Scalar(#scalar) }
        }
        Number::Binary(op, a, b) => {
            let (a, b) = (launch_number(a), launch_number(b));
            let op = match op {
                IntOp::Add => quote! { Add },
                IntOp::Sub => quote! { Sub },
                IntOp::Mul => quote! { Mul },
                IntOp::Div => quote! { Div },
                IntOp::Rem => quote! { Rem },
                IntOp::Min => quote! { Min },
                IntOp::Max => quote! { Max },
            };
            quote! { #plan::Number::Binary(#plan::IntOp::#op, &#a, &#b) }
        }
    }
}

fn dtype(dtype: Dtype) -> TokenStream {
    let private = private();
    let name = match dtype {
        Dtype::F16 => quote! { F16 },
        Dtype::Bf16 => quote! { Bf16 },
        // A tensor of tf32 or bool is no argument; their memory would be these.
        Dtype::F32 | Dtype::Tf32 => quote! { F32 },
        Dtype::I32 | Dtype::Bool => quote! { I32 },
    };
    quote! { #private::Dtype::#name }
}

fn number(value: usize) -> Literal {
    Literal::usize_unsuffixed(value)
}

fn numbers(values: &[usize]) -> TokenStream {
    let values = values.iter().map(|value| number(*value));
    quote! { &[#(#values),*] }
}

fn option(value: Option<impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote! { ::core::option::Option::Some(#value) },
        None => quote! { ::core::option::Option::None },
    }
}

fn loads(nest: &Nest, wanted: TensorId) -> bool {
    nest.values.iter().any(|value| matches!(value.op, Op::Load { tensor, .. } if tensor == wanted))
}

fn stores(block: &Block, wanted: TensorId) -> bool {
    block.stmts.iter().any(|stmt| match stmt {
        Stmt::Store { tensor, .. } => *tensor == wanted,
        Stmt::Loop(inner) => stores(&inner.body, wanted),
        Stmt::Value(_) => false,
    })
}

/// The function's path with the user's spans, so that rustc blames the right word.
fn written_path(kernel: &Kernel, wanted: &str) -> TokenStream {
    let mut search = PathSearch { wanted, found: None };
    search.visit_block(&kernel.item.block);
    search.found.map_or_else(|| wanted.parse().unwrap_or_default(), |path| path.to_token_stream())
}

struct PathSearch<'a> {
    wanted: &'a str,
    found: Option<Path>,
}

impl<'ast> Visit<'ast> for PathSearch<'_> {
    fn visit_expr_path(&mut self, expr: &'ast ExprPath) {
        if self.found.is_none() && expr.path.to_token_stream().to_string().replace(' ', "") == self.wanted {
            self.found = Some(expr.path.clone());
        }
        visit::visit_expr_path(self, expr);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        if let Some(tile) = Tile::is(mac).then(|| Tile::open(mac).ok()).flatten() {
            tile.headers.iter().for_each(|header| self.visit_expr(&header.range));
            self.visit_block(&tile.body);
        }
    }
}
