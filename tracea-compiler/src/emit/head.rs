//! What stands before a kernel's statements: constants, layouts, the signature, and which block this is.

use super::expr::positive;
use super::{Emitter, tile_name};
use crate::nest::{AxisId, AxisKind, DimId, Extent};
use crate::program::layout::LayoutKind;
use crate::program::{Cluster, ParamType, Premise, Units, WholeTiles};

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
            self.out.line(format!("// {name}: ({}), a copy that the launch makes", dims.join(", ")));
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
            let name = self.nest.tensor(*tensor).name.to_uppercase();
            self.out.line(format!("constexpr int ALIGN_{name} = TRACEA_ALIGN_{name};"));
        }
        for scalar in &program.positive {
            let name = positive(&program.names.scalars[*scalar]);
            self.out.line(format!(
                "constexpr bool {name} = TRACEA_POSITIVE_{};",
                self.nest.scalars[*scalar].name.to_uppercase()
            ));
        }
        for condition in &program.conditions {
            let all: Vec<String> = condition.all.iter().map(|premise| self.premise(*premise)).collect();
            self.out.line(format!("constexpr bool {} = {};", condition.name, all.join(" && ")));
        }
        self.out.blank();
    }

    fn premise(&self, premise: Premise) -> String {
        let name = |tensor| self.nest.tensor(tensor).name.to_uppercase();
        match premise {
            Premise::Aligned(tensor) => format!("ALIGN_{} >= 16", name(tensor)),
            Premise::Windows(tensor) => format!("TRACEA_WINDOW_{}", name(tensor)),
            Premise::Condition(other) => self.program.condition(other).name.clone(),
        }
    }

    pub(super) fn layouts(&mut self) {
        let narrowing: Vec<String> = self
            .program
            .narrowing
            .iter()
            .map(|tensor| {
                let tensor = self.nest.tensor(*tensor);
                format!("access_bytes(ALIGN_{}) / {}", tensor.name.to_uppercase(), tensor.dtype.bytes())
            })
            .collect();
        if !narrowing.is_empty() {
            self.out.line(format!("constexpr int VEC = narrowest({});", narrowing.join(", ")));
        }
        for layout in &self.program.layouts {
            let rows = layout.row_axis.map_or("1".to_string(), |axis| self.block_name(axis));
            let cols = self.block_name(layout.col_axis);
            let text = match layout.kind {
                LayoutKind::Mma16816 { warps_m, warps_n } => format!("Mma16816<{rows}, {cols}, {warps_m}, {warps_n}>"),
                LayoutKind::Blocked { threads_m, threads_n, vec } if !narrowing.is_empty() => {
                    format!("Blocked<{rows}, {cols}, {threads_m}, {threads_n}, narrowest({vec}, VEC)>")
                }
                LayoutKind::Blocked { threads_m, threads_n, vec } => {
                    format!("Blocked<{rows}, {cols}, {threads_m}, {threads_n}, {vec}>")
                }
                LayoutKind::WholeRows { threads_m, threads_n, vec, in_turn } => {
                    let kind = if in_turn { "RowsInTurn" } else { "WholeRows" };
                    format!("{kind}<{rows}, {cols}, {threads_m}, {threads_n}, {vec}>")
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

    pub(super) fn counters(&mut self) {
        for counter in &self.program.counters {
            self.out.line(format!("int {counter} = 0;"));
        }
    }

    /// How many units of work there are: tiles, or parts of them.
    pub(super) fn units(&mut self) {
        let mut counts: Vec<String> = self.program.cluster.iter().map(|_| "CLUSTER".to_string()).collect();
        counts.extend(self.program.grid.iter().map(|grid| parenthesised(&self.count(grid.axis))));
        let parts = self.program.split.as_ref().map(|split| (split.whole.as_ref(), &split.parts));
        if let Some((None, parts)) = parts {
            counts.push(parts.clone());
        }
        let units = if counts.is_empty() { "1".to_string() } else { counts.join(" * ") };
        let units = match parts {
            Some((Some(whole), parts)) => format!("cut_units<CUT>({units}, {}, {parts})", whole.count),
            _ => units,
        };
        self.out.line(format!("const int units = {units};"));
    }

    fn is_clustered(&self, axis: AxisId) -> bool {
        self.program.cluster.is_some_and(|cluster| cluster.axis == axis)
    }

    /// Blocks along a grid axis, or clusters.
    fn count(&self, axis: AxisId) -> String {
        if self.is_clustered(axis) {
            let name = self.block_name(axis);
            return format!("({} + CLUSTER * {name} - 1) / (CLUSTER * {name})", self.extent(axis));
        }
        match self.nest.axis(axis).kind {
            AxisKind::Each if matches!(self.nest.axis(axis).extent, Extent::Dim(_)) => self.extent(axis),
            AxisKind::Each => format!("({})", self.extent(axis)),
            _ => format!("({} + {name} - 1) / {name}", self.extent(axis), name = self.block_name(axis)),
        }
    }

    /// Where this block's tile begins along an axis, by its position there, or its cluster's.
    fn first_coordinate(&mut self, axis: AxisId, position: &str) {
        let (name, block) = (self.axis_name(axis), self.block_name(axis));
        self.out.line(match self.is_clustered(axis) {
            true => format!("const int {name}0 = ({position} * CLUSTER + rank) * {block};"),
            false => format!("const int {name}0 = {position} * {block};"),
        });
    }

    /// The tile of this unit of work: the grid's axes from its linear index, the last one fastest.
    pub(super) fn locate(&mut self) {
        let program = self.program;
        let unit = self.unit.clone();
        match &program.split {
            Some(split) => {
                let (part, parts, tile) = (&split.part, &split.parts, &split.tile);
                match &split.whole {
                    Some(WholeTiles { count, by_cut, work }) => self
                        .out
                        .line(format!("const CutTile {work} = cut_tile<CUT>({unit}, {by_cut}, {count}, {parts});")),
                    None => {
                        self.out.line(format!("const int {part} = CUT ? {unit} % {parts} : 0;"));
                        self.out.line(format!("const int {tile} = CUT ? {unit} / {parts} : {unit};"));
                        self.out.line(format!("const int {} = CUT ? {parts} : 1;", split.parts_here));
                    }
                }
                if !program.grid.is_empty() {
                    self.out.line(format!("int block = {};", split.tile));
                }
            }
            None if program.cluster.is_some() => {
                // Units of a cluster are neighbours: grids are whole clusters, and a block keeps its rank.
                self.out.line(format!("const int rank = {unit} % CLUSTER;"));
                self.out.line(format!("int block = {unit} / CLUSTER;"));
            }
            None if !program.grid.is_empty() => self.out.line(format!("int block = {unit};")),
            None => {}
        }
        if program.grid.is_empty() {
            return;
        }
        let mut axes: Vec<AxisId> = program.grid.iter().map(|grid| grid.axis).collect();
        if let Some(raster) = program.raster {
            let (Some(inner), Some(outer)) = (axes.pop(), axes.pop()) else { return };
            let [rows, cols] = [outer, inner].map(|axis| {
                let what = if self.is_clustered(axis) { "clusters" } else { "blocks" };
                let name = format!("{}_{what}", self.axis_name(axis));
                self.out.line(format!("const int {name} = {};", self.count(axis)));
                name
            });
            let within = if axes.is_empty() { "block".to_string() } else { format!("block % ({rows} * {cols})") };
            self.out.line(format!("const BlockPosition at = grouped<{raster}>({within}, {rows}, {cols});"));
            if !axes.is_empty() {
                self.out.line(format!("block /= {rows} * {cols};"));
            }
            self.first_coordinate(outer, "at.row");
            self.first_coordinate(inner, "at.col");
        }
        if let (Some(together), Some(last)) = (&program.together, axes.last().copied()) {
            axes.pop();
            let name = format!("{}_blocks", self.axis_name(last));
            self.out.line(format!("const int {name} = {};", self.count(last)));
            let rows: Vec<String> = axes.iter().map(|axis| parenthesised(&self.count(*axis))).collect();
            let rows = rows.join(" * ");
            self.out.line(format!("const BlockPosition at = longest_first(block, {rows}, {name}, {together});"));
            self.out.line("block = at.row;");
            self.first_coordinate(last, "at.col");
        }
        while let Some(axis) = axes.pop() {
            let name = self.axis_name(axis);
            let total = self.count(axis);
            let index =
                if axes.is_empty() { "block".to_string() } else { format!("block % {}", parenthesised(&total)) };
            let descending = program.grid.iter().any(|grid| grid.axis == axis && grid.descending);
            let index = if descending { format!("{} - 1 - {index}", parenthesised(&total)) } else { index };
            if self.nest.axis(axis).kind == AxisKind::Each {
                self.out.line(format!("const int {name} = {index};"));
            } else {
                let index = if axes.is_empty() && !descending { index } else { format!("({index})") };
                self.first_coordinate(axis, &index);
            }
            if !axes.is_empty() {
                self.out.line(format!("block /= {};", parenthesised(&total)));
            }
        }
    }
}

fn parenthesised(text: &str) -> String {
    if text.contains(' ') { format!("({text})") } else { text.to_string() }
}
