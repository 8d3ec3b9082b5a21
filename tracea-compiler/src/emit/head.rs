//! What stands before a kernel's statements: constants, layouts and the signature.

use super::expr::positive;
use super::{Emitter, tile_name};
use crate::nest::{AxisKind, DimId, TensorId};
use crate::program::layout::LayoutKind;
use crate::program::{Cluster, ParamType, Premise, Units};

impl Emitter<'_> {
    /// Tensors that are no arguments of the kernel.
    pub(super) fn precomputed(&mut self) {
        for (tensor, name) in self.nest.tensors.iter().zip(&self.program.names.tensors) {
            if tensor.precomputed {
                let dims = tensor.dims.iter().map(|dim| self.program.names.dims[dim.index()].as_str());
                let dims: Vec<&str> = dims.collect();
                self.out.line(format!("// {name}: ({}), which the launch computes first", dims.join(", ")));
            }
        }
    }

    /// Tensors that do not lie as the kernel declares them.
    pub(super) fn relaid(&mut self) {
        for relaid in &self.program.relaid {
            let tensor = &self.nest.tensors[relaid.tensor];
            let dims: Vec<&str> = tensor.dims.iter().map(|dim| self.program.names.dims[dim.index()].as_str()).collect();
            let name = &self.program.names.tensors[relaid.tensor];
            let when = if relaid.written { "turns when this is done" } else { "makes" };
            self.out.line(format!("// {name}: ({}), a copy that the launch {when}", dims.join(", ")));
        }
    }

    /// Tensors of which several axes are one.
    pub(super) fn joined(&mut self) {
        for joined in &self.program.joined {
            let tensor = &self.nest.tensors[joined.tensor];
            let dim = |dim: &DimId| {
                let parts = &self.nest.dim(*dim).parts;
                let named = if parts.is_empty() { std::slice::from_ref(dim) } else { &parts[..] };
                let names: Vec<&str> = named.iter().map(|dim| self.program.names.dims[dim.index()].as_str()).collect();
                names.join(" * ")
            };
            let dims: Vec<String> = tensor.dims.iter().map(dim).collect();
            let name = &self.program.names.tensors[joined.tensor];
            self.out.line(format!("// {name}: ({}), where nothing lies between rows", dims.join(", ")));
        }
    }

    /// Sizes that may not be those that the kernel declares.
    pub(super) fn merged(&mut self) {
        let dims: Vec<&str> = self.program.merged.iter().map(|dim| self.program.names.dims[*dim].as_str()).collect();
        if let Some((_, outer)) = dims.split_last() {
            let ones = "1, ".repeat(outer.len());
            self.out.line(format!(
                "// ({}) may come as ({ones}{}), where nothing lies between rows",
                dims.join(", "),
                dims.join(" * ")
            ));
        }
    }

    pub(super) fn constants(&mut self) {
        let program = self.program;
        self.out.line(format!("constexpr int THREADS = {};", program.threads));
        if let Some(producer) = &program.producer {
            self.out.line(format!("constexpr int PRODUCERS = {};", producer.threads));
        }
        if program.apart {
            self.out.line(format!("constexpr int TILE_THREADS = {};", program.tile_threads()));
        }
        if let Some(Cluster { blocks, .. }) = program.cluster {
            self.out.line(format!("constexpr int CLUSTER = {blocks};"));
            self.out.line("constexpr unsigned short CLUSTER_BLOCKS = (1 << CLUSTER) - 1;");
        }
        if program.split.is_some() {
            // Whether the launch cuts any tile.
            self.out.line("constexpr bool CUT = TRACEA_CUT;");
        }
        for (axis, block) in &program.blocks {
            if self.nest.axis(*axis).kind != AxisKind::Each {
                self.out.line(format!("constexpr int {} = {block};", self.block_name(*axis)));
            }
        }
        for (dim, name) in self.nest.dims.iter().zip(&program.names.dims) {
            if let Some(size) = dim.known {
                self.out.line(format!("constexpr int {name} = {size};"));
            }
        }
        for tensor in &program.aligned {
            // Bytes that the address and every row of the tensor are multiples of; the launch knows them.
            let name = self.alignment(*tensor);
            self.out.line(format!("constexpr int {name} = TRACEA_ALIGN_{};", tensor.index()));
        }
        for scalar in &program.positive {
            let name = positive(&program.names.scalars[*scalar]);
            self.out.line(format!("constexpr bool {name} = TRACEA_POSITIVE_{scalar};"));
        }
        for condition in &program.conditions {
            let all: Vec<String> = condition.all.iter().map(|premise| self.premise(*premise)).collect();
            self.out.line(format!("constexpr bool {} = {};", condition.name, all.join(" && ")));
        }
        self.out.blank();
    }

    /// The constant that says what a tensor's rows are aligned to.
    pub(super) fn alignment(&self, tensor: TensorId) -> String {
        format!("ALIGN_{}", self.program.names.tensors[tensor.index()].to_uppercase())
    }

    fn premise(&self, premise: Premise) -> String {
        match premise {
            Premise::Aligned(tensor) => format!("{} >= 16", self.alignment(tensor)),
            Premise::Windows(tensor) => format!("TRACEA_WINDOW_{}", tensor.index()),
            Premise::Condition(other) => self.program.condition(other).name.clone(),
        }
    }

    pub(super) fn layouts(&mut self) {
        let narrowing: Vec<String> = self
            .program
            .narrowing
            .iter()
            .map(|tensor| {
                let bytes = self.nest.tensor(*tensor).dtype.bytes();
                format!("access_bytes({}) / {bytes}", self.alignment(*tensor))
            })
            .collect();
        if !narrowing.is_empty() {
            self.out.line(format!("constexpr int VEC = narrowest({});", narrowing.join(", ")));
        }
        for layout in &self.program.layouts {
            let rows = layout.row_axis.map_or("1".to_string(), |axis| self.block_name(axis));
            let cols = self.block_name(layout.col_axis);
            let text = match layout.kind {
                LayoutKind::Mma16816 { warps_m, warps_n } => {
                    let apart = self.program.rows_apart().filter(|_| self.program.producer.is_some());
                    let apart = apart.map_or(String::new(), |rows| format!(", {rows}"));
                    format!("Mma16816<{rows}, {cols}, {warps_m}, {warps_n}{apart}>")
                }
                LayoutKind::Blocked { threads_m, threads_n, vec } if !narrowing.is_empty() => {
                    format!("Blocked<{rows}, {cols}, {threads_m}, {threads_n}, narrowest({vec}, VEC)>")
                }
                LayoutKind::Blocked { threads_m, threads_n, vec } => {
                    format!("Blocked<{rows}, {cols}, {threads_m}, {threads_n}, {vec}>")
                }
                LayoutKind::WholeRows { threads_m, threads_n, vec, in_turn } => {
                    let numbers = format!("{rows}, {cols}, {threads_m}, {threads_n}, {vec}");
                    match in_turn {
                        Some(at_once) => format!("RowsInTurn<{numbers}, {at_once}>"),
                        None => format!("WholeRows<{numbers}>"),
                    }
                }
            };
            self.out.line(format!("using {} = {text};", layout.name));
        }
        for shared in &self.program.shared {
            self.out.line(format!(
                "using {} = {}<{}, {}, {}>;",
                tile_name(&shared.name),
                if shared.panels { "PanelTile" } else { "SharedTile" },
                shared.dtype.cuda(),
                shared.rows,
                shared.cols
            ));
        }
        self.out.blank();
    }

    pub(super) fn signature(&mut self) {
        let program = self.program;
        let params: Vec<String> = program
            .params
            .iter()
            .map(|param| match param.ty {
                ParamType::Pointer { dtype, mutable: false } => {
                    format!("const {}* __restrict__ {}", dtype.cuda(), param.name)
                }
                ParamType::Pointer { dtype, mutable: true } => format!("{}* __restrict__ {}", dtype.cuda(), param.name),
                ParamType::Stride => format!("long long {}", param.name),
                ParamType::Int => format!("int {}", param.name),
                ParamType::Float => format!("float {}", param.name),
                ParamType::FastDiv => format!("FastDiv {}", param.name),
                ParamType::Workspace => format!("float* {}", param.name),
                ParamType::Counts => format!("unsigned* {}", param.name),
                ParamType::TensorMap => format!("const __grid_constant__ TensorMap {}", param.name),
            })
            .collect();
        let threads = if program.producer.is_some() { "THREADS + PRODUCERS" } else { "THREADS" };
        let bounds = format!("{threads}, {}", program.resident);
        let head = format!("extern \"C\" __global__ void __launch_bounds__({bounds}) {}(", program.entry);
        self.out.line(head);
        self.out.indent();
        self.out.wrapped(&params, ") {");
        self.out.dedent();
    }

    pub(super) fn shared(&mut self) {
        // Offsets are in bytes from the start of dynamic shared memory; tiles that are never alive together overlap.
        for shared in &self.program.shared {
            self.out.line(format!("constexpr int {}_OFFSET = {};", shared.name.to_uppercase(), shared.offset));
        }
        if self.program.kept.is_some() {
            self.out.line(format!("constexpr int KEPT_OFFSET = {};", self.program.shared_bytes.next_multiple_of(16)));
        }
        if self.program.scratch.1 > 0 {
            self.out.line(format!("constexpr int SCRATCH_OFFSET = {};", self.program.scratch.0));
        }
        self.out.blank();
    }

    /// Where shared memory's buffers lie, and what this block works on.
    pub(super) fn grid(&mut self) {
        let program = self.program;
        if program.shared_bytes > 0 || program.kept.is_some() {
            self.out.line("extern __shared__ __align__(1024) unsigned char shared[];");
        }
        for shared in &program.shared {
            self.out.line(format!(
                "{0}::element* const {1} = reinterpret_cast<{0}::element*>(shared + {2}_OFFSET);",
                tile_name(&shared.name),
                shared.name,
                shared.name.to_uppercase()
            ));
        }
        if let Some(rows) = &program.kept {
            let mut at = "shared + KEPT_OFFSET".to_string();
            for tile in &rows.tiles {
                let ty = tile.dtype.cuda();
                self.out.line(format!("{ty}* const {} = reinterpret_cast<{ty}*>({at});", tile.name));
                at = format!("{} + {} * {}", tile.name, rows.columns, program.layout(tile.layout).rows);
            }
        }
        match program.units {
            Units::Single => self.locate(),
            Units::Turns | Units::Queue(_) if program.roles_count_units => {}
            Units::Turns | Units::Queue(_) => self.units(),
        }
        if self.program.producer.is_none() {
            self.counters();
        }
    }
}
